"""Wrong backward passes of right (or almost right) attention, to compare with what a kernel returned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from attnprune_verify.audit.kernel.names.forward_mistakes import forward_mistakes
from attnprune_verify.audit.kernel.names.wrong_forward import WrongForward, output
from attnprune_verify.audit.kernel.problem.precision import precision_named
from attnprune_verify.audit.kernel.problem.sample import Array, KernelSample
from attnprune_verify.audit.kernel.truth.steps import evaluate

Three = tuple[Array, Array, Array]
Grouping = Callable[[Array, int], Array]


def _summed(heads: Array, group: int) -> Array:
    batch, count, *rest = heads.shape
    total: Array = heads.reshape(batch, count // group, group, *rest).sum(axis=2)
    return total


def _picked(index: int) -> Grouping:
    return lambda heads, group: heads[:, (index if index >= 0 else group - 1) :: group]


@dataclass(frozen=True)
class WrongGradient:
    """One wrong backward pass; every field that is not given is right.

    Attributes
    ----------
    weights : Callable[[KernelSample], Array] or None
        A wrong softmax that the backward pass uses.
    ds : Callable[[Array, Array], Array] or None
        The gradient by the logits, from the steps.
    factors : Callable[[float], tuple[float, float]]
        Of dq and dk, in place of the scale.
    grouping : from query heads to key heads
    transposed : bool
        DS and P, where they are square.
    uncapped : bool
        Whether the derivative of the softcap is left out.
    true_mean : bool
        (P * dP) 1 comes from the right output, whatever the weights.
    after : Callable[[KernelSample, Array, Array, Array], Three] or None
        What happens to dq, dk, dv at the end.
    """

    id: str
    words: str
    weights: Callable[[KernelSample], Array] | None = None
    ds: Callable[[Array, Array], Array] | None = None
    factors: Callable[[float], tuple[float, float]] = lambda scale: (scale, scale)
    grouping: Grouping = _summed
    transposed: bool = False
    uncapped: bool = False
    true_mean: bool = False
    after: Callable[[KernelSample, Array, Array, Array], Three] | None = None


def gradients(sample: KernelSample, wrong: WrongGradient) -> Three:
    """Return the result of the wrong backward pass."""
    with np.errstate(all="ignore"):
        return _gradients(sample, wrong)


def _gradients(sample: KernelSample, wrong: WrongGradient) -> Three:
    steps = evaluate(sample)
    p = steps.p if wrong.weights is None else wrong.weights(sample)
    dp = sample.do @ _turned(steps.v)
    mean = steps.mean if wrong.true_mean else (p * dp).sum(axis=-1, keepdims=True)
    ds = (p * (dp - mean) if wrong.ds is None else wrong.ds(p, dp)) * (1.0 if wrong.uncapped else steps.slope)
    of_q, of_k = wrong.factors(sample.factor)
    if wrong.transposed and ds.shape[-1] == ds.shape[-2]:
        ds, p = _turned(ds), _turned(p)
    dq, dk, dv = of_q * (ds @ steps.k), of_k * (_turned(ds) @ sample.q), _turned(p) @ sample.do
    dk, dv = wrong.grouping(dk, sample.group), wrong.grouping(dv, sample.group)
    return (dq, dk, dv) if wrong.after is None else wrong.after(sample, dq, dk, dv)


def weights_of(wrong: WrongForward, sample: KernelSample) -> Array:
    """A wrong formula's weights: its output for unit vectors as values."""
    batch, _, kv_heads, _, length, _, _ = sample.shape
    units = np.broadcast_to(np.eye(length), (batch, kv_heads, length, length))
    return output(sample.changed(v=units), wrong)


def _turned(array: Array) -> Array:
    return np.swapaxes(array, -1, -2)


def backward_mistakes() -> Iterator[WrongGradient]:
    """The known ones, those of the softmax first."""
    plain = "missing-softmax-correction"
    yield WrongGradient(plain, "dS = P * dP, without the mean of dP", ds=lambda p, dp: p * dp)
    other = "wrong-softmax-correction"
    yield WrongGradient(other, "the mean of dP is not weighted", ds=lambda p, dp: p * (dp - dp.mean(-1, keepdims=True)))
    yield WrongGradient(
        other, "the mean of P dP is taken for its sum", ds=lambda p, dp: p * (dp - (p * dp).mean(-1, keepdims=True))
    )
    yield WrongGradient(other, "the sum of dP is subtracted", ds=lambda p, dp: p * (dp - dp.sum(-1, keepdims=True)))
    yield WrongGradient(
        other, "the correction is not multiplied by P", ds=lambda p, dp: p * dp - (p * dp).sum(-1, keepdims=True)
    )
    yield WrongGradient(other, "the correction is added", ds=lambda p, dp: p * (dp + (p * dp).sum(-1, keepdims=True)))
    yield WrongGradient(
        other, "the mean runs over the queries", ds=lambda p, dp: p * (dp - (p * dp).sum(-2, keepdims=True))
    )
    yield WrongGradient(
        other, "dS = dP - mean, not multiplied by P", ds=lambda p, dp: dp - (p * dp).sum(-1, keepdims=True)
    )
    yield WrongGradient(other, "dS = P * (1 - P) * dP, the diagonal alone", ds=lambda p, dp: p * (1 - p) * dp)
    yield WrongGradient(other, "dS = dP, the softmax is left out", ds=lambda p, dp: dp)
    yield WrongGradient("softcap-slope-missing", "dS lacks the derivative 1 - tanh^2 of the cap", uncapped=True)
    missing = "scale-missing-in-gradient"
    yield WrongGradient(missing, "dq and dk lack the scale", factors=lambda scale: (1.0, 1.0))
    yield WrongGradient(missing, "dq lacks the scale", factors=lambda scale: (1.0, scale))
    yield WrongGradient(missing, "dk lacks the scale", factors=lambda scale: (scale, 1.0))
    yield WrongGradient("gradient-scale", "the scale is applied twice", factors=lambda scale: (scale**2, scale**2))
    yield from _signs()
    yield from _turns()
    yield from _groups()
    yield from _softmaxes()
    yield WrongGradient("features-dropped", "dP reads as many features of values as queries have", after=_narrow)
    yield from _cuts()


