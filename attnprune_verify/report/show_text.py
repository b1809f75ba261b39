"""One statement in a few lines, or on a page: its text, the findings, the counterexample in numbers, the repair."""

import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attnprune_verify
from attnprune_verify.claims.excerpts import quotation
from attnprune_verify.claims.formulas.scope import hypotheses, limits, quantifier, sentence
from attnprune_verify.claims.formulas.symbols import symbols_of
from attnprune_verify.claims.judging.judge import ROUNDING
from attnprune_verify.claims.prior import known_or_new
from attnprune_verify.claims.run import ClaimRecord, snippet, witness
from attnprune_verify.report.blocks import Block, paragraph
from attnprune_verify.report.claims_text import STYLE

_LONGEST = 400
"""Characters of a value printed in full; longer ones are in ``--format json``."""
_BRIEF = 240
"""Characters of a counterexample in the summary, chosen: three lines; longer ones are named by their origin."""
_ASKS = {
    "identity": "both sides are equal",
    "upper": "the left side is at most the right one",
    "lower": "the left side is at least the right one",
    "tight": "a bound that cannot be improved: some case or limit meets it",
}
_MEANS = {
    "refuted": "false: the counterexample below was confirmed in exact or ball arithmetic",
    "misstated": "as printed it has a definite meaning, which cannot be what is meant",
    "holds": "no case meets the hypotheses and violates it",
    "vacuous": "nothing meets its hypotheses, so it says nothing",
    "ill-posed": "as printed it has no definite meaning",
    "not-reproduced": "measured on other models, texts or draws, and found otherwise",
    "open": "neither confirmed nor refuted",
}


def summary_of(record: ClaimRecord, repairs: Sequence[ClaimRecord], *, kept: bool) -> list[Block]:
    """Return the summary of a record, about ten lines: the statement, the verdict, its numbers, the repair."""
    return [*_summary(record, repairs, kept), paragraph("", 0)]


def _summary(record: ClaimRecord, repairs: Sequence[ClaimRecord], kept: bool) -> Iterable[Block]:
    claim, evidence = record.claim, record.evidence
    yield _heading(record)
    yield paragraph(claim.says or f"{claim.title}: {claim.formula}")
    if letters := "; ".join(f"{name} is {words}" for name, words in symbols_of(claim).items()):
        yield paragraph(f"where {letters}")
    if beyond := [name for name in hypotheses(claim) if "".join(name.split()) not in "".join(claim.formula.split())]:
        yield paragraph(f"if {' and '.join(beyond)}")
    if limits(claim):
        yield paragraph(f"checked where {' and '.join(limits(claim))}")
    found, refuted = witness(record), record.judgement.smallest is not None
    grades = ", ".join([evidence.grade, *_grades(record)])
    reasons = [grades] if refuted else [grades, record.judgement.reason]
    if evidence.proof.value != "none":
        reasons.append(f"the printed proof: {evidence.proof.value}")
    if kept:
        reasons.append("kept from an earlier run")
    yield paragraph(f"evidence: {'; '.join(reasons)}")
    if refuted and found is not None:
        values = found.get("inputs", found.get("measured", {}))
        shown = ", ".join(f"{name} = {json.dumps(value)}" for name, value in values.items())
        yield paragraph(f"counterexample: {shown if len(shown) <= _BRIEF else found['origin']}")
        if claimed := _claimed(record, found):
            yield paragraph(claimed)
    yield from (paragraph(f"repaired by {one.claim.test_id}, {one.statement.value}") for one in repairs)


def page_of(record: ClaimRecord, repairs: Sequence[ClaimRecord], *, kept: bool) -> list[Block]:
    """Return the page of a record; `repairs` are the records that repair it, `kept` marks an earlier run."""
    return [*_page(record, repairs, kept), paragraph("", 0)]


