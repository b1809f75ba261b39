"""Findings of the stored runs on every measured sentence."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

from attnprune_verify.experiments.paired import verdicts
from attnprune_verify.experiments.stored.kind import BESIDES
from attnprune_verify.experiments.stored.kinds import KINDS, MeasuredSentence, StoredSynthetic
from attnprune_verify.experiments.stored.record import FOLDER, NAMES, read
from attnprune_verify.experiments.synthetic.run import Results

_WORDS = {True: "agrees", False: "disagrees", None: "undecided"}


@dataclass(frozen=True)
class Measured:
    """A sentence with the commands that measure it, on what, and one finding per measured reading."""

    says: str
    criterion: str
    commands: list[str] = field(default_factory=list)
    data: list[str] = field(default_factory=list)
    findings: list[MeasuredSentence] = field(default_factory=list)
    besides: list[str] = field(default_factory=list)
    """Findings on settings for which nobody had predicted the sentence."""


@cache
def measured() -> dict[str, Measured]:
    """Return the findings of all records by sentence, computed from their rows.

    The findings of several records on one sentence are corrected together, and a reading that is in two of them with
    the same numbers counts once.
    """
    found: dict[str, Measured] = {}
    for name in NAMES:
        record, rows = read(FOLDER / name)
        stored = KINDS[record.experiment](record.plan)
        for one in stored.findings(rows):
            entry = found.setdefault(one.id, Measured(one.says, one.criterion))
            if one.verdict == BESIDES:
                entry.besides.append(f"{one.reading}, {one.numbers}")
                continue
            entry.findings.append(one)
            for said, new in ((entry.commands, record.command), (entry.data, stored.data)):
                said += [] if new in said else [new]
    for entry in found.values():
        entry.findings[:] = _together(entry.findings)
    return found


def _together(findings: Iterable[MeasuredSentence]) -> list[MeasuredSentence]:
    """Return each reading once; the verdicts of tested readings are corrected for the number of them.

    Examples
    --------
    >>> from attnprune_verify.experiments.paired import Doubts
    >>> one = MeasuredSentence("id", "says", "below", "agrees", "k = 1", "0.9", Doubts(0.02, 0.98))
    >>> [found.verdict for found in _together([one, one])]
    ['agrees']
    >>> [found.verdict for found in _together([one, one._replace(reading="k = 2")])]
    ['undecided', 'undecided']
    """
    every = list({(one.reading, one.numbers): one for one in findings}.values())
    tested = [one for one in every if one.doubts is not None]
    truths = iter(verdicts([one.doubts for one in tested if one.doubts is not None]))
    return [one if one.doubts is None else one._replace(verdict=_WORDS[next(truths)]) for one in every]


def stored_results() -> Results:
    """The stored run of Figure 2's default plan; its chaos diagnostic is not stored.

    Examples
    --------
    >>> results = stored_results()
    >>> {row["k"] for row in results.rows} == {k for k, _ in results.plan.seeds}
    True
    """
    record, rows = read(FOLDER / "figure2")
    return StoredSynthetic(record.plan).results(rows)
