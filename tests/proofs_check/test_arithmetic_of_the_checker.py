"""The checker's intervals, exponential, pivots and derivatives against exact arithmetic and against Arb."""

import functools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from hypothesis import given
from hypothesis import strategies as st

from proofs_check.checker import interval as iv
from proofs_check.checker.attention import attention_loss, exact_logits, gradient, hadamard, norm_sq, relative
from proofs_check.checker.exact_ties import _gradient_of_residual
from proofs_check.checker.exponential import exponential
from proofs_check.checker.fields import _from_digits
from proofs_check.checker.jets import attention_jet, certainly_above
from proofs_check.checker.pivots import gram_pivots
from proofs_check.checker.reject import Reject

Q = Fraction
rationals = st.fractions(min_value=-50, max_value=50, max_denominator=1000)
positive = st.fractions(min_value=Q(1, 1000), max_value=50, max_denominator=1000)
bits = st.sampled_from([8, 40, 128])


def holds(enclosure: iv.Number, number: Q) -> bool:
    low, high = iv.bounds(enclosure)
    return low <= number <= high


@given(rationals, rationals, positive, bits)
def test_operations_enclose_the_exact_result(a: Q, b: Q, c: Q, p: int) -> None:
    x, y, z = iv.enclose(a, p), iv.enclose(b, p), iv.enclose(c, p)
    assert holds(x + y, a + b) and holds(x - y, a - b) and holds(x * y, a * b) and holds(iv.square(x), a * a)
    assert holds(x + b, a + b) and holds(b - x, b - a) and holds(x * b, a * b) and holds(b * x, a * b)
    assert holds(iv.square_root(c, p) * iv.square_root(c, p), c)
    if z.lo > 0:
        assert holds(x / z, a / c) and holds(b / z, b / c) and holds(x / c, a / c)


@given(rationals, st.integers(0, 2**20), st.integers(0, 2**20), bits)
def test_wide_intervals_enclose_every_product(a: Q, below: int, above: int, p: int) -> None:
    centre = iv.enclose(a, p)
    wide = iv.Interval(centre.lo - below, centre.hi + above, p)
    for end in iv.bounds(wide):
        assert holds(wide * wide, end * a) and holds(iv.square(wide), end * end)
    assert iv.lower(iv.square(wide)) >= 0


@given(st.fractions(min_value=-3000, max_value=40, max_denominator=10**6), st.sampled_from([16, 64, 128, 700]))
def test_exponential_encloses_and_is_sharp(t: Q, p: int) -> None:
    found = exponential(t, p)
    before, ctx.prec = ctx.prec, p + 200
    try:
        value = arb(fmpq(t.numerator, t.denominator)).exp()
        low, high = iv.bounds(found)
        assert arb(fmpq(low.numerator, low.denominator)) <= value <= arb(fmpq(high.numerator, high.denominator))
    finally:
        ctx.prec = before
    assert high - low <= Q(4, 2**p) * max(1, high)


def test_exponential_is_exact_at_zero_and_refuses_the_absurd() -> None:
    assert exponential(Q(0), 64) == 1
    with pytest.raises(Reject):
        exponential(Q(10**9), 64)


def test_division_by_an_interval_around_zero_is_undecided_not_wrong() -> None:
    with pytest.raises(iv.Undecided):
        iv.enclose(1, 8) / iv.Interval(-1, 1, 8)


def test_pivots_of_a_known_matrix() -> None:
    X = [[Q(1), Q(2)], [Q(3), Q(4)]]  # X X^T = [[5, 11], [11, 25]]
    assert gram_pivots(X, Q(1, 10)) == [Q(49, 10), Q(249, 10) - Q(121) / Q(49, 10)]
    with pytest.raises(Reject):
        gram_pivots(X, Q(1))


def test_singular_semidefinite_matrices_are_told_from_indefinite_ones() -> None:
    assert gram_pivots([[Q(1), Q(0)], [Q(0), Q(1)]], Q(1)) == [0, 0]
    with pytest.raises(Reject):  # [[0, 1], [1, 1]] has a zero first pivot with a nonzero column
        gram_pivots([[Q(1), Q(0)], [Q(1), Q(1)]], Q(1))


def instance(n: int, d: int) -> tuple[list[list[Q]], list[list[Q]], list[list[Q]]]:
    X = [[Q((3 * i + 5 * j) % 7 - 3, 4) for j in range(d)] for i in range(n)]
    W = [[Q((2 * i + 3 * j) % 5 + 1, 6) * (-1) ** (i + j) for j in range(d)] for i in range(d)]
    M = [[Q((i + 2 * j) % 4 + 1, 5) for j in range(d)] for i in range(d)]
    return X, W, M


