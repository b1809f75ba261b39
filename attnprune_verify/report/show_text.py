"""One statement on a page: its text, the findings, the counterexample in numbers, the repair, and the next commands."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import attnprune_verify
from attnprune_verify.claims.excerpts import quotation
from attnprune_verify.claims.judge import ROUNDING
from attnprune_verify.claims.prior import known_or_new
from attnprune_verify.claims.run import ClaimRecord, snippet, witness
from attnprune_verify.claims.scope import hypotheses, quantifier, sentence
from attnprune_verify.claims.symbols import symbols_of
from attnprune_verify.report.blocks import Block
from attnprune_verify.report.claims_text import STYLE

__all__ = ["page_of"]

_LONGEST = 400
"""Characters of a value printed in full; longer ones are in ``--format json``."""
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


def page_of(record: ClaimRecord, repairs: Sequence[ClaimRecord], *, kept: bool) -> list[Block]:
    """Return the page of a record; `repairs` are the records that repair it, `kept` marks an earlier run."""
    return [*_page(record, repairs, kept), _block("", 0)]


def _page(record: ClaimRecord, repairs: Sequence[ClaimRecord], kept: bool) -> Iterable[Block]:
    claim, verdict = record.claim, record.statement.value
    name = f"{claim.id} ({claim.reading.name})"
    yield {"indent": 0, "spans": [[name, "bold"], ["   ", ""], [verdict, STYLE[verdict]]]}
    yield _block(f"{claim.title}; {claim.section}; {claim.kind.value}, {claim.source}")
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
    parts = record.evidence.parts
    grades = [f"{part}: {grade}" for part, grade in parts.items()] if len(set(parts.values())) > 1 else []
    yield from _part("evidence", record.evidence.grade, *grades, *steps, *record.evidence.files)
    for one in record.evidence.theorems:
        yield from _part(f"theorem {one['theorem']} in Coq ({one['part']})", one["type"])
    yield from _part("known or new", *known_or_new(claim))
    if claim.uses:
        standing = "all of it holds" if record.ancestors_hold else "not all of it holds"
        yield from _part("rests on", f"{', '.join(claim.uses)} ({standing})")
    yield from _part("code", _place(record))


def _verdict(record: ClaimRecord, kept: bool) -> Iterable[str]:
    judgement, verdict = record.judgement, record.statement.value
    yield f"{verdict}: {_MEANS[verdict]}"
    met = f"; {judgement.tried} cases tried, {judgement.met} met the hypotheses" if judgement.tried else ""
    yield judgement.reason + met
    if kept:
        yield "This verdict is kept from an earlier run of the same code; --fresh judges anew."


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
    if found["relation"] is not None and found["lhs"] is not None:
        part = f" ({found['part']})" if found["part"] else ""
        here = "which is false here: " if refuted else ""
        sides = f"lhs = {found['lhs']:.10g}, rhs = {found['rhs']:.10g}"
        yield _block(f"claimed: lhs {found['relation']} rhs{part}; {here}{sides}", 4)
        if not refuted and judgement.shown is not None and found["relation"] != "==":
            slack = f"slack {judgement.shown.slack:.3g}: the gap over the sum of both sides, 0 where they are equal"
            yield _block(slack, 4)
            if judgement.shown.slack < 0:
                yield _block(f"below 0 by the rounding of float64, for which {ROUNDING:g} is allowed: not violated", 4)
    command = snippet(record.claim, judgement.shown)
    if command is not None:
        yield _block("to evaluate it again, in Python:", 4)
        yield _block(command, 6)


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
        yield _block(title, style="dim")
        yield from (_block(line, 4) for line in shown)


def _block(text: str, columns: int = 2, style: str = "") -> Block:
    return {"indent": columns, "spans": [[text, style]]}


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:60]} ... ({len(text)} characters; --format json has them all)"
