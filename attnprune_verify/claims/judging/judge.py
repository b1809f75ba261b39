"""Run a claim on many cases and compute its verdict; keep the worst case.

Floats search, balls decide: a violation seen in float64 refutes a statement only if ball arithmetic confirms both the
hypotheses and the violation. What neither confirms nor denies leaves the statement `open`; so does a violation where
balls cannot tell whether the hypotheses hold.
"""

import math
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.core import Claim, Strength, Verdict
from attnprune_verify.claims.formulas.printed import misprinted
from attnprune_verify.claims.judging import falsifier
from attnprune_verify.claims.judging.rounded import rounded
from attnprune_verify.claims.judging.trial import Trial, certain, matters, try_case
from attnprune_verify.theory.numbers.arithmetic import BALL, EXACT, FLOAT, Arithmetic, working_precision

ROUNDING = 1e-9
"""Relative slack that float64 may lose: a smaller violation is not looked at, a larger one is decided by balls."""
ATTAINED = 0.999
"""Every part of a bound called tight must be met to this ratio somewhere."""
NEAR = 0.99
"""A part that no case meets to this ratio could be 1 % stronger, or weaker, without any case telling."""
_ENOUGH = 4  # chosen: confirmed counterexamples after which the attack ends
_MOST_CHECKS = 1000  # chosen: confirmations in balls
_ARITHMETIC: dict[str, Arithmetic] = {"float": FLOAT, "ball": BALL, "exact": EXACT}


@dataclass
class Judgement:
    """Result of judging one claim: the statement's verdict, how it was reached, and the worst case.

    `certified` says that the verdict rests on ball or exact arithmetic (for `refuted`: the witness was confirmed).
    """

    claim: Claim
    statement: Verdict = Verdict.OPEN
    tried: int = 0
    met: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    slack: float | None = None
    best: dict[str, float] = field(default_factory=dict)
    """By part: how nearly the bound is attained where attention decides; 1 where it is met."""
    worst: Trial | None = None
    nearest: Trial | None = None
    """Of the cases where attention decides the one that comes nearest to meeting a bound; of equals the first."""
    witness: Trial | None = None
    smallest: Trial | None = None
    """Of the confirmed witnesses the one that takes least to check by hand."""
    certified: bool = False
    undecided: int = 0
    reason: str = ""
    error: str = ""
    kept: bool = False
    """Whether an earlier run reached it, and it was kept."""
    misprint: str = ""
    """Where the library computes something else than the statement prints."""

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
        for part, ratio in trial.ratios.items():
            if ratio > self.best.setdefault(part, 0.0) and matters(trial.case):
                if part not in self.claim.loose and ratio > max(self._sharp.values(), default=0.0) + ROUNDING:
                    self.nearest = trial
                self.best[part] = ratio

    @property
    def _sharp(self) -> dict[str, float]:
        return {part: ratio for part, ratio in self.best.items() if part not in self.claim.loose}

    @property
    def attained(self) -> float | None:
        """The least ratio to which a part called sharp is attained; None where there is no bound."""
        return min(self._sharp.values(), default=None)

    @property
    def shown(self) -> Trial | None:
        """The case for a reader: the smallest counterexample, else the nearest where attention decides, else the worst.

        Far out of a bound both sides vanish or agree to the last bit whatever the statement says: the worst case of a
        true statement is often such a one, and teaches nothing.
        """
        return self.smallest or self.witness or self.nearest or self.worst

    @property
    def loose(self) -> dict[str, float]:
        """The parts that no case comes within 1 % of, and how near one comes."""
        return {part: ratio for part, ratio in self.best.items() if ratio < NEAR}


