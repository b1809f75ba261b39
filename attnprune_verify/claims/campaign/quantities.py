"""Quantities of the statements for many instances of one shape at once: `Quantities` on lanes.

Only quantities that branch on values or need LAPACK are written here; all others are inherited.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.claims.cases.cached import computed_once, same_in_copies
from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.theory.numbers.arithmetic import Arithmetic, Undecidable
from attnprune_verify.theory.numbers.lane_arithmetic import LANES, eigenvalues, lapack_error, stacked
from attnprune_verify.theory.numbers.lanes import Lane, Slope, U, middle

_Array = NDArray[np.float64]


class LaneCase:
    """Stacked values of many cases: `arrays` with a leading axis over the cases, `common` the same for all.

    A statement that looks at its plain case (to call other code with it) has no batched form: it is told so.
    """

    def __init__(self, arrays: dict[str, NDArray[np.float64]], common: dict[str, Any]) -> None:
        self.arrays = arrays
        self.common = common

    def __contains__(self, name: str) -> bool:
        return name in self.arrays or name in self.common

    def __getitem__(self, name: str) -> Any:
        if name in self.common:
            return self.common[name]
        raise Undecidable(f"{name} of many instances at once")

    def get(self, name: str, default: Any = None) -> Any:
        """The value of that name, or `default`."""
        return self[name] if name in self else default

    def but(self, origin: str | None = None, **values: Any) -> LaneCase:
        """Return the cases with some plain numbers replaced."""
        kept = {name: array for name, array in self.arrays.items() if name not in values}
        return LaneCase(kept, {**self.common, **values})

    def part(self, chosen: NDArray[np.bool_]) -> LaneCase:
        """Return the quantities of some of the cases."""
        return LaneCase({name: array[chosen] for name, array in self.arrays.items()}, self.common)


class LaneQuantities(Quantities):
    """The attributes of `Quantities`, every number a `Lane`."""

    case: Any

    def __init__(self, case: LaneCase, arithmetic: Arithmetic = LANES) -> None:
        super().__init__(case, arithmetic)  # type: ignore[arg-type]  # stands in for one case
        self._moved: tuple[Any, LaneQuantities] | None = None
        self._parts: dict[bytes, LaneQuantities] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("case", "arithmetic") or name not in self.case:
            raise AttributeError(f"the case has no value {name!r}")
        if name in self.case.arrays:
            lifted = stacked(self.case.arrays[name])
        else:
            value = self.case.common[name]
            lifted = value if isinstance(value, (str, int, bool, type(None))) else self.arithmetic.lift(value)
        self.__dict__[name] = lifted
        return lifted

    def at(self, M: Any) -> Quantities:
        """Return the problems at other masks; the last result is kept, since many statements compare the same two."""
        if self._moved is None or self._moved[0] is not M:
            moved = super().at(M)
            assert isinstance(moved, LaneQuantities)
            self._moved = (M, moved)
        return self._moved[1]

    def part(self, chosen: NDArray[np.bool_]) -> LaneQuantities:
        """Return the quantities of some instances; kept for the next statement that splits them in the same way."""
        key = chosen.tobytes()
        if key not in self._parts:
            self._parts[key] = LaneQuantities(self.case.part(chosen))
        return self._parts[key]

    def directional(self, direction: Any, of: Callable[[Quantities], Any]) -> Any:
        """d/dt of a quantity at M + t direction, t = 0: automatic differentiation of its definition."""
        self.f  # noqa: B018  # shared with the moved copy
        lifted = np.empty(np.shape(self.M), dtype=object)
        for place in np.ndindex(*lifted.shape):
            lifted[place] = Slope(self.M[place], direction[place])
        result = of(super().at(lifted))
        if np.ndim(result) == 0:
            return result.slope if isinstance(result, Slope) else self.number(0.0)
        slopes = np.empty(np.shape(result), dtype=object)
        for place in np.ndindex(*slopes.shape):
            entry = result[place]
            slopes[place] = entry.slope if isinstance(entry, Slope) else self.number(0.0)
        return slopes

    def unit(self, row: int, column: int) -> Any:
        basis = np.zeros(np.shape(self.M))
        basis[row, column] = 1.0
        return self.arithmetic.lift(basis)

    @same_in_copies
    def n(self) -> int:
        return int(self.case.arrays["X"].shape[1])

    @same_in_copies
    def d(self) -> int:
        return int(self.case.arrays["X"].shape[2])

    @computed_once
    def lam(self) -> Any:
        if "lam" in self.case.arrays:
            return stacked(self.case.arrays["lam"])
        return self.number(self.case.common.get("lam", 0.0))

    @same_in_copies
    def beta(self) -> Any:
        """Lower bound of lambda_min; no proof by pivots, since the 1e-13 subtracted is far above LAPACK's error."""
        X = self.case.arrays["X"]
        if self.n > self.d:
            return self.number(0.0)
        values = np.linalg.eigvalsh(X @ X.transpose(0, 2, 1))
        claimed = values[:, 0] * (1 - 1e-9) - 1e-13 * np.abs(values[:, -1])
        return Lane(np.maximum(claimed, 0.0))

    # operators

    @same_in_copies
    def _table(self) -> tuple[Any, Any]:
        """Pi A as stacked matrices (b, n^2, d^2), and how far rounding may have moved each, in the Frobenius norm."""
        X, W = self.case.arrays["X"], self.case.arrays["W"]
        b, n, d = X.shape
        weights = self.allowed.astype(np.float64)
        means = (weights @ X) / self.row_sizes[:, None]
        centred = (X[:, None, :, :] - means[:, :, None, :]) * weights[None, :, :, None]
        table = X[:, :, None, :, None] * W[:, None, None, :, :] * centred[:, :, :, None, :]
        # what cancels in the centring was at most twice the longest token
        longest = np.abs(X).max(axis=(1, 2))
        whole = np.sqrt((X * X).sum(axis=(1, 2))) * np.abs(W).max(axis=(1, 2)) * longest * 2 * n * np.sqrt(d)
        return table.reshape(b, n * n, d * d), (n + 8) * U * whole

    @same_in_copies
    def _spectrum(self) -> tuple[_Array, _Array]:
        """Singular values of Pi A, largest first (b, r), and how far off each may be (b,)."""
        table, moved = self._table
        values = np.linalg.svd(table, compute_uv=False)
        size = np.sqrt((values * values).sum(axis=1))
        return values, moved + lapack_error(max(table.shape[1:])) * size

    @same_in_copies
    def K(self) -> Any:
        """Largest singular value, from the eigenvalues of the smaller Gram matrix, which lose no accuracy there."""
        table, moved = self._table
        turned = table.transpose(0, 2, 1)
        gram = turned @ table if table.shape[2] <= table.shape[1] else table @ turned
        square = np.trace(gram, axis1=1, axis2=2)
        largest = np.maximum(np.linalg.eigvalsh(gram)[:, -1], 0.0)
        off = (lapack_error(len(gram[0])) + 2 * max(table.shape[1:]) * U) * square
        root = Lane(np.ascontiguousarray(largest), off).sqrt()
        return Lane(root.mid, moved if root.rad is None else root.rad + moved)

    def singular_value(self, place: int) -> Any:
        values, off = self._spectrum
        if place > values.shape[1]:
            return self.number(0.0)
        return Lane(np.ascontiguousarray(values[:, place - 1]), off)

    @same_in_copies
    def kappa_plus(self) -> Any:
        values, off = self._spectrum
        ranks = (values > 1e-9 * np.maximum(values[:, :1], 1e-300)).sum(axis=1)
        rows = np.arange(len(values))
        least = np.where(ranks > 0, values[rows, np.maximum(ranks - 1, 0)], 0.0)
        return Lane(least, off)

    def _second_eigenvalue(self, J: Any) -> Any:
        return eigenvalues(J)[1]

    def softmax(self, logits: Any) -> Any:
        weights = self.exp(logits - _shift(logits))
        return weights / weights.sum()

    def _softmax(self, logits: Any) -> Any:
        """Softmax over the allowed positions; the shift by each row's largest logit changes no exact value."""
        result = np.empty((self.n, self.n), dtype=object)
        for i in range(self.n):
            chosen = self.allowed[i]
            row = logits[i, chosen]
            weights = self.exp(row - _shift(row))
            result[i, chosen] = weights / weights.sum()
            result[i, ~chosen] = [self.number(0.0)] * int((~chosen).sum())
        return result


def _shift(logits: Any) -> Lane:
    """The largest value of every instance, as constants."""
    values = [entry.value if isinstance(entry, Slope) else entry for entry in np.ravel(logits)]
    return Lane(np.maximum.reduce(np.broadcast_arrays(*[middle(value) for value in values])))
