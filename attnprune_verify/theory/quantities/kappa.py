"""kappa_T and lambda_2(J): the two factors of the strongest PL constant, certified from below."""

import math

import numpy as np
from flint import arb, fmpz_mat
from numpy.typing import NDArray
from scipy.linalg import eigh

from attnprune_verify.instance.problem import Instance
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.functions import attention_matrices
from attnprune_verify.model.maps import Fused
from attnprune_verify.theory.numbers.balls import doubles, normalised, power_of_two, precision
from attnprune_verify.theory.numbers.spectral import UNIT_ROUNDOFF, dot_error, least_eigenvalue
from attnprune_verify.theory.quantities.evaluation import weight_error
from attnprune_verify.theory.quantities.measure import measure, once_per_instance

_LARGEST = 2**22  # entries of the matrix of the adjoint
_LARGEST_EXACT = 2**12
_LONGEST_ROWS = 64  # chosen: longer rows take their least allowed weight
_LARGEST_ERROR = 1e-3  # chosen: weights less certain than this take their least allowed one


@once_per_instance
def kappa_zero_sum(instance: Instance) -> arb:
    """kappa_T from below: ||W * (X^T p X)||_F >= kappa_T ||p||_F for every p on the mask with zero row sums.

    At least min|W| beta, and positive for some singular X X^T, e.g. n = d + 1 tokens in general position under a
    causal mask. With p = E q over the exact basis e_j - e_last of every row, kappa_T^2 is the least eigenvalue of
    B B^T q = theta E^T E q, B = W * (x_i (x_j - x_last)^T); E^T E >= I turns a certified
    lambda_min(B B^T - theta E^T E) >= -eps into kappa_T^2 >= theta - eps. 0 for a batch, whose samples can
    cancel, and min|W| beta for large instances.

    Examples
    --------
    >>> import numpy as np
    >>> round(float(kappa_zero_sum(Instance(np.eye(2), np.array([[1.0, -1.0], [-1.0, 1.0]])))), 9)
    1.0
    """
    with precision():
        if len(instance.samples) > 1:
            return arb(0)
        found = measure(instance)
        simple = found.min_W * arb(found.beta.enclosure.lower())
        rows = int((instance.allowed.sum(axis=1) - 1).sum())
        if rows == 0 or rows > instance.d**2 or rows * instance.d**2 > _LARGEST:
            return simple
        B, unit, gram = _adjoint(instance)
        S = B @ B.T
        S = (S + S.T) / 2
        squares = float(np.einsum("ij,ij->", B, B)) * 1.01
        # entries of B carry three roundings each, the product gamma
        error = (dot_error(B.shape[1]) + 8 * UNIT_ROUNDOFF) * squares
        theta = float(eigh(S, gram, eigvals_only=True, subset_by_index=[0, 0])[0])
        difference = S - theta * gram
        slip = 4 * UNIT_ROUNDOFF * (float(np.linalg.norm(S)) + abs(theta) * float(np.linalg.norm(gram)))
        least, _ = least_eigenvalue((difference + difference.T) / 2, error + slip)
        certified = theta + min(least, 0.0)
        direct = arb(certified).sqrt() * unit if certified > 0 else arb(0)
        return arb.max(simple, arb(direct.lower()))


def _adjoint(instance: Instance) -> tuple[Array, arb, Array]:
    """Rows W * (x_i (x_j - x_last)^T) over the basis of every row, their common unit, and the basis' Gram matrix."""
    X, token_exponent = normalised(instance.samples[0])
    W, weight_exponent = normalised(instance.W)
    blocks, sizes = [], []
    for x, allowed in zip(X, instance.allowed, strict=True):
        positions = np.flatnonzero(allowed)
        differences = X[positions[:-1]] - X[positions[-1]]
        blocks.append((W * (x[:, None] * differences[:, None, :])).reshape(len(differences), W.size))
        sizes.append(len(differences))
    gram = np.zeros((sum(sizes), sum(sizes)))
    start = 0
    for size in sizes:
        gram[start : start + size, start : start + size] = np.eye(size) + 1.0
        start += size
    return np.concatenate(blocks), power_of_two(2 * token_exponent + weight_exponent), gram


