r"""How far may an honest kernel be from the truth? Entry by entry, at worst and typically.

An honest kernel in a precision (`Precision`: u is the unit roundoff of its sums, w that of its 16-bit type or 0)

* adds products in any order, blocks or splits; folds the scale, log2(e) or both into q, into the logits or into exp2;
* subtracts a row's largest logit, or a running one (online softmax, blocks of any size, any number of splits), or
  log(row sum) afterwards; its exp errs by at most 64 units of u, and exp(0) is 1;
* divides by the row sum before or after the product with V;
* rounds probabilities (before or after that division), dP, dS, dO / row sum and every output to the 16-bit type, and
  an output once more when a scale is applied, heads are summed or blocks are joined after the rounding;
* takes (P * dP) 1 from P and dP, or as dO O^T from the (rounded) output; may differentiate through the maximum;
* loses what is subnormal; its exp may end at 2^32 smallest normal numbers instead of at 0.

The logit errs by `e = scale gamma_{m+8} |q||k| + u (|s| + max|s| + (max - s)) + 64 u (1 + R)`, where R counts how
often a running maximum may still change after this key, from either end. In the output the errors of the weights
appear centred, `sum_j p_j e_j |v_j - o|`, because a softmax does not see what is common to a row; w |p||v| does not
cancel, and neither does what exp(s - log sum) errs by. A backward pass may compute logits and weights anew, so that
their errors do not cancel there. The gradient follows from dS = P * (dP - mean) with the errors of all three. Every
line below is written once, for both calculi of `attnprune_verify.audit.kernel.calculus`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnprune_verify.audit.kernel.calculus import Calculus, Typical, Worst
from attnprune_verify.audit.kernel.precision import Precision
from attnprune_verify.audit.kernel.sample import Array, Sample
from attnprune_verify.audit.kernel.steps import Steps, evaluate

__all__ = ["Errors", "attention_errors"]

_CLAMPED = 2.0**32  # exp may end so many smallest normal numbers above 0
_SAFETY = 1.01  # for the float64 rounding of all that follows


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
                _Propagation(sample, precision, Worst(precision.sums)).outputs(),
                _Propagation(sample, precision, Typical(precision.sums)).outputs(),
            )
    found: Errors = sample.memo[key]
    return found


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
        o = self.output(exponent)
        independent, mean = self.logit_gradient(exponent, logit, o)
        found = {
            "o": o,
            "dq": self.query_gradient(independent, mean),
            "dk": self.key_gradient(independent, mean),
            "dv": self.value_gradient(exponent),
        }
        return {name: np.where(np.isnan(error), np.inf, _SAFETY * error) for name, error in found.items()}

    def logits(self) -> Array:
        """Of scale q k^T, softcap and ALiBi: in units of the logit."""
        sample, steps, add = self.sample, self.steps, self.calculus.add
        m, scale = sample.q.shape[3], sample.factor
        turned = np.swapaxes(steps.k, -1, -2)
        size = scale * (np.abs(sample.q) @ np.abs(turned))
        lost = scale * (self.lost(sample.q) @ np.abs(turned) + np.abs(sample.q) @ self.lost(turned))
        error = add(self.calculus.chain(m + 8) * size, lost + m * max(scale, 1.0) * self.tiny)
        if sample.softcap is not None:
            error = add(steps.slope * error, self.exp * self.u * np.abs(steps.s))
        moved = np.abs(steps.raw) + np.abs(steps.s - steps.raw) * (sample.alibi is not None)
        return add(error, 3 * self.u * (moved + np.abs(steps.s)))

    def exponents(self, logit: Array) -> Array:
        """Relative errors of the exponentials, common ones included; 0 where nothing is allowed."""
        steps, add = self.steps, self.calculus.add
        distance = np.where(steps.allowed, steps.top - steps.s, 0.0)
        exp = self.exp * self.u * self.calculus.repeated(1.0 + _changes(np.where(steps.allowed, steps.s, -np.inf)))
        error = add(logit, 3 * self.u * np.abs(steps.top), 2 * self.u * distance, exp)
        return np.where(steps.allowed, np.expm1(np.minimum(error, 50.0)), 0.0)

    def probabilities(self, exponent: Array) -> Array:
        """Relative errors of the weights in a backward pass, which may compute them anew and divide by a stored sum."""
        shares = self.calculus.along(self.steps.p * exponent, -1)
        moved = self.calculus.add(exponent, shares, self.logarithms(), self.calculus.chain(self.count + 8))
        return np.where(self.steps.allowed, self.normalised(moved, exponent), 0.0)

    def logarithms(self) -> Array:
        """What exp(s - log sum) adds to a weight: exp errs after the division; a weight that is 1 is exp(0)."""
        steps = self.steps
        with np.errstate(divide="ignore"):
            lower = np.where(steps.p > 0, -np.log(steps.p), 0.0)
        error = self.exp * self.u + 3 * self.u * (lower + np.abs(steps.top))
        return np.where(steps.allowed & (steps.p < 1), error, 0.0)

    def normalised(self, error: Array, exponent: Array) -> Array:
        """First order divided by what the row sum may shrink to."""
        total = self.calculus.along(self.steps.p * exponent, -1)
        return np.asarray(error / np.maximum(1 - total, 1e-3))

    def output(self, exponent: Array) -> Array:
        steps, calculus = self.steps, self.calculus
        p, v, size = steps.p, steps.v, steps.p @ np.abs(steps.v)
        centred = self.normalised(calculus.centred(p * exponent, v, steps.o), exponent)
        furthest = np.abs(v).max(axis=-2, keepdims=True) + np.abs(steps.o)
        error = calculus.add(
            np.minimum(centred, furthest),
            calculus.through(p * self.logarithms(), v),
            calculus.chain(self.count + 8) * size,
            2 * self.u * np.abs(steps.o),
            calculus.through(p * self.w + self.lost_weights(), v),
            2 * self.w * np.abs(steps.o),
        )
        return np.asarray(error + p @ self.lost(v) + self.precision.tiny + self.count * self.tiny)

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
            self.w * calculus.through(np.abs(do), turned),
            self.w * np.abs(steps.dp),
        ) + np.where(steps.allowed, lost, 0.0)

    def mean_error(self, exponent: Array, o: Array, dp: Array) -> Array:
        """Of (P * dP) 1, from its terms and from dO O^T: both, because either is honest."""
        steps, calculus, do = self.steps, self.calculus, self.sample.do
        sized = (steps.p * np.abs(steps.dp)).sum(axis=-1, keepdims=True)
        terms = calculus.add(
            calculus.along(steps.p * exponent * np.abs(steps.dp - steps.mean), -1),
            calculus.along(steps.p * dp, -1),
            calculus.along(steps.p * np.abs(steps.dp) * self.w, -1),
            calculus.chain(self.count + 8) * sized,
        )
        product = calculus.chain(do.shape[3] + 8) * np.abs(do * steps.o).sum(axis=-1, keepdims=True)
        return calculus.add(terms, calculus.along(np.abs(do) * o, -1), product)

    def logit_gradient(self, exponent: Array, logit: Array, o: Array) -> tuple[Array, Array]:
        """Of dS times the softcap's derivative: what is independent from key to key, and what a row's mean adds."""
        steps, calculus, sample = self.steps, self.calculus, self.sample
        dp = self.value_products()
        mean = self.mean_error(exponent, o, dp)
        z = steps.dp - steps.mean
        sized = np.abs(steps.dp) + np.abs(steps.mean)
        centred = calculus.add(dp, 2 * self.u * sized, self.w * np.abs(z))
        ds = np.abs(steps.ds)
        parts = [self.probabilities(exponent) * ds, steps.p * centred, 3 * (self.u + self.w) * ds]
        # Differentiated through the maximum, whatever the row's gradient sums to goes to the largest logits.
        leak = calculus.add(calculus.along(steps.p * centred, -1), mean)
        leak = calculus.add(leak, calculus.chain(self.count + 8) * (steps.p * sized).sum(axis=-1, keepdims=True))
        parts.append(np.where(steps.allowed & (steps.top - steps.s <= 2 * logit), leak, 0.0))
        error = steps.slope * calculus.add(*parts)
        if sample.softcap is not None:
            tanh = np.sqrt(np.maximum(1 - steps.slope, 0.0))
            error = calculus.add(error, ds * (2 * tanh * (logit / sample.softcap + self.exp * self.u) + 4 * self.u))
        through = ds * steps.slope
        lost = np.where((through < 2 * self.least) | (steps.p < 2 * self.least), through, 0.0)
        size = np.abs(sample.do) @ np.abs(np.swapaxes(steps.v, -1, -2)) + np.abs(steps.mean)
        return calculus.add(np.where(steps.allowed, error, 0.0), lost + _CLAMPED * self.tiny * steps.slope * size), mean

    def query_gradient(self, independent: Array, mean: Array) -> Array:
        """A row's mean moves all its keys alike: dq_i errs by mean_i sum_j p_ij k_j there."""
        steps, calculus, scale = self.steps, self.calculus, self.sample.factor
        weights = steps.p * steps.slope
        together = mean * (weights @ np.abs(steps.k) if isinstance(calculus, Worst) else np.abs(weights @ steps.k))
        through = np.abs(steps.ds * steps.slope)
        error = calculus.add(
            scale * calculus.through(independent, steps.k),
            scale * together,
            scale * calculus.chain(self.count + 8) * (through @ np.abs(steps.k)),
            (4 * self.u + 3 * self.w) * np.abs(steps.dq),
        )
        lost = scale * (through @ self.lost(steps.k)) + max(scale, 1.0) * self.count * self.tiny
        return np.asarray(error + lost + max(scale, 1.0) * self.precision.tiny)

    def key_gradient(self, independent: Array, mean: Array) -> Array:
        steps, sample, scale = self.steps, self.sample, self.sample.factor
        error = np.swapaxes(self.calculus.add(independent, steps.p * steps.slope * mean), -1, -2)
        through = np.swapaxes(steps.ds * steps.slope, -1, -2)
        lost = scale * (np.abs(through) @ self.lost(sample.q))
        summed = self.over_queries(scale * self.calculus.through(error, sample.q), scale * through, sample.q, steps.dk)
        return np.asarray(summed + sample.per_key_head(lost) + max(scale, 1.0) * self.floor())

    def value_gradient(self, exponent: Array) -> Array:
        steps, sample = self.steps, self.sample
        weights = steps.p * (self.probabilities(exponent) + self.w) + self.lost_weights()
        turned = np.swapaxes(steps.p, -1, -2)
        own = self.calculus.through(np.swapaxes(weights, -1, -2), sample.do)
        stored = self.w * self.calculus.through(turned, sample.do)  # dO / row sum in the 16-bit type
        lost = sample.per_key_head(turned @ self.lost(sample.do))
        return np.asarray(
            self.over_queries(self.calculus.add(own, stored), turned, sample.do, steps.dv) + lost + self.floor()
        )

    def over_queries(self, own: Array, left: Array, right: Array, value: Array) -> Array:
        """Sums over the queries of all heads of a group; each head may be rounded before the heads are added."""
        sample, calculus = self.sample, self.calculus
        heads = self.per_key_head(own)
        size = sample.per_key_head(np.abs(left) @ np.abs(right))
        rounded = 2 * self.w * self.per_key_head(np.abs(left @ right))
        chain = calculus.chain(sample.q.shape[2] * sample.group + 8)
        return calculus.add(heads, chain * size, rounded, (4 * self.u + 3 * self.w) * np.abs(value))

    def per_key_head(self, errors: Array) -> Array:
        if isinstance(self.calculus, Worst):
            return self.sample.per_key_head(errors)
        return np.sqrt(self.sample.per_key_head(errors**2))

    def floor(self) -> float:
        """What outputs may lose to underflow: of each product, and of each head's result."""
        terms = self.sample.q.shape[2] * self.sample.group
        return float(terms) * self.tiny + float(self.sample.group + 1) * self.precision.tiny

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


def _changes(s: Array) -> Array:
    """How often a running maximum changes after a key, read from the left or from the right; and one merge more."""
    return np.maximum(_records_after(s), _records_after(s[..., ::-1])[..., ::-1]) + 1.0


def _records_after(s: Array) -> Array:
    best = np.maximum.accumulate(s, axis=-1)
    record = np.zeros(s.shape)
    record[..., 1:] = s[..., 1:] > best[..., :-1]
    return np.asarray(record.sum(axis=-1, keepdims=True) - np.cumsum(record, axis=-1))
