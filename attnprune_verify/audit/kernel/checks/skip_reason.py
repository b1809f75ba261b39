"""Reasons for not calling a kernel: a feature is not declared, or its meaning is not defined.

Rows with nothing allowed are judged where a kernel declares conventions, returns log sum exp or takes packed
sequences, and where its output is 0 there; else they are undefined, as for every kernel that is only promised masks
without such rows. Masks of rank 3 and 4 and additive masks are judged where they are declared, or where plain ones are
read rightly, one that differs from head to head and from sample to sample and one of grouped heads among them: a kernel
that was written for (n, l) may take others, broadcast them along an axis of its own, and mean nothing by it. One that
reads masks of its heads, or of its samples, rightly means masks of rank 4: another answer to both at once is a mistake,
unless it declares the one axis.
A cotangent of log sum exp is judged where a backward pass has a parameter for it, or automatic differentiation lets it
through: gradients that do not change with it, beyond their rounding, belong to a log sum exp that is not meant to be
differentiated.
"""

from __future__ import annotations

import numpy as np

from attnprune_verify.audit.kernel.problem.sample import BACKWARD, FORWARD, KernelSample, parts_of
from attnprune_verify.audit.kernel.problem.sample_factory import Maker
from attnprune_verify.audit.kernel.process.context import KernelContext, Refused, Reply
from attnprune_verify.audit.kernel.process.shapes import misshapen
from attnprune_verify.audit.kernel.truth.judge import allowed_entries, judge
from attnprune_verify.audit.subject.process import NoAnswer

__all__ = ["another_declaration", "pulls", "unjudged"]

_DECLARED_AS = {"mask of rank 3": "mask_rank_3", "mask of rank 4": "mask_rank_4", "float mask": "float_mask"}
_ONE_AXIS = {"mask_per_sample": 1, "mask_per_head": 0}  # and the axis of a mask of rank 4 that has size 1 then


def unjudged(context: KernelContext, function: str, sample: KernelSample) -> str | None:
    """The reason why the kernel is not called on a sample, or None."""
    _, _, _, n, length, *_ = sample.shape
    if sample.causal and sample.conventions.bottom_right and n != length and sample.alibi is not None:
        return "slopes under a causal mask that ends at the last key are left open"
    if not sample.causal and sample.window is not None and sample.conventions.bottom_right and n != length:
        return "a window that is not causal is left open where the causal mask ends at the last key"
    if sample.lse and sample.sinks is not None:
        return "log sum exp with or without the sink is left open"
    if sample.poison is not None and sample.conventions.padding != "clean":
        return "NaN where nothing is read is for kernels that declare padding='clean'"
    if sample.empty and _empty_rows(context, function) == "undefined":
        return "rows with nothing allowed are not judged: they are undefined, unless empty_rows='zero' is declared"
    if sample.dlse is not None and function == BACKWARD and not pulls(context):
        return "no gradient comes through log sum exp; declare dlse if it is meant to"
    named = [] if "mask_rank_4" in context.capabilities else [one for one in _ONE_AXIS if one in context.capabilities]
    if named and "mask of rank 4" in sample.features and not _within(sample, named):
        return f"masks with more axes of their own are not judged: {' and '.join(named)} is declared"
    for feature, name in _DECLARED_AS.items():
        if feature in sample.features and not _reads(context, function, feature, name):
            return f"{feature} is read as something else, or refused; declare {name} if it is meant"
    return None


def another_declaration(context: KernelContext, function: str, samples: tuple[KernelSample, ...]) -> str:
    """Return the advice to declare the one axis of masks that are read rightly, where that makes all samples right."""
    high = all("mask of rank 4" in sample.features for sample in samples)
    for name in _ONE_AXIS:
        if high and context.read.get(f"{name} of {function}") and not any(_within(one, [name]) for one in samples):
            return f"; declare {name} in CAPABILITIES if that is meant"
    return ""


def _within(sample: KernelSample, names: list[str]) -> bool:
    """Return whether a mask of rank 4 differs along one of the named axes at most."""
    return sample.mask is not None and any(sample.mask.shape[_ONE_AXIS[name]] == 1 for name in names)


