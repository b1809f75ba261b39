"""Everything the statements speak of, at one case, in one arithmetic: the paper's letters as attributes.

Written from the definitions and independent of `model` and `oracle`, so that the definitional claims can compare the
three. Every quantity is computed once, on demand::

    u = exp(X W X^T), ut = exp(X (M o W) X^T), alpha = (u o Mc) 1, f = diag(alpha)^-1 (u o Mc), F the same of M,
    c = F - f, p1 = c o F, p2 = diag(p1 1) F, p = p1 - p2, G = W o (X^T p X), gradient = G + lam M

`directional` differentiates any of them in M without the closed form (`arithmetic.along`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from attnprune_verify.claims.cases.cached import computed_once, same_in_copies
from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.eigenvalues import eigenvalues, positive_definite, spectral_norm
from attnprune_verify.theory.numbers.arithmetic import BALL, FLOAT, Arithmetic, Undecidable, along, derivative_part

Lifted: TypeAlias = Any
"""A number or an array in the arithmetic of its quantities: floats, or balls of flint, which has no types."""


class Quantities:
    """The case's values, lifted, and what the paper builds from them. ``q.name`` also reads any other value."""

    home: Quantities | None = None
    """The object that this one was made from by `at`: what does not depend on M is computed there."""
    noted: Mapping[str, Any] = MappingProxyType({})
    """The values of the printed formula's letters on this case, as the margin computed them."""

    def __init__(self, case: Case, arithmetic: Arithmetic = FLOAT) -> None:
        self.case = case
        self.arithmetic = arithmetic
        self.sqrt, self.exp, self.log = arithmetic.sqrt, arithmetic.exp, arithmetic.log
        self.smallest, self.largest = arithmetic.smallest, arithmetic.largest

    def __getattr__(self, name: str) -> Lifted:
        # only called for what is neither a method nor a computed quantity
        if name.startswith("_") or name in ("case", "arithmetic") or name not in self.case:
            raise AttributeError(f"the case has no value {name!r}")
        value = self.case[name]
        lifted = value if isinstance(value, (str, int, bool, type(None))) else self.arithmetic.lift(value)
        self.__dict__[name] = lifted
        return lifted

    def note(self, letters: Mapping[str, Any]) -> None:
        """Note what letters of the printed formula stand for, beside the relation that is computed from the same."""
        self.__dict__["noted"] = {**self.noted, **letters}

    def number(self, value: Lifted) -> Lifted:
        """A constant in this arithmetic."""
        return self.arithmetic.lift(value)

    def of(self, formula: Callable[..., Any], *values: Lifted) -> Lifted:
        """A formula of `theory` at these values, in this arithmetic."""
        return formula(*values, arithmetic=self.arithmetic)

    def at(self, M: Lifted) -> Quantities:
        """Return the problem at another pruning mask, already in this arithmetic."""
        other = type(self)(self.case, self.arithmetic)
        other.__dict__.update(home=self.home or self, X=self.X, W=self.W, M=M, lam=self.lam)
        return other

    def directional(self, direction: Lifted, of: Callable[[Quantities], Lifted]) -> Lifted:
        """d/dt of a quantity at M + t direction, t = 0: automatic differentiation of its definition."""
        moved = self.at(along(self.M, direction, self.arithmetic))
        return derivative_part(of(moved), self.arithmetic)

    def unit(self, row: int, column: int) -> Lifted:
        """The matrix e_row e_column^T of M's shape."""
        basis = np.zeros(np.shape(self.case["M"]))
        basis[row, column] = 1.0
        return self.arithmetic.lift(basis)

    # sizes and the attention mask

    @same_in_copies
    def n(self) -> int:
        return int(np.shape(self.case["X"])[0])

    @same_in_copies
    def d(self) -> int:
        return int(np.shape(self.case["X"])[1])

    @same_in_copies
    def allowed(self) -> Lifted:
        """M_c as booleans; all True without a mask."""
        mask = self.case.get("mask")
        if mask is None:
            return np.ones((self.n, self.n), dtype=bool)
        return np.tri(self.n, dtype=bool) if isinstance(mask, str) else np.asarray(mask, dtype=bool)

    @same_in_copies
    def unmasked(self) -> bool:
        """True if every row may see every position."""
        return bool(self.allowed.all())

    @same_in_copies
    def row_sizes(self) -> Lifted:
        """m_i, the number of allowed positions of each row."""
        return self.allowed.sum(axis=1)

    @same_in_copies
    def n_e(self) -> int:
        """The number of rows with at least two allowed positions; the others contribute nothing."""
        return int((self.row_sizes >= 2).sum())

    @computed_once
    def lam(self) -> Lifted:
        return self.number(self.case.get("lam", 0.0))

    # definitions

    @same_in_copies
    def logits_dense(self) -> Lifted:
        return self.X @ self.W @ self.X.T

    @computed_once
    def logits(self) -> Lifted:
        return self.X @ (self.M * self.W) @ self.X.T

    @same_in_copies
    def u(self) -> Lifted:
        return self.exp(self.logits_dense)

    @computed_once
    def ut(self) -> Lifted:
        return self.exp(self.logits)

    @same_in_copies
    def alpha(self) -> Lifted:
        return (self.u * self.allowed).sum(axis=1)

    @computed_once
    def alphat(self) -> Lifted:
        return (self.ut * self.allowed).sum(axis=1)

    @same_in_copies
    def f(self) -> Lifted:
        return self._softmax(self.logits_dense)

    @computed_once
    def F(self) -> Lifted:
        return self._softmax(self.logits)

    @computed_once
    def c(self) -> Lifted:
        return self.F - self.f

    @computed_once
    def p1(self) -> Lifted:
        return self.c * self.F

    @computed_once
    def p2(self) -> Lifted:
        return np.add.reduce(self.p1, axis=1)[:, None] * self.F

    @computed_once
    def p(self) -> Lifted:
        return self.p1 - self.p2

    @computed_once
    def G(self) -> Lifted:
        """The gradient of the attention term, W o (X^T p X)."""
        return self.W * (self.X.T @ self.p @ self.X)

    @computed_once
    def gradient(self) -> Lifted:
        return self.G + self.M * self.lam

    @computed_once
    def L_attn(self) -> Lifted:
        return self.square(self.c) / 2

    @computed_once
    def L(self) -> Lifted:
        return self.L_attn + self.lam * self.square(self.M) / 2

    # sizes of things

    def square(self, array: Lifted) -> Lifted:
        """The sum of squares."""
        return np.add.reduce(array * array, axis=None)  # a quarter of what the method costs

    def norm(self, array: Lifted) -> Lifted:
        """The Frobenius or Euclidean norm."""
        return self.sqrt(self.square(array))

    @same_in_copies
    def w_min(self) -> Lifted:
        return self.smallest(np.abs(self.W))

    @same_in_copies
    def w_max(self) -> Lifted:
        return self.largest(np.abs(self.W))

    @same_in_copies
    def R(self) -> Lifted:
        """The smallest R the bounded-parameters assumption admits: max(1, ||X||_F, ||W||_F), just above 1."""
        return self.largest([self.number(1.0 + 1e-9), self.norm(self.X), self.norm(self.W)])

    @same_in_copies
    def beta(self) -> Lifted:
        """A number with X X^T - beta I certainly positive semidefinite, just below the least eigenvalue; 0 if none."""
        values = np.linalg.eigvalsh(np.asarray(self.case["X"], dtype=float) @ np.asarray(self.case["X"], dtype=float).T)
        claimed = float(values[0] * (1 - 1e-9) - 1e-13 * abs(values[-1]))
        if claimed <= 0 or self.n > self.d:
            return self.number(0.0)
        if self.arithmetic is not FLOAT and not positive_definite(self.X @ self.X.T, self.number(claimed)):
            raise Undecidable("the least eigenvalue of X X^T")
        return self.number(claimed)

    @computed_once
    def delta(self) -> Lifted:
        """min F over all positions; exactly 0 as soon as one is forbidden."""
        return self.number(0.0) if not self.allowed.all() else self.smallest(self.F)

    @computed_once
    def delta_allowed(self) -> Lifted:
        """min F over the allowed positions of rows with at least two of them (1 when there is no such row)."""
        chosen = self.F[self.allowed & (self.row_sizes >= 2)[:, None]]
        return self.smallest(chosen) if chosen.size else self.number(1.0)

    @same_in_copies
    def f_min(self) -> Lifted:
        """min f over the allowed positions of rows with at least two of them."""
        chosen = self.f[self.allowed & (self.row_sizes >= 2)[:, None]]
        return self.smallest(chosen) if chosen.size else self.number(1.0)

    # operators

    @same_in_copies
    def PiA(self) -> Lifted:
        """The matrix (n^2, d^2) of M -> Pi(X (M o W) X^T): logits, centred over the allowed positions of each row."""
        weights = self.arithmetic.lift(self.allowed.astype(float))
        counts = self.arithmetic.lift(self.row_sizes.astype(float))
        means = (weights @ self.X) / counts[:, None]  # (n, d): mean token row i attends to
        centred = (self.X[None, :, :] - means[:, None, :]) * weights[:, :, None]  # (n, n, d)
        full = self.X[:, None, :, None] * self.W[None, None, :, :] * centred[:, :, None, :]
        return full.reshape(self.n**2, self.d**2)

    @same_in_copies
    def K(self) -> Lifted:
        """||Pi A||: float64, or an enclosure."""
        if self.arithmetic is FLOAT:
            return float(self.singular_values[0])
        return spectral_norm(self.PiA)

    @same_in_copies
    def singular_values(self) -> Lifted:
        """The singular values of Pi A in float64, largest first."""
        return np.linalg.svd(self.PiA, compute_uv=False)

    @same_in_copies
    def kappa_T(self) -> Lifted:
        """The least singular value of A^* on T (supported on the mask, zero row sums); 0 when dim T > d^2."""
        dimension = int((self.row_sizes - 1).sum())
        if dimension == 0 or dimension > self.d**2:
            return self.number(0.0)
        return self.singular_value(dimension)

    @same_in_copies
    def kappa_plus(self) -> Lifted:
        """The smallest nonzero singular value of Pi A; the rank is taken from float64 with a threshold of 1e-9."""
        plain = self if self.arithmetic is FLOAT else Quantities(self.case)
        rank = int((plain.singular_values > 1e-9 * max(plain.K, 1e-300)).sum())
        return self.singular_value(rank) if rank else self.number(0.0)

    def singular_value(self, place: int) -> Lifted:
        """The `place`-th largest singular value of Pi A."""
        if self.arithmetic is FLOAT:
            return float(self.singular_values[place - 1])
        small = self.PiA.T @ self.PiA if self.d <= self.n else self.PiA @ self.PiA.T
        values = eigenvalues(small)
        return values[place - 1].nonnegative_part().sqrt()

    @computed_once
    def lambda_2(self) -> Lifted:
        """min over rows with at least two allowed positions of the second eigenvalue of J_i (1 if there is none)."""
        least = [self._second_eigenvalue(self.jacobian_row(i)) for i in range(self.n) if self.row_sizes[i] >= 2]
        return self.smallest(least) if least else self.number(1.0)

    def _second_eigenvalue(self, J: Lifted) -> Lifted:
        if self.arithmetic is FLOAT:
            return float(np.linalg.eigvalsh(J)[1])
        # J 1 = 0 and J is positive semidefinite: adding 11^T moves the zero eigenvalue to m >= 2 > ||J||
        return BALL.smallest(eigenvalues(J + self.number(np.ones(J.shape))))

    @computed_once
    def curvature(self) -> Lifted:
        """The Hessian of the attention term as a (d^2, d^2) matrix, column by column by automatic differentiation."""
        columns = [
            self.directional(self.unit(i, j), lambda q: q.G).ravel() for i in range(self.d) for j in range(self.d)
        ]
        return np.stack(columns, axis=1)

    def jacobian_row(self, i: int) -> Lifted:
        """J_i = diag(s) - s s^T for row i of F, on its allowed positions."""
        s = self.F[i, self.allowed[i]]
        return np.diag(s) - np.outer(s, s)

    def softmax(self, logits: Lifted) -> Lifted:
        """Softmax of one row of logits without an attention mask."""
        weights = self.exp(logits - (float(np.max(logits)) if self.arithmetic is FLOAT else 0))
        return weights / weights.sum()

    def _softmax(self, logits: Lifted) -> Lifted:
        if self.arithmetic is not FLOAT:
            weights = self.exp(logits) * self.arithmetic.lift(self.allowed.astype(int))
        elif self.unmasked:  # NumPy's own functions from here on: no exponent is above 0, so none overflows
            weights = np.exp(logits - np.maximum.reduce(logits.real, axis=1, keepdims=True))
        else:
            highest = np.maximum.reduce(np.where(self.allowed, logits.real, -np.inf), axis=1, keepdims=True)
            weights = np.exp(np.where(self.allowed, logits - highest, -np.inf)) * self.allowed
        return weights / np.add.reduce(weights, axis=1, keepdims=True)


def in_floats(case: Case) -> Quantities:
    """The case's quantities in floats; those of the case before are read where X, W and the mask are the same.

    A search changes M alone many times in a row, and singular values, which do not depend on it, cost most.
    """
    global _before
    if _before is None or _before.case is not case:
        found = Quantities(case)
        if _before is not None and _same_maps(_before.case, case):
            found.home = _before.home or _before
        _before = found
    return _before


_before: Quantities | None = None


def _same_maps(one: Case, other: Case) -> bool:
    """Return True where X, W and the mask of two cases are the same to the last bit."""
    return "X" in one and "W" in one and all(_same(one.get(name), other.get(name)) for name in ("X", "W", "mask"))


def _same(one: Lifted, other: Lifted) -> bool:
    if one is other or not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)):
        return one is other
    return one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()


def variance(s: Lifted, v: Lifted) -> Lifted:
    """Var_s(v) = v^T (diag(s) - s s^T) v = sum_{j<k} s_j s_k (v_j - v_k)^2, where nothing cancels."""
    gaps = v[:, None] - v[None, :]
    return (s[:, None] * s[None, :] * (gaps * gaps)).sum() / 2  # the power of a ball around 0 would be nan
