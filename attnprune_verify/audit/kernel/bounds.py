r"""How far may an honest kernel be from the truth? Entry by entry, at worst and typically.

An honest kernel in a precision (`Precision`: u is the unit roundoff of its sums, w that of its 16-bit type or 0)

* adds products in any order, blocks or splits; folds the scale, log2(e) or both into q, into the logits or into exp2;
* subtracts a row's largest logit, or a running one (online softmax: blocks of neighbouring keys, joined in any order),
  or log(row sum) afterwards; its exp errs by at most 64 units of u, exp(0) is 1, and its log by at most 4 units;
* divides by the row sum before or after the product with V;
* rounds probabilities (before or after that division), dP, dS, dO / row sum and every output to the 16-bit type, and
  an output once more when a scale is applied, heads are summed or blocks are joined after the rounding;
* takes (P * dP) 1 from P and dP, or as dO O^T from the (rounded) output; may differentiate through the maximum;
* loses what is subnormal; its exp may end at 2^32 smallest normal numbers instead of at 0.

Logits are off by `a = scale gamma_{m+8} |q||k| + 6 u |s|`, weights by `e = exp(a + path) - 1`, where the path holds the
roundings of the differences and `64 u (1 + R)`; R counts how often a running maximum may still change after this key.
Rows are brought back to sum 1, which costs `/ (1 - sum p e)`. In the output the errors of the weights appear centred,
`sum_j p_j e_j |v_j - o|`, because a softmax does not see what is common to a row; what a term has of its own (its
storing, its sums, what exp(s - log sum) errs by) meets |v_j|, and what all terms share (the row sum's own sum, the
division, log sum exp) meets |o|. A backward pass may compute logits and weights anew, so that their errors do not
cancel there. The gradient follows from dS = P * (dP - mean) with the errors of all three. Every line below is written
once, for both calculi of `attnprune_verify.audit.kernel.calculus`; docs/kernels.md lists which of them
proofs_check/coq/rounding proves for `Worst`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnprune_verify.audit.kernel.calculus import Calculus, Typical, Worst
from attnprune_verify.audit.kernel.precision import Precision
from attnprune_verify.audit.kernel.sample import Array, Sample
from attnprune_verify.audit.kernel.steps import Steps, evaluate

__all__ = ["Errors", "attention_errors", "worst_errors"]

_CLAMPED = 2.0**32  # exp may end so many smallest normal numbers above 0
_SAFETY = 1.01  # for the float64 rounding of all that follows, and products of two small errors
_LOG = 4.0  # by how many units log may err (chosen: libraries promise at most 4)
_OVERFLOW = 700.0  # exp of it is the largest power of ten below float64's range


@dataclass(frozen=True)
class Errors:
    """Per output array: what no honest kernel exceeds, and what it typically reaches at most."""

    worst: dict[str, Array]
    typical: dict[str, Array]


def attention_errors(sample: Sample, precision: Precision | None = None) -> Errors:
    """The errors of o, dq, dk and dv in a precision (default: the sample's), once per sample and precision."""
    precision = precision or sample.precision
    key = ("errors", precision)
    if key not in sample.memo:
        with np.errstate(all="ignore"):
            sample.memo[key] = Errors(
                worst_errors(sample, precision), _Propagation(sample, precision, Typical(precision.sums)).outputs()
            )
    found: Errors = sample.memo[key]
    return found


def worst_errors(sample: Sample, precision: Precision) -> dict[str, Array]:
    """Return what no honest kernel in a precision exceeds."""
    with np.errstate(all="ignore"):
        return _Propagation(sample, precision, Worst(precision.sums)).outputs()


class _Propagation:
    """One sample, one precision, one calculus."""

    def __init__(self, sample: Sample, precision: Precision, calculus: Calculus) -> None:
        self.sample, self.precision, self.calculus = sample, precision, calculus
        self.steps: Steps = evaluate(sample)
        self.u, self.w = precision.sums, precision.stored
        self.tiny, self.exp = precision.tiny_sums, precision.exp
        self.count = int(self.steps.allowed.sum(axis=1).max())  # terms of the longest row

    def outputs(self) -> dict[str, Array]:
        logit = self.logits()
        exponent = self.exponents(logit)
        weights = self.probabilities(logit, exponent)
        o = self.output(logit, exponent)
        independent, mean = self.logit_gradient(exponent, weights, logit, o)
        found = {
            "o": o,
            "dq": self.query_gradient(independent, mean),
            "dk": self.key_gradient(independent, mean),
            "dv": self.value_gradient(weights),
        }
        return {name: np.where(np.isnan(error), np.inf, _SAFETY * error) for name, error in found.items()}

    def logits(self) -> Array:
        """Of scale q k^T, softcap and ALiBi: in units of the logit."""
        sample, steps, add = self.sample, self.steps, self.calculus.add
        m, scale = sample.q.shape[3], sample.factor
        turned = np.swapaxes(steps.k, -1, -2)
        size = scale * (np.abs(sample.q) @ np.abs(turned))
        lost = scale * (self.lost(sample.q) @ np.abs(turned) + np.abs(sample.q) @ self.lost(turned))
        error = add(self.calculus.chain(m + 8) * size, lost + 2 * m * max(scale, 1.0) * self.tiny)
        if sample.softcap is not None:
            error = add(steps.slope * error, self.exp * self.u * np.abs(steps.s))
        moved = np.abs(steps.raw) + np.abs(steps.s - steps.raw) * (sample.alibi is not None)
        return add(error, 3 * self.u * (moved + np.abs(steps.s)))

    def exponents(self, logit: Array) -> Array:
        """Relative errors of the exponentials, common ones included; 0 where nothing is allowed."""
        error = self.calculus.add(logit, self.path(logit), 3 * self.u * np.abs(self.steps.top))
        return np.where(self.steps.allowed, np.expm1(np.minimum(error, _OVERFLOW)), 0.0)

    def path(self, logit: Array) -> Array:
        """What exponentials and their arguments add, from a key's own to the end: in units of the logit."""
        steps = self.steps
        furthest = np.where(steps.allowed, logit, 0.0).max(axis=-1, keepdims=True)
        distance = np.where(steps.allowed, steps.top - steps.s + logit + furthest, 0.0)
        if "changes" not in self.sample.memo:  # the same for every precision and calculus, and dear
            self.sample.memo["changes"] = _changes(np.where(steps.allowed, steps.s, -np.inf))
        changes = self.calculus.repeated(1.0 + self.sample.memo["changes"])
        return self.calculus.add(2 * self.u * distance, self.exponential * changes)

    def kept(self, exponent: Array) -> Array:
        """What is left of a row sum at least, as a share; at most 0 where nothing is certain."""
        return np.asarray(1 - self.calculus.along(self.steps.p * exponent, -1))

    def logarithm(self, logit: Array, exponent: Array) -> Array:
        """Of log sum exp, but for the row sum's own additions; 0 where one weight is all."""
        steps, add = self.steps, self.calculus.add
        with np.errstate(divide="ignore"):
            total = -np.log(np.maximum(self.kept(exponent), 0.0))
        # how far log sum exp is above the largest logit
        above = np.where(steps.allowed, self.lower, np.inf).min(axis=-1, keepdims=True)
        distance = above + np.where(steps.allowed, logit, 0.0).max(axis=-1, keepdims=True)
        rounded = add(_LOG * self.u * distance, self.u * (np.abs(steps.top) + above))
        return np.where(above > 0, add(total, rounded), 0.0)

    def exponential_of(self, logit: Array, log: Array) -> Array:
        """What exp(s - L) adds to a weight, L off by `log`; a weight that is 1 is exp(0)."""
        error = self.exponential + 2 * self.u * (self.lower + logit + log)
        return np.where(self.steps.allowed & (self.steps.p < 1), error, 0.0)

    def probabilities(self, logit: Array, exponent: Array) -> Array:
        """Relative errors of the weights in a backward pass: computed anew, divided by the row sum or exp(s - L)."""
        steps, add = self.steps, self.calculus.add
        kept, log = self.kept(exponent), self.logarithm(logit, exponent)
        sums, rounded = self.calculus.chain(2 * self.count), 3 * self.u * np.abs(steps.top) * (steps.p < 1)
        own = compounded(add(sums, self.stored(1), log, self.exponential_of(logit, log), rounded))
        shares = self.calculus.along(steps.p * exponent, -1)
        with np.errstate(divide="ignore", invalid="ignore"):
            error = add(exponent, shares, own * (1 + exponent)) / kept
            whole = np.where(steps.p > 0, 2 / steps.p, 0.0)  # a weight is at most 1, but for its rounding
        return np.where(steps.allowed, np.where(kept > 0, np.minimum(error, whole), whole), 0.0)

    def averaged(self, logit: Array, exponent: Array) -> tuple[Array, Array, Array]:
        """Of a mean under the weights: what a weight may grow to, what each term and what all of a row err by."""
        steps, add = self.steps, self.calculus.add
        kept = self.kept(exponent)
        path = np.expm1(np.minimum(self.path(logit), _OVERFLOW))
        log = self.logarithm(logit, np.where(steps.allowed, path, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            grown = np.where(kept > 0, np.minimum(steps.p * (1 + exponent) / kept, 1.0), steps.allowed)
        common = add(log, 3 * self.u * np.abs(steps.top) * (log > 0), self.calculus.chain(2 * self.count - 2))
        return grown, self.exponential_of(logit, log), common

    def output(self, logit: Array, exponent: Array) -> Array:
        steps, calculus = self.steps, self.calculus
        grown, own, common = self.averaged(logit, exponent)
        with np.errstate(divide="ignore", invalid="ignore"):
            kept = self.kept(exponent)
            centred = np.where(kept > 0, calculus.centred(steps.p * exponent, steps.v, steps.o) / kept, np.inf)
        furthest = np.abs(steps.v).max(axis=-2, keepdims=True) + np.abs(steps.o)
        chain = calculus.chain(2 * self.count + 8)
        terms = calculus.add(
            calculus.through(grown * own, steps.v),
            calculus.through(grown * self.stored(1), steps.v),
            chain * (grown @ np.abs(steps.v)),
        )
        shared = compounded(calculus.add(common, 2 * self.u, self.stored(2)))
        error = calculus.add(
            (1 + shared) * np.minimum(centred, furthest),
            (1 + shared) * terms * (1 + compounded(own.max(axis=-1, keepdims=True) + chain + self.stored(1))),
            shared * np.abs(steps.o),
            calculus.through(self.lost_weights(), steps.v),
        )
        return np.asarray(error + steps.p @ self.lost(steps.v) + self.precision.tiny + 2 * self.count * self.tiny)

    def value_products(self) -> Array:
        """Of dP = dO V^T."""
        sample, steps, calculus = self.sample, self.steps, self.calculus
        do, turned = sample.do, np.swapaxes(steps.v, -1, -2)
        size = np.abs(do) @ np.abs(turned)
        lost = self.lost(do) @ np.abs(turned) + np.abs(do) @ self.lost(turned) + do.shape[3] * self.tiny
        if self.w:  # dO / row sum in the 16-bit type, and dP itself
            lost = (
                lost
                + self.precision.tiny
                + self.count * self.precision.tiny * self.w * np.abs(turned).sum(axis=-2, keepdims=True)
            )
        return calculus.add(
            calculus.chain(do.shape[3] + 8) * size,
            self.stored(1) * calculus.through(np.abs(do), turned),
            self.stored(1) * np.abs(steps.dp),
        ) + np.where(steps.allowed, lost, 0.0)

    def mean_error(self, exponent: Array, logit: Array, o: Array, dp: Array) -> Array:
        """Of (P * dP) 1, from its terms and from dO O^T: both, because either is honest."""
        steps, calculus, do = self.steps, self.calculus, self.sample.do
        grown, own, common = self.averaged(logit, exponent)
        kept, size = self.kept(exponent), np.abs(steps.dp)
        with np.errstate(divide="ignore", invalid="ignore"):
            centred = calculus.along(steps.p * exponent * np.abs(steps.dp - steps.mean), -1) / kept
        centred = np.where(kept > 0, centred, size.max(axis=-1, keepdims=True) + np.abs(steps.mean))
        chain = calculus.chain(2 * self.count + 8)
        terms = calculus.add(
            calculus.along(grown * own * size, -1),
            calculus.along(grown * self.stored(1) * size, -1),
            calculus.along(grown * dp, -1),
            chain * (grown * size).sum(axis=-1, keepdims=True),
        )
        shared = compounded(calculus.add(common, 2 * self.u))
        terms = calculus.add(
            (1 + shared) * centred,
            (1 + shared) * terms * (1 + compounded(own.max(axis=-1, keepdims=True) + chain + self.stored(1))),
            shared * np.abs(steps.mean),
        )
        product = calculus.chain(do.shape[3] + 8) * np.abs(do * steps.o).sum(axis=-1, keepdims=True)
        return calculus.add(terms, calculus.along(np.abs(do) * o, -1), product)

    def logit_gradient(self, exponent: Array, weights: Array, logit: Array, o: Array) -> tuple[Array, Array]:
        """Of dS times the softcap's derivative: what is independent from key to key, and what a row's mean adds."""
        steps, calculus, sample = self.steps, self.calculus, self.sample
        dp = self.value_products()
        mean = self.mean_error(exponent, logit, o, dp)
        sized = np.abs(steps.dp) + np.abs(steps.mean)
        grown = steps.p * (1 + weights)  # what a weight may have become
        centred = calculus.add(dp, 2 * self.u * sized, self.w * np.abs(steps.dp - steps.mean))
        ds = np.abs(steps.ds)
        rounded = compounded(np.asarray(3 * self.u) + self.stored(3))
        parts = [weights * ds, (1 + rounded) * grown * centred, rounded * (1 + weights) * ds]
        # Differentiated through the maximum, whatever the row's gradient sums to goes to the largest logits.
        leak = calculus.add(calculus.along(grown * centred, -1), mean)
        leak = calculus.add(leak, calculus.chain(self.count + 8) * (steps.p * sized).sum(axis=-1, keepdims=True))
        parts.append(np.where(steps.allowed & (steps.top - steps.s <= 2 * logit), leak, 0.0))
        error = steps.slope * calculus.add(*parts)
        if sample.softcap is not None:
            tanh = np.sqrt(np.maximum(1 - steps.slope, 0.0))
            error = calculus.add(error, ds * (2 * tanh * (logit / sample.softcap + self.exp * self.u) + 4 * self.u))
        through = ds * steps.slope
        lost = np.where((through < 2 * self.least) | (steps.p < 2 * self.least), through, 0.0)
        size = np.abs(sample.do) @ np.abs(np.swapaxes(steps.v, -1, -2)) + np.abs(steps.mean)
        independent = calculus.add(
            np.where(steps.allowed, error, 0.0), lost + _CLAMPED * self.tiny * steps.slope * size
        )
        return independent, (1 + rounded) * (1 + weights) * mean

    def query_gradient(self, independent: Array, mean: Array) -> Array:
        """A row's mean moves all its keys alike: dq_i errs by mean_i sum_j p_ij k_j there."""
        steps, calculus, scale = self.steps, self.calculus, self.sample.factor
        weights = steps.p * steps.slope * mean
        together = weights @ np.abs(steps.k) if isinstance(calculus, Worst) else np.abs(weights @ steps.k)
        through = np.abs(steps.ds * steps.slope)
        rounded = compounded(np.asarray(4 * self.u) + self.stored(3))
        error = calculus.add(
            (1 + rounded) * scale * calculus.through(independent, steps.k),
            (1 + rounded) * scale * together,
            (1 + rounded) * scale * calculus.chain(self.count + 8) * (through @ np.abs(steps.k)),
            rounded * np.abs(steps.dq),
        )
        lost = scale * (through @ self.lost(steps.k)) + 2 * max(scale, 1.0) * self.count * self.tiny
        return np.asarray(error + lost + max(scale, 1.0) * self.precision.tiny)

    def key_gradient(self, independent: Array, mean: Array) -> Array:
        steps, sample, scale = self.steps, self.sample, self.sample.factor
        error = np.swapaxes(self.calculus.add(independent, steps.p * steps.slope * mean), -1, -2)
        through = np.swapaxes(steps.ds * steps.slope, -1, -2)
        lost = scale * (np.abs(through) @ self.lost(sample.q))
        summed = self.over_queries(scale * self.calculus.through(error, sample.q), scale * through, sample.q, steps.dk)
        return np.asarray(summed + sample.per_key_head(lost) + max(scale, 1.0) * self.floor())

    def value_gradient(self, weights: Array) -> Array:
        steps, sample = self.steps, self.sample
        errors = steps.p * (weights + (1 + weights) * self.stored(1)) + self.lost_weights()
        turned = np.swapaxes(steps.p, -1, -2)
        own = self.calculus.through(np.swapaxes(errors, -1, -2), sample.do)
        stored = self.stored(1) * self.calculus.through(turned, sample.do)  # dO / row sum in the 16-bit type
        lost = sample.per_key_head(turned @ self.lost(sample.do))
        return np.asarray(
            self.over_queries(self.calculus.add(own, stored), turned, sample.do, steps.dv) + lost + self.floor()
        )

    def over_queries(self, own: Array, left: Array, right: Array, value: Array) -> Array:
        """Sums over the queries of all heads of a group; each head may be rounded before the heads are added."""
        sample, calculus = self.sample, self.calculus
        heads = self.per_key_head(own)
        size = sample.per_key_head(np.abs(left) @ np.abs(right))
        joined = self.stored(2) * self.per_key_head(np.abs(left @ right))
        chain = calculus.chain(sample.q.shape[2] * sample.group + 8)
        rounded = compounded(np.asarray(4 * self.u) + self.stored(3))
        grown = (1 + rounded) * (1 + self.stored(2))
        return calculus.add(grown * heads, grown * chain * size, (1 + rounded) * joined, rounded * np.abs(value))

    def per_key_head(self, errors: Array) -> Array:
        if isinstance(self.calculus, Worst):
            return self.sample.per_key_head(errors)
        return np.sqrt(self.sample.per_key_head(errors**2))

    def floor(self) -> float:
        """What outputs may lose to underflow: of each product, and of each head's result."""
        terms = 2 * self.sample.q.shape[2] * self.sample.group
        return float(terms) * self.tiny + float(self.sample.group + 1) * self.precision.tiny

    @property
    def exponential(self) -> float:
        """What one exp may err by, in units of the logit."""
        return float(compounded(np.asarray(self.exp * self.u)))

    @cached_property
    def lower(self) -> Array:
        """log(1/p): how far a logit is below log sum exp; 0 where nothing is allowed."""
        with np.errstate(divide="ignore"):
            return np.where(self.steps.p > 0, -np.log(self.steps.p), self.steps.top - self.steps.s) * self.steps.allowed

    def stored(self, times: int) -> float:
        """The error of so many roundings to the 16-bit type."""
        return float(compounded(np.asarray(times * self.w)))

    @property
    def least(self) -> float:
        """The smallest normal number of stored intermediates."""
        return self.precision.tiny if self.w else self.tiny

    def lost_weights(self) -> Array:
        """What underflow takes from a weight, and what an exp that does not reach 0 adds."""
        return np.where(self.steps.p < 2 * self.least, self.steps.p, 0.0) + _CLAMPED * self.tiny

    def lost(self, array: Array) -> Array:
        """What of an input is subnormal."""
        size = np.abs(array)
        return np.where(size < self.precision.tiny, size, 0.0)


def compounded(error: Array) -> Array:
    """Bound the relative error of a product of factors whose relative errors add up to x: x / (1 - x)."""
    return np.where(error < 1, error / np.where(error < 1, 1 - error, 1.0), np.inf)


def _changes(s: Array) -> Array:
    """How often a running maximum can change after a key, whatever blocks of neighbours are joined in whatever order.

    A new maximum of a growing block of neighbours is above all logits between it and the key: a record of the walk
    that starts at the key and goes right, or left.
    """
    return _records(s) + _records(s[..., ::-1])[..., ::-1]


def _records(s: Array) -> Array:
    """Per key, how often the largest logit changes on the way from it to the right."""
    found = np.zeros(s.shape)
    for start in range(s.shape[-1] - 1):
        best = np.maximum.accumulate(s[..., start:], axis=-1)
        found[..., start] = (best[..., 1:] > best[..., :-1]).sum(axis=-1)
    return found
