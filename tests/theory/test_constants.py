"""The paper's constants as printed and their companions, against independent arithmetic, at any scale."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, fmpq

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance import families
from attnprune_verify.instance.problem import Instance
from attnprune_verify.model import attention, loss
from attnprune_verify.theory.constants import Constants, constants
from attnprune_verify.theory.formulas import paper, sharp
from attnprune_verify.theory.numbers.arithmetic import BALL
from attnprune_verify.theory.numbers.balls import exponential, frobenius, log10, lower, precision, upper


def example(**more):
    rng = np.random.default_rng(0)
    return Instance(rng.standard_normal((3, 4)), rng.standard_normal((4, 4)), lam=more.pop("lam", 0.04), **more)


def test_the_paper_s_formulas_from_the_definitions():
    M = np.random.default_rng(1).uniform(0.1, 0.9, (4, 4))
    instance = example(M=M)
    X, W, n, d, lam = instance.X, instance.W, 3, 4, 0.04
    found = constants(instance)
    R = max(1.0, np.linalg.norm(X), np.linalg.norm(W))
    beta, delta = np.linalg.eigvalsh(X @ X.T)[0], attention(X, M * W).min()
    mu = 2 * np.abs(W).min() * beta * delta
    L = lam + 30 * d * n**3.5 * R**6
    eps = 0.02 / n
    assert found.R == pytest.approx(R) and found.L_paper == pytest.approx(L) and found.mu_paper == pytest.approx(mu)
    assert found.xi_paper == pytest.approx(12 * n**-1.5 * np.abs(W).max() * np.linalg.norm(X) ** 2 * lam * d / mu)
    assert found.xi_paper_lemma == pytest.approx(12 * n**0.5 * np.abs(W).max() * np.linalg.norm(X) ** 2 * lam * d / mu)
    start = loss(M, X, W, lam)
    assert found.start_loss == pytest.approx(start) and found.eps == pytest.approx(eps)
    assert found.T_paper == pytest.approx(4 * start * L / (mu * eps * n**2))
    assert found.eta_paper == pytest.approx(1 / L)


def test_the_corrected_constants_from_the_definitions():
    instance = example(mask="causal")
    found, n, d, lam = constants(instance), 3, 4, 0.04
    F = attention(instance.X, instance.W, "causal")
    beta, delta = np.linalg.eigvalsh(instance.X @ instance.X.T)[0], F[np.tri(3, dtype=bool)].min()
    mu = 2 * (np.abs(instance.W).min() * beta * delta) ** 2
    assert found.delta == found.mu_paper == 0.0 and found.xi_paper == math.inf and found.T_paper == math.inf
    assert found.mu_corrected == pytest.approx(mu) and found.delta_allowed == pytest.approx(delta)
    assert found.L_sharp == pytest.approx(lam + (39 + 55 * math.sqrt(33)) / 1152 * found.K**2)
    assert found.xi_corrected == pytest.approx(found.K * lam**1.5 * d**2 / (n**2 * mu))
    assert found.start_loss == pytest.approx(lam * d**2 / 2)
    assert found.T_corrected == pytest.approx(2 * lam * d**2 * found.L_sharp / (mu * 0.02 / n * n**2))
    assert found.K_lower <= found.K <= found.K_lower * 1.01
    assert found.mu_operator >= found.mu_corrected * (1 - 1e-9)


def test_a_shorter_run_for_a_smaller_lam():
    """E1 of the paper's prose reversed: T = 2 lam d^2 L / (eta ...) increases with lam."""
    steps = [constants(example(lam=lam)).T_paper for lam in (1e-6, 1e-3, 1.0)]
    assert steps == sorted(steps) and steps[0] < 1e-2 * steps[1]


