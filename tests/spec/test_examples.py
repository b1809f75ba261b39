"""The examples do what they say."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from attnprune_verify.audit.kernel.run import run_kernel_audit

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
MODEL = ROOT / "tests" / "data" / "small_llama"


def _python(*words, **options):
    done = subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_program_has_a_test():
    described = {"off_by_one.py", "grouped_torch.py", "test_attention.py", "prune_decoder.py"}
    assert {path.name for path in EXAMPLES.iterdir() if path.suffix == ".py"} == described


def test_the_wrong_kernel_is_named():
    result = run_kernel_audit(EXAMPLES / "off_by_one.py", quick=True, only="*:values:causal")
    assert [check.diagnosis for check in result.checks if check.status == "failed"] == [("causal-off-by-one",)]


@pytest.mark.parametrize(("kernel", "code"), [("off_by_one.py", 1), ("absent.py", 2)])
def test_the_action_ends_with_the_code_of_the_audit(kernel, code, tmp_path):
    yaml = pytest.importorskip("yaml")
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    install, audit = action["runs"]["steps"]
    assert "$GITHUB_ACTION_PATH" in install["run"]
    given = {"target": EXAMPLES / kernel, "options": "--quick --only *:values:causal", "report": tmp_path / "audit.xml"}
    assert given.keys() == action["inputs"].keys()
    values = {name: str(given[place.split(".")[1].strip(" }")]) for name, place in audit["env"].items()}
    command = tmp_path / "attnprune-verify"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m attnprune_verify "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    environment = {**os.environ, **values, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-e", "-c", audit["run"]], env=environment, cwd=ROOT, capture_output=True)
    assert (done.returncode, (tmp_path / "audit.xml").exists()) == (code, code == 1), done.stderr


def test_the_tests_pass():
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "-k", "plain"]
    assert "1 passed" in _python("-m", "pytest", *options, EXAMPLES / "test_attention.py", cwd=ROOT)


@pytest.mark.thorough
def test_the_kernel_of_torch_is_right():
    pytest.importorskip("torch")
    assert run_kernel_audit(EXAMPLES / "grouped_torch.py", quick=True).outcome == "passed"


@pytest.mark.thorough
def test_the_decoder_is_pruned(tmp_path):
    pytest.importorskip("transformers")
    text = MODEL / "texts" / "calibration.txt"
    said = _python(EXAMPLES / "prune_decoder.py", MODEL, text, tmp_path / "pruned", cwd=tmp_path)
    assert "92160 of 184320 weights are 0" in said and (tmp_path / "pruned" / "config.json").is_file()
