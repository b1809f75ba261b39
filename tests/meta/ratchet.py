"""Counts of what stops a reader; they may only fall. ``python -m tests.meta.ratchet`` writes the lower ones down."""

import ast
import io
import itertools
import json
import re
import shutil
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PINNED = Path(__file__).with_name("ratchet.json")
PACKAGES = ("attnprune_verify", "proofs_check")

HEADLESS = re.compile(r"(What|Whether|How|Which|Where|Of|As|It|They|Those|Its|Their|About|By|In|On|Per|Under)\b")
"""First words of lines without a subject or a verb."""

READ_TWICE = re.compile(
    r"(The same|Such)\b|.*\b(ask|say|tell|know|want|look at|look for|give up)s?\b|.*\b(asked|said|told|looked at)\b"
    r"|.*\bso (many|much)\b|Return whether (it|they)\b"
)
"""First lines where a program does as a person does, or whose subject or number stands in another text."""

BODIES = ("body", "orelse", "handlers", "finalbody", "cases")
"""Fields of a statement that hold statements."""

COMPLEXITY = 15
"""Chosen: branches of a function that still fits on a page."""


def sources() -> Iterator[tuple[Path, str]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path, path.read_text(encoding="utf-8")


def is_number(node: ast.expr | None) -> bool:
    """Report whether the expression is a number other than 0 and 1, or arithmetic on numbers alone."""
    if node is None or not any(isinstance(one, ast.Constant) for one in ast.walk(node)):
        return False
    constants = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
    allowed = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop, ast.Tuple, ast.Load)
    return (
        all(isinstance(one, allowed) for one in ast.walk(node))
        and all(isinstance(one, int | float) and not isinstance(one, bool) for one in constants)
        and not set(constants) <= {0, 1}
    )


@lru_cache(maxsize=1)
def parsed(text: str) -> ast.Module:
    """Return the tree of a source, which several counts walk; keeping all trees costs more than parsing anew."""
    return ast.parse(text)


def statements(text: str) -> Iterator[ast.AST]:
    """Yield the module and all that stands in bodies; no expressions, which take longer than the rest."""
    found: list[ast.AST] = [parsed(text)]
    for node in found:  # grows
        found += [inner for part in BODIES for inner in getattr(node, part, ())]
        yield node


def numbers_without_a_reason(text: str) -> Iterator[str]:
    """Yield names of module-level numbers with no comment on or above their line and no string below."""
    body = parsed(text).body
    pairs = itertools.zip_longest(body, body[1:])
    found = [
        (one, after) for one, after in pairs if isinstance(one, ast.Assign | ast.AnnAssign) and is_number(one.value)
    ]
    commented: set[int] = set()
    if found:  # tokens take longer than all the rest
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        commented = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
    for node, following in found:
        lines = set(range(node.lineno - 1, (node.end_lineno or node.lineno) + 1))
        below = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
        if not below and not lines & commented:
            yield ast.unparse(node).split("=")[0].strip()


def first_lines(text: str, kind: re.Pattern[str]) -> Iterator[str]:
    """Yield the first lines of docstrings that match, names in backquotes left out."""
    for node in statements(text):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            if kind.match(re.sub("`+[^`]*`+", "", first)):
                yield first


def class_names(text: str) -> Iterator[str]:
    """Yield the names of a source's classes, leading underscores aside."""
    return (node.name.lstrip("_") for node in statements(text) if isinstance(node, ast.ClassDef))


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that stand for more than one class."""
    return [name for name, count in Counter(names).items() if count > 1]


def complex_functions() -> int | None:
    """Count functions above the complexity allowed; None where ruff is not installed."""
    if not shutil.which("ruff"):
        return None
    options = ["--select", "C901", "--config", f"lint.mccabe.max-complexity={COMPLEXITY}", "--output-format", "json"]
    command = ["ruff", "check", "--isolated", "--exit-zero", *options, *PACKAGES]
    return len(json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout))


def counts() -> dict[str, int]:
    """Return the count of each kind over the package and the checkers."""
    found: Counter[str] = Counter()
    names: list[str] = []
    lines = 0
    for _, text in sources():
        lines += text.count("\n")
        found["numbers without a reason"] += len(list(numbers_without_a_reason(text)))
        found["headless docstrings"] += len(list(first_lines(text, HEADLESS)))
        found["first lines read twice"] += len(list(first_lines(text, READ_TWICE)))
        found["Any in 10,000 lines"] += len(re.findall(r"\bAny\b", text))
        names += class_names(text)
    found["Any in 10,000 lines"] = -(-10_000 * found["Any in 10,000 lines"] // lines)
    found["class names with two meanings"] = len(repeated(names))
    branches = complex_functions()
    return dict(found) if branches is None else {**found, "complex functions": branches}


if __name__ == "__main__":
    before, now = json.loads(PINNED.read_text()) if PINNED.exists() else {}, counts()
    risen = {kind: (before[kind], count) for kind, count in now.items() if count > before.get(kind, count)}
    if risen:
        raise SystemExit(f"counts may only fall; these rose (before, now): {risen}")
    PINNED.write_text(json.dumps(now, indent=2) + "\n")
    print(now)
