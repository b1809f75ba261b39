"""Intervals on anyone's arrays: honest kernels lie inside, mistakes do not, and a failure says where it is."""

import gc
import importlib
import importlib.util
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import attnprune_verify as apv
from attnprune_verify.audit.kernel.problem.blocks import blocks
from attnprune_verify.audit.kernel.problem.precision import PRECISIONS
from attnprune_verify.audit.kernel.problem.regimes import regimes
from attnprune_verify.audit.kernel.process.frameworks import framework_named
from attnprune_verify.audit.kernel.tensors.interval import AttentionInterval
from attnprune_verify.audit.kernel.tensors.problem import GivenProblem, problem_of
from attnprune_verify.audit.kernel.truth.bounds import attention_errors, in_balls, propagated, results_of
from attnprune_verify.audit.kernel.truth.judge import allowed_entries
from attnprune_verify.audit.kernel.truth.truth import by_balls, truth
from benchmarks.other_tolerance import hipdnn_tolerance

_spec = importlib.util.spec_from_file_location("honest_for_tensors", Path(__file__).with_name("honest.py"))
honest = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = honest
_spec.loader.exec_module(honest)

NAMES = {"o", "lse", "dq", "dk", "dv", "dbias", "dsinks"}


def arrays(n, length, m=8, mv=None, heads=1, kv_heads=1, batch=1, seed=0, dtype="float32"):
    rng, exact = np.random.default_rng(seed), PRECISIONS[dtype].exact
    shapes = [
        (batch, heads, n, m),
        (batch, kv_heads, length, m),
        (batch, kv_heads, length, mv or m),
        (batch, heads, n, mv or m),
    ]
    return [exact(rng.standard_normal(shape)) for shape in shapes]


def keywords(sample):
    """The parts of a sample as a caller passes them."""
    given = {**sample.keywords("attention"), **sample.keywords("attention_backward")}
    return {name: value for name, value in given.items() if name not in ("wanted", "return_lse")}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_it_is_the_rule_of_the_audit_for_every_part_of_the_contract(dtype):
    """The same ends as the audit's, of every regime's shortest sample, from arrays as a caller has them."""
    for name, regime in regimes(0, dtype).items():
        sample = min(regime.samples, key=lambda one: one.work)
        if sample.poison is not None or sample.longest > 64:
            continue
        packed = sample.ends is not None
        q, k, v, do = (np.swapaxes(x[0], 0, 1) if packed else x for x in (sample.q, sample.k, sample.v, sample.do))
        found = apv.attention_interval(
            q, k, v, do, dtype=dtype, conventions=sample.conventions.as_dict(), **keywords(sample)
        )
        known = sample.changed(generic=found._problem.sample.generic)
        for part in results_of(sample):
            ends = getattr(found, part)
            width = truth(sample)[part].radius + allowed_entries(part, known)
            expected = found._problem.outward(part, np.nextafter(truth(sample)[part].value + width, np.inf))
            assert ends.highest == pytest.approx(expected, rel=1e-12, abs=1e-300), (name, part)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(("rows", "heads", "kv_heads"), [(7, 4, 2), (40, 2, 2)])
def test_blocks_of_rows_change_nothing(monkeypatch, rows, heads, kv_heads, backward):
    """Errors and values are those of the whole sample, whatever its blocks; only the longest row counts per block."""
    q, k, v, do = arrays(rows, 33, heads=heads, kv_heads=kv_heads, batch=2)
    rng = np.random.default_rng(1)
    given = {"bias": rng.standard_normal((1, heads, rows, 33)), "sinks": rng.standard_normal(heads), "softcap": 3.0,
             "alibi": np.full(heads, 0.1), "mask": rng.random((2, 1, rows, 33)) < 0.8, "window": 20,
             "dlse": rng.standard_normal((2, heads, rows)), "dtype": "float32"}  # fmt: skip
    whole = problem_of(q, k, v, do, **given).sample
    names = results_of(whole, backward)
    before = {name: (truth(whole)[name].value, *(errors[name] for errors in _both(whole))) for name in names}
    monkeypatch.setattr("attnprune_verify.audit.kernel.truth.bounds._BLOCK", 100)
    monkeypatch.setattr("attnprune_verify.audit.kernel.truth.bounds._SMALL", 0)
    blocked = whole.changed()
    assert len(list(blocks(blocked, 100))) > 4
    for name in names:
        after = (truth(blocked)[name].value, *(errors[name] for errors in _both(blocked)))
        assert after[0] == pytest.approx(before[name][0], rel=1e-10, abs=1e-14), name
        for x, y in zip(after[1:], before[name][1:], strict=True):
            assert (x <= y * (1 + 1e-9)).all() and x == pytest.approx(y, rel=0.3), name


