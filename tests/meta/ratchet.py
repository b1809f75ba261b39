"""Counts of what stops a reader; they may only fall. ``python -m tests.meta.ratchet`` writes the lower ones down."""

import ast
import importlib.util
import io
import itertools
import json
import re
import shutil
import subprocess
import sys
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

HALF_A_SENTENCE = re.compile(
    r"Returns? (what|how|where|which|when|who|whom|whose|why|if|that|it|they|them"
    r"|of|as|in|on|by|per|at|to|from|for|with|under)\b"
)
"""First lines of functions in which no article and no noun follows "Return"; a value is none, "whether" begins none."""

PROSE = re.compile(
    r"\b(the|is|are|was|were|that|what|whether|where|how|which|it|its|they|there|may|has|have|had|why|whose|does|this"
    r"|these|each|every)\b|;"
)
"""Words of sentences, which no type has."""

SECTION = re.compile(
    r"^(?:Parameters|Attributes|Returns|Yields|Other Parameters)\n-{3,}\n((?:.+\n?|\n(?!\n?\S+\n-))*)", re.M
)
"""A section of a numpydoc docstring whose entries have types."""

PLACEHOLDERS = {"one", "ones", "some", "other", "others", "alone"}
"""Variables named by a word that stands for a noun; the other operand of an operator is `other` in all of Python."""

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


def returns_of_no_function(text: str) -> Iterator[str]:
    """Yield the first lines that begin with "Return" though a class or a property returns nothing."""
    for node in statements(text):
        decorators = map(ast.unparse, getattr(node, "decorator_list", ()))
        if isinstance(node, ast.ClassDef) or any(name.endswith("property") for name in decorators):
            first = (ast.get_docstring(node) or "").partition("\n")[0]  # type: ignore[arg-type]
            if re.match(r"Returns?\b", first):
                yield first


def prose_in_type_slots(text: str) -> Iterator[str]:
    """Yield the types of numpydoc's entries that are sentences; what stands in quotes or brackets is left out."""
    for node in statements(text):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for section in SECTION.finditer(ast.get_docstring(node) or ""):
                for slot in re.findall(r"^[\w*, `.]+ : (.*)", section[1], re.M):
                    if PROSE.search(re.sub(r'\(.*?\)|".*?"', "", slot)):
                        yield slot


def placeholders(text: str) -> Iterator[str]:
    """Yield the names of `PLACEHOLDERS` that are bound, once a binding."""
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("__"):
            node.args.args = [argument for argument in node.args.args if argument.arg != "other"]
        bound = node.arg if isinstance(node, ast.arg) else ""
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound = node.id
        if bound in PLACEHOLDERS:
            yield bound


def complex_functions() -> int | None:
    """Count functions above the complexity allowed; None where ruff is not installed."""
    found = shutil.which("ruff")
    ruff = [found] if found else [sys.executable, "-m", "ruff"] if importlib.util.find_spec("ruff") else []
    if not ruff:
        return None
    options = ["--select", "C901", "--config", f"lint.mccabe.max-complexity={COMPLEXITY}", "--output-format", "json"]
    command = [*ruff, "check", "--isolated", "--exit-zero", *options, *PACKAGES]
    return len(json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout))


def counts() -> dict[str, int]:
    """Count each kind over the package and the checkers; a kind that cannot be counted here is missing."""
    found: Counter[str] = Counter()
    names: list[str] = []
    lines = comments = 0
    for _, text in sources():
        lines += text.count("\n")
        comments += len(re.findall(r"^[^\"'\n]*# ", text, re.M))
        found["numbers without a reason"] += len(list(numbers_without_a_reason(text)))
        found["headless docstrings"] += len(list(first_lines(text, HEADLESS)))
        found["first lines read twice"] += len(list(first_lines(text, READ_TWICE)))
        found["Return without a noun"] += len(list(first_lines(text, HALF_A_SENTENCE)))
        found["Return of a class or a property"] += len(list(returns_of_no_function(text)))
        found["prose in a type slot"] += len(list(prose_in_type_slots(text)))
        found["variables named one, some, other, alone"] += len(list(placeholders(text)))
        found["Any in 10,000 lines"] += len(re.findall(r"\bAny\b", text))
        names += class_names(text)
    found["Any in 10,000 lines"] = -(-10_000 * found["Any in 10,000 lines"] // lines)
    found["tens of lines without a comment"] = -(-lines // (10 * comments))
    found["class names with two meanings"] = len(repeated(names))
    branches = complex_functions()
    return dict(found) if branches is None else {**found, "complex functions": branches}


def lowered(before: dict[str, int], now: dict[str, int]) -> dict[str, int]:
    """The counts to pin: those of now, and of a kind that was not counted the count before.

    Raises
    ------
    ValueError
        If a count rose.
    """
    risen = {kind: (before[kind], count) for kind, count in now.items() if count > before.get(kind, count)}
    if risen:
        raise ValueError(f"counts may only fall; these rose (before, now): {risen}")
    return before | now


if __name__ == "__main__":
    pinned = json.loads(PINNED.read_text()) if PINNED.exists() else {}
    try:
        pinned = lowered(pinned, counts())
    except ValueError as error:
        raise SystemExit(str(error)) from None
    PINNED.write_text(json.dumps(pinned, indent=2) + "\n")
    print(pinned)
