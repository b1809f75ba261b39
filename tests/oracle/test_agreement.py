"""Every oracle agrees with the rigorous enclosures, function by function: one suite for all of them."""

import numpy as np
import pytest

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.oracle import autodiff, ball, loops, multiprecision, running_error
from tests.oracle.problems import random_problem

ORACLES = {"loops": loops, "autodiff": autodiff, "multiprecision": multiprecision}
COUNTS = {"loops": 60, "autodiff": 150, "multiprecision": 24}
FUNCTIONS = ("loss", "gradient", "hessian_vector_product", "factored_loss", "factored_gradient")


def call(module, function, problem, rng_seed):
    rng = np.random.default_rng(rng_seed)
    d = problem.W.shape[0]
    if function == "hessian_vector_product":
        V = rng.standard_normal((d, d))
        return [getattr(module, function)(problem.M, V, *problem.args[1:])]
    if function.startswith("factored"):
        m = int(rng.integers(1, d + 1))
        M_Q, M_K = rng.uniform(-0.2, 1.2, (2, d, m))
        W_Q, W_K = rng.standard_normal((2, d, m)) * np.sqrt(np.abs(problem.W).max())
        found = getattr(module, function)(M_Q, M_K, problem.X, W_Q, W_K, problem.lam, problem.mask)
        return list(found) if isinstance(found, tuple) else [found]
    return [getattr(module, function)(*problem.args)]


class Bounds:
    """The running-error bounds under the oracles' names."""

    loss = staticmethod(running_error.loss_bound)
    gradient = staticmethod(running_error.gradient_bound)
    hessian_vector_product = staticmethod(running_error.hessian_vector_product_bound)
    factored_loss = staticmethod(running_error.factored_loss_bound)
    factored_gradient = staticmethod(running_error.factored_gradient_bound)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("oracle", ORACLES)
def test_agrees_with_the_enclosure(oracle, function):
    rng = np.random.default_rng(1)
    for index in range(COUNTS[oracle]):
        small = oracle == "multiprecision"
        problem = random_problem(rng, index, largest=3 if small else 5)
        found = call(ORACLES[oracle], function, problem, index)
        exact = call(ball, function, problem, index)
        bounds = call(Bounds, function, problem, index)
        for value, enclosure, bound in zip(found, exact, bounds, strict=True):
            error = np.abs(np.asarray(value).astype(float) - enclosure.midpoint)
            # A difference quotient at 50 digits is far finer than float64; the others round as float64 does.
            allowed = 1e-6 * bound if small else 2 * bound
            assert (error <= allowed + 2 * enclosure.radius).all(), (index, problem)


@pytest.mark.parametrize("oracle", [*ORACLES, "ball"])
def test_a_batch_averages_the_attention_term_and_counts_the_regulariser_once(oracle):
    module = {**ORACLES, "ball": ball}[oracle]
    rng = np.random.default_rng(2)
    X, W, M = rng.standard_normal((3, 4, 2)), rng.standard_normal((2, 2)), rng.uniform(size=(2, 2))

    def value(tokens, lam):
        found = module.loss(M, tokens, W, lam, "causal")
        return float(found.midpoint if oracle == "ball" else found)

    expected = np.mean([value(tokens, 0.0) for tokens in X]) + 0.7 / 2 * (M**2).sum()
    assert value(X, 0.7) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("oracle", [*ORACLES, "ball"])
def test_shapes_are_checked(oracle):
    module = {**ORACLES, "ball": ball}[oracle]
    with pytest.raises(InvalidInstance, match="shapes must be"):
        module.loss(np.ones((2, 2)), np.ones((3, 3)), np.ones((3, 3)))
    with pytest.raises(InvalidInstance, match="every row of mask"):
        module.loss(np.ones((2, 2)), np.ones((2, 2)), np.ones((2, 2)), 0.0, np.tri(2, k=-1))


def test_multiprecision_selected_entries_are_the_entries_of_the_whole():
    rng = np.random.default_rng(3)
    problem = random_problem(rng, 1, largest=3, logits=1.0)
    whole = multiprecision.gradient(*problem.args)
    last = whole.shape[0] - 1
    some = multiprecision.gradient(*problem.args, entries=[(0, 0), (last, 0)])
    assert [float(value) for value in some] == [float(whole[0, 0]), float(whole[last, 0])]


def test_multiprecision_keeps_the_promised_digits():
    rng = np.random.default_rng(4)
    problem = random_problem(rng, 1, largest=4, logits=2.0)
    D = rng.standard_normal(problem.W.shape)
    M, *rest = problem.args
    coarse = multiprecision.directional_derivative(M, D, *rest, digits=50)
    fine = multiprecision.directional_derivative(M, D, *rest, digits=120)
    assert abs(coarse / fine - 1) < 1e-28
