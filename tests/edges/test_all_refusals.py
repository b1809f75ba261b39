"""Every refusal of the package and of the checkers meets its edge in a short run, or stands among the exceptions."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.edges.__main__ import faults
from tests.edges.plugin import ROOT

TESTS = (
    "tests/edges",
    "tests/proofs_check/test_edges.py",
    "tests/proofs_check/test_statements.py",
    "tests/proofs_check/test_second_checker.py::test_the_first_checker_rejects_the_corpus",
)


@pytest.mark.thorough(share=1)
def test_every_refusal_is_tried_on_its_edge(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "tests.edges.plugin", "-n", "0", "-q", "-p", "no:cacheprovider"]
    environment = {**os.environ, "ATTNPRUNE_EDGES": str(tmp_path)}
    run = subprocess.run([*command, *TESTS], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert [*faults(tmp_path)] == []
