"""``attnprune-verify audit-kernel``: formats, exit codes, the options of pytest."""

import json
import subprocess
import sys
from importlib import resources
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from attnprune_verify.audit.kernel.run import run_kernel_audit
from attnprune_verify.cli.audit import report_of
from attnprune_verify.cli.main import main

TEXTBOOK = Path(__file__).parents[1] / "audit" / "kernel" / "wrong" / "textbook.py"


def run(*arguments, cwd=None):
    program = [sys.executable, "-m", "attnprune_verify", "audit-kernel", *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, cwd=cwd, check=False)


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    path = tmp_path_factory.mktemp("kernel") / "wrong.py"
    path.write_text(TEXTBOOK.read_text().replace("o = p @ v", "o = 0 * (p @ v)"), encoding="utf-8")
    return path


def test_json_meets_the_schema_and_the_exit_code(wrong, tmp_path):
    out = tmp_path / "report.json"
    done = run(wrong, "--format", "json", "--out", out, "--quiet", "--only", "*:values:plain")
    assert done.returncode == 1 and done.stdout == ""
    report = json.loads(out.read_text())
    schema = json.loads(resources.files("attnprune_verify.report").joinpath("schemas/audit.schema.json").read_text())
    jsonschema.validate(report, schema)
    assert report["outcome"] == "failed"
    assert {check["function"] for check in report["checks"]} == {"attention", "attention_backward"}
    failed = [check for check in report["checks"] if check["status"] == "failed"]
    assert failed and all("zero-output" in check["diagnosis"] for check in failed)
    assert any("import numpy as np" in check["evidence"]["snippet"] for check in failed)


def test_junit_and_html(wrong):
    result = run_kernel_audit(str(wrong), only=("*:values:plain", "*:shape"))
    assert int(ElementTree.fromstring(report_of(result, "junit")).get("failures")) > 0
    assert "zero-output" in report_of(result, "html") and "its gradients dq, dk, dv" in report_of(result, "html")
    assert "attention (zero-output)" in report_of(result, "text", quiet=True)


@pytest.mark.parametrize(
    "arguments", [("nowhere.py",), (TEXTBOOK, "--dtype", "float8"), (TEXTBOOK, "--out", "/nowhere/x")]
)
def test_bad_usage_is_one_line(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_pytest_judges_a_kernel(wrong):
    program = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "--pyargs",
        "attnprune_verify.spec",
    ]
    chosen = ["--attnprune-kernel", str(wrong), "-k", "shape or plain or missing"]
    done = subprocess.run([*program, *chosen], capture_output=True, text=True, cwd=wrong.parent, check=False)
    assert done.returncode == 1
    assert "test_kernel[attention:values:plain]" in done.stdout and "zero-output" in done.stdout
    assert "test_check" not in done.stdout


def test_only_modes_and_names(capsys):
    words = ["--mode", "bitwise", "--mode", "many", "--name", "never", "--format", "json", "--quiet"]
    with pytest.raises(SystemExit) as end:
        main(["audit-kernel", str(TEXTBOOK), "--only", "*:mode:*", *words])
    report = json.loads(capsys.readouterr().out)
    assert end.value.code == 0 and [check["status"] for check in report["checks"]] == ["passed"] * 4
    assert [check["id"] for check in report["checks"]][:2] == ["attention:mode:bitwise", "attention:mode:many"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--device", "cuda"), "device must be cpu for a NumPy kernel"),
        (("--device", "cuda", "--confine", "required"), "confine must be"),
        (("--only", "attention:valus:plain"), "matches none"),
    ],
)
def test_choices_that_cannot_be_are_one_line(words, said, capsys):
    with pytest.raises(SystemExit) as end:
        main(["audit-kernel", str(TEXTBOOK), *words])
    error = capsys.readouterr().err
    assert end.value.code == 2 and said in error and len(error.splitlines()) == 1
