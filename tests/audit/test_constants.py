"""Constants that are fitted: factors of the logits, bounds of gradients, curves for exp; noise has none of them."""

import numpy as np
import pytest

from attnprune_verify.audit.functions.checks.descent_mistakes import ETA, STEPS, descend, gradient_of, named_by_first
from attnprune_verify.audit.functions.naming.describing import cut_off
from attnprune_verify.audit.functions.naming.diagnosis import diagnose
from attnprune_verify.audit.functions.naming.exponential import logit_factor
from attnprune_verify.audit.functions.naming.fitting import Observation
from attnprune_verify.audit.functions.truth.formulas import RIGHT, attention_part
from attnprune_verify.audit.functions.truth.reference import reference
from attnprune_verify.audit.functions.truth.samples_for import asked_samples
from attnprune_verify.audit.naming.words import follows_curve

SAMPLES = [one for regime in ("full", "causal", "given-mask") for one in asked_samples("loss", 0, regime)]


def returned(function, factor):
    steps = {**RIGHT, **dict.fromkeys(("logits", "dense_logits"), lambda X, A: factor * (X @ A @ X.T))}
    for sample in SAMPLES:
        pairs = zip(reference(function, sample), attention_part(function, sample, RIGHT), strict=True)
        regular = [truth.value - right for truth, right in pairs]
        parts = attention_part(function, sample, steps)
        yield Observation(sample, tuple(a + b for a, b in zip(parts, regular, strict=True)))


@pytest.mark.parametrize("function", ["attention", "loss", "gradient"])
@pytest.mark.parametrize("factor", [1 + 1e-5, 1.0005, 0.7, 3.3])
def test_any_factor_of_the_logits_is_found(function, factor):
    found = diagnose(function, list(returned(function, factor)))
    assert found.ids == ("logit-scale",)


@pytest.mark.parametrize("function", ["attention", "loss", "gradient"])
def test_right_results_and_noise_have_no_factor_and_no_bound(function):
    right = [Observation(one, tuple(part.value for part in reference(function, one))) for one in SAMPLES]
    rng = np.random.default_rng(0)
    noisy = [
        Observation(one.sample, tuple(part * (1 + 1e-6 * rng.standard_normal(part.shape)) for part in one.parts))
        for one in right
    ]
    for observations in (right, noisy, noisy[:1]):
        assert logit_factor(function, observations) is None and cut_off(function, observations) is None


def test_rounding_is_no_curve_and_a_polynomial_is():
    z = -np.random.default_rng(1).uniform(0, 5, 400)
    assert follows_curve(z, 1000 * np.log1p(z / 1000) - z)
    rounded = np.log(np.exp(z).astype(np.float16).astype(float)) - z
    assert not follows_curve(z, rounded) and not follows_curve(z[:20], z[:20])


@pytest.mark.parametrize(
    ("change", "id"),
    [
        (lambda g: np.clip(g, -0.05, 0.05), "gradient-clipped"),
        (lambda g: g * min(1.0, 0.1 / np.linalg.norm(g)), "gradient-clipped"),
        (np.sign, "other-optimizer"),
        (lambda g: g / np.linalg.norm(g), "other-optimizer"),
        (lambda g: 0.4 * g, "ignores-step"),
        (lambda g: g + 1e-3 * np.arange(g.size).reshape(g.shape), "unknown"),
    ],
)
def test_the_first_step_tells_what_was_done_to_the_gradient(change, id):
    sample = asked_samples("gradient", 0, "full")[1]
    of = gradient_of(sample)
    one, M = (descend(lambda M: change(of(M)), M.shape, steps) for M, steps in ((sample.W, 1), (sample.W, STEPS)))
    assert named_by_first(sample, M, STEPS, float(1 - one.mean()) / ETA) == (id,)
