"""A sample of the audit from anyone's arrays: here, and nowhere after, shapes, types and values are validated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from attnprune_verify.audit.kernel.problem.conventions import Conventions
from attnprune_verify.audit.kernel.problem.integers import ListedSample, PagedSample, from_pages
from attnprune_verify.audit.kernel.problem.precision import precision_named
from attnprune_verify.audit.kernel.problem.sample import Array, KernelSample
from attnprune_verify.audit.kernel.tensors.arrays import read, read_integers
from attnprune_verify.audit.kernel.tensors.integers import listed, paged, table_of
from attnprune_verify.audit.kernel.typing import Foreign
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.values import as_count, as_positive

_MOST_EQUAL = 1 / 16  # chosen: in random arrays no number is as frequent, in bfloat16 neither (0.4 % of normal ones)

_LOOKED_AT = 2**14  # chosen: among so many numbers those that are frequent show


@dataclass(frozen=True, eq=False)
class GivenProblem:
    """A sample, and how the caller's arrays lie: packed (total, heads, m), or with leading axes left out."""

    sample: KernelSample
    packed: bool
    missing: int

    def inward(self, name: str, array: Array) -> Array:
        """A result of the caller as the sample has it.

        Raises
        ------
        InvalidInstance
            If its shape is another one.
        """
        if name in ("dbias", "dsinks"):
            part = self.sample.bias if name == "dbias" else self.sample.sinks
            assert part is not None
            shape, own = part.shape, array.reshape(part.shape) if array.size == part.size else array
        else:
            batch, heads, kv_heads, n, length, m, mv = self.sample.shape
            shape = {"o": (batch, heads, n, mv), "lse": (batch, heads, n), "dq": (batch, heads, n, m),
                     "dk": (batch, kv_heads, length, m), "dv": (batch, kv_heads, length, mv)}[name]  # fmt: skip
            own = _lifted(array, self.packed and name != "lse", self.missing)
        if own.shape != shape:
            raise InvalidInstance(
                f"{name} must have the shape {self.outward(name, np.empty(shape)).shape}; got {array.shape}"
            )
        return np.asarray(own)

    def outward(self, name: str, array: Foreign) -> Foreign:
        """An array of the sample as the caller has it."""
        if name in ("dbias", "dsinks"):
            return array
        if self.packed:
            return np.swapaxes(array[0], 0, 1) if array.ndim == 4 else array[0]
        return array[(0,) * self.missing]

    def place(self, name: str, index: tuple[int, ...]) -> tuple[int, ...]:
        """An index into the sample's array as one into the caller's."""
        if name in ("dbias", "dsinks"):
            return index
        if self.packed:
            return (index[2], index[1], index[3]) if len(index) == 4 else index[1:]
        return index[self.missing :]