def _both(sample):
    errors = attention_errors(sample)
    return errors.worst, errors.typical


def test_the_truth_of_a_long_float64_sample_lies_in_balls():
    """Wider floats stand in for balls where these would take minutes: here both are computed."""
    sample = problem_of(
        *arrays(9, 70, dtype="float64"), softcap=2.0, sinks=np.ones(1), conventions={"lse_base": "2"}
    ).sample
    exact = by_balls(sample)
    values, _ = propagated(sample, [], True, valued=True)
    for name, value in values.items():
        scale = np.abs(exact[name].value).max()
        assert np.abs(value - exact[name].value).max() <= 2e-15 * scale, name


def test_long_keys_of_one_query_are_enclosed_in_wide_floats():
    """Balls take over a second for so many numbers, and are 1 % narrower."""
    q, k, v, _ = arrays(1, 1024, 128, dtype="float64")
    assert in_balls(problem_of(q, k[..., :32, :], v[..., :32, :]).sample)
    sample = problem_of(q, k, v).sample
    assert not in_balls(sample)
    width = truth(sample)["o"].radius + allowed_entries("o", sample)
    exact = by_balls(sample)["o"]
    assert (np.abs(truth(sample)["o"].value - exact.value) <= truth(sample)["o"].radius).all()
    if np.finfo(np.longdouble).nmant == 63:
        assert (width <= 1.02 * (exact.radius + allowed_entries("o", sample))).all()


def random_problem(rng, dtype):
    """A problem of random sizes and parts, whose roundings are independent."""
    kv_heads, group = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    n, length, m = (int(x) for x in rng.integers(1, 40, 3))
    q, k, v, do = arrays(
        n, length, m, int(rng.integers(1, 20)), kv_heads * group, kv_heads, 1, rng.integers(2**32), dtype
    )
    given = {"causal": bool(rng.integers(2)), "dtype": dtype}
    if rng.integers(3) == 0:
        given["softcap"] = float(rng.uniform(0.5, 5))
    if rng.integers(3) == 0:
        given["sinks"] = rng.standard_normal(kv_heads * group).astype(np.float32)
    if rng.integers(3) == 0:
        given["window"] = int(rng.integers(1, 30))
    return problem_of(q, k, v, do, **given)


