"""Kernels that take some sizes, or one case: found by the probe or declared, with their wrong neighbours."""

import subprocess
import sys

import numpy as np
import pytest

import attnprune_verify as apv
from attnprune_verify.audit.kernel.auditor import KernelAuditor
from attnprune_verify.audit.kernel.options import Options
from attnprune_verify.audit.kernel.problem.conventions import Conventions
from attnprune_verify.audit.kernel.problem.interactions import FACTORS, interaction, rows, within
from attnprune_verify.audit.kernel.problem.precision import precision_named
from attnprune_verify.audit.kernel.problem.regimes import regimes
from attnprune_verify.audit.kernel.problem.sample_factory import Maker
from attnprune_verify.audit.kernel.problem.scope import KernelScope, described
from attnprune_verify.audit.kernel.truth import bounds
from attnprune_verify.audit.kernel.truth.bounds import attention_errors
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.report.audit_findings import closing_sentence
from attnprune_verify.spec import parametrize_with_kernel_checks

TILES = {"n": {"multiple_of": 128}, "l": {"multiple_of": 128}, "m": (16, 32, 64, 128), "mv": "m"}
OF_A_CASE = ("*:values:plain", "*:values:more-keys", "*:values:together")
FEW = ("*:values:plain", "*:values:causal", "*:values:grouped-heads", "*:values:head-sizes")


def weights(q, k, causal, scale):
    s = q @ np.swapaxes(k, -1, -2) * q.dtype.type(q.shape[-1] ** -0.5 if scale is None else scale)
    s = np.where(np.tri(*s.shape[-2:], dtype=bool), s, -np.inf) if causal else s
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def gradients(q, k, v, do, causal, scale, factor=1.0):
    p = weights(q, k, causal, scale)
    dp = do @ np.swapaxes(v, -1, -2)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * q.dtype.type(q.shape[-1] ** -0.5 if scale is None else scale)
    return ds @ k, np.swapaxes(ds, -1, -2) @ q * q.dtype.type(factor), np.swapaxes(p, -1, -2) @ do


def demand(condition, message):
    if not condition:
        raise ValueError(message)


def tiled(q, k, v, *, causal=False, scale=None):
    demand(q.shape[2] % 128 == 0 == k.shape[2] % 128, "multiples of 128")
    demand(q.shape[3] in TILES["m"] and v.shape[3] == q.shape[3], "head size")
    demand(q.shape[1] == k.shape[1], "heads")
    return weights(q, k, causal, scale) @ v


def tiled_backward(q, k, v, do, *, causal=False, scale=None):
    tiled(q, k, v, causal=causal)
    return gradients(q, k, v, do, causal, scale)


def tiled_backward_of_causal(q, k, v, do, *, causal=False, scale=None):
    """As in a published tutorial: the gradient without causal is that of a causal kernel."""
    tiled(q, k, v)
    return gradients(q, k, v, do, True, scale)


def raising(q, k, v, *, causal=False, scale=None):
    demand(causal, "causal only")
    return weights(q, k, True, scale) @ v


def raising_backward(q, k, v, do, *, causal=False, scale=None):
    demand(causal, "causal only")
    return gradients(q, k, v, do, True, scale)


def ignoring(q, k, v):
    return weights(q, k, True, None) @ v


def ignoring_backward(q, k, v, do):
    return gradients(q, k, v, do, True, None)


def decoding(q, k, v, *, scale=None):
    demand(q.shape[2] == 1, "one query")
    return weights(q, k, False, scale) @ v


def of_wrong_keys(backward):
    def wrong(*arrays, **keywords):
        dq, dk, dv = backward(*arrays, **keywords)
        return dq, dk * dk.dtype.type(1.25), dv

    wrong.__signature__ = __import__("inspect").signature(backward)
    return wrong


def without_the_last(q, k, v, *, scale=None):
    last = k.shape[2] - (k.shape[2] > 32)
    return decoding(q, k[:, :, :last], v[:, :, :last], scale=scale)


def statuses(result):
    return {one.id: one.status for one in result.checks}


