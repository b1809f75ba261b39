"""Correct float32 and float64 code in very different styles never exceeds the bound, and the bound is not silly."""

import numpy as np
import pytest

from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.problem import LayerInstance
from attnprune_verify.model.layer_functions import layer_attention
from attnprune_verify.model.objective import Objective
from attnprune_verify.oracle import ball, running_error
from attnprune_verify.oracle.inputs import posed
from tests.oracle.layers import SHAPES, gradients, random_instance
from tests.oracle.layers import STYLES as LAYER_STYLES
from tests.oracle.problems import FLOAT32, FLOAT64, LOGITS, Problem, closed_form, random_problem

UNITS = {np.float64: FLOAT64, np.float32: FLOAT32}


def einsum_style(problem):
    """Three-operand contractions, p written as F*(c - r), batch and tokens contracted at once."""
    M, W, samples, allowed = problem.M, problem.W, problem.samples, problem.allowed

    def weights(fused):
        z = np.einsum("kia,ab,kjb->kij", samples, fused, samples)
        z = np.where(allowed, z, z.dtype.type(-np.inf))
        e = np.exp(z - z.max(-1, keepdims=True))
        return e * (1 / e.sum(-1, keepdims=True))

    f = weights(M * W)
    c = f - weights(W)
    p = f * (c - np.einsum("kij,kij->ki", c, f)[..., None])
    total = np.einsum("kia,kij,kjb->ab", samples, p, samples) / W.dtype.type(len(samples))
    return W * total + W.dtype.type(problem.lam) * M


def loop_style(problem):
    """One scalar accumulator after another, in the working precision."""
    kind = problem.W.dtype.type
    M, W, allowed = problem.M, problem.W, problem.allowed
    d = len(W)
    total = np.zeros_like(W)
    for tokens in problem.samples:
        n = len(tokens)
        f = np.zeros((2, n, n), W.dtype)
        for which, fused in enumerate((M * W, W)):
            half = np.array(
                [[_chain(tokens[i, a] * fused[a, b] for a in range(d)) for b in range(d)] for i in range(n)]
            )
            for i in range(n):
                z = [_chain(half[i, b] * tokens[j, b] for b in range(d)) for j in range(n) if allowed[i, j]]
                e = [np.exp(value - max(z)) for value in z]
                f[which, i, allowed[i]] = [value / _chain(iter(e)) for value in e]
        for i in range(n):
            c = f[0, i] - f[1, i]
            r = _chain(c[j] * f[0, i, j] for j in range(n))
            for j in range(n):
                total += np.outer(tokens[i], tokens[j]) * (c[j] * f[0, i, j] - r * f[0, i, j])
    return W * (total / kind(len(problem.samples))) + kind(problem.lam) * M


def _chain(terms):
    total = next(terms)
    for term in terms:
        total = total + term
    return total


def permuted_style(problem):
    """Tokens and features in reverse order."""
    M, W, X = problem.M[::-1, ::-1], problem.W[::-1, ::-1], problem.samples[:, ::-1, ::-1]
    turned = Problem(M, X, W, problem.lam, problem.allowed[::-1, ::-1])
    return closed_form(turned)[::-1, ::-1]


def blocked_style(problem):
    """X (A X^T) instead of (X A) X^T, two rows at a time, log-sum-exp instead of a quotient."""
    kind = problem.W.dtype.type
    M, W, allowed = problem.M, problem.W, problem.allowed
    total = np.zeros_like(W)
    for tokens in problem.samples:
        for start in range(0, len(tokens), 2):
            rows, positions = tokens[start : start + 2], allowed[start : start + 2]
            f = []
            for fused in (M * W, W):
                z = np.where(positions, rows @ (fused @ tokens.T), kind(-np.inf))
                shift = z.max(axis=1, keepdims=True)
                f.append(np.exp(z - (shift + np.log(np.exp(z - shift).sum(axis=1, keepdims=True)))))
            c = f[0] - f[1]
            total += rows.T @ ((c * f[0] - (c * f[0]).sum(axis=1, keepdims=True) * f[0]) @ tokens)
    return W * total / kind(len(problem.samples)) + kind(problem.lam) * M


STYLES = {f.__name__: f for f in (closed_form, einsum_style, loop_style, permuted_style, blocked_style)}


def ratios(style, dtype, count, seed, largest=7):
    rng = np.random.default_rng(seed)
    for index in range(count):
        problem = random_problem(rng, index, largest=largest, dtype=dtype)
        found = STYLES[style](problem)
        assert found.dtype == dtype
        bound = running_error.gradient_bound(*problem.args, UNITS[dtype])
        yield problem, ball.gradient(*problem.args).distance(found) / bound, bound