def honest_kernels_inside(count, seed):
    """Judge random honest kernels on random problems, four kernels each: the largest quotient."""
    rng, variants, worst = np.random.default_rng(seed), list(honest.VARIANTS.values()), 0.0
    for turn in range(count // 4):
        problem = random_problem(rng, list(PRECISIONS)[turn % 4])
        found = AttentionInterval(problem, True)
        for kernel in rng.choice(np.array(variants, dtype=object), 4, replace=False):
            if kernel.flush and problem.sample.precision.name == "float16":
                continue  # loses subnormal weights, which is judged by a promise of its own
            answers = {
                name: problem.outward(name, x) for name, x in kernel.all(problem.sample).items() if name in found
            }
            for name, verdict in found.judge(**answers).items():
                assert verdict.inside, (kernel, problem.sample.describe(), name, verdict)
                worst = max(worst, verdict.quotient)
    return worst


def test_honest_kernels_are_inside():
    assert 0.1 < honest_kernels_inside(48, 0) <= 1


@pytest.mark.thorough
def test_ten_thousand_are():
    assert honest_kernels_inside(10_000, 1) <= 1


@pytest.mark.parametrize(("dtype", "share"), [("bfloat16", 1 / 8), ("float32", 1 / 200)])
@pytest.mark.parametrize(("n", "m"), [(64, 64), (256, 64)])
def test_the_interval_is_a_small_share_of_the_other_tolerance(dtype, share, n, m):
    q, k, v, _ = arrays(n, n, m, dtype=dtype)
    found = apv.attention_interval(q, k, v, dtype=dtype).o
    theirs = hipdnn_tolerance(problem_of(q, k, v, dtype=dtype).sample)
    assert np.median(found.highest - found.lowest) / 2 <= share * theirs


MISTAKES = {
    "scale 2 % off": lambda q, k, v: plain(1.02 * q, k, v),
    "scale of m + 1": lambda q, k, v: plain(q * np.sqrt(8 / 9), k, v),
    "uniform": lambda q, k, v: plain(0 * q, k, v),
    "last key dropped": lambda q, k, v: plain(q, k[:, :, :-1], v[:, :, :-1]),
    "epsilon in the sum": lambda q, k, v: plain(q, k, v) / (1 + 1e-3),
    "5 % small": lambda q, k, v: 0.95 * plain(q, k, v),
    "heads mixed": lambda q, k, v: plain(q, k[:, ::-1], v),
    "not a number": lambda q, k, v: plain(q, k, v) * np.where(np.arange(8) == 3, np.nan, 1),
}


def plain(q, k, v):
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_memory_of_a_forward_pass_is_within_the_contract(dtype):
    n = 1024
    q, k, v, _ = arrays(n, n, m=128, dtype=dtype)
    gc.disable()  # what only a collection of cycles frees counts
    tracemalloc.start()
    try:
        assert np.isfinite(apv.attention_interval(q, k, v, dtype=dtype).o.highest).all()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.enable()
    assert peak <= 12 * n * n * np.dtype(float).itemsize


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_fail(name):
    q, k, v, _ = arrays(20, 24, heads=2, kv_heads=2)
    apv.assert_attention(q, k, v, o=plain(q, k, v), dtype="float32")
    with pytest.raises(AssertionError, match="o: "):
        apv.assert_attention(q, k, v, o=MISTAKES[name](q, k, v), dtype="float32")


def test_a_failure_says_what_where_and_how_much():
    q, k, v, do = arrays(40, 70, heads=2)
    dq, dk, dv = apv.reference_attention_backward(q, k, v, do)
    dk[0, 0, 64:] = 0
    with pytest.raises(AssertionError) as raised:
        apv.assert_attention(q, k, v, do=do, dq=dq, dk=dk, dv=dv, dtype="float32")
    said = str(raised.value)
    for part in ("dk: 48 / 560 entries outside (8.57%)", "times what rounding explains", "value:   0.0", "lowest: ",
                 "highest: ", "key 64-69: 6 of 70; tiles of 64: 1 of 2, the last, incomplete one"):  # fmt: skip
        assert part in said
    assert "dq" not in said and "dv" not in said


def test_a_head_that_is_off_in_norm_alone_is_named():
    q, k, v, _ = arrays(40, 70, m=16, heads=2)
    found = apv.attention_interval(q, k, v, dtype="float32")
    o = found.o.true.copy()
    o[0, 1] += 4.5 * found.o.typical[0, 1]
    verdict = found.judge(o=o)["o"]
    assert not verdict.inside and verdict.index == (0, 1) and verdict.quotient > 1 and not verdict.outside.any()
    with pytest.raises(AssertionError, match=r"not every head in norm\n Worst at \[0, 1\]"):
        apv.assert_attention(q, k, v, o=o, dtype="float32")


def test_structured_arrays_get_the_worst_case_alone():
    q, k, v, _ = arrays(8, 12)
    for changed in ((q, np.repeat(k[:, :, :6], 2, axis=2), v), (q, k, np.ones_like(v)), (0 * q, k, v)):
        assert not problem_of(*changed, dtype="float32").sample.generic
    assert problem_of(q, k, v, dtype="float32").sample.generic


def test_arrays_of_every_framework_and_their_types():
    q, k, v, _ = arrays(3, 5, dtype="bfloat16")
    wide = apv.attention_interval(q, k, v, dtype="bfloat16")
    for name in ("torch", "jax", "numpy"):
        if importlib.util.find_spec(name if name != "numpy" else "ml_dtypes") is None:
            continue
        framework = framework_named(name, "bfloat16")
        made = apv.attention_interval(*(framework.made(x, "plain") for x in (q, k, v)))
        assert made._problem.sample.precision.name == "bfloat16"
        assert np.array_equal(made.o.lowest, wide.o.lowest)


class _OnlyDlpack:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_anything_with_dlpack_is_read():
    q, k, v = (x.astype(np.float32) for x in arrays(3, 5)[:3])
    found = apv.attention_interval(*(_OnlyDlpack(x) for x in (q, k, v)))
    assert np.array_equal(found.o.lowest, apv.attention_interval(q, k, v).o.lowest)


def test_packed_and_lower_ranks_have_the_callers_shapes():
    q, k, v, do = (np.swapaxes(x[0], 0, 1) for x in arrays(7, 9, heads=2, mv=4))
    found = apv.attention_interval(q, k, v, do, cu_seqlens_q=[0, 3, 7], cu_seqlens_k=[0, 4, 9], dtype="float32")
    assert found.o.true.shape == (7, 2, 4) and found.lse.true.shape == (2, 7) and found.dk.true.shape == (9, 1, 8)
    o = apv.reference_attention(q[3:].swapaxes(0, 1), k[4:].swapaxes(0, 1), v[4:].swapaxes(0, 1))
    assert found.o.true[3:] == pytest.approx(o.swapaxes(0, 1), rel=1e-12)
    wrong = found.o.true.copy()
    wrong[5, 1, 2] += 1
    assert found.judge(o=wrong)["o"].index == (5, 1, 2)
    assert apv.attention_interval(q[:, 0], k[:, 0], v[:, 0], dtype="float32").o.true.shape == (7, 4)


def test_padding_may_hold_nan_and_empty_rows_may_be_undefined():
    q, k, v, _ = arrays(3, 5)
    mask = np.ones((3, 5), bool)
    mask[:, 4], mask[1] = False, False
    o = apv.reference_attention(q, k, v, mask=mask)
    k[:, :, 4], v[:, :, 4] = np.nan, np.inf
    apv.assert_attention(q, k, v, o=o, mask=mask, dtype="float32")
    o[:, :, 1] = np.nan
    apv.assert_attention(q, k, v, o=o, mask=mask, dtype="float32", conventions={"empty_rows": "undefined"})
    with pytest.raises(AssertionError, match="query 1: 1 of 3"):
        apv.assert_attention(q, k, v, o=o, mask=mask, dtype="float32")


def test_there_are_gradients_with_do_and_no_others():
    q, k, v, do = arrays(3, 5)
    assert apv.attention_interval(q, k, v, dtype="float32").dq is None
    found = apv.attention_interval(q, k, v, do, dtype="float32", bias=np.ones((1, 1, 3, 5)))
    assert list(found) == ["o", "lse", "dq", "dk", "dv", "dbias"] and found.dsinks is None
    with pytest.raises(apv.InvalidInstance, match="must be one of o, lse; got 'dq'"):
        apv.attention_interval(q, k, v, dtype="float32").judge(dq=q)


BAD = {
    "numbers of float32": lambda q, k, v: {"q": q + 2.0**-40},
    "must fit together": lambda q, k, v: {"k": k[:, :, :-1]},
    "must be finite where it is read": lambda q, k, v: {"v": v * np.where(np.arange(5)[:, None] == 2, np.inf, 1)},
    "pass other numbers as bias": lambda q, k, v: {"mask": np.full((3, 5), 0.5)},
    "must broadcast to": lambda q, k, v: {"mask": np.ones((2, 3, 4, 5), bool)},
    "one for each head": lambda q, k, v: {"sinks": np.ones(2)},
    "must be an array of real numbers": lambda q, k, v: {"q": "q"},
    "dtype must be one of": lambda q, k, v: {"dtype": "float8"},
    "window must be": lambda q, k, v: {"window": 0},
}


@pytest.mark.parametrize("said", BAD)
def test_what_does_not_fit_is_refused(said):
    q, k, v, _ = arrays(3, 5)
    with pytest.raises(apv.InvalidInstance, match=said):
        apv.attention_interval(**({"q": q, "k": k, "v": v, "dtype": "float32"} | BAD[said](q, k, v)))


def test_an_assertion_without_results_is_no_pass():
    with pytest.raises(apv.InvalidInstance, match="must be given a result"):
        apv.assert_attention(*arrays(3, 5)[:3])


def test_a_problem_reads_back_what_it_wrote():
    problem = problem_of(*arrays(3, 5), dtype="float32")
    assert isinstance(problem, GivenProblem)
    with pytest.raises(apv.InvalidInstance, match=r"o must have the shape \(1, 1, 3, 8\); got \(3, 7\)"):
        problem.inward("o", np.ones((3, 7)))
