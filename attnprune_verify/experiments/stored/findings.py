"""What the stored runs say about every sentence that was measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from attnprune_verify.experiments.stored.kinds import KINDS, Finding, Synthetic
from attnprune_verify.experiments.stored.record import FOLDER, NAMES, read
from attnprune_verify.experiments.synthetic.run import Results

__all__ = ["Measured", "measured", "stored_results"]


@dataclass(frozen=True)
class Measured:
    """A sentence with the command that measures it, on what, and one finding per measured reading."""

    says: str
    criterion: str
    command: str
    data: str
    findings: list[Finding] = field(default_factory=list)


@cache
def measured() -> dict[str, Measured]:
    """By sentence, of all records; computed from their rows whenever it is asked for."""
    found: dict[str, Measured] = {}
    for name in NAMES:
        record, rows = read(FOLDER / name)
        stored = KINDS[record.experiment](record.plan)
        for one in stored.findings(rows):
            entry = found.setdefault(one.id, Measured(one.says, one.criterion, record.command, stored.data))
            entry.findings.append(one)
    return found


def stored_results() -> Results:
    """The stored run of Figure 2's default plan; its chaos diagnostic is not stored.

    Examples
    --------
    >>> results = stored_results()
    >>> {row["k"] for row in results.rows} == {k for k, _ in results.plan.seeds}
    True
    """
    record, rows = read(FOLDER / "figure2")
    return Synthetic(record.plan).results(rows)
