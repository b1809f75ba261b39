"""K = ||Pi A||: a lower bound from an iteration and a certified upper bound."""

from dataclasses import dataclass

import numpy as np
from flint import arb, arb_mat
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from attnprune_verify.instance.problem import Instance
from attnprune_verify.instance.validate import Array
from attnprune_verify.theory.numbers.balls import matrix, power_of_two, precision
from attnprune_verify.theory.numbers.spectral import UNIT_ROUNDOFF, dot_error, largest_eigenvalue
from attnprune_verify.theory.quantities.cheap_norm import cheap_norm_bound
from attnprune_verify.theory.quantities.logit_map import LogitMap

DENSE_LIMIT = 32
"""Up to this d the d^2 x d^2 Gram matrix is formed and K is certified to many digits."""

_BALL_LIMIT = 16  # up to this d a Gram matrix that cancels badly in doubles is formed in balls
_LOOSE = 1e-3
_WORK = 6e10  # floating-point operations spent on the lower bound
_MOST_STEPS = 60


@dataclass(frozen=True)
class NormBounds:
    """lower <= K = ||Pi A|| <= upper, and how the upper bound was obtained."""

    lower: arb
    upper: arb
    method: str


def norm_bounds(instance: Instance) -> NormBounds:
    """K = ||Pi A||_op from both sides.

    Below: Lanczos on N -> W * (X^T Pi(X (W * N) X^T) X), the quotient ||Pi A N|| / ||N|| of its last vector, lowered
    by the rounding error. Above, certified: for d <= 32 a Cholesky decomposition of theta I minus the d^2 x d^2 Gram
    matrix (within about 1e-9 of the truth); beyond, the smaller of

        K <= ||X diag(a)||_2 ||X_c diag(b)||_2    whenever |W_ij| <= a_i b_j                   (rank one)
        K <= ||X diag(a)||_2    with a_r = ||X_c diag(W_r)||_2, W_r the r-th row of W          (row by row)

    proved in `cheap_norm`. X_c has its mean row subtracted, which also bounds the masked operator, because centring on
    a subset of columns leaves less than centring on all. On random instances the second is 1.2 to 1.4 times K, the
    first 1.3 to 2.4 times; it alone is left where d Cholesky decompositions are too many (d > 512).

    Returns
    -------
    NormBounds

    Examples
    --------
    >>> import numpy as np
    >>> bounds = norm_bounds(Instance(np.array([[1.0], [0.0]]), np.array([[3.0]])))  # K = w / sqrt(2)
    >>> round(float(bounds.lower), 9), round(float(bounds.upper), 9)
    (2.121320344, 2.121320344)
    """
    with precision():
        logits = LogitMap(instance)
        if not logits.W.any() or not logits.X.any():
            return NormBounds(arb(0), arb(0), "zero operator")
        rounding = logits.rounding()
        if instance.d > DENSE_LIMIT:
            lower, upper = _quotient(logits, _top_by_iteration(logits), rounding), cheap_norm_bound(logits)
            return NormBounds(lower * logits.unit, upper * logits.unit, "rank-one and row-by-row bounds")
        square, vector = largest_eigenvalue(_gram(logits), rounding)
        if rounding > _LOOSE * square and instance.d <= _BALL_LIMIT:
            low, high = _ball_squares(instance)
            return NormBounds(low.sqrt(), high.sqrt(), "Cholesky of the d^2 x d^2 Gram matrix formed in balls")
        assert vector is not None  # no estimate was given
        lower = _quotient(logits, vector, rounding) * logits.unit
        upper = arb(square).sqrt()
        if rounding > _LOOSE * square:
            upper = arb.min(upper, cheap_norm_bound(logits))
        return NormBounds(lower, upper * logits.unit, "Cholesky of the d^2 x d^2 Gram matrix")


def _quotient(logits: LogitMap, vector: Array, rounding: float) -> arb:
    """||Pi A N|| / ||N|| = (<N, normal(N)> / ||N||^2)^(1/2), below K for every N; the rounding is subtracted."""
    N = vector.reshape(logits.d, logits.d)
    quotient = float(np.vdot(N, logits.normal(N)) / np.vdot(N, N))
    return arb(max(quotient * (1 - 4 * dot_error(N.size)) - rounding, 0.0)).sqrt()


