"""Causes of a failure that no formula explains: rules in order, each with an experiment of its own.

Each rule is (what it excludes if it finds nothing, the experiment). Beside each stands the program that made it
necessary; `tests/audit/kernel/test_mechanisms.py` has one for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attnprune_verify.audit.kernel.names.cross_talk import other_heads, shares_of_heads
from attnprune_verify.audit.kernel.names.experiments import (
    blocks_of_gradients,
    changed_logits,
    large_logits,
    other_mean,
)
from attnprune_verify.audit.kernel.names.shrink import cut, failure
from attnprune_verify.audit.kernel.problem.precision import LOWER
from attnprune_verify.audit.kernel.problem.sample import BACKWARD, FORWARD, Array, KernelSample, parts_of
from attnprune_verify.audit.kernel.process.context import KernelContext
from attnprune_verify.audit.kernel.process.facts import Reply
from attnprune_verify.audit.kernel.process.shapes import misshapen
from attnprune_verify.audit.kernel.truth.bounds import attention_errors
from attnprune_verify.audit.kernel.truth.judge import judge
from attnprune_verify.audit.kernel.truth.steps import evaluate
from attnprune_verify.audit.kernel.truth.truth import truth
from attnprune_verify.audit.mistakes import SENTENCES
from attnprune_verify.audit.naming.searching import searching
from attnprune_verify.audit.record import Diagnosis
from attnprune_verify.audit.subject.answers import NoAnswer

_TIMES = 5  # equal calls, of which a race shows in some
_LEAST_WEIGHT = 1e-4  # of a position whose weight is said to be missing: far above what underflow takes
_NOT_ONE = 1e-3  # chosen: by how much a row's sum is off that no precision explains
_UNITS = 4.0  # chosen: roundings to 16 bits that a result kept so while it is added up is off by
_MANY = 150_000  # weights that are fetched for one look at them
_PARTS = 16  # chosen: calls that fetch them where a kernel returns few columns

Rule = Callable[[KernelContext, str, KernelSample], "Diagnosis | None"]


def by_mechanism(context: KernelContext, function: str, sample: KernelSample) -> Diagnosis:
    """The mistake named by the first conclusive experiment, or "unknown" with the excluded ones."""
    excluded = []
    for excludes, rule in _RULES:
        with searching():
            found = rule(context, function, sample)
            if found is not None:
                return found
            excluded.append(excludes)
    return Diagnosis(("unknown",), f"{SENTENCES['unknown']}; excluded: {', '.join(excluded)}")


def _nan(context: KernelContext, function: str, sample: KernelSample) -> Diagnosis | None:
    """An online softmax that subtracts -inf from -inf; a gradient through a masked branch."""
    reply = context.ask(function, sample)
    bad = [
        name for name, part in zip(parts_of(function, sample), reply.parts, strict=True) if not np.isfinite(part).all()
    ]
    if not bad:
        return None
    masked = not evaluate(sample).allowed.all()
    id = "masked-block-nan" if masked else "nan-output"
    return Diagnosis((id,), f"{SENTENCES[id]} (in {', '.join(bad)})")


def _again(context: KernelContext, function: str, sample: KernelSample) -> Diagnosis | None:
    """A race: every seventh call loses a tile."""
    wrong = sum(failure(context, function, sample) is not None for _ in range(_TIMES))
    if wrong in (0, _TIMES):
        return None
    return Diagnosis(("nondeterministic",), f"of {_TIMES} equal calls {wrong} are wrong")


def _fresh(context: KernelContext, function: str, sample: KernelSample) -> Diagnosis | None:
    """Keys kept from an earlier call with the same shapes: right in a process that has seen nothing else."""
    if context.reopened is None:
        return None
    with context.reopened() as fresh:
        other = KernelContext(fresh, context.seed, context.precision)
        reply = other.ask(function, sample)
        right = misshapen(function, sample, reply) is None and judge(function, sample, reply.parts).status != "failed"
    return Diagnosis(("cached",), "right in a process that has seen no other call") if right else None


def _forward_too(context: KernelContext, function: str, sample: KernelSample) -> Diagnosis | None:
    """A gradient that a framework makes of a forward pass that is wrong on the same inputs."""
    if function != BACKWARD or context.declared.own_backward or failure(context, FORWARD, sample) is None:
        return None
    return Diagnosis(("follows-from-forward",), SENTENCES["follows-from-forward"])


def _weights(context: KernelContext, sample: KernelSample) -> Array | None:
    """Return the weight of every position: the result for unit vectors as values, (batch, heads, n, l)."""
    _, heads, _, n, length, _, width = sample.shape
    if heads * n * length > _MANY:
        return None
    try:
        return _of_values(context, sample, np.eye(length))
    except NoAnswer:  # where mv has to be m: as many unit vectors at once
        if length > _PARTS * width:
            raise
    units = np.zeros((length, -(-length // width) * width))
    np.fill_diagonal(units, 1.0)
    found = [_of_values(context, sample, part) for part in np.split(units, units.shape[1] // width, axis=1)]
    if any(part is None for part in found):
        return None
    return np.concatenate([part for part in found if part is not None], axis=-1)[..., :length]


def _of_values(context: KernelContext, sample: KernelSample, values: Array) -> Array | None:
    """Return the result for these values of every key head, or nothing where it has another shape."""
    batch, heads, kv_heads, n, _, _, _ = sample.shape
    units = np.broadcast_to(values, (batch, kv_heads, *values.shape)).copy()
    probe = sample.changed(v=units, do=np.zeros((batch, heads, n, values.shape[1])))
    reply: Reply = context.ask(FORWARD, probe)
    return reply.parts[0] if misshapen(FORWARD, probe, reply) is None else None


def _positions(context: KernelContext, function: str, sample: KernelSample) -> Diagnosis | None:
    """Weight where it is forbidden, as by a causal limit divided by the group; none where it is due."""
    found = _weights(context, sample) if function == FORWARD and not sample.extended else None
    if found is None or not np.isfinite(found).all():
        return None
    steps = evaluate(sample)
    error = 1e-6 + attention_errors(sample).worst["o"].max()
    leaks = (np.abs(found) > error) & ~steps.allowed
    if leaks.any():
        item = tuple(int(x) for x in np.argwhere(leaks)[0])
        words = f"query {item[2]} gives {found[item]:.2g} to key {item[3]}, which it may not see"
        return Diagnosis(("mask-leaks",), words)
    lost = (found == 0) & (steps.p > _LEAST_WEIGHT)
    if not lost.any():
        return None
    keys = np.flatnonzero(lost.any(axis=(0, 1, 2)))
    unread = not found[..., keys].any()
    last = unread and keys[-1] == sample.shape[4] - 1 and len(keys) == keys[-1] - keys[0] + 1
    ids = ("last-block-dropped" if last else "keys-dropped", *_tail(context, function, sample))
    item = tuple(int(x) for x in np.argwhere(lost)[0])
    words = (
        f"keys {keys[0]} to {keys[-1]} get no weight" if unread else f"query {item[2]} gives no weight to key {item[3]}"
    )
    return Diagnosis(ids, words)


def _sums(context: KernelContext, function: str, sample: KernelSample) -> Diagnosis | None:
    """A split without any key that counts as one of weight 1: a row's weights sum to less than 1."""
    found = _weights(context, sample) if function == FORWARD and not sample.extended else None
    if found is None or not np.isfinite(found).all():
        return None
    sums = found.sum(axis=-1)
    off = np.abs(sums - 1) * (sums != 0)
    item = tuple(int(x) for x in np.unravel_index(int(off.argmax()), off.shape))
    if off[item] <= max(_NOT_ONE, _UNITS * context.precision.stored):
        return None
    return Diagnosis(("not-normalised",), f"the weights of query {item[2]} sum to {sums[item]:.3g}")