@pytest.mark.parametrize("n, d, causal", [(3, 2, False), (2, 3, True), (4, 4, True)])
def test_differentiated_loss_is_the_closed_form(n: int, d: int, causal: bool) -> None:
    """Dual numbers in the checker against W o (X^T p X) + lam M in Arb: two routes, one gradient."""
    from proofs_check.producer import balls as b
    from proofs_check.producer.notation import balls, exact_ends

    X, W, M = instance(n, d)
    mask = b.causal(n) if causal else b.full(n)
    z, z_dense = (relative(exact_logits(X, E), mask) for E in (hadamard(M, W), W))
    loss = attention_loss(X, z, z_dense, 200)
    found = gradient(loss.slope, W, M, Q(1, 7))
    with b.precision(200):
        F, f = b.attention(balls(X), balls(hadamard(M, W)), mask), b.attention(balls(X), balls(W), mask)
        G = b.attention_gradient(balls(X), balls(W), b.p_matrix(F, b.residual(F, f)))
        for a in range(d):
            for c in range(d):
                low, high = iv.bounds(found[a][c])
                ends = exact_ends(G[a][c] + arb(1) / 7 * arb(fmpq(M[a][c].numerator, M[a][c].denominator)))
                assert max(low, ends[0]) <= min(high, ends[1])
                assert high - low < Q(1, 10**45)
    assert iv.lower(loss.c_sq) > 0


def test_jet_agrees_with_dual_numbers_and_with_finite_differences() -> None:
    X, W, M = instance(4, 2)
    mask = [[j <= i for j in range(4)] for i in range(4)]
    z, z_dense = (relative(exact_logits(X, E), mask) for E in (hadamard(M, W), W))
    first = [g for row in gradient(attention_loss(X, z, z_dense, 300).slope, W, M, Q(0)) for g in row]
    jet = attention_jet(X, W, M, mask, 300)
    h = Q(1, 10**30)
    for s in range(4):
        assert iv.lower(jet.first[s] - first[s]) <= 0 <= iv.upper(jet.first[s] - first[s])
        moved = [row[:] for row in M]
        moved[s // 2][s % 2] += h
        there = attention_jet(X, W, moved, mask, 300)
        for t in range(4):
            slope = (there.first[t] - jet.first[t]) / h
            entry = jet.second[min(s, t), max(s, t)]
            assert abs(iv.lower(slope) - iv.lower(entry)) < Q(1, 10**25)


def test_positive_definiteness_is_certain_or_not_claimed() -> None:
    def matrix(a: Q, b: Q, c: Q) -> dict[tuple[int, int], iv.Number]:
        return {(0, 0): iv.enclose(a, 60), (0, 1): iv.enclose(b, 60), (1, 1): iv.enclose(c, 60)}

    assert certainly_above(matrix(Q(2), Q(1), Q(2)), 2, Q(99, 100))
    assert not certainly_above(matrix(Q(2), Q(1), Q(2)), 2, Q(101, 100))
    assert not certainly_above(matrix(Q(1), Q(1), Q(1)), 2, Q(0))


def test_m_equal_to_one_is_exact() -> None:
    X, W, _ = instance(3, 3)
    mask = [[True] * 3] * 3
    z = relative(exact_logits(X, W), mask)
    loss = attention_loss(X, z, z, 64)
    ones = [[Q(1)] * 3] * 3
    assert loss.c_sq == 0
    assert norm_sq(gradient(loss.slope, W, ones, Q(1, 3))) == 1


@pytest.mark.parametrize(
    "mask", [np.ones((4, 4), bool), np.tri(4, dtype=bool), np.eye(4, k=-1) + np.eye(4) > 0], ids=str
)
def test_the_gradient_of_a_residual_is_that_of_a_uniform_row(mask: Any) -> None:
    """W_ab x_ia sum_j p_j x_jb, p = c/m: J c of m equal weights where the allowed entries of c sum to 0."""
    rng = np.random.default_rng(3)
    X, W = rng.integers(-5, 6, (4, 3)), rng.integers(-5, 6, (3, 3))
    for i, row in enumerate(mask):
        c = np.where(row, rng.integers(-5, 6, 4), 0)
        c[i] -= c.sum()
        found = _gradient_of_residual(i, [Q(int(e)) for e in c], X.tolist(), W.tolist(), mask.tolist())
        assert found == [
            [Q(int(w * X[i, a] * (c @ X[:, b])), int(row.sum())) for b, w in enumerate(W[a])] for a in range(3)
        ]


@pytest.mark.parametrize("length", [1, 3_999, 4_000, 4_001, 8_001, 12_003, 16_001, 19_999])
def test_long_numbers_are_read_digit_by_digit(length: int) -> None:
    """In chunks below CPython's limit on digits: their number is seen modulo primes, which needs no conversion."""
    digits = "".join(str(value) for value in np.random.default_rng(length).integers(0, 10, length))
    for prime in (1_000_003, 998_244_353):
        assert _from_digits(digits) % prime == functools.reduce(
            lambda rest, one: (10 * rest + int(one)) % prime, digits, 0
        )
