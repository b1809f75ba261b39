"""The right formulas of a layer, head by head, cut into exchangeable steps.

What a fused weight has too (softmax, p, pruning) carries the names of `attnprune_verify.audit.truth.formulas`, so that
one wrong formula serves both. Only for naming mistakes: the verdicts come from ball arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from attnprune_verify.audit.layer.sample import LayerSample
from attnprune_verify.audit.truth.formulas import RIGHT, Array, Steps, fused_part
from attnprune_verify.audit.truth.sample import Sample

__all__ = ["LAYER_STEPS", "SHARED", "Step", "attention_part", "layer_part", "turned"]

SHARED = (
    "softmax", "dense_softmax", "residual", "p", "through", "prune", "misfit", "back", "enter", "leave", "target",
)  # fmt: skip


Step: TypeAlias = Callable[..., Any]


def turned(
    rows: Array,
    sample: LayerSample,
    sign: float = 1.0,
    layout: str | None = None,
    theta: Step | None = None,
    first: int = 0,
    block: int = 0,
) -> Array:
    """Row i turned by sign R_i, R_{i + first} where positions do not start at 0, R_{i mod block}; or not at all."""
    rope = sample.rope
    if rope is None:
        return rows
    m = rows.shape[-1]
    pairs = np.arange(m // 2)
    half = (rope.layout if layout is None else layout) == "half"
    left, right = (pairs, pairs + m // 2) if half else (2 * pairs, 2 * pairs + 1)
    frequencies = rope.frequencies(m) if theta is None else theta(rope, m)
    positions = first + np.arange(len(rows))
    angles = sign * np.outer(positions % block if block else positions, frequencies)
    found = np.array(rows)
    found[:, left] = rows[:, left] * np.cos(angles) - rows[:, right] * np.sin(angles)
    found[:, right] = rows[:, left] * np.sin(angles) + rows[:, right] * np.cos(angles)
    return found


def _scores(logits: Array, sample: LayerSample, h: int, cap: Step, fall: Step) -> Array:
    if sample.softcap is not None:
        logits = cap(logits, sample.softcap)
    if sample.alibi is not None:
        logits = fall(logits, float(sample.alibi[h]), np.subtract.outer(np.arange(sample.n), np.arange(sample.n)))
    return logits


LAYER_STEPS: dict[str, Step] = {
    "key_of": lambda h, heads, kv_heads: h // (heads // kv_heads),
    "columns": lambda h, count, m: np.arange(h * m, (h + 1) * m),
    "bias_Q": lambda b: b,
    "bias_K": lambda b: b,
    "scale": lambda sample: sample.factor,
    "slope_scale": lambda sample: sample.factor,
    "turn_Q": turned,
    "turn_K": turned,
    "unturn": lambda rows, sample: turned(rows, sample, -1.0),
    "cap": lambda logits, cap: cap * np.tanh(logits / cap),
    "bend": lambda p, logits, cap: p * (1 - np.tanh(logits / cap) ** 2),
    "fall": lambda logits, slope, distance: logits - slope * np.abs(distance),
    "scores": _scores,
    "allowed": lambda sample: sample.allowed,
    "partner": lambda pruned, dense: pruned,
    "group": lambda parts: sum(parts[1:], start=parts[0]),
    "over_heads": lambda parts: sum(parts),
    "pull_head": lambda Y, W, M: W * Y,
    "turn_p": lambda p: p.T,
    "error": lambda cs, Fs: sum((c * c).sum() for c in cs) / sum((F * F).sum() for F in Fs),
    "errors": lambda parts: np.array(parts),
}


@dataclass(frozen=True)
class _Head:
    query: Array
    key: Array
    dense_query: Array
    dense_key: Array
    logits: Array
    F: Array
    dense: Array
    c: Array


def layer_part(function: str, sample: LayerSample, steps: Steps) -> tuple[Array, ...]:
    """Return what a function returns without its regulariser, computed with these steps."""
    steps = {**LAYER_STEPS, **RIGHT, **steps}
    masks = [M.astype(float) for M in (sample.M_Q, sample.M_K)]
    if "enter" in steps:
        masks = [steps["enter"](M) for M in masks]
    with np.errstate(all="ignore"):
        parts = _PARTS[function](sample, masks, steps)
    if "leave" in steps and function == "layer_gradient":
        return tuple(steps["leave"](part, M) for part, M in zip(parts, (sample.M_Q, sample.M_K), strict=True))
    return parts


def attention_part(function: str, sample: Sample, steps: Steps) -> tuple[Array, ...]:
    """Return what a function returns without its regulariser, computed with these steps; of a batch the average."""
    if isinstance(sample, LayerSample):
        return layer_part(function, sample, steps)
    return fused_part(function, sample, steps)


def _samples(sample: LayerSample) -> Array:
    return (sample.X if sample.X.ndim == 3 else sample.X[None]).astype(float)


def _heads(sample: LayerSample, tokens: Array, masks: list[Array], steps: Steps) -> list[_Head]:
    weights = [W.astype(float) for W in (sample.W_Q, sample.W_K)]
    pruned = [steps["prune"](M) * W for M, W in zip(masks, weights, strict=True)]
    return [_head(sample, tokens, h, pruned, weights, steps) for h in range(sample.heads)]


def _places(sample: LayerSample, h: int, steps: Steps) -> tuple[Array, Array]:
    g = steps["key_of"](h, sample.heads, sample.kv_heads)
    return steps["columns"](h, sample.heads, sample.m), steps["columns"](g, sample.kv_heads, sample.m)


def _sides(sample: LayerSample, tokens: Array, weights: list[Array], h: int, steps: Steps) -> tuple[Array, Array]:
    found = []
    for side, weight, own in zip("QK", weights, _places(sample, h, steps), strict=True):
        bias, places = (sample.b_Q, own) if side == "Q" else (sample.b_K, _bias_places(sample, h, own, steps))
        rows = tokens @ weight[:, own]
        rows = rows if bias is None else rows + steps[f"bias_{side}"](bias.astype(float)[places])
        found.append(steps[f"turn_{side}"](rows, sample))
    return found[0], found[1]


def _bias_places(sample: LayerSample, h: int, own: Array, steps: Steps) -> Array:
    """Return where the bias of a head's keys stands; a wrong one may be that of another key head."""
    if "bias_of" not in steps:
        return own
    g = steps["bias_of"](h, sample.heads, sample.kv_heads)
    return steps["columns"](g, sample.kv_heads, sample.m)


