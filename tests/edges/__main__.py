"""List the refusals that no test of a run tried on their edge: ``python -m tests.edges FOLDER`` (see `plugin`)."""

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tests.edges.plugin import PACKAGES, ROOT, places

EXCEPTIONS = {
    "a clock decides, and nothing stops it on the instant": (
        "attnprune_verify.audit.subject.line.Line._ready: rest <= 0",
        "attnprune_verify.audit.subject.line.Line._ready: sum(now.values()) - sum(self._used.values()) >= ",
        "attnprune_verify.audit.subject.process.Subject._exchange: rest <= 0",
        "attnprune_verify.audit.subject.process.Subject._exchange: time.monotonic() >= ",
        "attnprune_verify.audit.subject.start._Forked.wait: time.monotonic() >= deadline",
    ),
    "a statement leaves a case out, of drawn numbers that do not tie; one on the edge may be judged as well": (
        "attnprune_verify.claims.statements.descent._imported: steps > _MOST_STEPS",
        "attnprune_verify.claims.statements.guarantees._repaired: mu > _SMALLEST_MU",
        "attnprune_verify.claims.statements.guarantees._squared: mu > _SMALLEST_MU",
        "attnprune_verify.claims.statements.guarantees._stationary: T > _MOST_STEPS",
        "attnprune_verify.claims.statements.kernel_rounding._output: kept > 0",
        "attnprune_verify.claims.statements.long_steps._backtracked: reached > q.L",
    ),
    "no rational number has the square 2": (
        "proofs_check.checker.statements.practical.check_informal: R * R < 2",
    ),
    "the producer compares balls of its own cases, and both checkers judge what it writes": ("proofs_check.producer.",),
}  # fmt: skip
"""Why no test meets an edge, and the refusals by the beginnings of their names."""


def faults(folder: Path) -> Iterator[str]:
    """Yield the refusals that were not tried and are not excepted, and exceptions that are needless."""
    found = {place for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")) for place in places(path)}
    if find_spec("torch") is None:  # whose tests were skipped
        found = {place for place in found if not place.startswith("attnprune_verify.torch.")}
    untried = found - {path.name for path in folder.iterdir()}
    excepted = tuple(start for starts in EXCEPTIONS.values() for start in starts)
    yield from sorted(place for place in untried if not place.startswith(excepted))
    for start in excepted:
        if not any(place.startswith(start) for place in untried):
            yield f"an exception that is needless: {start}"


if __name__ == "__main__":
    lines = list(faults(Path(sys.argv[1])))
    print(*lines, f"{len(lines)} refusals without a test on their edge", sep="\n")
    sys.exit(bool(lines))
