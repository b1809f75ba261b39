"""C_+ and C_- from above: the polynomial inequalities behind them, proved on boxes by branch and bound.

With f = e_k the pairwise weights of the row Hessian are a_ij = sigma_i sigma_j [2(sigma_i + sigma_j) - f_i - f_j - 3S
+ 2 sigma_k], S = ||sigma||^2, and Gershgorin gives lambda_max <= 2 max_i sum_j (a_ij)_+. Collecting the active j in
y = their mass and z = their sum of squares, 0 <= z <= y^2, and using S >= the squares that are present, every row sum
is at most one of the polynomials below, which are linear in z: both ends of z suffice.
"""

import numpy as np
import pytest

from attnprune_verify.theory.formulas import sharp


def upper_at_vertex(x, w, y, z):  # i = k: x = sigma_k
    return x * (y * (3 * x - 1) * (1 - x) + z * (2 - 3 * y))


def upper_active(x, w, y, z):  # i != k, the edge to k is active: x = sigma_i, w = sigma_k
    q = 3 * x**2 + 3 * w**2
    return x * (w * (4 * w + 2 * x - 1 - q) + y * (2 * x + 2 * w - q) + z * (2 - 3 * w - 3 * y))


def upper_inactive(x, w, y, z):
    q = 3 * x**2 + 3 * w**2
    return x * (y * (2 * x + 2 * w - q) + z * (2 - 3 * y))


def lower_at_vertex(x, w, y, z):  # the same with all signs turned and S <= x^2 + z + (1 - x - y)^2
    S = x**2 + z + (1 - x - y) ** 2
    return -x * (y * (4 * x - 1 - 3 * S) + 2 * z)


def lower_active(x, w, y, z):
    S = x**2 + w**2 + z + (1 - x - w - y) ** 2
    return -x * (w * (4 * w + 2 * x - 1 - 3 * S) + y * (2 * x + 2 * w - 3 * S) + 2 * z)


def lower_inactive(x, w, y, z):
    S = x**2 + w**2 + z + (1 - x - w - y) ** 2
    return -x * (y * (2 * x + 2 * w - 3 * S) + 2 * z)


UPPER = (upper_at_vertex, upper_active, upper_inactive)
LOWER = (lower_at_vertex, lower_active, lower_inactive)


def proved_below(polynomial, bound, free_w):
    """Return True where `polynomial` <= bound on {x, w, y >= 0, x + w + y <= 1, 0 <= z <= y^2}; its largest value seen.

    Degree <= 6 polynomials with gradient at most 40 and second derivatives at most 120 on the unit box: on a box of
    half-width r around a point, value <= value(centre) + r sum |difference quotients| + second-order term.
    """
    seen = 0.0
    for end in (0.0, 1.0):
        half = 0.125
        axis = np.arange(half, 1, 2 * half)
        w_axis = axis if free_w else np.array([0.0])
        boxes = np.array(np.meshgrid(axis, w_axis, axis)).reshape(3, -1).T
        for _ in range(12):
            x, w, y = boxes.T
            inside = x + w + y <= 1 + 3 * half
            boxes = boxes[inside]
            x, w, y = boxes.T

            def value(x, w, y, end=end):
                return polynomial(x, w, y, end * y**2)

            centre, step = value(x, w, y), 1e-5
            slope = np.abs(value(x + step, w, y) - value(x - step, w, y))
            slope += np.abs(value(x, w, y + step) - value(x, w, y - step))
            if free_w:
                slope += np.abs(value(x, w + step, y) - value(x, w - step, y))
            reach = centre + half * slope / (2 * step) + 120 * 4.5 * half**2 + 1e-6
            feasible = x + w + y <= 1
            if feasible.any():
                seen = max(seen, float(centre[feasible].max()))
            left = boxes[reach > bound]
            if not len(left):
                break
            half /= 2
            moves = (
                np.array(np.meshgrid([-half, half], [-half, half] if free_w else [0.0], [-half, half])).reshape(3, -1).T
            )
            boxes = (left[:, None, :] + moves[None]).reshape(-1, 3)
            if len(boxes) > 400_000:
                return False, seen
        else:
            return False, seen
    return True, seen


def check(polynomials, constant, tolerance):
    target = float(constant) / 2
    reached = []
    for polynomial in polynomials:
        proved, seen = proved_below(polynomial, target * tolerance, free_w="vertex" not in polynomial.__name__)
        assert proved, polynomial.__name__
        reached.append(seen)
    assert max(reached) > 0.98 * target  # and the bound cannot be lowered by much


BOTH = pytest.mark.parametrize("side", ["C_plus", "C_minus"])


@BOTH
def test_row_sums_stay_below_half_the_constant(side):
    check(UPPER if side == "C_plus" else LOWER, sharp.C_plus() if side == "C_plus" else sharp.C_minus(), 1.05)


@pytest.mark.thorough
@BOTH
def test_row_sums_stay_below_half_the_constant_closely(side):
    check(UPPER if side == "C_plus" else LOWER, sharp.C_plus() if side == "C_plus" else sharp.C_minus(), 1.004)


def test_a_smaller_constant_is_not_proved():
    assert not proved_below(upper_active, 0.9 * float(sharp.C_plus()) / 2, free_w=True)[0]


def test_the_polynomials_bound_the_row_sums():
    rng = np.random.default_rng(0)
    for _ in range(2000):
        n = rng.integers(2, 8)
        sigma = rng.dirichlet(np.full(n, 0.5))
        k, S = 0, float(sigma @ sigma)
        f = np.eye(n)[k]
        b = 2 * (sigma[:, None] + sigma) - f[:, None] - f - 3 * S + 2 * sigma[k]
        a = np.outer(sigma, sigma) * b
        np.fill_diagonal(a, 0.0)
        for sign, polynomials in ((1, UPPER), (-1, LOWER)):
            for i in (0, 1):
                active = sign * a[i] > 0
                rest = active & (np.arange(n) != k) & (np.arange(n) != i)
                y, z = float(sigma[rest].sum()), float((sigma[rest] ** 2).sum())
                polynomial = polynomials[0] if i == k else polynomials[1 if active[k] else 2]
                total = float((sign * a[i])[active].sum())
                assert total <= polynomial(sigma[i], sigma[k], y, z) + 1e-12
