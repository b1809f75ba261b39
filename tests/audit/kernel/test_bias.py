"""`biased-rounding`: truncation is found in answers and in weights; honest kernels never are."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from attnprune_verify import check_attention
from attnprune_verify.audit.kernel.checks.bias import bias_of, bias_samples
from attnprune_verify.audit.kernel.problem.precision import PRECISIONS
from attnprune_verify.audit.kernel.truth.reference_kernel import own_attention

_spec = importlib.util.spec_from_file_location("honest_kernels_of_bias", Path(__file__).with_name("honest.py"))
honest = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = honest
_spec.loader.exec_module(honest)

SHORT = {"bfloat16": 8, "float16": 11}


def truncated(bits):
    """Rounding toward zero to so many digits."""

    def rounded(array):
        mantissa, exponent = np.frexp(np.asarray(array, dtype=np.float64))
        return np.ldexp(np.trunc(np.ldexp(mantissa, bits)), exponent - bits)

    return rounded


def ceiling(bits):
    """Rounding upwards to so many digits."""

    def rounded(array):
        mantissa, exponent = np.frexp(array)
        return np.ldexp(np.ceil(np.ldexp(mantissa, bits)), exponent - bits)

    return rounded


def means(sample, **how):
    return {name: bias_of(name, got, sample) for name, got in own_attention(sample, **how).items()}


def test_truncation_shows_in_every_answer_and_its_right_twin_does_not():
    sample, _ = bias_samples(0, PRECISIONS["bfloat16"])
    assert not any(one.found for one in means(sample).values())
    answers = means(sample, answers=truncated(8))
    assert all(one.found and one.mean < 0 for one in answers.values())
    weights = means(sample, weights=truncated(8))
    assert all(one.found and one.mean < 0 for one in weights.values())
    away = means(sample, answers=lambda array: np.sign(array) * ceiling(8)(np.abs(array)))
    assert all(one.found and one.mean > 0 for one in away.values())


@pytest.mark.thorough
def test_rounding_of_halves_away_from_zero_is_to_the_nearest():
    sample, _ = bias_samples(0, PRECISIONS["bfloat16"])

    def halves_away(array):
        mantissa, exponent = np.frexp(np.asarray(array, dtype=np.float64))
        scaled = np.ldexp(mantissa, 8)
        return np.ldexp(np.trunc(scaled + np.copysign(0.5, scaled)), exponent - 8)

    assert not any(one.found for one in means(sample, answers=halves_away, weights=halves_away).values())


def worst_share(dtype, seeds, variants=honest.VARIANTS):
    """The largest mean signed error of honest kernels, in units of what is allowed."""
    shares = []
    for seed in seeds:
        for sample in bias_samples(seed, PRECISIONS[dtype]):
            for kernel in variants.values():
                found = kernel.all(sample)
                for name in ("o", "dq", "dk", "dv"):  # whose signs the check reads
                    got = found[name]
                    one = bias_of(name, np.asarray(got, np.float64), sample)
                    shares.append(abs(one.mean) / one.allowed)
    return max(shares), len(shares)


@pytest.mark.thorough
def test_a_few_honest_kernels_are_far_from_the_threshold():
    few = {name: honest.VARIANTS[name] for name in ("textbook, stored in 16 bits", "online, blocks of 16")}
    worst, _ = worst_share("bfloat16", [0], few)
    assert worst < 0.3


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", SHORT)
def test_no_honest_kernel_is_near_the_threshold(dtype):
    worst, count = worst_share(dtype, range(4))
    print(f"{dtype}: the largest of {count} mean signed errors of honest kernels is {worst:.3f} of what is allowed")
    assert count == 4 * 2 * len(honest.VARIANTS) * 4 and worst < 0.3


KERNEL = """
import ml_dtypes
import numpy as np

def cut(a):
    return (a.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)

def near(a):
    return a.astype(ml_dtypes.bfloat16).astype(np.float32)

def attention(q, k, v, *, scale=None):
    scale = np.float32(q.shape[-1] ** -0.5 if scale is None else scale)
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(a.astype(np.float32), group, axis=1) for a in (k, v))
    s = (q.astype(np.float32) @ np.swapaxes(k, -1, -2)) * scale
    p = np.exp(s - s.max(-1, keepdims=True))
    o = OF_WEIGHTS(p) @ v / SUMMED(p).sum(-1, keepdims=True)
    return OF_OUTPUT(o).astype(ml_dtypes.bfloat16)
"""


@pytest.mark.parametrize(
    ("weights", "summed", "output", "outcome"),
    [("near", "", "near", "passed"), ("cut", "", "near", "failed"),
     pytest.param("near", "", "cut", "failed", marks=pytest.mark.thorough),
     pytest.param("cut", "cut", "near", "failed", marks=pytest.mark.thorough)],
)  # fmt: skip
def test_the_audit_names_it(weights, summed, output, outcome, tmp_path):
    pytest.importorskip("ml_dtypes")
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL.replace("OF_WEIGHTS", weights).replace("SUMMED", summed).replace("OF_OUTPUT", output))
    result = check_attention(str(path), dtype="bfloat16", only=("attention:rounding", "attention:values:plain"))
    assert result.outcome == outcome, [(one.id, one.reason) for one in result.checks]
    assert result.diagnosis == ({} if outcome == "passed" else {"attention": ("biased-rounding",)})


def test_it_is_no_question_of_float32():
    result = check_attention(lambda q, k, v: q, only="*:rounding")
    assert {one.status for one in result.checks} == {"not_applicable"}
