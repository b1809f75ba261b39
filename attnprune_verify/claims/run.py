"""Judge every claim and put the verdicts beside what can be proved: the object behind ``attnprune-verify claims``."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from attnprune_verify.claims import registry
from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.relation import numbers
from attnprune_verify.claims.core import Claim, Strength, Verdict
from attnprune_verify.claims.evidence import Evidence, weigh
from attnprune_verify.claims.excerpts import quotation
from attnprune_verify.claims.formulas.scope import hypotheses, limits, quantifier, sentence
from attnprune_verify.claims.formulas.symbols import symbols_of
from attnprune_verify.claims.judging import verdict_cache
from attnprune_verify.claims.judging.falsifier import QUICK, Effort
from attnprune_verify.claims.judging.in_processes import judgements, worthwhile
from attnprune_verify.claims.judging.judge import Judgement, judge_safely
from attnprune_verify.claims.judging.own import claims_of, judge_own
from attnprune_verify.claims.judging.support import Standing
from attnprune_verify.claims.judging.trial import Trial, certain
from attnprune_verify.claims.prior import prior_of
from attnprune_verify.errors import InvalidInstance

_FALLEN = (Verdict.REFUTED, Verdict.MISSTATED, Verdict.ILL_POSED, Verdict.VACUOUS)
"""Verdicts that a statement of ours must not get."""
_SMALL_ENOUGH = 400
"""Numbers a case may hold to be printed in full."""


@dataclass(frozen=True)
class ClaimRecord:
    """One claim with its verdict and its evidence."""

    judgement: Judgement
    evidence: Evidence
    ancestors_hold: bool
    """Whether every statement it rests on, directly or not, holds."""

    @property
    def claim(self) -> Claim:
        """The claim itself."""
        return self.judgement.claim

    @property
    def statement(self) -> Verdict:
        """The verdict on the statement."""
        return self.judgement.statement

    @property
    def not_pinned(self) -> dict[str, float]:
        """Parts whose bound could be 1 % weaker or stronger without any case, formal proof or certificate showing it.

        With how near a case comes, 1 where the bound is met. Paper and own statements alike, where they hold.
        """
        proved = self.evidence.grade in ("formal", "certified") or "measured" in self.claim.tags
        exact = self.claim.strength is Strength.IDENTITY
        return {} if proved or exact or self.statement is not Verdict.HOLDS else self.judgement.loose

    @property
    def note(self) -> str:
        """The reason of the verdict, and remarks."""
        parts = [self.judgement.reason, self.claim.note]
        if "tautology" in self.claim.tags:
            parts.append("a tautology: it restates a definition, and no instance could refute it")
        if self.evidence.proof_steps:
            parts.append("failing steps of the printed proof: " + "; ".join(self.evidence.proof_steps))
        if self.not_pinned:
            near = ", ".join(
                f"{part or 'the bound'} (a case comes to {ratio:.3g} of it)" for part, ratio in self.not_pinned.items()
            )
            parts.append(f"not pinned, so that 1 % more or less would not be noticed: {near}")
        return ". ".join(part for part in parts if part)

    def as_dict(self) -> dict[str, Any]:
        """The record of the JSON report."""
        claim, judgement = self.claim, self.judgement
        return {
            "id": claim.id,
            "kind": claim.kind.value,
            "title": claim.title,
            "section": claim.section,
            "reading": claim.reading.name,
            "statement": judgement.statement.value,
            "proof": self.evidence.proof.value,
            "evidence": self.evidence.grade,
            "evidence_files": list(self.evidence.files),
            "parts": [{"part": part, "evidence": grade} for part, grade in self.evidence.parts.items()],
            "sentence_parts": [{"part": part, "evidence": grade} for part, grade in self.evidence.sentence.items()],
            "theorems": [dict(theorem) for theorem in self.evidence.theorems],
            "repaired_by": claim.repaired_by,
            "uses": list(claim.uses),
            "slack": judgement.slack,
            "note": self.note,
            "quote": None if (quoted := quotation(claim.id)) is None else quoted._asdict(),
            "says": sentence(claim),
            "formula": claim.formula,
            "finding": claim.finding,
            "group": claim.group,
            "for": quantifier(claim),
            "hypotheses": hypotheses(claim),
            "checked_where": limits(claim),
            "prior": prior_of(claim),
            "symbols": symbols_of(claim),
            "reading_says": claim.reading.says,
            "strength": claim.strength.value,
            "source": claim.source,
            "repairs": claim.repairs,
            "ancestors_hold": self.ancestors_hold,
            "tried": judgement.tried,
            "met": judgement.met,
            "attained": judgement.attained,
            "not_pinned": [{"part": part, "attained": ratio} for part, ratio in self.not_pinned.items()],
            "worst": _worst(judgement.witness or judgement.worst),
            "rerun": snippet(claim, judgement.witness or judgement.worst),
        }


@dataclass(frozen=True)
class ClaimsResult:
    """Every record, in the paper's order, and the outcome of the run."""

    records: tuple[ClaimRecord, ...]

    def __repr__(self) -> str:
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(self.counts.items()))
        return f"<claims: {self.outcome}; {len(self.records)} statements{': ' * bool(verdicts)}{verdicts}>"

    @property
    def outcome(self) -> str:
        """Passed, failed (a repaired or new statement does not stand, or the library computes something else than a
        statement prints), or incomplete (something could not be run).

        A refuted statement of the paper is a finding, not a failure; so is a conjecture that stays open.
        """
        own = [record for record in self.records if record.claim.own and not record.claim.conjecture]
        if any(r.statement in _FALLEN for r in own):
            return "failed"
        if any(record.judgement.misprint for record in self.records):
            return "failed"
        if any(record.judgement.error for record in self.records) or any(r.statement is Verdict.OPEN for r in own):
            return "incomplete"
        return "passed"

    @property
    def counts(self) -> Counter[str]:
        """Number of statements by verdict."""
        return Counter(record.statement.value for record in self.records)

    def as_dict(self) -> dict[str, Any]:
        """The JSON report."""
        return {
            "schema": "attnprune-verify/claims/1",
            "outcome": self.outcome,
            "counts": dict(sorted(self.counts.items())),
            "claims": [record.as_dict() for record in self.records],
        }


