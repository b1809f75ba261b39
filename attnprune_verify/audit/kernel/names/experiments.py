"""Experiments on a gradient, on large logits and on changed logits, for failures that no formula explains.

Each is a rule of `mechanisms`; beside each stands the program that made it necessary.
"""

from __future__ import annotations

import numpy as np

from attnprune_verify.audit.kernel.names.shrink import failure, without
from attnprune_verify.audit.kernel.problem.features import FEATURES
from attnprune_verify.audit.kernel.problem.sample import BACKWARD, Array, KernelSample
from attnprune_verify.audit.kernel.process.context import KernelContext
from attnprune_verify.audit.kernel.truth.judge import judge_parts
from attnprune_verify.audit.kernel.truth.steps import KernelSteps, evaluate
from attnprune_verify.audit.mistakes import SENTENCES
from attnprune_verify.audit.record import Diagnosis

_LEFT = 1e-2  # chosen: of an error, what a rule may leave; rounding leaves less and another mistake more
_MANY = 2_000_000  # chosen: numbers of a least-squares problem that is solved in under a second
_SEEN = 1e-3  # chosen: of the largest term, below which a term's factor is not read
_LARGE, _SMALLER = 30.0, 64.0  # chosen: e^30 is beyond float32's digits; a power of 2, so that logits stay exact
_CHANGES = [(feature.name, feature.mistake) for feature in FEATURES if feature.of_logits]


def other_mean(context: KernelContext, function: str, sample: KernelSample) -> Diagnosis | None:
    """A mean of dP over the first m of mv features: dq is off by a multiple of P K in each row, and dv is right."""
    if function != BACKWARD or sample.shape[5] < 3:  # of fewer features everything is nearly a multiple
        return None
    steps, parts = evaluate(sample), context.ask(function, sample).parts
    if judge_parts(function, sample, parts)[2].status == "failed":
        return None
    off, along = parts[0] - steps.dq, (steps.p * steps.slope) @ steps.k
    times = (off * along).sum(axis=-1, keepdims=True) / np.maximum((along**2).sum(axis=-1, keepdims=True), 1e-300)
    if not np.linalg.norm(off - times * along) <= _LEFT * np.linalg.norm(off):
        return None
    rows = np.flatnonzero(np.linalg.norm(off, axis=-1).max(axis=(0, 1)) > _LEFT * np.linalg.norm(off, axis=-1).max())
    words = f"another mean than that of dP under P is subtracted from dP, in rows {rows[0]} to {rows[-1]}"
    return Diagnosis(("wrong-softmax-correction",), words)


def blocks_of_gradients(context: KernelContext, function: str, sample: KernelSample) -> Diagnosis | None:
    """A dq that the last block of keys overwrites: the least-squares factors of the terms are 0 and 1."""
    if function != BACKWARD:
        return None
    parts = context.ask(function, sample).parts
    for name, part, terms in zip(("dq", "dk", "dv"), parts, _terms(sample, evaluate(sample)), strict=False):
        size = np.linalg.norm(terms, axis=0)
        if len(terms) < 2 * len(size):
            continue
        wanted = part[..., : len(terms) * part.shape[-1] // part.size].ravel()
        factors = np.linalg.lstsq(terms, wanted, rcond=None)[0]
        if not np.linalg.norm(terms @ factors - wanted) <= _LEFT * np.linalg.norm(wanted):
            continue
        seen = size > _SEEN * size.max()
        for times, id in ((0, "keys-dropped"), (2, "keys-counted-twice")):
            near = np.abs(factors - np.where(np.abs(factors - times) < 0.5, times, 1)) < _LEFT
            off = np.flatnonzero(seen & (np.abs(factors - times) < _LEFT))
            if len(off) and near[seen].all():
                what = "keys" if name == "dq" else "queries"
                how = "are missing from" if times == 0 else "count twice in"
                return Diagnosis((id,), f"{what} {off[0]} to {off[-1]} {how} {name}")
    return None


def _terms(sample: KernelSample, steps: KernelSteps) -> tuple[Array, ...]:
    """Terms that sum to each gradient, to as many features of it as are solved soon: (entries, keys or queries)."""
    length = sample.k.shape[2]
    batch, heads, kv_heads, n, *_ = sample.shape
    few = _MANY // (batch * heads * n * length)  # with whole tiles of 128 fewer than there are
    if not few:
        return ()
    ds = sample.factor * (steps.ds * steps.slope)[..., :length]
    used = (steps.p * steps.kept)[..., :length]
    dq = np.einsum("bhij,bhjc->bhicj", ds, steps.k[:, :, :length, :few])
    dk, dv = (np.einsum("bhij,bhic->bhjci", x, y[..., :few]) for x, y in ((ds, sample.q), (used, sample.do)))
    own = [x.reshape(batch, kv_heads, heads // kv_heads, *x.shape[2:]).sum(axis=2) for x in (dk, dv)]
    return tuple(x.reshape(-1, x.shape[-1]) for x in (dq, *own))


def large_logits(context: KernelContext, function: str, sample: KernelSample) -> Diagnosis | None:
    """Splits joined by exp(lse): right where the logits are smaller."""
    steps = evaluate(sample)
    if np.abs(np.where(steps.allowed, steps.s, 0.0)).max() < _LARGE:
        return None
    smaller = {name: getattr(sample, name) / _SMALLER for name in ("q", "bias", "sinks")
               if getattr(sample, name) is not None}  # fmt: skip
    small = sample.changed(**{name: sample.precision.exact(array) for name, array in smaller.items()})
    if failure(context, function, small) is not None:
        return None
    return Diagnosis(("unstable-exp",), f"right where the logits are {_SMALLER:g} times smaller")


def changed_logits(context: KernelContext, function: str, sample: KernelSample) -> Diagnosis | None:
    """Slopes that multiply the place in a tile: right without them, and no formula fits."""
    needed = []
    for feature, id in _CHANGES:
        less = without(sample, feature) if feature in sample.features else None
        if less is not None and failure(context, function, less) is None:
            needed.append(id)
    return (
        Diagnosis(tuple(needed), "; ".join(f"{SENTENCES[id]}, or not everywhere" for id in needed)) if needed else None
    )