def row_eigenvalue(F: Array, allowed: NDArray[np.bool_], rho: float = 0.0) -> float:
    """min_i lambda_2(J_i) from below, J_i = diag(F_i) - F_i F_i^T on the allowed positions; at least the least weight.

    Rows with one allowed position are left out (1/2, the largest possible value, if there are no others). `rho` bounds
    the relative error of the entries of F. J + 11^T/m has least eigenvalue lambda_2(J) <= 1/2.

    Examples
    --------
    >>> import numpy as np
    >>> round(row_eigenvalue(np.array([[0.25, 0.75]]), np.ones((1, 2), dtype=bool)), 12)  # 2 delta (1 - delta)
    0.375
    """
    lowest = 0.5
    for row, positions in zip(F, allowed, strict=True):
        sigma = row[positions]
        m = len(sigma)
        if m < 2:
            continue
        J = np.diag(sigma) - np.outer(sigma, sigma) + 1.0 / m
        certified, _ = least_eigenvalue(J, 3 * rho + 8 * m * UNIT_ROUNDOFF)
        # the difference, the product and the least weight's own rounding: below 4 u together
        lowest = min(lowest, max(certified, float(sigma.min()) * (1 - rho - 4 * UNIT_ROUNDOFF)))
    return lowest


@once_per_instance
def row_eigenvalue_at(instance: Instance) -> arb:
    """`row_eigenvalue` of F(M), smallest over a batch; the least allowed weight where n is large, 1 without a choice.

    Examples
    --------
    >>> import numpy as np
    >>> round(float(row_eigenvalue_at(Instance(np.eye(2), np.zeros((2, 2))))), 12)
    0.5
    """
    with precision():
        floor = measure(instance).floor
        simple = floor.allowed * (-arb(floor.radius)).exp()
        M = np.asarray(instance.M_or_ones, dtype=np.float64)
        rho = weight_error(instance, M)
        if instance.n > _LONGEST_ROWS or not rho < _LARGEST_ERROR:
            return arb(simple.lower())
        X, W = doubles(instance.samples, instance.W)
        F = attention_matrices(Fused(X, M * W, instance.visible))
        least = min(row_eigenvalue(sample, instance.allowed, rho) for sample in F)
        return arb.max(arb(simple.lower()), arb(least))


@once_per_instance
def kappa_plus(instance: Instance) -> arb:
    """kappa_+ from below: the smallest nonzero singular value of Pi A, with the rank decided over the rationals.

    The rank r is that of the integer matrix of the map; the r-th singular value is the float one minus a generous
    multiple of its rounding error.

    Raises
    ------
    ValueError
        If the instance is a batch or too large for an exact rank (d^2 sum m_i above 4096).

    Examples
    --------
    >>> import numpy as np
    >>> round(float(kappa_plus(Instance(np.array([[1.0], [0.0]]), np.array([[3.0]])))), 9)
    2.121320344
    """
    rows = int((instance.allowed.sum(axis=1) - 1).sum())
    if len(instance.samples) > 1 or rows * instance.d**2 > _LARGEST_EXACT:
        raise ValueError(
            f"kappa_+ needs one sample and d^2 sum(m_i - 1) <= {_LARGEST_EXACT}; got {rows * instance.d**2}"
        )
    with precision():
        if rows == 0:
            return arb(0)
        B, unit, gram = _adjoint(instance)
        rank = int(fmpz_mat(_exact_rows(instance)).rank())
        if rank == 0:
            return arb(0)
        # Pi A = E (E^T E)^{-1} B restricted to the basis: its Gram matrix is B^T (E^T E)^{-1} B
        C = np.linalg.solve(np.linalg.cholesky(gram), B)
        value = float(np.linalg.svd(C, compute_uv=False)[rank - 1])
        size = float(np.linalg.norm(B)) * math.sqrt(instance.n)
        return arb(max(value - 64 * max(B.shape) * UNIT_ROUNDOFF * size, 0.0)) * unit


def _exact_rows(instance: Instance) -> list[list[int]]:
    """The matrix of the map in integers, up to one power of two per factor."""
    X, W = _integers(instance.samples[0]), _integers(instance.W)
    rows = []
    for x, allowed in zip(X, instance.allowed, strict=True):
        positions = np.flatnonzero(allowed).tolist()
        for j in positions[:-1]:
            moved = [a - b for a, b in zip(X[j], X[positions[-1]], strict=True)]
            rows.append([w * a * b for a, line in zip(x, W, strict=True) for w, b in zip(line, moved, strict=True)])
    return rows


def _integers(array: Array) -> list[list[int]]:
    ratios = [[float(x).as_integer_ratio() for x in row] for row in array]
    common = max(denominator for row in ratios for _, denominator in row)
    return [[numerator * (common // denominator) for numerator, denominator in row] for row in ratios]
