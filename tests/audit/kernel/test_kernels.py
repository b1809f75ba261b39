"""Right kernels pass in every precision they promise; wrong ones fail, by their name."""

import importlib.util
import lzma
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from attnprune_verify.audit.kernel.checks import kernel_checks
from attnprune_verify.audit.kernel.process.bridge import BACKWARD, FORWARD
from attnprune_verify.audit.kernel.run import run_kernel_audit
from attnprune_verify.audit.mistakes import SENTENCES
from attnprune_verify.errors import InvalidInstance

_spec = importlib.util.spec_from_file_location("kernel_kill_matrix", Path(__file__).with_name("kill_matrix.py"))
kill_matrix = importlib.util.module_from_spec(_spec)
sys.modules["kernel_kill_matrix"] = kill_matrix
_spec.loader.exec_module(kill_matrix)
WRONG = {wrong.id: wrong for wrong in kill_matrix.catalogue()}
BASES = Path(__file__).parent / "wrong"

CONTRACT = (
    "zero-output constant-output missing-scale logit-scale wrong-softmax-axis unstable-exp missing-rescale "
    "last-block-dropped denominator-epsilon causal-off-by-one mask-ignored mask-inverted mask-after-softmax "
    "mask-finite heads-swapped gqa-gradient-not-summed missing-softmax-correction scale-missing-in-gradient "
    "gradient-sign gradient-transposed gradient-of-unmasked low-precision nondeterministic mutates-input "
    "wrong-shape wrong-dtype cached unknown "
).split()


def quickly(target, *options, **named):
    """The audit with features in pairs only, for what is not about their triples."""
    return run_kernel_audit(target, *options, quick=True, **named)


def trouble(result):
    return [(one.id, one.reason) for one in result.checks if one.status in ("failed", "could_not_run")]


def needs(base, dtype="float32"):
    framework = base.partition("_")[0]
    if framework in ("torch", "jax"):
        pytest.importorskip(framework)
    elif dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")


def test_every_contract_id_has_a_sentence_and_a_wrong_kernel():
    assert set(CONTRACT) <= set(SENTENCES)
    further = kill_matrix.catalogue("more")
    assert set(CONTRACT) <= {name for wrong in (*WRONG.values(), *further) for name in wrong.names}
    assert {name for wrong in WRONG.values() for name in wrong.names} <= set(SENTENCES)
    assert len(WRONG) >= 60
    for wrong in WRONG.values():
        compile(wrong.source(), wrong.id, "exec")


def test_ids_are_unique_and_both_functions_have_a_required_check():
    checks = kernel_checks()
    assert len({check.id for check in checks}) == len(checks)
    assert {check.function for check in checks if check.required} == {FORWARD, BACKWARD}


@pytest.mark.parametrize(("base", "dtype"), [("textbook", "float32"), ("torch_module", "float32")])
def test_right_kernels_pass(base, dtype):
    needs(base, dtype)
    result = quickly(str(BASES / f"{base}.py"), dtype)
    assert trouble(result) == []
    assert result.outcome == "passed" and len(result.checks) == result.expected_checks


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("base", ["textbook", "online", "torch_module", "torch_function", "jax_module"])
def test_right_kernels_pass_in_every_precision_and_for_other_seeds(base, dtype):
    needs(base, dtype)
    for seed in (0,) if base.startswith("jax") else (0, 1):
        assert trouble(quickly(str(BASES / f"{base}.py"), dtype, seed)) == []


@pytest.mark.parametrize(("id", "regime"), [("no scale", "plain"), ("no correction", "causal"),
                                            ("h % kv_heads", "grouped-heads")])  # fmt: skip
def test_wrong_kernels_fail_by_name(id, regime, tmp_path):
    wrong = WRONG[id]
    result = kill_matrix.audited(wrong, tmp_path, quick=True, only=f"{wrong.function}:values:{regime}")
    assert result.outcome == "failed" and result.exit_code == 1
    assert wrong.names[0] in result.diagnosis[wrong.function]  # behind the convention that would make it right
    failed = [one for one in result.checks if one.status == "failed" and one.function == wrong.function]
    assert "Smallest:" in failed[0].reason and failed[0].snippet
    kept = []
    exec(failed[0].snippet, {"print": lambda *shown: kept.append(shown)})
    assert kept and not any(np.isclose(one[3], one[5], rtol=1e-3, atol=0) for one in kept)


