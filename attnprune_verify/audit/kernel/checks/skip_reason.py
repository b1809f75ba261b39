"""Reasons for not calling a kernel: a feature is not declared, or its meaning is not defined.

Rows with nothing allowed are judged where a kernel declares conventions, returns log sum exp or takes packed
sequences, and where its output is 0 there; else they are undefined, as for every kernel that is only promised masks
without such rows. Masks of rank 3 and 4 and additive masks are judged where they are declared, or where plain ones are
read rightly, one that differs from head to head and from sample to sample and one of grouped heads among them: a kernel
that was written for (n, l) may take others, broadcast them along an axis of its own, and mean nothing by it. One that
reads masks of its heads, or of its samples, rightly means masks of rank 4: another answer to both at once is a mistake,
unless it declares the one axis; so is another answer to one of size 1 where those of full size are read rightly.
A cotangent of log sum exp is judged where a backward pass has a parameter for it, or automatic differentiation lets it
through: gradients that do not change with it, beyond their rounding, belong to a log sum exp that is not meant to be
differentiated.
"""

from __future__ import annotations

import numpy as np

from attnprune_verify.audit.kernel.problem.features import features_of
from attnprune_verify.audit.kernel.problem.sample import BACKWARD, FORWARD, KernelSample, parts_of
from attnprune_verify.audit.kernel.process.context import KernelContext
from attnprune_verify.audit.kernel.process.facts import Refused, Reply
from attnprune_verify.audit.kernel.process.shapes import misshapen
from attnprune_verify.audit.kernel.truth.judge import allowed_entries, judge
from attnprune_verify.audit.subject.answers import NoAnswer

_ONE_AXIS = {"mask_per_sample": 1, "mask_per_head": 0}  # and the axis of a mask of rank 4 that has size 1 then


def skip_reason(context: KernelContext, function: str, sample: KernelSample) -> str | None:
    """The reason why the kernel is not called on a sample, or None."""
    _, _, _, n, length, *_ = sample.shape
    if sample.causal and sample.conventions.bottom_right and n != length and sample.alibi is not None:
        return "slopes under a causal mask that ends at the last key are left open"
    if not sample.causal and sample.window is not None and sample.conventions.bottom_right and n != length:
        return "a window that is not causal is left open where the causal mask ends at the last key"
    if sample.sinks is not None and (sample.lse or sample.dlse is not None):
        if sample.empty:
            return "log sum exp of a row that sees a sink alone is left open"
        if not _counts_sinks(context):
            return "log sum exp with or without the sink is left open"
    if context.declared.sequences_alone and any(x is not None for x in (sample.mask, sample.bias, sample.dropout)):
        return "masks, biases and dropout beside packed sequences are not judged"
    if sample.poison is not None and sample.conventions.padding != "poisoned":
        return "NaN where nothing is read is for kernels that declare padding='poisoned'"
    if sample.empty and _empty_rows(context, function) == "undefined":
        return "rows with nothing allowed are not judged: they are undefined, unless empty_rows='zero' is declared"
    if sample.dlse is not None and function == BACKWARD and not accepts_lse_cotangent(context):
        return "no gradient comes through log sum exp; declare dlse if it is meant to"
    capabilities = context.declared.capabilities
    named = [] if "mask_rank_4" in capabilities else [axis for axis in _ONE_AXIS if axis in capabilities]
    if named and _of_rank_4(sample) and not _within(sample, named):
        return f"masks with more axes of their own are not judged: {' and '.join(named)} is declared"
    for feature in features_of(sample):
        if feature.capability and not _reads(context, function, feature.capability):
            return f"{feature.name} is read as something else, or refused; declare {feature.capability} if it is meant"
    return None


def _of_rank_4(sample: KernelSample) -> bool:
    return sample.mask is not None and sample.mask.ndim == 4


def another_declaration(context: KernelContext, function: str, samples: tuple[KernelSample, ...]) -> str:
    """Return the advice to declare the one axis of masks that are read rightly, where that makes all samples right."""
    reads = context.functions[function].reads
    for name in _ONE_AXIS:
        right = all(map(_of_rank_4, samples)) and reads.get(name)
        if right and not any(_within(sample, [name]) for sample in samples):
            return f"; declare {name} in CAPABILITIES if that is meant"
    return ""


def _within(sample: KernelSample, names: list[str]) -> bool:
    """Return True where a mask of rank 4 differs along one of the named axes at most."""
    return sample.mask is not None and any(sample.mask.shape[_ONE_AXIS[name]] == 1 for name in names)


