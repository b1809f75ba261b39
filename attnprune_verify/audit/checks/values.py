"""Are the numbers right? Against ball arithmetic under the running-error bound, regime by regime."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from attnprune_verify.audit.cases import BENIGN, STABILITY, Case
from attnprune_verify.audit.context import Context
from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.audit.record import Call, Check, Finding
from attnprune_verify.audit.reference import parameters, reference
from attnprune_verify.audit.subject import NoAnswer
from attnprune_verify.audit.terms import hidden_terms
from attnprune_verify.audit.tolerance import Judgement, judge
from attnprune_verify.oracle.taylor import taylor_verdict

__all__ = ["call_on", "judged", "values_checks"]

_SAYS = {
    "full": "right values without a mask",
    "causal": "right values with the causal mask",
    "given-mask": "right values with scattered, banded and diagonal-free masks",
    "n>d": "right values with more tokens than features",
    "n<d": "right values with more features than tokens",
    "one-token": "right values for n = 1",
    "one-feature": "right values for d = 1",
    "outside-box": "right values for M outside [0, 1]",
    "binary-M": "right values for M of 0 and 1",
    "unpruned": "right values at M = 1",
    "lam-zero": "right values for lam = 0",
    "lam-large": "right values for lam from 1 to 2000",
    "small-loss": "right values where the loss is 1e-7 and less",
    "scaled-tokens": "right values for huge and for tiny tokens",
    "degenerate": "right values for zero and repeated tokens, zero weights, symmetric matrices",
    "sharp": "right values for logits of 15 and 30",
    "float32": "right values in float32",
    "larger": "right values up to n = 270 and d = 70",
    "batch": "a batch is the average over its samples",
    "logits-100": "stable for logits of 100",
    "logits-1000": "stable for logits of 1000",
    "logits-1000-float32": "stable for logits of 1000 in float32",
    "offset-logits": "stable where all logits of a row are near +-900, or near -30000",
    "forbidden-giant": "stable where the largest logit is at a forbidden position",
}
_NEEDS_M = {"outside-box", "binary-M", "unpruned"}
_NEEDS_LAM = {"lam-zero", "lam-large"}


def values_checks(function: str) -> Iterator[Check]:
    """One check per regime that concerns this function, then the Taylor slope."""
    names = FUNCTIONS[function].arguments
    claim = FUNCTIONS[function].claim
    for regime, says in _SAYS.items():
        if regime in _NEEDS_M and not {"M", "M_Q"} & set(names):
            continue
        if regime in _NEEDS_LAM and "lam" not in names:
            continue
        yield Check(
            function,
            f"values:{regime}",
            says,
            claim,
            partial(_values, function=function, regime=regime),
            required=regime in BENIGN,
            stability=regime in STABILITY,
        )
    if function in ("gradient", "loss_and_gradient"):
        yield Check(
            function,
            "taylor-slope",
            "the remainder of the loss in its direction is of second order",
            claim,
            lambda context: _taylor(context, function),
        )


def _values(context: Context, function: str, regime: str) -> Finding:
    if regime == "batch":
        refusal = context.refuses_batches(function)
        if refusal is not None:
            return Finding("not_applicable", refusal)
    stability = regime in STABILITY
    wrong: list[tuple[Case, Judgement]] = []
    right: list[tuple[Case, Judgement]] = []
    silent: list[tuple[Case, str]] = []
    left_out = 0
    for case in context.cases(regime):
        if context.too_slow(function, case) or (function == "relative_error" and case.n > 200):
            left_out += 1
            continue
        try:
            answer = context.answer(function, case)
        except NoAnswer as refusal_:
            if refusal_.unreadable or (stability and context.answered(function) and _arithmetic(str(refusal_))):
                wrong.append((case, Judgement("failed", np.inf, 0.0, np.nan, str(refusal_))))
            else:
                silent.append((case, str(refusal_)))
            continue
        problem = context.misshapen(function, case, answer)
        if problem is not None:
            return Finding(
                "failed", f"{problem} on {case.describe()}", ids=("wrong-shape",), call=call_on(function, case)
            )
        verdict = judge(function, case, answer.parts, stability=stability)
        (wrong if verdict.verdict in ("failed", "suspect") else right).append((case, verdict))
    note = f"; {left_out} large instances left out, the subject is too slow for them" if left_out else ""
    if wrong:
        return judged(function, wrong, len(wrong) + len(right), note)
    if silent:
        case, reason = silent[0]
        return Finding("could_not_run", f"{reason}, on {case.describe()}", cases=(case,), call=call_on(function, case))
    decided = [verdict for _, verdict in right if verdict.verdict == "passed"]
    if not right:
        return Finding("not_applicable", f"nothing small enough for this subject{note}")
    if not decided:
        return Finding("inconclusive", right[0][1].reason + note, power=max(verdict.resolution for _, verdict in right))
    if regime in BENIGN:
        hidden = hidden_terms(function, [case for case, verdict in right if verdict.verdict == "passed"])
        if hidden:
            return Finding("inconclusive", f"{hidden} is below the resolution on every instance")
    open_cases = len(right) - len(decided)
    return Finding(
        "passed",
        f"{len(decided)} instances{f', {open_cases} undecided' if open_cases else ''}{note}",
        error=max(verdict.error for verdict in decided),
        bound=max(verdict.bound for verdict in decided),
        power=max(verdict.resolution for verdict in decided),
    )


def _arithmetic(reason: str) -> bool:
    """An arithmetic error on large logits is a wrong answer, spelled out."""
    return any(name in reason for name in ("OverflowError", "ZeroDivisionError", "FloatingPointError", "math domain"))


def judged(function: str, wrong: list[tuple[Case, Judgement]], tried: int, note: str = "") -> Finding:
    """The finding for wrong values, told by the smallest wrong instance."""
    wrong = sorted(wrong, key=lambda item: (item[1].verdict != "failed", item[0].work))
    case, verdict = wrong[0]
    return Finding(
        "failed",
        f"{verdict.reason}, on {case.describe()}; wrong on {len(wrong)} of {tried} instances{note}",
        error=verdict.error,
        bound=verdict.bound,
        power=verdict.resolution,
        cases=tuple(one for one, _ in wrong),
        call=call_on(function, case),
    )


def call_on(function: str, case: Case) -> Call:
    """The call that a snippet repeats."""
    arguments = dict(zip(FUNCTIONS[function].arguments, parameters(function, case), strict=True))
    return Call(function, arguments, expected=tuple(part.value for part in reference(function, case)))


def _taylor(context: Context, function: str) -> Finding:
    undecided, passed, power = "", 0, 0.0
    for regime in (*BENIGN, "outside-box", "small-loss", "lam-zero"):
        for case, parts in context.well_formed(function, context.cases(regime)):
            verdict = taylor_verdict(
                case.M, parts[-1], case.X, case.W, case.lam, case.mask, rng=np.random.default_rng(case.seed)
            )
            if verdict.status == "failed":
                return Finding(
                    "failed",
                    f"{verdict.reason} (slope {verdict.slope:.2f} instead of 2), on {case.describe()}",
                    error=2 - verdict.slope,
                    bound=0.5,
                    power=verdict.detection_power,
                    cases=(case,),
                    call=call_on(function, case),
                )
            if verdict.status == "passed":
                passed, power = passed + 1, max(power, min(verdict.detection_power, 1.0))
            else:
                undecided = verdict.reason
    if not passed:
        return Finding("inconclusive" if undecided else "could_not_run", undecided or "no instance was answered")
    return Finding("passed", f"{passed} instances", power=power)
