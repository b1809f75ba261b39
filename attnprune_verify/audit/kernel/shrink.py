"""The smallest shape on which a kernel still fails: dimensions are cut one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attnprune_verify.audit.kernel.context import KernelContext
from attnprune_verify.audit.kernel.judge import judge
from attnprune_verify.audit.kernel.sample import Sample
from attnprune_verify.audit.kernel.shapes import misshapen
from attnprune_verify.audit.subject.process import NoAnswer

__all__ = ["smallest_failing"]

_MOST_CALLS = {"numpy": 40, "torch": 40, "jax": 12}  # jax compiles for every new shape


def smallest_failing(context: KernelContext, function: str, sample: Sample) -> tuple[Sample, str] | None:
    """A smaller sample that fails, and how; None if there is none."""
    best, said = sample, ""
    calls = _MOST_CALLS[context.framework]
    shrinking = True
    while shrinking and calls > 0:
        shrinking = False
        for smaller in _cuts(best):
            calls -= 1
            reason = _failure(context, function, smaller)
            if reason is not None:
                best, said, shrinking = smaller, reason, True
                break
            if calls <= 0:
                break
    return None if best is sample else (best, said)


def _failure(context: KernelContext, function: str, sample: Sample) -> str | None:
    try:
        reply = context.ask(function, sample)
        if misshapen(function, sample, reply) is not None:
            return None
        verdict = judge(function, sample, reply.parts)
        return verdict.reason if verdict.status == "failed" else None
    except (NoAnswer, ArithmeticError, ValueError):
        return None


def _cuts(sample: Sample) -> Iterator[Sample]:
    """Fewer batches, key heads, tokens, keys or features; halves before single steps."""
    batch, _, kv_heads, n, length, m, mv = sample.shape
    sizes = {"batch": batch, "kv_heads": kv_heads, "n": n, "l": length, "m": m, "mv": mv}
    square, same = sample.causal or n == length, m == mv
    for name, size in sizes.items():
        if (name == "l" and square) or (name == "mv" and same):
            continue
        for new in dict.fromkeys((1, 2, size // 2, size - 1)):
            if not 0 < new < size:
                continue
            changed = {name: new}
            if name == "n" and square:
                changed["l"] = new
            if name == "m" and same:
                changed["mv"] = new
            yield _cut(sample, **{**sizes, **changed})


def _cut(sample: Sample, batch: int, kv_heads: int, n: int, l: int, m: int, mv: int) -> Sample:  # noqa: E741  # as in the contract
    heads = kv_heads * sample.group
    mask = None if sample.mask is None else sample.mask[:n, :l].copy()
    if mask is not None:
        empty = ~(mask & np.tri(n, l, dtype=bool) if sample.causal else mask).any(axis=1)
        mask[empty, 0] = True
    return sample.changed(
        name="smallest found",
        q=np.ascontiguousarray(sample.q[:batch, :heads, :n, :m]),
        k=np.ascontiguousarray(sample.k[:batch, :kv_heads, :l, :m]),
        v=np.ascontiguousarray(sample.v[:batch, :kv_heads, :l, :mv]),
        do=np.ascontiguousarray(sample.do[:batch, :heads, :n, :mv]),
        mask=mask,
        alibi=None if sample.alibi is None else sample.alibi[:heads],
    )
