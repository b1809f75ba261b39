"""Certified bounds on eigenvalues of symmetric matrices: floating point proposes, a completed Cholesky proves.

S. M. Rump, "Verification of positive definiteness", BIT 46 (2006): if the floating-point Cholesky decomposition of a
symmetric A runs to completion, A + E = R^T R with ||E||_2 <= alpha trace(A), alpha = gamma_{n+1} / (1 - gamma_{n+1}),
in any order of evaluation. Hence lambda_min(A) >= -alpha trace(A), whatever the quality of R.
"""

import math

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf

from attnprune_verify.instance.validate import Array

UNIT_ROUNDOFF = 2.0**-53  # of float64
_TINY = 2.0**-1000  # far above every accumulated underflow of matrices scaled to entries of size about 1
_UP = 1.0 + 2.0**-40  # covers the handful of roundings in the scalar formulas below


def dot_error(length: int) -> float:
    """gamma_N = N u / (1 - N u): relative to sum |a_i b_i|, the error of a float dot product in any order."""
    return _UP * (length + 2) * UNIT_ROUNDOFF / (1.0 - (length + 2) * UNIT_ROUNDOFF)


def completes(A: Array) -> bool:
    """Return True where the float Cholesky decomposition of the symmetric `A` runs to completion."""
    if not np.isfinite(A).all():
        return False
    factor, info = dpotrf(A, lower=1, clean=0)
    return bool(info == 0 and np.isfinite(np.diagonal(factor)).all())


def _alpha(size: int) -> float:
    gamma = dot_error(size + 1)
    return gamma / (1.0 - gamma)


def largest_eigenvalue(
    S: Array, error: float = 0.0, estimate: float | None = None, slack: float = 0.0
) -> tuple[float, Array | None]:
    """A certified upper bound of lambda_max(S'), for every symmetric S' with ||S' - S||_2 <= error.

    Parameters
    ----------
    S : (m, m) array
        Symmetric, entries of size about 1 or below.
    error : float
        Bound on ||S' - S||_2.
    estimate : float, optional
        A guess of lambda_max(S) from below, which saves the eigenvalue computation.
    slack : float
        How far below the guess may be: the first value tried is estimate + slack.

    Returns
    -------
    (float, (m,) array or None)
        The bound, about m^2 u trace(S) above the truth, and the float eigenvector (None when an estimate was given).

    Examples
    --------
    >>> import numpy as np
    >>> bound, vector = largest_eigenvalue(np.diag([1.0, 2.0]))
    >>> 2.0 <= bound < 2.0 + 1e-9
    True
    """
    m = S.shape[0]
    vector = None
    if estimate is None:
        values, vectors = eigh(S, subset_by_index=[m - 1, m - 1])
        estimate, vector = float(values[0]), vectors[:, 0]
    size = float(np.abs(np.diagonal(S)).sum()) + _TINY
    slack = max(slack, 8.0 * m * UNIT_ROUNDOFF * size)
    while True:
        theta = estimate + slack
        A = -S
        A[np.diag_indices(m)] += theta
        if completes(A):
            break
        slack *= 8.0
    trace = m * abs(theta) + size
    # the diagonal theta - S_ii was rounded, each entry by at most u (|theta| + |S_ii|)
    bound = theta + _alpha(m) * trace + 2 * UNIT_ROUNDOFF * (abs(theta) + size) + error
    return bound + abs(bound) * (_UP - 1.0) + _TINY, vector


def least_eigenvalue(S: Array, error: float = 0.0) -> tuple[float, Array]:
    """A certified lower bound of lambda_min(S'), ||S' - S||_2 <= error, and the float eigenvector.

    Examples
    --------
    >>> import numpy as np
    >>> bound, vector = least_eigenvalue(np.diag([1.0, 2.0]))
    >>> 1.0 - 1e-9 < bound <= 1.0
    True
    """
    values, vectors = eigh(S, subset_by_index=[0, 0])
    bound, _ = largest_eigenvalue(-S, error, estimate=-float(values[0]))
    return -bound, vectors[:, 0]


def spectral_norm(B: Array) -> float:
    """A certified upper bound of ||B||_2 for an exact float matrix with entries of size about 1 or below.

    lambda_max of the smaller Gram matrix; its rounding is at most gamma_N ||B||_F^2.

    Examples
    --------
    >>> import numpy as np
    >>> 5.0 <= spectral_norm(np.array([[3.0, 4.0], [0.0, 0.0]])) < 5.0 + 1e-8
    True
    """
    tall = B.shape[0] >= B.shape[1]
    length = max(B.shape)
    gram = B.T @ B if tall else B @ B.T
    gram = (gram + gram.T) / 2
    squares = float(np.einsum("ij,ij->", B, B)) * (1.0 + dot_error(B.size))
    bound, _ = largest_eigenvalue(gram, _UP * (dot_error(length) + UNIT_ROUNDOFF) * squares + _TINY)
    return math.sqrt(max(bound, 0.0)) * _UP + _TINY
