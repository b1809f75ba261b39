r"""Bounds of an honest kernel's distance from the truth: entry by entry, at worst and typically.

An honest kernel in a precision (`KernelPrecision`: u is the unit roundoff of its sums, w that of its 16-bit type or 0)

* adds products in any order, blocks or splits; folds the scale, log2(e) or both into q, into the logits or into exp2;
* subtracts a row's largest logit, or a running one (online softmax: blocks of any keys, joined in any order, the shift
  raised when a logit exceeds it by more than up to 8), or log(row sum) afterwards; its exp errs by at most 64 units of
  u, exp(0) is 1, and its log by at most 4 units;
* divides by the row sum before or after the product with V;
* rounds probabilities (before or after that division), dP, dS, dO / row sum and every output to the 16-bit type, and
  an output once more when a scale is applied, heads are summed or blocks are joined after the rounding;
* takes (P * dP) 1 from P and dP, or as dO O^T from the (rounded) output; may differentiate through the maximum;
* loses what is subnormal, of stored numbers where `KernelPrecision.flushes`; its exp may end at 2^32 smallest normal
  numbers instead of at 0.

Logits are off by `a = scale gamma_{m+8} |q||k| + 6 u |s|`, weights by `e = exp(a + path) - 1`, where the path holds the
roundings of the differences and `64 u (1 + R)`; R counts the other keys whose computed logit may exceed this key's.
Rows are brought back to sum 1, which costs `/ (1 - sum p e)`. In the output the errors of the weights appear centred,
`sum_j p_j e_j |v_j - o|`, because a softmax does not see what is common to a row; what a term has of its own (its
storing, its sums, what exp(s - log sum) errs by) meets |v_j|, and what all terms share (the row sum's own sum, the
division, log sum exp) meets |o|. A backward pass may compute logits and weights anew, so that their errors do not
cancel there. The gradient follows from dS = P * (dP - mean) with the errors of all three. Every line below is written
once, for both calculi of `attnprune_verify.audit.kernel.truth.calculus`; docs/kernels.md lists which of them
proofs_check/coq/rounding proves for `Worst`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeAlias

import numpy as np

from attnprune_verify.audit.kernel.problem.blocks import blocks, in_type
from attnprune_verify.audit.kernel.problem.integers import ListedSample, PagedSample
from attnprune_verify.audit.kernel.problem.precision import PRECISIONS, KernelPrecision
from attnprune_verify.audit.kernel.problem.sample import Array, KernelSample
from attnprune_verify.audit.kernel.truth.assembly import Assembled, Terms
from attnprune_verify.audit.kernel.truth.calculus import AtOnce, Calculus, Typical, Worst, product
from attnprune_verify.audit.kernel.truth.forward_errors import ForwardErrors, Mean, compounded
from attnprune_verify.audit.kernel.truth.steps import evaluate, spread_over

BOTH = "both passes"  # in the memo of a sample whose gradients are asked after its forward pass: at once is cheaper
_SAFETY = 1.01  # for the float64 rounding of all that follows, and products of two small errors
_SMALL = 2**11  # chosen: logits up to which all results cost little more than those of the forward pass
_BLOCK = 2**17  # chosen: logits of a block, so that an array of them has 1 MiB
# Logits and numbers of inputs up to which balls cost as little as floats with their bound (35 ms); of float64, 1.1 s.
_BALLS, _BALLS_OF_FLOAT64 = (1_000, 2**15), (2**15, 2**17)
_HALF = float(np.finfo(np.longdouble).eps) / 2
# The widest floats of the machine, which are float64 on some; as they judge float64, they need not reach further.
_WIDE = replace(PRECISIONS["float64"], name="longdouble", unit=_HALF, sums=_HALF)


Rule: TypeAlias = tuple[KernelPrecision, Calculus]


@dataclass(frozen=True)
class Errors:
    """Error bounds by output array: the worst case of an honest kernel, and its typical maximum."""

    worst: Mapping[str, Array]
    typical: Mapping[str, Array]


class _ByName(Mapping[str, Array]):
    """Errors by name; those of a large sample's gradients are computed on first use."""

    def __init__(self, sample: KernelSample, precision: KernelPrecision, which: int) -> None:
        self.sample, self.precision, self.which = sample, precision, which

    def __getitem__(self, name: str) -> Array:
        return _errors(self.sample, self.precision, name not in ("o", "lse"))[self.which][name]

    def __iter__(self) -> Iterator[str]:
        return iter(results_of(self.sample))

    def __len__(self) -> int:
        return len(results_of(self.sample))