def _narrow(sample: KernelSample, dq: Array, dk: Array, dv: Array) -> Three:
    """Return the gradients where dP is that of the first m features of dO and V, and the mean is right."""
    steps, scale, width = evaluate(sample), sample.factor, sample.q.shape[3]
    dp = sample.do[..., :width] @ _turned(steps.v[..., :width])
    ds = steps.p * (dp - steps.mean) * steps.slope
    return scale * (ds @ steps.k), _summed(scale * (_turned(ds) @ sample.q), sample.group), dv


def _signs() -> Iterator[WrongGradient]:
    for signs, what in (((-1, -1, -1), "all gradients"), ((-1, -1, 1), "dq and dk"), ((-1, 1, 1), "dq"),
                        ((1, -1, 1), "dk"), ((1, 1, -1), "dv")):  # fmt: skip
        yield WrongGradient(
            "gradient-sign",
            f"the sign of {what}",
            after=partial(_signed, signs),
        )


def _signed(signs: tuple[int, int, int], sample: KernelSample, dq: Array, dk: Array, dv: Array) -> Three:
    return signs[0] * dq, signs[1] * dk, signs[2] * dv


def _turns() -> Iterator[WrongGradient]:
    def swapped(sample: KernelSample, dq: Array, dk: Array, dv: Array) -> Three:
        return (dk, dq, dv) if dq.shape == dk.shape else (dq, dk, dv)

    def permuted(sample: KernelSample, dq: Array, dk: Array, dv: Array) -> Three:
        return (dq, dv, dk) if dv.shape == dk.shape else (dq, dk, dv)

    id = "gradient-transposed"
    yield WrongGradient(id, "dS and P are transposed", transposed=True)
    yield WrongGradient(id, "dq and dk are exchanged", after=swapped)
    yield WrongGradient(id, "dk and dv are exchanged", after=permuted)


def _groups() -> Iterator[WrongGradient]:
    id = "gqa-gradient-not-summed"
    yield WrongGradient(id, "dk and dv are those of the first head of the group", grouping=_picked(0))
    yield WrongGradient(id, "dk and dv are those of the last head of the group", grouping=_picked(-1))
    yield WrongGradient(
        id, "dk and dv are averaged over the group", grouping=lambda heads, group: _summed(heads, group) / group
    )
    yield WrongGradient(
        id, "the last head of the group is left out",
        grouping=lambda heads, group: _summed(heads, group) - (_picked(-1)(heads, group) if group > 1 else 0.0),
    )  # fmt: skip
    yield WrongGradient(
        id, "the first head of the group is left out",
        grouping=lambda heads, group: _summed(heads, group) - (_picked(0)(heads, group) if group > 1 else 0.0),
    )  # fmt: skip
    yield WrongGradient(
        id, "summed over heads h, h + kv_heads, ...",
        grouping=lambda heads, group: heads.reshape(heads.shape[0], group, -1, *heads.shape[2:]).sum(axis=1),
    )  # fmt: skip
    for which, what in ((0, "first"), (-1, "last")):
        yield WrongGradient(id, f"the {what} query head is left out of dk and dv", grouping=_without_head(which))
        yield WrongGradient(id, f"dk and dv of the {what} key head are 0", grouping=_without(which))
        yield WrongGradient(id, f"dk and dv of all but the {what} key head are 0", grouping=_only(which))


def _without_head(which: int) -> Grouping:
    def dropped(heads: Array, group: int) -> Array:
        kept = heads.copy()
        if group > 1:
            kept[:, which] = 0.0
        return _summed(kept, group)

    return dropped


def _without(which: int) -> Grouping:
    def dropped(heads: Array, group: int) -> Array:
        total = _summed(heads, group)
        if group > 1:
            total[:, which] = 0.0
        return total

    return dropped


