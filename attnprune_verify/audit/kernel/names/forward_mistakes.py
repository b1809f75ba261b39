"""The mistakes of forward passes that people make, as wrong formulas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import autograd.numpy as anp
import numpy as np

from attnprune_verify.audit.kernel.names.wrong_forward import Scale, WrongForward
from attnprune_verify.audit.kernel.problem.sample import KernelSample, Mask


def forward_mistakes() -> Iterator[WrongForward]:
    """The known ones, those with the fewest changes first."""
    yield WrongForward("missing-scale", "the logits are not scaled", scale=lambda sample: 1.0)
    yield from _scales()
    yield from _masks()
    yield WrongForward("wrong-softmax-axis", "the softmax runs over the queries", axis=-2)
    yield WrongForward("wrong-softmax-axis", "the softmax runs over the heads", axis=1)
    yield WrongForward("wrong-softmax-axis", "the softmax runs over queries and keys", axis=(-2, -1))
    yield WrongForward("heads-swapped", "query head h reads key head h % kv_heads", heads=lambda h, _, g: h % g)
    yield WrongForward(
        "heads-swapped", "key heads are read in reverse order", heads=lambda h, n, g: g - 1 - h // (n // g)
    )
    yield WrongForward("heads-swapped", "every query head reads the first key head", heads=lambda h, _, g: 0)
    yield WrongForward(
        "heads-swapped", "query head h reads key head h, or the last", heads=lambda h, _, g: min(h, g - 1)
    )
    yield WrongForward("not-normalised", "weights are not divided by the row sum", normalised=False)
    yield WrongForward("not-normalised", "neither shifted nor divided by the row sum", normalised=False, shifted=False)
    yield WrongForward("first-key-only", "only the first key is read", keep=lambda length: 1)
    yield from _modifiers()
    yield from _blocks()


def _modifiers() -> Iterator[WrongForward]:
    for name in ("softcap", "alibi"):
        yield WrongForward("modifier-ignored", f"{name} is ignored", bare=(name,))
    yield WrongForward("score-order", "the cap is applied to forbidden logits, too: they are -c", fill=_lowest_capped)
    yield WrongForward("score-order", "slopes are subtracted before the cap", slope_first=True)
    for words, capped in (
        ("s tanh(s / c) stands for c tanh(s / c)", lambda s, c: s * anp.tanh(s / c)),
        ("tanh(s / c) is not multiplied by c", lambda s, c: anp.tanh(s / c)),
        ("c tanh(s): the logit is not divided by c", lambda s, c: c * anp.tanh(s)),
        ("logits are clipped at +-c", lambda s, c: anp.clip(s, -c, c)),
    ):
        yield WrongForward("softcap-wrong", words, capped=capped)
    for words, slopes in (
        ("the slope of the key head", lambda a, h, g: a[np.arange(h) // (h // g)]),
        ("the slope of head h % kv_heads", lambda a, h, g: a[np.arange(h) % g]),
        ("the slope of the first head for all", lambda a, h, g: a[[0] * h]),
        ("the slopes in reverse order", lambda a, h, g: a[::-1]),
    ):
        yield WrongForward("alibi-wrong", f"query heads get {words}", slopes=slopes)
    for words, distance in (
        ("slopes are added", lambda x: -np.abs(x)),
        ("slopes multiply i - j, not |i - j|", lambda x: x),
        ("slopes multiply j - i, not |i - j|", lambda x: -x),
        ("slopes multiply |i - j| + 1 off the diagonal", lambda x: np.abs(x) + (x != 0)),
        ("slopes multiply (i - j)^2", lambda x: x * x),
    ):
        yield WrongForward("alibi-wrong", words, distance=distance)
    for reads in (4, 8, 16, 32, 64, 128):
        yield WrongForward("features-dropped", f"features beyond {reads} do not enter the logits", reads=reads)


def _lowest_capped(sample: KernelSample) -> float | None:
    return None if sample.softcap is None else -sample.softcap


def _scales() -> Iterator[WrongForward]:
    def of(words: str, scale: Scale) -> WrongForward:
        return WrongForward("logit-scale", words, scale=scale)

    def size(sample: KernelSample, which: int) -> float:
        return float(sample.shape[which])

    yield of("a given scale is ignored", lambda s: size(s, 5) ** -0.5)
    yield of("a given scale multiplies 1/sqrt(m)", lambda s: s.factor * (1 if s.scale is None else size(s, 5) ** -0.5))
    yield of("the scale is 1/m by default", lambda s: 1 / size(s, 5) if s.scale is None else s.scale)
    yield of("the scale is 1/sqrt(mv) by default", lambda s: size(s, 6) ** -0.5 if s.scale is None else s.scale)
    yield of("the scale is 1/sqrt(n) by default", lambda s: size(s, 3) ** -0.5 if s.scale is None else s.scale)
    yield of("the scale is 1/sqrt(l) by default", lambda s: size(s, 4) ** -0.5 if s.scale is None else s.scale)
    yield of(
        "the scale is 1/sqrt(heads m)", lambda s: (size(s, 1) * size(s, 5)) ** -0.5 if s.scale is None else s.scale
    )
    yield of("the scale is applied twice", lambda s: s.factor**2)
    yield of("the logits are divided by the scale", lambda s: 1 / s.factor)
    yield of("2^x is taken for exp(x)", lambda s: s.factor * float(np.log(2)))
    yield of("log2(e) is multiplied, but exp is taken", lambda s: s.factor / float(np.log(2)))
    yield of("all logits are 0", lambda s: 0.0)


def _masks() -> Iterator[WrongForward]:
    def only(**changes: Any) -> Callable[[KernelSample], KernelSample]:
        return lambda sample: sample.changed(**changes)

    yield WrongForward("mask-ignored", "causal is ignored", given=only(causal=False))
    yield WrongForward("mask-ignored", "the mask is ignored", given=only(mask=None))
    yield WrongForward("modifier-ignored", "the window is ignored", given=only(window=None))
    yield WrongForward("mask-ignored", "no position is forbidden", given=only(mask=None, causal=False, window=None))
    yield WrongForward("mask-always-causal", "it is causal whatever is asked", allowed=_always_causal)
    yield WrongForward("keys-dropped", "no more keys are read than there are queries", allowed=_no_more_than_queries)
    yield WrongForward("mask-inverted", "True means forbidden", given=_inverted)
    yield WrongForward("mask-inverted", "causal is read the wrong way round", allowed=_anticausal)
    yield WrongForward("causal-off-by-one", "query i sees key i + 1", allowed=lambda sample: _shifted(sample, 1))
    yield WrongForward("causal-off-by-one", "query i does not see key i", allowed=lambda sample: _shifted(sample, -1))
    yield WrongForward("window-off-by-one", "the window is one larger", given=lambda s: _resized(s, 1))
    yield WrongForward("window-off-by-one", "the window is one smaller", given=lambda s: _resized(s, -1))
    for words, side in (("after", 1), ("before", -1)):
        yield WrongForward(
            "window-wrong", f"keys {words} the query are outside the window", allowed=partial(_half, side)
        )
        what = f"keys {words} the query have no limit"
        yield WrongForward("window-wrong", what, allowed=partial(_of_a_side, -side))
    yield WrongForward("window-wrong", "the window reaches to both sides although causal", given=_both_sides)
    yield WrongForward(
        "mask-after-softmax", "weights are masked after the softmax, not normalised again", masking="after"
    )
    yield WrongForward("mask-multiplies-logits", "forbidden logits are 0, not -inf", masking="times")
    for fill in (-5.0, -10.0, -20.0, -30.0, -50.0, -80.0, -100.0, -1000.0):
        yield WrongForward("mask-finite", f"forbidden logits are {fill:g}", fill=lambda _, fill=fill: fill)  # type: ignore[misc]
    yield WrongForward("mask-added", "the mask is added to the logits as 0 and 1", masking="plus")


def _inverted(sample: KernelSample) -> KernelSample:
    return sample if sample.mask is None else sample.changed(mask=~sample.mask)


def _always_causal(sample: KernelSample) -> Mask:
    return np.asarray(sample.allowed & (sample.distance >= 0))


def _no_more_than_queries(sample: KernelSample) -> Mask:
    *_, n, length = sample.allowed.shape
    return np.asarray(sample.allowed & (np.arange(length) < n))


def _anticausal(sample: KernelSample) -> Mask:
    if not sample.causal:
        return sample.allowed
    return np.asarray(sample.changed(causal=False).allowed & (sample.distance + sample.ahead <= 0))


def _shifted(sample: KernelSample, by: int) -> Mask:
    if not sample.causal:
        return sample.allowed
    return np.asarray(sample.changed(causal=False).allowed & (sample.distance + sample.ahead >= -by))


def _resized(sample: KernelSample, by: int) -> KernelSample:
    return sample if sample.window is None else sample.changed(window=sample.window + by)


def _half(side: int, sample: KernelSample) -> Mask:
    if sample.window is None:
        return sample.allowed
    return np.asarray(sample.allowed & (side * sample.distance >= 0))


def _of_a_side(side: int, sample: KernelSample) -> Mask:
    if sample.window is None:
        return sample.allowed
    return np.asarray(sample.changed(window=None).allowed & (side * sample.distance < sample.window))


def _both_sides(sample: KernelSample) -> KernelSample:
    return sample if sample.window is None else sample.changed(causal=False)


def _blocks() -> Iterator[WrongForward]:
    for block in (1, 2, 4, 8, 16, 32, 64, 128):
        for forgets, what in (
            ("acc", "accumulator is"),
            ("sum", "row sum is"),
            ("both", "accumulator and row sum are"),
        ):
            words = f"with a new maximum the {what} not rescaled (blocks of {block})"
            yield WrongForward("missing-rescale", words, block=block, forgets=forgets)
    for block in (4, 8, 16, 32, 64, 128):
        words = f"the last block of {block} keys begins earlier where it is incomplete: keys count twice"
        yield WrongForward("keys-counted-twice", words, twice=block)
        yield WrongForward("splits-averaged", f"blocks of {block} keys are averaged, not weighted", averaged=block)
        words = f"keys of zeros that fill up the last block of {block} count"
        yield WrongForward("padding-counted", words, padding=block)
        yield WrongForward("padding-counted", f"{words}, also if causal", padding=block, hidden=False)
    for block in (2, 3, 4, 5, 8, 10, 16, 32, 64, 128):
        words = f"the last, incomplete block of {block} keys is dropped"
        yield WrongForward("last-block-dropped", words, keep=partial(_whole_blocks, block))
        words = f"the last block of {block} keys is dropped"
        yield WrongForward("last-block-dropped", words, keep=partial(_all_but_last, block))
    for fewer in (1, 2):
        words = f"the last {fewer} keys are dropped"
        yield WrongForward("last-block-dropped", words, keep=partial(_fewer, fewer))


def _whole_blocks(block: int, length: int) -> int:
    return length // block * block or length


def _all_but_last(block: int, length: int) -> int:
    return (length - 1) // block * block or length


def _fewer(by: int, length: int) -> int:
    return max(1, length - by)
