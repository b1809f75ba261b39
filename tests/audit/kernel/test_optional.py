"""Optional parts and conventions: right kernels pass, wrong ones fail by name, declarations are read and verified."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from attnprune_verify.audit.kernel.auditor import KernelAuditor
from attnprune_verify.audit.kernel.checks import kernel_checks
from attnprune_verify.audit.kernel.problem.conventions import ORDER, Conventions
from attnprune_verify.audit.kernel.problem.sample import BACKWARD, FORWARD
from attnprune_verify.audit.kernel.run import run_kernel_audit
from attnprune_verify.audit.mistakes import SENTENCES
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.report.audit_findings import closing_sentence

_spec = importlib.util.spec_from_file_location("optional_kill_matrix", Path(__file__).with_name("kill_matrix.py"))
kill_matrix = importlib.util.module_from_spec(_spec)
sys.modules["optional_kill_matrix"] = kill_matrix
_spec.loader.exec_module(kill_matrix)
BASE = Path(__file__).parent / "wrong" / "parts.py"
WRONG = {wrong.id: wrong for wrong in kill_matrix.catalogue("zoo", "more", "fresh")}
CHECKS = {check.id: check for check in kernel_checks()}


def written(tmp_path, source):
    path = tmp_path / "kernel.py"
    path.write_text(source, encoding="utf-8")
    return str(path)


def records(target, function, *names):
    """A few checks of a kernel, without all the others."""
    with KernelAuditor(target) as auditor:
        return {name: auditor.record(CHECKS[f"{function}:values:{name}"]) for name in names}


def thorough(*values):
    return pytest.param(*values, marks=pytest.mark.thorough)


@pytest.mark.parametrize(
    ("id", "check"),
    [
        ("log sum exp in base 2", "log-sum-exp"),
        ("log sum exp without the maximum", "log-sum-exp"),
        ("row with nothing allowed is nan", "empty-rows"),
        ("nan at a forbidden key leaks", "padding"),
        thorough("causal aligned bottom-right", "causal-more-keys"),
        thorough("mask per sample is that of the first sample", "mask-ranks"),
        ("mask with one row is read as one column", "mask-ranks"),
        ("no gradient of the bias", "bias-gradient"),
        thorough("gradient of the sinks has the wrong sign", "sinks-gradient"),
        thorough("dropout on the wrong factor in backward", "dropout"),
        thorough("packed keys start where the queries do", "packed"),
        ("packed backward without the cap", "packed"),
    ],
)
def test_a_wrong_part_fails_by_name(id, check, tmp_path):
    wrong = WRONG[id]
    (record,) = records(written(tmp_path, wrong.source()), wrong.function, check).values()
    assert record.status == "failed"
    assert set(wrong.names) <= set(record.diagnosis)
    if record.snippet is not None and "packed" not in record.instance:
        kept = []
        sys.modules.pop("kernel", None)  # of another test
        with np.errstate(all="ignore"):  # the kernel divides 0 by 0
            exec(record.snippet, {"print": lambda *shown: kept.append(shown)})
        assert kept and all(one[3] != one[5] for one in kept)


def test_the_reason_names_the_declaration_and_with_it_the_kernel_is_right(tmp_path):
    source = WRONG["causal aligned bottom-right"].source()
    (record,) = records(written(tmp_path, source), FORWARD, "causal-more-keys").values()
    assert "declare causal_alignment='bottom-right'" in record.words
    declared = source.replace('"causal_alignment": "top-left"', '"causal_alignment": "bottom-right"')
    (record,) = records(written(tmp_path, declared), FORWARD, "causal-more-keys").values()
    assert record.status == "passed"
    right = BASE.read_text(encoding="utf-8").replace(
        '"causal_alignment": "top-left"', '"causal_alignment": "bottom-right"'
    )
    (record,) = records(written(tmp_path, right), FORWARD, "causal-more-keys").values()
    assert record.status == "failed" and "convention" in record.diagnosis  # what is declared is verified


@pytest.mark.parametrize(
    ("said", "message"),
    [({"causal": "left"}, "a convention must be one of"), ({"lse_base": 2}, "lse_base must be 'e' or '2'; got 2"),
     ({"order": ("mask",)}, "order must be a permutation"), ({"window_inclusive": 1}, "window_inclusive must be")],
)  # fmt: skip
def test_a_declaration_that_means_nothing_is_refused(said, message, tmp_path):
    with pytest.raises(InvalidInstance, match=message):
        Conventions.declared(said)
    with pytest.raises(InvalidInstance, match=message):
        run_kernel_audit(written(tmp_path, f"CONVENTIONS = {said!r}\ndef attention(q, k, v):\n    return v\n"))


def test_an_order_may_be_a_list_and_capabilities_have_names(tmp_path):
    assert Conventions.declared({"order": list(ORDER)}) == Conventions()
    with pytest.raises(InvalidInstance, match="CAPABILITIES must be of"):
        run_kernel_audit(written(tmp_path, "CAPABILITIES = ['speed']\ndef attention(q, k, v):\n    return v\n"))


PLAIN = """
import numpy as np