def _page(record: ClaimRecord, repairs: Sequence[ClaimRecord], kept: bool) -> Iterable[Block]:
    claim = record.claim
    yield _heading(record)
    yield paragraph(f"{claim.title}; {claim.section}; {claim.kind.value}, {claim.source}")
    quoted = quotation(claim.id)
    if quoted is not None:
        yield from _part("the paper's words", f"{quoted.text} (line {quoted.line} of its LaTeX)")
    yield from _part(
        "judged" if claim.group in ("text", "consequence") else "says",
        sentence(claim),
        claim.formula if claim.says else "",
    )
    yield from _part("where", *(f"{name} is {words}" for name, words in symbols_of(claim).items()))
    yield from _part("reading", claim.reading.says)
    yield from _part("for", quantifier(claim))
    yield from _part("if", *hypotheses(claim))
    yield from _part("checked where", *limits(claim))
    if "measured" not in claim.tags:
        yield from _part("kind of relation", f"{claim.strength.value}: {_ASKS[claim.strength.value]}")
    yield from _part("verdict", *_verdict(record, kept))
    yield from _part("found", claim.finding)
    yield from _part("note", claim.note)
    yield from _numbers(record)
    mended = (f"{one.claim.test_id}, {one.statement.value}: {sentence(one.claim)}" for one in repairs)
    yield from _part("repaired by", *mended)
    yield from _part("proof of the repair", *dict.fromkeys(file for one in repairs for file in one.evidence.files))
    proof = record.evidence.proof.value
    steps = [] if proof == "none" else [f"the printed proof: {proof}", *record.evidence.proof_steps]
    yield from _part("evidence", record.evidence.grade, *_grades(record), *steps, *record.evidence.files)
    for one in record.evidence.theorems:
        yield from _part(f"theorem {one['theorem']} in Coq ({one['part']})", one["type"])
    yield from _part("known or new", *known_or_new(claim))
    if claim.uses:
        standing = "all of them hold" if record.ancestors_hold else "not all of them hold"
        yield from _part("rests on", f"{', '.join(claim.uses)} ({standing})")
    yield from _part("code", _place(record))


def _heading(record: ClaimRecord) -> Block:
    claim, verdict = record.claim, record.statement.value
    return {
        "indent": 0,
        "spans": [[f"{claim.id} ({claim.reading.name})", "bold"], ["   ", ""], [verdict, STYLE[verdict]]],
    }


def _grades(record: ClaimRecord) -> list[str]:
    """Return the evidence of each part, where the parts differ."""
    parts = record.evidence.sentence or record.evidence.parts
    return [f"{part}: {grade}" for part, grade in parts.items()] if len(set(parts.values())) > 1 else []


def _claimed(record: ClaimRecord, found: Mapping[str, Any]) -> str | None:
    """Return the relation that is claimed, and both sides; None where the statement is measured or has no sides."""
    if "measured" in record.claim.tags or found["relation"] is None or found["lhs"] is None:
        return None
    part = f" ({found['part']})" if found["part"] else ""
    here = "false here: " if record.judgement.smallest is not None else ""
    return f"claimed: lhs {found['relation']} rhs{part}; {here}lhs = {found['lhs']:.10g}, rhs = {found['rhs']:.10g}"


def _verdict(record: ClaimRecord, kept: bool) -> Iterable[str]:
    judgement, verdict = record.judgement, record.statement.value
    yield f"{verdict}: {_MEANS[verdict]}"
    met = f"; {judgement.tried} cases tried, {_outcome(record)}" if judgement.tried else ""
    yield judgement.reason + met
    if kept:
        yield "This verdict is kept from an earlier run of the same code; --fresh judges anew."


def _outcome(record: ClaimRecord) -> str:
    """Count of the cases: with hypotheses how many met them, else how many were decided."""
    judgement, word = record.judgement, "met the conditions" if record.claim.hypotheses else "decided"
    return f"{judgement.met} {word}"


def _numbers(record: ClaimRecord) -> Iterable[Block]:
    found = witness(record)
    if found is None:
        return
    judgement = record.judgement
    refuted = judgement.smallest is not None
    values = found.get("inputs", found.get("measured", {}))
    where = "of those where attention decides" if judgement.shown is judgement.nearest else "of all that were tried"
    title = "counterexample" if refuted else f"closest case ({where}, the one nearest to violating it)"
    yield from _part(title, found["origin"], *(f"{name} = {_short(value)}" for name, value in values.items()))
    if "measured" in record.claim.tags:
        return
    if claimed := _claimed(record, found):
        yield paragraph(claimed, 4)
        if not refuted and judgement.shown is not None and found["relation"] != "==":
            slack = f"slack {judgement.shown.slack:.3g}: the gap over the sum of both sides, 0 where they are equal"
            yield paragraph(slack, 4)
            if judgement.shown.slack < 0:
                yield paragraph(
                    f"below 0 by the rounding of float64, for which {ROUNDING:g} is allowed: not violated", 4
                )
    command = snippet(record.claim, judgement.shown)
    if command is not None:
        yield paragraph("to evaluate it again, in Python:", 4)
        yield paragraph(command, 6)


def _place(record: ClaimRecord) -> str:
    """The file and line of the function that evaluates the statement."""
    margin = inspect.unwrap(record.claim.margin)
    code = getattr(margin, "__code__", None)
    if code is None:
        return type(margin).__module__
    root = Path(attnprune_verify.__file__).parent.parent
    return f"{Path(code.co_filename).relative_to(root).as_posix()}, line {code.co_firstlineno}"


def _part(title: str, *lines: str) -> Iterable[Block]:
    shown = [line for line in lines if line]
    if shown:
        yield paragraph(title, style="dim")
        yield from (paragraph(line, 4) for line in shown)


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:60]} ... ({len(text)} characters; --format json has them all)"
