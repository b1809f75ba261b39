"""Every reference function lies within its running-error bound of a rigorous enclosure, on hundreds of instances."""

import itertools

import numpy as np
import pytest

from attnprune_verify import model
from attnprune_verify.oracle import ball, running_error

SHAPES = [(1, 1), (1, 4), (5, 1), (2, 2), (4, 6), (7, 3), (6, 6), (12, 5)]
LOGITS = [0.1, 1.0, 10.0, 100.0, 1000.0]
MASKS = ["full", "causal", "given"]


def problem(rng, n, d, k, logits, mask, dtype):
    X = rng.standard_normal((n, d) if k is None else (k, n, d))
    W = rng.standard_normal((d, d))
    W *= logits / np.abs(X @ W @ X.swapaxes(-1, -2)).max()
    W[rng.random((d, d)) < 0.1] = 0.0
    M, V = rng.uniform(-0.5, 1.5, (d, d)), rng.standard_normal((d, d))
    if mask == "given":
        mask = rng.random((n, n)) < 0.6
        mask |= ~mask.any(axis=1, keepdims=True) & np.eye(n, dtype=bool)
    return (*(a.astype(dtype) for a in (M, V, X, W)), 0.3, None if isinstance(mask, str) and mask == "full" else mask)


def cases(dtype, stride=1):
    """Every combination of logit size, mask and shape; a third of them batches."""
    for index, (logits, mask, (n, d)) in enumerate(itertools.product(LOGITS, MASKS, SHAPES)):
        if index % stride == 0:
            k = (None, None, 3)[index % 3]
            yield problem(np.random.default_rng(index), n, d, k, logits, mask, dtype)


def assert_within(computed, enclosure, bound):
    computed = np.asarray(computed, dtype=float)
    slack = bound + enclosure.radius
    assert np.isfinite(computed).all()
    worst = np.max(np.abs(computed - enclosure.midpoint) - slack)
    assert worst <= 0, f"off by {np.abs(computed - enclosure.midpoint).max()}, allowed {np.max(slack)}"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_loss_gradient_attention(dtype):
    unit = np.finfo(dtype).eps / 2
    count = 0
    for M, _, X, W, lam, mask in cases(dtype):
        value, grad = model.loss_and_gradient(M, X, W, lam, mask)
        assert grad.dtype == dtype
        assert value == pytest.approx(model.loss(M, X, W, lam, mask), rel=1e-6)
        assert_within(value, ball.loss(M, X, W, lam, mask), running_error.loss_bound(M, X, W, lam, mask, unit))
        assert_within(grad, ball.gradient(M, X, W, lam, mask), running_error.gradient_bound(M, X, W, lam, mask, unit))
        F = model.attention(X, W, mask)
        assert F.dtype == dtype
        assert_within(F, ball.attention(X, W, mask), running_error.attention_bound(X, W, mask, unit))
        count += 1
    assert count == len(LOGITS) * len(MASKS) * len(SHAPES)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hessian_vector_product(dtype):
    unit = np.finfo(dtype).eps / 2
    for M, V, X, W, lam, mask in cases(dtype, stride=2):
        computed = model.hessian_vector_product(M, V, X, W, lam, mask)
        bound = running_error.hessian_vector_product_bound(M, V, X, W, lam, mask, unit)
        assert computed.dtype == dtype
        assert_within(computed, ball.hessian_vector_product(M, V, X, W, lam, mask), bound)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_factored(dtype):
    unit = np.finfo(dtype).eps / 2
    for index, (M, _, X, W, lam, mask) in enumerate(cases(dtype, stride=2)):
        rng = np.random.default_rng(index)
        d, m = len(M), min(len(M), 1 + index % 3)
        W_Q, M_Q, M_K = W[:, :m], M[:, :m], rng.uniform(0, 1, (d, m)).astype(dtype)
        W_K = rng.standard_normal((d, m)).astype(dtype)
        arguments = (M_Q, M_K, X, W_Q, W_K, lam, mask)
        value = model.factored_loss(*arguments)
        assert_within(value, ball.factored_loss(*arguments), running_error.factored_loss_bound(*arguments, unit))
        bounds = running_error.factored_gradient_bound(*arguments, unit)
        parts = zip(model.factored_gradient(*arguments), ball.factored_gradient(*arguments), bounds, strict=True)
        for computed, enclosure, bound in parts:
            assert computed.dtype == dtype
            assert_within(computed, enclosure, bound)


def test_the_comparison_would_catch_a_wrong_gradient():
    """A dropped term of p, relative size far above rounding, is outside the bound on a benign instance."""
    M, _, X, W, lam, mask = problem(np.random.default_rng(0), 4, 6, None, 1.0, "causal", np.float64)
    F, dense = model.attention(X, M * W, mask), model.attention(X, W, mask)
    c = F - dense
    without_p2 = W * (X.T @ (c * F) @ X) + lam * M
    with pytest.raises(AssertionError):
        assert_within(without_p2, ball.gradient(M, X, W, lam, mask), running_error.gradient_bound(M, X, W, lam, mask))
