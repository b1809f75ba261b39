"""Wrong formulas of softmax attention, differentiable, to compare with what a kernel returned.

Written for `autograd`, so that the gradients a framework would give of the wrong formula come with it. Nothing here
decides whether a kernel is right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
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


def _right_arguments(sample: KernelSample) -> KernelSample:
    return sample


@dataclass(frozen=True)
class WrongForward:
    """One wrong formula; every field that is not given is right.

    Attributes
    ----------
    scale, allowed : Scale, Positions
        Of the logits.
    given : Callable[[KernelSample], KernelSample]
        What the kernel takes its arguments for.
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
    given: Callable[[KernelSample], KernelSample] = _right_arguments
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


def both(first: WrongForward, second: WrongForward) -> WrongForward:
    """Two mistakes at once; of a field that both change, the second has its way.

    Examples
    --------
    >>> from attnprune_verify.audit.kernel.names.forward_mistakes import forward_mistakes
    >>> known = {wrong.words: wrong for wrong in forward_mistakes()}
    >>> wrong = both(known["True means forbidden"], known["the scale is applied twice"])
    >>> wrong.words, wrong.scale is known["the scale is applied twice"].scale
    ('True means forbidden; the scale is applied twice', True)
    """
    changed = {field.name: getattr(second, field.name) for field in fields(second)}
    changed = {name: value for name, value in changed.items() if value != getattr(WrongForward, name, None)}
    changed["given"] = lambda sample: second.given(first.given(sample))
    return replace(first, **changed | {"words": f"{first.words}; {second.words}"})


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
    sample = wrong.given(sample)
    heads, kv_heads = sample.q.shape[1], sample.k.shape[1]
    keep = max(1, wrong.keep(sample.k.shape[2]))
    chosen = [wrong.heads(head, heads, kv_heads) for head in range(heads)]
    k, v = k[:, chosen, :keep], v[:, chosen, :keep]
    reads = slice(wrong.reads)
    logits = wrong.scale(sample) * anp.einsum("bhic,bhjc->bhij", q[..., reads], k[..., reads])
    fall: Any = 0.0
    if sample.alibi is not None and "alibi" not in wrong.bare:
        distance = wrong.distance(sample.distance[:, :keep].astype(float))
        fall = wrong.slopes(sample.alibi, heads, kv_heads)[:, None, None] * distance
    if wrong.slope_first:
        logits, fall = logits - fall, 0.0
    if sample.softcap is not None and "softcap" not in wrong.bare:
        logits = wrong.capped(logits, sample.softcap)
    logits = logits - fall + (0.0 if sample.bias is None else sample.bias[..., :keep])
    allowed = wrong.allowed(sample)[..., :keep]
    if wrong.twice and keep > wrong.twice:
        again = np.arange(keep) >= keep - wrong.twice
        logits = logits + np.log(1.0 + (again & (np.arange(keep) < keep - keep % wrong.twice)))
    if wrong.averaged:
        return _averaged(logits, allowed, v, wrong)
    if wrong.block:
        return _forgetful(logits, allowed, v, wrong)
    if wrong.padding:
        logits, allowed, v = _filled_up(sample.causal and wrong.hidden, wrong.padding, logits, allowed, v)
    seen, kept = np.ones_like(allowed), np.asarray(sample.kept)
    if kept.ndim:
        kept = np.pad(kept[..., :keep], [(0, 0)] * 3 + [(0, v.shape[2] - keep)], constant_values=1.0)
    fill = wrong.fill and wrong.fill(sample)
    if wrong.masking == "times":
        logits = logits * allowed
    elif wrong.masking == "plus":
        logits = logits + allowed
    elif wrong.masking == "after":
        kept = kept * allowed
    elif fill is not None:
        logits = anp.where(allowed, logits, fill)
    else:
        seen = allowed
    if sample.sinks is not None:
        sink = np.broadcast_to(sample.sinks[:, None, None], (*logits.shape[:3], 1))
        logits = anp.concatenate([logits, sink], axis=-1)
        seen = np.concatenate([seen, np.ones_like(seen[..., :1])], axis=-1)
    return (_softmax(logits, seen, wrong)[..., : v.shape[2]] * kept) @ v


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
