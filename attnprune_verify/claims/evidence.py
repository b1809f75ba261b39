"""Proofs and certificates of a statement, read from the index that the package carries.

``python -m proofs_check.evidence`` writes `evidence_index.json`: it replays proofs, re-checks certificates and lists
formal theorems; a test computes the index again. Nothing here is typed: a piece of evidence counts for a verdict only
if it says the same, under a reading that covers the claim's.
"""

import json
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from attnprune_verify.claims.core import Claim, Proof, Strength, Verdict
from attnprune_verify.claims.judging.judge import Judgement

GRADES = ("formal", "certified", "exact", "measured")

_FALSE = (Verdict.REFUTED, Verdict.MISSTATED, Verdict.ILL_POSED)
"""Verdicts that one witness shows."""

EXISTENTIAL = "existential"
"""Tag of claims that one certified instance proves."""


class Evidence(NamedTuple):
    """The verdict on the printed proof, the grade of evidence that every part of the statement has, and its files."""

    proof: Proof
    grade: str
    files: tuple[str, ...]
    proof_steps: tuple[str, ...]
    """The displayed steps that fail, in words."""
    parts: dict[str, str]
    """The grade of each part: "bound" and "sharp" where an own statement says
    that its bound cannot be improved; else "whole". A part that is neither formal nor certified is "by hand" where
    PROOFS.md has its proof."""
    theorems: tuple[dict[str, str], ...]
    """The formal theorems: theorem, part, type (the proposition as `Trusted.v` puts it), type_sha256."""
    sentence: dict[str, str]
    """The grade of each part of the sentence where they differ: those of `Claim.beyond`, and the rest of it."""


@cache
def index() -> dict[str, Any]:
    """The carried index, by statement id."""
    text = (resources.files("attnprune_verify.claims") / "evidence_index.json").read_text(encoding="utf-8")
    statements: dict[str, Any] = json.loads(text)["statements"]
    return statements


def weigh(judgement: Judgement) -> Evidence:
    """The evidence for a verdict: from the index, or from the arithmetic in which the judge reached it."""
    entry = index().get(judgement.claim.id, {})
    formal = [row for row in entry.get("formal", []) if _says_so(row, judgement)]
    files = [row["file"] for row in formal]
    best, attained = _own_grade(judgement), False
    for row in entry.get("certificates", []):
        if row["concerns"] == "statement" and _agrees(row, judgement):
            files.append(row["file"])
            best = "certified" if _certifies(row, judgement) else best
            attained = attained or row["part"] == "sharp"
    if best == "certified" and not files:  # no file that a stranger could check again
        best = "exact"
    by_hand = entry.get("written") and judgement.statement is Verdict.HOLDS
    if by_hand:
        files.append(entry["written"])
    steps = entry.get("steps")
    if steps:
        files.append(steps["file"])
        files += [row["file"] for row in entry["certificates"] if row["concerns"] == "proof"]
    failing = tuple(f"{one['step']}: {one['says']}" for one in steps["failing"]) if steps else ()
    proved = _proved({row["part"] for row in formal})
    grades = {part: "formal" if proved & {"whole", part} else best for part in _parts(judgement)}
    if attained and grades.get("sharp", "formal") != "formal":  # one instance shows that a bound is reached
        grades["sharp"] = "certified"
    beyond = judgement.claim.beyond if judgement.statement is Verdict.HOLDS else {}
    sentence = {"the rest": max(grades.values(), key=GRADES.index), **beyond} if beyond else {}
    if beyond:
        grades = dict.fromkeys(grades, "measured")
    grade = max(grades.values(), key=GRADES.index)  # a proof by hand is said, and raises no grade
    by_hand = by_hand or "by hand" in beyond.values()
    parts = {part: "by hand" if by_hand and one in ("exact", "measured") else one for part, one in grades.items()}
    theorems = tuple({key: row[key] for key in ("theorem", "part", "type", "type_sha256")} for row in formal)
    return Evidence(
        Proof(entry.get("proof", "none")), grade, tuple(dict.fromkeys(files)), failing, parts, theorems, sentence
    )


def _says_so(row: dict[str, Any], judgement: Judgement) -> bool:
    """Return True where a theorem states the judge's verdict, under a reading that covers the claim's."""
    return bool(row["supports"] == judgement.statement.value) and _covers(row["reading"], judgement.claim)


def _parts(judgement: Judgement) -> tuple[str, ...]:
    """Return the parts to prove; for a tight statement of ours, also that the bound cannot be improved."""
    claim = judgement.claim
    sharp = claim.own and claim.strength is Strength.TIGHT and judgement.statement is Verdict.HOLDS
    return ("bound", "sharp") if sharp else ("whole",)


def _proved(labels: set[str]) -> set[str]:
    """The kinds of part of which every piece is there: {"bound 1 of 2", "bound 2 of 2"} prove the bound."""
    proved = labels & {"whole", "bound", "sharp"}
    for label in labels:
        kind, _, rest = label.partition(" ")
        if rest and all(f"{kind} {k} of {rest.split()[-1]}" in labels for k in range(1, int(rest.split()[-1]) + 1)):
            proved.add("whole" if kind == "part" else kind)
    return proved | {"whole"} if {"bound", "sharp"} <= proved else proved


def _own_grade(judgement: Judgement) -> str:
    """Exact and ball arithmetic certify a witness; for a universal statement they only make the samples exact."""
    if "measured" in judgement.claim.tags:
        return "measured"
    if judgement.statement in _FALSE or EXISTENTIAL in judgement.claim.tags:
        return "certified" if judgement.certified else "measured"
    return "exact" if judgement.certified and judgement.claim.arithmetic == "exact" else "measured"


def _covers(reading: str, claim: Claim) -> bool:
    """Report whether a proof covers a reading: one for any mask covers all, another only its own."""
    return reading == "any" or reading in (claim.reading.name, claim.reading.mask)


def _agrees(row: dict[str, Any], judgement: Judgement) -> bool:
    """Return True where a certificate agrees with the verdict, on a mask that the claim's reading allows."""
    mask, allowed = row["reading"].get("mask"), judgement.claim.reading.mask
    if mask is not None and not _covers(mask, judgement.claim) and allowed not in ("any", "given", None):
        return False
    if row["kind"] == "refutation":
        return judgement.statement in _FALSE
    return judgement.statement is Verdict.HOLDS


def _certifies(row: dict[str, Any], judgement: Judgement) -> bool:
    """Report whether the row settles the claim: an instance refutes, or proves existence; a weaker part does not."""
    return row["part"] != "less" and (row["kind"] == "refutation" or EXISTENTIAL in judgement.claim.tags)
