"""Questions that are run on request: bits of equal calls and of batches, memory that was not written, graphs, races."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from attnprune_verify.audit.kernel.problem.sample import KernelSample
from attnprune_verify.audit.kernel.process.context import KernelContext
from attnprune_verify.audit.kernel.process.facts import Refused, Reply
from attnprune_verify.audit.kernel.process.shapes import misshapen
from attnprune_verify.audit.kernel.truth.judge import judge
from attnprune_verify.audit.record import Finding
from attnprune_verify.audit.subject.answers import NoAnswer

_EQUAL_CALLS = 50  # chosen: an order of additions that depends on threads differs in far fewer
_TINY_CALLS = 3_000  # as KERNELS' mode "many" has it: a race was seen once in so many steps
_ORDINARY = ("plain", "causal", "mask", "grouped heads", "more keys", "value size", "ragged tiles")
_SPLIT = ("larger", "larger, causal", "larger, more keys", "long")  # where kernels split: 256 keys and more
_SCRATCH = ("packed", "packed log-sum-exp", "log-sum-exp gradient", "bias gradient", "sinks gradient", "dropout")
_TILES = (16, 32, 64, 128)  # multiples that kernels round sizes up to
_LARGEST = 1 << 20  # numbers of an array that is written with nan before a call; chosen
_INPUTS = ("q", "k", "v", "do")


def _accepted(
    context: KernelContext, function: str, names: tuple[str, ...], last: bool = False
) -> Iterator[KernelSample]:
    """The samples of these regimes that the kernel takes; of each the last, or all."""
    for name in names:
        for sample in context.regimes()[name].samples[-1 if last else 0 :]:
            try:
                reply = context.answer(function, sample)
            except Refused:
                continue
            if misshapen(function, sample, reply) is None:
                yield sample


def _bitwise(context: KernelContext, function: str) -> Finding:
    calls = 0
    for sample in _accepted(context, function, (*_ORDINARY, "larger"), last=True):
        reply = context.repeat(function, sample, _EQUAL_CALLS)
        if reply.other:
            said = f"{reply.other} of {reply.made} equal calls differ from the first in a bit, on {sample.describe()}"
            return _failed(said, "not-bitwise", sample)
        if reply.made < _EQUAL_CALLS:
            return _fewer(reply, _EQUAL_CALLS)
        calls += reply.made
    return Finding("passed", f"{calls} calls, equal to the bit on each instance")


def _fewer(reply: Reply, asked: int) -> Finding:
    said = f"the time reached for {reply.made} of {asked:,} equal calls; a higher --call-limit allows more"
    return Finding("inconclusive", said)


def _batch_invariant(context: KernelContext, function: str) -> Finding:
    count = 0
    samples = (*_accepted(context, function, _ORDINARY, last=True), *_accepted(context, function, _SPLIT))
    for sample in samples:
        one = _of_batch(sample, [0])
        alone = context.ask(function, one)
        for place, size in ((0, 2), (1, 2), (2, 5), *(((31, 32),) if one.shape[3] == 1 else ())):
            batch = _filled_up(one, place, size)
            try:
                together = context.ask(function, batch)
            except Refused:
                continue
            if any(a[0].tobytes() != b[place].tobytes() for a, b in zip(alone.parts, together.parts, strict=True)):
                said = f"sample {place} of {size} in a batch has other bits than alone, on {one.describe()}"
                return _failed(said, "batch-variant", batch)
            count += 1
    if not count:
        return Finding("not_applicable", "refuses batches of more than one sample")
    return Finding("passed", f"{count} batches, equal to the bit to the sample alone")


def _of_batch(sample: KernelSample, places: list[int]) -> KernelSample:
    return sample.changed(**{name: getattr(sample, name)[places] for name in _INPUTS})


def _filled_up(one: KernelSample, place: int, size: int) -> KernelSample:
    """A batch of other numbers of the same sizes, with the sample at its place."""
    rng = np.random.default_rng([place, size])
    arrays = {}
    for name in _INPUTS:
        own = getattr(one, name)
        others = one.precision.exact(rng.standard_normal((size, *own.shape[1:])))
        others[place] = own[0]
        arrays[name] = others
    return one.changed(**arrays)


def _poisoned(context: KernelContext, function: str) -> Finding:
    count = 0
    for sample in _accepted(context, function, (*_ORDINARY, *_SCRATCH)):
        before = context.answer(function, sample)
        for slot in ("", f"poisoned {sample.name}"):
            reply = context.ask(function, sample, slot=slot, poison=_sizes(sample))
            broken = _finite(before) and not _finite(reply)
            if not _right(function, sample, reply) and (broken or _right(function, sample, before)):
                where = f"where memory holds nan before the call, on {sample.describe()}"
                said = "a result holds what memory held" if broken else "a result differs"
                return _failed(f"{said} {where}", "nan-output" if broken else "stale-output", sample)
            count += 1
    return Finding("passed", f"{count} calls over memory filled with nan")


def _sizes(sample: KernelSample) -> list[int]:
    """Sizes of arrays that a kernel may have: inputs, answers, logits, one number a row; of whole tiles, too."""
    batch, heads, kv_heads, n, length, m, mv = sample.shape
    found = set()
    for tile in (1, *_TILES):
        rows, keys = -(-n // tile) * tile, -(-length // tile) * tile
        found |= {batch * heads * rows * size for size in (1, m, mv, length, keys)}
        found |= {batch * kv_heads * keys * size for size in (m, mv)} | {batch * heads * n * keys}
    return sorted(size for size in found if size <= _LARGEST)


def _replayed(context: KernelContext, function: str) -> Finding:
    count = 0
    for sample in _accepted(context, function, ("plain", "causal", "grouped heads"), last=True):
        slot = f"replay {function} {sample.name}"
        try:
            context.ask(function, sample, slot=slot, replay=True)
            for turn in range(2):
                other = _filled_up(_of_batch(sample, [0]), 0, sample.shape[0]).changed(
                    q=sample.q[..., ::-1].copy(), v=(turn + 2) * sample.v[:, :, ::-1], name=f"{sample.name}, replayed"
                )
                reply = context.ask(function, other, slot=slot, replay=True)
                if not _right(function, other, reply):
                    said = "the captured call, replayed on other values, gives another result"
                    return _failed(f"{said}, on {other.describe()}", "stale-output", other)
                count += 1
        except NoAnswer as none:
            if "NotImplementedError" in str(none):
                return Finding("not_applicable", f"{context.declared.framework} records no calls here: {none}")
            raise
    return Finding("passed", f"{count} replays of captured calls on other values")


def _many(context: KernelContext, function: str) -> Finding:
    made = other = 0
    for sample in _accepted(context, function, ("plain", "smallest")):
        if sample.longest > 7:
            continue
        reply = context.repeat(function, sample, _TINY_CALLS)
        if _right(function, sample, context.answer(function, sample)) and not _right(function, sample, reply):
            said = f"of {reply.made} equal calls one is wrong and {reply.other} differ, on {sample.describe()}"
            return _failed(said, "nondeterministic", sample)
        if reply.made < _TINY_CALLS:
            return _fewer(reply, _TINY_CALLS)
        made, other = made + reply.made, other + reply.other
    beside = f"; {other} differ by rounding" if other else ""
    return Finding("passed", f"{made} tiny calls{beside}")


def _right(function: str, sample: KernelSample, reply: Reply) -> bool:
    return misshapen(function, sample, reply) is None and judge(function, sample, reply.parts).status != "failed"


def _finite(reply: Reply) -> bool:
    return all(np.isfinite(part).all() for part in reply.parts)


def _failed(reason: str, id: str, sample: KernelSample) -> Finding:
    return Finding("failed", reason, ids=(id,), samples=(sample,))


MODE_CHECKS: dict[str, tuple[str, Callable[[KernelContext, str], Finding]]] = {
    "bitwise": ("equal calls are equal to the bit", _bitwise),
    "batch-invariant": ("a sample alone and in a batch is equal to the bit", _batch_invariant),
    "poisoned": ("memory filled with nan and freed before a call does not show", _poisoned),
    "replay": ("a call captured once and replayed gives the result of other values", _replayed),
    "many": (f"{_TINY_CALLS:,} tiny calls are all right", _many),
}
