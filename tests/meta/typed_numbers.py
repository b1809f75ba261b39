"""Numbers on pages: those that no fence prints, which become fewer, and all of them, which are pinned.

A number comes from a command where it stands in a fence that the build runs or on a page that is `WRITTEN`. The others,
those of tables that a command wrote once among them, are counted page by page in typed_numbers.json, which may only
shrink. Whatever it comes from, and whether it is a digit or a word, a number of a page has a digest in
`tests.repinned`: the commands run in the thorough profile, but a changed number is noticed by default.
``python -m tests.meta.typed_numbers`` counts anew.
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COUNTS = Path(__file__).with_suffix(".json")
WRITTEN = (
    "docs/bank.md",
    "docs/kernel_bugs.md",
    "docs/audited_programs.md",
    "docs/kernels_real.md",
    "docs/released_shapes.md",
)
"""Pages that a command writes whole and a test compares: benchmarks/bank, tests/audit/kernel/kill_matrix.py,
benchmarks/audit_the_field.py, benchmarks/real_kernels."""
_AROUND = 24  # characters on each side, chosen: enough to tell one number from the next
_FENCE = re.compile(r"^```.*?^```[ ]*$", flags=re.DOTALL | re.MULTILINE)
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")

_WORDS = """two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty seventy eighty
ninety dozen hundred thousand million billion twice half third quarter fifth tenth hundredth thousandth""".split()
"""Number words; "one" is mostly none, and what it becomes when it is changed is in the list."""
_ANY = re.compile(rf"\d+|\b(?:{'|'.join(_WORDS)})s?\b", flags=re.IGNORECASE)


def pages() -> list[Path]:
    """Return README and every page of the documentation, but for those that are `WRITTEN`."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if page.relative_to(ROOT).as_posix() not in WRITTEN]


def every_page() -> list[Path]:
    """Return every page that a reader may meet; the history of changes is none, as it tells of numbers that were."""
    folders = ("docs", "proofs_check", "attnprune_verify", "benchmarks", "examples", "tests")
    found = [*ROOT.glob("*.md"), *(page for folder in folders for page in (ROOT / folder).rglob("*.md"))]
    return sorted(page for page in found if page.name != "CHANGELOG.md")


def numbers(text: str) -> list[str]:
    """Return every number of a page, in digits or in words, fences included, with the text around it.

    Examples
    --------
    >>> numbers("Of 79 statements twice as many hold.")
    ['Of 79 statements ', ' statements twice as many hol']
    """
    plain = " ".join(text.split())
    return [plain[max(0, one.start() - _AROUND // 2) : one.end() + _AROUND // 2] for one in _ANY.finditer(plain)]


def typed(text: str) -> list[str]:
    """Return each typed number of a page with the words around it, white space made one.

    Examples
    --------
    >>> typed("It is 200 times the other.")
    ['It is 200 times the other.']
    """
    prose = " ".join(_FENCE.sub(" ", text).split())
    return [prose[max(0, one.start() - _AROUND) : one.end() + _AROUND] for one in _NUMBER.finditer(prose)]


def counts() -> dict[str, int]:
    """Count the typed numbers of each page."""
    found = {page.relative_to(ROOT).as_posix(): len(typed(page.read_text("utf-8"))) for page in pages()}
    return {name: count for name, count in found.items() if count}


if __name__ == "__main__":
    COUNTS.write_text(json.dumps(counts(), indent=1) + "\n", "utf-8")
    print(f"{sum(counts().values())} numbers are typed on {len(counts())} pages")
