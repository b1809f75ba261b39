"""Numbers in README and on the pages of `docs` that no fence prints, with the words around them.

A number comes from a command where it stands in a fence that the build runs or on a page that is `WRITTEN`. The others,
those of tables that a command wrote once among them, are counted page by page in typed_numbers.json, which may only
shrink, and pinned by the ledger of `tests.repinned`, so that a changed one needs a reason.
``python -m tests.meta.typed_numbers`` counts anew.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COUNTS = Path(__file__).with_suffix(".json")
WRITTEN = ("docs/kill_matrix.md", "docs/kernel_kill_matrix.md", "docs/kernel_bugs.md", "docs/audited_programs.md")
"""Pages that a command writes whole and a test compares: tests/audit/kill_matrix.py, kernel/kill_matrix.py,
benchmarks/audit_the_field.py."""
_AROUND = 24  # characters on each side, chosen: enough to tell one number from the next
_FENCE = re.compile(r"^```.*?^```[ ]*$", flags=re.DOTALL | re.MULTILINE)
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


def pages() -> list[Path]:
    """Return README and every page of the documentation, but for those that are `WRITTEN`."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if page.relative_to(ROOT).as_posix() not in WRITTEN]


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
    """Return how many numbers of each page are typed."""
    found = {page.relative_to(ROOT).as_posix(): len(typed(page.read_text("utf-8"))) for page in pages()}
    return {name: count for name, count in found.items() if count}


if __name__ == "__main__":
    COUNTS.write_text(json.dumps(counts(), indent=1) + "\n", "utf-8")
    print(f"{sum(counts().values())} numbers are typed on {len(counts())} pages")
