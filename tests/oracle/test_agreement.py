"""Every oracle agrees with the rigorous enclosures, function by function, kind by kind: one suite for all of them."""

import numpy as np
import pytest

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.oracle import autodiff, ball, loops, multiprecision, running_error
from attnprune_verify.oracle.inputs import fused, layered, pair
from tests.model.layers import KINDS, MODIFIED, random_layer, random_masks
from tests.oracle.problems import random_problem

ORACLES = {"loops": loops, "autodiff": autodiff, "multiprecision": multiprecision}
FUNCTIONS = ("loss", "gradient", "hessian_vector_product")


def random_pair(problem, index):
    rng = np.random.default_rng(index)
    d = problem.W.shape[0]
    m = int(rng.integers(1, d + 1))
    M_Q, M_K = rng.uniform(-0.2, 1.2, (2, d, m))
    W_Q, W_K = rng.standard_normal((2, d, m)) * np.sqrt(np.abs(problem.W).max())
    return pair(M_Q, M_K, problem.X, W_Q, W_K, problem.lam, problem.mask)


def points(form, small, count):
    """Fused weights and pairs of all sizes; of layers every kind."""
    if form == "layer":
        for seed, kind in enumerate(KINDS | MODIFIED):
            layer, X = random_layer(kind, seed, d=2, m=2, n=4, k=1) if small else random_layer(kind, seed, d=3, n=5)
            yield layered(layer, *random_masks(layer, seed), X, 0.2)
        return
    rng = np.random.default_rng(1)
    for index in range(count):
        problem = random_problem(rng, index, largest=3 if small else 5)
        yield problem.at if form == "fused" else random_pair(problem, index)


def called(module, function, at, along):
    """The value, or entries of the gradient or product and which: difference quotients cost an evaluation an entry."""
    given = along if function == "hessian_vector_product" else ()
    if function == "loss":
        return [float(module.loss(at))], slice(None)
    if module is not multiprecision:
        return at.flat(getattr(module, function)(at, *given)), slice(None)
    entries = range(0, at.size, 1 + at.size // 4)
    return getattr(module, function)(at, *given, entries=entries).astype(float), entries


def enclosed(function, at, along):
    if function == "loss":
        return ball.enclosed_loss(at), running_error.loss_error(at)
    if function == "gradient":
        return ball.enclosed_gradient(at), running_error.gradient_error(at)
    return ball.enclosed_product(at, along), running_error.product_error(at, along)


@pytest.mark.parametrize("form", ["fused", "pair", "layer"])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("oracles", [("loops", "autodiff"), ("multiprecision",)], ids=" and ".join)
def test_agrees_with_the_enclosure(oracles, function, form):
    small = oracles == ("multiprecision",)
    rng = np.random.default_rng(2)
    for at in points(form, small, 18 if small else 40):
        along = at.directions(*(rng.standard_normal(M.shape) for M in at.masks))
        exact, bound = enclosed(function, at, along)
        for oracle in oracles:
            value, entries = called(ORACLES[oracle], function, at, along)
            # A difference quotient at 50 digits is far finer than float64; the others round as float64 does.
            allowed = 1e-6 * bound if small else 2 * bound
            error = np.abs(value - np.atleast_1d(exact.midpoint)[entries])
            assert (error <= np.atleast_1d(allowed + 2 * exact.radius)[entries]).all(), (oracle, at)


@pytest.mark.parametrize("kind", KINDS | MODIFIED)
def test_attention_of_layers(kind):
    layer, X = random_layer(kind)
    found = loops.attention(layered(layer, None, None, X))
    bound = running_error.layer_attention_bound(layer, X)
    assert (ball.layer_attention(layer, X).distance(found) <= bound).all() and bound.max() < 1e-12


@pytest.mark.parametrize("oracle", [*ORACLES, "ball"])
def test_a_batch_averages_the_attention_term_and_counts_the_regulariser_once(oracle):
    rng = np.random.default_rng(2)
    X, W, M = rng.standard_normal((3, 4, 2)), rng.standard_normal((2, 2)), rng.uniform(size=(2, 2))

    def value(tokens, lam):
        at = fused(M, tokens, W, lam, "causal")
        return float(ball.enclosed_loss(at).midpoint if oracle == "ball" else ORACLES[oracle].loss(at))

    expected = np.mean([value(tokens, 0.0) for tokens in X]) + 0.7 / 2 * (M**2).sum()
    assert value(X, 0.7) == pytest.approx(expected, rel=1e-13)


def test_shapes_are_checked():
    with pytest.raises(InvalidInstance, match="shapes must be"):
        fused(np.ones((2, 2)), np.ones((3, 3)), np.ones((3, 3)))
    with pytest.raises(InvalidInstance, match="shapes must be"):
        pair(*np.ones((2, 2, 3)), np.ones((3, 2)), np.ones((2, 3)), np.ones((2, 2)))
    with pytest.raises(InvalidInstance, match="every row of mask"):
        ball.loss(np.ones((2, 2)), np.ones((2, 2)), np.ones((2, 2)), 0.0, np.tri(2, k=-1))
    with pytest.raises(InvalidInstance, match="must have the shape of the masks"):
        loops.hessian_vector_product(fused(np.ones((2, 2)), np.ones((3, 2)), np.ones((2, 2))), np.ones((3, 3)))
    layer, X = random_layer("groups")
    with pytest.raises(InvalidInstance, match="X has d = 4 where W_Q has d = 5|W_Q has d = 5 where X has d = 4"):
        ball.layer_attention(layer, X[..., :4])


def test_multiprecision_selected_entries_are_the_entries_of_the_whole():
    at = random_problem(np.random.default_rng(3), 1, largest=3, logits=1.0).at
    whole = multiprecision.gradient(at)
    some = multiprecision.gradient(at, entries=[0, at.size - 1])
    assert [float(value) for value in some] == [float(whole[0]), float(whole[-1])]


def test_multiprecision_keeps_the_promised_digits():
    rng = np.random.default_rng(4)
    layer, X = random_layer("softcap, alibi, rope", n=4, d=3, k=1)
    for at in (random_problem(rng, 1, largest=4, logits=2.0).at, layered(layer, *random_masks(layer), X, 0.1)):
        along = [rng.standard_normal(M.shape) for M in at.masks]
        coarse = multiprecision.directional_derivative(at, *along, digits=50)
        fine = multiprecision.directional_derivative(at, *along, digits=120)
        assert abs(coarse / fine - 1) < 1e-28
