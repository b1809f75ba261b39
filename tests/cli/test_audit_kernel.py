"""``attnprune-verify audit-kernel``: formats, exit codes, the options of pytest."""

import json
from importlib import resources
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from attnprune_verify.audit.kernel import run as auditing
from attnprune_verify.audit.kernel.checks import modes
from attnprune_verify.cli.audit import report_of
from attnprune_verify.cli.main import main
from tests.spec.test_executable_spec import LEAN

pytest_plugins = ["pytester"]

TEXTBOOK = Path(__file__).parents[1] / "audit" / "kernel" / "wrong" / "textbook.py"


@pytest.fixture
def audit_kernel(capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["audit-kernel", *map(str, arguments)])
        printed = capsys.readouterr()
        return end.value.code, printed.out, printed.err

    return run


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    path = tmp_path_factory.mktemp("kernel") / "wrong.py"
    path.write_text(TEXTBOOK.read_text().replace("o = p @ v", "o = 0 * (p @ v)"), encoding="utf-8")
    return path


def test_the_result_is_right_in_every_format(wrong, tmp_path, audit_kernel, monkeypatch):
    """The command writes JSON; JUnit, HTML and one sentence come from the result of that run."""
    results, run = [], auditing.run_kernel_audit
    monkeypatch.setattr(auditing, "run_kernel_audit", lambda *a, **o: results.append(run(*a, **o)) or results[0])
    out = tmp_path / "report.json"
    chosen = ("--only", "*:values:plain", "--only", "*:shape")
    assert audit_kernel(wrong, "--format", "json", "--out", out, "--quiet", *chosen) == (1, "", "")
    report = json.loads(out.read_text())
    schema = json.loads(resources.files("attnprune_verify.report").joinpath("schemas/audit.schema.json").read_text())
    jsonschema.validate(report, schema)
    assert report["outcome"] == "failed"
    assert {check["function"] for check in report["checks"]} == {"attention", "attention_backward"}
    failed = [check for check in report["checks"] if check["status"] == "failed"]
    assert failed and all("zero-output" in check["diagnosis"] for check in failed)
    assert any("import numpy as np" in check["evidence"]["snippet"] for check in failed)
    (result,) = results
    assert int(ElementTree.fromstring(report_of(result, "junit")).get("failures")) > 0
    assert "zero-output" in report_of(result, "html") and "its gradients dq, dk, dv" in report_of(result, "html")
    assert "attention (zero-output)" in report_of(result, "text", quiet=True)


@pytest.mark.parametrize(
    "arguments", [("nowhere.py",), (TEXTBOOK, "--dtype", "float8"), (TEXTBOOK, "--out", "/nowhere/x")]
)
def test_bad_usage_is_one_line(arguments, audit_kernel):
    code, out, err = audit_kernel(*arguments)
    assert code == 2 and out == "" and err.startswith("Error: ") and err.count("\n") == 1


def test_pytest_judges_a_kernel(wrong, pytester):
    program = ["-q", "-p", "no:xdist", *LEAN, "--pyargs", "attnprune_verify.spec"]
    chosen = ["--attnprune-kernel", str(wrong), "-k", "attention:shape or attention:values:plain"]
    done = pytester.runpytest_inprocess(*program, *chosen)
    assert done.ret == 1 and (done.parseoutcomes()["passed"], done.parseoutcomes()["failed"]) == (1, 1)
    printed = done.stdout.str()
    assert "test_kernel[attention:values:plain]" in printed and "zero-output" in printed
    assert "test_check" not in printed


def test_only_modes_and_names(audit_kernel, monkeypatch):
    monkeypatch.setattr(modes, "_TINY_CALLS", 30)
    words = ["--mode", "bitwise", "--mode", "many", "--name", "never", "--format", "json", "--quiet"]
    code, out, _ = audit_kernel(TEXTBOOK, "--only", "*:mode:*", *words)
    report = json.loads(out)
    assert code == 0 and [check["status"] for check in report["checks"]] == ["passed"] * 4
    assert {"attention:mode:bitwise", "attention:mode:many"} <= {check["id"] for check in report["checks"]}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--device", "cuda"), "device must be cpu for a NumPy kernel"),
        (("--device", "cuda", "--confine", "required"), "confine must be"),
        (("--only", "attention:valus:plain"), "matches none"),
    ],
)
def test_choices_that_cannot_be_are_one_line(words, said, audit_kernel):
    code, _, error = audit_kernel(TEXTBOOK, *words)
    assert code == 2 and said in error and len(error.splitlines()) == 1
