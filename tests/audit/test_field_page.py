"""docs/audited_programs.md: written by its command, with a row for every program, visibly without what is not there."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

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


def run(tmp_path, *options):
    command = [sys.executable, str(SCRIPT), "--out", str(tmp_path), *options]
    subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    return rows((tmp_path / PAGE.name).read_text(encoding="utf-8"))


def test_what_is_not_there_is_said(tmp_path):
    found = run(tmp_path, "--only", "authors")
    assert len(found) == 3 and all(row[2].startswith(("not installed: ", "no checkout given: --")) for row in found)


def test_the_command_audits(tmp_path):
    pytest.importorskip("torch", reason="this program needs the extra 'torch'")
    kept = [row for row in rows(PAGE.read_text(encoding="utf-8")) if row[0] == "| torch.autograd"]
    found = run(tmp_path, "--only", "torch.autograd")
    verdict = slice(1, 6)  # without seconds and versions
    assert [row[verdict] for row in found] == [row[verdict] for row in kept]
