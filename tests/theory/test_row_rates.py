"""new:lip_diag_f and new:lip_diag from above: what a row of any length is reduced to, proved on boxes (PROOFS.md).

The dense row is the vertex e_k. Of a row s let x = s_k, a the largest of the other weights, r the sum of the rest, none
of them above y = min(a, r), and t y r the sum of their squares, 0 <= t <= 1. The rate is at most `rates` of (a, r, t).
"""

import numpy as np
import pytest

from tests.theory.intervals import Interval

DIAGONAL, CORRECTION = 2**0.5 * 0.37904, 0.50788
SLACK = 1e-9
"""Chosen: float64's own rounding is below 1e-13 here."""


def rates(a, r, t):
    """Squares of the two rates at most: of <s, s - f>, and of <s, s - f> s."""
    x = (1 - a - r).above(0)
    y = a.below(r)
    S = a * a + x * x + t * y * r
    c = 2 * S - x
    rest = (2 / 27 * c.above(0).cubed()).above(y * (2 * y - c).squared())  # the largest z (2z - c)^2 for z <= y
    w = (a * (2 * a - c)).squared() + (x * (1 + c - 2 * x)).squared() + r * rest
    rest = (4 / 27 * S.cubed()).above(y * (y - S).squared())
    g = (a * (a - S)).squared() + (x * (x - S)).squared() + r * rest  # of J s
    first, second = a.above(x), a.below(x).above(y)
    norm = first * (1 - first + second)  # of J
    rho = (S - x).size()
    return w, S * w + 2 * rho * (w * g).root() + (rho * norm).squared()


def boxes_left(which, constant):
    """The boxes of (a, r, t) on which the bound is not shown, after so many halvings that a true bound leaves none."""
    boxes = np.array([[[0.0, 1.0]] * 3])
    for _ in range(60):
        a, r, t = (Interval(*boxes[:, axis].T) for axis in range(3))
        reached = rates(a, r, t)[which].high > constant**2 - SLACK
        boxes = boxes[reached & (a.low + r.low <= 1)]
        if not 0 < len(boxes) < 200_000:
            break
        widths = boxes[:, :, 1] - boxes[:, :, 0]
        widths[:, 2] *= 0.7 * boxes[:, 1, 1]  # t counts as far as r does
        rows, axis = np.arange(len(boxes)), widths.argmax(axis=1)
        lower, upper = boxes.copy(), boxes.copy()
        lower[rows, axis, 1] = upper[rows, axis, 0] = boxes[rows, axis].mean(axis=1)
        boxes = np.concatenate([lower, upper])
    return len(boxes)


@pytest.mark.thorough
@pytest.mark.parametrize(("which", "constant"), [(0, DIAGONAL), (1, CORRECTION)])
def test_no_row_is_above_the_constant(which, constant):
    assert boxes_left(which, constant) == 0
    assert boxes_left(which, 0.9999 * constant) > 0


def test_a_row_is_at_most_what_it_is_reduced_to():
    rng = np.random.default_rng(0)
    for _ in range(300):
        s = rng.dirichlet(np.full(rng.integers(2, 7), rng.choice([0.1, 0.5, 2.0])))
        k = rng.integers(len(s))
        others = np.sort(np.delete(s, k))[::-1]
        a, r = others[0], others[1:].sum()
        squares = (others[1:] ** 2).sum()
        t = squares / (min(a, r) * r) if r > 1e-12 else 0.0
        J, f = np.diag(s) - np.outer(s, s), np.eye(len(s))[k]
        w = J @ (2 * s - f)
        rate = np.linalg.norm(w), np.linalg.norm(np.outer(s, w) + s @ (s - f) * J, 2)
        for found, bound in zip(rate, rates(*(Interval(np.array(z), np.array(z)) for z in (a, r, t))), strict=True):
            assert found**2 <= bound.high + SLACK


def test_two_tokens_reach_both():
    for which, constant, a in ((0, DIAGONAL, (5 + 13**0.5) / 12), (1, CORRECTION, (3 + 3**0.5) / 6)):
        at = Interval(np.array(a), np.array(a)), *(Interval(np.zeros(()), np.zeros(())) for _ in range(2))
        assert 0.9999 * constant < rates(*at)[which].low ** 0.5 <= constant
