"""Names of failures in optional parts: another convention than the declared one, or the part that the failure needs.

First every other declaration is tried on what was returned: if one makes all of it right, that is what the kernel
means. Then the results that are wrong on the smallest failing instance, and the parts that it cannot do without.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attnprune_verify.audit.kernel.names.shrink import without
from attnprune_verify.audit.kernel.problem.conventions import Conventions
from attnprune_verify.audit.kernel.problem.features import FEATURES
from attnprune_verify.audit.kernel.problem.sample import BACKWARD, FORWARD, Array, KernelSample, parts_of
from attnprune_verify.audit.kernel.process.bridge import ORDERS
from attnprune_verify.audit.kernel.process.context import KernelContext
from attnprune_verify.audit.kernel.process.facts import Reply
from attnprune_verify.audit.kernel.process.shapes import misshapen
from attnprune_verify.audit.kernel.truth.judge import judge, judge_parts
from attnprune_verify.audit.kernel.truth.steps import evaluate
from attnprune_verify.audit.kernel.typing import Foreign
from attnprune_verify.audit.mistakes import SENTENCES
from attnprune_verify.audit.record import Diagnosis
from attnprune_verify.audit.subject.answers import NoAnswer

_FEW_IN_ORDER = 2  # chosen: that an order of axes has to make right
_FEW = 6  # chosen: failing samples that a declaration has to make right, plainest first
_BESIDE = {"causal_alignment": (), "window_inclusive": ("window-off-by-one",), "lse_base": ("lse-base",),
           "order": ("score-order",), "groups": ("heads-swapped",), "empty_lse": ("empty-row",)}  # fmt: skip
_MEANS = {
    "causal_alignment": "the causal mask is aligned {value}",
    "window_inclusive": "the window holds i - j = window, too",
    "lse_base": "log sum exp has base {value}",
    "order": "the order is {value}",
    "groups": "query heads of a group are {value}",
    "empty_lse": "log sum exp of rows with nothing allowed is {value}",
}
_PARTS = [
    (feature.name, feature.mistake) for feature in reversed(FEATURES) if feature.mistake and not feature.of_logits
]
"""Names of failures that go away with a feature; the first that is there."""
_LOST_WHERE_PACKED = [(feature.name, feature.mistake) for feature in FEATURES if feature.of_logits]
"""Changes of the logits, each of which a packed path may lose."""
_OMITTED = {
    "causal": "mask-ignored", "mask": "mask-ignored", "scale": "logit-scale", "window": "window-wrong",
    "softcap": "softcap-wrong", "alibi": "alibi-wrong", "bias": "bias-wrong", "sinks": "sink-wrong",
    "dropout": "dropout-wrong",
}  # fmt: skip
"""Names of parts that are left out, which an answer shows that is right without them."""
_RESULTS = {"lse": "lse-wrong", "dbias": "bias-gradient", "dsinks": "sink-gradient"}


def by_convention(context: KernelContext, function: str, samples: tuple[KernelSample, ...]) -> Diagnosis | None:
    """The declaration that would make every failing answer right, if there is one."""
    some = sorted(samples, key=lambda one: (len(one.features), one.work))[:_FEW]
    answers = [(one, _answer(context, function, one)) for one in some]
    known = [(one, reply) for one, reply in answers if reply is not None]
    if not known or len(known) < len(answers):
        return None
    for name, value, meant in context.declared.conventions.others():
        if _concerns(name, known[0][0]) and _right_by(meant, function, known):
            shown = " ".join(value) if isinstance(value, tuple) else value
            said = _MEANS[name].format(value=shown)
            if function == BACKWARD and any(_declared_forward(context, sample, meant) for sample, _ in known):
                return Diagnosis(_BESIDE[name] or ("convention",), f"in the backward pass alone {said}")
            return Diagnosis(("convention", *_BESIDE[name]), f"{said}; declare {name}={value!r} if that is meant")
    if all(_only_where_empty(function, one, reply) for one, reply in known):
        said = "rows with nothing allowed are not 0 (log sum exp -inf); declare empty_rows='undefined' if that is meant"
        return Diagnosis(("empty-row", "convention"), f"{said}{_nan_in(known)}")
    return None


def _right_by(meant: Conventions, function: str, known: list[tuple[KernelSample, Reply]]) -> bool:
    """Return True where answers are right by another declaration. Rows that it leaves no key do not count."""
    again = [(sample.changed(conventions=meant), sample.empty, reply) for sample, reply in known]
    verdicts = [judge(function, sample, reply.parts) for sample, empty, reply in again if sample.empty <= empty]
    return bool(verdicts) and all(verdict.status != "failed" for verdict in verdicts)


def _declared_forward(context: KernelContext, sample: KernelSample, meant: Conventions) -> bool:
    """Return True where the output is right as declared, and wrong by another declaration."""
    own = sample.changed(wanted=(), dlse=None)
    reply = _answer(context, FORWARD, own)
    if reply is None or judge(FORWARD, own, reply.parts).status == "failed":
        return False
    return judge(FORWARD, own.changed(conventions=meant), reply.parts).status == "failed"


def by_order(context: KernelContext, function: str, samples: tuple[KernelSample, ...], known: bool) -> Diagnosis | None:
    """The other order of as many axes in which the plainest failing answers are right; if it is known, or refused."""
    unpacked = [sample for sample in samples if sample.ends is None]
    plainest = sorted(unpacked, key=lambda sample: (len(sample.features), sample.work))[:_FEW_IN_ORDER]
    declared = context.declared.layout
    for order in ORDERS:
        if len(order) == len(declared) and order != declared:
            found = [_right_in(order, context, function, sample) for sample in plainest]
            if found and False not in found and (known or True in found):
                said = f"right where the axes are {order}; declare LAYOUT = {order!r} if that is meant"
                return Diagnosis(("convention",), said)
    return None


def _right_in(order: str, context: KernelContext, function: str, sample: KernelSample) -> bool | None:
    """Return True where the answer is right with the axes in another order, None where there is none."""
    reply = context.in_order(order, function, sample)
    if reply is None or misshapen(function, sample, reply) is not None:
        return None
    return judge(function, sample, reply.parts).status != "failed"


def by_part(context: KernelContext, function: str, sample: KernelSample) -> Diagnosis | None:
    """The name for the smallest failing instance by its wrong results, then by the part it needs."""
    reply = _answer(context, function, sample)
    if reply is None:
        return None
    if (left_out := _left_out(function, sample, reply)) is not None:
        return left_out
    verdicts = zip(parts_of(function, sample), judge_parts(function, sample, reply.parts), strict=True)
    wrong = [name for name, verdict in verdicts if verdict.status == "failed"]
    needed = [id for feature, id in _PARTS if _needs(context, function, sample, feature)]
    if wrong and set(wrong) <= set(_RESULTS) and not {"nan-leak", "empty-row", "varlen-offset"} & set(needed[:1]):
        ids = tuple(_RESULTS[name] for name in wrong)
        return Diagnosis(ids, "; ".join(filter(None, (_said(id, sample, reply) for id in ids))))
    beside: list[str] = []
    if needed[:1] == ["varlen-offset"]:
        beside = needed[1:] + [id for feature, id in _LOST_WHERE_PACKED if _needs(context, function, sample, feature)]
    if needed:
        id, where = (beside[0], ", in packed sequences alone") if beside else (needed[0], "")
        return Diagnosis((id,), f"{SENTENCES[id]}{where}{_nan_in([(sample, reply)])}")
    return None


def _left_out(function: str, sample: KernelSample, reply: Reply) -> Diagnosis | None:
    """The part beside which the answer is right: a causal flag that a path with dropout does not get."""
    for name, id in _OMITTED.items():
        less = without(sample, name) if name in sample.features else None
        if (
            less is None
            or not less.features
            or (less.shape, parts_of(function, less)) != (sample.shape, parts_of(function, sample))
        ):
            continue
        if judge(function, less, reply.parts).status == "passed":
            return Diagnosis((id,), f"{name} is left out where there is {' and '.join(less.features)}")
    return None


def _needs(context: KernelContext, function: str, sample: KernelSample, feature: str) -> bool:
    """Return True where the failure goes away with the feature: where the kernel answers, which it may not any more."""
    less = without(sample, feature) if feature in sample.features else sample
    if less is None or less is sample:
        return less is None
    reply = _answer(context, function, less)
    return reply is not None and judge(function, less, reply.parts).status != "failed"


def _concerns(name: str, sample: KernelSample) -> bool:
    """Return True where a convention can show on a sample."""
    changes = (sample.softcap, sample.bias, sample.alibi)
    beside = (sample.mask, sample.scale, sample.window, sample.causal or None)
    return {
        "causal_alignment": sample.causal and (sample.shape[3] != sample.shape[4] or sample.ends is not None),
        "window_inclusive": sample.window is not None,
        "lse_base": sample.lse,
        "groups": sample.group > 1,
        "empty_lse": sample.lse and sample.empty,
        "order": sample.softcap is not None
        or (any(x is not None for x in changes) and sum(x is not None for x in (*changes, *beside)) > 1),
    }[name]


def _answer(context: KernelContext, function: str, sample: KernelSample) -> Reply | None:
    try:
        reply = context.answer(function, sample)
    except NoAnswer:
        return None
    return reply if misshapen(function, sample, reply) is None else None


def _only_where_empty(function: str, sample: KernelSample, reply: Reply) -> bool:
    """Return True where the answer is right but for o, log sum exp and dq of rows with nothing allowed."""
    if not sample.empty:
        return False
    rows, steps = ~sample.seen[1], evaluate(sample)
    mended: list[Foreign] = []
    for name, part in zip(parts_of(function, sample), reply.parts, strict=True):
        right: Array = getattr(steps, name)
        right = np.where(rows, sample.conventions.empty_logarithm, right) if name == "lse" else right
        own = rows if name == "lse" else rows[..., None]
        mended.append(np.where(own, right, part) if name in ("o", "lse", "dq") else part)
    return judge(function, sample, tuple(mended)).status != "failed"


def _nan_in(answers: list[tuple[KernelSample, Reply]]) -> str:
    return " (a result is nan)" if any(np.isnan(part).any() for _, reply in answers for part in reply.parts) else ""


def _said(id: str, sample: KernelSample, reply: Reply) -> str:
    """Name what a wrong log sum exp equals instead, if known; of other mistakes the sentence."""
    if id != "lse-wrong":
        return SENTENCES[id]
    steps, got = evaluate(sample), reply.parts[1]
    if (np.isposinf(got) & np.isfinite(steps.lse)).any():
        return "log sum exp overflows: exponentials must be shifted by the row's largest logit, a sink included"
    for words, formula in _logarithms(sample):
        with np.errstate(all="ignore"):
            if np.allclose(got, formula, rtol=1e-3, atol=1e-3) and not np.allclose(formula, steps.lse):
                return f"log sum exp is {words}"
    return SENTENCES[id]


def _logarithms(sample: KernelSample) -> Iterator[tuple[str, Array]]:
    """Values that kernels return in place of log sum exp, each after its description."""
    steps = evaluate(sample)
    lse, top = steps.lse * sample.conventions.unit, steps.top[..., 0]
    plain = sample.changed(softcap=None, alibi=None, bias=None)
    with np.errstate(all="ignore"):
        yield "0", np.zeros_like(lse)
        yield "the largest logit", top
        yield "without the largest logit: log of the shifted sum", lse - top
        yield "the shifted sum of exponentials, not its logarithm", np.exp(lse - top)
        yield "the sum of exponentials, not its logarithm", np.exp(lse)
        yield "in base 2", lse / np.log(2)
        yield "multiplied by log(2)", lse * np.log(2)
        yield "the largest logit plus the binary logarithm of the sum", top + (lse - top) / np.log(2)
        yield "negative", -lse
        yield "divided by the scale", lse / sample.factor
        yield "of logits that are not scaled", evaluate(plain.changed(scale=1.0)).lse
        yield "of logits without softcap, bias and slopes", evaluate(plain).lse
        yield "of all positions, forbidden ones included", evaluate(sample.changed(mask=None, causal=False)).lse
