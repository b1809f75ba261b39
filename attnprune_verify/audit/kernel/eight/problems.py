"""Problems for kernels of eight bits: stored numbers with scales, or wide numbers that the kernel stores itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.kernel.problem.conventions import Conventions
from attnprune_verify.audit.kernel.problem.eight_bits import EIGHT_BITS
from attnprune_verify.audit.kernel.problem.precision import PRECISIONS, of_recipe
from attnprune_verify.audit.kernel.problem.recipe import STORED, Block, Recipe, Storage
from attnprune_verify.audit.kernel.problem.sample import Array, KernelSample
from attnprune_verify.audit.kernel.problem.scope import KernelScope

LENGTHS = ((17, 17), (64, 64), (24, 300), (8, 1024))
"""Queries and keys. Chosen: odd, a tile, many tiles and a rest, long."""
_WIDTH = 64  # chosen: the least width of many kernels of eight bits
_SIGMAS = 8.0  # standard deviations of stored numbers that a format holds; chosen: normal numbers do not reach them
_SPREAD = 1.5  # standard deviation of the logits; chosen, as of other samples
_OF_ROUNDED = 0.7  # the same where q and k are rounded to eight bits; chosen: more moves weights by their own size
_BEYOND = 1.055  # rounds to 1 in three bits of fraction, where numbers are 1/8 apart; chosen: nearly as far as can be
_BESIDE = 0.003  # relative distance of weights from what they round to; chosen: far more than exp errs
_LONGEST_SQUARE = 512  # keys where every call is causal, with as many queries; chosen: a second of judging
_NEGLIGIBLE = 80.0  # below the largest logit of a row: exp(-80) is far below what float32 adds to 1


@dataclass(frozen=True, eq=False)
class EightProblem:
    """The inputs of a kernel, and the sample of attention that they stand for.

    Attributes
    ----------
    sample : KernelSample
        With q, k and v as they are decoded, or as they are given to a kernel that stores them itself.
    stored : dict
        Numbers of q, k and v as they lie in memory, before their scales.
    scales : dict
        The factors of q, k and v that the kernel takes: each times a stored number is the decoded one.
    """

    sample: KernelSample
    stored: dict[str, Array]
    scales: dict[str, Array]
    recipe: Recipe

    def laid_down(self) -> list[NDArray[Any]]:
        """Return q, k and v as they lie in memory: bytes of formats of eight bits, bits of bfloat16."""
        return [_in_memory(self.recipe.given_as(name), self.stored[name]) for name in STORED]

    def with_scales(self, power: dict[str, int]) -> KernelSample:
        """The sample as it would be with each scale raised to a power: 0 leaves it out, 2 uses it twice."""
        arrays = {}
        for name in power.keys() & self.scales.keys():
            size = _everywhere(self.scales[name], self._block(name), self.sample, name)
            arrays[name] = self.stored[name] * size ** power[name]
        return self.sample.changed(**arrays)

    def with_first_scale(self, name: str) -> KernelSample:
        """The sample as it would be with the first scale of q, k or v for all blocks."""
        return self.sample.changed(**{name: self.stored[name] * self.scales[name].flat[0]})

    def read_as(self, kind: str) -> KernelSample:
        """The sample as it would be with the bytes read as those of another format, or with numbers stored in it."""
        arrays = {}
        for name in STORED:
            own, meant = self.recipe.format_of(name), EIGHT_BITS[kind]
            if own not in EIGHT_BITS:
                continue
            if self.recipe.encodes:
                size = 2.0 ** np.round(np.log2(np.abs(self.stored[name]).max())) / 2.0 ** int(np.log2(meant.largest))
                arrays[name] = meant.exact(self.stored[name] / size) * size
            else:
                found = np.nan_to_num(meant.decoded(EIGHT_BITS[own].encoded(self.stored[name])))
                scales = self.scales.get(name, np.ones(()))
                block = self._block(name) if scales.ndim else "tensor"
                arrays[name] = found * _everywhere(scales, block, self.sample, name)
        return self.sample.changed(**arrays)

    def _block(self, name: str) -> Block:
        return self.recipe.blocks[STORED.index(name)]


@dataclass(frozen=True)
class ProblemMaker:
    """Makes problems of one recipe, in the sizes of a kernel.

    Attributes
    ----------
    taken : tuple of str
        Those of q, k and v whose scales the kernel takes.
    """

    dtype: str
    recipe: Recipe
    taken: tuple[str, ...]
    scope: KernelScope
    conventions: Conventions
    seed: int

    def plain(self, name: str, n: int, length: int, heads: int = 2, kv_heads: int = 2, **options: Any) -> EightProblem:
        """Normal numbers that are stored exactly, with scales that differ from block to block."""
        sizes, rng = self._sizes(n, length, heads, kv_heads), self._rng(name)
        arrays = self._normal(rng, sizes, _SPREAD)
        return self._made(name, arrays, rng, **options)

    def rounded(self, name: str, n: int, length: int, **options: Any) -> EightProblem:
        """Normal numbers that a kernel has to round to store them."""
        sizes, rng = self._sizes(n, length), self._rng(name)
        wide = PRECISIONS[self.recipe.inputs]
        arrays = {part: wide.exact(array) for part, array in self._normal(rng, sizes, _OF_ROUNDED).items()}
        return self._as_given(name, arrays, **options)

    def far_levels(self, name: str, summed: bool = False) -> EightProblem:
        """One key far above all others, whose weights sum to a third of all, and are lost in e4m3 without a factor."""
        rng = self._rng(name)
        arrays = self._normal(rng, self._sizes(4, 1024), 1.0)
        lows = -rng.uniform(7.0, 8.5, arrays["k"].shape[:3])
        lows[..., 17 % arrays["k"].shape[2]] = 0.0
        return self._by_levels(name, arrays, lows, rng, summed)

    def same_way(self, name: str) -> EightProblem:
        """All weights but the largest lose what is beyond 1/32 in either format; v = 1."""
        rng = self._rng(name)
        arrays = self._normal(rng, self._sizes(4, 300), 1.0)
        lows = np.full(arrays["k"].shape[:3], np.log(_BEYOND / 32))
        lows[..., 17 % arrays["k"].shape[2]] = 0.0
        return self._by_levels(name, arrays, lows, rng, summed=True)

    def equal_rows(self, name: str, summed: bool = False) -> EightProblem:
        """All keys of a row alike: uniform weights."""
        rng = self._rng(name)
        arrays = self._normal(rng, self._sizes(8, 300), 1.0)
        found = self._by_levels(name, arrays, np.zeros(arrays["k"].shape[:3]), rng, summed)
        return found if self.recipe.rounded == "divided" else _held(found, 0.0)  # every weight is exp(0)

    def ones(self, name: str, n: int, length: int) -> EightProblem:
        """v = 1: the output is the sum of a row's weights."""
        rng = self._rng(name)
        arrays = self._normal(rng, self._sizes(n, length), _SPREAD)
        arrays["v"] = np.ones_like(arrays["v"])
        return self._made(name, arrays, rng, powers=True, peaked=("q", "k"), generic=False)

    def extremes(self, name: str) -> EightProblem:
        """Values at the ends of the format: the largest, subnormal ones, zeros of both signs."""
        rng = self._rng(name)
        arrays = self._normal(rng, self._sizes(17, 64), _SPREAD)
        kind = self.recipe.v if self.recipe.v in EIGHT_BITS else "float8_e4m3fn"
        form = EIGHT_BITS[kind]
        ends = np.array([form.largest, form.largest / 2, 4 * form.lost, 2 * form.lost, 0.0]) * 2.0**-8
        arrays["v"] = rng.choice(ends, arrays["v"].shape) * rng.choice([-1.0, 1.0], arrays["v"].shape)
        return self._made(name, arrays, rng, fixed={"v": 2.0**-8}, powers=True, generic=False)

    def exact_weights(self, name: str) -> EightProblem:
        """Weights that round to numbers of the format of p, in any order of blocks, and to none of a coarser one.

        Sixteen keys of weight c = 9/16 (5/8 of two fraction bits: eight) beside some of weight 1, which together make
        a power of two, so that also weights that are divided first are held; further keys weigh nothing. Half of the
        sixteen are a little less than c, half a little more: rounded to one side they would be others.
        """
        rng = self._rng(name)
        whole, part = (8, 5) if self.recipe.p == "float8_e5m2" else (16, 9)
        arrays = self._normal(rng, self._sizes(4, 2 * whole - part), 1.0)
        length = arrays["k"].shape[2]
        levels = np.full(length, -_NEGLIGIBLE)
        levels[:whole] = np.log(part / whole) + _BESIDE * np.where(np.arange(whole) % 2, 1.0, -1.0)
        levels[whole : 2 * whole - part] = 0.0
        found = self._by_levels(name, arrays, np.broadcast_to(rng.permutation(levels), arrays["k"].shape[:3]), rng)
        logits = found.sample.factor * np.swapaxes(found.sample.k, -1, -2)[:, :, 2:].sum(axis=2)
        weights = np.exp(logits - logits.max())
        near = weights > 0.25
        within = float(np.abs(np.where(near, weights / np.where(weights > 0.8, 1, part / whole), 1) - 1).max())
        return _held(found, 2 * within + 2.0**-22)  # twice: a block may have none of weight 1

    def one_key(self, name: str) -> EightProblem:
        """A single key, or others that weigh nothing: what was stored comes out, to the bit."""
        rng = self._rng(name)
        arrays = self._normal(rng, self._sizes(3, 1), 1.0)
        levels = np.full(arrays["k"].shape[:3], -_NEGLIGIBLE)
        levels[..., 0] = 0.0
        kinds = [EIGHT_BITS[kind] for kind in (self.recipe.v, self.recipe.o) if kind in EIGHT_BITS]
        numbers = 2.0 ** rng.integers(-3, 4, arrays["v"].shape) * rng.integers(8, 16, arrays["v"].shape) / 8
        for form in kinds:
            numbers = form.exact(numbers)
        arrays["v"] = numbers * rng.choice([-1.0, 1.0], numbers.shape)
        return self._by_levels(name, arrays, levels, rng)

    def future(self, name: str) -> tuple[EightProblem, EightProblem, int]:
        """Two causal problems with the same tokens up to one inside a block, which is returned, too."""
        rng, blocks = self._rng(name), [block for block in self.recipe.blocks if isinstance(block, int)]
        tokens = max([16, *blocks])
        sizes = self._sizes(2 * tokens, 2 * tokens)
        cut = sizes[3] // 2 + max(min([tokens, *blocks]) // 2, 1)
        arrays = self._normal(rng, sizes, _SPREAD)
        later = {part: array.copy() for part, array in arrays.items()}
        if not self.recipe.encodes:
            scales = self._scales(rng, sizes, arrays, False, {})
            for part, array in later.items():
                array[:, :, cut:] = 2 * self._rng(f"{name} {part}").standard_normal(array[:, :, cut:].shape)
            first, second = (self._stored(name, given, scales, causal=True) for given in (arrays, later))
            return first, second, cut
        wide = PRECISIONS[self.recipe.inputs]
        for array in later.values():
            array[:, :, cut:] *= -64.0
        first, second = (
            self._as_given(name, {part: wide.exact(array) for part, array in given.items()}, causal=True)
            for given in (arrays, later)
        )
        return first, second, cut

    def _sizes(self, n: int, length: int, heads: int = 2, kv_heads: int = 2) -> tuple[int, ...]:
        if self.scope.causal:  # judged with as many queries as keys
            n = length = min(length, _LONGEST_SQUARE)
        return self.scope.fitted(1, heads, kv_heads, n, length, _WIDTH, _WIDTH)

    def _rng(self, name: str) -> np.random.Generator:
        return np.random.default_rng([self.seed, *name.encode()])

    def _normal(self, rng: np.random.Generator, sizes: tuple[int, ...], spread: float) -> dict[str, Array]:
        batch, heads, kv_heads, n, length, m, mv = sizes
        q = spread * rng.standard_normal((batch, heads, n, m))
        k = rng.standard_normal((batch, kv_heads, length, m))
        return {"q": q, "k": k, "v": rng.standard_normal((batch, kv_heads, length, mv))}

    def _by_levels(
        self, name: str, arrays: dict[str, Array], levels: Array, rng: np.random.Generator, summed: bool = False
    ) -> EightProblem:
        """Logits at given levels: q is 1 beyond two features, and k a sum of stored numbers there."""
        m = arrays["q"].shape[-1]
        arrays["q"] = np.zeros_like(arrays["q"])
        arrays["q"][..., 2:] = 1.0
        arrays["v"] = np.ones_like(arrays["v"]) if summed else arrays["v"]
        left, k = levels * np.sqrt(m), np.zeros_like(arrays["k"])
        kind, size = self.recipe.k, 2.0**-4 if self._scaled("k") else 1.0
        for place in range(2, m):
            if not left.any():
                break
            k[..., place] = _exact(kind, left / size) * size
            left = left - k[..., place]
        arrays["k"] = k
        peaked = ("q", "k") if summed else STORED
        return self._made(name, arrays, rng, fixed={"k": size}, powers=True, peaked=peaked, generic=False)

    def _scaled(self, name: str) -> bool:
        """True where stored numbers of q, k or v have a scale."""
        return self.recipe.format_of(name) in EIGHT_BITS and (self.recipe.encodes or name in self.taken)

    def _made(
        self, name: str, arrays: dict[str, Array], rng: np.random.Generator, *, powers: bool = False,
        fixed: dict[str, float] | None = None, peaked: tuple[str, ...] = STORED, **options: Any,
    ) -> EightProblem:  # fmt: skip
        """Numbers that are stored exactly; of a kernel that stores them itself, with the largest number in each row."""
        batch, heads, n, m = arrays["q"].shape
        sizes = (batch, heads, arrays["k"].shape[1], n, arrays["k"].shape[2], m, arrays["v"].shape[3])
        scales = self._scales(rng, sizes, arrays, powers or self.recipe.encodes, fixed or {})
        return self._stored(name, arrays, scales, peaked, **options)

    def _scales(
        self, rng: np.random.Generator, sizes: tuple[int, ...], arrays: dict[str, Array], powers: bool,
        fixed: dict[str, float],
    ) -> dict[str, Array]:  # fmt: skip
        """Scales, unlike from block to block; powers of two where a kernel finds them from the largest number."""
        found = {}
        for name, block in zip(STORED, self.recipe.blocks, strict=True):
            if not self._scaled(name):
                continue
            shape = _shape(block, sizes, name)
            base = _SIGMAS / EIGHT_BITS[self.recipe.format_of(name)].largest
            drawn = np.asarray(base * 2.0 ** rng.uniform(-1, 1, shape), dtype=np.float64)
            drawn = np.exp2(np.round(np.log2(drawn))) if powers else drawn
            given = np.full(shape, fixed[name]) if name in fixed else drawn
            found[name] = np.asarray(given, dtype=np.float32).astype(np.float64)
        return found

    def _stored(
        self, name: str, arrays: dict[str, Array], scales: dict[str, Array], peaked: tuple[str, ...] = STORED,
        **options: Any,
    ) -> EightProblem:  # fmt: skip
        precision = of_recipe(self.dtype, self.recipe, Storage())
        shaped = self._of(name, precision, arrays, arrays, {}).sample
        numbers, decoded = {}, {}
        if self.recipe.encodes:  # features with peaks of q or k, in no logit
            arrays["q"][..., 1], arrays["k"][..., 0] = 0.0, 0.0
        for part, block in zip(STORED, self.recipe.blocks, strict=True):
            kind = self.recipe.format_of(part)
            size = _everywhere(scales[part], block, shaped, part) if part in scales else np.ones(1)
            numbers[part] = _exact(kind, arrays[part] / size)
            if self.recipe.encodes and kind in EIGHT_BITS and part in peaked:
                numbers[part][..., STORED.index(part) % 2] = EIGHT_BITS[kind].largest
            decoded[part] = numbers[part] * size
        if self.recipe.encodes:
            numbers, scales = decoded, {}
        return self._of(name, precision, decoded, numbers, scales, **options)

    def _as_given(self, name: str, arrays: dict[str, Array], **options: Any) -> EightProblem:
        """Numbers as they are, for a kernel that rounds them itself."""
        q, k, v = (float(np.abs(arrays[part]).max()) for part in STORED)
        return self._of(name, of_recipe(self.dtype, self.recipe, Storage((q, k, v))), arrays, arrays, {}, **options)

    def _of(
        self, name: str, precision: Any, decoded: dict[str, Array], stored: dict[str, Array], scales: dict[str, Array],
        **options: Any,
    ) -> EightProblem:  # fmt: skip
        q, k, v = (decoded[part] for part in STORED)
        if self.scope.causal:
            options["causal"] = True
        do = np.zeros((*q.shape[:3], v.shape[3]))
        sample = KernelSample(name, precision, q, k, v, do, conventions=self.conventions, **options)
        return EightProblem(sample, stored, scales, self.recipe)