def run_claims(
    effort: Effort = QUICK,
    progress: Callable[[int, int], object] | None = None,
    *,
    ids: Iterable[str] = (),
    beside: Iterable[str] = (),
    keep_verdicts: bool = False,
    processes: int = 1,
) -> ClaimsResult:
    """Judge every statement of the paper, and every repaired and new one, or only those in `ids`.

    Parameters
    ----------
    effort : Effort
        How long the falsifier tries; the result is the same every time for the same effort.
    progress : callable, optional
        Called as ``progress(done, total)``, once for each claim.
    ids : iterable of str
        Only these statements, and of what they rest on as much as decides whether all of it holds; none means all.
    beside : iterable of str
        Statements judged as well, but not what they rest on: their ``ancestors_hold`` is False.
    keep_verdicts : bool
        Take verdicts from the user's cache where this code has reached them before, and put new ones there.
    processes : int
        At most so many processes judge, where there are enough statements to pay for them; the result is the same.

    Returns
    -------
    ClaimsResult
        ``.records`` of what was asked for, in the paper's order, ``.outcome``, ``.as_dict()``.

    Raises
    ------
    InvalidInstance
        If an id names no statement.

    Examples
    --------
    >>> from attnprune_verify.claims.judging.falsifier import Effort
    >>> brief = Effort(limits=0, examples=0, starts=0, evaluations=0)  # stored attacks and families only
    >>> result = run_claims(brief, ids=["lem:PL_ineq", "fix:PL_ineq"])
    >>> verdicts = {record.claim.test_id: record.statement.value for record in result.records}
    >>> verdicts["lem:PL_ineq-full"], verdicts["lem:PL_ineq-causal"], verdicts["fix:PL_ineq-any"]
    ('refuted', 'vacuous', 'holds')
    """
    asked = registry.named(ids) or {claim.id for claim in registry.claims()}
    alone = registry.named(beside)
    wanted = [claim for claim in registry.claims() if claim.id in asked | alone]
    needed = registry.with_ancestors(asked | alone)
    total = sum(claim.id in needed for claim in registry.claims())
    started = count()
    ahead: dict[str, Judgement] = {}

    def begin() -> None:
        if progress is not None:
            progress(next(started), total)

    def judged(claim: Claim) -> Judgement:
        if claim.test_id in ahead:
            return ahead[claim.test_id]
        begin()
        earlier = verdict_cache.kept(claim, effort) if keep_verdicts else None
        found = earlier or judge_safely(claim, effort)
        if keep_verdicts and earlier is None:
            verdict_cache.keep(found, effort)
        return found

    if worthwhile(len(wanted), effort, processes) > 1:
        missing = [claim for claim in wanted if not (keep_verdicts and verdict_cache.kept(claim, effort))]
        for one in judgements(missing, effort, processes):
            begin()
            ahead[one.claim.test_id] = one
            if keep_verdicts:
                verdict_cache.keep(one, effort)
    standing = Standing(judged)
    found = [standing.of(claim) for claim in wanted]  # in the paper's order, before what they rest on
    hold = {one.id: standing.ancestors_hold for one in wanted if one.id in asked}
    return ClaimsResult(
        tuple(ClaimRecord(one, weigh(one), hold.get(one.claim.id, _nobody_asks)(one.claim)) for one in found)
    )