def test_access_and_json():
    found = constants(example())
    assert found["K"] == found.K and set(found.as_dict()) == set(Constants.__dataclass_fields__) - {"log10"}
    with pytest.raises(KeyError):
        found["log10"]
    with pytest.raises(KeyError):
        found["nothing"]
    json.dumps({"values": found.as_dict(), "log10": dict(found.log10)}, allow_nan=False)
    for name, value in found.as_dict().items():
        assert type(value) is float
        if value > 0 and math.isfinite(value):
            assert found.log10[name] == pytest.approx(math.log10(value), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("scale", [1e60, 1e-60, 1e200, 1e-200])
def test_logarithms_stay_finite_where_numbers_do_not(scale):
    rng = np.random.default_rng(2)
    X, W = rng.standard_normal((3, 3)), rng.standard_normal((3, 3))
    for M in (None, rng.uniform(0.1, 0.9, (3, 3))):
        found = constants(Instance(X * scale, W, M=M, lam=0.5))
        assert all(math.isfinite(value) for value in found.log10.values())
        for name in (
            "beta",
            "delta",
            "K",
            "K_lower",
            "L_paper",
            "L_sharp",
            "mu_paper",
            "mu_corrected",
            "xi_paper",
            "T_paper",
        ):
            assert name in found.log10, name
        assert found.log10["K"] == pytest.approx(
            constants(Instance(X, W)).log10["K"] + 2 * math.log10(scale), rel=1e-12
        )


def test_T_as_a_number_beyond_doubles():
    found = constants(Instance(np.eye(2), np.diag([1.0, 1.0]) * 1e3 + 1.0, lam=0.5))
    assert found.T_paper > 0 and found.log10["T_paper"] > 400
    # mu = 2 * 1 * 1 * delta, delta = e^-1000 / (1 + e^-1000)
    assert found.log10["mu_paper"] == pytest.approx(math.log10(2) - 1000 / math.log(10), rel=1e-12)


def test_overrides_and_their_errors():
    instance = example(mask="causal")
    given = constants(instance, eps=0.5, eta=0.25, beta=0.125, delta=0.0625)
    size = np.abs(instance.W).min()
    assert given.mu_paper == pytest.approx(2 * size / 128) and given.mu_corrected == pytest.approx(
        2 * (size / 128) ** 2
    )
    assert (given.eps, given.eta_paper, given.eta_corrected) == (0.5, 0.25, 0.25)
    assert given.T_paper == pytest.approx(4 * given.start_loss / (0.25 * given.mu_paper * 0.5 * 9))
    for bad in ({"eps": 0.0}, {"eta": -1.0}, {"eps": math.nan}, {"beta": math.inf}, {"delta": "x"}):
        with pytest.raises(InvalidInstance, match=f"{next(iter(bad))} must be"):
            constants(instance, **bad)


def test_batches_take_the_worst_sample_and_the_averaged_operator():
    rng = np.random.default_rng(3)
    X, W = rng.standard_normal((3, 2, 3)), rng.standard_normal((3, 3))
    X[1] *= 0.1
    single = [constants(Instance(x, W)) for x in X]
    batch = constants(Instance(X, W))
    assert batch.beta == min(item.beta for item in single) == single[1].beta
    assert batch.delta == pytest.approx(min(item.delta for item in single))
    assert batch.norm_X == pytest.approx(max(item.norm_X for item in single))
    mean = math.sqrt(np.mean([item.K**2 for item in single]))
    assert batch.K <= mean * (1 + 1e-9) and batch.K < 0.999 * mean


def test_undefined_divisions_are_said_to_be_undefined():
    found = constants(Instance(np.ones((3, 2)), np.ones((2, 2))))  # beta = 0 and lam = 0
    assert math.isnan(found.xi_paper) and math.isnan(found.T_paper) and "xi_paper" not in found.log10
    assert float(BALL.over(paper.mu(1, 1, 1), 0)) == math.inf


@pytest.mark.parametrize("name", sorted(families.FAMILIES))
def test_every_family_has_constants(name):
    found = constants(families.FAMILIES[name](np.random.default_rng(4)))
    assert found.K_lower <= found.K and found.L_sharp <= found.L_paper
    assert found.mu_corrected <= found.mu_operator * (1 + 1e-9) or name == "paper_synthetic"


def test_balls_round_outward():
    third = sharp.mu(1, 1, 1) / 6
    assert Fraction(lower(third)) <= Fraction(1, 3) <= Fraction(upper(third)) and lower(third) < upper(third)
    huge = exponential(-1e300)
    assert log10(huge) == pytest.approx(-1e300 / math.log(10), rel=1e-12) and upper(huge) > 0 and lower(huge) == 0
    assert log10(exponential(-1.7e308) ** 9) == -1.7976931348623157e308
    for array in (np.full((3, 3), 1e200), np.full((3, 3), 1e-320), np.random.default_rng(0).standard_normal((20, 20))):
        exact = sum((Fraction(x) ** 2 for x in array.ravel().tolist()), Fraction(0))
        with precision(4096):
            square = arb(fmpq(exact.numerator, exact.denominator))
            assert frobenius(array).lower() ** 2 <= square <= frobenius(array).upper() ** 2