@pytest.mark.parametrize("sizes", [None, TILES], ids=["found", "declared"])
def test_a_kernel_of_whole_tiles_is_judged_forward_and_backward(sizes):
    verdict = apv.check_attention(tiled, backward=tiled_backward, only=FEW, sizes=sizes, names="never")
    assert verdict.outcome == "passed", verdict
    assert verdict.counts()["passed"] == 6 and not verdict.counts()["could_not_run"]
    assert {"plain", "causal", "backward", "m = 16 to 128"} <= set(verdict.coverage.judged)
    assert bool(verdict.coverage.declare) == (sizes is None)
    wrong = apv.check_attention(tiled, backward=tiled_backward_of_causal, only=FEW, sizes=sizes, names="never")
    assert statuses(wrong)["attention_backward:values:plain"] == "failed"
    assert statuses(wrong)["attention_backward:values:causal"] == "passed"


@pytest.mark.parametrize(("block", "n"), [(1, 128), pytest.param(128, 256, marks=pytest.mark.thorough)])
def test_a_gradient_that_is_causal_where_nothing_is_is_named(block, n):
    """As in Triton's tutorial of 2024 (triton#4541): weights of the whole softmax, keys after the query left out."""

    def backward(q, k, v, do, *, causal=False, scale=None):
        tiled(q, k, v)
        p = weights(q, k, causal, scale)
        dp = do @ np.swapaxes(v, -1, -2)
        mean = (p * dp).sum(-1, keepdims=True)
        at = np.arange(q.shape[2]) // block
        p = p * (at[:, None] >= at) if not causal else p
        ds = p * (dp - mean) * q.dtype.type(q.shape[-1] ** -0.5 if scale is None else scale)
        return ds @ k, np.swapaxes(ds, -1, -2) @ q, np.swapaxes(p, -1, -2) @ do

    sizes = {"n": (n,), "n=l": True, "m": (16,), "mv": "m", "group": 1}
    named = apv.check_attention(
        tiled,
        backward=backward,
        sizes=sizes,
        only=("attention_backward:values:plain", "attention_backward:values:causal"),
    )
    assert statuses(named)["attention_backward:values:causal"] == "passed"
    plain = next(one for one in named.checks if one.status == "failed")
    assert plain.diagnosis == ("gradient-of-causal",), plain.words


CASES = {
    "raising": (raising, raising_backward, "causal_only"),
    "ignoring": (ignoring, ignoring_backward, "causal_only"),
    "decoding": (decoding, None, "decode_only"),
}


@pytest.mark.parametrize("declared", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["found", "declared"])
@pytest.mark.parametrize("case", CASES)
def test_a_kernel_of_one_case_is_judged_in_it(case, declared):
    forward, backward, word = CASES[case]
    given = {"capabilities": (word,) if declared else None, "quick": True, "names": "never", "only": OF_A_CASE}
    verdict = apv.check_attention(forward, backward=backward, **given)
    assert verdict.outcome == "passed" and not verdict.counts()["could_not_run"], verdict
    assert verdict.coverage.declare == (() if declared else (f'CAPABILITIES = ("{word}",)',))
    assert statuses(verdict)["attention:values:together"] == "passed"
    if backward is None:
        wrong = apv.check_attention(without_the_last, **given)
    else:
        assert statuses(verdict)["attention_backward:values:together"] == "passed"
        wrong = apv.check_attention(forward, backward=of_wrong_keys(backward), **given)
        assert statuses(wrong)["attention:values:plain"] == "passed"
    assert wrong.outcome == "failed"


def test_declarations_that_nobody_can_mean_are_refused():
    for options, words in [
        ({"sizes": {"width": 3}}, "SIZES must name"),
        ({"sizes": {"n": 0}}, "n must be a size"),
        ({"sizes": {"n": {"multiple_of": 128, "most": 100}}}, "must allow a size"),
        ({"capabilities": ("causal_only", "never_causal")}, "both"),
        ({"layout": "bhmn"}, "LAYOUT must be one of"),
        ({"scale": "always"}, "SCALE must be one of"),
        ({"ignored": "block"}, "IGNORED must be a sequence"),
    ]:
        with pytest.raises(InvalidInstance, match=words):
            apv.check_attention(ignoring, **options)


def test_a_declared_size_that_is_refused_is_said():
    def narrow(q, k, v):
        demand(q.shape[3] <= 64, "at most 64 features")
        return weights(q, k, False, None) @ v

    verdict = apv.check_attention(narrow, sizes={"m": (16, 64, 128)}, only=("attention:values:head-sizes",))
    assert verdict.outcome == "incomplete" and "m=128" in verdict.checks[0].reason
    assert "which the declared sizes allow" in verdict.checks[0].reason
    assert verdict.coverage.declare[0].startswith('SIZES = {"m": (16, 64)')


