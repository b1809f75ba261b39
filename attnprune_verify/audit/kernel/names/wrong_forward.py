"""Wrong formulas of softmax attention that people write, differentiable, to compare with what a kernel returned.

Written for `autograd`, so that the gradients a framework would give of the wrong formula come with it. Nothing here
decides whether a kernel is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd import make_vjp
from autograd.tracer import getval

from attnprune_verify.audit.kernel.problem.sample import Array, KernelSample, Mask

Scale = Callable[[KernelSample], float]
Positions = Callable[[KernelSample], Mask]


def _right_scale(sample: KernelSample) -> float:
    return sample.factor


def _right_positions(sample: KernelSample) -> Mask:
    return sample.allowed


@dataclass(frozen=True)
class WrongForward:
    """One wrong formula; every field that is not given is right.

    Attributes
    ----------
    scale, allowed : Scale, Positions
        Of the logits.
    axis : int or tuple[int, ...]
        Of the softmax (of (batch, heads, n, l)).
    masking : "before", "after" (weights are masked, not normalised again), "times" or "plus" (of the logits)
    heads : Callable[[int, int, int], int]
        Which key head a query head reads, from (head, heads, kv_heads).
    keep : Callable[[int], int]
        How many keys are read, from l.
    block, forgets : int, str
        Online softmax in such blocks that does not rescale "acc", "sum" or "both".
    epsilon, shifted : float, bool
        Added to the row sum, of exponentials that are shifted or not.
    normalised : bool
        Whether weights are divided by the row sum.
    bare : tuple[str, ...]
        Modifiers that are left out.
    padding, hidden : int, bool
        Keys of zeros fill the last block of so many keys, and count, unless causal hides them.
    fill : Callable[[KernelSample], float or None] or None
        The logit of forbidden positions, from the sample; None where it is not forbidden that way.
    reads : int or None
        How many features of q and k enter the logits.
    capped : Callable
        What stands for c tanh(s / c), from (s, c).
    twice : int
        The last, incomplete block of so many keys is moved forward to be complete.
    averaged : int
        Outputs of blocks of so many keys are averaged.
    slope_first : bool
        Whether slopes are subtracted before the cap.
    slopes : Callable[[Array, int, int], Array]
        The slope of each query head, from (alibi, heads, kv_heads).
    distance : Callable[[Array], Array]
        What a slope multiplies, from i - j.
    """

    id: str
    words: str
    scale: Scale = _right_scale
    allowed: Positions = _right_positions
    axis: int | tuple[int, ...] = -1
    masking: str = "before"
    heads: Callable[[int, int, int], int] = lambda head, heads, kv_heads: head // (heads // kv_heads)
    keep: Callable[[int], int] = lambda length: length
    block: int = 0
    forgets: str = ""
    epsilon: float = 0.0
    shifted: bool = True
    normalised: bool = True
    bare: tuple[str, ...] = ()
    padding: int = 0
    hidden: bool = True
    fill: Callable[[KernelSample], float | None] | None = None
    reads: int | None = None
    capped: Callable[[Any, float], Any] = lambda s, c: c * anp.tanh(s / c)
    twice: int = 0
    averaged: int = 0
    slope_first: bool = False
    slopes: Callable[[Array, int, int], Array] = lambda alibi, heads, kv_heads: alibi
    distance: Callable[[Array], Array] = np.abs


def output(sample: KernelSample, wrong: WrongForward) -> Array:
    """Return the result of the wrong formula."""
    with np.errstate(all="ignore"):
        return np.asarray(_attend(sample, wrong, sample.q, sample.k, sample.v))


def differentiated(sample: KernelSample, wrong: WrongForward) -> tuple[Array, Array, Array]:
    """dq, dk and dv of the wrong formula, by reverse mode."""
    with np.errstate(all="ignore"):
        pull, _ = make_vjp(lambda qkv: _attend(sample, wrong, *qkv))((sample.q, sample.k, sample.v))
        dq, dk, dv = pull(sample.do)
    return dq, dk, dv


def _attend(sample: KernelSample, wrong: WrongForward, q: Any, k: Any, v: Any) -> Any:
    heads, kv_heads = sample.q.shape[1], sample.k.shape[1]
    keep = max(1, wrong.keep(sample.k.shape[2]))
    chosen = [wrong.heads(head, heads, kv_heads) for head in range(heads)]
    k, v = k[:, chosen, :keep], v[:, chosen, :keep]
    reads = slice(wrong.reads)
    logits = wrong.scale(sample) * anp.einsum("bhic,bhjc->bhij", q[..., reads], k[..., reads])
    fall: Any = 0.0
    if sample.alibi is not None and "alibi" not in wrong.bare:
        distance = wrong.distance(np.arange(float(logits.shape[2]))[:, None] - np.arange(float(keep)))
        fall = wrong.slopes(sample.alibi, heads, kv_heads)[:, None, None] * distance
    if wrong.slope_first:
        logits, fall = logits - fall, 0.0
    if sample.softcap is not None and "softcap" not in wrong.bare:
        logits = wrong.capped(logits, sample.softcap)
    logits = logits - fall
    allowed = wrong.allowed(sample)[..., :keep]
    if wrong.masking == "times":
        return _softmax(logits * allowed, np.ones_like(allowed), wrong) @ v
    if wrong.masking == "plus":
        return _softmax(logits + allowed, np.ones_like(allowed), wrong) @ v
    if wrong.masking == "after":
        return (_softmax(logits, np.ones_like(allowed), wrong) * allowed) @ v
    if wrong.twice and keep > wrong.twice:
        again = np.arange(keep) >= keep - wrong.twice
        logits = logits + np.log(1.0 + (again & (np.arange(keep) < keep - keep % wrong.twice)))
    if wrong.averaged:
        return _averaged(logits, allowed, v, wrong)
    if wrong.block:
        return _forgetful(logits, allowed, v, wrong)
    if wrong.padding:
        logits, allowed, v = _filled_up(sample.causal and wrong.hidden, wrong.padding, logits, allowed, v)
    fill = wrong.fill and wrong.fill(sample)
    if fill is not None:
        return _softmax(anp.where(allowed, logits, fill), np.ones_like(allowed), wrong) @ v
    return _softmax(logits, allowed, wrong) @ v


def _averaged(logits: Any, allowed: Any, v: Any, wrong: WrongForward) -> Any:
    """Blocks of keys, each with a softmax of its own."""
    starts = range(0, logits.shape[-1], wrong.averaged)
    parts = [slice(start, start + wrong.averaged) for start in starts]
    return sum(_softmax(logits[..., one], allowed[..., one], wrong) @ v[..., one, :] for one in parts) / len(parts)


def _filled_up(hidden: bool, block: int, logits: Any, allowed: Any, v: Any) -> tuple[Any, Any, Any]:
    """Pad keys and values with zeros to a multiple of the block."""
    *masks, n, length = allowed.shape
    more = -length % block
    logits = anp.concatenate([logits, np.zeros((*logits.shape[:3], more))], axis=-1)
    seen = np.tri(n, length + more, dtype=bool)[:, length:] if hidden else np.ones((n, more), dtype=bool)
    v = anp.concatenate([v, np.zeros((*v.shape[:2], more, v.shape[3]))], axis=2)
    return logits, np.concatenate([allowed, np.broadcast_to(seen, (*masks, n, more))], axis=-1), v


def _softmax(logits: Any, allowed: Any, wrong: WrongForward) -> Any:
    top = np.where(allowed, getval(logits), -np.inf).max(axis=wrong.axis, keepdims=True) if wrong.shifted else 0.0
    top = np.where(np.isfinite(top), top, 0.0)
    weights = anp.exp(anp.where(allowed, logits - top, 0.0)) * allowed
    if not wrong.normalised:
        return weights
    return weights / (anp.sum(weights, axis=wrong.axis, keepdims=True) + wrong.epsilon)


def _forgetful(logits: Any, allowed: Any, v: Any, wrong: WrongForward) -> Any:
    """Online softmax that does not rescale what it has added up so far when the maximum changes."""
    top, total, acc = -np.inf, 0.0, 0.0
    for start in range(0, logits.shape[-1], wrong.block):
        part = slice(start, start + wrong.block)
        masked = np.where(allowed[..., part], getval(logits[..., part]), -np.inf)
        new = np.maximum(top, masked.max(axis=-1, keepdims=True))
        shift = np.where(np.isfinite(new), new, 0.0)
        weights = anp.exp(anp.where(allowed[..., part], logits[..., part] - shift, 0.0)) * allowed[..., part]
        factor = np.exp(np.where(np.isfinite(top), top - shift, -np.inf)) if start else 0.0
        total = total * (1.0 if wrong.forgets in ("sum", "both") else factor) + anp.sum(weights, -1, keepdims=True)
        acc = acc * (1.0 if wrong.forgets in ("acc", "both") else factor) + weights @ v[..., part, :]
        top = new
    return acc / total


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
    def only(**changes: Any) -> Positions:
        return lambda sample: replace(sample, memo={}, **changes).allowed

    yield WrongForward("mask-ignored", "causal is ignored", allowed=only(causal=False))
    yield WrongForward("mask-ignored", "the mask is ignored", allowed=only(mask=None))
    yield WrongForward("modifier-ignored", "the window is ignored", allowed=only(window=None))
    yield WrongForward("mask-ignored", "no position is forbidden", allowed=only(mask=None, causal=False, window=None))
    yield WrongForward("mask-always-causal", "it is causal whatever is asked", allowed=_always_causal)
    yield WrongForward("keys-dropped", "no more keys are read than there are queries", allowed=_no_more_than_queries)
    yield WrongForward("mask-inverted", "True means forbidden", allowed=_inverted)
    yield WrongForward("mask-inverted", "causal is read the wrong way round", allowed=_anticausal)
    yield WrongForward("causal-off-by-one", "query i sees key i + 1", allowed=lambda sample: _shifted(sample, 1))
    yield WrongForward("causal-off-by-one", "query i does not see key i", allowed=lambda sample: _shifted(sample, -1))
    yield WrongForward("window-off-by-one", "the window is one larger", allowed=lambda s: _resized(s, 1))
    yield WrongForward("window-off-by-one", "the window is one smaller", allowed=lambda s: _resized(s, -1))
    for words, side in (("after", 1), ("before", -1)):
        yield WrongForward(
            "window-wrong", f"keys {words} the query are outside the window", allowed=partial(_half, side)
        )
        what = f"keys {words} the query have no limit"
        yield WrongForward("window-wrong", what, allowed=partial(_of_a_side, -side))
    yield WrongForward("window-wrong", "the window reaches to both sides although causal", allowed=_both_sides)
    yield WrongForward(
        "mask-after-softmax", "weights are masked after the softmax, not normalised again", masking="after"
    )
    yield WrongForward("mask-multiplies-logits", "forbidden logits are 0, not -inf", masking="times")
    for fill in (-5.0, -10.0, -20.0, -30.0, -50.0, -80.0, -100.0, -1000.0):
        yield WrongForward("mask-finite", f"forbidden logits are {fill:g}", fill=lambda _, fill=fill: fill)  # type: ignore[misc]
    yield WrongForward("mask-added", "the mask is added to the logits as 0 and 1", masking="plus")


def _inverted(sample: KernelSample) -> Mask:
    return sample.allowed if sample.mask is None else sample.changed(mask=~sample.mask).allowed


def _always_causal(sample: KernelSample) -> Mask:
    return np.asarray(sample.allowed & np.tri(sample.allowed.shape[-2], sample.allowed.shape[-1], dtype=bool))


def _no_more_than_queries(sample: KernelSample) -> Mask:
    *_, n, length = sample.allowed.shape
    return np.asarray(sample.allowed & (np.arange(length) < n))


def _anticausal(sample: KernelSample) -> Mask:
    if not sample.causal:
        return sample.allowed
    *_, n, length = sample.allowed.shape
    return np.asarray(sample.changed(causal=False).allowed & ~np.tri(n, length, -1, dtype=bool))


def _shifted(sample: KernelSample, by: int) -> Mask:
    if not sample.causal:
        return sample.allowed
    *_, n, length = sample.allowed.shape
    return np.asarray(sample.changed(causal=False).allowed & np.tri(n, length, by, dtype=bool))


def _resized(sample: KernelSample, by: int) -> Mask:
    return sample.allowed if sample.window is None else sample.changed(window=sample.window + by).allowed


def _half(side: int, sample: KernelSample) -> Mask:
    if sample.window is None:
        return sample.allowed
    *_, n, length = sample.allowed.shape
    return np.asarray(sample.allowed & (side * (np.arange(n)[:, None] - np.arange(length)) >= 0))


def _of_a_side(side: int, sample: KernelSample) -> Mask:
    if sample.window is None:
        return sample.allowed
    *_, n, length = sample.allowed.shape
    within = side * (np.arange(n)[:, None] - np.arange(length)) < sample.window
    return np.asarray(sample.changed(window=None).allowed & within)


def _both_sides(sample: KernelSample) -> Mask:
    return sample.allowed if sample.window is None else sample.changed(causal=False).allowed


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
