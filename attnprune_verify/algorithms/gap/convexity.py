"""Lower bounds of the divergence's curvature in the kept entries of a weight, and of its least value.

The divergence is a mean of log-sum-exps of logits that are affine in the weight V. Along a line on which no logits of a
row come apart faster than at rate r, its third derivative is at most r times its second (a third cumulant against a
variance). So with sigma <= the least eigenvalue of the Hessian at Y on the support, kappa ||V|| >= the difference of
any two logits of a row that a change V of the weight makes, and g the gradient at Y on the support,

    KL(V) >= KL(Y) - 2 ||g||^2/(sigma (1 + sqrt(1 - a))^2),    a = kappa ||g||/sigma,

for every V on the support, where a <= 1: to leading order ||g||^2/(2 sigma), as for a quadratic function.
"""

import math

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf

from attnprune_verify.algorithms.gap.one_map import Curved, OneMap
from attnprune_verify.algorithms.gap.rounding import UNIT, gamma, relative_error, sizes
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.maps import Heads

MOST = 3000
"""Entries of a support whose Hessian is set up: 72 MB, and a product for each column, minutes of one core."""
_SHARES = (0.99, 0.9, 0.5)
"""Shares of the least eigenvalue in floats that are tried as sigma: chosen; rounding alone makes the first fail."""
_UP = 1.01
"""Covers the roundings of norms and of this file's scalar formulas, all below 1e-3."""


def still_to_gain(slope: float, sigma: float, kappa: float) -> float:
    """Bound of what is still to gain: the present value minus the least one; inf where nothing follows.

    Examples
    --------
    >>> still_to_gain(1e-3, 1.0, 10.0) < 5.2e-7, still_to_gain(0.2, 1.0, 10.0)
    (True, inf)
    """
    if sigma <= 0 or _UP * kappa * slope > sigma:
        return math.inf
    return _UP * 2 * slope**2 / (sigma * (1 + math.sqrt(1 - _UP * kappa * slope / sigma)) ** 2)


def reach(divergence: OneMap) -> float:
    """kappa: twice the largest ||x_i|| ||k_j|| (or ||q_i|| ||x_j||), scale included, over all rows."""
    moving, other = _norms(divergence)
    return 2 * _UP * max(float(a.max() * b.max()) for a, b in zip(moving, other, strict=True))


def least_curvature(divergence: OneMap, at: Array) -> float:
    """sigma: below the least eigenvalue of the Hessian on the support, 0 where there is no better number.

    A completed Cholesky decomposition of the Hessian less sigma proves it (S. M. Rump, BIT 46, 2006); the rounding of
    the Hessian itself is paid (PROOFS.md, new:certified_refit).
    """
    if not 0 < np.count_nonzero(divergence.weight) <= MOST:
        return 0.0
    curved = divergence.curved(at)
    H = hessian(divergence, curved)
    least = float(eigh(H, eigvals_only=True, subset_by_index=[0, 0])[0])
    paid = _rounding(divergence, at, curved.F) + _UP * (gamma(len(H) + 1) + 4 * UNIT) * float(H.diagonal().sum())
    for share in _SHARES:
        if share * least > paid and _completes(H - share * least * np.eye(len(H))):
            return share * least - paid
    return 0.0


def hessian(divergence: OneMap, curved: Curved) -> Array:
    """The Hessian on the support, column by column."""
    places = np.flatnonzero(divergence.weight)
    found = np.empty((len(places), len(places)))
    for column, place in enumerate(places):
        unit = np.zeros(divergence.weight.size)
        unit[place] = 1.0
        found[:, column] = divergence.product(curved, unit.reshape(divergence.weight.shape)).ravel()[places]
    return (found + found.T) / 2


def _completes(matrix: Array) -> bool:
    factor, info = dpotrf(matrix, lower=1, clean=0)
    return bool(info == 0 and np.isfinite(factor.diagonal()).all())


def _norms(divergence: OneMap) -> tuple[Array, Array]:
    """(count, n) norms of the tokens that the moving weight is multiplied with, and bounds of those of its partners."""
    problem = divergence.problem
    queries, keys, relative = sizes(divergence)
    stays = queries if divergence.place == 1 else keys
    partners = _UP * (np.linalg.norm(divergence.other, axis=2) + relative * stays)
    tokens = np.repeat(np.linalg.norm(problem.X, axis=2), len(queries) // len(problem.X), axis=0)
    scale = problem.layer.scale if isinstance(problem, Heads) and divergence.place == 0 else 1.0
    return tokens * scale, partners


def _rounding(divergence: OneMap, at: Array, F: Array) -> float:
    """A bound of the Hessian's error in the spectral norm: 4 e m mean_i ||x_i||^2 sum_j F_ij ||k_j||^2.

    e bounds the error of F and of every sum, relative to the sum of absolute values. Entry (ac, a'c') is off by at most
    sum_i t_i |x_ia x_ia'|, a matrix over a, a' of norm sum_i t_i ||x_i||^2 at most, the same for all m^2 pairs c, c'.
    """
    problem = divergence.problem
    queries, keys, relative = sizes(divergence, at * divergence.weight)
    of_F = max(float(relative_error(divergence, q, k, relative).max()) for q, k in zip(queries, keys, strict=True))
    m = divergence.other.shape[2]
    each = of_F + 2 * relative + gamma(6 * problem.n + 4 * m + 2 * problem.k * problem.n + 64)
    moving, other = np.square(_norms(divergence))
    rows, columns = (moving, other) if divergence.place == 0 else (other, moving)
    total = sum(float(a @ (f @ b)) for a, b, f in zip(rows, columns, F, strict=True))
    return float(_UP * 4 * each * m * total / divergence.rows)
