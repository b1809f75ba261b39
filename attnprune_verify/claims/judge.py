"""Run a claim on many cases and compute its verdict; keep the worst case.

Floats search, balls decide: a violation seen in float64 refutes a statement only if ball arithmetic confirms both the
hypotheses and the violation. What neither confirms nor denies leaves the statement `open`.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from attnprune_verify.claims import falsifier
from attnprune_verify.claims.arithmetic import BALL, EXACT, FLOAT, Arithmetic, Undecidable, working_precision
from attnprune_verify.claims.case import Case
from attnprune_verify.claims.core import Claim, Margin, Statement, Strength, relations
from attnprune_verify.claims.quantities import Quantities
from attnprune_verify.claims.relation import Relation, agrees_to, decide, slack
from attnprune_verify.errors import InvalidInstance

__all__ = ["Trial", "Verdict", "certain", "judge", "try_case"]

ROUNDING = 1e-9
"""Relative slack that float64 may lose: a smaller violation is not looked at, a larger one is decided by balls."""
ATTAINED = 0.999
"""A bound called tight must be met to this ratio somewhere."""
_ENOUGH = 4
_MOST_CHECKS = 300
_EQUAL_DIGITS = 60
# balls of 512 bits that overlap to 60 digits: both sides are equal there, and a non-strict bound is attained
_ARITHMETIC: dict[str, Arithmetic] = {"float": FLOAT, "ball": BALL, "exact": EXACT}


@dataclass(frozen=True)
class Trial:
    """One case under one claim: the first hypothesis that fails, or the worst relation and its slack."""

    case: Case
    failed: str | None = None
    slack: float = math.nan
    relation: Relation | None = None
    certain: bool | None = None
    """In exact and ball arithmetic: whether every relation certainly holds."""
    problem: str = ""


@dataclass
class Verdict:
    """What the judge found: the statement's verdict, how it was reached, and the worst case.

    `certified` says that the verdict rests on ball or exact arithmetic (for `refuted`: the witness was confirmed).
    `attained` is the largest small/large ratio seen, 1 for a bound that is met.
    """

    claim: Claim
    statement: Statement = Statement.OPEN
    tried: int = 0
    met: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    slack: float | None = None
    attained: float | None = None
    worst: Trial | None = None
    witness: Trial | None = None
    certified: bool = False
    undecided: int = 0
    reason: str = ""
    error: str = ""

    def add(self, trial: Trial) -> None:
        """Count one trial and keep the worst; what balls have cleared keeps slack 0."""
        self.tried += 1
        if trial.failed is not None:
            self.failed[trial.failed] += 1
            return
        if trial.problem or math.isnan(trial.slack):
            self.undecided += 1
            self.failed[trial.problem or "not a number"] += 1
            return
        self.met += 1
        if self.worst is None or trial.slack < self.worst.slack:
            self.worst = trial
        ratio = _ratio(trial.relation)
        if ratio is not None:
            self.attained = max(ratio, self.attained or 0.0)


def try_case(claim: Claim, case: Case, arithmetic: Arithmetic, margin: Margin | None = None) -> Trial:
    """Evaluate one case: first the hypotheses, then the relations."""
    quantities = Quantities(case, arithmetic)
    try:
        for hypothesis in claim.hypotheses:
            if not hypothesis.holds(quantities):
                return Trial(case, failed=hypothesis.name)
        found = relations(margin or claim.margin, quantities)
    except (
        Undecidable,
        InvalidInstance,
        FloatingPointError,
        OverflowError,
        ZeroDivisionError,
        np.linalg.LinAlgError,
    ) as error:
        return Trial(case, problem=f"{type(error).__name__}: {error}")
    if not found:
        return Trial(case, failed="the statement says nothing about this case")
    slacks = [slack(relation) for relation in found]
    worst = int(np.argmin([-2.0 if math.isnan(value) else value for value in slacks]))
    answers: list[bool | None] = [decide(relation) for relation in found] if arithmetic is not FLOAT else [None]
    if any(answer is False for answer in answers):
        worst = answers.index(False)
    sure = False if any(a is False for a in answers) else None if any(a is None for a in answers) else True
    if sure:
        # what is left of a certain relation below 0 is the width of the balls
        return Trial(case, slack=max(0.0, slacks[worst]), relation=found[worst], certain=True)
    return Trial(case, slack=slacks[worst], relation=found[worst], certain=sure)


def certain(claim: Claim, case: Case) -> Trial:
    """The case in ball arithmetic, with more bits until the answer is certain."""
    trial = Trial(case, problem="not evaluated")
    for bits in (128, 512, 2048):
        with working_precision(bits):
            trial = try_case(claim, case, BALL)
        if trial.certain is not None or trial.failed is not None:
            return trial
    if trial.relation is not None and agrees_to(trial.relation, _EQUAL_DIGITS):
        return replace(trial, certain=True)
    return trial


def judge(claim: Claim, effort: falsifier.Effort = falsifier.QUICK, cases: Iterable[Case] | None = None) -> Verdict:
    """Attack the claim and say what is left of it.

    Parameters
    ----------
    claim : Claim
    effort : Effort
        How long the falsifier tries; deterministic for a given effort.
    cases : iterable of Case, optional
        Judge exactly these cases instead of searching.
    """
    rng = np.random.default_rng(zlib.crc32(claim.test_id.encode()))
    verdict = Verdict(claim)
    if claim.defect is not None and _is_ill_posed(claim, rng, verdict):
        return verdict
    arithmetic = _ARITHMETIC[claim.arithmetic]
    confirmed: list[Trial] = []
    checks = 0

    def attempt(case: Case) -> Trial:
        nonlocal checks
        with working_precision():
            trial = try_case(claim, case, arithmetic)
        suspicious = trial.slack < -ROUNDING if arithmetic is FLOAT else trial.certain is not True
        if trial.failed is None and not trial.problem and suspicious:
            if trial.certain is not False:
                checks += 1
                trial = (
                    certain(claim, case) if checks <= _MOST_CHECKS else replace(trial, problem="too many to confirm")
                )
            if trial.certain is False:
                confirmed.append(trial)
            elif trial.certain is None and trial.failed is None and not trial.problem:
                trial = replace(trial, problem="undecided in ball arithmetic")
        verdict.add(trial)
        return trial

    if cases is not None:
        for case in cases:
            attempt(case)
    else:
        falsifier.attack(claim, attempt, rng, effort, decided=lambda: len(confirmed) >= _ENOUGH)
    _conclude(claim, verdict, confirmed, arithmetic)
    return verdict


def _conclude(claim: Claim, verdict: Verdict, confirmed: list[Trial], arithmetic: Arithmetic) -> None:
    if confirmed:
        verdict.witness = verdict.worst = min(confirmed, key=lambda trial: trial.slack)
        verdict.statement, verdict.certified, verdict.slack = Statement.REFUTED, True, verdict.witness.slack
        how = "exact" if arithmetic is EXACT else "ball"
        verdict.reason = f"a witness was confirmed in {how} arithmetic"
        if "measured" in claim.tags:
            verdict.reason = f"measured otherwise in {len(confirmed)} of {verdict.tried} readings tried"
        return
    common = ", ".join(f"{name} ({count})" for name, count in verdict.failed.most_common(3))
    if verdict.tried == 0:
        verdict.reason = "there is no case to judge"
        return
    if verdict.met == 0:
        verdict.statement = Statement.OPEN if verdict.undecided else Statement.VACUOUS
        verdict.reason = f"none of {verdict.tried} cases meets the hypotheses; failed: {common}"
        return
    verdict.slack = verdict.worst.slack if verdict.worst else None
    if verdict.undecided:
        verdict.reason = f"{verdict.undecided} case(s) neither confirmed nor denied: {common}"
    elif claim.conjecture:
        verdict.reason = f"a conjecture: it survived {verdict.met} cases"
    elif claim.strength is Strength.TIGHT and (verdict.attained or 0.0) < ATTAINED:
        verdict.reason = f"no case attains it: best ratio {verdict.attained or 0.0:.4g}"
    else:
        verdict.statement = Statement.HOLDS
        verdict.certified = arithmetic is not FLOAT
        verdict.reason = f"no violation in {verdict.met} cases that meet the hypotheses ({verdict.tried} tried)"


def _is_ill_posed(claim: Claim, rng: np.random.Generator, verdict: Verdict) -> bool:
    """Whether the claimed defect certainly shows on every case of the supply."""
    arithmetic = EXACT if claim.arithmetic == "exact" else BALL
    shown: list[Trial] = []
    for case in claim.supply.families(rng):
        with working_precision():
            trial = try_case(claim, case, arithmetic, claim.defect)
        if trial.failed is None:
            shown.append(trial)
    if not shown or not all(trial.certain is True for trial in shown):
        return False
    verdict.tried = verdict.met = len(shown)
    verdict.witness = verdict.worst = shown[0]
    verdict.statement, verdict.certified = Statement.ILL_POSED, True
    verdict.reason = f"the defect shows on each of {len(shown)} cases"
    return True


def _ratio(relation: Relation | None) -> float | None:
    """small / large for a scalar bound with positive sides."""
    if relation is None or relation.kind == "==":
        return None
    small, large = (relation.lhs, relation.rhs) if relation.kind in ("<=", "<") else (relation.rhs, relation.lhs)
    try:
        small, large = float(small), float(large)
    except (TypeError, ValueError):
        return None
    if not (math.isfinite(small) and math.isfinite(large)) or large <= 0 or small < 0 or large < 1e-200:
        return None
    return small / large