def test_a_regime_without_instances_does_not_apply_in_haste():
    result = apv.run_kernel_audit(
        {"attention": tiled}, quick=True, sizes={**TILES, "n=l": True}, only=("attention:values:split-keys",)
    )
    assert [record.status for record in result.checks] == ["not_applicable"]


def test_an_assertion_without_words_is_told_by_its_line():
    def strict(q, k, v):
        raise AssertionError

    result = apv.run_kernel_audit({"attention": strict}, only=("attention:values:plain",), sizes={"n": (8, 16)})
    assert "AssertionError: at raise AssertionError" in result.checks[0].reason
    assert "1 checks could not run (attention raised AssertionError: at" in closing_sentence(result)


def test_without_a_size_that_is_taken_the_line_to_fill_is_printed():
    def never(q, k, v):
        raise ValueError("no")

    verdict = apv.check_attention(never, only=("attention:values:plain",))
    assert verdict.outcome == "incomplete" and verdict.coverage.declare[0].startswith('SIZES = {"n": ...')


def test_the_order_of_axes_that_a_kernel_takes_is_to_be_declared():
    def single(q, k, v):
        logits = q @ k.T * q.shape[-1] ** -0.5
        shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return (shares / shares.sum(axis=-1, keepdims=True)) @ v

    verdict = apv.check_attention(single, only=("attention:values:plain",))
    assert verdict.outcome == "incomplete" and verdict.coverage.declare == ('LAYOUT = "nm"',)
    assert apv.check_attention(single, layout="nm", quick=True).outcome == "passed"
    with KernelAuditor({"attention": single}, options=Options(only=("attention:values:plain",))) as auditor:
        assert auditor.coverage == auditor.coverage  # trying an order judges nothing


def test_a_kernel_with_another_order_of_axes_is_answered_with_the_declaration():
    def heads_third(q, k, v, causal=False):
        q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
        return (weights(q, k, causal, None) @ v).swapaxes(1, 2)

    only = ("attention:values:plain", "attention:values:causal", "attention:permuted", "attention:values:smallest")
    verdict = apv.check_attention(heads_third, only=only, names="all")
    failed = [record for record in verdict.checks if record.status == "failed"]
    assert len(failed) == 4 and {record.diagnosis for record in failed} == {("convention",)}
    assert all("declare LAYOUT = 'bnhm'" in record.words for record in failed)
    assert apv.check_attention(heads_third, only=only, layout="bnhm").outcome == "passed"


def test_a_flag_that_changes_nothing_is_named_by_what_it_always_does():
    def always(q, k, v, causal=True):
        return weights(q, k, True, None) @ v

    assert apv.check_attention(always, only=FEW).diagnosis == {"attention": ("mask-always-causal",)}


@pytest.mark.parametrize("layout", ["bnhm", "hnm", "nhm", "nm"])
def test_the_axes_of_a_declared_layout(layout):
    missing = 4 - len(layout)

    def turned(x):
        x = x[(None,) * missing]
        return x.swapaxes(1, 2) if "nh" in layout else x

    def back(x):
        x = x.swapaxes(1, 2) if "nh" in layout else x
        return x[(0,) * missing]

    def forward(q, k, v):
        demand(q.ndim == len(layout), "axes")
        return back(weights(turned(q), turned(k), False, None) @ turned(v))

    def backward(q, k, v, do):
        return tuple(map(back, gradients(*map(turned, (q, k, v, do)), False, None)))

    only = ("*:values:plain", "*:shape", "*:strides", "*:values:value-size")
    verdict = apv.check_attention(forward, backward=backward, layout=layout, only=only)
    assert verdict.outcome == "passed" and verdict.counts()["passed"] == 8, verdict
    assert apv.check_attention(forward, backward=backward, only=only).outcome != "passed"


def test_a_promoted_result_says_how_numpy_promotes():
    def promoted(q, k, v):
        return weights(q, k, False, float(1 / np.sqrt(q.shape[-1]))) @ v * np.sqrt(1)

    (record,) = apv.check_attention(promoted, only=("attention:dtype",)).checks
    assert record.diagnosis == ("wrong-dtype",) and "m ** 0.5" in record.reason
    assert "rng.integers" in record.snippet and record.snippet.endswith("print(o.shape, o.dtype)\n")


