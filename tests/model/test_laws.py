"""Laws every correct implementation obeys, whatever the numbers."""

import numpy as np
import pytest
from hypothesis import given, settings

from attnprune_verify import model
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.strategies import family_instances, instances

FUNCTIONS = {
    "loss": lambda M, X, W, lam, mask: model.loss(M, X, W, lam, mask),
    "gradient": lambda M, X, W, lam, mask: model.gradient(M, X, W, lam, mask),
    "hvp": lambda M, X, W, lam, mask: model.hessian_vector_product(M, W, X, W, lam, mask),
}


def arguments(instance):
    return instance.M_or_ones, instance.X, instance.W, instance.lam, instance.mask


def close(a, b, scale):
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11 * (1 + scale))


@given(instances())
@settings(max_examples=60)
def test_a_batch_is_the_average_of_its_samples(instance):
    M, _, W, lam, mask = arguments(instance)
    for function in FUNCTIONS.values():
        each = [function(M, X, W, lam, mask) for X in instance.samples]
        close(function(M, instance.X, W, lam, mask), np.mean(each, axis=0), np.abs(each).max())


@given(instances(), family_instances())
@settings(max_examples=40)
def test_permuting_tokens_changes_nothing_and_permuting_features_permutes(first, second):
    for instance in (first, second):
        M, X, W, lam, _ = arguments(instance)
        rng = np.random.default_rng(0)
        tokens, features = rng.permutation(instance.n), rng.permutation(instance.d)
        allowed = instance.allowed
        grad = model.gradient(M, X, W, lam, allowed)
        scale = np.abs(grad).max()
        moved = model.gradient(M, X[..., tokens, :], W, lam, allowed[np.ix_(tokens, tokens)])
        close(moved, grad, scale)
        both = np.ix_(features, features)
        close(model.gradient(M[both], X[..., features], W[both], lam, allowed), grad[both], scale)


@given(instances())
@settings(max_examples=40)
def test_attention_is_stochastic_and_zero_where_forbidden(instance):
    F = model.attention(instance.X, instance.W, instance.mask)
    np.testing.assert_allclose(F.sum(axis=-1), 1.0, rtol=1e-12)
    assert (F >= 0).all() and not F[..., ~instance.allowed].any()


def test_nothing_pruned_costs_nothing():
    rng = np.random.default_rng(1)
    X, W, ones = rng.standard_normal((9, 4)), rng.standard_normal((4, 4)), np.ones((4, 4))
    assert model.loss(ones, X, W, 0.0, "causal") == 0.0
    assert not model.gradient(ones, X, W, 0.0, "causal").any()
    assert model.relative_error(ones, X, W) == 0.0
    np.testing.assert_array_equal(model.gradient(ones, X, W, 0.25), 0.25 * ones)


def test_scaling_by_powers_of_two_is_exact():
    """X -> 2X, W -> W/4 leaves every logit bit-identical, and the attention gradient in M as well."""
    rng = np.random.default_rng(2)
    X, W, M = rng.standard_normal((9, 4)), rng.standard_normal((4, 4)), rng.random((4, 4))
    np.testing.assert_array_equal(model.gradient(M, 2 * X, W / 4), model.gradient(M, X, W))


@pytest.mark.parametrize("mask", [None, "causal", "banded"])
@pytest.mark.parametrize(("k", "n"), [(None, 300), (5, 130), (40, 70)])
def test_blocks_of_rows_make_no_difference(mask, k, n):
    """Sizes beyond one block against one dense evaluation of the formulas."""
    rng = np.random.default_rng(3)
    d = 4
    X = rng.standard_normal((n, d) if k is None else (k, n, d))
    W, M, V = 0.3 * rng.standard_normal((d, d)), rng.random((d, d)), rng.standard_normal((d, d))
    distance = np.arange(n)[:, None] - np.arange(n)
    allowed = {None: distance < n, "causal": distance >= 0, "banded": abs(distance) < 40}[mask]
    if mask == "banded":
        mask = allowed

    def dense(weight):
        exponentials = np.exp(X @ weight @ X.swapaxes(-1, -2)) * allowed
        return exponentials / exponentials.sum(axis=-1, keepdims=True)

    F, f = dense(M * W), dense(W)
    c = F - f
    p = c * F - (c * F).sum(axis=-1, keepdims=True) * F
    pulled = np.mean(np.atleast_3d(X.swapaxes(-1, -2) @ p @ X).reshape(-1, d, d), axis=0)
    np.testing.assert_allclose(model.attention(X, W, mask), f, rtol=1e-11)
    value, grad = model.loss_and_gradient(M, X, W, 0.1, mask)
    np.testing.assert_allclose(value, 0.5 * (c**2).sum() / (k or 1) + 0.05 * (M**2).sum(), rtol=1e-11)
    np.testing.assert_allclose(grad, W * pulled + 0.1 * M, rtol=1e-9, atol=1e-12)
    ratio = ((c**2).sum(axis=(-2, -1)) / (f**2).sum(axis=(-2, -1))).mean()
    np.testing.assert_allclose(model.relative_error(M, X, W, mask), ratio, rtol=1e-9)
    h = 1e-6
    difference = model.gradient(M + h * V, X, W, 0.1, mask) - model.gradient(M - h * V, X, W, 0.1, mask)
    product = model.hessian_vector_product(M, V, X, W, 0.1, mask)
    np.testing.assert_allclose(product, difference / (2 * h), rtol=1e-5, atol=1e-7)


