"""Lines of the running-error bound, each on an instance or a double that the line without it does not cover."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.problem import LayerInstance
from attnprune_verify.instance.rope import RoPE
from attnprune_verify.oracle import running_error
from attnprune_verify.oracle.error_propagation import FLOAT64, _shifted
from attnprune_verify.oracle.inputs import frequency, posed
from attnprune_verify.oracle.score_errors import _tanh_error, turn_of
from tests.oracle.problems import FLOAT32

TINY = np.finfo(np.float32).tiny


def flushed(array: Any) -> Any:
    """float32 on hardware without subnormal numbers."""
    array = np.asarray(array, np.float32)
    return np.where(np.abs(array) < TINY, np.float32(0), array)


def test_keys_that_are_tokens_lose_what_underflows_behind_the_weight() -> None:
    """X (A X^T) in place of (X A) X^T: A X^T underflows, and a large query multiplies what is lost."""
    X = np.array([[1e38, 0.0], [0.0, 1.2e-38], [0.0, 0.0]], np.float32)
    W = np.array([[0.0, 0.9], [0.0, 0.0]], np.float32)
    mask = np.tile([0, 1, 1], (3, 1))
    logits = (X @ flushed(W @ X.T))[:, 1:]
    assert not logits.any(), "the true logit of tokens 1 and 2 is 1.08"
    e = np.exp((X.astype(float) @ W @ X.astype(float).T)[:, 1:])
    error = np.abs(1 / 2 - e / e.sum(axis=1, keepdims=True))
    assert error.max() > 0.2
    assert (error <= running_error.attention_bound(X, W, mask, FLOAT32)[:, 1:]).all()


def test_each_product_with_a_token_may_underflow() -> None:
    """The derivative in the queries sums 400 products x_i (p K)_i of one sign, all of which underflow."""
    n, small, size = 400, 1.5e8 * float(TINY), np.float32(1e-5)
    X = np.zeros((n, 2), np.float32)
    X[:, 0], X[:, 1] = small, np.where(np.arange(n) % 2, 1.0, -1.0)
    layer = AttentionLayer(
        np.array([[1.0], [0.0]], np.float32), np.array([[0.0], [size]], np.float32), b_Q=np.full(1, 1e5, np.float32)
    )
    masks = {"M_Q": np.ones((2, 1), np.float32), "M_K": np.full((2, 1), 0.5, np.float32)}
    at = posed(LayerInstance(layer, X, lam=0.0, **masks))
    keys = float(size) * X[:, 1].astype(float)
    f, dense = (e / e.sum() for e in (np.exp(0.5e5 * keys), np.exp(1e5 * keys)))
    c = f - dense
    slope = (f * (c - c @ f)) @ (keys / 2)  # of every query, as all are about 1e5
    assert 0 < abs(slope) * small < TINY, "every product is flushed to zero"
    lost = n * abs(slope) * small
    assert running_error.gradient_error(at, FLOAT32)[0] >= lost > 0


def test_a_small_lambda_may_underflow() -> None:
    """lam below the smallest normal number of float32 is zero there; a large M makes a loss of it."""
    M, lam = np.full((1, 1), 1e15), 9e-39
    lost = lam / 2 * 1e30
    assert running_error.loss_bound(M, np.zeros((1, 1)), np.ones((1, 1)), lam, unit_roundoff=FLOAT32) >= lost


def test_what_is_shifted_is_the_score_that_was_computed() -> None:
    """Scores 0 and -3 that are off by 2 and 1: the largest may come out as 2 or -2, the second 5 below it."""
    spread, largest = _shifted(np.array([[0.0, -3.0]]), np.array([[2.0, 1.0]]), np.ones((1, 2), dtype=bool))
    assert spread.tolist() == [[2.0, 5.0]] and largest.tolist() == [[2.0]]


def test_the_largest_slope_within_reach_is_rounded_outward() -> None:
    """|s| - own - reach cancels: what is left of it may be too large by a rounding of |s|."""
    rng, cap = np.random.default_rng(0), 3.0
    for _ in range(100):
        s, share = 2.0**60 * (1 + rng.random()), 0.3 + 0.2 * rng.random()
        own, moved = s * share, s * (1 - share) * (1 - 2.0**-53 * rng.integers(4, 14))
        reach = Fraction(moved) + Fraction(4 * FLOAT64.u) * (Fraction(s) + Fraction(own) + Fraction(moved))
        if Fraction(own) + reach >= Fraction(s):  # the true score or the computed one may be 0, and its tanh
            assert _tanh_error(np.array(s), np.array(own), np.array(moved), cap, FLOAT64) >= 1, (s, own, moved)


LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip


@pytest.mark.parametrize(("scaling", "theta", "m"), [(None, 1e6, 96), (LLAMA3, 5e5, 128), (LLAMA3, 1e6, 96)])
def test_frequencies_of_float32_code_are_within_the_angles_error(scaling: Any, theta: float, m: int) -> None:
    """theta^(-2a/m) as exp(-2a/m log theta), interpolated, each step rounded to float32."""
    rope, number = RoPE(theta, scaling=scaling), np.float32
    layer = AttentionLayer(np.ones((1, m), np.float32), np.ones((1, m), np.float32), rope=rope)
    at = posed(LayerInstance(layer, np.ones((2, 1), np.float32)))
    turn = turn_of(at)
    assert turn is not None
    worst = 0.0
    for pair in range(m // 2):
        true = frequency(rope, pair, m, number=np.longdouble)
        fast = np.exp(-(number(2 * pair) / number(m)) * np.log(number(theta)))
        found = fast
        if scaling is not None:
            slow = fast / number(8)
            kept = (number(8192) * fast / (2 * number(np.pi)) - number(1)) / (number(4) - number(1))
            kept = min(max(kept, number(0)), number(1))
            found = kept * fast + (number(1) - kept) * slow
        assert found.dtype == np.float32
        off = float(abs(np.longdouble(found) - true))
        worst = max(worst, off / float(true) / FLOAT32)
        assert off + FLOAT32 * float(true) <= FLOAT32 * turn.off[1, pair], pair
    assert worst > 9, "more than the 9 u that an angle would have with a frequency within 8 u"
