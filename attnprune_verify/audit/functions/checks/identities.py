"""Identities between calls, whatever the values: symmetries, scalings, and functions agreeing with each other.

The tolerance of every identity is the sum of the running-error bounds of the calls it joins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.audit.functions.checks.smaller import call_on, check, failed_on, is_right
from attnprune_verify.audit.functions.context import Context
from attnprune_verify.audit.functions.truth.formulas import Array
from attnprune_verify.audit.functions.truth.precision import FLOAT64
from attnprune_verify.audit.functions.truth.reference import ENCLOSED, MAPS, VALUED, permuted, reference
from attnprune_verify.audit.functions.truth.samples import Sample
from attnprune_verify.audit.record import Check, Finding
from attnprune_verify.audit.subject.answers import NoAnswer


def identity_checks(function: str) -> Iterator[Check]:
    """The identities that concern this function."""
    return (check(function, name, says, ask) for name, says, ask, of in _IDENTITIES if function in of)


Ask = Callable[[Context, str], Finding]


def _basic(context: Context, function: str) -> tuple[Sample, ...]:
    firsts = (("full", 1), ("causal", 1), ("given-mask", 0))
    return tuple(one for regime, index in firsts for one in context.samples(regime, function)[index : index + 1])


def _numbers(context: Context, function: str, sample: Sample) -> tuple[Array, ...]:
    """Return the answer in float64; one without the contract's shape and kind counts as none."""
    answer = context.answer(function, sample)
    problem = context.misshapen(function, sample, answer)
    if problem is not None:
        raise NoAnswer(problem, unreadable=True)
    return tuple(part.astype(float) for part in answer.parts)


def _joined(
    context: Context,
    function: str,
    sample: Sample,
    other: Sample,
    back: Callable[..., tuple[Array, ...]],
    shift: tuple[Array, ...] | None = None,
) -> Finding | None:
    """A failure if `back` of the other call, less `shift`, is not what this call returns, to within both bounds."""
    ours, theirs = _numbers(context, function, sample), _numbers(context, function, other)
    bounds = back(function, tuple(part.bound for part in reference(function, other)))
    returned = back(function, theirs)
    if shift is not None:
        returned = tuple(part - less for part, less in zip(returned, shift, strict=True))
    for mine, yours, part, bound in zip(ours, returned, reference(function, sample), bounds, strict=True):
        with np.errstate(invalid="ignore"):
            # A wrong result is rounded at its own size: that does not break the law.
            size = np.maximum(np.abs(part.value), np.minimum(np.abs(mine), np.abs(yours)))
            gap, allowed = np.abs(mine - yours), part.bound + np.abs(bound) + 4 * sample.unit_roundoff * size
        if not np.all(gap <= allowed):
            times = np.nan_to_num(gap / np.maximum(allowed, np.finfo(float).tiny), nan=np.inf)
            worst = np.unravel_index(np.argmax(times), np.shape(gap))
            problem = f"differs by {gap[worst]:.3g} where rounding explains {allowed[worst]:.3g}"
            measured = {"error": float(gap[worst]), "bound": float(allowed[worst])}
            found = failed_on(function, sample, problem, **measured, samples=(sample, other))
            return replace(found, call=call_on(function, other))
    return None


def _all(
    context: Context, function: str, pairs: Iterator[tuple[Sample, Sample, Callable[..., tuple[Array, ...]]]]
) -> Finding:
    count = 0
    for sample, other, back in pairs:
        failure = _joined(context, function, sample, other, back)
        if failure is not None:
            return failure
        count += 1
    return Finding("passed", f"{count} instances")


def _same(function: str, parts: tuple[Array, ...]) -> tuple[Array, ...]:
    return parts


def _permutation(context: Context, function: str) -> Finding:
    def pairs() -> Iterator[tuple[Sample, Sample, Callable[..., tuple[Array, ...]]]]:
        rng = np.random.default_rng(context.seed)
        for sample in _basic(context, function):
            moved, back = permuted(sample, rng)
            yield sample, moved, back

    return _all(context, function, pairs())


def _isolated(context: Context, function: str) -> Finding:
    def pairs() -> Iterator[tuple[Sample, Sample, Callable[..., tuple[Array, ...]]]]:
        for sample in _basic(context, function):
            mask = np.ones((sample.n, sample.n)) if sample.mask is None else sample.mask.copy()
            mask[-1], mask[:, -1] = 0.0, 0.0
            mask[mask.sum(axis=1) == 0, 0] = 1.0
            mask[-1, 0], mask[-1, -1] = 0.0, 1.0
            X = sample.X.copy()
            X[-1] = -3.0 * X[-1] + 1.0
            alone = sample.changed(mask=mask, name=f"{sample.name}-isolated").exact()
            yield alone, alone.changed(X=X, name=f"{sample.name}-isolated-moved").exact(), _same

    return _all(context, function, pairs())


def _homogeneity(context: Context, function: str) -> Finding:
    def pairs() -> Iterator[tuple[Sample, Sample, Callable[..., tuple[Array, ...]]]]:
        for sample in _basic(context, function):
            scaled = sample.changed(X=2 * sample.X, W=sample.W / 4, W_Q=sample.W_Q / 4, name=f"{sample.name}-scaled")
            yield sample, scaled, _same

    return _all(context, function, pairs())


def _affine(context: Context, function: str) -> Finding:
    for sample in _basic(context, function):
        larger = sample.changed(lam=sample.lam + 0.5, name=f"{sample.name}-lam+0.5").exact()
        values = zip(reference(function, sample), reference(function, larger), strict=True)
        slope = tuple(after.value - before.value for before, after in values)
        failure = _joined(context, function, sample, larger, _same, slope)
        if failure is not None:
            return failure
    return Finding("passed", f"{len(_basic(context, function))} instances")


