"""The twins share no code with the model and as little as possible with each other."""

import ast
from pathlib import Path

import pytest

import attnprune_verify.oracle as oracle

PACKAGE = "attnprune_verify."
SHARED = {"attnprune_verify.oracle.inputs"}  # argument checking, no mathematics
ALLOWED = {
    "loops": SHARED,
    "autodiff": SHARED,
    "multiprecision": SHARED | {"attnprune_verify.oracle.fixed_point"},
    "ball": SHARED | {f"attnprune_verify.oracle.{part}" for part in ("ball_forms", "ball_series", "enclosure")},
    "ball_series": SHARED | {"attnprune_verify.oracle.enclosure"},
    "taylor": SHARED | {"attnprune_verify.oracle.running_error"},
    "running_error": SHARED | {"attnprune_verify.oracle.error_propagation"},
    "error_propagation": set(),
    "resolution": set(),
}
FILES = sorted(path for path in Path(oracle.__file__).parent.glob("*.py"))


def imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "attnprune_verify.oracle":
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            else:
                yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_oracle_imports_the_model(path):
    ours = {name for name in imports(path) if name.startswith(PACKAGE)}
    floors = {name.split(".")[1] for name in ours}
    assert floors <= {"errors", "instance", "oracle"}, ours


@pytest.mark.parametrize("name", ALLOWED)
def test_twins_do_not_lean_on_each_other(name):
    path = next(path for path in FILES if path.stem == name)
    assert {found for found in imports(path) if found.startswith("attnprune_verify.oracle")} <= ALLOWED[name]