def attention(q, k, v, *, causal=False, mask=None):
    s = (q @ np.swapaxes(k, -1, -2)) * q.dtype.type(q.shape[-1] ** -0.5)
    s = np.where(np.tri(*s.shape[2:], dtype=bool), s, -np.inf) if causal else s
    s = s if mask is None else np.where(mask, s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v
"""


def test_what_is_not_promised_is_not_judged(tmp_path):
    """nan in rows with nothing allowed, and additive masks, of a kernel that is only promised (n, l) masks."""
    found = records(
        written(tmp_path, PLAIN), FORWARD, "empty-rows", "padding", "float-masks", "log-sum-exp", "mask-ranks"
    )
    assert [found[name].status for name in ("empty-rows", "padding", "float-masks", "log-sum-exp")] == [
        "not_applicable"
    ] * 4
    assert found["mask-ranks"].status == "passed"  # NumPy broadcasts them
    declared = written(tmp_path, "CONVENTIONS = {'empty_rows': 'zero'}\n" + PLAIN)
    (record,) = records(declared, FORWARD, "empty-rows").values()
    assert record.status == "failed" and "empty_rows='undefined'" in record.words


def test_torch_differentiates_bias_and_sinks(tmp_path):
    pytest.importorskip("torch")
    right = BASE.with_name("torch_parts.py")
    found = records(str(right), BACKWARD, "bias-gradient", "sinks-gradient", "dropout", "empty-rows")
    assert {name: one.status for name, one in found.items()} == dict.fromkeys(found, "passed")
    wrong = right.read_text(encoding="utf-8").replace("sinks.to(sums)[:", "sinks.detach().to(sums)[:")
    (record,) = records(written(tmp_path, wrong), BACKWARD, "sinks-gradient").values()
    assert record.status == "failed" and record.diagnosis == ("sink-gradient",)


@pytest.mark.parametrize(
    ("edit", "declared", "status"),
    [
        thorough("lse", False, "passed"),
        ("2 * lse.detach() - lse", False, "failed"),
        thorough("lse.detach()", False, "not_applicable"),
        ("lse.detach() + 0 * lse", False, "not_applicable"),
        thorough("lse.detach() + 0 * lse", True, "failed"),
        ("lse.detach()", True, "failed"),  # the snippet leaves out what needs no gradient
        ("lse / 0.6931471805599453", "2", "passed"),  # of the logarithm in base 2, as it is returned
    ],
)
def test_a_cotangent_of_log_sum_exp_that_autodiff_lets_through_is_judged(edit, declared, status, tmp_path):
    pytest.importorskip("torch")
    source = BASE.with_name("torch_parts.py").read_text(encoding="utf-8")
    source = source.replace("    p = torch.softmax", f"    lse = {edit}\n    p = torch.softmax")
    source = source.replace('("mask_rank_3"', '("dlse", "mask_rank_3"') if declared else source
    source += "\nCONVENTIONS = {'lse_base': '2'}\n" if declared == "2" else ""
    (record,) = records(written(tmp_path, source), BACKWARD, "log-sum-exp-gradient").values()
    assert record.status == status
    if status == "failed":
        assert record.diagnosis == ("lse-gradient",)
        kept = []
        sys.modules.pop("kernel", None)  # of another test
        exec(record.snippet, {"print": lambda *shown: kept.append(shown)})
        assert kept and all(one[3] != one[5] for one in kept)
    if status == "not_applicable":
        assert "declare dlse" in record.reason


def misread(tmp_path, read, declared=""):
    """The plain kernel, of masks of rank 4 reading a part alone."""
    edited = PLAIN.replace(
        "mask is None else", f"mask is None else np.where({read}, s, -np.inf) if mask.ndim == 4 else"
    )
    return written(tmp_path, declared + edited)


def test_a_kernel_that_reads_masks_of_heads_but_not_of_samples_is_wrong(tmp_path):
    """Nothing is declared: one that reads neither was written for (n, l); masks of rank 3 are read rightly."""
    for read, status in (("mask[:1]", "failed"), ("mask[:1, :1]", "passed")):
        (record,) = records(misread(tmp_path, read), FORWARD, "mask-ranks").values()
        assert record.status == status, record.reason


def test_a_kernel_that_reads_full_masks_rightly_and_broadcast_ones_of_the_first_sample_is_wrong(tmp_path):
    read = "np.concatenate([mask, *[np.ones_like(mask)] * (len(s) - len(mask))])"
    (record,) = records(misread(tmp_path, read), FORWARD, "mask-ranks").values()
    assert record.status == "failed", record.reason


@pytest.mark.parametrize(("read", "name"), [("mask[:, :1]", "mask_per_sample"), ("mask[:1]", "mask_per_head")])
def test_masks_that_differ_along_one_axis_are_declared(read, name, tmp_path):
    (record,) = records(misread(tmp_path, read), FORWARD, "mask-ranks").values()
    assert record.status == "failed" and f"declare {name} in CAPABILITIES if that is meant" in record.reason
    declared = f"CAPABILITIES = ({name!r},)\n"
    (record,) = records(misread(tmp_path, read, declared), FORWARD, "mask-ranks").values()
    assert record.status == "passed" and f"{name} is declared" in record.reason
    (record,) = records(misread(tmp_path, "mask[:1, :1]", declared), FORWARD, "mask-ranks").values()
    assert record.status == "failed" and "declare" not in record.reason  # what is declared is verified


@pytest.mark.parametrize("seed", [0, *map(thorough, range(1, 6))])
def test_masks_of_samples_alone_are_read_whatever_the_seed(seed, tmp_path):
    with KernelAuditor(misread(tmp_path, "mask[:, :1]"), seed=seed) as auditor:
        assert auditor.record(CHECKS["attention:values:mask-ranks"]).status == "failed"


def test_a_log_sum_exp_that_a_checkpoint_returns_has_its_cotangent(tmp_path):
    """autograd.grad is refused there: the results are pulled back by .backward, all with their own cotangents."""
    pytest.importorskip("torch")
    source = BASE.with_name("torch_parts.py").read_text(encoding="utf-8")
    source = source.replace('("mask_rank_3"', '("dlse", "mask_rank_3"').replace("def attention(", "def attend(")
    source += """

def attention(q, k, v, *, causal=False, scale=None, mask=None, return_lse=False):
    def run(q, k, v):
        return attend(q, k, v, causal=causal, scale=scale, mask=mask, return_lse=return_lse)

    return torch.utils.checkpoint.checkpoint(run, q, k, v, use_reentrant=True)
"""
    source = source.replace("import torch\n", "import torch\nimport torch.utils.checkpoint\n", 1)
    found = records(written(tmp_path, source), BACKWARD, "log-sum-exp-gradient", "plain")
    assert {name: one.status for name, one in found.items()} == dict.fromkeys(found, "passed")


UNORDERED = """

_SUMMED, _CALLS = attention, []


class Unordered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        _CALLS.append(0)  # stands for atomic additions, whose order is another in every call
        return gradient * (1 + len(_CALLS) % 5 * torch.finfo(gradient.dtype).eps)


def attention(q, k, v, *, causal=False, scale=None, mask=None, return_lse=False):
    found = _SUMMED(*map(Unordered.apply, (q, k, v)), causal=causal, scale=scale, mask=mask, return_lse=return_lse)
    return (found[0], LSE) if return_lse else found
"""


@pytest.mark.parametrize(("lse", "status"), [("found[1].detach()", "not_applicable"), thorough("found[1]", "passed")])
def test_sums_in_any_order_are_no_gradient_of_log_sum_exp(lse, status, tmp_path):
    pytest.importorskip("torch")
    source = BASE.with_name("torch_parts.py").read_text(encoding="utf-8") + UNORDERED.replace("LSE", lse)
    (record,) = records(written(tmp_path, source), BACKWARD, "log-sum-exp-gradient").values()
    assert record.status == status


def test_every_wrong_optional_part_is_an_edit_of_a_right_kernel_and_has_a_name():
    for wrong in WRONG.values():
        compile(wrong.source(), wrong.id, "exec")
        assert set(wrong.names) <= set(SENTENCES)


def test_the_page_of_bugs_that_happened_lists_every_emulation():
    page = kill_matrix.BUGS.read_text(encoding="utf-8")
    zoo = kill_matrix.catalogue("zoo")
    assert all(wrong.issue is not None and f"| {wrong.issue[0]} |" in page and wrong.id in page for wrong in zoo)
    assert f"**{len(zoo)} of {len(zoo)} fail" in page


@pytest.mark.thorough(share=1 / 12)
@pytest.mark.parametrize("slice_", range(24))  # chosen: two minutes each, for workers to share
def test_every_bug_that_happened_is_found_and_named(slice_, tmp_path):
    there = [wrong for wrong in WRONG.values() if wrong.needs is None or importlib.util.find_spec(wrong.needs)]
    survivors, missed, run = [], [], there[slice_::24]
    for wrong in run:
        result = kill_matrix.audited(wrong, tmp_path, quick=True)
        survivors += [wrong.id] * (not kill_matrix.killers(result, wrong.function))
        missed += [wrong.id] * (not set(wrong.names) <= set(kill_matrix.diagnoses(result, wrong.function)))
    assert survivors == []
    assert len(missed) <= 0.2 * len(run), missed


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_a_right_kernel_with_every_optional_part_passes(dtype):
    pytest.importorskip("ml_dtypes")
    result = run_kernel_audit(str(BASE), dtype)
    assert [(one.id, one.reason) for one in result.checks if one.status in ("failed", "could_not_run")] == []
    assert result.outcome == "passed"
    asked = [one for one in result.checks if not one.id.endswith(":rounding")]  # that is for 16-bit types
    assert all(one.status != "not_applicable" for one in asked)
    assert {BACKWARD, FORWARD} == {one.function for one in result.checks}


def test_a_kernel_without_a_backward_pass_is_said_to_have_none():
    result = run_kernel_audit(str(BASE.parents[4] / "examples" / "off_by_one.py"), quick=True, only="*:values:plain")
    assert closing_sentence(result).startswith("The kernel has no backward pass. ")


@pytest.mark.thorough
def test_a_backward_pass_that_refuses_most_keywords_is_said_first(tmp_path):
    """A right one of a kernel with every part; the run passes, and begins with what it does not say."""
    source = BASE.read_text(encoding="utf-8").replace("def attention_backward(", "def _backward(")
    source += "\n\ndef attention_backward(q, k, v, do):\n    return _backward(q, k, v, do)\n"
    result = run_kernel_audit(written(tmp_path, source), quick=True)
    assert result.outcome == "passed"
    assert closing_sentence(result).startswith("The backward pass was judged without causal, mask, scale, ")


RIGHT = Path(__file__).parents[1] / "unseen" / "right"


def test_what_arrays_broadcast_where_others_are_refused_is_left_open(tmp_path):
    """A single key head by NumPy's rules is no support of groups; where groups are taken, its gradient is judged."""
    source = (RIGHT / "kernel_einsum_by_heads.py").read_text(encoding="utf-8")
    found = records(written(tmp_path, source), BACKWARD, "grouped-heads", "shape-576")
    assert {record.status for record in found.values()} == {"not_applicable"}
    repeated = "    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))\n"
    grouped = source.replace("    scale = q.shape", repeated + "    scale = q.shape")
    assert grouped != source
    found = records(written(tmp_path, grouped), BACKWARD, "grouped-heads", "shape-576")
    assert {record.status for record in found.values()} == {"failed"}


def test_one_causal_query_is_left_open_where_others_must_be_as_many_as_keys(tmp_path):
    source = (RIGHT / "kernel_square_mask.py").read_text(encoding="utf-8")
    names = ("causal-more-keys", "log-sum-exp-gradient")
    assert "failed" not in {one.status for one in records(written(tmp_path, source), FORWARD, *names).values()}
    declared = f"{source}\nCONVENTIONS = {{'causal_alignment': 'top-left'}}\n"
    assert "failed" in {one.status for one in records(written(tmp_path, declared), FORWARD, *names).values()}
    oblong = source.replace("np.tri(q.shape[2],", "np.tri(q.shape[2], k.shape[2], k.shape[2] > q.shape[2],")
    assert "failed" in {one.status for one in records(written(tmp_path, oblong), FORWARD, *names).values()}


def test_two_mistakes_keep_their_names_beside_other_parts(tmp_path):
    source = BASE.read_text(encoding="utf-8").replace("allowed = allowed & mask", "allowed = allowed & ~mask")
    source = source.replace("< window", "< window - 1")
    names = ("mask", "window", "log-sum-exp", "sinks", "packed")
    inverted, narrow = {"mask-inverted"}, {"window-off-by-one"}
    with KernelAuditor(written(tmp_path, source)) as auditor:
        for function in (FORWARD, BACKWARD):
            found = [{*auditor.record(CHECKS[f"{function}:values:{name}"]).diagnosis} for name in names]
            if function == FORWARD:
                assert found == [inverted, narrow, inverted | narrow, inverted | narrow, narrow]
            else:  # gradients are those of the wrong forward pass
                assert found[:3] == [inverted, narrow, inverted | narrow] and found[4] == narrow
