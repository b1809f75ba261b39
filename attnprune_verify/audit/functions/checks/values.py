"""Are the numbers right? Against ball arithmetic under the running-error bound, regime by regime."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.audit.functions.checks.smaller import call_on, check, failed_on, smaller_values
from attnprune_verify.audit.functions.context import Context, shape_ids
from attnprune_verify.audit.functions.layer.regimes import LAYER_SAYS
from attnprune_verify.audit.functions.layer.sample import LAYERED, REFUSABLE
from attnprune_verify.audit.functions.truth.samples import BENIGN, REQUIRED, STABILITY, Sample
from attnprune_verify.audit.functions.truth.samples_for import asked_samples
from attnprune_verify.audit.functions.truth.tolerance import ValueJudgement, hidden_terms, judge
from attnprune_verify.audit.record import Check, Finding
from attnprune_verify.audit.subject.answers import NoAnswer
from attnprune_verify.oracle.taylor import taylor_verdict

_MOST_TOKENS = 200  # chosen: of relative errors, whose truth is two enclosures of attention

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
    for regime, says in (LAYER_SAYS if function in LAYERED else _SAYS).items():
        if regime in _NEEDS_M and not {"M", "M_Q", "pruned"} & set(names):
            continue
        if regime in _NEEDS_LAM and "lam" not in names:
            continue
        ask = partial(_values, regime=regime)
        required, stability = regime in REQUIRED, regime in STABILITY
        yield check(function, f"values:{regime}", says, ask, required=required, stability=stability)
    if function in ("gradient", "loss_and_gradient"):
        says = "the remainder of the loss in its direction is of second order"
        yield check(function, "taylor-slope", says, _taylor)


@dataclass
class _Answers:
    """The instances of a regime by what came of them; `misshapen` ends the check."""

    wrong: list[tuple[Sample, ValueJudgement]] = field(default_factory=list)
    right: list[tuple[Sample, ValueJudgement]] = field(default_factory=list)
    silent: list[tuple[Sample, NoAnswer]] = field(default_factory=list)
    left_out: int = 0
    misshapen: Finding | None = None


def _values(context: Context, function: str, regime: str) -> Finding:
    asked = context.samples(regime, function)
    excused = _excused(context, function, regime)
    if excused is not None:
        return excused
    if not asked:
        return Finding("not_applicable", _why_nothing(context, function, regime))
    found = _answered(context, function, regime, asked)
    if found.misshapen is not None:
        return found.misshapen
    note = f"; {found.left_out} large instances left out, the subject is too slow for them" if found.left_out else ""
    if found.wrong:
        context.of(function).wrong.add(regime)
        failure = _judged(function, found.wrong, len(found.wrong) + len(found.right), note)
        stability = regime in STABILITY
        shrink = partial(smaller_values, context, function, failure.samples[0], failure.reason, stability)
        return replace(failure, shrink=shrink)
    return _not_wrong(context, function, regime, found, note)


def _excused(context: Context, function: str, regime: str) -> Finding | None:
    """The finding where a regime is not judged: batches or features that the function does not take."""
    if regime.startswith("batch"):
        refusal = context.refuses_batches(function)
        misread = context.misreads_batches(function) if regime == "batch" else None
        if misread is not None:
            reason, batch = misread
            call = call_on(function, batch)
            return Finding("failed", f"{reason}; what takes none raises", ids=("wrong-shape",), call=call)
        if refusal is not None:
            return Finding("not_applicable", refusal)
        if regime != "batch" and "batch" in context.of(function).wrong:
            return Finding("not_applicable", "batches are wrong as it is, see values:batch")
    refused = None if regime.endswith("together") else context.refuses(function, regime)
    return Finding("not_applicable", f"{function} refuses {refused}") if refused is not None else None


def _answered(context: Context, function: str, regime: str, asked: tuple[Sample, ...]) -> _Answers:
    found, stability = _Answers(), regime in STABILITY
    # The limit of `suspect` was calibrated on the other instances: an interaction is wrong by more than that.
    fails = ("failed",) if regime.endswith("together") else ("failed", "suspect")
    for sample in asked:
        if context.too_slow(function, sample) or (function == "relative_error" and sample.n > _MOST_TOKENS):
            found.left_out += 1
            continue
        try:
            answer = context.answer(function, sample)
        except NoAnswer as refusal:
            if refusal.unreadable or (stability and context.of(function).answered and _arithmetic(str(refusal))):
                found.wrong.append((sample, ValueJudgement("failed", np.inf, 0.0, np.nan, str(refusal))))
            else:
                found.silent.append((sample, refusal))
            continue
        problem = context.misshapen(function, sample, answer)
        if problem is not None:
            ids = shape_ids(function, sample, answer.parts)
            call = call_on(function, sample)
            found.misshapen = Finding("failed", f"{problem} on {sample.describe()}", ids=ids, call=call)
            break
        verdict = judge(function, sample, answer.parts, stability=stability)
        context.judged_up_to(function, sample)
        (found.wrong if verdict.verdict in fails else found.right).append((sample, verdict))
    return found


def _not_wrong(context: Context, function: str, regime: str, found: _Answers, note: str) -> Finding:
    """The finding where no answer is wrong: refusals, silence, what is undecided, or all is right."""
    right, silent = found.right, found.silent
    refuses = bool(silent) and not right and all(refusal.raised for _, refusal in silent)
    if refuses and function in LAYERED and regime in REFUSABLE:
        context.of(function).refused.add(regime)
        return Finding("not_applicable", f"refuses {regime}: {silent[0][1]}")
    if regime.endswith("together"):  # features that are refused together only
        together = [one for one, refusal in silent if refusal.raised and one.features]
        note += "".join(f"; refuses {', '.join(sorted(one.features))}" for one in together[:1])
        silent = [one for one in silent if not any(one[0] is sample for sample in together)]
    if silent:
        sample, refusal = silent[0]
        reason = f"{refusal}, on {sample.describe()}"
        return Finding("could_not_run", reason, samples=(sample,), call=call_on(function, sample))
    decided = [(sample, verdict) for sample, verdict in right if verdict.verdict == "passed"]
    if not right:
        return Finding("not_applicable", f"nothing small enough for this subject{note}")
    if not decided:
        return Finding("inconclusive", right[0][1].reason + note, power=max(verdict.resolution for _, verdict in right))
    hidden = hidden_terms(function, [sample for sample, _ in decided]) if regime in BENIGN else None
    if hidden:
        return Finding("inconclusive", f"{hidden} is below the resolution on every instance")
    undecided = f", {len(right) - len(decided)} undecided" if len(right) > len(decided) else ""
    error, bound, power = (
        max(getattr(verdict, name) for _, verdict in decided) for name in ("error", "bound", "resolution")
    )
    return Finding("passed", f"{len(decided)} instances{undecided}{note}", error, bound, power)


def _why_nothing(context: Context, function: str, regime: str) -> str:
    binding, precision = context.binding(function), context.precision(function)
    every = asked_samples(function, context.seed, regime, precision)
    if function not in LAYERED and not binding.takes("mask") and any(one.mask is not None for one in every):
        return f"{function} takes no mask"
    return f"not asked in {precision.name}"


def _arithmetic(reason: str) -> bool:
    """An arithmetic error on large logits is a wrong answer, spelled out."""
    return any(name in reason for name in ("OverflowError", "ZeroDivisionError", "FloatingPointError", "math domain"))


def _judged(function: str, wrong: list[tuple[Sample, ValueJudgement]], tried: int, note: str = "") -> Finding:
    """The finding for wrong values, described on the smallest wrong instance."""
    wrong = sorted(wrong, key=lambda item: (item[1].verdict != "failed", item[0].work))
    sample, verdict = wrong[0]
    measured = {"error": verdict.error, "bound": verdict.bound, "power": verdict.resolution}
    found = failed_on(function, sample, verdict.reason, **measured, samples=tuple(one for one, _ in wrong))
    return replace(found, reason=f"{found.reason}; wrong on {len(wrong)} of {tried} instances{note}")


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
                problem = f"{verdict.reason} (slope {verdict.slope:.2f} instead of 2)"
                measured = {"error": 2 - verdict.slope, "bound": 0.5, "power": verdict.detection_power}
                return failed_on(function, sample, problem, **measured, samples=(sample,))
            if verdict.status == "passed":
                passed, power = passed + 1, max(power, min(verdict.detection_power, 1.0))
            else:
                undecided = verdict.reason
    if not passed:
        return Finding("inconclusive" if undecided else "could_not_run", undecided or "no instance was answered")
    return Finding("passed", f"{passed} instances", power=power)
