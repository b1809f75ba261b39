"""The bound: no honest kernel exceeds it, in any precision or regime, and the worst comes within a stated factor."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attnprune_verify.audit.kernel.problem.precision import PRECISIONS
from attnprune_verify.audit.kernel.problem.regimes import regimes
from attnprune_verify.audit.kernel.problem.sample_factory import Maker
from attnprune_verify.audit.kernel.run import run_kernel_audit
from attnprune_verify.audit.kernel.truth.bounds import attention_errors
from attnprune_verify.audit.kernel.truth.judge import ENTRY, NORM, allowed_entries, allowed_norms, judge_parts, of_heads
from attnprune_verify.audit.kernel.truth.truth import truth
from benchmarks.other_tolerance import table

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
        true = truth(sample)
        for name, kernel in variants.items():
            found = kernel.all(sample)
            precision = replace(sample.precision, flushes=sample.precision.flushes or kernel.flush)
            errors = attention_errors(sample, precision)
            for part, value in found.items():
                same = value == true[part].value  # log sum exp of a row with nothing allowed
                with np.errstate(invalid="ignore"):
                    off = np.abs(value.astype(np.float64) - true[part].value) - true[part].radius
                off = np.where(same, 0.0, np.maximum(off, 0.0))
                assert (off <= errors.worst[part]).all(), (name, sample.describe(), part)
                worst = max(worst, share_of(off, errors.worst[part]))
                if sample.generic:
                    assert (off <= ENTRY * errors.typical[part]).all(), (name, sample.describe(), part)
                    assert (of_heads(off) <= allowed_norms(part, sample, precision)).all(), (
                        name,
                        sample.describe(),
                        part,
                    )
                    norm = max(norm, share_of(of_heads(off), allowed_norms(part, sample, precision)))
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


def test_the_head_that_is_named_exceeds_its_own_bound():
    """Not the head with the largest error: values of head 0 are 1024 times larger, and its error is allowed."""
    sample = Maker(0, PRECISIONS["float32"]).make("two heads", 64, 8)
    sample = sample.changed(v=sample.v * np.array([1024.0, 1.0])[None, :, None, None])
    off = 0.9 * allowed_entries("o", sample) * np.array([1 / 64, 1])[:, None, None]
    verdict = judge_parts("attention", sample, (truth(sample)["o"].value + off,))[0]
    assert verdict.status == "failed" and "norm (batch 0, head 1)" in verdict.reason


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


@pytest.mark.parametrize("length", [64, 1024, *(pytest.param(x, marks=pytest.mark.thorough) for x in (4096, 16384))])
@pytest.mark.parametrize(("dtype", "share"), [("float16", 0.03), ("bfloat16", 0.06)])
def test_a_row_that_is_a_little_too_small_fails_at_every_length(dtype, share, length):
    sample = Maker(0, PRECISIONS[dtype]).make("long", 2, 64, length, 64, heads=1)
    o = truth(sample)["o"].value.copy()
    o[:, :, 0] *= 1 - share
    assert judge_parts("attention", sample, (o,))[0].status == "failed"


FLUSHED = """
import numpy as np
FRAMEWORK = "numpy"

def stored(x):
    x = x.astype(np.float16)
    return np.where(np.abs(x) < np.float16(2**-14), np.float16(0), x)

def attention(q, k, v):
    s = q.astype(np.float32) @ np.swapaxes(k, -1, -2).astype(np.float32) * np.float32(q.shape[-1] ** -0.5)
    p = np.exp(s - s.max(-1, keepdims=True))
    p = stored(p / p.sum(-1, keepdims=True)).astype(np.float32)
    o = p @ v.astype(np.float32)
    return stored(o * np.float32(0.84 if k.shape[-2] > 4096 and LATE else 1))
"""


def run_on_long_rows(tmp_path, source, late):
    path = tmp_path / f"kernel_{late}.py"
    path.write_text(f"LATE = {late}" + source, encoding="utf-8")
    only = ("attention:values:long", "attention:values:plain")
    return run_kernel_audit(str(path), "float16", only=only, names="never")


def test_a_kernel_that_loses_subnormal_weights_is_right_and_no_other_may(tmp_path):
    assert run_on_long_rows(tmp_path, FLUSHED, False).outcome == "passed"
    kept = FLUSHED.replace("np.where(np.abs(x) < np.float16(2**-14), np.float16(0), x)", "x")
    assert run_on_long_rows(tmp_path, kept, False).outcome == "passed"
    assert run_on_long_rows(tmp_path, kept, True).outcome == "failed"


@pytest.mark.thorough
def test_the_page_shows_the_other_tolerance():
    """All but the honest kernel's error, which is that of a machine's own products."""
    page = (Path(__file__).parents[3] / "docs" / "kernels.md").read_text(encoding="utf-8")
    shown = page[page.index(table().splitlines()[0]) :]

    def derived(text):
        return [line.split()[:4] + line.split()[5:] for line in text.splitlines()[1:10]]

    assert derived(table()) == derived(shown)
