"""The arena: attacks on this library, each with the check that stops it, and the page that lists them.

A test that attacks carries ``@attack(CLASS, SENTENCE, stopped_by="package.module:name")``; a test that shows an open
door carries ``@undefended(CLASS, SENTENCE)``. ``python -m tests.arena`` writes docs/security.md from both.
"""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "security.md"

PROMISES = {
    "A": (
        "Files of the user",
        "Only files that the library wrote itself are deleted or replaced.",
    ),
    "B": (
        "Wrong code is never called passed",
        "The auditing process computes, judges and prints, holds the arguments, and counts and times calls itself: a "
        "program under audit can only answer wrongly. Its answers are what its process says, as listed below.",
    ),
    "C": (
        "Secrets and reach",
        "A program under audit receives a short list of environment variables. Where the kernel can "
        "confine it, it reads and writes only what it needs and reaches no network.",
    ),
    "D": (
        "No other result",
        "Forged or damaged state is computed anew or refused with its name; it never becomes a result.",
    ),
    "E": (
        "The machine stays usable",
        "Input is refused before its size can take memory, time or names.",
    ),
    "F": (
        "Only the model is copied",
        "Links that leave the folder and files that are not the model's are not copied.",
    ),
    "G": (
        "Full disk and power",
        "After a full disk, a kill or a power cut the same command resumes to the same bytes.",
    ),
    "H": (
        "Errors one can read",
        "Bad input ends in one line on stderr and exit code 2 or 3, without a traceback.",
    ),
    "K": (
        "Certificates that prove something",
        "A certificate of a trivial or weaker statement is rejected by both checkers.",
    ),
}
"""Class of attack: its title and the promise."""


@dataclass(frozen=True)
class Attack:
    """One attack, or one open door: its class, its sentence, and the check that stops it (None for an open door)."""

    kind: str
    sentence: str
    stopped_by: str | None


def attack(kind: str, sentence: str, *, stopped_by: str, quick: bool = False) -> Callable[[Any], Any]:
    """Mark a test as an attack of class ``kind``; the test passes where the attack is stopped.

    ``stopped_by`` is the dotted path of the check, ``package.module:name``. The test runs in the thorough profile, with
    ``quick=True`` in the default one as well.
    """
    return _marked(Attack(kind, sentence, stopped_by), quick)


def undefended(kind: str, sentence: str, *, quick: bool = False) -> Callable[[Any], Any]:
    """Mark a test that shows what is *not* defended; the test passes where the door is open."""
    return _marked(Attack(kind, sentence, None), quick)


def _marked(entry: Attack, quick: bool) -> Callable[[Any], Any]:
    if entry.kind not in PROMISES:
        raise ValueError(f"the class of an attack must be one of {', '.join(PROMISES)}; got {entry.kind!r}")

    def mark(test: Any) -> Any:
        test.arena = [*getattr(test, "arena", []), entry]
        return test if quick else pytest.mark.thorough(test)

    return mark


def entries() -> Iterator[tuple[str, Attack]]:
    """Yield every marked test of this folder as (path::name, its entry), in the order of the files."""
    for path in sorted(HERE.glob("test_*.py")):
        module = importlib.import_module(f"{__package__}.{path.stem}")
        for name, test in vars(module).items():
            for entry in getattr(test, "arena", []):
                yield f"tests/arena/{path.name}::{name}", entry


def resolved(dotted: str) -> Any:
    """Return the object at ``package.module:name`` (dots in the name are attributes)."""
    module, _, name = dotted.partition(":")
    return reduce(getattr, name.split("."), importlib.import_module(module))


def page() -> str:
    """Return the text of docs/security.md: per class what is promised, what was tried, what is not defended."""
    found = list(entries())
    stopped = sum(entry.stopped_by is not None for _, entry in found)
    lines = [
        "# Security: promised, tested, not defended",
        "",
        "Written by `python -m tests.arena` from the tests in `tests/arena/`; a test compares. "
        f"{stopped} attacks are stopped, {len(found) - stopped} open doors are shown by a test. "
        "`pytest --attnprune-thorough tests/arena` runs all of them.",
    ]
    for kind, (title, promise) in PROMISES.items():
        lines += ["", f"## {title}", "", f"**Promised.** {promise}"]
        mine = [(where, entry) for where, entry in found if entry.kind == kind]
        if attacks := [(where, entry) for where, entry in mine if entry.stopped_by]:
            lines += ["", "| attack | stopped by | test |", "|---|---|---|"]
            lines += [f"| {_cell(e.sentence)} | `{e.stopped_by}` | `{where.split('::')[1]}` |" for where, e in attacks]
        if doors := [(where, entry) for where, entry in mine if not entry.stopped_by]:
            lines += ["", "**Not defended.**", ""]
            lines += [f"* {e.sentence} (`{where.split('::')[1]}`)" for where, e in doors]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
