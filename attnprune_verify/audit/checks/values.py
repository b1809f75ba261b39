"""Are the numbers right? Against ball arithmetic under the running-error bound, regime by regime."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from attnprune_verify.audit.checks.smaller import call_on, smaller_values
from attnprune_verify.audit.context import Context
from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.audit.layer.regimes import LAYER_SAYS
from attnprune_verify.audit.layer.sample import LAYERED, REFUSABLE, LayerSample
from attnprune_verify.audit.record import Check, Finding
from attnprune_verify.audit.subject.process import NoAnswer
from attnprune_verify.audit.truth.asked import asked_samples
from attnprune_verify.audit.truth.samples import BENIGN, REQUIRED, STABILITY, Sample
from attnprune_verify.audit.truth.terms import hidden_terms
from attnprune_verify.audit.truth.tolerance import Judgement, judge
from attnprune_verify.oracle.taylor import taylor_verdict

__all__ = ["judged", "values_checks"]

_SAYS = {
    "full": "right values without a mask",
    "causal": "right values with the causal mask",
    "given-mask": "right values with scattered, banded and diagonal-free masks",
    "n>d": "right values with more tokens than features",
    "n<d": "right values with more features than tokens",
    "n=d": "right values with as many tokens as features",
    "one-token": "right values for n = 1",
    "one-feature": "right values for d = 1",
    "outside-box": "right values for M outside [0, 1]",
    "binary-M": "right values for M of 0 and 1",
    "unpruned": "right values at M = 1",
    "M-near-1": "right values for M close to 1",
    "M-zero": "right values for M = 0",
    "lam-zero": "right values for lam = 0",
    "lam-large": "right values for lam from 1 to 2000",
    "small-loss": "right values where the loss is 1e-7 and less",
    "scaled-tokens": "right values for huge and for tiny tokens",
    "degenerate": "right values for zero and repeated tokens, zero weights, symmetric matrices",
    "sharp": "right values for logits of 15 and 30",
    "float32": "right values in float32",
    "larger": "right values up to n = 270 and d = 70",
    "batch": "a batch is the average over its samples",
    "batch-logits-1000": "a batch with large logits, in one sample or in all",
    "logits-100": "stable for logits of 100",
    "logits-1000": "stable for logits of 1000",
    "logits-1000-float32": "stable for logits of 1000 in float32",
    "offset-logits": "stable where all logits of a row are near +-900, or beyond -10000",
    "forbidden-giant": "stable where the largest logit is at a forbidden position",
    "together": "right values for all pairs of mask, size, precision, M and lam, up to n = 140",
    "batch-together": "the same of batches",
}
_NEEDS_M = {"outside-box", "binary-M", "unpruned", "M-near-1", "M-zero"}
_NEEDS_LAM = {"lam-zero", "lam-large"}


def values_checks(function: str) -> Iterator[Check]:
    """One check per regime that concerns this function, then the Taylor slope."""
    names = FUNCTIONS[function].arguments
    claim = FUNCTIONS[function].claim
    for regime, says in (LAYER_SAYS if function in LAYERED else _SAYS).items():
        if regime in _NEEDS_M and not {"M", "M_Q", "pruned"} & set(names):
            continue
        if regime in _NEEDS_LAM and "lam" not in names:
            continue
        yield Check(
            function,
            f"values:{regime}",
            says,
            claim,
            partial(_values, function=function, regime=regime),
            required=regime in REQUIRED,
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
    if regime.startswith("batch"):
        refusal = context.refuses_batches(function)
        misread = context.misreads_batches(function) if regime == "batch" else None
        if misread is not None:
            reason, batch = misread
            return Finding(
                "failed", f"{reason}; what takes none raises", ids=("wrong-shape",), call=call_on(function, batch)
            )
        if refusal is not None:
            return Finding("not_applicable", refusal)
        if regime != "batch" and "batch" in context.wrong.get(function, ()):
            return Finding("not_applicable", "batches are wrong as it is, see values:batch")
    asked = context.samples(regime, function)
    combined = regime.endswith("together")
    refused = None if combined else context.refuses(function, regime)
    if refused is not None:
        return Finding("not_applicable", f"{function} refuses {refused}")
    if not asked:
        return Finding("not_applicable", _why_nothing(context, function, regime))
    stability = regime in STABILITY
    wrong: list[tuple[Sample, Judgement]] = []
    right: list[tuple[Sample, Judgement]] = []
    silent: list[tuple[Sample, str, bool]] = []
    left_out = 0
    for sample in asked:
        if context.too_slow(function, sample) or (function == "relative_error" and sample.n > 200):
            left_out += 1
            continue
        try:
            answer = context.answer(function, sample)
        except NoAnswer as refusal_:
            if refusal_.unreadable or (stability and context.answered(function) and _arithmetic(str(refusal_))):
                wrong.append((sample, Judgement("failed", np.inf, 0.0, np.nan, str(refusal_))))
            else:
                silent.append((sample, str(refusal_), refusal_.raised))
            continue
        problem = context.misshapen(function, sample, answer)
        if problem is not None:
            ids = context.shape_ids(function, sample, answer.parts)
            return Finding("failed", f"{problem} on {sample.describe()}", ids=ids, call=call_on(function, sample))
        verdict = judge(function, sample, answer.parts, stability=stability)
        context.judged_up_to(function, sample)
        # What is suspect was calibrated on the other instances: an interaction is wrong by more than that.
        fails = ("failed",) if combined else ("failed", "suspect")
        (wrong if verdict.verdict in fails else right).append((sample, verdict))
    note = f"; {left_out} large instances left out, the subject is too slow for them" if left_out else ""
    if wrong:
        context.wrong.setdefault(function, set()).add(regime)
        found = judged(function, wrong, len(wrong) + len(right), note)
        shrink = partial(smaller_values, context, function, found.samples[0], found.reason, stability)
        return replace(found, shrink=shrink)
    if silent and function in LAYERED and regime in REFUSABLE and not right and all(raised for *_, raised in silent):
        context.refused.setdefault(function, set()).add(regime)
        return Finding("not_applicable", f"refuses {regime}: {silent[0][1]}")
    if combined:  # features that are refused together only
        left = [one for one, _, raised in silent if raised and isinstance(one, LayerSample) and one.features]
        note += "".join(f"; refuses {', '.join(sorted(one.features))}" for one in left[:1])
        silent = [one for one in silent if not any(one[0] is sample for sample in left)]
    if silent:
        sample, reason, _ = silent[0]
        return Finding(
            "could_not_run", f"{reason}, on {sample.describe()}", samples=(sample,), call=call_on(function, sample)
        )
    decided = [verdict for _, verdict in right if verdict.verdict == "passed"]
    if not right:
        return Finding("not_applicable", f"nothing small enough for this subject{note}")
    if not decided:
        return Finding("inconclusive", right[0][1].reason + note, power=max(verdict.resolution for _, verdict in right))
    if regime in BENIGN:
        hidden = hidden_terms(function, [sample for sample, verdict in right if verdict.verdict == "passed"])
        if hidden:
            return Finding("inconclusive", f"{hidden} is below the resolution on every instance")
    undecided = len(right) - len(decided)
    return Finding(
        "passed",
        f"{len(decided)} instances{f', {undecided} undecided' if undecided else ''}{note}",
        error=max(verdict.error for verdict in decided),
        bound=max(verdict.bound for verdict in decided),
        power=max(verdict.resolution for verdict in decided),
    )


def _why_nothing(context: Context, function: str, regime: str) -> str:
    binding, precision = context.binding(function), context.precision(function)
    every = asked_samples(function, context.seed, regime, precision)
    if function not in LAYERED and not binding.takes("mask") and any(one.mask is not None for one in every):
        return f"{function} takes no mask"
    return f"not asked in {precision.name}"


def _arithmetic(reason: str) -> bool:
    """An arithmetic error on large logits is a wrong answer, spelled out."""
    return any(name in reason for name in ("OverflowError", "ZeroDivisionError", "FloatingPointError", "math domain"))


def judged(function: str, wrong: list[tuple[Sample, Judgement]], tried: int, note: str = "") -> Finding:
    """The finding for wrong values, told by the smallest wrong instance."""
    wrong = sorted(wrong, key=lambda item: (item[1].verdict != "failed", item[0].work))
    sample, verdict = wrong[0]
    return Finding(
        "failed",
        f"{verdict.reason}, on {sample.describe()}; wrong on {len(wrong)} of {tried} instances{note}",
        error=verdict.error,
        bound=verdict.bound,
        power=verdict.resolution,
        samples=tuple(one for one, _ in wrong),
        call=call_on(function, sample),
    )


def _taylor(context: Context, function: str) -> Finding:
    if context.precision(function).short:
        return Finding("not_applicable", "a slope cannot be told in 16 bits")
    undecided, passed, power = "", 0, 0.0
    for regime in (*BENIGN, "outside-box", "small-loss", "lam-zero"):
        for sample, parts in context.well_formed(function, context.samples(regime, function)):
            kind = np.float64 if sample.unit_roundoff < 2.0**-40 else np.float32  # whatever arrays carry the numbers
            M, gradient, X, W = (part.astype(kind) for part in (sample.M, parts[-1], sample.X, sample.W))
            rng = np.random.default_rng(sample.seed)
            verdict = taylor_verdict(M, gradient, X, W, sample.lam, sample.mask, rng=rng)
            if verdict.status == "failed":
                return Finding(
                    "failed",
                    f"{verdict.reason} (slope {verdict.slope:.2f} instead of 2), on {sample.describe()}",
                    error=2 - verdict.slope,
                    bound=0.5,
                    power=verdict.detection_power,
                    samples=(sample,),
                    call=call_on(function, sample),
                )
            if verdict.status == "passed":
                passed, power = passed + 1, max(power, min(verdict.detection_power, 1.0))
            else:
                undecided = verdict.reason
    if not passed:
        return Finding("inconclusive" if undecided else "could_not_run", undecided or "no instance was answered")
    return Finding("passed", f"{passed} instances", power=power)
