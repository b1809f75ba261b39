"""Shapes of released models: every one that the kernel takes forward, a third of each head size backward."""

from __future__ import annotations

import numpy as np

from attnprune_verify.audit.kernel.problem.released_shapes import instances
from attnprune_verify.audit.kernel.problem.sample import BACKWARD, KernelSample
from attnprune_verify.audit.kernel.process.context import KernelContext
from attnprune_verify.audit.kernel.process.facts import TooSlow

_SMALL = 64  # tokens; chosen: above, the many heads of most models cost seconds each, and those with few are asked
# Multiplications of the shapes of a head size, in haste and otherwise; chosen: some two and twenty seconds.
_IN_HASTE, _MOST = 2**27, 2**30


def shapes_asked(context: KernelContext, function: str, m: int) -> tuple[KernelSample, ...]:
    """Return the instances of a head size, in haste those of little work; backward those that the seed draws.

    They are not causal where the kernel has no such parameter. Both functions get the same samples, so that a truth is
    computed once.

    Raises
    ------
    TooSlow
        If each of them is too much work, on tiles of more than 64 tokens or in haste.
    """
    placed = list(enumerate(instances(context.maker.scope, m)))
    large = bool(placed) and min(placed[0][1].sizes[3:5]) > _SMALL
    if large or context.quick:
        most = _IN_HASTE if context.quick else _MOST
        placed = sorted(placed, key=lambda pair: pair[1].work)[: 2 if large else None]
        within = placed[: int((np.cumsum([instance.work for _, instance in placed]) <= most).sum())]
        if placed and not within:
            _, least = placed[0]
            raise TooSlow(f"too much work: {least.work:.1g} multiplications, of the shape of {least.model}")
        compiled = context.declared.framework == "jax"  # each shape anew
        placed = within[:1] if context.quick and (large or compiled) else within
    if function == BACKWARD:
        drawn = np.random.default_rng([context.seed, m]).permutation(len(placed))[: -(-len(placed) // 3)]
        placed = [placed[place] for place in sorted(drawn)]
    causal = context.has(function, "causal") or context.scope.causal is not None
    samples = []
    for place, instance in placed:
        key = ("shape", m, place, causal)
        if key not in context.rows:
            sample = instance.sample(context.maker)
            context.rows[key] = context.meant(sample if causal else sample.changed(causal=False))
        samples.append(context.rows[key])
    return tuple(samples)
