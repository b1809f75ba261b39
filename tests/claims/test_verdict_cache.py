"""A kept verdict or page has the key of all that it depends on: each file and library alone changes the key."""

import ast
import shutil
import sys
from functools import cache
from pathlib import Path

import pytest

import attnprune_verify
from attnprune_verify.claims.judging import text_cache, verdict_cache
from attnprune_verify.claims.judging.falsifier import QUICK
from attnprune_verify.claims.registry import find

PACKAGE = Path(attnprune_verify.__file__).parent
KEYS = {"verdict": verdict_cache._ABOVE, "page": text_cache._NO_PAGE}
STATEMENTS = [f"claims.statements.{path.stem}" for path in (PACKAGE / "claims" / "statements").glob("*.py")]
ENTRIES = {"verdict": ["claims.run", *STATEMENTS], "page": ["claims.run", "report.show_text", *STATEMENTS]}
"""What computes a verdict, and what writes a page of it."""
NOT_COMPUTING = {
    "click": "options",
    "rich": "drawing",
    "hypothesis": "strategies for users",
    "matplotlib": "pictures",
    "joblib": "the same work in several processes",
    "threadpoolctl": "how many threads BLAS takes",
    "tokenizers": "stored runs that are done again",
    "array_api_compat": "one name for the functions of NumPy and torch",
}
"""Libraries that a kept floor may load, and what for."""


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("copied") / "attnprune_verify"
    shutil.copytree(PACKAGE, target, ignore=shutil.ignore_patterns("__pycache__", "*.xz"))
    return target


def key(kind: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(attnprune_verify, "__file__", str(root / "__init__.py"))
    return str(text_cache.code_key.__wrapped__(KEYS[kind]))


@pytest.mark.parametrize("kind", KEYS)
def test_a_file_of_every_folder_is_in_the_key(kind: str, copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more blank at the end of a file changes the key, and the next one again."""
    before = key(kind, copied, monkeypatch)
    for folder in sorted({path.parent for path in copied.rglob("*.py")}):
        floor = folder.relative_to(copied).parts[:1]
        path = min(path for path in folder.iterdir() if path.is_file() and path.suffix in (".py", ".json"))
        path.write_bytes(path.read_bytes() + b" ")
        after = key(kind, copied, monkeypatch)
        assert (after != before) is not bool({*floor} & {*KEYS[kind]}), path
        before = after


@cache
def imported(module: str) -> set[str]:
    """Return the modules that a module of the package imports anywhere in it, below the package or outside."""
    path = PACKAGE / (module.replace(".", "/") + ".py")
    path = path if path.exists() else PACKAGE / module.replace(".", "/") / "__init__.py"
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def reached(entries: list[str]) -> tuple[set[str], set[str]]:
    """Return the modules of the package that some are made of, and the libraries that these load."""
    inside, outside, left = set(), set(), [*entries]
    while left:
        module = left.pop()
        if module in inside:
            continue
        inside.add(module)
        for name in imported(module):
            own = name.removeprefix("attnprune_verify.")
            if own == name:
                outside |= {name.partition(".")[0]} - {"attnprune_verify"}
            elif (PACKAGE / (own.replace(".", "/") + ".py")).exists() or (PACKAGE / own.replace(".", "/")).is_dir():
                left.append(own)
    return inside, outside - sys.stdlib_module_names


@pytest.mark.parametrize("kind", KEYS)
def test_what_is_left_out_of_the_key_is_not_imported(kind: str) -> None:
    inside, _ = reached(ENTRIES[kind])
    assert len(inside) > 100 and {module.partition(".")[0] for module in inside} & {*KEYS[kind]} == set()


def test_every_library_that_computes_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    _, outside = reached(ENTRIES["page"])
    named = {"flint": "python-flint"}
    assert {named.get(name, name) for name in outside} - {*NOT_COMPUTING} <= {*text_cache._LIBRARIES}
    before = text_cache.code_key.__wrapped__(("report",))
    versions = text_cache.versions
    for library in text_cache._LIBRARIES:
        monkeypatch.setattr(
            text_cache, "versions", lambda names, one=library: {**dict(versions(names)), one: "another"}
        )
        assert text_cache.code_key.__wrapped__(("report",)) != before


def test_every_argument_is_in_the_key() -> None:
    claim = find("new:bound_p", "any")
    names = {
        verdict_cache._name(one, QUICK) for one in (claim, find("lem:PL_ineq", "full"), find("lem:PL_ineq", "causal"))
    }
    names |= {
        verdict_cache._name(claim, QUICK._replace(**{field: getattr(QUICK, field) + 1})) for field in QUICK._fields
    }
    assert len(names) == 3 + len(QUICK._fields)