def _stochastic(context: Context, function: str) -> Finding:
    for sample in (
        *_basic(context, function),
        *context.samples("logits-100", function),
        *context.samples("given-mask", function),
    ):
        (F,) = _numbers(context, function, sample)
        forbidden = F * ~sample.allowed
        off = float(np.abs(F.sum(axis=-1) - 1).max())
        allowed = (sample.n + 8) * 4 * sample.unit_roundoff * 10
        if not off <= allowed or (F < 0).any() or forbidden.any():
            what = f"a row sums to 1 + {off:.2g}" if not off <= allowed else "an entry is negative"
            what = "a forbidden entry is not 0" if forbidden.any() else what
            return failed_on(function, sample, what, error=off, bound=allowed, samples=(sample,))
    return Finding("passed", "rows are probability vectors on the allowed positions")


def _derivative(context: Context, function: str) -> Finding:
    if "loss" not in context.subject.functions:
        return Finding("not_applicable", "the target has no loss")
    if context.precision(function).unit_roundoff > FLOAT64.unit_roundoff:
        return Finding("not_applicable", f"differences tell too little in {context.precision(function).name}")
    for sample in _basic(context, function):
        (gradient,) = _numbers(context, "gradient", sample)
        direction = np.random.default_rng(sample.seed).choice([-1.0, 1.0], sample.M.shape)
        step = 1e-3
        points = [sample.changed(M=sample.M + h * step * direction) for h in (-2, -1, 1, 2)]
        try:
            values = [float(_numbers(context, "loss", point)[0]) for point in points]
        except NoAnswer as refusal:
            return Finding("not_applicable", f"the subject's loss {refusal}")
        slope = (8 * (values[2] - values[1]) - (values[3] - values[0])) / (12 * step)
        claimed = float((gradient * direction).sum())
        allowed = 1e-6 * (1 + float(np.abs(gradient).sum()))
        if not abs(slope - claimed) <= allowed:
            if is_right(context, "gradient", sample, anew=False):
                return Finding("not_applicable", "the gradient is right, the subject's loss is not")
            problem = f"the slope of the loss is {slope:.6g}, the gradient says {claimed:.6g}"
            return failed_on("gradient", sample, problem, error=abs(slope - claimed), bound=allowed, samples=(sample,))
    return Finding("passed", "central differences of the subject's loss agree", power=1e-6)


def _agrees(context: Context, function: str) -> Finding:
    asked = [name for name in ("loss", "gradient") if name in context.subject.functions]
    if not asked:
        return Finding("not_applicable", "the target has neither loss nor gradient")
    for sample in (*_basic(context, function), *context.samples("outside-box", function)):
        both = context.answer(function, sample)
        for name in asked:
            try:
                alone = context.answer(name, sample).parts[0]
            except NoAnswer:
                continue
            index = ("loss", "gradient").index(name)
            bound = 2 * reference(function, sample)[index].bound
            if alone.shape != both.parts[index].shape or not np.all(np.abs(alone - both.parts[index]) <= bound):
                if is_right(context, function, sample, anew=False):
                    return Finding("not_applicable", f"it is right, the subject's {name} is not")
                return failed_on(function, sample, f"differs from the subject's {name}", samples=(sample,))
    return Finding("passed", f"agrees with {' and '.join(asked)}")


def _symmetric(context: Context, function: str) -> Finding:
    for sample in _basic(context, function):
        other = sample.changed(V=np.asarray(sample.V.T - 0.5 * sample.W))
        (one,), (two,) = (_numbers(context, function, asked) for asked in (sample, other))
        gap = abs(float((other.V * one).sum() - (sample.V * two).sum()))
        allowed = float(
            (np.abs(other.V) * (reference(function, sample)[0].bound + 1e-15 * np.abs(one))).sum()
            + (np.abs(sample.V) * (reference(function, other)[0].bound + 1e-15 * np.abs(two))).sum()
        )
        if not gap <= allowed:
            problem = f"<U, H V> and <V, H U> differ by {gap:.3g}"
            return failed_on(function, sample, problem, error=gap, bound=allowed, samples=(sample,))
    return Finding("passed", "the Hessian is symmetric")


def _linear(context: Context, function: str) -> Finding:
    def pairs() -> Iterator[tuple[Sample, Sample, Callable[..., tuple[Array, ...]]]]:
        for sample in _basic(context, function):
            yield sample, sample.changed(V=-2 * sample.V), lambda _, parts: tuple(part / -2 for part in parts)

    return _all(context, function, pairs())


_REGULARISED = tuple(name for name in ENCLOSED if "lam" in FUNCTIONS[name].arguments)
_IDENTITIES: tuple[tuple[str, str, Ask, tuple[str, ...]], ...] = (
    ("permutation", "another order of tokens and features gives the same, reordered", _permutation, ENCLOSED),
    ("isolated-token", "a token nobody looks at, and that sees only itself, has no influence", _isolated, VALUED),
    ("homogeneity", "2 X with W / 4 gives the same logits, loss and gradient", _homogeneity, VALUED),
    ("affine-in-lam", "the result is affine in lam, with the slope of the regulariser", _affine, _REGULARISED),
    ("stochastic", "rows are non-negative, sum to 1, and are 0 where forbidden", _stochastic, MAPS),
    ("derivative-of-loss", "the gradient is the derivative of the subject's own loss", _derivative, ("gradient",)),
    ("agrees", "loss_and_gradient agrees with the subject's loss and gradient", _agrees, ("loss_and_gradient",)),
    ("symmetric", "<U, H V> = <V, H U>", _symmetric, ("hessian_vector_product",)),
    ("linear", "H (2 V) = 2 H V", _linear, ("hessian_vector_product",)),
)
"""Each identity, and the functions that it concerns."""
