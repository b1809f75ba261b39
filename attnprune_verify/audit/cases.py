"""The instances an audit is made on: every regime in which an implementation may go wrong on its own.

Small (n, d <= 16) but for a few; shapes come from a small pool, because a compiling subject pays for each new one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

__all__ = ["BENIGN", "STABILITY", "Case", "cases", "inner_features", "regimes"]

Real = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Case:
    """One instance with everything any function of the contract may ask for; its arrays share one dtype."""

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
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def n(self) -> int:
        return int(self.X.shape[-2])

    @property
    def d(self) -> int:
        return int(self.X.shape[-1])

    @property
    def unit_roundoff(self) -> float:
        """Of the precision the contract asks for on these inputs."""
        return float(np.finfo(self.X.dtype).eps) / 2

    @property
    def work(self) -> float:
        """Roughly how much a pure-Python implementation has to do, in the units of one multiplication."""
        samples = self.X.shape[0] if self.X.ndim == 3 else 1
        return float(samples * self.n * self.d * (self.n + self.d))

    def arguments(self, names: tuple[str, ...]) -> list[Any]:
        return [getattr(self, name) for name in names]

    def changed(self, **changes: Any) -> Case:
        """A case like this one; what was computed for this one is not kept."""
        return replace(self, memo={}, **changes)

    def describe(self) -> str:
        k = f"k={self.X.shape[0]}, " if self.X.ndim == 3 else ""
        kind = "no mask" if self.mask is None else "mask"
        return f"{self.name} ({k}n={self.n}, d={self.d}, {kind}, lam={self.lam:g}, {self.X.dtype})"


MaskMaker = Callable[[Generator, int], NDArray[np.float64]]


def causal(rng: Generator, n: int) -> NDArray[np.float64]:
    return np.tri(n)


def scattered(rng: Generator, n: int) -> NDArray[np.float64]:
    """About half of the positions, above the diagonal too, none of the rows empty."""
    mask = (rng.random((n, n)) < 0.5).astype(float)
    mask[np.arange(n), rng.integers(0, n, n)] = 1.0
    return mask


def banded(rng: Generator, n: int) -> NDArray[np.float64]:
    distance = np.arange(n)[:, None] - np.arange(n)
    return ((distance >= 0) & (distance <= 1)).astype(float)


def off_diagonal(rng: Generator, n: int) -> NDArray[np.float64]:
    return 1.0 - np.eye(n)


def inner_features(d: int) -> int:
    """How many columns W_Q and W_K have for d features: another number, so that no shape fits by accident."""
    return d + 1 if d < 3 else d - 1


def _case(
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
    dtype: type = np.float64,
) -> Case:
    """Gaussian tokens and weights, scaled so that the largest logit at M = 1 is `largest`; M uniform in `pruning`."""
    rng = np.random.default_rng([seed, *name.encode()])
    m = inner_features(d)
    X = rng.standard_normal((n, d) if k is None else (k, n, d))
    W, W_Q, W_K = rng.standard_normal((d, d)), rng.standard_normal((d, m)), rng.standard_normal((d, m))
    W *= largest / _largest_logit(X, W)
    W_Q *= largest / _largest_logit(X, W_Q @ W_K.T)
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
    typed: dict[str, Any] = {key: value.astype(dtype) for key, value in arrays.items()}
    return Case(name, **typed, lam=lam, mask=allowed, seed=seed)


def _largest_logit(X: Real, W: Real) -> float:
    return max(float(np.abs(X @ W @ np.swapaxes(X, -1, -2)).max()), 1e-300)


def _binary(case: Case) -> Case:
    rng = np.random.default_rng(case.seed)
    return case.changed(**{name: (rng.random(getattr(case, name).shape) < 0.6) * 1.0 for name in ("M", "M_Q", "M_K")})


def _unpruned(case: Case) -> Case:
    return case.changed(**{name: np.ones_like(getattr(case, name)) for name in ("M", "M_Q", "M_K")})


def _degenerate(case: Case) -> Case:
    """A zero token, two equal tokens, zeros in every weight."""
    X = case.X.copy()
    X[0], X[-1] = 0.0, X[1]
    return case.changed(X=X, **{name: _with_zeros(getattr(case, name)) for name in ("W", "W_Q", "W_K")})


def _with_zeros(weight: Real) -> Real:
    holed = weight.copy()
    holed.flat[::3] = 0.0
    return holed


def _symmetric(case: Case) -> Case:
    return case.changed(W=(case.W + case.W.T) / 2, M=(case.M + case.M.T) / 2)


def _offset(case: Case, size: float) -> Case:
    """The same differences between logits, all of them near `size`: only exp can tell."""
    X, W, M = case.X.copy(), case.W.copy(), case.M.copy()
    X[:, 0] = 1.0
    W[0, :], W[:, 0], W[0, 0], M[0, 0] = 0.0, 0.0, size, 1.0
    W_Q, W_K, M_Q, M_K = (getattr(case, name).copy() for name in ("W_Q", "W_K", "M_Q", "M_K"))
    W_Q[0, :], W_K[0, :], W_Q[:, 0], W_K[:, 0] = 0.0, 0.0, 0.0, 0.0
    W_Q[0, 0], W_K[0, 0], M_Q[0, 0], M_K[0, 0] = size, 1.0, 1.0, 1.0
    return case.changed(X=X, W=W, M=M, W_Q=W_Q, W_K=W_K, M_Q=M_Q, M_K=M_K)


def _forbidden_giant(case: Case, size: float) -> Case:
    """The last token's logit towers over the others, and no row may look at it."""
    case = _offset(case, 0.0)
    X = case.X.copy()
    X[-1, 0] = size
    mask = np.tri(case.n)
    mask[-1, -1] = 0.0
    W, W_Q, W_K = case.W.copy(), case.W_Q.copy(), case.W_K.copy()
    W[0, 0], W_Q[0, 0], W_K[0, 0] = 1.0, 1.0, 1.0
    return case.changed(X=X, W=W, W_Q=W_Q, W_K=W_K, mask=mask)