def results_of(sample: KernelSample, backward: bool = True) -> tuple[str, ...]:
    """All results of a sample, or those of its forward pass."""
    more = {"dbias": sample.bias, "dsinks": sample.sinks}
    gradients = ("dq", "dk", "dv", *(name for name, part in more.items() if part is not None))
    return ("o", "lse", *gradients) if backward else ("o", "lse")


def attention_errors(sample: KernelSample, precision: KernelPrecision | None = None) -> Errors:
    """The errors of o, dq, dk and dv in a precision (default: the sample's), once per sample and precision."""
    precision = precision or sample.precision
    sample = sample.ordinary if isinstance(sample, PagedSample) else sample
    return Errors(_ByName(sample, precision, 0), _ByName(sample, precision, 1))


def worst_errors(sample: KernelSample, precision: KernelPrecision) -> dict[str, Array]:
    """Return the bounds that no honest kernel in a precision exceeds."""
    return propagated(sample, [(precision, Worst(precision.sums))], True)[1][0]


def in_balls(sample: KernelSample) -> bool:
    """Return True where the truth is enclosed in balls: of float64 longer than of what floats are exact enough for."""
    batch, heads, _, n, length, m, mv = sample.shape
    logits, numbers = batch * heads * n * length, batch * heads * (n + length) * (m + mv)
    most = _BALLS_OF_FLOAT64 if sample.precision.name == "float64" else _BALLS
    return logits <= most[0] and numbers <= most[1] and not isinstance(sample, ListedSample)


def in_floats(sample: KernelSample, backward: bool) -> tuple[dict[str, Array], dict[str, Array]]:
    """The results of a sample, and their errors: in float64, or in wider floats where that is its precision."""
    if in_balls(sample):
        values, found = propagated(sample, [_own_rule(sample)], backward, valued=True)
        return values, found[0]
    _errors(sample, sample.precision, backward)
    kept: tuple[dict[str, Array], dict[str, Array]] = sample.memo["in floats", backward]
    return kept


def _own_rule(sample: KernelSample) -> Rule:
    own = _WIDE if sample.precision.name == "float64" else PRECISIONS["float64"]
    return own, AtOnce(own.sums)


def _errors(sample: KernelSample, precision: KernelPrecision, backward: bool) -> list[dict[str, Array]]:
    """The worst and the typical errors; and with those of the sample's precision its truth in floats, if it is that."""
    if ("errors", precision, backward) not in sample.memo:
        batch, heads, _, n, length, *_ = sample.shape
        every = backward or batch * heads * n * length <= _SMALL or BOTH in sample.memo
        valued = precision == sample.precision and not in_balls(sample)
        rules: list[Rule] = [(precision, Worst(precision.sums)), (precision, Typical(precision.sums))]
        values, found = propagated(sample, rules + [_own_rule(sample)] * valued, every, valued)
        for part in {every, False}:
            sample.memo["errors", precision, part] = found
            if valued:
                sample.memo["in floats", part] = values, found[2]
    errors: list[dict[str, Array]] = sample.memo["errors", precision, backward]
    return errors


def propagated(
    sample: KernelSample, rules: list[Rule], backward: bool, valued: bool = False
) -> tuple[dict[str, Array], list[dict[str, Array]]]:
    """Return the results of a sample, if `valued`, and their errors by each rule.

    Block by block, so that memory holds few of its logits at a time.
    """
    names = results_of(sample, backward) if valued else ()
    values, parts = Assembled(sample, sample.group), [Assembled(sample, 1) for _ in rules]
    with np.errstate(all="ignore"):
        for place, block in blocks(sample, _BLOCK):
            wide = valued and sample.precision.name == "float64"
            valued_block = in_type(block, np.longdouble) if wide else block
            values.add(place, {name: ((), (getattr(evaluate(valued_block), name),)) for name in names})
            if wide:
                valued_block.memo.clear()  # steps hold their sample, so that neither would be freed at once
            for rule, own in zip(rules, parts, strict=True):
                own.add(place, _Propagation(block, *rule).terms(backward), rule[1])
            if block is not sample:
                block.memo.clear()
        errors = [_Propagation(sample, *rule).outputs(own.terms) for rule, own in zip(rules, parts, strict=True)]
    return {name: sums[0] for name, (_, sums) in values.terms.items()}, errors