def test_an_objective_repeats_the_functions():
    rng = np.random.default_rng(4)
    X, W, M, V = rng.standard_normal((3, 9, 4)), *rng.standard_normal((3, 4, 4))
    for keep_dense in (True, False):
        objective = model.Objective(X, W, 0.1, "causal", keep_dense=keep_dense)
        assert objective.loss(M) == model.loss(M, X, W, 0.1, "causal")
        np.testing.assert_array_equal(objective.loss_and_gradient(M)[1], model.gradient(M, X, W, 0.1, "causal"))
        product = model.hessian_vector_product(M, V, X, W, 0.1, "causal")
        np.testing.assert_array_equal(objective.hessian_vector_product(M, V), product)
        operator = objective.hessian_operator(M)
        objective.loss(V)  # the operator keeps its own F(M)
        np.testing.assert_array_equal(operator(V), product)
        assert objective.relative_error(M) == model.relative_error(M, X, W, "causal")


def test_factored_with_full_rank_keys_is_the_fused_problem():
    """With W_K = I and M_K = 1 the pair (W_Q, I) is the fused W_Q."""
    rng = np.random.default_rng(5)
    X, W, M = rng.standard_normal((6, 3)), rng.standard_normal((3, 3)), rng.random((3, 3))
    eye, ones = np.eye(3), np.ones((3, 3))
    value = model.factored_loss(M, ones, X, W, eye, 0.2, "causal") - 0.1 * 9
    assert value == pytest.approx(model.loss(M, X, W, 0.2, "causal"))
    grad_Q, _ = model.factored_gradient(M, ones, X, W, eye, 0.2, "causal")
    np.testing.assert_allclose(grad_Q, model.gradient(M, X, W, 0.2, "causal"), rtol=1e-12, atol=1e-15)


def _everything(M, X, W, mask):
    return [
        model.attention(X, W, mask),
        model.loss(M, X, W, 0.1, mask),
        model.gradient(M, X, W, 0.1, mask),
        model.hessian_vector_product(M, W, X, W, 0.1, mask),
        model.relative_error(M, X, W, mask),
        *model.factored_gradient(M, M, X, W, W, 0.1, mask),
    ]


def test_inputs_are_untouched_and_layout_does_not_matter():
    rng = np.random.default_rng(6)
    X, W, M = rng.standard_normal((5, 4)), rng.standard_normal((4, 4)), rng.random((4, 4))
    mask = np.tri(5)
    before = [a.copy() for a in (X, W, M, mask)]
    expected = _everything(M, X, W, mask)
    for a, b in zip((X, W, M, mask), before, strict=True):
        np.testing.assert_array_equal(a, b)
        a.flags.writeable = False  # any attempt to write from here on raises
    strided = np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2]
    variants = [
        (M, X, W, mask),
        (M, X, W, "causal"),
        (M, X, W, mask.astype(bool)),
        (M.tolist(), X.tolist(), W.tolist(), mask.astype(int).tolist()),
        (np.asfortranarray(M), np.asfortranarray(X), np.asfortranarray(W), np.asfortranarray(mask)),
        (M, strided, W, mask),
    ]
    for variant in variants:
        for got, want in zip(_everything(*variant), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        (("f4", "f4", "f4"), np.float32),
        (("f4", "f8", "f4"), np.float64),
        (("f2", "f2", "f2"), np.float64),
        (("i8", "i8", "i8"), np.float64),
        (("?", "f4", "f4"), np.float64),
    ],
)
def test_float32_out_only_when_every_array_is_float32(dtypes, expected):
    M, X, W = (np.ones(shape, dtype) for shape, dtype in zip([(2, 2), (3, 2), (2, 2)], dtypes, strict=True))
    assert model.gradient(M, X, W).dtype == expected
    assert model.hessian_vector_product(M, M, X, W).dtype == expected
    assert all(part.dtype == expected for part in model.factored_gradient(M, M, X, W, W))
    assert isinstance(model.loss(M, X, W), float)


@pytest.mark.parametrize("size", [1e-160, 1e-30, 1e150])
def test_extreme_but_finite_sizes(size):
    X = size * np.array([[1.0, 0.0], [0.0, 1.0]])
    W = np.array([[0.3, -0.2], [0.1, 0.4]]) / max(size, 1.0) ** 2
    assert np.isfinite(model.attention(X, W)).all()
    assert np.isfinite(model.gradient(np.zeros((2, 2)), X, W, 0.1)).all()


def test_overflow_of_the_result_is_an_error_not_an_infinity():
    tiny, M = np.full((2, 2), 1e-300), np.full((2, 2), 1e200)
    with pytest.raises(InvalidInstance, match="the loss must be finite"):
        model.loss(M, tiny, tiny, 1.0)
    with pytest.raises(InvalidInstance, match="the gradient must be finite"):
        model.hessian_vector_product(tiny, np.full((2, 2), 1e308), tiny, tiny, 1e10)


def test_huge_logits_are_one_hot():
    F = model.attention(np.array([[1.0], [2.0], [-3.0]]), np.array([[1e307]]))
    np.testing.assert_array_equal(F, [[0, 1, 0], [0, 1, 0], [0, 0, 1]])
