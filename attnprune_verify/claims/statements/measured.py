"""The sentences about the experiments, and ours, against what was measured: under every reading, under any?

What the stored runs found for each sentence and reading ("agrees", "disagrees", "undecided") is computed from their
rows when it is asked for; a sentence that was not measured has no claim here.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.cases.relation import Relation, equal
from attnprune_verify.claims.cases.supply import Fixed
from attnprune_verify.claims.core import Claim, Kind, Reading, Strength, Wrong
from attnprune_verify.experiments.paired import LEVEL
from attnprune_verify.experiments.stored.findings import Measured, measured
from attnprune_verify.theory.numbers.arithmetic import Undecidable

_EVERY = Reading("every", "every measured reading of the set-up (weights, lam, step, rho, in-sample and held-out)")
_SOME = Reading("some", "at least one measured reading of the set-up")
_LEFT_OPEN = {"new:output-obs-attention-in-pairs"}
"""Bounds that were set before measuring, and that the draws do not decide."""
_SCORE = {"agrees": 1, "disagrees": 0, "undecided": -1}


def _each(id_: str) -> Callable[[], Iterator[Case]]:
    def cases() -> Iterator[Case]:
        for one in measured()[id_].findings:
            yield Case({"score": _SCORE[one.verdict]}, f"{one.reading}: {one.numbers}")

    return cases


def _best(id_: str) -> Callable[[], Iterator[Case]]:
    """The best reading: one that agrees, else one that is undecided, else one that disagrees."""

    def cases() -> Iterator[Case]:
        for wanted in ("agrees", "undecided", "disagrees"):
            for one in measured()[id_].findings:
                if one.verdict == wanted:
                    yield Case({"score": _SCORE[wanted]}, f"{one.reading}: {one.numbers}")
                    return

    return cases


def _agrees(q: Quantities, wanted: int = 1) -> Relation:
    score = int(q.case["score"])
    if score < 0:
        raise Undecidable("the measurement cannot tell")
    return equal(q.number(score), q.number(wanted))


def _title(id_: str) -> str:
    """exp:n-errors-grow: "Over n: errors grow"."""
    topic, _, rest = id_.partition(":")[2].replace("-", " ").partition(" ")
    over = {name: f"Over {name}: " for name in ("lambda", "n", "rho")} | {"real": "On a real model: "}
    return over[topic] + rest if topic in over else f"{topic} {rest}".capitalize()


def _where(entry: Measured) -> str:
    """Return the settings that the sentence was measured on; a sentence about more would be broader than its check."""
    which: dict[str, list[str]] = {}
    for data in entry.data:
        kind, _, one = data.partition(": ")
        which.setdefault(kind, []).append(one)
    named = [f"{kind}: {', '.join(ones)}".removesuffix(": ") for kind, ones in which.items()]
    return f"Measured on {'; '.join(named)}."


def _counts(entry: Measured) -> str:
    """Count the readings that agree and disagree, with the reasons of those that decide nothing."""
    counts = Counter(one.verdict for one in entry.findings)
    verbs = {"agrees": "agree", "disagrees": "disagree", "undecided": "are undecided"}
    said = ", ".join(f"{counts[word]} {verb}" for word, verb in verbs.items() if counts[word])
    if not counts["undecided"]:
        return f"of {len(entry.findings)} readings {said}"
    return (
        f"of {len(entry.findings)} readings {said}: there the seeds differ too much, or are too few, for a verdict that"
        f" is wrong with probability {LEVEL:g} at most over all readings; more of them would decide"
    )


def _besides(entry: Measured) -> str:
    """Return the findings that nobody had predicted; to leave them out would be to choose."""
    return f"Besides, where no bound was set beforehand: {'; '.join(entry.besides)}. " if entry.besides else ""


def _claim(id_: str, entry: Measured, reading: Reading, cases: Callable[[], Iterator[Case]]) -> Claim:
    return Claim(
        id=id_,
        kind=Kind.EXPERIMENT,
        title=_title(id_),
        section="6 Experiment",
        reading=reading,
        says=f"{entry.says} {_where(entry)}",
        formula=entry.criterion,
        strength=Strength.IDENTITY,
        arithmetic="exact",
        margin=_agrees,
        supply=Fixed(cases),
        wrong=(Wrong("the opposite", lambda q: _agrees(q, 0)),),
        measured_on=_where(entry),
        source="the paper's text" if id_.startswith("exp:") else "new; measured, not proved",
        note=f"{_counts(entry)}. {_besides(entry)}Measured by: {'; '.join(entry.commands)}",
        conjecture=id_ in _LEFT_OPEN,
        tags=frozenset({"measured"}),
    )


def _all() -> Iterator[Claim]:
    for id_, entry in measured().items():
        yield _claim(id_, entry, _EVERY, _each(id_))
        if id_.startswith("exp:"):
            yield _claim(id_, entry, _SOME, _best(id_))


CLAIMS: tuple[Claim, ...] = tuple(_all())
