"""Mistakes by name: what each does to one place of a function, so that a mutant needs no text of it."""

import ast
from collections.abc import Callable, Iterator
from functools import cache

__all__ = ["OPERATORS", "edited"]

_RELATIONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_PARTNERS = {"min": "max", "any": "all", "smallest": "largest", "floor": "ceil", "lower": "upper", "minimum": "maximum"}
_NAMES = {**_PARTNERS, **{other: name for name, other in _PARTNERS.items()}}
_Edits = Iterator[ast.expr]


def _relation(node: ast.AST) -> _Edits:
    """``<`` for ``<=``, ``==`` for ``!=``, or the reverse; the first relation of a chain."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _RELATIONS:
        yield ast.Compare(node.left, [_RELATIONS[type(node.ops[0])](), *node.ops[1:]], node.comparators)


def _left(node: ast.AST) -> _Edits:
    """The first operand alone: the last term, factor, divisor or exponent is dropped."""
    if isinstance(node, ast.BinOp | ast.BoolOp):
        yield node.left if isinstance(node, ast.BinOp) else node.values[0]


def _right(node: ast.AST) -> _Edits:
    """The last operand alone."""
    if isinstance(node, ast.BinOp | ast.BoolOp):
        yield node.right if isinstance(node, ast.BinOp) else node.values[-1]


def _sign(node: ast.AST) -> _Edits:
    """A minus for a plus, or the reverse; a minus before a term is dropped."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield ast.BinOp(node.left, ast.Sub() if isinstance(node.op, ast.Add) else ast.Add(), node.right)
    if isinstance(node, ast.UnaryOp):
        yield node.operand


def _partner(node: ast.AST) -> _Edits:
    """``max`` for ``min``, ``all`` for ``any``, ``upper`` for ``lower``, or the reverse."""
    if isinstance(node, ast.Name) and node.id in _NAMES:
        yield ast.Name(_NAMES[node.id], ast.Load())
    if isinstance(node, ast.Attribute) and node.attr in _NAMES:
        yield ast.Attribute(node.value, _NAMES[node.attr], ast.Load())


def _inside(node: ast.AST) -> _Edits:
    """The first argument of a call in place of the call."""
    if isinstance(node, ast.Call) and node.args:
        yield node.args[0]


OPERATORS: dict[str, Callable[[ast.AST], _Edits]] = {
    "relation": _relation, "left": _left, "right": _right, "sign": _sign, "partner": _partner, "inside": _inside,
}  # fmt: skip


def edited(text: str, function: str, operator: str) -> str:
    """Return the file's text with one place of a function changed; ``left 2`` is the second place for ``left``.

    Raises
    ------
    ValueError
        If the function or the place is not there.
    """
    name, _, number = operator.partition(" ")
    scope = _scopes(text).get(function)
    if scope is None:
        raise ValueError(f"no function {function}")
    places = [(node, new) for node in _in_order(scope) for new in OPERATORS[name](node)]
    if len(places) < int(number or 1):
        raise ValueError(f"{function} must have a place for {operator!r}; it has {len(places)}")
    node, new = places[int(number or 1) - 1]
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
    return (text.encode()[:start] + f"({ast.unparse(new)})".encode() + text.encode()[end:]).decode()


@cache
def _scopes(text: str) -> dict[str, ast.AST]:
    return dict(_functions(ast.parse(text)))


def _in_order(scope: ast.AST) -> list[ast.expr]:
    found = [node for node in ast.walk(scope) if isinstance(node, ast.expr)]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset, -node.end_lineno, -node.end_col_offset))  # type: ignore[operator]


def _functions(node: ast.AST, within: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield functions and methods by name, ``Class.method``."""
    for child in ast.iter_child_nodes(node):
        name = within + getattr(child, "name", "")
        if isinstance(child, ast.FunctionDef):
            yield name, child
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield from _functions(child, f"{name}.")