def test_a_scale_that_has_to_be_passed_is_passed():
    def scaled(q, k, v, sm_scale=1.0):
        return weights(q, k, False, sm_scale) @ v

    def needing(q, k, v, causal, sm_scale):
        return weights(q, k, causal, sm_scale) @ v

    only = ("*:values:plain", "*:values:scale")
    assert apv.check_attention(scaled, scale="required", only=only).outcome == "passed"
    assert apv.check_attention(needing, only=only).outcome == "passed"
    assert apv.check_attention(scaled, only=only, names="never").outcome == "failed"
    unscaled = apv.check_attention(lambda q, k, v, scale=9.0: weights(q, k, False, None) @ v, scale="none", quick=True)
    assert statuses(unscaled)["attention:values:scale"] == "not_applicable" and unscaled.outcome == "passed"


def test_a_flag_that_is_causal_by_default_is_told():
    def by_default(q, k, v, *, causal=True):
        return weights(q, k, causal, None) @ v

    assert apv.check_attention(by_default, only=("*:values:plain", "*:values:causal")).outcome == "passed"


def test_the_decorator_and_the_evaluator_take_declarations():
    evaluator = apv.AttentionEvaluator(sizes=TILES, only=("*:values:plain",), seed=0)
    assert evaluator.evaluate(tiled)["correctness"]
    assert {one.inputs["q"].shape[2] % 128 for one in evaluator.questions()} == {0}
    mark = parametrize_with_kernel_checks(tiled, sizes=TILES, only=("attention:values:plain",))
    mark.args[1][0].values[0]()


@pytest.mark.parametrize("words", [(), ("causal_only",), ("decode_only",)])
@pytest.mark.parametrize("sizes", [TILES, {"n=l": True, "m": 64, "heads": 8, "kv_heads": 2}, {"group": 1, "batch": 2}])
def test_every_sample_lies_in_the_scope(sizes, words):
    if "decode_only" in words:
        sizes = {name: size for name, size in sizes.items() if name not in ("n", "n=l")}
    scope = KernelScope.declared(sizes, words)
    samples = [sample for regime in regimes(0, "float32", scope).values() for sample in regime.samples]
    table = rows(frozenset(), 2, scope=scope)
    samples += [interaction(row, 0, "float32", place, scope=scope) for place, row in enumerate(table)]
    assert {why for why in map(scope.excludes, samples) if why} == set()
    assert len(table) > 10 and all(within(FACTORS, scope).values())


def test_sizes_are_described_as_they_were_seen():
    assert described((128, 256, 384), (4, 64, 129)).source() == {"multiple_of": 128, "least": 128}
    assert described((1, 7, 8), ()).source() == {}
    assert described((16, 17, 40), (8, 300)).source() == {"least": 16, "most": 40}
    assert described((16, 32, 64), (48, 8)).source() == (16, 32, 64)


def grouped(order):
    def attention(q, k, v, *, causal=False, return_lse=False, mask=None):
        heads, kv_heads = q.shape[1], k.shape[1]
        of = np.arange(heads) % kv_heads if order == "interleaved" else np.arange(heads) // (heads // kv_heads)
        s = q @ np.swapaxes(k[:, of], -1, -2) * q.dtype.type(q.shape[-1] ** -0.5)
        allowed = np.tri(*s.shape[-2:], dtype=bool) if causal else np.ones(s.shape[-2:], bool)
        allowed = allowed if mask is None else allowed & mask
        s = np.where(allowed, s, -np.inf)
        some = allowed.any(axis=-1, keepdims=True)
        top = np.where(some, s.max(-1, keepdims=True), 0)
        p = np.exp(s - top)
        total = np.where(some, p.sum(-1, keepdims=True), 1)
        o = (p / total @ v[:, of]).astype(q.dtype)
        lse = np.where(some, top + np.log(total), np.inf)[..., 0].astype(q.dtype)
        return (o, lse) if return_lse else o

    return attention


def test_interleaved_groups_and_a_positive_infinity_of_empty_rows_are_declared_or_named():
    only = ("*:values:grouped-heads", "*:values:empty-rows", "*:values:log-sum-exp")
    meant = {"groups": "interleaved", "empty_lse": "+inf"}
    right = apv.check_attention(grouped("interleaved"), conventions=meant, only=only)
    assert right.outcome == "passed" and right.counts()["passed"] == 3, right
    for order, said in (("interleaved", {"empty_lse": "+inf"}), ("consecutive", meant)):
        wrong = apv.check_attention(grouped(order), conventions=said, only=only, names="all")
        found = {one.name: one for one in wrong.checks if one.status == "failed"}["values:grouped-heads"]
        assert "convention" in found.diagnosis and "declare groups=" in found.words
    wrong = apv.check_attention(grouped("interleaved"), conventions={"groups": "interleaved"}, only=only, names="all")
    assert {one.name for one in wrong.checks if one.status == "failed"} == {"values:empty-rows"}
    assert any("declare empty_lse='+inf'" in record.words for record in wrong.checks)


