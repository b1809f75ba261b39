"""lambda_min(X X^T) with an exact sign: rank over the rationals, size by a certified eigenvalue or a ball inverse."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb, arb_mat, fmpz_mat, nmod_mat

from attnprune_verify.instance.validate import Array
from attnprune_verify.theory.numbers.balls import between, matrix, normalised, power_of_two, precision
from attnprune_verify.theory.numbers.spectral import dot_error, largest_eigenvalue, least_eigenvalue

_PRIME = 2**61 - 1  # a Mersenne prime of one word: a full rank modulo it is a full rank
_ENOUGH = 1e-3  # accepted relative width of a certified enclosure; the value inside it is far more accurate
_WELL_CONDITIONED = 1e-4
_MOST_BITS = 2**16  # chosen: some 20,000 digits
_EXACT_LIMIT = 32  # chosen: rows up to which the exact route is taken first


@dataclass(frozen=True)
class GramFloor:
    """lambda_min(X X^T): an enclosure, its best approximation, and why it is zero when it is."""

    enclosure: arb
    value: arb
    reason: str

    @property
    def positive(self) -> bool:
        """True where lambda_min > 0; exact, since zero is reported only when proved."""
        return bool(self.enclosure > 0)


def gram_floor(X: Array) -> GramFloor:
    """beta = lambda_min(X X^T) of one sample, the largest beta with X X^T >= beta I (thm:our_convergence).

    The sign is exact. X X^T is singular iff rank X < n: always when n > d, and otherwise decided over the rationals
    (floats are rationals): full rank modulo one prime proves full rank; a zero or repeated row, or the exact rank of
    the integer matrix, proves the opposite. The size then comes from a float eigenvalue certified by a Cholesky
    decomposition or, when X X^T is too ill-conditioned for doubles, from 1 / lambda_max((X X^T)^-1) with the inverse
    enclosed in balls of increasing precision: the largest eigenvalue of a positive definite matrix is
    well-conditioned, whatever the smallest was.

    Parameters
    ----------
    X : (n, d) array

    Returns
    -------
    GramFloor

    Examples
    --------
    >>> import numpy as np
    >>> from attnprune_verify.theory.numbers.balls import nearest
    >>> nearest(gram_floor(np.array([[1.0, 0.0], [1.0, 1e-20]])).value)  # (1e-20)^2 / 2: eigvalsh sees only noise
    5e-41
    >>> gram_floor(np.array([[1.0, 2.0], [0.5, 1.0]])).positive  # exactly singular
    False
    """
    n, d = X.shape
    if n > d:
        return GramFloor(arb(0), arb(0), f"n = {n} > d = {d} makes X X^T singular, whatever X is")
    flaw = _visible_flaw(X)
    if flaw is None and not exact_rank_is_full(X):
        flaw = "the rows of X are linearly dependent (exact rank over the rationals)"
    if flaw is not None:
        return GramFloor(arb(0), arb(0), f"{flaw}, so X X^T is exactly singular")
    scaled, exponent = normalised(X)
    with precision():
        found = _from_floats(scaled)
        if found is None:
            enclosure, value = _from_inverse(X)
        else:
            enclosure, value = (ball * power_of_two(2 * exponent) for ball in found)
    return GramFloor(enclosure, value, "")


def _visible_flaw(X: Array) -> str | None:
    """A zero row or a pair of equal rows, without any arithmetic."""
    zero = np.flatnonzero(~X.any(axis=1))
    if zero.size:
        return f"row {zero[0]} of X is zero"
    order = np.lexsort(X.T[::-1])
    same = np.flatnonzero((X[order[1:]] == X[order[:-1]]).all(axis=1))
    if same.size:
        first, second = sorted(int(order[same[0] + step]) for step in (0, 1))
        return f"rows {first} and {second} of X are equal"
    return None


def exact_rank_is_full(X: Array) -> bool:
    """Return True where the n <= d rows of floats are linearly independent over the rationals.

    Examples
    --------
    >>> import numpy as np
    >>> exact_rank_is_full(np.array([[0.1, 0.2], [0.2, 0.4]])), exact_rank_is_full(np.array([[0.1, 0.2], [0.3, 0.7]]))
    (False, True)
    """
    rows = _integer_rows(X)
    n, d = X.shape
    residues = nmod_mat(n, d, [entry % _PRIME for row in rows for entry in row], _PRIME)
    # a minor that is nonzero modulo p is nonzero; the converse needs the integers themselves
    full: bool = residues.rank() == n or fmpz_mat(rows).rank() == n
    return full


def _integer_rows(X: Array) -> list[list[int]]:
    """Each row times the power of two that makes it integer; rank is unchanged."""
    mantissas, exponents = np.frexp(np.asarray(X, dtype=np.float64))
    integers = (mantissas * 2.0**53).astype(np.int64)
    rows = []
    for row, powers in zip(integers.tolist(), exponents.tolist(), strict=True):
        base = min((power for entry, power in zip(row, powers, strict=True) if entry), default=0)
        rows.append([entry << (power - base) if entry else 0 for entry, power in zip(row, powers, strict=True)])
    return rows


def _column(vector: Array) -> arb_mat:
    return arb_mat([[x] for x in vector.tolist()])


def _rayleigh(G: arb_mat, vector: Array) -> arb:
    v = _column(vector)
    return (v.transpose() * (G * v))[0, 0] / (v.transpose() * v)[0, 0]


def _from_floats(scaled: Array) -> tuple[arb, arb] | None:
    """Enclosure by a float eigenvector (above) and a completed Cholesky (below); None where doubles do not suffice.

    The Rayleigh quotient's error is quadratic in the vector's, so the value is far better than the enclosure's width;
    singular vectors of X are better than eigenvectors of X X^T by the condition number of X.
    """
    gram = scaled @ scaled.T
    gram = (gram + gram.T) / 2
    error = 2 * dot_error(scaled.shape[1]) * float(np.einsum("ij,ij->", scaled, scaled))
    low, vector = least_eigenvalue(gram, error)
    if low <= 0:
        return None
    if low < _WELL_CONDITIONED * float(np.trace(gram)):
        vector = np.linalg.svd(scaled, full_matrices=False)[0][:, -1]
    w = matrix(scaled.T) * _column(vector)
    v = _column(vector)
    high = (w.transpose() * w)[0, 0] / (v.transpose() * v)[0, 0]
    return (between(low, high), high) if high * (1 - _ENOUGH) < low else None


def _from_inverse(X: Array) -> tuple[arb, arb]:
    """1 / lambda_max of the inverse, enclosed at increasing precision until the enclosure is tight."""
    bits = 192
    while bits <= _MOST_BITS:
        with precision(bits):
            Y = matrix(X)
            try:
                inverse = (Y * Y.transpose()).inv()
            except ZeroDivisionError:
                inverse = None
            found = None if inverse is None else _largest_of_inverse(inverse)
        if found is not None:
            return found
        bits *= 2
    raise ArithmeticError(f"lambda_min(X X^T) needs more than {_MOST_BITS} bits")


def _largest_of_inverse(inverse: arb_mat) -> tuple[arb, arb] | None:
    entries = inverse.entries()
    if not all(entry.is_finite() for entry in entries):
        return None
    n = inverse.nrows()
    # the largest entry of a positive semidefinite matrix stands on its diagonal
    largest = max((inverse[i, i].mid() for i in range(n)), key=_magnitude)
    unit = power_of_two(_magnitude(largest))
    floats = np.array([float((entry / unit).mid()) for entry in entries]).reshape(n, n)
    radius = max(float((entry / unit).rad()) for entry in entries) + 2.0**-53
    if radius > _ENOUGH / (10 * n):
        return None
    floats = (floats + floats.T) / 2
    bound, vector = largest_eigenvalue(floats, error=2 * n * radius)
    assert vector is not None  # no estimate was given
    quotient = _rayleigh(inverse, vector)
    return between(1 / (arb(bound) * unit), 1 / quotient), 1 / quotient


def _magnitude(ball: arb) -> int:
    mantissa, exponent = arb(ball.mid()).man_exp()
    return int(abs(int(mantissa))).bit_length() + int(exponent) if mantissa else -(2**62)


def is_positive_semidefinite(X: Array, shift: float) -> bool:
    """Return True where X X^T - shift I is positive semidefinite, so that `shift` is an admissible beta.

    Decided by the enclosure of lambda_min; inside it exactly, by elimination in rationals, for n <= 32, and beyond
    against the Rayleigh quotient of the inverse, whose distance to lambda_min is far below a rounding error.

    Examples
    --------
    >>> import numpy as np
    >>> is_positive_semidefinite(np.eye(3), 1.0), is_positive_semidefinite(np.eye(3), 1.0000001)
    (True, False)
    """
    floor = gram_floor(X)
    with precision():
        number = arb(shift)
        if number <= floor.enclosure.lower():
            return True
        if number > floor.enclosure.upper() or number > floor.value * (1 + _ENOUGH):
            return False
        if shift == float(floor.value.mid()):
            return True  # the printed value itself
        if X.shape[0] <= _EXACT_LIMIT:
            rows = [[Fraction(x) for x in row] for row in np.asarray(X, dtype=np.float64).tolist()]
            return _eliminates(rows, Fraction(shift))
        return bool(number <= _from_inverse(X)[1])


def _eliminates(rows: list[list[Fraction]], shift: Fraction) -> bool:
    """LDL^T of X X^T - shift I in rationals: no negative pivot, and a zero pivot only in a zero row."""
    n = len(rows)
    G = [[sum((a * b for a, b in zip(r, s, strict=True)), Fraction(0)) for s in rows] for r in rows]
    for i in range(n):
        G[i][i] -= shift
    for k in range(n):
        pivot = G[k][k]
        if pivot < 0 or (pivot == 0 and any(G[k][k + 1 :])):
            return False
        if pivot == 0:
            continue
        for i in range(k + 1, n):
            factor = G[i][k] / pivot
            for j in range(k + 1, n):
                G[i][j] -= factor * G[k][j]
    return True
