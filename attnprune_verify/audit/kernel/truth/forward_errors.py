"""Errors of a forward pass: logits, exponentials, weights, output and log sum exp; see `bounds` for what is honest."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from attnprune_verify.audit.kernel.problem.precision import KernelPrecision
from attnprune_verify.audit.kernel.problem.sample import Array, KernelSample
from attnprune_verify.audit.kernel.truth.calculus import Calculus
from attnprune_verify.audit.kernel.truth.steps import KernelSteps, evaluate

__all__ = ["CLAMPED", "ForwardErrors", "compounded", "maximum_changes"]

CLAMPED = 2.0**32  # exp may end so many smallest normal numbers above 0
_LOG = 4.0  # by how many units log may err (chosen: libraries promise at most 4)
_OVERFLOW = 700.0  # exp of it is the largest power of ten below float64's range


class ForwardErrors:
    """One sample, one precision, one calculus."""

    def __init__(self, sample: KernelSample, precision: KernelPrecision, calculus: Calculus) -> None:
        self.sample, self.precision, self.calculus = sample, precision, calculus
        self.steps: KernelSteps = evaluate(sample)
        self.u, self.w = precision.sums, precision.stored
        self.tiny, self.exp = precision.tiny_sums, precision.exp
        self.count = max(int(self.steps.allowed.sum(axis=-1).max()), 1)  # terms of the longest row
        # Dropout multiplies weights and dP once more, and divides by the probability; its result may be stored, too.
        self.times = 1 + (sample.dropout is not None)
        self.dropping = 3 * self.u * (sample.dropout is not None)

    def logits(self) -> Array:
        """Return the error of scale q k^T, softcap and ALiBi: in units of the logit."""
        sample, steps, add = self.sample, self.steps, self.calculus.add
        m, scale = sample.q.shape[3], sample.factor
        turned = np.swapaxes(steps.k, -1, -2)
        size = scale * (np.abs(sample.q) @ np.abs(turned))
        lost = scale * (self.lost(sample.q) @ np.abs(turned) + np.abs(sample.q) @ self.lost(turned))
        error = add(self.calculus.chain(m + 8) * size, lost + 2 * m * max(scale, 1.0) * self.tiny)
        if sample.softcap is not None:
            capped = np.abs(steps.s) + self.biased
            error = add(steps.slope * error, self.exp * self.u * capped)
        moved = np.abs(steps.raw) + np.abs(steps.s - steps.raw) * (sample.alibi is not None) + self.biased
        return add(error, 3 * self.u * (moved + np.abs(steps.s)))

    def exponents(self, logit: Array) -> Array:
        """Relative errors of the exponentials, common ones included; 0 where nothing is allowed."""
        error = self.calculus.add(logit, self.path(logit), 3 * self.u * np.abs(self.steps.top))
        return np.where(self.steps.allowed, np.expm1(np.minimum(error, _OVERFLOW)), 0.0)

    def path(self, logit: Array) -> Array:
        """Return what exponentials and their arguments add, from a key's own to the end: in units of the logit."""
        steps = self.steps
        furthest = np.where(steps.allowed, logit, 0.0).max(axis=-1, keepdims=True)
        distance = np.where(steps.allowed, steps.top - steps.s + logit + furthest, 0.0)
        sunk = float(self.sample.sinks is not None)  # a sink may be the first or the last of all
        changes = self.calculus.repeated(1.0 + sunk + self.changes)
        return self.calculus.add(2 * self.u * distance, self.exponential * changes)

    def kept(self, exponent: Array) -> Array:
        """Return what is left of a row sum at least, as a share; at most 0 where nothing is certain."""
        return np.asarray(1 - self.calculus.along(self.steps.p * exponent, -1))

    def logarithm(self, logit: Array, exponent: Array) -> Array:
        """Return the error of log sum exp, but for the row sum's own additions; 0 where one weight is all."""
        steps, add = self.steps, self.calculus.add
        with np.errstate(divide="ignore"):
            total = -np.log(np.maximum(self.kept(exponent), 0.0))
        above = self.above
        distance = above + np.where(steps.allowed, logit, 0.0).max(axis=-1, keepdims=True)
        rounded = add(_LOG * self.u * distance, self.u * (np.abs(steps.top) + above))
        return np.where(above > 0, add(total, rounded), 0.0)

    def log_sum_exp(self, logit: Array, exponent: Array) -> Array:
        """Return the error of log sum exp as a result: the logits' own errors stay, and all of a row's sum shows.

        Errors of exponentials add up in either calculus: those of one exp go one way, and nothing divides them out.
        """
        steps, add = self.steps, self.calculus.add
        with np.errstate(divide="ignore"):
            total = -np.log(np.maximum(1 - (steps.p * exponent).sum(axis=-1, keepdims=True), 0.0))
        furthest = np.where(steps.allowed, logit, 0.0).max(axis=-1, keepdims=True)
        size = np.abs(steps.top) + self.above
        error = add(
            total,
            self.calculus.chain(2 * self.count),
            _LOG * self.u * (self.above + furthest),
            4 * self.u * size,
            self.w * size,  # it may be stored in the 16-bit type
        )
        found = np.where(steps.allowed.any(axis=-1, keepdims=True), error + self.precision.tiny, 0.0)
        return np.asarray(found[..., 0] / self.sample.conventions.unit)

    def exponential_of(self, logit: Array, log: Array) -> Array:
        """Return what exp(s - L) adds to a weight, L off by `log`; a weight that is 1 is exp(0)."""
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
        """Return what a weight may grow to, and the errors of each term and of a whole row, in a mean under weights."""
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
            errors = calculus.centred(steps.p * exponent, steps.v, steps.o, steps.kept)
            centred = np.where(kept > 0, errors / kept, np.inf)
        furthest = np.max(steps.kept) * np.abs(steps.v).max(axis=-2, keepdims=True) + np.abs(steps.o)
        chain = calculus.chain(2 * self.count + 8)
        grown, own = grown * steps.kept, own + self.dropping
        terms = calculus.add(
            calculus.through(grown * own, steps.v),
            calculus.through(grown * self.stored(self.times), steps.v),
            chain * (grown @ np.abs(steps.v)),
        )
        shared = compounded(calculus.add(common, 2 * self.u, self.stored(2)))
        error = calculus.add(
            (1 + shared) * np.minimum(centred, furthest),
            (1 + shared) * terms * (1 + compounded(own.max(axis=-1, keepdims=True) + chain + self.stored(self.times))),
            shared * np.abs(steps.o),
            calculus.through(self.lost_weights() * steps.kept, steps.v),
        )
        return np.asarray(
            error + steps.p * steps.kept @ self.lost(steps.v) + self.precision.tiny + 2 * self.count * self.tiny
        )

    @property
    def biased(self) -> Array | float:
        """The size of the bias; a sink has none."""
        bias = self.sample.bias
        if bias is None or self.sample.sinks is None:
            return 0.0 if bias is None else np.abs(bias)
        return np.concatenate(
            [np.broadcast_to(np.abs(bias), self.steps.s[..., :-1].shape), 0 * self.steps.top], axis=-1
        )

    @property
    def changes(self) -> Array:
        """R of every key, once per sample."""
        if "changes" not in self.sample.memo:
            self.sample.memo["changes"] = maximum_changes(np.where(self.steps.allowed, self.steps.s, -np.inf))
        found: Array = self.sample.memo["changes"]
        return found

    @cached_property
    def above(self) -> Array:
        """Return how far log sum exp is above the largest logit of a row; 0 where nothing is allowed."""
        least = np.where(self.steps.allowed, self.lower, np.inf).min(axis=-1, keepdims=True)
        return np.where(np.isfinite(least), least, 0.0)

    @property
    def exponential(self) -> float:
        """Return what one exp may err by, in units of the logit."""
        return float(compounded(np.asarray(self.exp * self.u)))

    @cached_property
    def lower(self) -> Array:
        """log(1/p): how far a logit is below log sum exp; 0 where nothing is allowed."""
        with np.errstate(divide="ignore"):
            return np.where(self.steps.p > 0, -np.log(self.steps.p), self.steps.top - self.steps.s) * self.steps.allowed

    def stored(self, times: int) -> float:
        """The error of a number of roundings to the 16-bit type."""
        return float(compounded(np.asarray(times * self.w)))

    @property
    def least(self) -> float:
        """The smallest normal number of stored intermediates."""
        return self.precision.tiny if self.w else self.tiny

    def lost_weights(self) -> Array:
        """Return what underflow takes from a weight, and what an exp that does not reach 0 adds."""
        return np.where(self.steps.p < 2 * self.least, self.steps.p, 0.0) + CLAMPED * self.tiny

    def lost(self, array: Array) -> Array:
        """Return what of an input is subnormal."""
        size = np.abs(array)
        return np.where(size < self.precision.tiny, size, 0.0)


def compounded(error: Array) -> Array:
    """Bound the relative error of a product of factors whose relative errors add up to x: x / (1 - x)."""
    return np.where(error < 1, error / np.where(error < 1, 1 - error, 1.0), np.inf)


def maximum_changes(s: Array) -> Array:
    """Return how often a running maximum can change after a key, whatever blocks are joined in whatever order.

    A new maximum of a growing block of neighbours is above all logits between it and the key: a record of the walk
    that starts at the key and goes right, or left.
    """
    return _records(s) + _records(s[..., ::-1])[..., ::-1]


def _records(s: Array) -> Array:
    """Count, for each key, how often the running maximum of the logits changes after it.

    Once more than from the next larger one; never, if there is none.
    """
    rows = s.reshape(math.prod(s.shape[:-1]), s.shape[-1])
    found, each = np.zeros(rows.shape), np.arange(len(rows))
    for start in range(rows.shape[1] - 2, -1, -1):
        first = start + 1 + (rows[:, start + 1 :] > rows[:, start, None]).argmax(axis=1)
        found[:, start] = np.where(rows[each, first] > rows[:, start], 1 + found[each, first], 0)
    return found.reshape(s.shape)
