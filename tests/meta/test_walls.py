"""No import circle inside the package, imports for type checkers included; no file that does many jobs."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import attnprune_verify

ROOT = Path(attnprune_verify.__file__).parent
FILES = {path: ".".join(path.relative_to(ROOT.parent).with_suffix("").parts) for path in ROOT.rglob("*.py")}
MODULES = {name.removesuffix(".__init__"): path for path, name in FILES.items()}


def statements(node):
    """Every statement outside of functions: what is imported there is imported with the module."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from statements(child)


def imported(tree):
    for node in statements(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_no_module_imports_itself_in_a_circle():
    graph = {name: set(imported(ast.parse(path.read_text("utf-8")))) & set(MODULES) for name, path in MODULES.items()}
    assert len(graph) > 200
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_a_circle_would_be_seen():
    tree = ast.parse("if TYPE_CHECKING:\n    from attnprune_verify.values import as_lam\ndef f():\n    import json")
    assert list(imported(tree)) == ["attnprune_verify.values"]


def test_every_file_is_under_four_hundred_lines():
    long = {name: len(path.read_text("utf-8").splitlines()) for name, path in MODULES.items()}
    assert {name: lines for name, lines in long.items() if lines >= 400} == {}
