"""The twins share no code with the model and as little as possible with each other."""

import ast
from pathlib import Path

import pytest

import attnprune_verify.oracle as oracle

PACKAGE = "attnprune_verify."
ORACLE = "attnprune_verify.oracle."
# Arguments checked, arrays compared, and what rounding may do: no formula of the loss, no layout of heads.
SHARED = {f"{ORACLE}{part}" for part in ("inputs", "comparison")}
ALLOWED = {
    "inputs": set(),
    "comparison": {f"{ORACLE}inputs"},
    "loops": {f"{ORACLE}inputs"},
    "autodiff": SHARED | {f"{ORACLE}score_formulas"},
    "multiprecision": SHARED | {f"{ORACLE}fixed_point"},
    "fixed_point": set(),
    "ball": SHARED | {f"{ORACLE}{part}" for part in ("ball_forms", "ball_series", "enclosure")},
    "ball_forms": {f"{ORACLE}{part}" for part in ("enclosure", "inputs")},
    "ball_divergence": {f"{ORACLE}{part}" for part in ("ball_forms", "enclosure", "inputs")},
    "ball_series": {f"{ORACLE}{part}" for part in ("enclosure", "inputs")},
    "taylor": SHARED | {f"{ORACLE}{part}" for part in ("running_error", "taylor_differences")},
    "taylor_differences": {f"{ORACLE}inputs"},
    "running_error": {f"{ORACLE}{part}" for part in ("error_propagation", "inputs", "score_errors")},
    "score_errors": {f"{ORACLE}{part}" for part in ("error_propagation", "inputs", "score_formulas")},
    "score_formulas": set(),
    "error_propagation": set(),
    "resolution": SHARED,
    "any_gradient": set(),
}
# What knows the layer by its own methods, or the mask by its rows, would repeat the model's mistakes.
MODELS_OWN = {"rotate", "frequencies", "pairs", "visible", "modifiers", "span", "blocks", "bend", "group"}
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


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_oracle_asks_the_layer_for_more_than_its_numbers(path):
    """Rotations, groups, capped scores and what a window allows are derived here again."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    asked = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name | ast.Attribute)
        and (node.value.id if isinstance(node.value, ast.Name) else node.value.attr)
        in ("layer", "rope", "instance", "mask")
    }
    assert not asked & MODELS_OWN, asked


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_twins_do_not_lean_on_each_other(path):
    """A new oracle needs no entry in the table above while it leans on nothing but what all share."""
    if path.stem not in ("__init__", "enclosure", "verdict"):
        found = {name for name in imports(path) if name.startswith("attnprune_verify.oracle")}
        assert found <= ALLOWED.get(path.stem, SHARED)
