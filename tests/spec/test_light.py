"""What it costs other people's tests that the package is installed."""

import subprocess
import sys

import pytest

CONFTEST = """
import atexit, sys
atexit.register(lambda: print("loaded", *sorted({"hypothesis", "numpy"} & set(sys.modules)), file=sys.__stdout__))
"""
FROM_TYPE = """
{imports}
import attnprune_verify as apv
from hypothesis import given, strategies
@given(strategies.from_type(apv.Instance))
def test_instances(instance):
    assert instance.n >= 1
def test_the_strategy_is_ours():
    assert repr(strategies.from_type(apv.Instance)) == "instances()"
"""


def _pytest(folder, test):
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "test_theirs.py").write_text(test, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_theirs.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


def test_a_run_without_hypothesis_loads_neither_it_nor_numpy(tmp_path):
    said = _pytest(tmp_path, "def test_nothing(): pass\n")
    assert "1 passed" in said and said.splitlines()[-1] == "loaded"


@pytest.mark.parametrize("first", ["import hypothesis", "import attnprune_verify.instance.problem"])
def test_instances_have_a_strategy_whatever_is_imported_first(tmp_path, first):
    said = _pytest(tmp_path, FROM_TYPE.format(imports=first))
    assert "2 passed" in said
