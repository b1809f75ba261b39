"""List the refusals whose edge no test tries: a pytest plugin that watches every comparison under a `raise`.

    ATTNPRUNE_EDGES=FOLDER python -m pytest -p tests.edges.plugin TEST...; python -m tests.edges FOLDER

In ``if size > limit: raise ...`` only a call with ``size == limit`` tells ``>`` from ``>=``. The plugin rewrites these
comparisons while modules are loaded; each that meets equal sides writes an empty file of its name into FOLDER.
"""

import ast
import builtins
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGES = ("attnprune_verify", "proofs_check")
_MET: set[str] = set()
ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def refusals(tree: ast.AST, within: str = "") -> Iterator[tuple[str, ast.Compare]]:
    """Yield the order comparisons of conditions under which something is raised, each after its function's name."""
    for node in ast.iter_child_nodes(tree):
        name = f"{within}.{node.name}" if hasattr(node, "name") and isinstance(node, ast.stmt) else within
        if isinstance(node, ast.If) and any(isinstance(line, ast.Raise) for line in node.body):
            for part in ast.walk(node.test):
                if isinstance(part, ast.Compare) and any(isinstance(order, ORDERS) for order in part.ops):
                    yield name, part
        yield from refusals(node, name)


def places(path: Path) -> Iterator[str]:
    """Yield a file's refusals by name."""
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for function, node in refusals(ast.parse(path.read_text("utf-8"))):
        yield place_of(module, function, node)


def place_of(module: str, function: str, node: ast.Compare) -> str:
    """The name of a comparison; it is a file's name as well."""
    return f"{module}{function}: {ast.unparse(node)}".replace("/", "÷")[:200]


def met(place: str, *sides: Any) -> None:
    """Note a comparison two neighbours of which are equal, in any entry."""
    if place in _MET:
        return
    for left, right in zip(sides, sides[1:], strict=False):
        equal = left == right
        if bool(equal.any() if hasattr(equal, "any") else equal):
            _MET.add(place)
            (Path(os.environ["ATTNPRUNE_EDGES"]) / place).touch()


class _Watched(ast.NodeTransformer):
    """Evaluate ``met(place, a, b), a > b`` in place of ``a > b``; sides are evaluated once."""

    def __init__(self, chosen: dict[ast.Compare, str]) -> None:
        self._chosen = chosen

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """Keep each side in a name of its own."""
        self.generic_visit(node)
        if node not in self._chosen:
            return node
        names = [f"_edge_{node.lineno}_{node.col_offset}_{index}" for index in range(len(node.ops) + 1)]
        sides = [node.left, *node.comparators]
        kept = [ast.NamedExpr(ast.Name(name, ast.Store()), side) for name, side in zip(names, sides, strict=True)]
        seen = ast.Call(ast.Name("_edges_met", ast.Load()), [ast.Constant(self._chosen[node]), *kept], [])
        read = [ast.Name(name, ast.Load()) for name in names]
        return ast.Subscript(
            ast.Tuple([seen, ast.Compare(read[0], node.ops, read[1:])], ast.Load()), ast.Constant(1), ast.Load()
        )


class _Loader(importlib.machinery.SourceFileLoader):
    """Compile a module with its refusals watched, and keep no bytecode."""

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path))
        chosen = {node: place_of(fullname, function, node) for function, node in refusals(tree)}
        tree = ast.fix_missing_locations(_Watched(chosen).visit(tree))
        return compile(tree, path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname.split(".")[0] not in PACKAGES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path)
        return spec


if os.environ.get("ATTNPRUNE_EDGES"):
    Path(os.environ["ATTNPRUNE_EDGES"]).mkdir(parents=True, exist_ok=True)
    builtins._edges_met = met  # in no module's own names, which some tests list
    sys.meta_path.insert(0, _Finder())