@pytest.mark.parametrize("dtype", UNITS)
@pytest.mark.parametrize("style", STYLES)
def test_gradient_bound_is_never_exceeded_nor_silly(style, dtype):
    worst = []
    for problem, ratio, _ in ratios(style, dtype, 30 if style == "loop_style" else 60, seed=1):
        assert np.isfinite(ratio).all() and ratio.max() <= 1, problem
        worst.append(ratio.max())
    assert max(worst) > 0.02, "a bound a hundred times too large would see nothing"


def test_the_bound_resolves_a_thousandth_of_a_float64_gradient_at_every_logit_size():
    rng = np.random.default_rng(2)
    for logits in LOGITS:
        finest = []
        for index in range(20):
            problem = random_problem(rng, index, logits=logits)
            size = np.linalg.norm(ball.gradient(*problem.args).midpoint)
            if size > 0:
                finest.append(np.linalg.norm(running_error.gradient_bound(*problem.args)) / size)
        assert np.median(finest) < 1e-9


def test_bound_covers_biased_data():
    """Constant tokens and weights: every rounding error of a sum has the same sign."""
    for n, d in ((40, 30), (3, 60)):
        for dtype, unit in UNITS.items():
            problem = Problem(*(np.full(shape, 0.1, dtype) for shape in ((d, d), (n, d), (d, d))), 0.1, "causal")
            problem.M[0] = 0.7
            for style in ("closed_form", "blocked_style", "permuted_style"):
                error = ball.gradient(*problem.args).distance(STYLES[style](problem))
                assert (error <= running_error.gradient_bound(*problem.args, unit)).all()


def test_bound_covers_subnormal_arithmetic():
    """float32 with weights and tokens around 1e-20 works with subnormal products."""
    rng = np.random.default_rng(3)
    for size in (1e-12, 1e-16, 1e-20):
        X = (size * rng.standard_normal((4, 3))).astype(np.float32)
        M, W = rng.standard_normal((2, 3, 3)).astype(np.float32)
        problem = Problem(M, X, W, 1e-30, None)
        error = ball.gradient(*problem.args).distance(closed_form(problem))
        assert (error <= running_error.gradient_bound(*problem.args, FLOAT32)).all()


def test_bound_covers_what_float16_stores_below_its_normal_numbers():
    """Computed in float32 and stored in 16 bits: below 6e-5 the last place of float16 no longer shrinks."""
    rng = np.random.default_rng(6)
    for size, lam in ((1e-2, 0.0), (1e-4, 1e-5), (0.0, 1e-8)):
        X, (M, W) = size * rng.standard_normal((4, 3)), rng.standard_normal((2, 3, 3))
        problem = Problem(*(part.astype(np.float16).astype(np.float32) for part in (M, X, W)), lam, None)
        stored = closed_form(problem).astype(np.float16)
        error = ball.gradient(*problem.args).distance(stored.astype(np.float64))
        assert 0 < error.max() and (error <= running_error.gradient_bound(*problem.args, 2.0**-11)).all()


def test_bound_grows_with_the_unit_roundoff_and_is_finite():
    rng = np.random.default_rng(4)
    for index in range(30):
        problem = random_problem(rng, index)
        fine, coarse = (running_error.gradient_bound(*problem.args, unit) for unit in (FLOAT64, FLOAT32))
        assert np.isfinite(coarse).all() and (0 < fine).all() and (fine < coarse).all()


@pytest.mark.parametrize("dtype", UNITS)
def test_attention_and_loss_bounds(dtype):
    rng = np.random.default_rng(5)
    kind = UNITS[dtype]
    for index in range(40):
        problem = random_problem(rng, index, dtype=dtype)
        M, X, W, lam, mask = problem.args
        z = [np.where(problem.allowed, tokens @ W @ tokens.T, dtype(-np.inf)) for tokens in problem.samples]
        e = [np.exp(part - part.max(axis=1, keepdims=True)) for part in z]
        F = np.reshape([part / part.sum(axis=1, keepdims=True) for part in e], (*X.shape[:-1], X.shape[-2]))
        assert (ball.attention(X, W, mask).distance(F) <= running_error.attention_bound(X, W, mask, kind)).all()
        total = dtype(0)
        for tokens in problem.samples:
            one = Problem(M, tokens, W, 0.0, mask)
            f = [_softmax32(tokens @ fused @ tokens.T, one.allowed) for fused in (M * W, W)]
            for value in (f[0] - f[1]).ravel():
                total += value * value  # a single chain of additions
        squares = dtype(0)
        for value in M.ravel():
            squares += value * value
        loss = total / dtype(2 * len(problem.samples)) + dtype(lam) * squares / dtype(2)
        assert ball.loss(*problem.args).distance(loss) <= running_error.loss_bound(*problem.args, kind)