@pytest.mark.thorough(share=1 / 12)
@pytest.mark.parametrize("slice_", range(16))  # chosen: a minute each, for workers to share
def test_the_whole_kill_matrix(slice_, tmp_path):
    page = lzma.decompress(kill_matrix.PAGE.read_bytes()).decode()
    survivors, missed, run = [], [], 0
    for wrong in list(WRONG.values())[slice_::16]:
        assert f"| {wrong.id} | {wrong.base} | {wrong.dtype} |" in page
        if wrong.needs is not None and importlib.util.find_spec(wrong.needs) is None:
            continue
        result = kill_matrix.audited(wrong, tmp_path)
        run += 1
        if not kill_matrix.killers(result, wrong.function):
            survivors.append(wrong.id)
        if not set(wrong.names) <= set(kill_matrix.diagnoses(result, wrong.function)):
            missed.append(wrong.id)
    assert survivors == []
    assert len(missed) <= max(1, 0.1 * run), missed


@pytest.mark.thorough(share=1 / 5)
@pytest.mark.parametrize("kind", kill_matrix.KINDS)
def test_the_second_half_of_the_kill_matrix(kind):
    """Wrong merges, lists, pages, kernels of eight bits and steps: all killed, under their names, as the page says."""
    pytest.importorskip("ml_dtypes")
    page = lzma.decompress(kill_matrix.PAGE.read_bytes()).decode().partition(kill_matrix.MORE)[2]
    judged = kill_matrix.judged_more(kind)
    assert [program.id for program, name, result in judged if (name,) not in result.diagnosis.values()] == []
    for table in kill_matrix.render_more(judged).partition(" killed; ")[2].split("\n## ")[1:]:
        assert table.strip() in page


def test_the_page_has_every_wrong_program():
    programs = pytest.importorskip("benchmarks.bank.programs")
    page = lzma.decompress(kill_matrix.PAGE.read_bytes()).decode().partition(kill_matrix.MORE)[2]
    rows = [line.split(" | ")[0][2:] for line in page.splitlines() if line.startswith("| ")]
    wrong = programs.wrong_functions()
    assert sorted([*[one.id for one, _ in wrong], *["wrong program"] * page.count("wrong program |")]) == sorted(rows)
    assert f"**{len(wrong)} of {len(wrong)} killed; the diagnosis names {len(wrong)}.**" in page


FORWARD_ONLY = """
import numpy as np

def attention(q, k, v, *, scale=None):
    s = (q @ np.swapaxes(k, -1, -2)) * q.dtype.type(q.shape[-1] ** -0.5 if scale is None else scale)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v
"""


def kernel(tmp_path, source):
    path = tmp_path / "kernel.py"
    path.write_text(textwrap.dedent(source), encoding="utf-8")
    return str(path)


def test_what_a_kernel_refuses_is_not_applicable_and_said_once(tmp_path):
    result = quickly(kernel(tmp_path, FORWARD_ONLY))
    assert trouble(result) == [] and result.outcome == "passed"
    status = {one.id: (one.status, one.reason) for one in result.checks}
    assert status["attention:values:causal"][0] == "not_applicable"
    assert "causal" in status["attention:values:causal"][1]
    assert all(one.status == "not_applicable" for one in result.checks if one.function == BACKWARD)
    assert "causal" in result.notes[FORWARD] and "kv_heads < heads" in result.notes[FORWARD]


def test_modifiers_are_judged_where_a_kernel_names_them(tmp_path):
    source = FORWARD_ONLY.replace("scale=None)", "scale=None, softcap=None)").replace(
        "    p = np", "    if softcap:\n        s = softcap * np.tanh(s / softcap)\n    p = np"
    )
    some = ("attention:values:softcap", "attention:values:window")
    status = {one.name: one.status for one in quickly(kernel(tmp_path, source), only=some).checks}
    assert status == {"values:softcap": "passed", "values:window": "not_applicable"}
    wrong = source.replace("softcap * np.tanh(s / softcap)", "s")
    assert quickly(kernel(tmp_path, wrong), only=some).diagnosis == {FORWARD: ("modifier-ignored",)}