def _held(problem: EightProblem, within: float) -> EightProblem:
    """The problem, with weights that the format of p holds within a relative distance."""
    precision = problem.sample.precision
    storage = replace(precision.storage, exact_within=within)
    return replace(problem, sample=problem.sample.changed(precision=replace(precision, storage=storage)))


def _exact(kind: str, numbers: Array) -> Array:
    """The nearest numbers of a format."""
    return EIGHT_BITS[kind].exact(numbers) if kind in EIGHT_BITS else PRECISIONS[kind].exact(numbers)


def _in_memory(kind: str, numbers: Array) -> NDArray[Any]:
    return EIGHT_BITS[kind].encoded(numbers) if kind in EIGHT_BITS else PRECISIONS[kind].laid_down(numbers)


def _shape(block: Block, sizes: tuple[int, ...], name: str) -> tuple[int, ...]:
    """The shape of the scales of q, k or v."""
    batch, heads, kv_heads, n, length, *_ = sizes
    own, tokens = (heads, n) if name == "q" else (kv_heads, length)
    if isinstance(block, int):
        return (batch, own, -(-tokens // block))
    return {"tensor": (), "head": (batch, own), "kv_head": (batch, kv_heads), "row": (batch, own, tokens)}[block]


def _everywhere(scales: Array, block: Block, sample: KernelSample, name: str) -> Array:
    """Scales of each token, (batch, heads, tokens or 1, 1), or of all."""
    if block == "tensor":
        return scales
    tokens = sample.shape[3] if name == "q" else sample.shape[4]
    if isinstance(block, int):
        return np.asarray(np.repeat(scales, block, axis=2)[:, :, :tokens, None])
    scales = scales[:, sample.key_heads] if block == "kv_head" else scales
    return scales[..., None] if block == "row" else scales[..., None, None]
