"""The first checker with one of its questions switched off, and the invalid certificates that this lets through.

A question is a ``raise Reject`` or a pair ("what is asked", answer) of a statement's list. Switched off, the raise does
nothing and the answer is yes. A question that no file of the corpus needs is tied to nothing.
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from proofs_check import checker

FOLDER = Path(checker.__file__).parent
PACKAGE = checker.__name__


class Site(NamedTuple):
    """One question: the module below the checker, the number among its questions, and its text."""

    module: str
    number: int
    text: str


def _is_question(node: ast.AST) -> bool:
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        return getattr(node.exc.func, "id", "") in ("Reject", "GaveUp")
    if isinstance(node, ast.Tuple) and len(node.elts) == 2 and isinstance(node.ctx, ast.Load):
        what, answer = node.elts
        named = isinstance(what, ast.JoinedStr) or (isinstance(what, ast.Constant) and isinstance(what.value, str))
        return named and isinstance(answer, ast.Call | ast.Compare)
    return False


class _Off(ast.NodeTransformer):
    """Switches the question of one number off."""

    def __init__(self, number: int) -> None:
        self.left = number

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if _is_question(node):
            self.left -= 1
            if self.left == -1:
                if isinstance(node, ast.Raise):
                    return ast.copy_location(ast.Pass(), node)
                assert isinstance(node, ast.Tuple)
                node.elts[1] = ast.copy_location(ast.Constant(True), node.elts[1])
                return node
        return super().generic_visit(node)


def sites() -> Iterator[Site]:
    """Yield every question of the checker."""
    for path in sorted(FOLDER.rglob("*.py")):
        module = ".".join(path.relative_to(FOLDER).with_suffix("").parts)
        tree = ast.parse(path.read_text("utf-8"))
        visited: list[ast.AST] = []
        _collect(tree, visited)
        for number, node in enumerate(visited):
            yield Site(module, number, ast.unparse(node))


def _collect(node: ast.AST, found: list[ast.AST]) -> None:
    """Gather the questions in the order in which `_Off` visits them."""
    if _is_question(node):
        found.append(node)
    for child in ast.iter_child_nodes(node):
        _collect(child, found)


@contextmanager
def without(site: Site) -> Iterator[Any]:
    """Give `judge_bytes` of a second copy of the checker with that question switched off."""
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[:2] == PACKAGE.split(".")}
    path = FOLDER / (site.module.replace(".", "/") + ".py")
    finder = _Finder(f"{PACKAGE}.{site.module}".removesuffix(".__init__"), path, site.number)
    sys.meta_path.insert(0, finder)
    try:
        yield importlib.import_module(PACKAGE).judge_bytes
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.split(".")[:2] == PACKAGE.split(".")]:
            del sys.modules[name]
        sys.modules.update(kept)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, name: str, path: Path, number: int) -> None:
        self.name, self.path, self.number = name, path, number

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        off = _Off(self.number)
        tree = ast.fix_missing_locations(off.visit(ast.parse(self.path.read_text("utf-8"))))
        if off.left >= 0:
            raise LookupError(f"{self.name} has no question {self.number}")
        exec(compile(tree, str(self.path), "exec"), module.__dict__)