def test_a_plain_case_that_raises_is_incomplete(tmp_path):
    result = quickly(kernel(tmp_path, "def attention(q, k, v):\n    raise NotImplementedError('soon')\n"))
    assert result.outcome == "incomplete" and result.exit_code == 3


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 1\n", "at least one of attention, attention_backward"),
        ("FRAMEWORK = 'fortran'\ndef attention(q, k, v):\n    return v\n", "FRAMEWORK must be one of"),
        ("raise RuntimeError('no')\n", "must be importable"),
    ],
)
def test_bad_targets(tmp_path, source, said):
    with pytest.raises(InvalidInstance, match=said):
        quickly(kernel(tmp_path, source))


def test_bad_options(tmp_path):
    with pytest.raises(InvalidInstance, match="dtype must be one of"):
        quickly(kernel(tmp_path, FORWARD_ONLY), "float8")
    with pytest.raises(InvalidInstance, match="seed must be"):
        quickly(kernel(tmp_path, FORWARD_ONLY), seed=-1)


def test_live_objects_and_waivers(tmp_path):
    space = {}
    exec(FORWARD_ONLY, space)
    waivers = tmp_path / "deviations.toml"
    waivers.write_text('[[skip]]\ncheck = "attention:values:larger*"\nreason = "slow"\n', encoding="utf-8")
    some = ("attention:values:plain", "attention:values:larger*")
    result = quickly({"attention": space["attention"]}, "float64", deviations=waivers, only=some)
    assert result.outcome == "passed" and result.sha256 is None
    assert result.counts()["waived"] == 5


def test_a_crash_is_survived(tmp_path):
    source = FORWARD_ONLY.replace(
        "    s = (q", "    if q.shape[2] == 33:\n        import os\n        os._exit(7)\n    s = (q"
    )
    result = quickly(kernel(tmp_path, source))
    assert result.outcome == "incomplete"
    assert "exit code 7" in {one.id: one.reason for one in result.checks}["attention:values:plain"]


def test_what_cannot_be_differentiated_is_judged_forward_only(tmp_path):
    pytest.importorskip("torch")
    source = (
        (BASES / "torch_function.py")
        .read_text()
        .replace("        q, k, v, p = ctx.saved_tensors", "        raise NotImplementedError('forward only')")
    )
    result = quickly(kernel(tmp_path, source))
    assert result.outcome == "passed" and "forward only" in result.notes[BACKWARD]


def test_a_detached_input_has_gradient_zero(tmp_path):
    pytest.importorskip("torch")
    source = (BASES / "torch_module.py").read_text().replace("p @ v.to(sums)", "p @ v.detach().to(sums)")
    result = quickly(kernel(tmp_path, source))
    assert result.diagnosis == {BACKWARD: ("zero-output",)}


@pytest.mark.parametrize(
    ("dtype", "old", "new", "id"),
    [
        ("float32", "type(scale)", "type(scale * 1.0005)", "logit-scale"),
        pytest.param(
            "float64",
            "np.exp(s)",
            "(1 + np.maximum(s, -1000) / 16384) ** 16384",
            "approximate-exp",
            marks=pytest.mark.thorough,
        ),
        ("float32", "np.exp(s)", "np.exp(s.astype(np.float16)).astype(np.float32)", "low-precision"),
    ],
    ids=["another scale", "a power for exp", "float16"],
)
def test_a_small_smooth_error_is_no_rounding(tmp_path, dtype, old, new, id):
    """Rounding leaves no curve over the distance to the largest logit."""
    source = (BASES / "textbook.py").read_text(encoding="utf-8")
    assert old in source
    path = tmp_path / "kernel.py"
    path.write_text(source.replace(old, new, 1).partition("\n\ndef attention_backward")[0], encoding="utf-8")
    assert quickly(str(path), dtype, only="attention:values:plain").diagnosis == {FORWARD: (id,)}