def run_own_claims(path: str, effort: Effort = QUICK) -> ClaimsResult:
    """Judge the CLAIMS of a Python file by the rules that ours obey.

    Raises
    ------
    InvalidInstance
        If the file cannot be run, or has no CLAIMS.
    """
    mine = claims_of(path)
    known = frozenset(claim.id for claim in (*registry.claims(), *mine))
    found = [judge_own(claim, known, effort) for claim in mine]
    return ClaimsResult(tuple(ClaimRecord(judged, weigh(judged), False) for judged in found))


def assemble(judgements: Iterable[Judgement]) -> ClaimsResult:
    """The records of judgements that are there; a statement that is not among them counts as one that does not hold."""
    every = list(judgements)
    known = {one.claim.test_id: one for one in every}
    standing = Standing(lambda claim: known.get(claim.test_id) or Judgement(claim, reason="not judged"))
    return ClaimsResult(tuple(ClaimRecord(one, weigh(one), standing.ancestors_hold(one.claim)) for one in every))


def _nobody_asks(claim: Claim) -> bool:
    """Report False for a claim that was judged only because a requested one rests on it."""
    return False


def rerun(id_: str, reading: str, values: Mapping[str, Any]) -> Trial:
    """Evaluate one claim on one case in ball arithmetic, print both sides, and return the trial.

    Examples
    --------
    >>> values = {"X": [[1, 0], [0, 1]], "W": [[0.01, -0.01], [-0.01, 0.01]], "M": [[0, 0], [0, 0]]}
    >>> trial = rerun("lem:PL_ineq", "full", {**values, "lam": 0.0, "mask": None})
    lem:PL_ineq-full: certainly violated
      lhs = 2.49983e-09, rhs = 4.99967e-07 (>=)
    """
    claim = registry.find(id_, reading)
    trial = certain(claim, Case.from_json(values, "rerun"))
    if trial.failed is not None:
        print(f"{claim.test_id}: a hypothesis fails: {trial.failed}")
        return trial
    if trial.relation is None:
        raise InvalidInstance(f"{claim.test_id} cannot be evaluated on these values: {trial.problem}")
    word = {True: "certainly holds", False: "certainly violated", None: "undecided"}[trial.certain]
    print(f"{claim.test_id}: {word}")
    lhs, rhs = numbers(trial.relation)
    part = f", {trial.relation.part}" if trial.relation.part else ""
    print(f"  lhs = {_short(lhs)}, rhs = {_short(rhs)} ({trial.relation.kind}{part})")
    return trial


def snippet(claim: Claim, trial: Trial | None) -> str | None:
    """Python that evaluates the claim on a case again; None when the case is too large to print."""
    if trial is None or trial.case.size > _SMALL_ENOUGH or any(_special(v) for v in trial.case.values.values()):
        return None
    values = {name: value for name, value in trial.case.as_json().items()}
    return f"from attnprune_verify.claims.run import rerun\n\nrerun({claim.id!r}, {claim.reading.name!r}, {values!r})"


def _worst(trial: Trial | None) -> dict[str, Any] | None:
    if trial is None:
        return None
    relation = trial.relation
    sides: dict[str, Any] = {"lhs": None, "rhs": None, "relation": None, "part": ""}
    if relation is not None:
        lhs, rhs = numbers(relation)
        sides = {"lhs": lhs, "rhs": rhs, "relation": relation.kind, "part": relation.part}
    return {"origin": trial.case.origin, **sides}


def witness(record: ClaimRecord) -> dict[str, Any] | None:
    """The case that decides a record's verdict, in numbers that a person can check; None where there is none.

    A refuted statement shows its smallest confirmed counterexample, any other the case that `Judgement.shown` names.
    `inputs` are the values the claim is evaluated on; a statement about experiments has `measured` instead, what was
    found there.
    """
    trial = record.judgement.shown
    if trial is None:
        return None
    shown = {name: value for name, value in (_worst(trial) or {}).items() if name != "origin"}
    X = trial.case.get("X")
    shape = np.shape(X)[-2:] if X is not None and np.ndim(X) >= 2 else (None, None)
    shown |= {"n": shape[0], "d": shape[1], "origin": trial.case.origin}
    values = {name: _printable(value) for name, value in trial.case.as_json().items()}
    return shown | ({"measured": values} if "measured" in record.claim.tags else {"inputs": values})


def _printable(value: Any) -> Any:
    """Fractions as p/q, in lists too."""
    if isinstance(value, list | tuple):
        return [_printable(one) for one in value]
    return value if isinstance(value, int | float | str | bool | type(None)) else str(value)


def _short(value: float | None) -> str:
    return "no number" if value is None else f"{value:.6g}"


def _special(value: Any) -> bool:
    """Fractions and objects do not survive plain JSON."""
    if isinstance(value, (int, float, str, type(None))):
        return False
    return getattr(getattr(value, "dtype", None), "kind", "O") == "O"
