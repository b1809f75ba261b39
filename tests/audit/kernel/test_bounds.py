"""The bound: no honest kernel exceeds it, in any precision or regime, and the worst comes within a stated factor."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from attnprune_verify.audit.kernel.problem.precision import PRECISIONS
from attnprune_verify.audit.kernel.problem.regimes import regimes
from attnprune_verify.audit.kernel.truth.bounds import attention_errors
from attnprune_verify.audit.kernel.truth.judge import ENTRY, NORM, allowed_norms, judge_parts, of_heads
from attnprune_verify.audit.kernel.truth.truth import truth

_spec = importlib.util.spec_from_file_location("honest_kernels", Path(__file__).with_name("honest.py"))
honest = importlib.util.module_from_spec(_spec)
sys.modules["honest_kernels"] = honest
_spec.loader.exec_module(honest)

# What docs/kernels.md states: how much larger than the worst honest error a bound is, at most.
FACTOR_WORST, FACTOR_NORM = 5.0, 12.0


def samples(dtype, seed, longest):
    """Of optional parts the shorter ones: there are many."""
    some = [one for regime in regimes(seed, dtype).values() for one in regime.samples]
    return [one for one in some if one.longest <= (longest // 2 if one.extended else longest)]


def share_of(off, bound):
    """The largest share of a bound; nothing is off where the bound is 0."""
    return float((off / np.where(bound > 0, bound, 1)).max())


def shares(dtype, seed=0, longest=40, variants=honest.VARIANTS):
    """The largest honest error in units of each bound: (in an entry at worst, in a head's norm)."""
    worst, norm = 0.0, 0.0
    for sample in samples(dtype, seed, longest):
        true, errors = truth(sample), attention_errors(sample)
        for name, kernel in variants.items():
            found = kernel.all(sample)
            for part, value in found.items():
                same = value == true[part].value  # log sum exp of a row with nothing allowed
                with np.errstate(invalid="ignore"):
                    off = np.abs(value.astype(np.float64) - true[part].value) - true[part].radius
                off = np.where(same, 0.0, np.maximum(off, 0.0))
                assert (off <= errors.worst[part]).all(), (name, sample.describe(), part)
                worst = max(worst, share_of(off, errors.worst[part]))
                if sample.generic:
                    assert (off <= ENTRY * errors.typical[part]).all(), (name, sample.describe(), part)
                    assert (of_heads(off) <= allowed_norms(part, sample)).all(), (name, sample.describe(), part)
                    norm = max(norm, share_of(of_heads(off), allowed_norms(part, sample)))
    return worst, norm


def test_there_are_many_honest_kernels():
    assert len(honest.VARIANTS) >= 25
    assert len(set(honest.VARIANTS.values())) == len(honest.VARIANTS)


@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.thorough), "bfloat16"])
def test_no_honest_kernel_exceeds_the_bound(dtype):
    worst, norm = shares(dtype, longest=17)
    assert 1 / FACTOR_WORST <= worst <= 1.0
    assert 1 / FACTOR_NORM <= norm <= 0.5  # seeds and kernels nobody has seen have room


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_nor_does_any_for_other_seeds_and_larger_sizes(dtype, seed):
    worst, norm = shares(dtype, seed, longest=150)
    assert worst <= 1.0 and norm <= 0.6


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_what_is_typical_is_far_below_the_worst_for_long_sums(dtype):
    """Else the norm would see no more than the entries do."""
    (sample,) = [s for s in regimes(0, dtype)["larger"].samples if s.name == "n129"]
    errors = attention_errors(sample)
    assert NORM * np.linalg.norm(errors.typical["dq"]) < 0.3 * np.linalg.norm(errors.worst["dq"])


def test_a_single_position_leaves_no_room_for_an_epsilon():
    """The weight is 1 whatever exp does: 1e-6 in the row sum, 17 units, is not rounding."""
    (sample,) = [s for s in regimes(0, "float32")["smallest"].samples if s.name == "1x1"]
    o = truth(sample)["o"].value / (1 + 1e-6)
    assert judge_parts("attention", sample, (o,))[0].status == "failed"


@pytest.mark.parametrize("name", ["n4", "n16", "n33", "n65", "n129", "n300", "1x1", "decode", "h256"])
def test_tf32_products_fail_at_every_size(name):
    """Inputs, weights, dP and dS with 10 bits after the point, sums in float32."""
    (sample,) = [s for regime in regimes(0, "float32").values() for s in regime.samples if s.name == name]
    kernel = honest.Honest(normalise="before", tf32=True)
    found = kernel.all(sample)
    assert judge_parts("attention", sample, (found["o"],))[0].status == "failed"
    parts = judge_parts("attention_backward", sample, (found["dq"], found["dk"], found["dv"]))
    assert "failed" in {verdict.status for verdict in parts}