def pulls(context: KernelContext) -> bool:
    """Return whether the backward pass takes a cotangent of log sum exp."""
    if context.has(BACKWARD, "dlse") or context.own_backward or not context.has(FORWARD, "return_lse"):
        return context.has(BACKWARD, "dlse")
    if BACKWARD not in context.subject.functions:
        return False
    if "dlse" not in context.read:
        maker = Maker(context.seed, context.precision)
        pulled = maker.pulled(maker.make("dlse", 5, 8))
        without = pulled.changed(dlse=np.zeros((1, 2, 5)))
        replies = [_answer(context, BACKWARD, one) for one in (pulled, without)]
        parts = [reply.parts for reply in replies if reply is not None]
        bounds = [allowed_entries(name, without) for name in parts_of(BACKWARD, without)]
        with np.errstate(invalid="ignore"):  # gradients that ignore the cotangent are all within the bound of one truth
            context.read["dlse"] = len(parts) == 2 and not all(
                (np.abs(one - two) <= 2 * bound).all() for one, two, bound in zip(*parts, bounds, strict=True)
            )
    return context.read["dlse"]


def _empty_rows(context: KernelContext, function: str) -> str:
    """Return what the kernel means by rows with nothing allowed."""
    if context.declares or context.has(FORWARD, "return_lse") or context.has(FORWARD, "cu_seqlens_q"):
        return context.conventions.empty_rows
    if "empty rows" not in context.read:
        maker = Maker(context.seed, context.precision)
        sample = maker.make("empty", 5, 8)
        mask = np.ones((5, 5), dtype=bool)
        mask[2] = False
        reply = _answer(context, FORWARD, sample.changed(mask=mask))
        context.read["empty rows"] = reply is not None and not reply.parts[0][:, :, 2].any()
        if reply is not None and not context.read["empty rows"]:
            context.notes[FORWARD] = "; ".join(
                [*filter(None, [context.notes.get(FORWARD)]), "rows with nothing allowed: not judged, not declared"]
            )
    return "zero" if context.read["empty rows"] else "undefined"


def _reads(context: KernelContext, function: str, feature: str, name: str) -> bool:
    """Return whether plain masks of a kind are read rightly, grouped heads where the kernel takes those."""
    if name in context.capabilities or (name == "mask_rank_4" and set(_ONE_AXIS) & set(context.capabilities)):
        return True
    key = f"{feature} of {function}"
    if key not in context.read:
        maker = Maker(context.seed, context.precision)
        sample = maker.make(feature, 5, 8, batch=2, heads=3, masked=True)
        assert sample.mask is not None
        turned = np.stack([sample.mask, sample.mask[::-1], ~sample.mask | np.eye(5, dtype=bool)])
        plainest = {
            "mask of rank 3": (sample.mask[None], turned),
            "mask of rank 4": (sample.mask[None, None], np.stack([turned, turned[::-1]])),
            "float mask": (sample.mask,),
        }[feature]
        some = [sample.changed(mask=mask, additive=feature == "float mask") for mask in plainest]
        read = [_right(context, function, one) for one in some]
        context.read[key] = all(read)
        if feature == "mask of rank 4" and read[0] and read[1] is False:
            alone = {"mask_per_sample": turned[[0, 2]][:, None], "mask_per_head": turned[None]}  # no row is empty
            for axis, mask in alone.items():
                context.read[f"{axis} of {function}"] = bool(_right(context, function, sample.changed(mask=mask)))
            context.read[key] = any(context.read[f"{axis} of {function}"] for axis in alone)
        elif feature != "float mask" and context.read[key]:
            grouped = maker.make(f"{feature}, grouped", 5, 8, batch=2, heads=6, kv_heads=3)
            mask = np.concatenate([plainest[-1]] * 2, axis=-3)
            context.read[key] = _right(context, function, grouped.changed(mask=mask)) is not False
    return context.read[key]


def _right(context: KernelContext, function: str, sample: KernelSample) -> bool | None:
    """Return whether the answer is right; None where there is none."""
    try:
        reply = context.ask(function, context.meant(sample), probing=True)
    except (NoAnswer, Refused):
        return None
    return misshapen(function, sample, reply) is None and judge(function, sample, reply.parts).status != "failed"


def _answer(context: KernelContext, function: str, sample: KernelSample) -> Reply | None:
    """Return what is returned, in the right shape."""
    try:
        reply = context.ask(function, context.meant(sample), probing=True)
    except (NoAnswer, Refused):
        return None
    return reply if misshapen(function, sample, reply) is None else None
