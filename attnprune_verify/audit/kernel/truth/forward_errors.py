"""Errors of a forward pass: logits, exponentials, weights, output and log sum exp; see `bounds` for what is honest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.kernel.problem.precision import KernelPrecision
from attnprune_verify.audit.kernel.problem.sample import Array, KernelSample, Mask
from attnprune_verify.audit.kernel.truth.calculus import AtOnce, Calculus, Worst, product
from attnprune_verify.audit.kernel.truth.recipe_errors import RecipeErrors
from attnprune_verify.audit.kernel.truth.steps import KernelSteps, evaluate

CLAMPED = 2.0**32  # exp may end so many smallest normal numbers above 0
LAG = 8.0  # how far a shift may stay below a logit before it is raised (chosen: kernels wait for log(256) = 5.5)
_LOG = 4.0  # by how many units log may err (chosen: libraries promise at most 4)
_UNKNOWN = 300.0  # logits that are off by more say nothing: the weight of a key may be 0 in float64 and 1 in the kernel


@dataclass(frozen=True)
class Mean:
    """Relative errors of a mean under weights: each term's own, of the terms' sum, and what all terms share."""

    own: Array
    chain: float
    common: Array


class ForwardErrors:
    """One sample, one precision, one calculus."""

    def __init__(self, sample: KernelSample, precision: KernelPrecision, calculus: Calculus) -> None:
        self.sample, self.precision, self.calculus = sample, precision, calculus
        self.u, self.w = precision.sums, precision.stored
        self.tiny, self.exp = precision.tiny_sums, precision.exp
        # Dropout multiplies weights and dP once more, and divides by the probability; its result may be stored, too.
        self.times = 1 + (sample.dropout is not None)
        self.dropping = 3 * self.u * (sample.dropout is not None)
        self.recipe: RecipeErrors | None = None
        if precision.recipe is not None:
            self.recipe = RecipeErrors(sample, precision.recipe, precision.storage, calculus)
        self._path: Array | None = None  # the largest part of the work, the same for all that follows from the logits

    @cached_property
    def steps(self) -> KernelSteps:
        return evaluate(self.sample)

    @property
    def count(self) -> int:
        """Terms of the longest row."""
        return max(int(self.steps.terms.max()), 1)

    def logits(self) -> Array:
        """Return the error of scale q k^T, softcap and ALiBi: in units of the logit."""
        sample, steps, add = self.sample, self.steps, self.calculus.add
        m, scale = sample.q.shape[3], sample.factor
        turned, size = np.swapaxes(steps.k, -1, -2), scale * steps.size
        lost = scale * self.lost_products(sample.q, turned) + 2 * m * max(scale, 1.0) * self.tiny
        roundings = m + 8
        if self.recipe is not None:  # scales of stored numbers: four roundings more, of numbers at most 5/4 as large
            roundings, size = m + 12, 1.6 * size
        error = add(self.calculus.chain(roundings) * (size + lost), lost)
        if self.recipe is not None:
            error = add(error, scale * self.recipe.logits())
        if sample.softcap is not None:
            capped = np.abs(steps.s) + self.biased
            error = add(steps.slope * error, self.exp * self.u * capped)
        moved = np.abs(steps.raw) + np.abs(steps.s - steps.raw) * (sample.alibi is not None) + self.biased
        return add(error, 3 * self.u * (moved + np.abs(steps.s)))

    def exponents(self, logit: Array) -> Array:
        """Relative errors of the exponentials, common ones included; 0 where nothing is allowed."""
        error = self.calculus.add(logit, self.path(logit), 3 * self.u * np.abs(self.steps.top))
        return np.where(self.steps.allowed, _growth(error), 0.0)

    def path(self, logit: Array) -> Array:
        """Return the errors of exponentials and their arguments, from a key's own to the end: in units of the logit."""
        if self._path is not None:
            return self._path
        steps, furthest = self.steps, self.furthest(logit)
        distance = np.where(steps.allowed, steps.top - steps.s + logit + furthest + 2 * self.lag, 0.0)
        changes = self.calculus.repeated(1.0 + self.changes(logit))
        self._path = self.calculus.add(2 * self.u * distance, self.exponential * changes)
        return self._path

    def furthest(self, logit: Array) -> Array:
        """The largest error of a row's logits."""
        return np.asarray(np.where(self.steps.allowed, logit, 0.0).max(axis=-1, keepdims=True))

    def kept(self, exponent: Array) -> Array:
        """Return the least share of a row sum that is left; at most 0 where nothing is certain."""
        return np.asarray(1 - self.calculus.along(self.steps.p * exponent, -1))

    def logarithm(self, logit: Array, exponent: Array) -> tuple[Array, Array]:
        """Return the errors of log sum exp by the exponentials and by its own roundings; 0 where a row has one key.

        The row sum's own additions are not in them.
        """
        with np.errstate(divide="ignore"):
            total = -np.log(np.maximum(self.kept(exponent), 0.0))
        distance = self.above + self.furthest(logit) + self.lag
        rounded = self.calculus.add(_LOG * self.u * distance, self.u * (np.abs(self.steps.top) + distance))
        return np.where(self.several, total, 0.0), np.where(self.several, rounded, 0.0)

    def log_sum_exp(self, logit: Array, exponent: Array) -> Array:
        """Return the error of log sum exp as a result: the logits' own errors stay, and all of a row's sum shows.

        Errors of exponentials add up in either calculus: those of one exp go one way, and nothing divides them out.
        """
        steps, add = self.steps, self.calculus.add
        with np.errstate(divide="ignore"):
            total = -np.log(np.maximum(1 - (steps.p * exponent).sum(axis=-1, keepdims=True), 0.0))
        distance = self.above + self.furthest(logit) + self.lag
        size = np.abs(steps.top) + distance
        error = add(
            total,
            self.calculus.chain(2 * self.count),
            _LOG * self.u * distance,
            4 * self.u * size,
            self.w * size,  # it may be stored in the 16-bit type
        )
        found = np.where(steps.allowed.any(axis=-1, keepdims=True), error + self.precision.lost, 0.0)
        return np.asarray(found[..., 0] / self.sample.conventions.unit)

    def exponential_of(self, logit: Array, log: Array) -> Array:
        """Return the error of a weight exp(s - L), L off by `log`; that of a row's only key is exp(0)."""
        error = self.exponential + 2 * self.u * (self.steps.lower + logit + log)
        return np.where(self.steps.allowed & self.several, error, 0.0)

    def probabilities(self, logit: Array, exponent: Array) -> Array:
        """Relative errors of the weights in a backward pass: computed anew, divided by the row sum or exp(s - L)."""
        steps, add = self.steps, self.calculus.add
        kept, (total, rounded) = self.kept(exponent), self.logarithm(logit, exponent)
        shares = self.calculus.along(steps.p * exponent, -1)
        turned, sums = 3 * self.u * np.abs(steps.top) * self.several, self.calculus.chain(2 * self.count)
        own = add(sums, rounded, turned, self.stored(1))
        of_log = add(own, self.exponential_of(logit, add(total, rounded)))
        ways = ((exponent, add(sums, self.stored(1))), (np.where(steps.allowed, _growth(logit), 0.0), of_log))
        with np.errstate(divide="ignore", invalid="ignore"):
            error = reduce(np.maximum, (add(e, shares, compounded(x) * (1 + e)) / kept for e, x in ways))
        return np.where(steps.allowed, np.where(kept > 0, error, self.largest_weight(logit, own)), 0.0)

    def largest_weight(self, logit: Array, rounded: Array) -> Array:
        """The most that a weight computed anew may be, relative to what it is, where nothing of a row is certain.

        Its logit exceeds the one that the row's shift is at least by 2 a, and the largest by what both are off.
        """
        steps = self.steps
        low, high = self.between(logit)
        most = np.exp(np.minimum(high - low, high - low.max(axis=-1, keepdims=True)))
        most = most * (1 + compounded(np.asarray(rounded + 2 * self.exponential + 4 * self.u * logit)))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(most > 0, np.maximum(most / steps.p, 1.0), 0.0)

    def averaged(self, logit: Array, exponent: Array) -> tuple[Array, tuple[Mean, ...]]:
        """Return the greatest weight; and, divided by the row sum or by exp(s - L), the errors of a mean."""
        steps, add, chain = self.steps, self.calculus.add, self.calculus.chain
        kept, sums = self.kept(exponent), chain(2 * self.count - 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            grown = np.where(kept > 0, steps.p * (1 + exponent) / kept, steps.allowed)
        divided = Mean(np.zeros_like(grown), chain(2 * self.count + 8), np.zeros_like(steps.top) + sums)
        if isinstance(self.calculus, AtOnce):
            return grown, (divided,)
        log = add(*self.logarithm(logit, np.where(steps.allowed, _growth(self.path(logit)), 0.0)))
        turned = 3 * self.u * np.abs(steps.top) * self.several
        return grown, (
            divided,
            Mean(self.exponential_of(logit, log), chain(self.count + 8), add(log, turned, sums)),
        )

    def output(self, logit: Array, exponent: Array) -> Array:
        steps, calculus = self.steps, self.calculus
        grown, ways = self.averaged(logit, exponent)
        with np.errstate(divide="ignore", invalid="ignore"):
            kept = self.kept(exponent)
            errors = calculus.centred(steps.p * exponent, steps.v, steps.o, steps.kept)
            # where nothing of a row is certain, its output still lies between the values
            furthest = np.max(steps.kept) * np.abs(steps.v).max(axis=-2, keepdims=True) + np.abs(steps.o)
            centred = np.where(kept > 0, errors / kept, furthest)
        grown = grown * steps.kept
        size, stored = grown @ np.abs(steps.v), calculus.through(grown * self.stored(self.times), steps.v)
        lost_weights = calculus.through(self.lost_weights(exponent) * steps.kept, steps.v)

        def error(way: Mean) -> Array:
            own = way.own + self.dropping
            terms = calculus.add(
                calculus.through(grown * own, steps.v),
                stored,
                way.chain * size,
            )
            shared = compounded(calculus.add(way.common, 2 * self.u, self.stored(2)))
            most = compounded(own.max(axis=-1, keepdims=True) + way.chain + self.stored(self.times))
            return calculus.add(
                (1 + shared) * centred,
                (1 + shared) * terms * (1 + most),
                shared * np.abs(steps.o),
                lost_weights,
            )

        lost = product(steps.p * steps.kept, self.lost(steps.v)) + 2 * self.precision.lost + 2 * self.count * self.tiny
        found = np.asarray(reduce(np.maximum, map(error, ways)) + lost)
        if self.recipe is None:
            return found
        return self.recipe.output(found, grown, exponent, self.calculus.chain(2 * self.count + 8))

    @property
    def biased(self) -> Array | float:
        """The size of the bias; a sink has none."""
        bias = self.sample.bias
        if bias is None or self.sample.sinks is None:
            return 0.0 if bias is None else np.abs(bias)
        return np.concatenate(
            [np.broadcast_to(np.abs(bias), self.steps.s[..., :-1].shape), 0 * self.steps.top], axis=-1
        )

    def changes(self, logit: Array) -> Array:
        """R of every key: how many other keys' computed logits may exceed its own; typically, those of neighbours."""
        if isinstance(self.calculus, AtOnce):
            return np.zeros_like(logit)
        if isinstance(self.calculus, Worst):
            return larger_logits(*self.between(logit))
        if "changes" not in self.sample.memo:
            self.sample.memo["changes"] = maximum_changes(np.where(self.steps.allowed, self.steps.s, -np.inf))
        return np.asarray(self.sample.memo["changes"] + float(self.sample.sinks is not None))  # first or last of all

    def between(self, logit: Array) -> tuple[Array, Array]:
        """Return the ends of the intervals of computed logits; both are -inf where nothing is allowed."""
        steps, reach = self.steps, logit * (1 + 2.0**-53 / self.u)  # `s` is itself computed, in float64
        return np.where(steps.allowed, steps.s - reach, -np.inf), np.where(steps.allowed, steps.s + reach, -np.inf)

    @property
    def lag(self) -> float:
        """The most that a shift may lag behind; typically no more than exp errs anyway."""
        return LAG if type(self.calculus) is Worst else 0.0

    @property
    def several(self) -> Mask:
        """The rows of more than one key: the weight of a row's only key is exp(0), and its log is 0."""
        return np.asarray(self.steps.terms > 1)

    @cached_property
    def above(self) -> Array:
        """Return the distance of log sum exp from the largest logit of a row; 0 where nothing is allowed."""
        least = np.where(self.steps.allowed, self.steps.lower, np.inf).min(axis=-1, keepdims=True)
        return np.where(np.isfinite(least), least, 0.0)

    @property
    def exponential(self) -> float:
        """The error of one exp, in units of the logit."""
        return float(compounded(np.asarray(self.exp * self.u)))

    def stored(self, times: int) -> float:
        """The error of a number of roundings to the 16-bit type."""
        return float(compounded(np.asarray(times * self.w)))

    def lost_weights(self, error: Array) -> Array:
        """The loss of weights by underflow, which are off by a relative error, and what exp adds that ends above 0."""
        return self.underflow(self.steps.p, self.steps.p * error) + CLAMPED * self.tiny

    def underflow(self, size: Array, error: Array) -> Array:
        """The loss of numbers that are stored, off by an error: none where they surely are normal."""
        normal, most = (self.precision.tiny, self.precision.lost) if self.w else (self.tiny, self.tiny)
        return np.where(size - error >= normal, 0.0, np.fmin(size + error, most))

    def lost_products(self, left: Array, right: Array) -> Array:
        """Bound the loss of products of two inputs whose subnormal numbers are lost."""
        return product(self.lost(left), np.abs(right)) + product(np.abs(left), self.lost(right))

    def lost(self, array: Array) -> Array:
        """The subnormal numbers of an input, which may be lost."""
        size = np.abs(array)
        return np.where(size < self.precision.tiny, size, 0.0)


def _growth(error: Array) -> Array:
    """Return the value of exp(error) - 1."""
    known = error < _UNKNOWN
    return np.expm1(error) if known.all() else np.where(known, np.expm1(np.minimum(error, _UNKNOWN)), np.inf)


def compounded(error: Array) -> Array:
    """Bound the relative error of a product of factors whose relative errors add up to x: x / (1 - x)."""
    small = error < 1
    return (
        np.asarray(error / (1 - error))
        if small.all()
        else np.where(small, error / np.where(small, 1 - error, 1.0), np.inf)
    )


def larger_logits(low: Array, high: Array) -> Array:
    """Count, for each key, the others whose logit may be larger, of logits between two ends.

    Whatever is joined in whatever order, and however late a shift is raised: each new one is the logit of another key,
    above all before it.
    """
    rows = math.prod(low.shape[:-1])
    lows, highs = low.reshape(rows, -1), np.sort(high.reshape(rows, -1), axis=-1)
    above = np.empty(lows.shape)
    for counts, own, row, order in zip(above, lows, highs, lows.argsort(axis=-1), strict=True):
        counts[order] = own.size - row.searchsorted(own[order], side="right")  # sorted keys are found faster
    return np.asarray(above.reshape(low.shape) - (high > low))


def maximum_changes(s: Array) -> Array:
    """Return the number of changes of a running maximum after a key, whatever neighbouring blocks are joined.

    A new maximum of a growing block of neighbours is above all logits between it and the key: it is in the block of all
    keys between the nearest two on its sides that are at least as large.
    """
    ends = np.full((*s.shape[:-1], 1), np.inf)
    logits = np.concatenate([[np.inf], np.concatenate([s, ends], axis=-1).ravel()])
    keys = np.flatnonzero(logits < np.inf)

    def nearest(step: int) -> NDArray[np.int32]:
        found = np.arange(logits.size, dtype=np.int32) + np.int32(step)
        wrong = keys[logits[found[keys]] < logits[keys]]
        while wrong.size:  # what lies between a logit and the place it points at is smaller than it
            found[wrong] = there = found[found[wrong]]
            wrong = wrong[logits[there] < logits[wrong]]
        return found[keys]

    begun, ended = (np.bincount(nearest(step), minlength=logits.size) for step in (-1, 1))
    return np.asarray(np.cumsum(begun[:-1] - ended[1:]).reshape(*s.shape[:-1], -1)[..., :-1] - 1.0)
