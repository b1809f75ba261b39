"""Eigenvalues and singular values of small matrices, enclosed in balls at any precision."""

from functools import cmp_to_key
from typing import Any, TypeAlias

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from attnprune_verify.theory.numbers.arithmetic import BALL, FLOAT, Arithmetic, Undecidable

_Balls: TypeAlias = NDArray[Any]
"""An object array of balls."""

_FLOAT_BITS = 53
"""Significant bits of float64, where eigenvectors start."""
_SWEEPS = 60
"""Chosen: each sweep of Jacobi's method doubles the digits; from axes that are no eigenvectors it takes about ten."""


def spectral_norm(array: _Balls) -> arb:
    """Enclosure of the largest singular value of an object array of balls, through verified eigenvalues."""
    smaller = array.T @ array if array.shape[1] <= array.shape[0] else array @ array.T
    largest: arb = BALL.largest(eigenvalues(smaller)).nonnegative_part().sqrt()
    return largest


def extreme_eigenvalues(symmetric: Any, arithmetic: Arithmetic) -> tuple[Any, Any]:
    """(least, largest) eigenvalue of a symmetric matrix."""
    if arithmetic is FLOAT:
        values = np.linalg.eigvalsh((symmetric + symmetric.T) / 2)
        return float(values[0]), float(values[-1])
    if arithmetic is not BALL:
        return arithmetic.extreme_eigenvalues(symmetric)
    found = eigenvalues(symmetric)
    return BALL.smallest(found), BALL.largest(found)


def positive_definite(gram: Any, shift: Any) -> bool:
    """Return True where gram - shift I certainly has positive pivots (L D L^T without square roots)."""
    work = gram - np.diag([shift] * len(gram))
    for k in range(len(work)):
        if not work[k, k] > 0:
            return False
        work[k + 1 :, k + 1 :] -= np.outer(work[k + 1 :, k] / work[k, k], work[k, k + 1 :])
    return True


def eigenvalues(symmetric: _Balls) -> list[arb]:
    """Enclosures of all eigenvalues of a symmetric matrix of balls, largest first.

    With V the eigenvectors found at the same precision, B = V^T S V is nearly diagonal. Weyl: its k-th
    eigenvalue is within the largest off-diagonal row sum of its k-th largest diagonal entry. Ostrowski: the k-th
    eigenvalue of S is that of B times a factor between the inverses of the extreme eigenvalues of V^T V, which is
    nearly I.
    """
    vectors = _near_eigenvectors(symmetric)
    near_diagonal = vectors.T @ symmetric @ vectors
    defect = vectors.T @ vectors - BALL.lift(np.eye(len(symmetric)))
    spread = BALL.largest(np.abs(defect).sum(axis=1)).upper()
    if not spread < 1:
        raise Undecidable("eigenvectors that are not independent")
    beside = near_diagonal * (1 - np.eye(len(symmetric), dtype=int))
    radius = BALL.largest(np.abs(beside).sum(axis=1)).upper()
    factor = (1 / (1 + arb(spread))).union(1 / (1 - arb(spread)))
    diagonal = sorted(np.diag(near_diagonal), key=cmp_to_key(_by_midpoint), reverse=True)
    # sorting by midpoints moves an enclosure by at most its own radius, which is added
    blur = BALL.largest([arb(entry.rad()) for entry in diagonal]).upper() * 2
    return [(entry + arb(0, radius + blur)) * factor for entry in diagonal]


def _by_midpoint(first: arb, second: arb) -> int:
    """Compare the midpoints exactly: as floats, two of them may be one or 0."""
    less, more = first.mid() < second.mid(), first.mid() > second.mid()
    return int(more) - int(less)


def _near_eigenvectors(symmetric: _Balls) -> _Balls:
    """Approximate eigenvectors of the midpoints: nothing rests on their quality but the width of the enclosures.

    Those of float64, made orthonormal to all digits by V <- V (3 I - V^T V)/2, then Jacobi's rotations: few are left.
    """
    middle = _midpoints(symmetric + symmetric.T) / 2
    plain = middle.astype(float)
    try:
        vectors: _Balls = BALL.lift(np.linalg.eigh(plain)[1] if np.isfinite(plain).all() else np.eye(len(plain)))
    except np.linalg.LinAlgError:  # no convergence: Jacobi's rotations begin at the axes
        vectors = BALL.lift(np.eye(len(plain)))
    for _ in range(int(ctx.prec / _FLOAT_BITS).bit_length()):
        vectors = _midpoints(vectors @ (BALL.lift(3 * np.eye(len(plain))) - vectors.T @ vectors) / 2)
    turned = vectors.T @ middle @ vectors
    negligible = BALL.largest(np.abs(turned)).upper() * arb(2) ** -ctx.prec
    for _ in range(_SWEEPS):
        if not sum(_rotate(turned, vectors, p, q, negligible) for q in range(len(plain)) for p in range(q)):
            break
        turned, vectors = _midpoints(turned), _midpoints(vectors)
    return vectors


def _rotate(turned: _Balls, vectors: _Balls, p: int, q: int, negligible: arb) -> bool:
    """Turn the axes p and q so that the entry between them vanishes; not where it is negligible."""
    first, entry, second = _midpoints(turned[[p, p, q], [p, q, q]])
    if not abs(entry) > negligible:
        return False
    half = (second - first) / (2 * entry)
    tangent = (1 if float(half) >= 0 else -1) / (abs(half) + (half * half + 1).sqrt())
    cosine = 1 / (tangent * tangent + 1).sqrt()
    sine = tangent * cosine
    for lines in (turned, turned.T, vectors.T):
        lines[p], lines[q] = lines[p] * cosine - lines[q] * sine, lines[p] * sine + lines[q] * cosine
    return True


def _midpoints(balls: _Balls) -> _Balls:
    return np.array([arb(entry).mid() for entry in np.ravel(balls)], dtype=object).reshape(np.shape(balls))