def _only(which: int) -> Grouping:
    def kept(heads: Array, group: int) -> Array:
        total = _summed(heads, group)
        if group == 1:
            return total
        found = np.zeros_like(total)
        found[:, which] = total[:, which]
        return found

    return kept


def _softmaxes() -> Iterator[WrongGradient]:
    """Right formulas on wrong weights."""
    for wrong in forward_mistakes():
        id = "gradient-of-unmasked" if wrong.id == "mask-ignored" else wrong.id
        yield WrongGradient(id, f"in the backward pass {wrong.words}", weights=partial(weights_of, wrong))
    words = "exp(s - log sum) is taken with the log sum exp of the head that has the key head's number"
    yield WrongGradient("heads-swapped", words, weights=_of_key_head, true_mean=True)
    for type, (base, unit) in product(("bfloat16", "float16"), (("", 1.0), (" in base 2", float(np.log(2))))):
        words = f"exp(s - log sum) is taken with a log sum exp{base} that is kept in {type}"
        yield WrongGradient("low-precision", words, weights=partial(_of_stored, type, unit), true_mean=True)
    for by, what in ((-1, "does not see key i"), (1, "sees key i + 1")):
        words = f"exp(s - log sum) is taken where query i {what}"
        yield WrongGradient("causal-off-by-one", words, weights=partial(_moved, by), true_mean=True)
    for name, kept in (
        ("mask", {"mask": None}),
        ("causal", {"causal": False}),
        ("masks", {"mask": None, "causal": False}),
    ):
        words = f"exp(s - log sum) is taken without the {name}"
        yield WrongGradient("gradient-of-unmasked", words, weights=partial(_unmasked, kept), true_mean=True)
    for block in (1, 16, 32, 64, 128):
        until = "the query" if block == 1 else f"the query's block of {block}"
        words = f"in the backward pass keys after {until} are left out, though nothing is causal"
        yield WrongGradient("gradient-of-causal", words, weights=partial(_causal_blocks, block), true_mean=True)


def _of_key_head(sample: KernelSample) -> Array:
    """Weights by the log sum exp of head h // group in the place of head h."""
    log_sum = _log_sum(sample)
    return np.asarray(evaluate(sample).p * np.exp(log_sum - log_sum[:, np.arange(sample.shape[1]) // sample.group]))


def _of_stored(type: str, unit: float, sample: KernelSample) -> Array:
    """Weights by a log sum exp that is rounded to a shorter type, in units of 1 or, for base 2, of log(2)."""
    log_sum = _log_sum(sample)
    return np.asarray(evaluate(sample).p * np.exp(log_sum - unit * precision_named(type).exact(log_sum / unit)))


def _log_sum(sample: KernelSample) -> Array:
    steps = evaluate(sample)
    total = np.where(steps.allowed, np.exp(steps.s - steps.top), 0.0).sum(axis=-1, keepdims=True)
    return np.asarray(steps.top + np.log(total))


def _moved(by: int, sample: KernelSample) -> Array:
    """exp(s - log sum) with the causal mask shifted in the exponential alone."""
    if not sample.causal:
        return evaluate(sample).p
    *_, n, length = sample.allowed.shape
    return np.asarray(_unmasked({"causal": False}, sample) * np.tri(n, length, by, dtype=bool))


def _causal_blocks(block: int, sample: KernelSample) -> Array:
    """exp(s - log sum) of the keys up to the query, or to the end of its block, where nothing is causal."""
    weights = evaluate(sample).p
    if sample.causal:
        return weights
    *_, n, length = sample.allowed.shape
    return np.asarray(weights * (np.arange(n)[:, None] // block >= np.arange(length) // block))


def _unmasked(kept: dict[str, Any], sample: KernelSample) -> Array:
    """exp(s - log sum), the sum over allowed positions, the exponential over more of them."""
    steps, allowed = evaluate(sample), sample.changed(**kept).allowed
    total = np.where(steps.allowed, np.exp(steps.s - steps.top), 0.0).sum(axis=-1, keepdims=True)
    return np.asarray(np.where(allowed, np.exp(steps.s - steps.top) / total, 0.0))


def _cuts() -> Iterator[WrongGradient]:
    """The last block of queries is not added to dk and dv, or that of keys not to dq."""
    for block in (1, 2, 4, 8, 16, 32, 64):
        yield WrongGradient(
            "last-block-dropped",
            f"the last, incomplete block of {block} queries is left out of dk and dv, and of dq",
            after=partial(_without_last, block),
        )


def _without_last(block: int, sample: KernelSample, dq: Array, dk: Array, dv: Array) -> Three:
    n = sample.q.shape[2]
    kept = n // block * block if n % block else n
    if block == 1:
        kept = max(n - 1, 1)
    steps, scale = evaluate(sample), sample.factor
    ds = (steps.ds * steps.slope)[..., :kept, :]
    dk = _summed(scale * (_turned(ds) @ sample.q[..., :kept, :]), sample.group)
    dv = _summed(_turned(steps.p[..., :kept, :]) @ sample.do[..., :kept, :], sample.group)
    shortened = dq.copy()
    shortened[..., kept:, :] = 0.0
    return shortened, dk, dv
