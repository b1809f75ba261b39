"""The scope of a kernel: the sizes that it takes and the case that is plain to it. Every sample is drawn from it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

from attnprune_verify.audit.kernel.typing import Foreign, Plain
from attnprune_verify.errors import InvalidInstance

Shape: TypeAlias = tuple[int, ...]
CASES = ("causal_only", "never_causal", "decode_only", "forward_only")
"""Words of CAPABILITIES that say which case is plain, and whether there is a backward pass."""
AXES = ("batch", "heads", "kv_heads", "n", "l", "m", "mv", "group", "topk", "page_size")
_MOST_HEADS = 256  # chosen: more query heads than released models have
_ENDS = ("multiple_of", "least", "most")


def work_of(shape: Shape) -> float:
    """Multiplications of a forward pass of such a shape."""
    batch, heads, _, n, length, m, mv = shape
    return float(batch * heads * n * length * (m + mv))


@dataclass(frozen=True)
class Extent:
    """The sizes that an axis may have: those listed, or the multiples of a number between two ends."""

    values: tuple[int, ...] = ()
    multiple_of: int = 1
    least: int = 1
    most: int | None = None

    @classmethod
    def declared(cls, name: str, given: Foreign) -> Extent:
        """The sizes of a declaration.

        Raises
        ------
        InvalidInstance
            If it is no size, tuple of sizes, or mapping of "multiple_of", "least" and "most" to sizes.
        """
        ends = given if isinstance(given, Mapping) else {}
        values = tuple(given) if isinstance(given, (list, tuple)) else () if ends else (given,)
        if not (ends or values) or not set(ends) <= set(_ENDS) or not all(map(_is_size, (*values, *ends.values()))):
            said = f"{name} must be a size, a tuple of sizes, or a mapping of {', '.join(_ENDS)} to sizes"
            raise InvalidInstance(f"in SIZES {said}; got {given!r}")
        found = cls(tuple(sorted(values)), **ends)
        if found.near(1) not in found:
            raise InvalidInstance(f"in SIZES {name} must allow a size; got {given!r}")
        return found

    def __contains__(self, size: int) -> bool:
        if self.values:
            return size in self.values
        return size % self.multiple_of == 0 and self.least <= size <= (self.most or size)

    def near(self, wanted: int) -> int:
        """Return the smallest size that is not below `wanted`; the largest one where all are below."""
        if self.values:
            return next((size for size in self.values if size >= wanted), self.values[-1])
        size = -(-max(wanted, self.least) // self.multiple_of) * self.multiple_of
        largest = size if self.most is None else self.most // self.multiple_of * self.multiple_of
        return min(size, max(largest, self.least))

    def named(self, most: int) -> Iterator[int]:
        """Yield the sizes up to `most` that the declaration names: those listed, or the ends and the second."""
        ends = (self.near(1), self.near(self.near(1) + 1), *([] if self.most is None else [self.near(self.most)]))
        yield from (size for size in dict.fromkeys(self.values or ends) if size <= most)

    def source(self) -> Foreign:
        """The extent as SIZES has it."""
        if self.values:
            return self.values[0] if len(self.values) == 1 else self.values
        given = {"multiple_of": self.multiple_of, "least": self.least, "most": self.most}
        return {name: size for name, size in given.items() if size not in (1, None)}


ANY_SIZE = Extent()


@dataclass(frozen=True)
class KernelScope:
    """The sizes and the case that a kernel is written for.

    Attributes
    ----------
    extents : tuple of Extent
        By the axes batch, heads, kv_heads, n, l, m, mv and group.
    square : bool
        Whether n = l.
    same_width : bool
        Whether mv = m.
    causal : bool or None
        Whether every call is causal, or none; None: as asked.
    """

    extents: tuple[Extent, ...] = (ANY_SIZE,) * len(AXES)
    square: bool = False
    same_width: bool = False
    causal: bool | None = None

    @classmethod
    def declared(cls, sizes: Mapping[str, Foreign], capabilities: Iterable[str] = ()) -> KernelScope:
        """The scope of SIZES and CAPABILITIES.

        Raises
        ------
        InvalidInstance
            If there is no such axis, or an axis has no such sizes.

        Examples
        --------
        >>> scope = KernelScope.declared({"n": {"multiple_of": 128}, "m": (16, 64), "mv": "m"}, ("causal_only",))
        >>> scope.fitted(1, 2, 2, 7, 130, 5, 9), scope.causal
        ((1, 2, 2, 128, 130, 16, 16), True)
        """
        words = set(capabilities)
        if {"causal_only", "never_causal"} <= words:
            raise InvalidInstance("CAPABILITIES must not name both causal_only and never_causal")
        if not isinstance(sizes, Mapping):
            raise InvalidInstance(f"SIZES must be a mapping of axes to sizes; got {sizes!r}")
        for name in sizes:
            if name not in (*AXES, "n=l"):
                raise InvalidInstance(f"SIZES must name {', '.join(AXES)} or n=l; got {name!r}")
        same = sizes.get("mv") == "m"
        given = {name: sizes[name] for name in AXES if name in sizes and not (same and name == "mv")}
        if "decode_only" in words:
            given.setdefault("n", 1)
        extents = tuple(Extent.declared(name, given[name]) if name in given else ANY_SIZE for name in AXES)
        causal = True if "causal_only" in words else False if "never_causal" in words else None
        return cls(extents, bool(sizes.get("n=l")), same, causal)

    def with_extents(self, **extents: Extent) -> KernelScope:
        """The scope with some axes' sizes replaced."""
        mine = dict(zip(AXES, self.extents, strict=True)) | extents
        return replace(self, extents=tuple(mine[name] for name in AXES))

    def extent(self, axis: str) -> Extent:
        return self.extents[AXES.index(axis)]

    def named(self, axis: str, most: int) -> tuple[int, ...]:
        """Return the sizes up to `most` that a declaration of an axis names; none where there is no declaration."""
        extent = self.extent(axis)
        return () if extent == ANY_SIZE else tuple(extent.named(most))

    def fitted(self, batch: int, heads: int, kv_heads: int, n: int, length: int, m: int, mv: int) -> Shape:
        """Return the sizes of the scope that are nearest to those wanted: as large, or the largest there are.

        What is wanted to differ, n from l or m from mv, differs where the scope allows it.
        """
        heads, kv_heads = _heads(self, heads, kv_heads)
        queries, keys = self.tokens(n, length)
        width = self.extent("m").near(m)
        values = width if self.same_width else _apart(m, mv, self.extent("m"), self.extent("mv"))[1]
        return self.extent("batch").near(batch), heads, kv_heads, queries, keys, width, values

    def tokens(self, n: int, length: int) -> tuple[int, int]:
        """Return n and l nearest to those wanted; where they must be equal, with about as many logits.

        A kernel that takes one query alone is asked as many keys as wanted, not one.
        """
        if not self.square and self.extent("n").values == (1,):
            return 1, self.extent("l").near(length)
        if not self.square:
            return _apart(n, length, self.extent("n"), self.extent("l"))
        size = n if n == length else math.isqrt(n * length)
        queries, keys = self.extent("n"), self.extent("l")
        size = queries.near(size)
        while size not in keys and queries.near(size + 1) > size:
            size = queries.near(size + 1)
        return size, size

    def excludes(self, sample: Any) -> str | None:
        """Say why a sample is outside of the scope; None where it is inside. Packed sequences count one by one."""
        if self == ANYTHING:
            return None
        batch, heads, kv_heads, n, length, m, mv = sample.shape
        pairs = ((n, length),) if sample.ends is None else _pairs(sample.ends)
        asked = [("heads", heads), ("kv_heads", kv_heads), ("m", m), ("mv", mv), ("group", heads // kv_heads)]
        asked += [("batch", batch)] if sample.ends is None else []
        for pair in pairs:
            asked += [(axis, size) for axis, size in zip(("n", "l"), pair, strict=True) if size]
            if self.square and pair[0] != pair[1]:
                return "n and l are equal, as SIZES says"
        for axis, size in asked:
            if size not in self.extent(axis):
                return f"{axis} = {size} is none of the sizes of this kernel"
        if self.same_width and m != mv:
            return "mv and m are equal, as SIZES says"
        if self.causal is not None and sample.causal != self.causal:
            return "every call is causal: causal_only" if self.causal else "no call is causal: never_causal"
        return None

    def source(self, beside: Iterable[str] = ()) -> tuple[str, ...]:
        """The lines that declare this scope, with other words of CAPABILITIES in theirs."""
        one_query = self.extent("n") == Extent((1,))
        sizes: Plain = {
            name: extent.source()
            for name, extent in zip(AXES, self.extents, strict=True)
            if extent != ANY_SIZE and not (name == "mv" and self.same_width) and not (name == "n" and one_query)
        }
        sizes |= {"mv": "m"} if self.same_width else {}
        sizes |= {"n=l": True} if self.square else {}
        words = [*beside, *(["decode_only"] if one_query else [])]
        words += [] if self.causal is None else ["causal_only" if self.causal else "never_causal"]
        lines = {"SIZES": sizes, "CAPABILITIES": tuple(dict.fromkeys(words))}
        return tuple(f"{name} = {value!r}".replace("'", '"') for name, value in lines.items() if value)


ANYTHING = KernelScope()


def _apart(wanted: int, beside: int, of_first: Extent, of_second: Extent) -> tuple[int, int]:
    """Return two sizes near those wanted, which are equal or differ as those wanted do, if the second may be so."""
    first, second = of_first.near(wanted), of_second.near(beside)
    if wanted == beside and first in of_second:
        second = first
    if wanted != beside and first == second:
        second = of_second.near(second + 1)
        if second == first and first != of_second.near(1):
            second = of_second.near(1)
    return first, second


@lru_cache(maxsize=256)
def _heads(scope: KernelScope, heads: int, kv_heads: int) -> tuple[int, int]:
    """Return the numbers of query and key heads nearest to those wanted: first in their quotient, then in size."""
    wanted, own, shared, groups = heads // kv_heads, *(scope.extent(axis) for axis in ("heads", "kv_heads", "group"))
    if own == shared == groups == ANY_SIZE:
        return heads, kv_heads
    allowed = [
        (many, many // group)
        for many in range(1, max(_MOST_HEADS, own.near(heads), shared.near(kv_heads)) + 1)
        for group in range(1, many + 1)
        if many % group == 0 and many in own and many // group in shared and group in groups
    ]
    if not allowed:
        raise InvalidInstance("SIZES must allow heads that are a multiple of kv_heads and of group")
    return min(allowed, key=lambda pair: (abs(pair[0] // pair[1] - wanted), pair[0] < heads, abs(pair[0] - heads)))


def described(accepted: Iterable[int], refused: Iterable[int]) -> Extent:
    """Describe the sizes that were accepted: by multiples and ends where nothing refused is among them, else listed.

    Examples
    --------
    >>> described((128, 256, 384), (64, 129, 192))
    Extent(values=(), multiple_of=128, least=128, most=None)
    >>> described((16, 32, 64, 128), (8, 48, 256)).source()
    (16, 32, 64, 128)
    """
    taken, left = sorted(set(accepted)), set(refused)
    step = math.gcd(*taken)
    bounded = any(size > taken[-1] and size % step == 0 for size in left)
    least = taken[0] if any(size < taken[0] and size % step == 0 for size in left) else step
    found = Extent((), step, least, taken[-1] if bounded else None)
    return Extent(tuple(taken)) if any(size in found for size in left) else found


def _pairs(ends: tuple[Shape, Shape]) -> tuple[tuple[int, int], ...]:
    """The lengths of packed sequences, of queries and of keys."""
    lengths = [[stop - start for start, stop in zip((0, *side), side, strict=False)] for side in ends]
    return tuple(zip(*lengths, strict=True))


def _is_size(value: Foreign) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
