"""Shapes of released models: every one that the kernel takes forward, a third of each head size backward."""

from __future__ import annotations

import numpy as np

from attnprune_verify.audit.kernel.problem.released_shapes import instances
from attnprune_verify.audit.kernel.problem.sample import BACKWARD, KernelSample
from attnprune_verify.audit.kernel.process.context import KernelContext

__all__ = ["shapes_asked"]

_SMALL = 64  # tokens; chosen: above, the many heads of most models cost seconds each, and those with few are asked


def shapes_asked(context: KernelContext, function: str, m: int) -> tuple[KernelSample, ...]:
    """Return the instances of a head size; backward those that the seed draws.

    They are not causal where the kernel has no such parameter. Both functions get the same samples, so that a truth is
    computed once.
    """
    causal = context.has(function, "causal") or context.scope.causal is not None
    samples = []
    for place, sample in enumerate(instances(context.maker, m)):
        asked = sample if causal else sample.changed(causal=False)
        samples.append(context.rows.setdefault(("shape", m, place, causal), context.meant(asked)))
    if context.quick and context.declared.framework == "jax":  # which compiles each shape anew
        samples = sorted(samples, key=lambda sample: sample.work)[:1]
    elif samples and min(samples[0].shape[3:5]) > _SMALL:
        samples = sorted(samples, key=lambda sample: sample.work)[: 1 if context.quick else 2]
    if function == BACKWARD:
        drawn = np.random.default_rng([context.seed, m]).permutation(len(samples))[: -(-len(samples) // 3)]
        samples = [samples[place] for place in sorted(drawn)]
    return tuple(samples)
