"""Judge every claim and put the verdicts beside what can be proved: the object behind ``attnprune-verify claims``."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hypothesis import configuration

from attnprune_verify.claims import registry
from attnprune_verify.claims.case import Case
from attnprune_verify.claims.core import Claim, Statement
from attnprune_verify.claims.evidence import Evidence, weigh
from attnprune_verify.claims.falsifier import QUICK, Effort
from attnprune_verify.claims.judge import Trial, Verdict, certain, judge
from attnprune_verify.errors import InvalidInstance

__all__ = ["ClaimRecord", "ClaimsResult", "rerun", "run_claims"]

_SMALL_ENOUGH = 400
"""Numbers a case may hold to be printed in full."""


@dataclass(frozen=True)
class ClaimRecord:
    """One claim with its verdict and its evidence."""

    verdict: Verdict
    evidence: Evidence
    ancestors_hold: bool
    """Whether every statement it rests on, directly or not, holds."""

    @property
    def claim(self) -> Claim:
        """The claim itself."""
        return self.verdict.claim

    @property
    def statement(self) -> Statement:
        """The verdict on the statement."""
        return self.verdict.statement

    @property
    def note(self) -> str:
        """How the verdict was reached, and what else is worth knowing."""
        parts = [self.verdict.reason, self.claim.note]
        if self.evidence.proof_steps:
            parts.append("failing steps of the printed proof: " + "; ".join(self.evidence.proof_steps))
        return ". ".join(part for part in parts if part)

    def as_dict(self) -> dict[str, Any]:
        """The record of the JSON report."""
        claim, verdict = self.claim, self.verdict
        return {
            "id": claim.id,
            "kind": claim.kind.value,
            "title": claim.title,
            "section": claim.section,
            "reading": claim.reading.name,
            "statement": verdict.statement.value,
            "proof": self.evidence.proof.value,
            "evidence": self.evidence.grade,
            "evidence_files": list(self.evidence.files),
            "repaired_by": claim.repaired_by,
            "uses": list(claim.uses),
            "slack": verdict.slack,
            "note": self.note,
            "says": claim.says,
            "formula": claim.formula,
            "reading_says": claim.reading.says,
            "strength": claim.strength.value,
            "source": claim.source,
            "repairs": claim.repairs,
            "ancestors_hold": self.ancestors_hold,
            "tried": verdict.tried,
            "met": verdict.met,
            "attained": verdict.attained,
            "worst": _worst(verdict.witness or verdict.worst),
            "rerun": snippet(claim, verdict.witness or verdict.worst),
        }


@dataclass(frozen=True)
class ClaimsResult:
    """Every record, in the paper's order, and the outcome of the run."""

    records: tuple[ClaimRecord, ...]

    @property
    def outcome(self) -> str:
        """passed, failed (a repaired or new statement does not stand), or incomplete (something could not be run).

        A refuted statement of the paper is a finding, not a failure; so is a conjecture that stays open.
        """
        own = [record for record in self.records if record.claim.own and not record.claim.conjecture]
        if any(r.statement in (Statement.REFUTED, Statement.ILL_POSED, Statement.VACUOUS) for r in own):
            return "failed"
        if any(record.verdict.error for record in self.records) or any(r.statement is Statement.OPEN for r in own):
            return "incomplete"
        return "passed"

    @property
    def counts(self) -> Counter[str]:
        """How many statements got which verdict."""
        return Counter(record.statement.value for record in self.records)

    def as_dict(self) -> dict[str, Any]:
        """The JSON report."""
        return {
            "schema": "attnprune-verify/claims/1",
            "outcome": self.outcome,
            "counts": dict(sorted(self.counts.items())),
            "claims": [record.as_dict() for record in self.records],
        }


def run_claims(effort: Effort = QUICK, progress: Callable[[int, int], object] | None = None) -> ClaimsResult:
    """Judge every statement of the paper, and every repaired and new one.

    Parameters
    ----------
    effort : Effort
        How long the falsifier tries; the result is the same every time for the same effort.
    progress : callable, optional
        Called as ``progress(done, total)`` before each claim.

    Returns
    -------
    ClaimsResult
        ``.records`` in the paper's order, ``.outcome``, ``.as_dict()``.

    Examples
    --------
    >>> from attnprune_verify.claims.falsifier import Effort
    >>> result = run_claims(Effort(limits=0, examples=0, starts=0, evaluations=0))  # stored attacks and families only
    >>> verdicts = {record.claim.test_id: record.statement.value for record in result.records}
    >>> verdicts["lem:PL_ineq-full"], verdicts["lem:PL_ineq-causal"], verdicts["fix:PL_ineq-any"]
    ('refuted', 'vacuous', 'holds')
    """
    claims = registry.claims()
    verdicts = []
    with _nothing_left_behind():
        for done, claim in enumerate(claims):
            if progress is not None:
                progress(done, len(claims))
            verdicts.append(judge_safely(claim, effort))
    return assemble(verdicts)