def _stored_sums(context: KernelContext, function: str, sample: KernelSample) -> Diagnosis | None:
    """An output kept in 16 bits from tile to tile: its errors are a few roundings, which such sums explain."""
    if not context.precision.stored:
        return None
    parts, lower = context.ask(function, sample).parts, LOWER[context.precision.name][0]
    for name, part in zip(parts_of(function, sample), parts, strict=True):
        right = truth(sample)[name].value
        if not np.linalg.norm(part - right) <= _UNITS * context.precision.stored * np.linalg.norm(right):
            return None
    if judge(function, sample, parts, lower).status == "failed":
        return None
    return Diagnosis(("low-precision",), f"off by a few roundings, as sums are that are kept in {lower.name}")


def _memory(context: KernelContext, function: str, sample: KernelSample) -> Diagnosis | None:
    """Keys read as if contiguous where a mask is causal; the plain layout has been found right."""
    if sample.layout == "plain" or failure(context, function, sample.changed(layout="plain")) is not None:
        return None
    return Diagnosis(("strides-ignored",), f"wrong where the inputs are {sample.layout} in memory")


def _batch(context: KernelContext, function: str, sample: KernelSample) -> Diagnosis | None:
    """A mask used in the first sample alone: each sample of the batch is right by itself."""
    alone = [cut(_from(sample, item), batch=1) for item in range(sample.shape[0])]
    if len(alone) < 2 or any(one is None or failure(context, function, one) is not None for one in alone):
        return None
    return Diagnosis(("heads-mixed",), "wrong in a batch, and right for each of its samples alone")