def accepts_lse_cotangent(context: KernelContext) -> bool:
    """Return True where the backward pass takes a cotangent of log sum exp."""
    if context.has(BACKWARD, "dlse") or context.declared.own_backward or not context.has(FORWARD, "return_lse"):
        return context.has(BACKWARD, "dlse")
    if BACKWARD not in context.subject.functions:
        return False
    facts = context.functions[BACKWARD]
    if facts.accepts_lse_cotangent is None:
        pulled = context.maker.pulled(context.maker.make("dlse", 5, 8))
        without = pulled.changed(dlse=np.zeros(pulled.do.shape[:3]))
        replies = [_answer(context, BACKWARD, one) for one in (pulled, without)]
        parts = [reply.parts for reply in replies if reply is not None]
        bounds = [allowed_entries(name, without) for name in parts_of(BACKWARD, without)]
        with np.errstate(invalid="ignore"):  # gradients that ignore the cotangent are all within the bound of one truth
            facts.accepts_lse_cotangent = len(parts) == 2 and not all(
                (np.abs(one - two) <= 2 * bound).all() for one, two, bound in zip(*parts, bounds, strict=True)
            )
    return facts.accepts_lse_cotangent


def _counts_sinks(context: KernelContext) -> bool:
    """Return True where the log sum exp that the kernel returns has the sink in it; without one it is another thing."""
    facts = context.functions[FORWARD]
    if facts.counts_sinks is None:
        sunk = context.maker.sunk(context.maker.make("lse, sinks", 5, 8, lse=True))
        facts.counts_sinks = _right(context, FORWARD, sunk) or False
    return facts.counts_sinks


def _empty_rows(context: KernelContext, function: str) -> str:
    """The convention of the kernel for rows with nothing allowed: "zero" or "undefined"."""
    if context.declared.anything or context.has(FORWARD, "return_lse") or context.has(FORWARD, "cu_seqlens_q"):
        return context.declared.conventions.empty_rows
    facts = context.functions[FORWARD]
    if facts.zero_empty_rows is None:
        sample = context.maker.make("empty", 5, 8)
        mask = np.ones(sample.shape[3:5], dtype=bool)
        row = len(mask) // 2
        mask[row] = False
        reply = _answer(context, FORWARD, sample.changed(mask=mask))
        facts.zero_empty_rows = reply is not None and not reply.parts[0][:, :, row].any()
        if reply is not None and not facts.zero_empty_rows:
            undeclared = "rows with nothing allowed: not judged, not declared"
            facts.note = f"{facts.note}; {undeclared}" if facts.note else undeclared
    return "zero" if facts.zero_empty_rows else "undefined"


def _reads(context: KernelContext, function: str, kind: str) -> bool:
    """Return True where plain masks of a kind are read rightly, grouped heads where the kernel takes those."""
    capabilities, reads = context.declared.capabilities, context.functions[function].reads
    if kind in capabilities or (kind == "mask_rank_4" and set(_ONE_AXIS) & set(capabilities)):
        return True
    if kind not in reads:
        maker = context.maker
        sample = maker.make(kind, 5, 8, batch=2, heads=3, masked=True)
        assert sample.mask is not None
        batch, heads, _, n, length, *_ = sample.shape
        kinds = [sample.mask, sample.mask[::-1], ~sample.mask | np.eye(n, length, dtype=bool)]
        turned = np.stack([kinds[place % 3] for place in range(heads)])
        turned[..., 0] |= sample.causal  # no row is empty
        plainest = {
            "mask_rank_3": (sample.mask[None], turned),
            "mask_rank_4": (sample.mask[None, None], np.stack([turned, turned[::-1]][:batch])),
            "float_mask": (sample.mask,),
        }[kind]
        right = [
            _right(context, function, sample.changed(mask=mask, additive=kind == "float_mask")) for mask in plainest
        ]
        reads[kind] = bool(right[-1]) and right[0] is not None
        if kind == "mask_rank_4" and right[0] and right[1] is False:
            by_axis = {"mask_per_sample": turned[[0, -1][:batch]][:, None], "mask_per_head": turned[None]}
            for axis, mask in by_axis.items():
                reads[axis] = bool(_right(context, function, sample.changed(mask=mask)))
            reads[kind] = any(reads[axis] for axis in by_axis)
        elif kind != "float_mask" and reads[kind]:
            grouped = maker.make(f"{kind}, grouped", 5, 8, batch=2, heads=6, kv_heads=3)
            mask = np.take(plainest[-1], np.arange(grouped.shape[1]) % heads, axis=-3)
            reads[kind] = _right(context, function, grouped.changed(mask=mask)) is not False
    return reads[kind]


def _right(context: KernelContext, function: str, sample: KernelSample) -> bool | None:
    """Return True where the answer is right; None where there is none."""
    try:
        reply = context.ask(function, context.meant(sample), probing=True)
    except (NoAnswer, Refused):
        return None
    return misshapen(function, sample, reply) is None and judge(function, sample, reply.parts).status != "failed"


def _answer(context: KernelContext, function: str, sample: KernelSample) -> Reply | None:
    """The reply of a probe; None without an answer of the right shape."""
    try:
        reply = context.ask(function, context.meant(sample), probing=True)
    except (NoAnswer, Refused):
        return None
    return reply if misshapen(function, sample, reply) is None else None