def problem_of(
    q: Foreign, k: Foreign, v: Foreign, do: Foreign = None, *, dlse: Foreign = None, causal: bool = False,
    scale: float | None = None, mask: Foreign = None, window: int | None = None, softcap: float | None = None,
    alibi: Foreign = None, bias: Foreign = None, sinks: Foreign = None, dropout_mask: Foreign = None,
    dropout_keep: float | None = None, cu_seqlens_q: Foreign = None, cu_seqlens_k: Foreign = None,
    indices: Foreign = None, block_table: Foreign = None, lengths: Foreign = None,
    dtype: str | None = None, conventions: Mapping[str, Foreign] | None = None,
) -> GivenProblem:  # fmt: skip
    """Return the caller's problem as a sample.

    Raises
    ------
    InvalidInstance
        If shapes do not fit together, numbers are none of `dtype`, or something that is read is not finite.
    """
    (q, own), (k, _), (v, _) = (read(name, value) for name, value in (("q", q), ("k", k), ("v", v)))
    precision = precision_named(dtype or own)
    packed, missing = cu_seqlens_q is not None, 4 - q.ndim
    table, counts = None, None
    if block_table is not None or lengths is not None:
        beside = {"cu_seqlens_q": cu_seqlens_q, "indices": indices, "do": do}
        if named := [name for name, part in beside.items() if part is not None]:
            raise InvalidInstance(f"block_table must not stand beside {', '.join(named)}: leave out one or the other")
        table, counts = table_of(block_table, lengths, k, v, len(q))
        k, v = from_pages(k, table), from_pages(v, table)
    if not 0 <= missing <= 2 or (packed and missing != 1) or not q.ndim == k.ndim == v.ndim:
        said = "(total, heads, m) beside cu_seqlens_q" if packed else "(batch, heads, n, m), or lack the first axes"
        raise InvalidInstance(f"q, k and v must be {said}; got {q.shape}, {k.shape} and {v.shape}")
    q, k, v = (_lifted(x, packed, missing) for x in (q, k, v))
    given = do is not None
    do = np.zeros((*q.shape[:3], v.shape[3])) if do is None else _lifted(read("do", do)[0], packed, missing)
    (batch, heads, n, m), (kv_heads, length) = q.shape, k.shape[1:3]
    fits = k.shape == (batch, kv_heads, length, m) and v.shape[:3] == (batch, kv_heads, length)
    if (
        not fits
        or not kv_heads
        or heads % kv_heads
        or do.shape != (batch, heads, n, v.shape[3])
        or 0 in q.shape + v.shape
    ):
        raise InvalidInstance(
            "q (batch, heads, n, m), k (batch, kv_heads, l, m), v (batch, kv_heads, l, mv), do (batch, heads, n, mv) "
            f"must fit together, heads a multiple of kv_heads; got {q.shape}, {k.shape}, {v.shape} and {do.shape}"
        )
    spread = (batch, heads, n, length)
    sample = KernelSample(
        "given", precision, q, k, v, do, bool(causal), None if scale is None else float(scale), _mask(mask, spread),
        window=None if window is None else as_count("window", window, least=1),
        softcap=None if softcap is None else as_positive("softcap", softcap),
        alibi=_of_heads("alibi", alibi, heads), bias=_bias(bias, spread),
        sinks=_of_heads("sinks", sinks, heads), dropout=_dropout(dropout_mask, spread),
        keep=1.0 if dropout_keep is None else float(dropout_keep), lse=True,
        dlse=None if dlse is None else _lifted(read("dlse", dlse)[0], False, missing),
        ends=_ends(cu_seqlens_q, cu_seqlens_k, n, length), conventions=Conventions.declared(conventions or {}),
        wanted=tuple(name for name, part in (("dbias", bias), ("dsinks", sinks)) if part is not None),
    )  # fmt: skip
    if sample.dlse is not None and sample.dlse.shape != (batch, heads, n):
        raise InvalidInstance(f"dlse must have the shape {(batch, heads, n)}; got {sample.dlse.shape}")
    if indices is not None:
        sample = listed(sample, _lifted(read_integers("indices", indices), False, missing))
    if table is not None and counts is not None:
        sample = paged(sample, table, counts)
    sample = _without_padding(sample)
    for name in ("q", "k", "v", "do"):
        _require_exact(name, getattr(sample, name), precision)
    random = all(_random(x) for x in (q, *_keys(sample), *([do] if given else [])))
    if isinstance(sample, ListedSample):
        random = random and sample.repeats == 1  # else roundings of a key's entries are alike
    found = sample.changed(generic=random)
    return GivenProblem(found.ordinary if isinstance(found, PagedSample) else found, packed, missing)


def _keys(sample: KernelSample) -> Iterator[Array]:
    """Yield the keys and values that are read: those of pages sample by sample, up to each length."""
    for array in (sample.k, sample.v):
        if isinstance(sample, PagedSample):
            yield from (array[item, :, :own] for item, own in enumerate(sample.lengths) if own)
        else:
            yield array


def _lifted(array: Foreign, packed: bool, missing: int) -> Foreign:
    if packed:
        return np.swapaxes(array, 0, 1)[None] if array.ndim == 3 else array
    return array[(None,) * missing]


def _mask(mask: Foreign, spread: tuple[int, ...]) -> Foreign:
    if mask is None:
        return None
    numbers, kind = read("mask", mask)
    if kind != "bool" and not np.isin(numbers, (0.0, -np.inf)).all():
        raise InvalidInstance("mask must be bool (True = may attend), or 0 and -inf; pass other numbers as bias")
    allowed = numbers != 0 if kind == "bool" else numbers == 0
    return _spread("mask", allowed if allowed.ndim > 2 else np.broadcast_to(allowed, np.broadcast_shapes(
        allowed.shape, spread[2:])), spread)  # fmt: skip


