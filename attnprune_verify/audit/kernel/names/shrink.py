"""The smallest instance on which a kernel still fails: fewest features first, then sizes, then digits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from attnprune_verify.audit.kernel.problem.features import feature_named
from attnprune_verify.audit.kernel.problem.sample import KernelSample, along
from attnprune_verify.audit.kernel.problem.sample_factory import filled
from attnprune_verify.audit.kernel.process.context import KernelContext
from attnprune_verify.audit.kernel.process.shapes import misshapen
from attnprune_verify.audit.kernel.truth.judge import judge
from attnprune_verify.audit.naming.searching import searching
from attnprune_verify.audit.naming.shrink import SMALLEST, fewer, rounded, smallest

# Calls and seconds of each of the three passes; jax compiles for every new shape.
_CALLS = {"numpy": 40, "torch": 40, "jax": 8}
_SECONDS = 2.0  # chosen: as long as a reader waits for a smaller instance
_ARRAYS = ("q", "k", "v", "do")
_WRITTEN = 8  # numbers; larger arrays are given by a formula where the failure stays


def smallest_failing(context: KernelContext, function: str, sample: KernelSample) -> tuple[KernelSample, str] | None:
    """The smallest sample found that fails, and how; None if the sample itself does not fail again."""
    said = failure(context, function, sample)
    if said is None:
        return None

    def fails(smaller: KernelSample) -> bool:
        return failure(context, function, smaller) is not None

    calls = _CALLS[context.declared.framework]
    steps: tuple[Callable[[KernelSample], Iterator[KernelSample]], ...] = (_plainer, cuts, _rounder)
    best = sample
    for step in steps:
        best = smallest(best, step, fails, calls=calls, seconds=_SECONDS)
    if max(getattr(best, name).size for name in _ARRAYS) > _WRITTEN:
        best = next((by_formula for factor in (1.0, 3.0) if fails(by_formula := filled(best, factor))), best)
    return best, failure(context, function, best) or said


def failure(context: KernelContext, function: str, sample: KernelSample) -> str | None:
    """Return the reason that an answer in the right shape is wrong on a sample; None where it is right."""
    with searching():
        reply = context.ask(function, sample)
        if misshapen(function, sample, reply) is None:
            verdict = judge(function, sample, reply.parts)
            return verdict.reason if verdict.status == "failed" else None
    return None


def without(sample: KernelSample, feature: str) -> KernelSample | None:
    """The sample without one of its features; None where that leaves a row without keys."""
    found: KernelSample | None = feature_named(feature).dropped(sample)
    return None if found is None else found.changed(name=SMALLEST)


def cut(sample: KernelSample, **sizes: int) -> KernelSample | None:
    """The first entries, in a given number, along batch, kv_heads, n, l, m or mv."""
    found = sample.cut(**sizes)
    return None if found is None else found.changed(name=SMALLEST)


def _plainer(sample: KernelSample) -> Iterator[KernelSample]:
    """One sample of the batch, one feature less."""
    if sample.shape[0] > 1:
        yield from _kept([cut(sample, batch=1), _last_of_batch(sample)])
    yield from _kept(without(sample, feature) for feature in sample.features)


def _last_of_batch(sample: KernelSample) -> KernelSample:
    arrays = {name: getattr(sample, name)[-1:] for name in _ARRAYS}
    arrays |= {name: along(getattr(sample, name), 0, slice(-1, None)) for name in ("mask", "bias", "dropout", "dlse")}
    return sample.changed(name=SMALLEST, **arrays)


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


def _kept(samples: Any) -> Iterator[KernelSample]:
    return (sample for sample in samples if sample is not None)