def _top_by_iteration(logits: LogitMap) -> Array:
    """A vector near the top eigenvector of `normal`: Lanczos, or a few power steps where each is expensive."""
    d, n, k = logits.d, logits.n, logits.k
    cost = 4.0 * k * (n * n * (d + 20) + n * d * d if logits.masked else d**3)
    steps = int(min(max(_WORK / cost, 3), _MOST_STEPS))
    start: Array = np.abs(logits.W).ravel() + np.random.default_rng(0).standard_normal(d * d) * 1e-2

    def step(v: Array) -> Array:
        return logits.normal(v.reshape(d, d)).ravel()

    if steps >= _MOST_STEPS // 2:
        operator = LinearOperator((d * d, d * d), matvec=step, dtype=np.float64)
        try:
            _, vectors = eigsh(operator, k=1, which="LA", v0=start, ncv=steps // 3, maxiter=3, tol=1e-8)
            return np.asarray(vectors[:, 0])
        except ArpackError:  # not converged within the budget
            pass
    for _ in range(steps):
        image = step(start / np.linalg.norm(start))
        if not image.any():
            break
        start = image
    return start


def _gram(logits: LogitMap) -> Array:
    """The d^2 x d^2 matrix of `normal`: sum_i (w w^T) * (x_i x_i^T kron C_i), C_i the scatter matrix of row i."""
    n, d = logits.n, logits.d
    total = np.zeros((d * d, d * d))
    for x, y in zip(logits.X, logits.Y, strict=True):
        sums = logits.weights @ y
        scatter = logits.weights @ np.einsum("jb,jd->jbd", y, y).reshape(n, d * d)
        scatter -= (np.einsum("ib,id->ibd", sums, sums) / logits.counts[:, :, None]).reshape(n, d * d)
        total += np.einsum("ia,ic->iac", x, x).reshape(n, d * d).T @ scatter
    S = total.reshape(d, d, d, d).transpose(0, 2, 1, 3).reshape(d * d, d * d)
    w = logits.W.ravel()
    S = w[:, None] * S * w / logits.k
    symmetric: Array = (S + S.T) / 2
    return symmetric


def _ball_squares(instance: Instance) -> tuple[arb, arb]:
    """Bounds of K^2 from a Gram matrix formed in balls, for instances whose float Gram matrix is all cancellation."""
    n, d = instance.n, instance.d
    with precision(512):
        mask = matrix(instance.allowed.astype(np.float64))
        counts = [int(row.sum()) for row in instance.allowed]
        total = arb_mat(d * d, d * d)
        for sample in instance.samples:
            rows = [[arb(x) for x in row] for row in np.asarray(sample, dtype=np.float64).tolist()]
            outer = arb_mat([[a * b for a in row for b in row] for row in rows])
            sums = mask * arb_mat(rows)
            scatter = mask * outer
            mean = arb_mat(
                [[sums[i, b] * sums[i, c] / counts[i] for b in range(d) for c in range(d)] for i in range(n)]
            )
            total += outer.transpose() * (scatter - mean)
        w = [arb(x) for x in np.asarray(instance.W, dtype=np.float64).ravel().tolist()]
        # total is indexed [(a, c), (b, e)]; the Gram matrix wants [(a, b), (c, e)]
        entries = [
            w[a * d + b] * w[c * d + e] * total[a * d + c, b * d + e] / len(instance.samples)
            for a in range(d)
            for b in range(d)
            for c in range(d)
            for e in range(d)
        ]
        size = arb(0)
        for entry in entries:
            size = arb.max(size, abs(entry))
        if size.mid() == 0:
            return arb(0), arb(0)
        mantissa, exponent = arb(size.mid()).man_exp()
        unit = power_of_two(int(exponent) + int(mantissa).bit_length())
        S = np.array([float((entry / unit).mid()) for entry in entries]).reshape(d * d, d * d)
        radius = max(float((entry / unit).rad()) for entry in entries) + UNIT_ROUNDOFF
        S, error = (S + S.T) / 2, 2 * d * d * radius
        square, vector = largest_eigenvalue(S, error)
        assert vector is not None  # no estimate was given
        quotient = float(vector @ S @ vector / (vector @ vector)) - error - 4 * dot_error(d**4)
        return arb(max(quotient, 0.0)) * unit, arb(square) * unit