def _bias(bias: Foreign, spread: tuple[int, ...]) -> Foreign:
    if bias is None:
        return None
    numbers, _ = read("bias", bias)
    numbers = numbers.reshape((1,) * (4 - numbers.ndim) + numbers.shape)
    _spread("bias", numbers, spread)
    if numbers.shape[2:] != spread[2:]:  # the audit's contract: broadcast over samples and heads only
        raise InvalidInstance(f"bias must be (batch or 1, heads or 1, {spread[2]}, {spread[3]}); got {numbers.shape}")
    return numbers


def _spread(name: str, array: Foreign, spread: tuple[int, ...]) -> Foreign:
    try:
        np.broadcast_to(array, spread)
    except ValueError:
        raise InvalidInstance(f"{name} must broadcast to (batch, heads, n, l) = {spread}; got {array.shape}") from None
    return array


def _dropout(mask: Foreign, spread: tuple[int, ...]) -> Foreign:
    if mask is None:
        return None
    return np.broadcast_to(_spread("dropout_mask", read("dropout_mask", mask)[0] != 0, spread), spread)


def _of_heads(name: str, values: Foreign, heads: int) -> Foreign:
    if values is None:
        return None
    numbers, _ = read(name, values)
    if numbers.shape != (heads,) or not np.isfinite(numbers).all():
        raise InvalidInstance(f"{name} must be ({heads},) finite numbers, one for each head; got {numbers.shape}")
    return numbers


def _ends(of_queries: Foreign, of_keys: Foreign, n: int, length: int) -> Foreign:
    if of_queries is None and of_keys is None:
        return None
    found = []
    for name, starts, total in (("cu_seqlens_q", of_queries, n), ("cu_seqlens_k", of_keys, length)):
        numbers = read_integers(name, of_queries if starts is None else starts)
        if numbers.ndim != 1 or numbers[0] != 0 or numbers[-1] != total or (np.diff(numbers) < 0).any():
            raise InvalidInstance(f"{name} must rise from 0 to {total}; got {numbers.tolist()}")
        found.append(tuple(numbers[1:].tolist()))
    if len(found[0]) != len(found[1]):
        raise InvalidInstance(f"cu_seqlens_q and cu_seqlens_k must be as long; got {found[0]} and {found[1]}")
    return tuple(found)


def _without_padding(sample: KernelSample) -> KernelSample:
    """The sample with 0 where nothing is read, if something else than a number stands there."""
    arrays = {name: getattr(sample, name) for name in ("q", "k", "v", "do")}
    if all(np.isfinite(array).all() for array in arrays.values()):
        return sample
    keys, queries = (seen[..., None] for seen in sample.seen)
    clean = {name: np.where(queries if name in ("q", "do") else keys, array, 0.0) for name, array in arrays.items()}
    for name, array in clean.items():
        if not np.isfinite(array).all():
            place = np.argwhere(~np.isfinite(array))[0].tolist()
            raise InvalidInstance(f"{name} must be finite where it is read; got {array[tuple(place)]} at {place}")
    return sample.changed(**clean)


def _require_exact(name: str, array: Array, precision: Foreign) -> None:
    with np.errstate(over="ignore"):
        rounded = precision.exact(array)
    if not np.array_equal(rounded, array):
        place = tuple(np.argwhere(rounded != array)[0].tolist())
        raise InvalidInstance(
            f"{name} must hold numbers of {precision.name}, which a kernel of that type reads; got {array[place]} at "
            f"{list(place)}, which rounds to {rounded[place]}: round the inputs first, or name another dtype"
        )


def _random(array: Array) -> bool:
    """Return False for arrays whose roundings are alike: rows that are equal, or a number that is frequent."""
    for head in np.ascontiguousarray(array).reshape(-1, *array.shape[-2:]):
        if len({row.tobytes() for row in head}) < len(head):
            return False
    sizes = np.abs(array.ravel()[:: -(-array.size // _LOOKED_AT)])
    _, counts = np.unique(sizes, return_counts=True)
    return bool(counts.max() <= max(1.0, _MOST_EQUAL * sizes.size))
