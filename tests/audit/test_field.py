"""Real code: its precision, conventions, parameters, batches, notebooks; docs/audited_programs.md, by its command."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import attnprune_verify as apv
from attnprune_verify.audit.functions.run import run_audit

SOFTMAX = """
import numpy as np

def attention(X, W, mask=None):
    A = X @ W @ np.swapaxes(X, -1, -2)
    A = A if mask is None else np.where(mask == 1, A, -np.inf)
    A = np.exp(A - A.max(axis=-1, keepdims=True))
    return A / A.sum(axis=-1, keepdims=True)
"""


@pytest.fixture
def audit(tmp_path):
    def run(source, function="attention", **options):
        path = tmp_path / "subject.py"
        path.write_text(source, encoding="utf-8")
        result = run_audit(str(path), only=(function,), **options)
        return result, [(check.name, check.diagnosis) for check in result.checks if check.status == "failed"]

    return run


SINGLE = SOFTMAX.replace("    A = X @", "    X, W = X.astype(np.float32), W.astype(np.float32)\n    A = X @")


def test_a_lower_precision_is_one_finding_that_names_the_option(audit):
    result, failed = audit(SINGLE, quick=True)
    assert failed == [("precision", ("low-precision",))]
    (record,) = (check for check in result.checks if check.status == "failed")
    assert "--dtype float32" in record.reason and "jax_enable_x64" in record.reason
    assert audit(SINGLE, dtype="float32", quick=True)[0].outcome == "passed"


@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float16", marks=pytest.mark.thorough)])
def test_formats_of_16_bits(audit, dtype):
    wrong = {"names": "never", "quick": True}
    assert audit(SINGLE, dtype=dtype, quick=True)[0].outcome == "passed"
    assert audit(SINGLE.replace("A.max(axis=-1", "0 * A.max(axis=-2"), dtype="float32", **wrong)[1]
    assert audit(SINGLE.replace("(X, W, mask=None):", "(X, W, mask=None):\n    W = W.T"), dtype=dtype, **wrong)[1]


def test_calls_go_by_keyword_where_the_names_are_the_contracts(audit):
    result, failed = audit(SOFTMAX.replace("(X, W, mask=None)", "(*, mask=None, W, X)"), quick=True)
    assert result.outcome == "passed" and not failed and "its order is (mask, W, X)" in result.notes["attention"]


def test_another_order_of_nameless_parameters_is_one_finding(audit):
    _, failed = audit(
        SOFTMAX.replace("(X, W, mask=None):", "(weight, tokens, mask=None):\n    X, W = tokens, weight"), quick=True
    )
    assert failed == [("calling", ("argument-order",))]


def test_another_order_is_told_to_a_function_without_regulariser(audit):
    source = (
        SOFTMAX
        + """
def loss(tokens, weight, pruning):
    return ((attention(tokens, pruning * weight) - attention(tokens, weight)) ** 2).sum() / 2
"""
    )
    assert ("calling", ("argument-order",)) in audit(source, "loss", quick=True)[1]


WANDA = """
import numpy as np
import attnprune_verify as apv

def wanda(weight, X, rho, *, prune_n=0, prune_m=0):
    gone = apv.wanda_mask(weight, X, rho, prune_n=prune_n, prune_m=prune_m)
    return np.where(gone, 0, weight).astype(np.float32)
"""


def test_a_wanda_in_float32_is_one_finding_that_names_the_option(audit):
    result, failed = audit(WANDA, "wanda", quick=True)
    assert failed == [("precision", ("low-precision",))]
    assert "--dtype float32" in next(check.reason for check in result.checks if check.status == "failed")
    assert audit(WANDA, "wanda", dtype="float32", quick=True)[0].outcome == "passed"
    assert {ids for _, ids in audit(WANDA, "wanda", dtype="float64", quick=True)[1]} == {("low-precision",)}
    coarser = WANDA.replace("astype(np.float32)", "astype(np.float16)")  # which float32 does not excuse
    assert ("values", ("low-precision",)) in audit(coarser, "wanda", quick=True)[1]
    assert audit(coarser, "wanda", dtype="float32", quick=True)[1]


def test_a_batch_that_sums_is_one_diagnosis(audit):
    source = (
        SOFTMAX
        + """
def relative_error(M, X, W, mask=None):
    F, G = attention(X, M * W, mask), attention(X, W, mask)
    return (((F - G) ** 2).sum((-1, -2)) / (G**2).sum((-1, -2))).sum()
