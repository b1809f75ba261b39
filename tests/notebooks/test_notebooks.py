"""Notebooks: text and outputs belong together, only the front door is imported, and every cell runs cleanly."""

import ast
import os
import re
from pathlib import Path

import pytest

jupytext = pytest.importorskip("jupytext")
nbformat = pytest.importorskip("nbformat")

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def pair_of(path):
    (text,) = [candidate for candidate in (path.with_suffix(".py"), path.with_suffix(".md")) if candidate.exists()]
    return text


def test_there_are_notebooks():
    assert NOTEBOOKS
    assert {path.stem for path in NOTEBOOKS} == {
        path.stem for path in FOLDER.iterdir() if path.suffix in (".py", ".md")
    }


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_text_and_notebook_are_one(path):
    notebook, text = nbformat.read(path, as_version=4), jupytext.read(pair_of(path))
    assert [(cell.cell_type, cell.source) for cell in notebook.cells] == [
        (cell.cell_type, cell.source) for cell in text.cells
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_committed_and_clean(path):
    code = [
        cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code" and cell.source.strip()
    ]
    assert code and all(cell.execution_count for cell in code)
    for cell in code:
        for output in cell.outputs:
            assert output.output_type != "error" and output.get("name") != "stderr"
    assert not re.search(r"/(home|root|tmp|work|Users)/", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_only_the_front_door_is_imported(path):
    for cell in nbformat.read(path, as_version=4).cells:
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
    notebook = jupytext.read(pair_of(path))
    (tmp_path / "tests").symlink_to(FOLDER.parent / "tests")  # the small model is read from a checkout
    nbclient.NotebookClient(
        notebook, timeout=None, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