def judge(claim: Claim, effort: falsifier.Effort = falsifier.QUICK, cases: Iterable[Case] | None = None) -> Judgement:
    """Attack the claim and return its judgement.

    Parameters
    ----------
    claim : Claim
    effort : Effort
        How long the falsifier tries; deterministic for a given effort.
    cases : iterable of Case, optional
        Judge exactly these cases instead of searching.
    """
    rng = np.random.default_rng(zlib.crc32(claim.test_id.encode()))
    judgement = Judgement(claim)
    judgement.misprint = misprinted(claim) if claim.printed else ""
    if judgement.misprint:
        judgement.reason = f"what is printed is not what is computed: {judgement.misprint}"
        return judgement
    if claim.defect is not None and _cannot_be_meant(claim, rng, judgement):
        return judgement
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
            if trial.failed is not None:  # a violation, but only where floats think that the hypotheses hold
                trial = replace(trial, failed=None, problem=f"met in float64 only: {trial.failed}")
            if trial.certain is False:
                confirmed.append(trial)
            elif trial.certain is None and trial.failed is None and not trial.problem:
                trial = replace(trial, problem="undecided in ball arithmetic")
        judgement.add(trial)
        return trial

    if cases is not None:
        for case in cases:
            attempt(case)
    else:
        falsifier.attack(claim, attempt, rng, effort, decided=lambda: len(confirmed) >= _ENOUGH)
    _conclude(claim, judgement, confirmed, arithmetic)
    return judgement


def judge_safely(claim: Claim, effort: falsifier.Effort = falsifier.QUICK) -> Judgement:
    """`judge`, where a check that breaks leaves its claim `open` and the run incomplete instead of ending it."""
    try:
        return judge(claim, effort)
    except Exception as error:  # whatever breaks in one check must not hide the others
        message = f"{type(error).__name__}: {error}"
        return Judgement(claim, error=message, reason=f"could not be run: {message}")


def _conclude(claim: Claim, judgement: Judgement, confirmed: list[Trial], arithmetic: Arithmetic) -> None:
    if confirmed:
        judgement.witness = judgement.worst = min(confirmed, key=lambda trial: trial.slack)
        simple = [rounded(claim, trial) for trial in confirmed]
        judgement.smallest = min(simple, key=lambda trial: (len(str(trial.case.as_json())), trial.slack))
        judgement.statement, judgement.certified, judgement.slack = Verdict.REFUTED, True, judgement.witness.slack
        how = "exact" if arithmetic is EXACT else "ball"
        judgement.reason = f"a witness was confirmed in {how} arithmetic"
        if "measured" in claim.tags:
            judgement.statement = Verdict.REFUTED if claim.own else Verdict.NOT_REPRODUCED
            judgement.reason = f"measured otherwise in {len(confirmed)} of {judgement.tried} readings tried"
        return
    common = ", ".join(f"{name} ({count})" for name, count in judgement.failed.most_common(3))
    if judgement.tried == 0:
        judgement.reason = "there is no case to judge"
        return
    if judgement.met == 0:
        judgement.statement = Verdict.OPEN if judgement.undecided else Verdict.VACUOUS
        judgement.reason = f"none of {judgement.tried} cases meets the hypotheses; failed: {common}"
        return
    judgement.slack = judgement.worst.slack if judgement.worst else None
    if judgement.undecided:
        judgement.reason = f"{judgement.undecided} case(s) neither confirmed nor denied: {common}"
    elif claim.conjecture:
        judgement.reason = f"a conjecture: it survived {judgement.met} cases"
    elif claim.strength is Strength.TIGHT and (judgement.attained or 0.0) < ATTAINED:
        part = min(judgement._sharp, key=judgement.best.__getitem__, default="")
        judgement.reason = f"no case attains it{part and ' in ' + part}: best ratio {judgement.attained or 0.0:.4g}"
    else:
        judgement.statement = Verdict.HOLDS
        judgement.certified = arithmetic is not FLOAT
        judgement.reason = f"no violation in {judgement.met} cases that meet the hypotheses ({judgement.tried} tried)"


def _cannot_be_meant(claim: Claim, rng: np.random.Generator, judgement: Judgement) -> bool:
    """Return True where the claimed defect certainly shows on every case of the supply."""
    arithmetic = EXACT if claim.arithmetic == "exact" else BALL
    shown: list[Trial] = []
    for case in claim.supply.families(rng):
        with working_precision():
            trial = try_case(claim, case, arithmetic, claim.defect)
        if trial.failed is None:
            shown.append(trial)
    if not shown or not all(trial.certain is True for trial in shown):
        return False
    judgement.tried = judgement.met = len(shown)
    judgement.witness = judgement.worst = shown[0]
    judgement.statement = Verdict.MISSTATED if claim.has_meaning else Verdict.ILL_POSED
    judgement.certified = True
    judgement.reason = f"the defect shows on each of {len(shown)} cases"
    return True
