"""Make samples: random inputs of a shape, exact in a precision, and changes of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnprune_verify.audit.kernel.problem.precision import KernelPrecision
from attnprune_verify.audit.kernel.problem.sample import Array, KernelSample, Mask
from attnprune_verify.audit.kernel.problem.scope import ANYTHING, KernelScope

_MOST_PACKED = 600  # chosen: tokens of packed sequences, where those of the scope are long


class Maker:
    """Makes the samples of one seed, one precision and one scope; the same name gives the same numbers."""

    def __init__(self, seed: int, precision: KernelPrecision, scope: KernelScope = ANYTHING) -> None:
        self.seed, self.precision, self.scope = seed, precision, scope

    def make(
        self, name: str, n: int, m: int, length: int | None = None, mv: int | None = None, *,
        batch: int = 1, heads: int = 2, kv_heads: int | None = None, spread: float = 1.5, masked: bool = False,
        **options: Any,
    ) -> KernelSample:  # fmt: skip
        """Normal q, k, v, do of sizes near these; q is scaled so that logits have the standard deviation `spread`."""
        sizes = self.scope.fitted(batch, heads, kv_heads or heads, n, length or n, m, mv or m)
        return self._drawn_at(name, sizes, spread, masked, **options)

    def _drawn_at(
        self, name: str, sizes: tuple[int, ...], spread: float = 1.5, masked: bool = False, **options: Any
    ) -> KernelSample:
        rng = np.random.default_rng([self.seed, *name.encode()])
        batch, heads, kv_heads, n, length, m, mv = sizes
        options |= {"causal": True} if self.scope.causal else {}
        if options.get("alibi") is not None:
            options["alibi"] = np.resize(options["alibi"], heads)
        scale = options.get("scale") or m**-0.5
        q = rng.standard_normal((batch, heads, n, m)) * spread / (scale * np.sqrt(m))
        k, v = rng.standard_normal((batch, kv_heads, length, m)), rng.standard_normal((batch, kv_heads, length, mv))
        do = rng.standard_normal((batch, heads, n, mv))
        if masked:
            options["mask"] = self.scattered(rng, n, length, bool(options.get("causal")))
        q, k, v, do = (self.precision.exact(array) for array in (q, k, v, do))
        return KernelSample(name, self.precision, q, k, v, do, **options)

    @staticmethod
    def scattered(rng: np.random.Generator, n: int, length: int, causal: bool) -> Mask:
        """Mask of about half of the positions: one position in some rows, no row empty (causal or not)."""
        mask: Mask = rng.random((n, length)) < 0.55
        mask[::4] = False
        for i in range(n):
            mask[i, rng.integers(0, min(i + 1, length) if causal else length)] = True
        return mask

    def exact(self, sample: KernelSample, **arrays: Array) -> KernelSample:
        """The sample with some arrays replaced, rounded to the precision."""
        return sample.changed(**{name: self.precision.exact(array) for name, array in arrays.items()})

    def common(self, sample: KernelSample, offset: float) -> KernelSample:
        """All logits moved by about `offset`: feature 0 is the same in every query and in every key."""
        query = 2.0 ** np.ceil(np.log2(np.sqrt(abs(offset) / sample.factor)))
        return self.position_wise(sample, np.full(sample.k.shape[2], offset), query)

    def rising(self, sample: KernelSample, low: float, high: float) -> KernelSample:
        """Logits that climb from one key to the next: every block has a new maximum, and a causal row its last."""
        query = 2.0 ** np.ceil(np.log2(np.sqrt(max(abs(low), abs(high)) / sample.factor)))
        return self.position_wise(sample, np.linspace(low, high, sample.k.shape[2]), query)

    def position_wise(self, sample: KernelSample, logits: Array, query: float) -> KernelSample:
        """Shift each key's logits by an amount of its own, through feature 0."""
        q, k = sample.q.copy(), sample.k.copy()
        q[..., 0] = query
        k[..., 0] = logits / (query * sample.factor)
        return self.exact(sample, q=q, k=k)

    def winners(self, sample: KernelSample, size: float) -> KernelSample:
        """One key wins every row, by a gap of `size`: half of the queries look one way, half the other."""
        rng = np.random.default_rng([self.seed, 7, *sample.name.encode()])
        q, k = sample.q.copy(), sample.k.copy()
        query = 2.0 ** np.ceil(np.log2(np.sqrt(size / sample.factor)))
        levels = np.linspace(-1.0, 1.0, max(k.shape[2], 2))[: k.shape[2]]
        q[..., 0] = query * rng.choice([-1.0, 1.0], q.shape[:-1])
        for item in np.ndindex(k.shape[:2]):
            k[(*item, slice(None), 0)] = rng.permutation(levels) * size / (query * sample.factor)
        return self.exact(sample.changed(generic=False), q=q, k=k)

    def balanced(self, sample: KernelSample) -> KernelSample:
        """One key as heavy as all others together, which lie far below it, with values of another sign.

        What all logits are multiplied by wrongly shifts weight between them, and errors of single weights cancel.
        """
        length = sample.k.shape[2]
        first = np.arange(length) == length // 2
        sample = self.position_wise(sample, np.where(first, np.log(length), 0.0), 2.0)
        return self.exact(sample, v=np.where(first[:, None], 1.0, -1.0) * np.abs(sample.v))

    def forbidden(self, sample: KernelSample, size: float) -> KernelSample:
        """Allowed logits about -size, forbidden ones about +size: the last third of the keys is padding."""
        n, length = sample.q.shape[2], sample.k.shape[2]
        mask = np.ones((n, length), dtype=bool)
        mask[:, length - max(1, length // 3) :] = False
        query = 2.0 ** np.ceil(np.log2(np.sqrt(size / sample.factor)))
        return self.position_wise(sample, np.where(mask[0], -size, size), query).changed(mask=mask)

    @staticmethod
    def padded(sample: KernelSample) -> KernelSample:
        """Mask that no query may read: three keys within a block, and the last third, which begins within a block."""
        mask = np.ones((sample.q.shape[2], sample.k.shape[2]), dtype=bool)
        mask[:, [key for key in (5, 18, 19) if key < mask.shape[1]]], mask[:, 2 * mask.shape[1] // 3 :] = False, False
        return sample.changed(mask=mask)

    @staticmethod
    def late(sample: KernelSample) -> KernelSample:
        """The last few keys alone are seen: blocks without any come first."""
        mask = np.zeros((sample.q.shape[2], sample.k.shape[2]), dtype=bool)
        mask[:, -5:] = True
        late = sample.changed(mask=mask)
        return late.without_new_empty_rows(False) or late

    @staticmethod
    def holed(sample: KernelSample) -> KernelSample:
        """All but a key or two in every third row: tiles whose edges are allowed have forbidden positions inside."""
        n, length = sample.q.shape[2], sample.k.shape[2]
        i, j = np.arange(n)[:, None], np.arange(length)
        return sample.changed(mask=(i % 3 != 1) | ((7 * i + j) % 31 != 0))

    @staticmethod
    def packed(sample: KernelSample) -> KernelSample:
        """Several texts in one row of tokens: positions of the same text see each other."""
        text = np.searchsorted(np.array([23, 53, 59]), np.arange(sample.q.shape[2]), side="right")
        return sample.changed(mask=text[:, None] == text)

    def _drawn(self, sample: KernelSample, what: str) -> np.random.Generator:
        return np.random.default_rng([self.seed, *f"{what} {sample.name}".encode()])

    def biased(self, sample: KernelSample, kind: str) -> KernelSample:
        """Add a normal bias: "full", the same for all samples ("heads"), all heads ("batch"), or both ("row")."""
        batch, heads, _, n, length, *_ = sample.shape
        first = {"full": (batch, heads), "heads": (1, heads), "batch": (batch, 1), "row": (1, 1)}[kind]
        bias = self._drawn(sample, "bias").standard_normal((*first, n, length))
        return self.exact(sample, bias=bias)

    def sunk(self, sample: KernelSample, level: float = 0.0) -> KernelSample:
        """Add sinks around a level."""
        return self.exact(sample, sinks=level + self._drawn(sample, "sinks").standard_normal(sample.shape[1]))

    def dropped(self, sample: KernelSample, keep: float = 0.75) -> KernelSample:
        """Add dropout: weights stay with a probability."""
        batch, heads, _, n, length, *_ = sample.shape
        return sample.changed(
            dropout=self._drawn(sample, "dropout").random((batch, heads, n, length)) < keep, keep=keep
        )

    def pulled(self, sample: KernelSample) -> KernelSample:
        """Add a cotangent of log sum exp."""
        return self.exact(sample, dlse=self._drawn(sample, "dlse").standard_normal(sample.do.shape[:3]))

    def packed_from(
        self,
        name: str,
        queries: tuple[int, ...],
        keys: tuple[int, ...],
        m: int = 8,
        mv: int | None = None,
        **options: Any,
    ) -> KernelSample:
        """Sequences of lengths near these, one after the other; none where the length is 0."""
        lengths = []
        for pair in zip(queries, keys, strict=True):
            n, length = self.scope.tokens(*(size or 1 for size in pair))
            none = self.scope.square and 0 in pair
            lengths.append((0 if none or not pair[0] else n, 0 if none or not pair[1] else length))
            if max(map(sum, zip(*lengths, strict=True))) > _MOST_PACKED:
                break
        sides = tuple(zip(*lengths, strict=True))
        heads = options.pop("heads", 2)
        sizes = self.scope.fitted(1, heads, options.pop("kv_heads", heads), 1, 1, m, mv or m)
        shape = (1, *sizes[1:3], *map(sum, sides), *sizes[5:])
        ends = tuple(tuple(int(end) for end in np.cumsum(side)) for side in sides)
        return self._drawn_at(name, shape, **options).changed(ends=ends)

    def scaled(self, sample: KernelSample, **factors: float) -> KernelSample:
        return self.exact(sample, **{name: getattr(sample, name) * factor for name, factor in factors.items()})

    def equal_rows(self, sample: KernelSample) -> KernelSample:
        """All keys equal, all queries equal: uniform weights."""
        q, k = sample.q.copy(), sample.k.copy()
        q[...], k[...] = q[:, :, :1], k[:, :, :1]
        return sample.changed(q=q, k=k, generic=False)

    def zeros(self, sample: KernelSample) -> KernelSample:
        """Zeros of both signs, in whole rows and scattered, and a value head of zeros."""
        arrays = {}
        for index, name in enumerate(("q", "k", "v", "do")):
            array = getattr(sample, name).copy()
            array.reshape(-1)[index::3] = 0.0
            array.reshape(-1)[index::5] = -0.0
            array[:, :, -1] = -0.0
            arrays[name] = array
        return sample.changed(**arrays, generic=False)

    def subnormal(self, sample: KernelSample) -> KernelSample:
        """Some entries far below the smallest normal number, which may be lost."""
        arrays = {}
        for index, name in enumerate(("q", "k", "v", "do")):
            array = getattr(sample, name).copy()
            array.reshape(-1)[index::4] = self.precision.tiny / 8
            arrays[name] = array
        return self.exact(sample.changed(generic=False), **arrays)


def filled(sample: KernelSample, factor: float = 1.0) -> KernelSample:
    """The sample with q, k, v and do from a formula of one line, quarters up to `factor`; its features are kept."""
    rng = np.random.default_rng(0)
    arrays = {
        name: sample.precision.exact(rng.integers(-4, 5, getattr(sample, name).shape) / 4 * factor)
        for name in ("q", "k", "v", "do")
    }
    return sample.changed(fill_factor=factor, **arrays)
