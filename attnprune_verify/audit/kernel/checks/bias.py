r"""Signed errors of 16-bit answers against the rounding model: rounded to the nearest, or to one side?

The mean of the signed errors of an answer X, in halves of a unit in the last place,

    T = sum_e c_e (got_e - x_e),   c_e = sign(x_e) / (N half_unit(x_e)),

is -1 where answers are truncated and about as much where weights are. In the rounding model each of an honest kernel's
roundings to the 16-bit type errs by a value in [-a, a] of mean 0, whatever the others do; all the rest of its errors is
float32's and may conspire. T is linear in the roundings up to their products, so that (Hoeffding 1963, theorem 2)

    |T| <= sum_e |c_e| worst32_e + 8 w + sqrt(2 log(2 / alpha)) sqrt(sum_r (a_r dT/dr)^2)

but for a chance of alpha. The roundings r: weights before and after their division, dP, dS, dO / row sum, o where
(P * dP) 1 is taken from it, and up to three of each answer (after a scale, a head or a block was joined). With
G = dT / d(answer's factor of p_ij), per part:

    o  : G_ij = sum_c c_ic v_jc           dv : G_ij = sum_c c_jc dO_ic
    dq : G_ij = scale sum_c c_ic k_jc     dk : G_ij = scale sum_c c_jc q_ic

a weight moves T by p (|G| + |mean G|), in dq and dk through dS and the mean of dP. 8 w is for products of two
roundings: fewer than eight pairs meet in an answer, each of mean at most w^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from attnprune_verify.audit.kernel.problem.precision import PRECISIONS, KernelPrecision
from attnprune_verify.audit.kernel.problem.sample import Array, KernelSample, parts_of
from attnprune_verify.audit.kernel.problem.sample_factory import Maker
from attnprune_verify.audit.kernel.problem.scope import ANYTHING, KernelScope
from attnprune_verify.audit.kernel.process.context import KernelContext
from attnprune_verify.audit.kernel.process.facts import Refused
from attnprune_verify.audit.kernel.process.shapes import misshapen
from attnprune_verify.audit.kernel.truth.bounds import attention_errors, worst_errors
from attnprune_verify.audit.kernel.truth.steps import KernelSteps, evaluate
from attnprune_verify.audit.kernel.truth.truth import truth
from attnprune_verify.audit.kernel.typing import Plain
from attnprune_verify.audit.record import Finding

_ALPHA = 1e-7  # chosen: a run has at most 8 such means, so that 8e-7 bounds its chance of a false alarm
_PRODUCTS = 8.0  # of two roundings each; derived above
_OF_WEIGHTS, _OF_ANSWERS = 2.0, 3.0  # roundings of each; derived above
_QUERIES, _KEYS, _FEATURES = 384, 32, 16  # chosen: of each answer truncation then shows in bfloat16
_SINK = 3.5  # by how much the logit of key 0 is above the others; chosen: exp(3.5) is 33, half of a row's weight
_SPREAD = 0.5  # of the other logits; chosen: no weight of 32 keys is subnormal in float16


@dataclass(frozen=True)
class Bias:
    """Mean signed error of an answer and what the rounding model allows, in halves of a unit in the last place."""

    part: str
    mean: float
    allowed: float

    @property
    def found(self) -> bool:
        """True where the roundings cannot all be to the nearest."""
        return abs(self.mean) > self.allowed


@lru_cache(maxsize=4)  # as the regimes: what was computed for a sample serves both functions
def bias_samples(seed: int, precision: KernelPrecision, scope: KernelScope = ANYTHING) -> tuple[KernelSample, ...]:
    """Instances on which truncation shows: q, v and dO of one sign, and a first key with half of each row's weight.

    Its own value is 0: where the row sum is made of truncated weights, only the share of the others shrinks.
    """
    maker = Maker(seed, precision, scope)
    found = []
    grouped: Plain = {"heads": 4, "kv_heads": 2, "scale": 0.5}
    for name, options in (("rounding", {"heads": 4}), ("rounding, grouped", grouped)):
        sample = maker.make(name, _QUERIES, _FEATURES, _KEYS, _FEATURES, **options)
        features = sample.shape[5]
        k = _SPREAD * sample.k / (sample.factor * np.sqrt(features))
        k[:, :, 0] = _SINK / (sample.factor * features)
        v = _of_one_sign(sample.v)
        v[:, :, 0] = 0.0
        found.append(maker.exact(sample, q=_of_one_sign(sample.q), k=k, v=v, do=_of_one_sign(sample.do)))
    return tuple(found)


def _of_one_sign(array: Array) -> Array:
    """Numbers in [0.5, 1.5)."""
    return 0.5 + np.abs(array) % 1


def rounds_to_one_side(context: KernelContext, function: str) -> Finding:
    """Judge the signed errors of a function's answers."""
    if not context.precision.stored:
        return Finding("not_applicable", f"in {context.precision.name} nothing is rounded to a shorter type")
    means = []
    for sample in bias_samples(context.seed, context.precision, context.scope):
        try:
            reply = context.answer(function, sample)
        except Refused:
            continue
        if misshapen(function, sample, reply) is not None:
            return Finding("not_applicable", "the results have another shape")
        for part, got in zip(parts_of(function, sample), reply.parts, strict=True):
            off = np.abs(got - truth(sample)[part].value) - truth(sample)[part].radius
            if not (off <= attention_errors(sample).worst[part]).all():
                return Finding("not_applicable", f"{part} is wrong by more than rounding: see its values")
            bias = bias_of(part, got, sample)
            if bias.found:
                said = f"{part} errs by {bias.mean:+.2f} halves of a unit in the last place in the mean"
                said += f", where rounding to the nearest explains {bias.allowed:.2f}, on {sample.describe()}"
                return Finding(
                    "failed", said, abs(bias.mean), bias.allowed, ids=("biased-rounding",), samples=(sample,)
                )
            means.append(bias)
    if not means:
        return Finding("not_applicable", f"{function} refuses the instances")
    worst = max(means, key=lambda one: abs(one.mean) / one.allowed)
    said = f"{worst.part} errs by {worst.mean:+.2f} halves of a unit in the last place in the mean"
    return Finding("passed", f"{said}, where rounding explains {worst.allowed:.2f}", abs(worst.mean), worst.allowed)