def _head(sample: LayerSample, tokens: Array, h: int, pruned: list[Array], weights: list[Array], steps: Steps) -> _Head:
    allowed, given = steps["allowed"](sample), sample.causal or sample.mask is not None or sample.window is not None
    sides = _sides(sample, tokens, pruned, h, steps), _sides(sample, tokens, weights, h, steps)
    logits = [steps["scale"](sample) * query @ key.T for query, key in sides]
    one, other = (steps["scores"](part, sample, h, steps["cap"], steps["fall"]) for part in logits)
    F = steps["softmax"](one, allowed, given)
    if "target" in steps:
        dense = steps["target"](F, steps["dense_softmax"](one, allowed, given))
    else:
        dense = steps["dense_softmax"](other, allowed, given)
    return _Head(*sides[0], *sides[1], logits[0], F, dense, steps["residual"](F, dense, allowed))


def _attention(sample: LayerSample, masks: list[Array], steps: Steps) -> tuple[Array, ...]:
    dense = {name: step for name, step in steps.items() if name != "target"} | {"dense_softmax": steps["softmax"]}
    each = [np.stack([head.dense for head in _heads(sample, tokens, masks, dense)]) for tokens in _samples(sample)]
    return (np.stack(each) if sample.X.ndim == 3 else each[0],)


def _loss(sample: LayerSample, masks: list[Array], steps: Steps) -> tuple[Array, ...]:
    each = [
        steps["over_heads"]([steps["misfit"](head.c) for head in _heads(sample, tokens, masks, steps)])
        for tokens in _samples(sample)
    ]
    return (np.asarray(np.mean(each)),)


def _gradient(sample: LayerSample, masks: list[Array], steps: Steps) -> tuple[Array, ...]:
    each = [_gradient_of(sample, tokens, masks, steps) for tokens in _samples(sample)]
    weights = (sample.W_Q.astype(float), sample.W_K.astype(float))
    means = (np.mean([pair[side] for pair in each], axis=0) for side in (0, 1))
    pulled = (steps["pull_head"](Y, W, M) for Y, W, M in zip(means, weights, masks, strict=True))
    return tuple(steps["back"](part, M) for part, M in zip(pulled, masks, strict=True))


_IMAGINARY = 1e-20
"""The step of a complex-step derivative: its square is below every rounding, so that none is made."""


def _bent(p: Array, logits: Array, sample: LayerSample, h: int, steps: Steps) -> Array:
    """P times the derivative of the scores in the logits: that of the cap, or of scores taken in another order."""
    if steps["scores"] is _scores or steps["bend"] is not LAYER_STEPS["bend"]:
        return np.asarray(steps["bend"](p, logits, sample.softcap))
    moved = steps["scores"](logits + 1j * _IMAGINARY, sample, h, steps["cap"], steps["fall"])
    return np.asarray(p * moved.imag / _IMAGINARY)


def _gradient_of(sample: LayerSample, tokens: Array, masks: list[Array], steps: Steps) -> tuple[Array, Array]:
    """The derivatives in the masked weights, on one sample."""
    of_Q, of_K = np.zeros(sample.W_Q.shape), np.zeros(sample.W_K.shape)
    shared: dict[int, list[Array]] = {}
    key_of: Step = steps["key_of"]
    for h, head in enumerate(_heads(sample, tokens, masks, steps)):
        p = steps["through"](steps["p"](head.c, head.F, head.dense), steps["allowed"](sample))
        if sample.softcap is not None:
            p = _bent(p, head.logits, sample, h, steps)
        scale = steps["slope_scale"](sample)
        own, _ = _places(sample, h, steps)
        of_Q[:, own] = tokens.T @ steps["unturn"](scale * p @ steps["partner"](head.key, head.dense_key), sample)
        slopes = scale * steps["turn_p"](p) @ steps["partner"](head.query, head.dense_query)
        g = int(key_of(h, sample.heads, sample.kv_heads))
        shared.setdefault(g, []).append(tokens.T @ steps["unturn"](slopes, sample))
    for key, parts in shared.items():
        of_K[:, steps["columns"](key, sample.kv_heads, sample.m)] = steps["group"](parts)
    return of_Q, of_K


def _relative_error(sample: LayerSample, masks: list[Array], steps: Steps) -> tuple[Array, ...]:
    each = [_heads(sample, tokens, masks, steps) for tokens in _samples(sample)]
    per_head = [
        steps["error"]([heads[h].c for heads in each], [heads[h].dense for heads in each]) for h in range(sample.heads)
    ]
    return (np.asarray(steps["errors"](per_head)),)


_PARTS: Mapping[str, Callable[[LayerSample, list[Array], Steps], tuple[Array, ...]]] = {
    "layer_attention": _attention,
    "layer_loss": _loss,
    "layer_gradient": _gradient,
    "layer_relative_error": _relative_error,
}