def _softmax32(logits, allowed):
    logits = np.where(allowed, logits, logits.dtype.type(-np.inf))
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", UNITS)
@pytest.mark.parametrize("style", STYLES)
def test_gradient_bound_on_many_and_larger_instances(style, dtype):
    largest = 6 if style == "loop_style" else 40
    for problem, ratio, _ in ratios(style, dtype, 400, seed=6, largest=largest):
        assert ratio.max() <= 1, problem


def layer_ratios(style, dtype, count, seed, **options):
    rng = np.random.default_rng(seed)
    for index in range(count):
        instance = random_instance(rng, index, dtype=dtype, **options)
        found = gradients(instance, style)
        assert all(part.dtype == dtype for part in found)
        at = posed(instance)
        error = ball.enclosed_gradient(at).distance(at.flat(found))
        yield instance, error / running_error.gradient_error(at, UNITS[dtype])


@pytest.mark.parametrize("dtype", UNITS)
@pytest.mark.parametrize("style", LAYER_STYLES)
def test_layer_gradient_bound_is_never_exceeded_nor_silly(style, dtype):
    """Heads, groups, biases, scale, rotations, caps and slopes, at logits from 0.1 to 1000."""
    worst = [0.0] * len(SHAPES)
    for index, (instance, ratio) in enumerate(layer_ratios(style, dtype, 42, seed=7)):
        assert np.isfinite(ratio).all() and ratio.max() <= 1, instance
        worst[index % len(SHAPES)] = max(worst[index % len(SHAPES)], ratio.max())
    assert max(worst) > 0.02 and min(worst) > 1 / 500, "a bound much too large would see nothing"


def test_layer_bound_covers_biased_data_and_large_angles():
    """Constant tokens and weights: every rounding error of a sum has the same sign; angles of up to 59 radians."""
    for heads, kv_heads, options in SHAPES:
        for dtype, unit in UNITS.items():
            shapes = (20, heads * 4), (20, kv_heads * 4), heads * 4, kv_heads * 4
            arrays = (np.full(shape, 0.1, dtype) for shape in shapes)
            layer = AttentionLayer(*arrays, heads=heads, kv_heads=kv_heads, **options)
            M_Q, M_K = (np.full(W.shape, 0.7, dtype) for W in (layer.W_Q, layer.W_K))
            instance = LayerInstance(layer, np.full((60, 20), 0.3, dtype), M_Q=M_Q, M_K=M_K, lam=0.1)
            at = posed(instance)
            exact, bound = ball.enclosed_gradient(at), running_error.gradient_error(at, unit)
            for style in LAYER_STYLES:
                assert (exact.distance(at.flat(gradients(instance, style))) <= bound).all(), (options, dtype, style)


def test_layer_bound_covers_subnormal_arithmetic():
    rng = np.random.default_rng(8)
    for index in range(14):
        instance = random_instance(rng, index, dtype=np.float32)
        for size in (1e-12, 1e-20):
            tiny = LayerInstance(
                instance.layer, (size * instance.X).astype(np.float32), M_Q=instance.M_Q, M_K=instance.M_K, lam=1e-30
            )
            at = posed(tiny)
            error = ball.enclosed_gradient(at).distance(at.flat(gradients(tiny)))
            assert (error <= running_error.gradient_error(at, FLOAT32)).all(), (index, size)


@pytest.mark.parametrize("dtype", UNITS)
def test_layer_attention_loss_and_product_bounds(dtype):
    """The library's own code in both precisions."""
    rng = np.random.default_rng(9)
    for index in range(21):
        instance = random_instance(rng, index, dtype=dtype, logits=(0.1, 1.0, 30.0)[index % 3])
        at, unit, layer = posed(instance), UNITS[dtype], instance.layer
        masks, along = (instance.M_Q, instance.M_K), [rng.standard_normal(M.shape).astype(dtype) for M in at.masks]
        error = ball.layer_attention(layer, instance.X).distance(layer_attention(layer, instance.X))
        assert (error <= running_error.layer_attention_bound(layer, instance.X, unit)).all()
        objective = Objective(instance)
        assert ball.enclosed_loss(at).distance(objective.loss(*masks)) <= running_error.loss_error(at, unit)
        product = at.flat(objective.hessian_vector_product(masks, along))
        assert (
            ball.enclosed_product(at, tuple(along)).distance(product) <= running_error.product_error(at, along, unit)
        ).all()


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", UNITS)
@pytest.mark.parametrize("style", LAYER_STYLES)
def test_layer_gradient_bound_on_many_and_longer_instances(style, dtype):
    for instance, ratio in layer_ratios(style, dtype, 280, seed=10, largest=24):
        assert ratio.max() <= 1, instance