class _Propagation(ForwardErrors):
    """One sample, one precision, one calculus."""

    def terms(self, backward: bool) -> Terms:
        """Errors of the rows of a block, and what its queries add to those of sums over all queries."""
        logit = self.logits()
        exponent = self.exponents(logit)
        o = self.output(logit, exponent)
        found: Terms = {"o": ((o,), ()), "lse": ((self.log_sum_exp(logit, exponent),), ())}
        if not backward:
            return found
        weights = self.probabilities(logit, exponent)
        independent, mean, plain = self.logit_gradient(exponent, weights, logit, o)
        length = self.sample.k.shape[2]  # without the sink
        found["dq"] = (self.query_gradient(independent, mean),), ()
        found["dk"] = self.key_gradient(independent, mean)
        found["dv"] = self.value_gradient(weights)
        own = self.calculus.add(plain, self.steps.p * mean)
        if self.sample.bias is not None:
            found["dbias"] = self.bias_gradient(own[..., :length])
        if self.sample.sinks is not None:
            found["dsinks"] = self.sink_gradient(own[..., length])
        return found

    def outputs(self, terms: Terms) -> dict[str, Array]:
        """Errors of the results, from the terms of all queries."""
        finish: dict[str, Callable[..., Array]] = {
            "dk": self.over_queries,
            "dv": self.over_queries,
            "dbias": self.bias,
            "dsinks": self.sinks,
        }
        found = {
            name: finish[name](*errors, *sums) if name in finish else errors[0]
            for name, (errors, sums) in terms.items()
        }
        if "dk" in found:
            found["dk"] = found["dk"] + max(self.sample.factor, 1.0) * self.floor()
            found["dv"] = found["dv"] + self.floor()
        return {name: np.where(np.isnan(error), np.inf, _SAFETY * error) for name, error in found.items()}

    def value_products(self) -> Array:
        """Return the error of dP = dO V^T."""
        sample, steps, calculus = self.sample, self.steps, self.calculus
        do, turned = sample.do, np.swapaxes(steps.v, -1, -2)
        lost = self.lost_products(do, turned) + do.shape[3] * self.tiny
        if self.w:  # dO / row sum in the 16-bit type, dP itself, and dP - D
            lost = (
                lost
                + 2 * self.precision.lost
                + self.count * self.precision.lost * np.abs(turned).sum(axis=-2, keepdims=True)
            )
        return calculus.add(
            (1 + self.stored(2)) * calculus.chain(do.shape[3] + 8) * steps.dp_size * steps.kept,
            (1 + self.stored(1)) * self.stored(1) * calculus.through(np.abs(do), turned) * steps.kept
            if self.w
            else 0.0,
            self.stored(self.times) * np.abs(steps.dp) if self.w else 0.0,
            self.dropping * np.abs(steps.dp) if self.dropping else 0.0,
        ) + np.where(steps.allowed, lost * steps.kept, 0.0)

    def mean_error(self, exponent: Array, logit: Array, o: Array, dp: Array) -> Array:
        """Return the error of (P * dP) 1, from its terms or from dO O^T: the larger, because either is honest."""
        steps, calculus, do = self.steps, self.calculus, self.sample.do
        grown, ways = self.averaged(logit, exponent)
        kept, size = self.kept(exponent), np.abs(steps.dp)
        with np.errstate(divide="ignore", invalid="ignore"):
            centred = calculus.along(steps.p * exponent * np.abs(steps.dp - steps.mean), -1) / kept
        centred = np.where(kept > 0, centred, size.max(axis=-1, keepdims=True) + np.abs(steps.mean))

        def error(way: Mean) -> Array:
            own = way.own + 2 * logit  # of logits computed anew, which the row sum has not seen
            terms = calculus.add(
                calculus.along(grown * own * size, -1),
                calculus.along(grown * self.stored(1) * size, -1) if self.w else 0.0,
                calculus.along(grown * dp, -1),
                way.chain * (grown * size).sum(axis=-1, keepdims=True),
            )
            shared = compounded(calculus.add(way.common, 2 * self.u))
            most = compounded(own.max(axis=-1, keepdims=True) + way.chain + self.stored(1))
            return calculus.add((1 + shared) * centred, (1 + shared) * terms * (1 + most), shared * np.abs(steps.mean))

        product = calculus.chain(do.shape[3] + 8) * np.abs(do * steps.o).sum(axis=-1, keepdims=True)
        return np.maximum(
            reduce(np.maximum, map(error, ways)), calculus.add(calculus.along(np.abs(do) * o, -1), product)
        )

    def logit_gradient(self, exponent: Array, weights: Array, logit: Array, o: Array) -> tuple[Array, Array, Array]:
        """Return the errors of dS times the cap's derivative: independent from key to key, and by a row's mean.

        The third array has those of dS times its derivative by the bias, which a sink has, too.
        """
        steps, calculus, sample = self.steps, self.calculus, self.sample
        dp = self.value_products()
        mean = self.mean_error(exponent, logit, o, dp)
        sized = np.abs(steps.dp) + np.abs(steps.mean) + self.cotangent
        grown = steps.p * (1 + weights)  # what a weight may have become
        centred = calculus.add(dp, 2 * self.u * sized)
        ds = np.abs(steps.ds)
        rounded = compounded(np.asarray(3 * self.u) + self.stored(3))
        row = calculus.add(weights * ds, (1 + rounded) * grown * centred, rounded * (1 + weights) * ds)
        # Differentiated through the maximum, whatever the row's gradient sums to goes to the largest logits.
        leak = calculus.add(
            calculus.along(row, -1),
            (1 + rounded) * grown.sum(axis=-1, keepdims=True) * mean,
            calculus.chain(self.count + 8) * (steps.p * sized).sum(axis=-1, keepdims=True),
        )
        low, high = self.between(logit)
        if sample.sinks is not None:  # which need not be subtracted
            low = low[..., :-1]
        largest = steps.allowed & (high >= low.max(axis=-1, keepdims=True))
        own = calculus.add(row, np.where(largest, leak, 0.0))
        error, plain = steps.slope * own, steps.by_bias * own
        if sample.softcap is not None:
            tanh = np.sqrt(np.maximum(1 - steps.slope, 0.0))
            capped = ds * (2 * tanh * (logit / sample.softcap + self.exp * self.u) + 4 * self.u)
            error = calculus.add(error, capped)
            plain = calculus.add(plain, capped * (steps.by_bias != 1))
        size = np.max(steps.kept) * steps.dp_size + np.abs(steps.mean)
        off = np.where(steps.allowed, np.maximum(error, plain) + grown * mean, 0.0)
        lost = self.lost_weights(weights) * (size + self.cotangent) + self.underflow(ds, off)
        independent, plain = (calculus.add(np.where(steps.allowed, x, 0.0), lost) for x in (error, plain))
        return independent, (1 + rounded) * (1 + weights) * mean, plain

    def bias_gradient(self, own: Array) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """Errors of dS summed over what the bias was broadcast along, and of heads rounded before; sizes, values."""
        steps, sample = self.steps, self.sample
        ds = (steps.ds * steps.by_bias)[..., : sample.k.shape[2]]
        errors = tuple(self.spread(error) for error in (own, self.stored(2) * np.abs(ds)))
        return errors, (spread_over(sample, np.abs(ds)), spread_over(sample, ds))

    def spread(self, errors: Array) -> Array:
        if isinstance(self.calculus, Worst):
            return spread_over(self.sample, errors)
        return np.sqrt(spread_over(self.sample, errors**2))

    def bias(self, errors: Array, joined: Array, size: Array, value: Array) -> Array:
        """The error of dbias: of dS, summed; each head may be rounded before it is added."""
        batch, heads, _, n, length, *_ = self.sample.shape
        terms = batch * heads * n * length // value.size
        rounded = compounded(np.asarray(4 * self.u) + self.stored(3))
        error = self.calculus.add(
            (1 + rounded) * errors, joined, self.calculus.chain(terms + 8) * size, rounded * np.abs(value)
        )
        return np.asarray(error + 2 * self.precision.lost + terms * self.tiny)

    def sink_gradient(self, own: Array) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        ds = self.steps.ds[..., -1]
        errors = own.sum(axis=(0, 2)) if isinstance(self.calculus, Worst) else np.sqrt((own**2).sum(axis=(0, 2)))
        return (errors,), (np.abs(ds).sum(axis=(0, 2)), ds.sum(axis=(0, 2)))

    def sinks(self, errors: Array, size: Array, value: Array) -> Array:
        """The error of dsinks: of the sinks' dS, which are added before they are rounded."""
        chain = self.calculus.chain(self.sample.shape[0] * self.sample.queries + 8) * size
        rounded = compounded(np.asarray(4 * self.u) + self.stored(1)) * np.abs(value)
        return np.asarray(self.calculus.add(errors, chain, rounded) + self.precision.lost)

    def query_gradient(self, independent: Array, mean: Array) -> Array:
        """A row's mean moves all its keys alike: dq_i errs by mean_i sum_j p_ij k_j there."""
        steps, calculus, scale = self.steps, self.calculus, self.sample.factor
        weights = steps.p * steps.slope * mean
        together = weights @ np.abs(steps.k) if isinstance(calculus, Worst) else np.abs(weights @ steps.k)
        through = np.abs(steps.ds * steps.slope)
        rounded, chain = compounded(np.asarray(4 * self.u) + self.stored(3)), calculus.chain(self.count + 8)
        grown = (1 + rounded) * (1 + chain)
        error = calculus.add(
            grown * scale * calculus.through(independent, steps.k),
            grown * scale * together,
            (1 + rounded) * scale * chain * (through @ np.abs(steps.k)),
            rounded * np.abs(steps.dq),
        )
        lost = scale * product(through, self.lost(steps.k)) + 2 * max(scale, 1.0) * self.count * self.tiny
        return np.asarray(error + grown * lost + 2 * max(scale, 1.0) * self.precision.lost)

    def key_gradient(self, independent: Array, mean: Array) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        steps, sample, scale = self.steps, self.sample, self.sample.factor
        length = sample.k.shape[2]  # without the sink
        error = np.swapaxes(self.calculus.add(independent, steps.p * steps.slope * mean), -1, -2)[:, :, :length]
        through = np.swapaxes(steps.ds * steps.slope, -1, -2)[:, :, :length]
        lost = scale * product(np.abs(through), self.lost(sample.q))
        return (scale * self.calculus.through(error, sample.q),), (*_products(scale * through, sample.q), lost)

    def value_gradient(self, weights: Array) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        steps, sample = self.steps, self.sample
        stored = self.stored(self.times) + self.dropping
        errors = (steps.p * (weights + (1 + weights) * stored) + self.lost_weights(weights)) * steps.kept
        length = sample.k.shape[2]  # without the sink
        turned = np.swapaxes(steps.p * steps.kept, -1, -2)[:, :, :length]
        own = self.calculus.through(np.swapaxes(errors, -1, -2)[:, :, :length], sample.do)
        divided = self.stored(1) * self.calculus.through(turned, sample.do)  # dO / row sum in the 16-bit type
        lost = product(turned, self.lost(sample.do))
        return (self.calculus.add(own, divided),), (*_products(turned, sample.do), lost)

    def over_queries(self, own: Array, size: Array, value: Array, lost: Array) -> Array:
        """Sums over the queries of all heads of a group; each head may be rounded before the heads are added."""
        sample, calculus = self.sample, self.calculus
        heads, size = self.per_key_head(own), sample.per_key_head(size)
        joined = self.stored(2) * self.per_key_head(np.abs(value))
        chain = calculus.chain(self.terms_of_keys + 8)
        rounded = compounded(np.asarray(4 * self.u) + self.stored(3))
        grown = (1 + rounded) * (1 + self.stored(2))
        error = calculus.add(
            grown * (1 + chain) * heads, grown * chain * size, (1 + rounded) * joined,
            rounded * np.abs(sample.per_key_head(value)),
        )  # fmt: skip
        return np.asarray(error + sample.per_key_head(lost))

    def per_key_head(self, errors: Array) -> Array:
        if isinstance(self.calculus, Worst):
            return self.sample.per_key_head(errors)
        return np.sqrt(self.sample.per_key_head(errors**2))

    @property
    def terms_of_keys(self) -> int:
        """Terms of a key's gradient: of each query, and of each entry of its list that names the key."""
        repeats = self.sample.repeats if isinstance(self.sample, ListedSample) else 1
        return self.sample.queries * self.sample.group * repeats

    def floor(self) -> float:
        """Return the greatest loss of outputs to underflow: of each product, and of each head's result."""
        terms = self.terms_of_keys
        grown = (1 + compounded(np.asarray(4 * self.u) + self.stored(3))) * (1 + self.calculus.chain(terms + 8))
        return float(2 * terms * grown) * self.tiny + float(self.sample.group + 1) * self.precision.lost

    @property
    def cotangent(self) -> Array | float:
        """The size of the cotangent of log sum exp; twice that in base 2, as 1/log(2) and the product are rounded."""
        times = 1.0 if self.sample.conventions.unit == 1 else 2.0
        return 0.0 if self.sample.pull is None else times * np.abs(self.sample.pull)[..., None]


def _products(left: Array, right: Array) -> tuple[Array, Array]:
    """The product of absolute values, and the product."""
    return np.abs(left) @ np.abs(right), left @ right
