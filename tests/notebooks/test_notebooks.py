"""Notebooks: kept as text, only the front door is imported, and every cell runs cleanly."""

import ast
import os
import re
from pathlib import Path

import pytest

jupytext = pytest.importorskip("jupytext")

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.py"))


def test_every_notebook_is_listed():
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE) == [path.stem for path in NOTEBOOKS] != []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_only_the_front_door_is_imported(path):
    cells = jupytext.read(path).cells
    assert any(cell.cell_type == "code" for cell in cells)
    for cell in cells:
        if cell.cell_type != "code" or cell.source.lstrip().startswith(("%", "!")):
            continue
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith("attnprune_verify."), node.module
            if isinstance(node, ast.Import):
                assert all(not name.name.startswith("attnprune_verify.") for name in node.names)


def test_outside_a_checkout_the_last_one_says_what_it_lacks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = jupytext.read(FOLDER / "06_whole_model.py").cells
    (first,) = [cell.source for cell in cells if cell.cell_type == "code" and "FOLDER =" in cell.source]
    with pytest.raises(FileNotFoundError, match="run this notebook in a checkout, or set FOLDER"):
        exec(first, {"Path": Path})


@pytest.mark.thorough
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_with_warnings_as_errors(path, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient")
    monkeypatch.setitem(os.environ, "PYTHONWARNINGS", "error::UserWarning,error::RuntimeWarning,error::FutureWarning")
    notebook = jupytext.read(path)
    (tmp_path / "tests").symlink_to(FOLDER.parent / "tests")  # the small model is read from a checkout
    nbclient.NotebookClient(
        notebook, timeout=None, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    written = "".join(output.text for output in outputs if output.get("name") == "stderr")  # other libraries' alone
    assert outputs and "attnprune_verify" not in written
