"""The smallest instance on which a kernel still fails: fewest features first, then sizes, then digits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from attnprune_verify.audit.kernel.problem.sample import KernelSample
from attnprune_verify.audit.kernel.process.context import KernelContext
from attnprune_verify.audit.kernel.process.shapes import misshapen
from attnprune_verify.audit.kernel.truth.judge import judge
from attnprune_verify.audit.naming.shrink import SMALLEST, fewer, rounded, smallest
from attnprune_verify.audit.subject.process import NoAnswer

__all__ = ["cut", "cuts", "failure", "smallest_failing", "without"]

# Calls and seconds of each of the three passes; jax compiles for every new shape.
_CALLS = {"numpy": 40, "torch": 40, "jax": 8}
_SECONDS = 2.0  # chosen: as long as a reader waits for a smaller instance
_ARRAYS = ("q", "k", "v", "do")
_SEEDED = 64  # numbers; larger arrays are given by a formula where the failure stays


def smallest_failing(context: KernelContext, function: str, sample: KernelSample) -> tuple[KernelSample, str] | None:
    """The smallest sample found that fails, and how; None if the sample itself does not fail again."""
    said = failure(context, function, sample)
    if said is None:
        return None

    def fails(smaller: KernelSample) -> bool:
        return failure(context, function, smaller) is not None

    calls = _CALLS[context.framework]
    steps: tuple[Callable[[KernelSample], Iterator[KernelSample]], ...] = (_plainer, cuts, _rounder)
    best = sample
    for step in steps:
        best = smallest(best, step, fails, calls=calls, seconds=_SECONDS)
    if max(getattr(best, name).size for name in _ARRAYS) > _SEEDED:
        best = next(filter(fails, _seeded(best)), best)
    return best, failure(context, function, best) or said


def failure(context: KernelContext, function: str, sample: KernelSample) -> str | None:
    """Why what is returned on a sample is wrong, in the right shape; None where it is not."""
    try:
        reply = context.ask(function, sample)
        if misshapen(function, sample, reply) is not None:
            return None
        verdict = judge(function, sample, reply.parts)
        return verdict.reason if verdict.status == "failed" else None
    except (NoAnswer, ArithmeticError, ValueError, IndexError):
        return None


def without(sample: KernelSample, feature: str) -> KernelSample | None:
    """The sample without one of its features; None where that leaves a row without keys."""
    batch, heads, kv_heads, n, length, m, mv = sample.shape
    changes: dict[str, dict[str, Any]] = {
        "causal": {"causal": False},
        "mask": {"mask": None},
        "scale": {"scale": None},
        "window": {"window": None},
        "softcap": {"softcap": None},
        "alibi": {"alibi": None},
        "strides": {"layout": "plain"},
        "spaced features": {"layout": "plain"},
        "float mask": {"additive": False},
        "bias": {"bias": None, "wanted": tuple(name for name in sample.wanted if name != "dbias")},
        "sinks": {"sinks": None, "wanted": tuple(name for name in sample.wanted if name != "dsinks")},
        "dropout": {"dropout": None, "keep": 1.0},
        "lse": {"lse": False},
        "dlse": {"dlse": None},
        "padding": {"poison": None},
        "dbias": {"wanted": tuple(name for name in sample.wanted if name != "dbias")},
        "dsinks": {"wanted": tuple(name for name in sample.wanted if name != "dsinks")},
    }
    if feature.startswith("mask ") and sample.mask is not None:
        rows = np.broadcast_to(sample.mask, (batch, heads, n, length))[0, 0].copy()
        return _whole(sample.changed(name=SMALLEST, mask=rows), sample.empty)
    if feature == "packed":
        return _whole(sample.changed(name=SMALLEST, ends=None), sample.empty)
    if feature == "empty rows":
        return None if sample.mask is None else _whole(sample, False)
    if feature in changes:
        return _whole(sample.changed(name=SMALLEST, **changes[feature]), sample.empty)
    if feature == "kv_heads < heads":
        first = slice(None, None, sample.group)
        kept = {name: getattr(sample, name) for name in ("alibi", "sinks")}
        kept = {name: None if value is None else value[first] for name, value in kept.items()}
        kept |= {name: _along(getattr(sample, name), 1, first) for name in ("mask", "bias", "dropout", "dlse")}
        return sample.changed(name=SMALLEST, q=sample.q[:, first], do=sample.do[:, first], **kept)
    if feature == "l != n":
        return cut(sample, n=min(n, length), l=min(n, length))
    return cut(sample, m=min(m, mv), mv=min(m, mv))


def _plainer(sample: KernelSample) -> Iterator[KernelSample]:
    """One sample of the batch, one feature less."""
    if sample.shape[0] > 1:
        yield from _kept([cut(sample, batch=1), _last_of_batch(sample)])
    yield from _kept(without(sample, feature) for feature in sample.features)


def _last_of_batch(sample: KernelSample) -> KernelSample:
    arrays = {name: getattr(sample, name)[-1:] for name in _ARRAYS}
    arrays |= {name: _along(getattr(sample, name), 0, slice(-1, None)) for name in ("mask", "bias", "dropout", "dlse")}
    return sample.changed(name=SMALLEST, **arrays)


def _along(array: Any, axis: int, part: slice) -> Any:
    """Some of what is given for each sample (axis 0) or head (axis 1); what is broadcast along the axis stays."""
    if array is None or array.ndim < 3:
        return array
    place = axis + array.ndim - 4 if array.dtype == bool else axis  # masks may leave leading axes out
    if place < 0 or array.shape[place] == 1:
        return array
    return array[(slice(None),) * place + (part,)]


def cuts(sample: KernelSample) -> Iterator[KernelSample]:
    """Fewer key heads, tokens, keys or features; the boldest first."""
    batch, _, kv_heads, n, length, m, mv = sample.shape
    square, same = n == length, m == mv
    for size in fewer(batch):
        yield from _kept([cut(sample, batch=size)])
    for size in fewer(kv_heads):
        yield from _kept([cut(sample, kv_heads=size)])
    for size in fewer(n):
        yield from _kept([cut(sample, n=size, l=size) if square else cut(sample, n=size)])
    for size in () if square else fewer(length):
        yield from _kept([cut(sample, l=size)])
    for size in fewer(m):
        yield from _kept([cut(sample, m=size, mv=size) if same else cut(sample, m=size)])
    for size in () if same else fewer(mv):
        yield from _kept([cut(sample, mv=size)])


def _rounder(sample: KernelSample) -> Iterator[KernelSample]:
    """Fewer digits, where no array becomes zero and no two samples of a batch become equal."""
    for names in (_ARRAYS, *((name,) for name in _ARRAYS)):
        for digits in (0, 1):
            short = {name: sample.precision.exact(rounded(getattr(sample, name), digits)) for name in names}
            if any(not np.array_equal(short[name], getattr(sample, name)) for name in names) and _telling(short):
                yield sample.changed(name=SMALLEST, **short)


def _telling(arrays: dict[str, Any]) -> bool:
    return all(array.any() and len(np.unique(array, axis=0)) == len(array) for array in arrays.values())


def _seeded(sample: KernelSample) -> Iterator[KernelSample]:
    """Fill the arrays, features unchanged, by a formula of one line."""
    for factor in (1.0, 3.0):
        rng = np.random.default_rng(0)
        filled = {
            name: sample.precision.exact(rng.integers(-4, 5, getattr(sample, name).shape) / 4 * factor)
            for name in _ARRAYS
        }
        yield sample.changed(name=SMALLEST, seeded=factor, **filled)


def _kept(some: Any) -> Iterator[KernelSample]:
    return (one for one in some if one is not None)


def _whole(sample: KernelSample, empty_rows: bool) -> KernelSample | None:
    """The sample, with a position in every row that its mask leaves empty; None if it has another reason.

    Where rows may be empty, one has to stay so.
    """
    empty = ~sample.allowed.any(axis=-1)
    if empty_rows or not empty.any() or sample.sinks is not None:
        return sample
    if empty.ndim > 1 or sample.ends is not None:
        return None
    bare = sample.changed(mask=None).allowed
    if sample.mask is None or not bare.any(axis=1).all():
        return None
    mask = sample.mask.copy()
    mask[empty, bare[empty].argmax(axis=1)] = True
    return sample.changed(mask=mask)


def cut(sample: KernelSample, **sizes: int) -> KernelSample | None:
    """The first entries, in a given number, along batch, kv_heads, n, l, m or mv."""
    names = ("batch", "heads", "kv_heads", "n", "l", "m", "mv")
    own = dict(zip(names, sample.shape, strict=True)) | sizes
    own["heads"] = own["kv_heads"] * sample.group
    if sample.ends is not None and {"n", "l"} & set(sizes):
        return _shorter(sample, sizes)

    def part(array: Any, *along: str) -> Any:
        return np.ascontiguousarray(array[tuple(slice(own[name]) for name in along)])

    def of(array: Any) -> Any:
        """Some of what is broadcast to (batch, heads, n, l)."""
        if array is None:
            return None
        axes = ("batch", "heads", "n", "l")[4 - array.ndim :]
        return array[
            tuple(slice(own[name]) if size > 1 else slice(None) for name, size in zip(axes, array.shape, strict=True))
        ]

    return _whole(
        sample.changed(
            name=SMALLEST,
            q=part(sample.q, "batch", "heads", "n", "m"),
            k=part(sample.k, "batch", "kv_heads", "l", "m"),
            v=part(sample.v, "batch", "kv_heads", "l", "mv"),
            do=part(sample.do, "batch", "heads", "n", "mv"),
            mask=of(sample.mask),
            bias=of(sample.bias),
            dropout=of(sample.dropout),
            dlse=None if sample.dlse is None else part(sample.dlse, "batch", "heads", "n"),
            alibi=None if sample.alibi is None else sample.alibi[: own["heads"]],
            sinks=None if sample.sinks is None else sample.sinks[: own["heads"]],
        ),
        sample.empty,
    )


def _shorter(sample: KernelSample, sizes: dict[str, int]) -> KernelSample | None:
    """Packed sequences without the last ones, as far as they fit into the sizes; None where none does."""
    assert sample.ends is not None
    limits = [sizes.get(name, size) for name, size in zip(("n", "l"), sample.shape[3:5], strict=True)]
    fitting = [pair for pair in zip(*sample.ends, strict=True) if pair[0] <= limits[0] and pair[1] <= limits[1]]
    if not fitting or fitting[-1][0] < 1 or fitting[-1][1] < 1 or len(fitting) == len(sample.ends[0]):
        return None
    n, length = fitting[-1]
    arrays = {name: getattr(sample, name)[:, :, : n if name in ("q", "do") else length] for name in _ARRAYS}
    ends = tuple(tuple(pair[side] for pair in fitting) for side in (0, 1))
    return sample.changed(name=SMALLEST, ends=ends, **arrays)