def test_a_snippet_calls_the_kernel_by_its_own_names_and_axes(tmp_path):
    (tmp_path / "spelled.py").write_text(
        "import numpy as np\n"
        "LAYOUT = 'bnhm'\n"
        "def attention(query, key, value, is_causal=True, sm_scale=None):\n"
        "    q, k, v = (x.swapaxes(1, 2) for x in (query, key, value))\n"
        "    s = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if sm_scale is None else sm_scale)\n"
        "    s = np.where(np.tri(*s.shape[-2:], -1 if is_causal else 999, dtype=bool), s, -30.0)\n"
        "    p = np.exp(s - s.max(-1, keepdims=True))\n"
        "    return (p / p.sum(-1, keepdims=True) @ v).swapaxes(1, 2).astype(query.dtype)\n"
    )
    wrong = apv.run_kernel_audit(str(tmp_path / "spelled.py"), only="*:values:causal", confine="off")
    snippet = wrong.checks[0].snippet
    assert "is_causal=True" in snippet and "swapaxes" in snippet
    printed = subprocess.run([sys.executable, "-c", snippet], capture_output=True, text=True, check=True).stdout
    assert "returned" in printed and "expected" in printed


def test_blocks_of_interleaved_heads_are_bounded_as_the_whole(monkeypatch):
    made = Maker(0, precision_named("float32")).make("interleaved", 6, 8, heads=6, kv_heads=2)
    sample = made.changed(conventions=Conventions.declared({"groups": "interleaved"}))
    whole = attention_errors(sample).worst
    monkeypatch.setattr(bounds, "_BLOCK", 20)
    parts = attention_errors(sample.changed()).worst
    order = [0, 2, 4, 1, 3, 5]  # the same heads, those of a key head side by side
    beside = attention_errors(made.changed(q=made.q[:, order], do=made.do[:, order])).worst
    for name in ("o", "dq", "dk", "dv"):
        assert np.allclose(whole[name], parts[name], rtol=1e-12)
        own = beside[name] if name in ("dk", "dv") else beside[name][:, np.argsort(order)]
        assert np.allclose(whole[name], own, rtol=1e-12)


@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.parametrize("no_limit", [-1, None])
def test_a_window_of_two_sides_without_a_limit_on_the_right(no_limit, wrong):
    def windowed(q, k, v, causal=False, window_size=(no_limit, no_limit)):
        left, right = (
            limit if limit is not None and (wrong or limit >= 0) else k.shape[-2] + q.shape[-2] for limit in window_size
        )
        if window_size == (no_limit, no_limit):
            left = right = k.shape[-2] + q.shape[-2]
        ahead = np.arange(k.shape[-2]) - np.arange(q.shape[-2])[:, None]
        allowed = (ahead <= min(right, 0 if causal else right)) & (-ahead <= left)
        logits = np.where(allowed, q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5, -np.inf)
        top = np.where(allowed.any(axis=-1, keepdims=True), logits.max(axis=-1, keepdims=True), 0.0)
        shares = np.exp(logits - top)
        total = shares.sum(axis=-1, keepdims=True)
        return (shares / np.where(total > 0, total, 1)).astype(q.dtype) @ v

    verdict = apv.check_attention(
        windowed, only=("attention:values:window", "attention:values:causal"), dtype="float64"
    )
    assert verdict.outcome == ("failed" if wrong and no_limit else "passed"), verdict


