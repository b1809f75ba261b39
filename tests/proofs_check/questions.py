"""The first checker with one of its questions switched off, and the traps that notice.

A question is a ``raise Reject``, a pair ("what is asked", answer) of a statement's list, or a call whose result nobody
takes, which is made for what it refuses. Switched off, the raise and the call do nothing and the answer is yes; a trap
notices when it is then accepted, breaks the checker or is refused for another reason.
``python -m tests.proofs_check.questions`` writes which traps end at which question into questions.json.
"""

import ast
import importlib
import importlib.abc
import importlib.util
import json
import re
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from proofs_check import checker
from proofs_check.corpus.parts import invalid

FOLDER = Path(checker.__file__).parent
PACKAGE = checker.__name__
TRAPS = Path(__file__).parent / "questions.json"
_SEVERAL = 40  # chosen: so many traps of one question are tried; 36 end at "lhs<rhs", of all statements
_LONG = 5  # seconds, chosen: a trap takes a hundredth; one that runs on has lost the limit of its work


class Site(NamedTuple):
    """One question: the module below the checker, the number among its questions, and its text."""

    module: str
    number: int
    text: str
    lines: range

    @property
    def name(self) -> str:
        """The module and the text: stable where other questions come and go."""
        return f"{self.module}: {self.text}"


_COLLECTS = {"add", "append", "extend", "decide"}
"""Calls without a result that put something somewhere, or that decide the pairs, which are questions themselves."""


def _is_call(node: ast.AST) -> bool:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    called = node.value.func
    return (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) not in _COLLECTS


def _is_question(node: ast.AST) -> bool:
    if _is_call(node):
        return True
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
                if isinstance(node, ast.Raise | ast.Expr):
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
        visited: list[tuple[ast.AST, str]] = []
        _collect(tree, visited, "")
        for number, (node, function) in enumerate(visited):
            lines = range(getattr(node, "lineno", 0), getattr(node, "end_lineno", 0) + 1)
            # the same call stands in several functions of a module, each of which needs it
            yield Site(
                module, number, f"{function} {ast.unparse(node)}" if _is_call(node) else ast.unparse(node), lines
            )


def _collect(node: ast.AST, found: list[tuple[ast.AST, str]], function: str) -> None:
    """Gather the questions and the functions they stand in, in the order in which `_Off` visits them."""
    if _is_question(node):
        found.append((node, function))
    for child in ast.iter_child_nodes(node):
        _collect(child, found, node.name if isinstance(node, ast.FunctionDef) else function)


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


def reason(judge: Any, name: str) -> str:
    """Return the checker's answer to a trap: the reason, that it accepts, or the error that it dies of."""
    try:
        verdict = judge(invalid()[f"{name}.json"])
    except Exception as error:
        return type(error).__name__
    return "ACCEPTED" if verdict.accepted else str(verdict.reason)


def noticing(site: Site, traps: dict[str, str], most: int) -> list[str]:
    """Return traps, at most so many, that are answered otherwise without the question; `traps` has the old answers."""
    found: list[str] = []
    with without(site) as judge:
        for name, before in traps.items():
            if len(found) < most and _answer(judge, name) != before:
                found.append(name)
    return found


def _answer(judge: Any, name: str) -> str:
    """Return the reason, or that a trap runs on: a limit of work is a question, too."""
    signal.alarm(_LONG if signal.getsignal(signal.SIGALRM) is _run_on else 0)
    try:
        return reason(judge, name)
    except _RunsOn:
        return "runs on"
    finally:
        signal.alarm(0)


class _RunsOn(BaseException):
    """No Exception, which a checker may catch."""


def _run_on(*_: object) -> None:
    raise _RunsOn


def _ends(names: list[str]) -> dict[str, tuple[list[tuple[str, int]], str]]:
    """Return the places of refusal by trap: files and lines of calls to the last Reject, inmost first; the reason."""
    last: list[tuple[str, int]] = []
    reject = importlib.import_module(f"{PACKAGE}.reject").Reject
    original = reject.__init__

    def remember(self: Exception, *arguments: object) -> None:
        last[:] = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_stack(sys._getframe(1))]
        original(self, *arguments)

    reject.__init__ = remember
    try:
        found = {}
        for name in names:
            says = reason(checker.judge_bytes, name)
            found[name] = (last[:], says)
        return found
    finally:
        del reject.__init__


def _pattern(site: Site) -> re.Pattern[str]:
    """Match the reasons that a pair gives."""
    what = ast.parse(site.text, mode="eval").body
    assert isinstance(what, ast.Tuple)
    text = what.elts[0]
    parts = text.values if isinstance(text, ast.JoinedStr) else [text]
    says = "".join(re.escape(str(one.value)) if isinstance(one, ast.Constant) else ".*" for one in parts)
    return re.compile(rf"(?:not true|undecided at \d+ bits): {says}")


def traps_by_question() -> dict[str, list[str]]:
    """Return the traps of the corpus that end at each question and notice when it is switched off."""
    ends = _ends([name.removesuffix(".json") for name in invalid()])
    found: dict[str, list[str]] = {}
    for site in sites():
        path = str(FOLDER / (site.module.replace(".", "/") + ".py"))
        if site.text.startswith("raise"):
            here = [name for name, (((file, line), *_), _) in ends.items() if file == path and line in site.lines]
        elif site.text.startswith("("):
            pattern = _pattern(site)
            here = [name for name, (_, says) in ends.items() if pattern.fullmatch(says)]
        else:
            here = [name for name, (calls, _) in ends.items() if any(f == path and n in site.lines for f, n in calls)]
        found.setdefault(site.name, []).extend(noticing(site, {name: ends[name][1] for name in here[:_SEVERAL]}, 2))
    return dict(sorted(found.items()))


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, _run_on)
    lines = [f"{json.dumps(name)}: {json.dumps(traps)}" for name, traps in traps_by_question().items()]
    TRAPS.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    print(f"{sum(': []' not in line for line in lines)} of {len(lines)} questions are noticed by a trap")
