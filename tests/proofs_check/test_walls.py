"""Who imports whom: the checker needs the standard library only and shares no code with the producer."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "proofs_check"
SOURCES = [path for path in HERE.rglob("*.py") if "coq" not in path.relative_to(HERE).parts]


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {path}"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(HERE)))
def test_walls(path: Path) -> None:
    names = imported(path)
    assert not any(name.startswith("attnprune_verify") for name in names)
    part = path.relative_to(HERE).parts[0]
    own = {name for name in names if name.startswith("proofs_check")}
    if part in ("checker", "__main__.py"):
        assert {name.split(".")[0] for name in names - own} <= sys.stdlib_module_names
        assert all(name.startswith("proofs_check.checker") for name in own)
    if part == "producer":
        assert not any(name.startswith(("proofs_check.checker", "proofs_check.steps")) for name in own)
    if part == "steps":
        assert not any(name.startswith("proofs_check.producer") for name in own)


def test_checker_never_asserts() -> None:
    """`python -O` removes assert statements."""
    for path in (HERE / "checker").rglob("*.py"):
        assert not any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(path.read_text()))), path