@contextmanager
def _nothing_left_behind() -> Iterator[None]:
    """Hypothesis keeps a cache in the folder one happens to be in; give it a temporary one while claims are judged."""
    before = getattr(configuration, "__hypothesis_home_directory", None)
    with tempfile.TemporaryDirectory() as folder:
        configuration.set_hypothesis_home_dir(folder)
        try:
            yield
        finally:
            configuration.set_hypothesis_home_dir(before)


def judge_safely(claim: Claim, effort: Effort = QUICK) -> Verdict:
    """`judge`, where a check that breaks leaves its claim `open` and the run incomplete instead of ending it."""
    try:
        return judge(claim, effort)
    except Exception as error:  # whatever breaks in one check must not hide the others
        message = f"{type(error).__name__}: {error}"
        return Verdict(claim, error=message, reason=f"could not be run: {message}")


def assemble(verdicts: Sequence[Verdict]) -> ClaimsResult:
    """Weigh the evidence of each verdict and see whether everything it rests on holds."""
    standing: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        standing.setdefault(verdict.claim.id, []).append(verdict)
    return ClaimsResult(tuple(ClaimRecord(one, weigh(one), _ancestors_hold(one.claim, standing)) for one in verdicts))


def _ancestors_hold(claim: Claim, standing: Mapping[str, list[Verdict]]) -> bool:
    """An ancestor counts under the same reading where it has it, else under all of its readings.

    An ill-posed one counts through its repair: it was printed wrongly, and the repair is what was used.
    """
    waiting, seen = list(claim.uses), set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        verdicts = standing.get(name, [])
        same = [verdict for verdict in verdicts if verdict.claim.reading.name == claim.reading.name] or verdicts
        if not same or not all(_stands(verdict, standing) for verdict in same):
            return False
        waiting.extend(use for verdict in same for use in verdict.claim.uses)
    return True


def _stands(verdict: Verdict, standing: Mapping[str, list[Verdict]]) -> bool:
    if verdict.statement is Statement.ILL_POSED and verdict.claim.repaired_by is not None:
        return all(repair.statement is Statement.HOLDS for repair in standing.get(verdict.claim.repaired_by, ()))
    return verdict.statement is Statement.HOLDS


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
    lhs, rhs = _number(trial.relation.lhs), _number(trial.relation.rhs)
    part = f", {trial.relation.part}" if trial.relation.part else ""
    print(f"  lhs = {_short(lhs)}, rhs = {_short(rhs)} ({trial.relation.kind}{part})")
    return trial


def snippet(claim: Claim, trial: Trial | None) -> str | None:
    """Python that evaluates the claim on the worst case again; None when the case is too large to print."""
    if trial is None or _size(trial.case) > _SMALL_ENOUGH or any(_special(v) for v in trial.case.values.values()):
        return None
    values = {name: value for name, value in trial.case.as_json().items()}
    return f"from attnprune_verify.claims.run import rerun\n\nrerun({claim.id!r}, {claim.reading.name!r}, {values!r})"


def _worst(trial: Trial | None) -> dict[str, Any] | None:
    if trial is None:
        return None
    relation = trial.relation
    sides: dict[str, Any] = {"lhs": None, "rhs": None, "relation": None, "part": ""}
    if relation is not None:
        sides = {"lhs": _number(relation.lhs), "rhs": _number(relation.rhs)}
        sides |= {"relation": relation.kind, "part": relation.part}
    return {"origin": trial.case.origin, **sides}


def _number(side: Any) -> float | None:
    try:
        return float(side)
    except (TypeError, ValueError):
        return None


def _short(value: float | None) -> str:
    return "(array)" if value is None else f"{value:.6g}"


def _size(case: Case) -> int:
    return sum(getattr(value, "size", 1) for value in case.values.values())


def _special(value: Any) -> bool:
    """Fractions and objects do not survive plain JSON."""
    if isinstance(value, (int, float, str, type(None))):
        return False
    return getattr(getattr(value, "dtype", None), "kind", "O") == "O"