def _sequences(context: KernelContext, function: str, sample: KernelSample) -> Diagnosis | None:
    """Offsets of packed sequences, where a kernel takes nothing else and samples are sequences of one length."""
    if not context.declared.sequences_alone or _batch(context, function, sample) is None:
        return None
    return Diagnosis(("varlen-offset",), "wrong where sequences stand behind each other, and right for each alone")


def _from(sample: KernelSample, item: int) -> KernelSample:
    return sample.changed(**{name: getattr(sample, name)[item:] for name in ("q", "k", "v", "do")})


def _key_heads(context: KernelContext, function: str, sample: KernelSample) -> Diagnosis | None:
    """Splits joined by the log sum exp of the first head: each key head is right by itself, with its query heads."""
    kv_heads = sample.shape[2]
    if kv_heads < 2 or sample.extended or sample.alibi is not None:
        return None
    single = [
        sample.changed(q=sample.q[:, own], do=sample.do[:, own], k=sample.k[:, [key]], v=sample.v[:, [key]])
        for key in range(kv_heads)
        for own in [np.flatnonzero(sample.key_heads == key)]
    ]
    if any(context.scope.excludes(own) or failure(context, function, own) is not None for own in single):
        return None
    return Diagnosis(("heads-mixed",), "wrong with many key heads, and right for each alone with its query heads")


def _rows(context: KernelContext, function: str, sample: KernelSample) -> Diagnosis | None:
    """Rows or columns of a result that are 0 where nothing is: values beyond m, the last query."""
    for name, part in zip(parts_of(function, sample), context.ask(function, sample).parts, strict=True):
        shown = np.abs(truth(sample)[name].value) > attention_errors(sample).worst[name]  # else 0 may be right
        if shown.any() and not part.any():
            return Diagnosis(("zero-output",), f"{name} is all zeros")
        for axis, what in ((-1, "rows"), (-2, "columns")):
            gone = ~part.any(axis=axis) & shown.any(axis=axis)
            if gone.any() and not gone.all():
                places = np.unique(np.argwhere(gone)[:, -1])
                id = "rows-dropped" if what == "rows" else "features-dropped"
                words = f"{what} {places[0]} to {places[-1]} of {name} are 0"
                return Diagnosis((id, *_tail(context, function, sample)), words)
    return None


def _tile_tail(context: KernelContext, function: str, sample: KernelSample) -> Diagnosis | None:
    """Wrong for 129 keys, right for 128 and for 127."""
    found = _tail(context, function, sample)
    n, length = sample.shape[3:5]
    return Diagnosis(found, f"wrong for n = {n}, l = {length}, and right one smaller and one larger") if found else None


def _tail(context: KernelContext, function: str, sample: KernelSample) -> tuple[str, ...]:
    """Return True where the failure is gone one size below and one above."""
    n, length = sample.shape[3:5]
    if length < 3:
        return ()
    square = n == length
    below = cut(sample, n=n - 1, l=length - 1) if square else cut(sample, l=length - 1)
    near = (below, _longer(sample, square))
    if any(sized is not None and context.scope.excludes(sized) for sized in near):
        return ()
    return ("tile-tail",) if all(one is not None and failure(context, function, one) is None for one in near) else ()


def _longer(sample: KernelSample, square: bool) -> KernelSample:
    """Repeat the first key, or token, at the end."""

    def more(array: Any, axis: int) -> Any:
        first = np.take(array, [0], axis=axis)
        return np.concatenate([array, first], axis=axis)

    mask = None if sample.mask is None else more(more(sample.mask, 0) if square else sample.mask, 1)
    arrays = {name: more(getattr(sample, name), 2) for name in (("q", "k", "v", "do") if square else ("k", "v"))}
    return sample.changed(mask=mask, **arrays)


_RULES: tuple[tuple[str, Rule], ...] = (
    ("not-a-number", _nan),
    ("the forward pass", _forward_too),
    ("a race", _again),
    ("what earlier calls left", _fresh),
    ("strides", _memory),
    ("sequences behind each other", _sequences),
    ("rows and columns of zeros", _rows),
    ("forbidden and missing positions", _positions),
    ("keys and values of other heads", other_heads),
    ("other samples of a batch", _batch),
    ("the rest of a tile", _tile_tail),
    ("large logits", large_logits),
    ("rows of weights", _sums),
    ("another mean of dP", other_mean),
    ("shares of heads", shares_of_heads),
    ("other key heads", _key_heads),
    ("blocks of gradients", blocks_of_gradients),
    ("window, cap and slopes", changed_logits),
    ("sums in 16 bits", _stored_sums),
)
