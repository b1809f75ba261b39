"""No import circle inside the package, by whatever way a module is imported; no crowded folder, no long file."""

import ast
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import attnprune_verify

ROOT = Path(attnprune_verify.__file__).parent
FILES = {path: ".".join(path.relative_to(ROOT.parent).with_suffix("").parts) for path in ROOT.rglob("*.py")}
MOST_FILES = 20
MODULES = {name.removesuffix(".__init__"): path for path, name in FILES.items()}


def imported(tree):
    """The modules that a file imports, in functions and by a string too (`import_module` of it, or of an f-string)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and node.value in MODULES and "." in node.value:
            yield node.value
        elif isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
            start = node.values[0].value
            yield from (name for name in MODULES if start.startswith(f"{ROOT.name}.") and name.startswith(start))


def circle(graph):
    """The first circle of a graph, as a text; nothing where there is none."""
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        return " -> ".join(error.args[1])
    return ""


def test_no_module_imports_itself_in_a_circle():
    trees = {name: ast.parse(path.read_text("utf-8")) for name, path in MODULES.items()}
    graph = {name: set(imported(tree)) & set(MODULES) - {name} for name, tree in trees.items()}
    assert len(graph) > 200
    assert circle(graph) == ""


@pytest.mark.parametrize(
    "planted",
    [
        "if TYPE_CHECKING:\n    from attnprune_verify.audit.adapters import autodiff",
        "def late():\n    from attnprune_verify.audit.adapters.autodiff import torch_gradient",
        "found = import_module('attnprune_verify.audit.adapters.autodiff')",
        "found = import_module(f'attnprune_verify.audit.adapters.{name}')",
    ],
)
def test_a_circle_would_be_seen(planted):
    name = "attnprune_verify.audit.contract"  # which every adapter imports
    adapter = "attnprune_verify.audit.adapters.autodiff"
    graph = {name: set(imported(ast.parse(planted))) & set(MODULES), adapter: {name}}
    assert circle(graph) in (f"{name} -> {adapter} -> {name}", f"{adapter} -> {name} -> {adapter}")


def test_no_folder_has_more_than_twenty_files():
    files = Counter(path.parent.relative_to(ROOT).as_posix() for path in FILES if path.name != "__init__.py")
    crowded = {folder: count for folder, count in files.items() if count > MOST_FILES}
    assert crowded.keys() <= {"claims", "claims/statements"}, crowded


def test_every_file_is_under_four_hundred_lines():
    long = {name: len(path.read_text("utf-8").splitlines()) for name, path in MODULES.items()}
    assert {name: lines for name, lines in long.items() if lines >= 400} == {}
