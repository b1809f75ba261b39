"""Readings of an error that both audits print: a factor in words, and whether errors follow a curve."""

import numpy as np
from numpy.typing import NDArray

_FEWEST = 60  # weights that tell whether they are a function of the distance
_JAGGED = 0.05  # half the mean square of an error's differences between neighbours, over its variance: of noise 1


def format_factor(factor: float) -> str:
    """Describe a factor; one close to 1 by its difference from 1."""
    return f"{factor:.6g}" if f"{factor:.6g}" != "1" else f"1 {'+' if factor > 1 else '-'} {abs(factor - 1):.2g}"


def follows_curve(z: NDArray[np.float64], error: NDArray[np.float64]) -> bool:
    """Return True where errors are a function of the distances z: von Neumann's ratio of neighbours is far below 1.

    Examples
    --------
    >>> z = -np.random.default_rng(0).uniform(0, 5, 200)
    >>> follows_curve(z, 1e-4 * z**2), follows_curve(z, 1e-4 * np.random.default_rng(1).standard_normal(200))
    (True, False)
    """
    if z.size < _FEWEST:
        return False
    ordered = error[np.argsort(z)]
    return bool(np.mean(np.diff(ordered) ** 2) / 2 <= _JAGGED * np.var(ordered))