def bias_of(part: str, got: Array, sample: KernelSample) -> Bias:
    """The mean signed error of an array, in halves of a unit in the last place, and what is allowed."""
    true, w = truth(sample)[part].value, sample.precision.unit
    size = np.maximum(np.abs(true), sample.precision.tiny)
    c = np.sign(true) / (true.size * w * 2.0 ** np.floor(np.log2(size)))
    single = np.abs(c) * (_single_errors(sample)[part] + truth(sample)[part].radius)
    squares = _roundings(part, c, sample) + _OF_ANSWERS * np.count_nonzero(c) / true.size**2
    chance = np.sqrt(2 * np.log(2 / _ALPHA) * squares)
    return Bias(part, float((c * (got - true)).sum()), float(single.sum() + _PRODUCTS * w + chance))


def _single_errors(sample: KernelSample) -> dict[str, Array]:
    """Return the worst errors in float32, computed once per sample."""
    if "worst in float32" not in sample.memo:
        sample.memo["worst in float32"] = worst_errors(sample, PRECISIONS["float32"])
    found: dict[str, Array] = sample.memo["worst in float32"]
    return found


def _roundings(part: str, c: Array, sample: KernelSample) -> float:
    """The sum over all roundings before the answer's of (a dT/dr)^2."""
    steps, w, scale = evaluate(sample), sample.precision.unit, sample.factor
    if part in ("dk", "dv"):
        c = sample.grouped(c)
    factors = {
        "o": lambda: c @ _turned(steps.v),
        "dv": lambda: sample.do @ _turned(c),
        "dq": lambda: scale * (c @ _turned(steps.k)),
        "dk": lambda: scale * (sample.q @ _turned(c)),
    }
    g = np.where(steps.allowed, factors[part](), 0.0)
    mean = (steps.p * g).sum(axis=-1, keepdims=True)
    if part in ("o", "dv"):
        moved = _OF_WEIGHTS * _squares(steps.p * (np.abs(g) + np.abs(mean)))
        return float(w**2 * (moved + (_squares(sample.do * (steps.p @ c)) if part == "dv" else 0.0)))
    return float(w**2 * _of_logits(steps, g, mean, sample.do))


def _of_logits(steps: KernelSteps, g: Array, mean: Array, do: Array) -> float:
    """The roundings of weights, dP, dS, dO / row sum and o, as they reach dq and dk."""
    shared = np.abs((steps.ds * g).sum(axis=-1, keepdims=True))
    of_weight = np.abs(steps.ds * g) + steps.p * (np.abs(steps.dp * mean) + shared)
    of_dp = steps.p * np.abs(steps.dp) * (np.abs(g) + np.abs(mean))
    of_do = do * (steps.p * g @ steps.v - mean * steps.o)
    return (
        _OF_WEIGHTS * _squares(of_weight)
        + _squares(of_dp)
        + _squares(steps.ds * g)
        + _squares(of_do)
        + _OF_WEIGHTS * _squares(do * steps.o * mean)
    )


def _squares(array: Array) -> float:
    return float((array**2).sum())


def _turned(array: Array) -> Array:
    return np.swapaxes(array, -1, -2)
