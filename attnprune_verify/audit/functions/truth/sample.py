"""One instance of an audit, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from attnprune_verify.audit.functions.truth.precision import FLOAT64, Precision
from attnprune_verify.audit.naming.shrink import FEW, SMALLEST, by_formula, fewer, formula_of, rounded, shorter
from attnprune_verify.instance.rope import RoPE

Real = NDArray[np.floating[Any]]
ARRAYS = ("X", "W", "M", "V", "W_Q", "W_K", "M_Q", "M_K")
_SQUARE, _PAIR = ("W", "M", "V"), ("W_Q", "W_K", "M_Q", "M_K")


@dataclass(frozen=True, eq=False)
class Sample:
    """One instance with the arguments of every function of the contract; its numbers are exact in one precision.

    Attributes
    ----------
    b_Q, b_K, heads, kv_heads, scale, rope, window, softcap, alibi
        Of a layer, as the arguments of `AttentionLayer`.
    causal : bool
        Whether the layer's mask is "causal"; else it is `mask`.
    """

    MASKS: ClassVar[tuple[str, ...]] = ("M", "M_Q", "M_K")
    name: str
    X: Real
    W: Real
    M: Real
    V: Real
    W_Q: Real
    W_K: Real
    M_Q: Real
    M_K: Real
    lam: float
    mask: NDArray[np.float64] | None
    seed: int
    precision: Precision = FLOAT64
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)
    heads: int = 1
    kv_heads: int = 1
    b_Q: Real | None = None
    b_K: Real | None = None
    scale: float | None = None
    rope: RoPE | None = None
    causal: bool = False
    window: int | None = None
    softcap: float | None = None
    alibi: Real | None = None

    @property
    def n(self) -> int:
        return int(self.X.shape[-2])

    @property
    def d(self) -> int:
        return int(self.X.shape[-1])

    @property
    def m(self) -> int:
        """Features of a head, or inner features of a pair of weights."""
        return int(self.W_Q.shape[1]) // self.heads

    @property
    def factor(self) -> float:
        """The scale of the logits, given or not; a fused weight has none."""
        return 1.0

    @property
    def restricted(self) -> bool:
        """True where some positions may be forbidden."""
        return self.causal or self.mask is not None or self.window is not None

    @property
    def unit_roundoff(self) -> float:
        """The unit roundoff of the precision that the contract prescribes for these inputs."""
        return self.precision.unit_roundoff

    @property
    def work(self) -> float:
        """Roughly how much a pure-Python implementation has to do, in the units of one multiplication."""
        batch = self.X.shape[0] if self.X.ndim == 3 else 1
        return float(batch * self.n * self.d * (self.n + self.d))

    def arguments(self, names: tuple[str, ...]) -> list[Any]:
        return [getattr(self, name) for name in names]

    @property
    def allowed(self) -> NDArray[np.bool_]:
        """The positions that may attend to each other, (n, n)."""
        return np.ones((self.n, self.n), dtype=bool) if self.mask is None else self.mask == 1

    @property
    def features(self) -> frozenset[str]:
        """The names of what a subject may refuse of it."""
        return frozenset()

    @property
    def extras(self) -> frozenset[str]:
        """The names of what it has beyond the plainest instance.

        Examples
        --------
        >>> sorted(make_sample("example", 0, 5, 4, mask=causal, k=2).extras)
        ['a batch', 'lam', 'mask']
        """
        has = {"lam": self.lam != 0, "a batch": self.X.ndim == 3, "mask": self.mask is not None}
        return frozenset(name for name, there in has.items() if there)

    def without(self, extra: str) -> Self:
        """The instance without one of its extras; of a batch the first sample."""
        bare: dict[str, Any] = {"lam": {"lam": 0.0}, "a batch": {"X": self.X[0]}, "mask": {"mask": None}}[extra]
        return self.changed(**bare)

    def tokens(self, n: int) -> Self:
        """The instance with its first n tokens."""
        return self.changed(X=self.X[..., :n, :], mask=self._cut_mask(n))

    def cuts(self, names: tuple[str, ...]) -> Iterator[Self]:
        """Smaller and rounder instances that differ in the arguments `names`.

        The samples of a batch stay different, none becomes 0, and every token sees one.
        """
        for smaller in self._cuts(names):
            cut = smaller.changed(name=SMALLEST).exact()
            X = cut.X
            distinct = X.ndim < 3 or bool(X.any(axis=(1, 2)).all()) and len(np.unique(X, axis=0)) == len(X)
            if distinct and cut.allowed.any(axis=1).all():  # beside a window the mask's rows may lie outside of it
                yield cut

    def _cuts(self, names: tuple[str, ...]) -> Iterator[Self]:
        if self.X.ndim == 3:
            yield from (self.changed(X=self.X[:k]) for k in fewer(len(self.X)))
        yield from self._plainer()
        yield from (self.tokens(n) for n in fewer(self.n))
        yield from (self._cut(d) for d in fewer(self.d))
        yield from self._narrower() if "W_Q" in names else ()
        yield from self._simpler(tuple(name for name in names if isinstance(getattr(self, name), np.ndarray)))

    def _plainer(self) -> Iterator[Self]:
        """Fewer features; the fused weight has none."""
        yield from ()

    def _narrower(self) -> Iterator[Self]:
        """Fewer inner features."""
        for m in fewer(self.W_Q.shape[1]):
            yield self.changed(**{name: getattr(self, name)[:, :m] for name in _PAIR})

    def _cut(self, d: int) -> Self:
        square = {name: getattr(self, name)[:d, :d] for name in _SQUARE}
        return self.changed(X=self.X[..., :d], **square, **{name: getattr(self, name)[:d] for name in _PAIR})

    def _simpler(self, names: tuple[str, ...]) -> Iterator[Self]:
        """Simpler instances: no mask, a plain lam, arrays by a formula, fewer digits."""
        if self.mask is not None:
            yield self.changed(mask=None)
        yield from (self.changed(lam=lam) for lam in (0.0, 1.0) if self.lam not in (0.0, lam))
        given = {name: getattr(self, name) for name in names if name != "mask"}
        given = {name: one for name, one in given.items() if formula_of(one.astype(np.float64)) is None}
        large = {name: one for name, one in given.items() if one.size > FEW}
        if large:
            by = {name: by_formula(one.shape, ARRAYS.index(name), name[0] == "M") for name, one in large.items()}
            yield self.changed(**by)
        yield from (self.changed(**short) for short in shorter(given))

    def _cut_mask(self, n: int) -> Any:
        if self.mask is None:
            return None
        cut = self.mask[:n, :n].copy()
        cut[cut.sum(axis=1) == 0, 0] = 1.0
        return cut

    def corner(self) -> Self:
        """Three tokens of two features, in few digits: enough where any instance shows the failure."""
        small = self.tokens(3)._cut(2)
        small = small.changed(**{name: getattr(small, name)[:, :2] for name in _PAIR})
        return small.changed(name=SMALLEST, **{name: rounded(getattr(small, name), 2) for name in ARRAYS}).exact()

    def masked(self, change: Callable[[Real], Real], names: tuple[str, ...] = ()) -> Self:
        """The instance with its pruning masks changed, or those of `names`."""
        return self.changed(**{name: change(getattr(self, name)) for name in names or self.MASKS})

    def changed(self, **changes: Any) -> Self:
        """Return a sample like this one; what was computed for this one is not kept."""
        return replace(self, memo={}, **changes)

    def exact(self) -> Self:
        """The sample with every number rounded to its precision; only rounded samples are used."""
        rounded = {name: self.precision.exact(getattr(self, name)) for name in ARRAYS}
        return self.changed(**rounded, lam=self.precision.number(self.lam))

    @property
    def largest(self) -> tuple[float, ...]:
        """The largest number in it, and the largest sum of absolute values in its logits."""
        sizes = [float(np.abs(getattr(self, name)).max(initial=0.0)) for name in ARRAYS]
        X, fused = np.abs(self.X.astype(float)), np.abs(self.W_Q.astype(float)) @ np.abs(self.W_K.astype(float)).T
        logits = [X @ weight @ np.swapaxes(X, -1, -2) for weight in (np.abs(self.W.astype(float)), fused)]
        return (*sizes, self.lam * self.W.size, *(float(matrix.max()) for matrix in logits))

    def describe(self) -> str:
        k = f"k={self.X.shape[0]}, " if self.X.ndim == 3 else ""
        kind = "no mask" if self.mask is None else "mask"
        return f"{self.name} ({k}n={self.n}, d={self.d}, {kind}, lam={self.lam:g}, {self.precision.name})"


MaskMaker = Callable[[Generator, int], NDArray[np.float64]]


def causal(rng: Generator, n: int) -> NDArray[np.float64]:
    return np.tri(n)


def scattered(rng: Generator, n: int) -> NDArray[np.float64]:
    """Mask of about half of the positions, above the diagonal too; no row is empty."""
    mask = (rng.random((n, n)) < 0.5).astype(float)
    mask[np.arange(n), rng.integers(0, n, n)] = 1.0
    return mask


def banded(rng: Generator, n: int) -> NDArray[np.float64]:
    distance = np.arange(n)[:, None] - np.arange(n)
    return ((distance >= 0) & (distance <= 1)).astype(float)


def off_diagonal(rng: Generator, n: int) -> NDArray[np.float64]:
    return 1.0 - np.eye(n)


def one_key(rng: Generator, n: int) -> NDArray[np.float64]:
    """One position a row, anywhere."""
    mask: NDArray[np.float64] = (rng.integers(0, n, (n, 1)) == np.arange(n)) * 1.0
    return mask


def documents(rng: Generator, n: int) -> NDArray[np.float64]:
    """Several texts in one row of tokens: positions of the same text see each other."""
    text = np.searchsorted([n // 4 + 1, n // 2 + 2], np.arange(n), side="right")
    mask: NDArray[np.float64] = (text[:, np.newaxis] == text) * 1.0
    return mask


def inner_features(d: int) -> int:
    """Return the number of columns of W_Q and W_K for d features: another one, so that no shape fits by accident."""
    return d + 1 if d < 3 else d - 1


def make_sample(
    name: str,
    seed: int,
    n: int,
    d: int,
    *,
    largest: float = 2.0,
    mask: MaskMaker | None = None,
    pruning: tuple[float, float] = (0.1, 0.9),
    lam: float = 0.3,
    k: int | None = None,
    precision: Precision = FLOAT64,
) -> Sample:
    """Gaussian tokens and weights, scaled so that the largest logit at M = 1 is `largest`; M uniform in `pruning`."""
    rng = np.random.default_rng([seed, *name.encode()])
    m = inner_features(d)
    X = rng.standard_normal((n, d) if k is None else (k, n, d))
    W, W_Q, W_K = rng.standard_normal((d, d)), rng.standard_normal((d, m)), rng.standard_normal((d, m))
    W *= largest / largest_logit(X, W)
    W_Q *= largest / largest_logit(X, W_Q @ W_K.T)
    M, M_Q, M_K = (rng.uniform(*pruning, shape) for shape in ((d, d), (d, m), (d, m)))
    arrays: dict[str, Real] = {
        "X": X,
        "W": W,
        "M": M,
        "V": rng.standard_normal((d, d)),
        "W_Q": W_Q,
        "W_K": W_K,
        "M_Q": M_Q,
        "M_K": M_K,
    }
    allowed = None if mask is None else mask(rng, n)
    typed: dict[str, Any] = dict(arrays)
    return Sample(name, **typed, lam=lam, mask=allowed, seed=seed, precision=precision)


def largest_logit(X: Real, W: Real) -> float:
    return max(float(np.abs(X @ W @ np.swapaxes(X, -1, -2)).max()), 1e-300)
