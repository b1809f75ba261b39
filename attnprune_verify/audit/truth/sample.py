"""One instance of an audit, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from attnprune_verify.audit.truth.precision import FLOAT64, Precision

__all__ = [
    "ARRAYS", "MaskMaker", "Real", "Sample", "banded", "causal", "inner_features", "largest_logit", "make_sample",
    "documents", "off_diagonal", "one_key", "scattered",
]  # fmt: skip

Real = NDArray[np.floating[Any]]
ARRAYS = ("X", "W", "M", "V", "W_Q", "W_K", "M_Q", "M_K")


@dataclass(frozen=True, eq=False)
class Sample:
    """One instance with everything any function of the contract may ask for; its numbers are exact in one precision."""

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

    @property
    def n(self) -> int:
        return int(self.X.shape[-2])

    @property
    def d(self) -> int:
        return int(self.X.shape[-1])

    @property
    def unit_roundoff(self) -> float:
        """Of the precision the contract asks for on these inputs."""
        return self.precision.unit_roundoff

    @property
    def work(self) -> float:
        """Roughly how much a pure-Python implementation has to do, in the units of one multiplication."""
        batch = self.X.shape[0] if self.X.ndim == 3 else 1
        return float(batch * self.n * self.d * (self.n + self.d))

    def arguments(self, names: tuple[str, ...]) -> list[Any]:
        return [getattr(self, name) for name in names]

    def changed(self, **changes: Any) -> Sample:
        """A sample like this one; what was computed for this one is not kept."""
        return replace(self, memo={}, **changes)

    def exact(self) -> Sample:
        """The sample with every number rounded to its precision: only such ones are asked."""
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
    """About half of the positions, above the diagonal too, none of the rows empty."""
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
    """How many columns W_Q and W_K have for d features: another number, so that no shape fits by accident."""
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
