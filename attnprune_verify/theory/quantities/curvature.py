"""Curvature at a point: row constants that use the actual c, instead of the worst case C_+ and C_-."""

from dataclasses import dataclass

import numpy as np
from flint import arb
from numpy.typing import NDArray

from attnprune_verify.instance.problem import Instance
from attnprune_verify.instance.validate import Array
from attnprune_verify.model import attention
from attnprune_verify.theory.formulas import sharp
from attnprune_verify.theory.numbers.balls import doubles, precision
from attnprune_verify.theory.numbers.spectral import dot_error
from attnprune_verify.theory.quantities.evaluation import weight_error
from attnprune_verify.theory.quantities.measure import logit_norm

_PAIRWISE_LIMIT = 512  # rows up to this length use the pairwise (Gershgorin) candidate, which costs n^2 per row


@dataclass(frozen=True)
class LocalCurvature:
    """lower I <= Hess L(M) <= upper I at one M, certified; never wider than lam - C_- K^2 and lam + C_+ K^2."""

    lower: arb
    upper: arb


def local_curvature(instance: Instance, M: Array | None = None) -> LocalCurvature:
    """Bounds of Hess L at M (the instance's M by default): lam + max_i C_i^+ K^2 and lam - max_i C_i^- K^2.

    As c -> 0 the first tends to the Gauss-Newton value lam + max_i ||J(f_i)||^2 K^2, the second to lam.

    Examples
    --------
    >>> import numpy as np
    >>> at = local_curvature(Instance(np.eye(2), np.array([[1.0, -1.0], [-1.0, 1.0]])))  # M = 1: c = 0
    >>> round(float(at.lower), 9), round(float(at.upper), 9) <= 0.25
    (-0.0, True)
    """
    X, W = doubles(instance.samples, instance.W)
    M = np.asarray(instance.M_or_ones if M is None else M, dtype=np.float64)
    rho = max(weight_error(instance, M), weight_error(instance, np.ones_like(M)))
    above, below = 0.0, 0.0
    for sample in X:
        F, dense = attention(sample, M * W, instance.mask), attention(sample, W, instance.mask)
        upper, lower = row_constants(F, dense, instance.allowed, rho)
        above, below = max(above, float(upper.max())), max(below, float(lower.max()))
    with precision():
        square = arb(logit_norm(instance).upper.upper()) ** 2
        return LocalCurvature(instance.lam - arb(below) * square, instance.lam + arb(above) * square)


def row_constants(
    F: Array, dense: Array, allowed: NDArray[np.bool_] | None = None, rho: float = 0.0
) -> tuple[Array, Array]:
    """C_i^+ and C_i^- with -C_i^- I <= H_i <= C_i^+ I for every row of F = softmax, dense = F(1).

    ::

        C_i^+ = min(C_+, 2 max_j sum_k (a_jk)_+, b^2 + b max_j (c_j - <c, sigma>)_+)
        C_i^- = min(C_-, 2 max_j sum_k (a_jk)_-, b (max_j (<c, sigma> - c_j) - min sigma)_+)
        a_jk = sigma_j sigma_k (2 (sigma_j + sigma_k) - f_j - f_k - 3 ||sigma||^2 + 2 <f, sigma>)
        b = s1 (1 - s1 + s2) >= ||J||, s1 and s2 the two largest of sigma (new:jacobian_two_largest)

    H is the graph Laplacian of a (Gershgorin), and H = J^2 + R with R = sum_j sigma_j (c_j - <c, sigma>)(v_j - mean)^2
    between its extreme factors times J; also J^2 >= lambda_2(J) J on 1-orthogonal vectors.

    Parameters
    ----------
    F, dense : (n, n) arrays
        Rows in the simplex.
    allowed : (n, n) array of bool, optional
        Where F may be positive; everywhere by default.
    rho : float
        Bound on the relative error of their entries; every a_jk is then off by at most 28 rho sigma_j sigma_k.

    Examples
    --------
    >>> import numpy as np
    >>> upper, lower = row_constants(np.array([[0.5, 0.5]]), np.array([[0.5, 0.5]]))
    >>> round(float(upper[0]), 9), round(float(lower[0]), 9)  # c = 0: J^2 = 1/4
    (0.25, 0.0)
    """
    n = F.shape[1]
    allowed = np.ones(F.shape, dtype=np.bool_) if allowed is None else allowed
    slip = 64 * rho + 64 * dot_error(n)
    c = F - dense
    mean = np.einsum("ij,ij->i", c, F)
    reach_up = (np.where(allowed, c, -np.inf).max(axis=1) - mean).clip(min=0.0)
    reach_down = (mean - np.where(allowed, c, np.inf).min(axis=1)).clip(min=0.0)
    least = np.where(allowed, F, np.inf).min(axis=1) * (1 - rho)
    second, first = np.partition(np.pad(F, ((0, 0), (1, 0))), n - 1, axis=1)[:, n - 1 :].T
    norm = first * (1 - first + second)
    upper = np.minimum(float(sharp.C_plus()), norm**2 + norm * reach_up + slip)
    lower = np.minimum(float(sharp.C_minus()), norm * (reach_down - least).clip(min=0.0) + slip)
    if n <= _PAIRWISE_LIMIT:
        for i, (sigma, f) in enumerate(zip(F, dense, strict=True)):
            scale = 2 * float(f @ sigma) - 3 * float(sigma @ sigma)
            a = np.outer(sigma, sigma) * ((2 * sigma - f)[:, None] + (2 * sigma - f)[None, :] + scale)
            np.fill_diagonal(a, 0.0)
            upper[i] = min(upper[i], 2 * float(a.clip(min=0.0).sum(axis=1).max()) + slip)
            lower[i] = min(lower[i], 2 * float((-a).clip(min=0.0).sum(axis=1).max()) + slip)
    one = allowed.sum(axis=1) < 2  # a row with one position is constant
    return np.where(one, 0.0, upper), np.where(one, 0.0, lower)