def _tokens_times(case: Case, factor: float) -> Case:
    return case.changed(X=case.X * factor, W=case.W / factor**2, W_Q=case.W_Q / factor**2)


# Regimes whose instances are benign: every entry is decided there, and an overall pass needs them.
BENIGN = ("full", "causal", "given-mask")
STABILITY = ("logits-100", "logits-1000", "logits-1000-float32", "offset-logits", "forbidden-giant")


@lru_cache(maxsize=4)
def regimes(seed: int) -> dict[str, tuple[Case, ...]]:
    """The instances of every regime; the same seed gives the same numbers."""

    def make(name: str, n: int, d: int, **options: Any) -> Case:
        return _case(name, seed, n, d, **options)

    single = {"dtype": np.float32}
    wide = {"pruning": (-2.0, 3.0)}
    return {
        "full": (make("full-4x6", 4, 6), make("full-5x4", 5, 4, lam=0.07), make("full-9x3", 9, 3, largest=6.0)),
        "causal": (
            make("causal-5x4", 5, 4, mask=causal),
            make("causal-4x6", 4, 6, mask=causal, lam=0.07, largest=6.0),
            make("causal-2x3", 2, 3, mask=causal),
        ),
        "given-mask": (
            make("scattered-5x4", 5, 4, mask=scattered),
            make("banded-4x6", 4, 6, mask=banded),
            make("off-diagonal-5x4", 5, 4, mask=off_diagonal, lam=0.07),
            make("scattered-6x6", 6, 6, mask=scattered),
        ),
        "n>d": (
            make("tall-9x3", 9, 3),
            make("tall-9x3-causal", 9, 3, mask=causal),
            make("tall-9x3-scattered", 9, 3, mask=scattered),
            make("tall-16x2", 16, 2, largest=4.0),
            make("tall-7x5", 7, 5, mask=causal),
        ),
        "n<d": (
            make("wide-4x6", 4, 6, lam=0.02),
            make("wide-3x16", 3, 16),
            make("wide-3x16-causal", 3, 16, mask=causal),
        ),
        "one-token": (make("one-token", 1, 4),),
        "one-feature": (make("one-feature", 5, 1), make("one-feature-causal", 5, 1, mask=causal)),
        "outside-box": (
            make("outside-5x4", 5, 4, **wide),
            make("outside-4x6-causal", 4, 6, mask=causal, **wide),
            make("negative-5x4", 5, 4, pruning=(-1.5, -0.1)),
            make("above-5x4", 5, 4, pruning=(1.1, 2.5)),
        ),
        "binary-M": (_binary(make("binary-5x4", 5, 4)), _binary(make("binary-4x6", 4, 6, mask=causal))),
        "unpruned": (_unpruned(make("unpruned-5x4", 5, 4)), _unpruned(make("unpruned-4x6", 4, 6, mask=causal))),
        "lam-zero": (
            make("lam-zero-5x4", 5, 4, lam=0.0),
            make("lam-zero-4x6-causal", 4, 6, lam=0.0, mask=causal),
            make("lam-zero-9x3", 9, 3, lam=0.0, mask=scattered),
        ),
        "lam-large": (
            make("lam-1-5x4", 5, 4, lam=1.0),
            make("lam-3-5x4", 5, 4, lam=3.0, mask=causal),
            make("lam-40-5x4", 5, 4, lam=40.0),
            make("lam-2000-4x6", 4, 6, lam=2000.0),
        ),
        "small-loss": (
            make("small-5x4", 5, 4, largest=1e-3, lam=0.0),
            make("small-4x6-causal", 4, 6, largest=1e-5, lam=0.0, mask=causal),
            make("small-5x4-lam", 5, 4, largest=1e-3, lam=1e-8),
        ),
        "scaled-tokens": (
            _tokens_times(make("big-tokens-5x4", 5, 4), 1000.0),
            _tokens_times(make("tiny-tokens-4x6", 4, 6, mask=causal), 1e-3),
        ),
        "degenerate": (
            _degenerate(make("degenerate-5x4", 5, 4)),
            _degenerate(make("degenerate-9x3", 9, 3, mask=causal)),
            _symmetric(make("symmetric-5x4", 5, 4)),
            _symmetric(make("symmetric-4x6", 4, 6, mask=causal)),
        ),
        "sharp": (make("logits-15-5x4", 5, 4, largest=15.0), make("logits-30-9x3", 9, 3, largest=30.0, mask=causal)),
        "float32": (
            make("float32-5x4", 5, 4, **single),
            make("float32-4x6-causal", 4, 6, mask=causal, **single),
            make("float32-9x3-scattered", 9, 3, mask=scattered, **single),
            make("float32-outside-5x4", 5, 4, lam=3.0, **single, **wide),
            make("float32-lam-zero-9x3", 9, 3, lam=0.0, **single),
        ),
        "larger": (
            make("larger-24x16", 24, 16, largest=6.0),
            make("larger-16x33", 16, 33, mask=causal),
            make("larger-70x5", 70, 5, mask=causal),
            make("larger-140x3", 140, 3, mask=scattered),
            make("larger-270x2", 270, 2),
            make("larger-4x70", 4, 70, mask=scattered),
        ),
        "logits-100": (
            make("logits-100-5x4", 5, 4, largest=100.0),
            make("logits-100-9x3-causal", 9, 3, largest=100.0, mask=causal),
            make("logits-100-5x4-float32", 5, 4, largest=100.0, **single),
        ),
        "logits-1000": (
            make("logits-1000-5x4", 5, 4, largest=1000.0),
            make("logits-1000-9x3-causal", 9, 3, largest=1000.0, mask=causal),
            make("logits-1000-4x6", 4, 6, largest=1000.0, mask=scattered),
        ),
        "logits-1000-float32": (
            make("logits-1000-5x4-float32", 5, 4, largest=1000.0, **single),
            make("logits-1000-9x3-float32-causal", 9, 3, largest=1000.0, mask=causal, **single),
        ),
        "offset-logits": (
            _offset(make("offset-plus-5x4", 5, 4), 900.0),
            _offset(make("offset-minus-5x4", 5, 4), -900.0),
            _offset(make("offset-minus-9x3-causal", 9, 3, mask=causal), -1000.0),
            _offset(make("offset-far-minus-5x4", 5, 4, mask=scattered), -30000.0),  # beyond a fill of -1e4
            _offset(make("offset-plus-5x4-float32", 5, 4, **single), 120.0),
            _offset(make("offset-minus-5x4-float32", 5, 4, **single), -120.0),
        ),
        "forbidden-giant": (
            _forbidden_giant(make("giant-5x4", 5, 4), 900.0),
            _forbidden_giant(make("giant-9x3", 9, 3), 900.0),
        ),
        "batch": (
            make("batch-3x5x4", 5, 4, k=3),
            make("batch-2x9x3-causal", 9, 3, k=2, mask=causal),
            make("batch-1x5x4", 5, 4, k=1),
            make("batch-3x5x4-lam-large", 5, 4, k=3, lam=3.0),
            make("batch-3x5x4-float32", 5, 4, k=3, **single),
        ),
    }


def cases(seed: int, regime: str) -> tuple[Case, ...]:
    """The instances of one regime."""
    return regimes(seed)[regime]