SEQUENCES = """
import numpy as np

def parts(q, k, v, cu_seqlens_q, cu_seqlens_k, causal):
    for a, b, c, d in zip(cu_seqlens_q, cu_seqlens_q[1:], cu_seqlens_k, cu_seqlens_k[1:]):
        group = q.shape[1] // k.shape[1]
        q1, k1, v1 = q[a:b].swapaxes(0, 1), *(np.repeat(x[c:d].swapaxes(0, 1), group, 0) for x in (k, v))
        s = q1 @ k1.swapaxes(1, 2) * q.dtype.type(q.shape[2] ** -0.5)
        s = np.where(np.tri(b - a, d - c, 0, dtype=bool), s, -np.inf) if causal else s
        top = s.max(-1, keepdims=True, initial=-np.inf)
        e = np.exp(s - np.where(top > -np.inf, top, 0))
        total = e.sum(-1, keepdims=True)
        p = e / np.where(total > 0, total, 1)
        lse = np.where(total > 0, top + np.log(np.where(total > 0, total, 1)), -np.inf)[..., 0]
        yield slice(a, b), slice(c, d), q1, k1, v1, p, lse

def attention(q, k, v, cu_seqlens_q, cu_seqlens_k, causal=False, return_lse=False):
    o, lse = np.zeros((*q.shape[:2], v.shape[2]), q.dtype), np.zeros((q.shape[1], len(q)), q.dtype)
    for rows, _, _, _, v1, p, log in parts(q, k, v, cu_seqlens_q, cu_seqlens_k, causal):
        o[rows], lse[:, rows] = (p @ v1).swapaxes(0, 1), log
    return (o, lse) if return_lse else o

def attention_backward(q, k, v, do, cu_seqlens_q, cu_seqlens_k, causal=False, dlse=None):
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for rows, keys, q1, k1, v1, p, _ in parts(q, k, v, cu_seqlens_q, cu_seqlens_k, causal):
        do1 = do[rows].swapaxes(0, 1)
        dp = do1 @ v1.swapaxes(1, 2)
        mean = (p * dp).sum(-1, keepdims=True) - (0 if dlse is None else dlse[:, rows, None])
        ds = p * (dp - mean) * q.dtype.type(q.shape[2] ** -0.5)
        dq[rows] = (ds @ k1).swapaxes(0, 1)
        for to, x in ((dk, ds.swapaxes(1, 2) @ q1), (dv, p.swapaxes(1, 2) @ do1)):
            to[keys] = x.reshape(k.shape[1], q.shape[1] // k.shape[1], *x.shape[1:]).sum(1).swapaxes(0, 1)
    return dq, dk, dv
"""
"""A kernel that takes packed sequences only: cu_seqlens_q and cu_seqlens_k have no default."""
PACKED = ("*:values:plain", "*:values:grouped-heads", "*:values:causal", "*:values:packed*", "*:values:log-sum-exp*")


def of_sequences(folder, source=SEQUENCES):
    (folder / "sequences.py").write_text(source, encoding="utf-8")
    return str(folder / "sequences.py")


def test_a_kernel_of_packed_sequences_alone_is_judged_as_others_are(tmp_path):
    right = apv.run_kernel_audit(of_sequences(tmp_path), only=PACKED, names="never")
    assert right.outcome == "passed" and right.counts()["passed"] == 14, right
    assert {"grouped heads", "packed", "dlse", "backward"} <= set(right.coverage.judged)


def test_a_wrong_kernel_of_packed_sequences_alone_fails_by_name(tmp_path):
    path = of_sequences(tmp_path, SEQUENCES.replace("d - c, 0, dtype", "d - c, -1, dtype"))
    wrong = apv.run_kernel_audit(path, only="attention:values:causal", confine="off")
    assert wrong.outcome == "failed" and wrong.checks[0].diagnosis == ("causal-off-by-one",), wrong
    snippet = wrong.checks[0].snippet
    assert "cu_seqlens_q=np.array([0, " in snippet
    printed = subprocess.run([sys.executable, "-c", snippet], capture_output=True, text=True, check=True).stdout
    assert "returned" in printed and "expected" in printed


def test_wrong_offsets_of_packed_sequences_alone_have_one_name(tmp_path):
    path = of_sequences(tmp_path, SEQUENCES.replace("yield slice(a, b)", "yield slice(a // 8 * 8, a // 8 * 8 + b - a)"))
    wrong = apv.run_kernel_audit(path, only=("attention:values:plain", "attention:values:packed"))
    assert [check.diagnosis for check in wrong.checks] == [("varlen-offset",)] * 2, wrong


def test_a_kernel_of_one_query_is_asked_many_keys_in_all_that_it_takes():
    scope = KernelScope.declared({}, ("decode_only",))
    asked = rows(frozenset(), 3, scope=scope)
    shapes = [interaction(row, 0, "float32", place, scope=scope).shape for place, row in enumerate(asked)]
    assert max(length for *_, length, _, _ in shapes) >= 4096 and {n for *_, n, _, _, _ in shapes} == {1}
    assert any(batch > 1 and length >= 500 for batch, *_, length, _, _ in shapes)
    for name in ("plain", "grouped heads", "head sizes"):
        assert any(sample.shape[4] > 1 for sample in regimes(0, "float32", scope)[name].samples), name
