"""Find out whether a kernel of float16 loses subnormal weights: what it may lose is then all of a weight, not a bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attnprune_verify.audit.kernel.problem.precision import KernelPrecision
from attnprune_verify.audit.kernel.problem.sample import BACKWARD, FORWARD, KernelSample
from attnprune_verify.audit.kernel.problem.sample_factory import Maker
from attnprune_verify.audit.kernel.process.context import KernelContext
from attnprune_verify.audit.kernel.process.shapes import misshapen
from attnprune_verify.audit.kernel.truth.judge import judge
from attnprune_verify.audit.subject.answers import NoAnswer

_KEYS, _FEATURES = 65, 8  # chosen: 64 weights of half the smallest normal number, and a key that has the rest
_GAP = 10.4  # of the logits; exp(-10.4) is 3e-5, half of 2^-14


def seen_precision(context: KernelContext) -> KernelPrecision:
    """Return the context's precision; where the kernel is seen to lose what is subnormal, with that allowed.

    The one key with nearly all of a row's weight has the value 0, so that the output, and the gradients by the other
    keys, are made of subnormal weights; so is dS, and in the second feature results are subnormal themselves. A kernel
    that is wrong there in another way is wrong in either precision, and changes nothing.
    """
    precision = context.precision
    if precision.flushes:
        return precision
    losing = replace(precision, flushes=True)
    sample = _subnormal_weights(Maker(context.seed, losing, context.scope))
    for function in {FORWARD, BACKWARD} & set(context.subject.functions):
        try:
            reply = context.ask(function, sample, probing=True)
        except NoAnswer:
            continue
        if misshapen(function, sample, reply) is None and (
            judge(function, sample, reply.parts, precision).status == "failed"
            and judge(function, sample, reply.parts, losing).status != "failed"
        ):
            return losing
    return precision


def _subnormal_weights(maker: Maker) -> KernelSample:
    sample = maker.make("subnormal weights", _KEYS, _FEATURES, heads=1, generic=False)
    q, k = np.zeros_like(sample.q), np.zeros_like(sample.k)
    v, do = np.full_like(sample.v, 2.0**-4), np.ones_like(sample.do)
    q[..., 0], k[..., 0, 0], v[..., 0, :] = 1.0, _GAP * np.sqrt(q.shape[-1]), 0.0
    v[..., 1:2], do[..., 1:2] = v[..., 1:2] / 64, do[..., 1:2] / 128
    return maker.exact(sample, q=q, k=k, v=v, do=do)