"""
    )
    assert audit(source, "relative_error", quick=True)[1] == [("values:batch", ("batch-not-averaged",))]


def test_code_that_is_stable_in_norm_only_is_not_wrong(audit):
    source = SOFTMAX.replace("A = X @ W @ np", "a, s, b = np.linalg.svd(W); A = (X @ a * s) @ b @ np")
    assert audit(source, quick=True)[0].outcome == "passed"


def test_masks_of_bool_only_are_a_finding(audit):
    assert audit(SOFTMAX.replace("mask == 1", "~(~mask)"), quick=True)[1] == [("mask-kinds", ("mask-kind",))]


def test_results_that_share_memory_are_seen(audit):
    shared = SOFTMAX.replace("    return A /", "    out = kept.setdefault(A.shape, A)\n    out[...] = A /")
    assert ("results-kept", ("overwrites-results",)) in audit(shared + "    return out\nkept = {}\n", quick=True)[1]


def test_conventions_of_the_original_programs_pass(tmp_path):
    path = tmp_path / "subject.py"
    path.write_text(
        "import numpy as np\nimport attnprune_verify as apv\n"
        "def wanda(weight, X, rho, *, prune_n=0, prune_m=0):\n"
        "    return np.where(apv.wanda_mask(weight, X, rho, prune_n=prune_n, prune_m=prune_m), 0, weight)\n"
        "def sparsegpt(weight, X, rho, **options):\n"
        "    if rho == 1 and not options.get('prune_m'):\n        raise IndexError('as the original')\n"
        "    return apv.sparsegpt(weight, X, rho, **options)[0]\n",
        encoding="utf-8",
    )
    result = run_audit(str(path), only=("wanda", "sparsegpt"))
    assert result.outcome == "passed"
    assert "IndexError" in next(check.reason for check in result.checks if check.id == "sparsegpt:edges")


def wrong_mask(n):
    return np.tri(n, k=-1)


@pytest.mark.parametrize("target", [{"causal_mask": wrong_mask}, apv])
def test_live_objects(target):
    result = run_audit(target, only=("causal_mask",))
    assert result.sha256 is None and result.outcome == ("passed" if target is apv else "failed")
    assert len(repr(result).splitlines()) <= 10


def test_what_a_live_object_does_when_it_is_read_it_does_in_its_own_process():
    class Trap:
        @property
        def loss(self):
            os._exit(7)

        FRAMEWORK = property(lambda self: os._exit(8))

        @staticmethod
        def causal_mask(n):
            return np.tri(n)

    result = run_audit(Trap(), only=("causal_mask",))
    assert result.outcome == "incomplete" and any("exit code 7" in check.reason for check in result.checks)


def test_a_live_object_without_fork_runs_here(monkeypatch):
    monkeypatch.delattr(os, "fork")
    result = run_audit({"causal_mask": wrong_mask}, only=("causal_mask",))
    assert result.diagnosis == {"causal_mask": ("mask-strict",)}
    assert result.notes["causal_mask"] == "runs in the audit's own process"


def test_what_computes_with_a_framework_runs_here_and_is_said():
    def causal_mask(n):
        return np.tri(n)

    assert "causal_mask" not in run_audit(causal_mask).notes
    causal_mask.FRAMEWORK = "torch"
    assert run_audit(causal_mask).notes["causal_mask"] == "runs in the audit's own process"


ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "audit_the_field.py"
PAGE = ROOT / "docs" / "audited_programs.md"


@pytest.fixture(scope="module")
def field():
    spec = importlib.util.spec_from_file_location("audit_the_field", SCRIPT)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(text):
    return [line.split(" | ") for line in text.splitlines() if line.startswith("| ") and "| program" not in line]


def test_the_page_has_every_program(field):
    asked = [(program.title, dtype or "none") for program in field.PROGRAMS for dtype in program.dtypes]
    found = rows(PAGE.read_text(encoding="utf-8"))
    assert [(row[0].removeprefix("| "), row[1]) for row in found] == asked
    assert all(row[2] == "passed" for row in found if row[1] == "float32")
    assert PAGE.read_text(encoding="utf-8").startswith(field.HEAD)


def written(tmp_path, *options):
    command = [sys.executable, str(SCRIPT), "--out", str(tmp_path), *options]
    subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    return rows((tmp_path / PAGE.name).read_text(encoding="utf-8"))


def test_what_is_not_there_is_said(tmp_path):
    found = written(tmp_path, "--only", "authors")
    assert len(found) == 3 and all(row[2].startswith(("not installed: ", "no checkout given: --")) for row in found)


@pytest.mark.thorough  # ten seconds in a process of its own
def test_the_command_audits(tmp_path):
    pytest.importorskip("torch", reason="this program needs the extra 'torch'")
    kept = [row for row in rows(PAGE.read_text(encoding="utf-8")) if row[0] == "| torch.autograd"]
    found = written(tmp_path, "--only", "torch.autograd")
    verdict = slice(1, 6)  # without seconds and versions
    assert [row[verdict] for row in found] == [row[verdict] for row in kept]
