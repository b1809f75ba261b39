"""One case under one claim: whether the hypotheses hold there, and the worst relation with its slack."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Quantities, in_floats
from attnprune_verify.claims.cases.relation import Relation, agrees_to, attained, decide, kind_of, slack
from attnprune_verify.claims.core import Claim, Margin, Unmet, relations
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.theory.numbers.arithmetic import BALL, FLOAT, Arithmetic, Undecidable, working_precision

_SHARE = 0.1  # chosen: a tenth of the square in the attention term makes that term matter
_LARGEST = 200
"""Up to this n d the matrix of Pi A is formed."""
# chosen: balls of 2048 bits that overlap to 60 digits count as equal, so that a non-strict bound is attained there
_EQUAL_DIGITS = 60


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
    ratios: Mapping[str, float] = field(default_factory=dict)
    """By part: how nearly the bound is attained, 1 where it is met."""


def try_case(claim: Claim, case: Case, arithmetic: Arithmetic, margin: Margin | None = None) -> Trial:
    """Evaluate one case: first the hypotheses, then the relations."""
    quantities = in_floats(case) if arithmetic is FLOAT else Quantities(case, arithmetic)
    try:
        for hypothesis in claim.hypotheses:
            if not hypothesis.holds(quantities):
                return Trial(case, failed=hypothesis.name)
        found = relations(margin or claim.margin, quantities)
    except Unmet as skipped:
        if str(skipped) in {hypothesis.name for hypothesis in claim.hypotheses}:
            return Trial(case, failed=str(skipped))
        return Trial(case, problem=f"skipped for a condition that is not printed: {skipped}")
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
        return Trial(case, problem="skipped without a hypothesis that names the condition")
    slacks = [slack(relation) for relation in found]
    worst = int(np.argmin([-2.0 if math.isnan(value) else value for value in slacks]))
    answers: list[bool | None] = [decide(relation) for relation in found] if arithmetic is not FLOAT else [None]
    if any(answer is False for answer in answers):
        worst = answers.index(False)
    sure = False if any(a is False for a in answers) else None if any(a is None for a in answers) else True
    if sure:
        # what is left of a certain relation below 0 is the width of the balls
        return Trial(case, slack=max(0.0, slacks[worst]), relation=found[worst], certain=True, ratios=_ratios(found))
    return Trial(case, slack=slacks[worst], relation=found[worst], certain=sure, ratios=_ratios(found))


def _ratios(found: Iterable[Relation]) -> dict[str, float]:
    best: dict[str, float] = {}
    for relation in found:
        ratio = attained(relation)
        if ratio is not None:
            part = kind_of(relation.part)
            best[part] = max(ratio, best.get(part, 0.0))
    return best


def matters(case: Case) -> bool:
    """Return True without an instance, or where a row has a choice and K^2/(K^2 + lam) > 1/10: attention decides."""
    if "X" not in case or "W" not in case or np.ndim(case["X"]) != 2:
        return True
    q = in_floats(case)
    if q.n * q.d > _LARGEST:  # K from below, by the mask of ones
        kept = np.where(q.allowed, q.logits_dense, 0.0)
        centred = kept - q.allowed * (kept.sum(axis=1) / q.row_sizes)[:, None]
        square = q.square(centred) / q.d**2
    else:
        square = q.K**2
    return q.n_e > 0 and square > _SHARE * (square + float(case.get("lam", 0.0)))


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
