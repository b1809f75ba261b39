"""The right formulas in steps scores, softmax, use, so that a wrong one is the right one with some steps exchanged.

A fused weight, a pair of weights and a layer go the same way: a fused weight and a pair have one head, whose logits
are X A X^T. Every step is analytic code on plain arrays, so a Hessian-vector product is the complex-step derivative
``Im g(M + i h V) / h`` of whatever gradient the steps make, exact to rounding. Only for naming mistakes: the verdicts
come from ball arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.functions.layer.sample import LayerSample
from attnprune_verify.audit.functions.truth.sample import Sample

Array: TypeAlias = NDArray[Any]
Step: TypeAlias = Callable[..., Any]
Steps: TypeAlias = Mapping[str, Step]
Sides: TypeAlias = tuple[Array, ...]  # of M or W: the fused one, or those of queries and keys

_IMAGINARY = 1e-30  # the step of a complex-step derivative: its square is below every rounding
FUSED_ONLY = ("weigh", "logits", "dense_logits", "product", "direction")  # steps that a layer does not take


def masked_softmax(logits: Array, allowed: Array, epsilon: float = 0.0, shifted: bool = True) -> Array:
    """Row-wise softmax over the allowed positions; a row that allows nothing is nan."""
    highest = np.where(allowed, logits.real, -np.inf).max(axis=1, keepdims=True) if shifted else 0.0
    weights = np.where(allowed, np.exp(logits - highest), 0.0)
    return np.asarray(weights / (weights.sum(axis=1, keepdims=True) + epsilon))


def turned(
    rows: Array,
    sample: Sample,
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


def _modified(logits: Array, sample: Sample, h: int, cap: Step, fall: Step) -> Array:
    if sample.softcap is not None:
        logits = cap(logits, sample.softcap)
    if sample.alibi is not None:
        logits = fall(logits, float(sample.alibi[h]), np.subtract.outer(np.arange(sample.n), np.arange(sample.n)))
    return logits


def _softmax(logits: Array, allowed: Array, given: bool) -> Array:
    return masked_softmax(logits, allowed)


def _p(c: Array, F: Array, dense: Array) -> Array:
    return np.asarray(c * F - (c * F).sum(axis=1, keepdims=True) * F)


RIGHT: dict[str, Step] = {
    # scores
    "prune": lambda M: M,
    "weigh": lambda M, W: M * W,
    "sides": lambda pruned, dense: pruned,
    "key_of": lambda h, heads, kv_heads: h // (heads // kv_heads),
    "columns": lambda h, count, m: np.arange(h * m, (h + 1) * m),
    "bias_Q": lambda b: b,
    "bias_K": lambda b: b,
    "add": lambda rows, bias, turn, sample: turn(rows + bias, sample),
    "turn_Q": turned,
    "turn_K": turned,
    "logits": lambda X, A: X @ A @ X.T,
    "dense_logits": lambda X, A: X @ A @ X.T,
    "scale": lambda sample: sample.factor,
    "dense_scale": lambda sample: sample.factor,
    "cap": lambda logits, cap: cap * np.tanh(logits / cap),
    "fall": lambda logits, slope, distance: logits - slope * np.abs(distance),
    "scores": _modified,
    # softmax
    "allowed": lambda sample: sample.allowed,
    "softmax": _softmax,
    "dense_softmax": _softmax,
    # use
    "residual": lambda F, dense, allowed: F - dense,
    "gather": lambda parts: parts,
    "misfit": lambda c: 0.5 * (c * c).sum(),
    "over_heads": lambda parts: sum(parts),
    "ratio": lambda c, F, dense: (c * c).sum() / (dense * dense).sum(),
    "pool": lambda sample: isinstance(sample, LayerSample),
    "errors": lambda parts: np.array(parts),
    "p": _p,
    "through": lambda p, allowed: p,
    "bend": lambda p, logits, cap: p * (1 - np.tanh(logits / cap) ** 2),
    "side": lambda p: p,
    "turn_p": lambda p: p.T,
    "slope_scale": lambda sample: sample.factor,
    "partner": lambda pruned, dense: pruned,
    "unturn": lambda rows, sample: turned(rows, sample, -1.0),
    "group": lambda parts: sum(parts[1:], start=parts[0]),
    "pull": lambda Y, W, M: W * Y,
    "back": lambda G, M: G,
}


def through_entry(sample: Sample, steps: Steps, compute: Callable[[Sample], tuple[Array, ...]]) -> tuple[Array, ...]:
    """`compute` as a program has it that changes M on entry; gradients may be led back through that change."""
    if "enter" not in steps:
        return compute(sample)
    entered = {name: steps["enter"](getattr(sample, name).astype(float)) for name in ("M", "M_Q", "M_K")}
    parts = compute(sample.changed(**entered))
    if "leave" not in steps:
        return parts
    pair = len(parts) == 2 and parts[0].ndim == 2
    asked = (sample.M_Q, sample.M_K) if pair else (sample.M, sample.M)
    return tuple(steps["leave"](part, M) if part.ndim else part for part, M in zip(parts, asked, strict=False))


def attention_part(function: str, sample: Sample, steps: Steps) -> tuple[Array, ...]:
    """Return the results of a function without its regulariser, computed with these steps; of a batch the average."""
    sides = ("_Q", "_K") if function.startswith(("factored", "layer")) else ("",)
    all_steps = {**RIGHT, **steps}

    def compute(entered: Sample) -> tuple[Array, ...]:
        masks, weights = (tuple(getattr(entered, f"{kind}{side}").astype(float) for side in sides) for kind in "MW")
        with np.errstate(all="ignore"):
            return _ENDS[function](_FormulaProblem(entered, masks, weights, all_steps))

    return through_entry(sample, all_steps, compute)


@dataclass(frozen=True)
class _FormulaProblem:
    sample: Sample
    masks: Sides
    weights: Sides
    steps: Steps

    @property
    def samples(self) -> Array:
        X = self.sample.X.astype(float)
        return X if X.ndim == 3 else X[None]

    @property
    def pruned(self) -> Sides:
        weigh = self.steps["weigh"] if len(self.masks) == 1 else np.multiply
        found = tuple(weigh(self.steps["prune"](M), W) for M, W in zip(self.masks, self.weights, strict=True))
        return self.steps["sides"](found, self.weights) if len(found) > 1 else found

    def heads(self, X: Array) -> list[_HeadFormulas]:
        """Return the output of the heads on one sample."""
        return [self._head(X, h) for h in range(self.sample.heads)]

    def _head(self, X: Array, h: int) -> _HeadFormulas:
        sides, logits, F = self.attended(X, h, self.pruned)
        if "target" in self.steps:
            masked = tuple(M * W for M, W in zip(self.masks, self.weights, strict=True))
            dense = self.steps["target"](F, self.attended(X, h, masked, "dense_")[2])
            return self._filled(h, sides, sides, logits, F, dense)
        dense_sides, _, dense = self.attended(X, h, self.weights, "dense_")
        return self._filled(h, sides, dense_sides, logits, F, dense)

    def _filled(self, h: int, sides: Sides, dense_sides: Sides, logits: Array, F: Array, dense: Array) -> _HeadFormulas:
        return _HeadFormulas(h, sides, dense_sides, logits, F, dense, self.steps["residual"](F, dense, self.allowed))

    @property
    def allowed(self) -> Array:
        return np.asarray(self.steps["allowed"](self.sample))

    def attended(self, X: Array, h: int, weights: Sides, kind: str = "") -> tuple[Sides, Array, Array]:
        """Queries and keys, logits and attention of a head, with the steps for F(M), or with the "dense_" ones."""
        steps, sample = self.steps, self.sample
        if isinstance(sample, LayerSample):
            sides = tuple(self._side(X, h, side, weight) for side, weight in zip("QK", weights, strict=True))
            logits = steps[f"{kind}scale"](sample) * sides[0] @ sides[1].T
        else:
            sides = tuple(X @ weight for weight in weights)
            fused = weights[0] if len(weights) == 1 else weights[0] @ weights[1].T
            logits = steps[f"{kind}scale"](sample) * steps[f"{kind}logits"](X, fused)
        scores = steps["scores"](logits, sample, h, steps["cap"], steps["fall"])
        return sides, logits, steps[f"{kind}softmax"](scores, self.allowed, sample.restricted)

    def _side(self, X: Array, h: int, side: str, weight: Array) -> Array:
        own, turn, bias = self.columns(h, side), self.steps[f"turn_{side}"], getattr(self.sample, f"b_{side}")
        rows = X @ weight[:, own]
        if bias is None:
            return np.asarray(turn(rows, self.sample))
        of = self.columns(h, side, "bias_of") if "bias_of" in self.steps else own
        return np.asarray(
            self.steps["add"](rows, self.steps[f"bias_{side}"](bias.astype(float)[of]), turn, self.sample)
        )

    def columns(self, h: int, side: str, key_of: str = "key_of") -> Array:
        """The columns of the weights that a head takes."""
        heads, kv_heads, m = self.sample.heads, self.sample.kv_heads, self.sample.m
        if side == "Q":
            return np.asarray(self.steps["columns"](h, heads, m))
        return np.asarray(self.steps["columns"](self.steps[key_of](h, heads, kv_heads), kv_heads, m))


@dataclass(frozen=True)
class _HeadFormulas:
    h: int
    sides: Sides
    dense_sides: Sides
    logits: Array
    F: Array
    dense: Array
    c: Array


def _attention(one: _FormulaProblem) -> tuple[Array, ...]:
    maps = [[one.attended(X, h, one.weights)[2] for h in range(one.sample.heads)] for X in one.samples]
    each = [np.stack(heads) if isinstance(one.sample, LayerSample) else heads[0] for heads in maps]
    return (np.stack(each) if one.sample.X.ndim == 3 else each[0],)


def _loss(one: _FormulaProblem) -> tuple[Array, ...]:
    cs = one.steps["gather"]([[head.c for head in one.heads(X)] for X in one.samples])
    return (np.asarray(np.mean([one.steps["over_heads"]([one.steps["misfit"](c) for c in heads]) for heads in cs])),)


def _relative_error(one: _FormulaProblem) -> tuple[Array, ...]:
    found = []
    for heads in zip(*(one.heads(X) for X in one.samples), strict=True):
        parts = [(head.c, head.F, head.dense) for head in heads]
        if one.steps["pool"](one.sample):
            found.append(one.steps["ratio"](*(np.concatenate(rows) for rows in zip(*parts, strict=True))))
        else:
            found.append(np.mean([one.steps["ratio"](*part) for part in parts]))
    return (np.asarray(one.steps["errors"](found) if isinstance(one.sample, LayerSample) else found[0]),)


def _gradient(one: _FormulaProblem) -> tuple[Array, ...]:
    slopes = _slopes_of_fused if len(one.masks) == 1 else _slopes_of_pair
    means = (sum(parts) / len(parts) for parts in zip(*(slopes(one, X) for X in one.samples), strict=True))
    pulled = (
        one.steps["pull"](Y, W, one.steps["prune"](M)) for Y, W, M in zip(means, one.weights, one.masks, strict=True)
    )
    return tuple(np.asarray(one.steps["back"](G, M)) for G, M in zip(pulled, one.masks, strict=True))


def _p_of(one: _FormulaProblem, head: _HeadFormulas) -> Array:
    """The derivative of the loss in the logits, over the scale."""
    p = one.steps["through"](one.steps["p"](head.c, head.F, head.dense), one.allowed)
    return np.asarray(one.steps["side"](p if one.sample.softcap is None else _bent(one, p, head)))


def _bent(one: _FormulaProblem, p: Array, head: _HeadFormulas) -> Array:
    """P times the derivative of the scores in the logits: that of the cap, or of scores taken in another order."""
    steps = one.steps
    if steps["scores"] is _modified or steps["bend"] is not RIGHT["bend"]:
        return np.asarray(steps["bend"](p, head.logits, one.sample.softcap))
    moved = steps["scores"](head.logits + 1j * _IMAGINARY, one.sample, head.h, steps["cap"], steps["fall"])
    return np.asarray(p * moved.imag / _IMAGINARY)


def _slopes_of_fused(one: _FormulaProblem, X: Array) -> Sides:
    """X^T p X, the derivative in the masked weight."""
    (head,) = one.heads(X)
    return (one.steps["slope_scale"](one.sample) * (X.T @ _p_of(one, head) @ X),)


def _slopes_of_pair(one: _FormulaProblem, X: Array) -> Sides:
    """The derivatives in the masked weights of queries and keys."""
    steps, sample, scale = one.steps, one.sample, one.steps["slope_scale"](one.sample)
    of_Q, of_K = np.zeros(sample.W_Q.shape), np.zeros(sample.W_K.shape)
    shared: dict[int, list[Array]] = {}
    for head in one.heads(X):
        p = _p_of(one, head)
        query, key = (steps["partner"](*pair) for pair in zip(head.sides, head.dense_sides, strict=True))
        of_Q[:, one.columns(head.h, "Q")] = X.T @ steps["unturn"](scale * p @ key, sample)
        g = int(steps["key_of"](head.h, sample.heads, sample.kv_heads))
        shared.setdefault(g, []).append(X.T @ steps["unturn"](scale * steps["turn_p"](p) @ query, sample))
    for g, parts in shared.items():
        of_K[:, steps["columns"](g, sample.kv_heads, sample.m)] = steps["group"](parts)
    return of_Q, of_K


def _product(one: _FormulaProblem) -> tuple[Array, ...]:
    if "product" in one.steps:
        return (_spelled_product(one),)
    moved = one.masks[0] + 1j * _IMAGINARY * one.sample.V.astype(float)
    (slope,) = _gradient(_FormulaProblem(one.sample, (moved,), one.weights, one.steps))
    return (np.asarray(slope.imag / _IMAGINARY),)


def _spelled_product(one: _FormulaProblem) -> Array:
    """The product written out, for mistakes in its own terms."""
    steps, W, V, found = one.steps, one.weights[0], one.sample.V.astype(float), []
    moved = steps["direction"](V, W) if "direction" in steps else V * W
    for X in one.samples:
        (head,) = one.heads(X)
        dz = X @ moved @ X.T
        dF = head.F * (dz - (head.F * dz).sum(axis=1, keepdims=True))
        found.append(steps["pull"](X.T @ steps["side"](steps["product"](head.c, head.F, dF, dz)) @ X, W, one.masks[0]))
    return np.asarray(sum(found) / len(found))


_ENDS: dict[str, Callable[[_FormulaProblem], tuple[Array, ...]]] = {
    **dict.fromkeys(("attention", "layer_attention"), _attention),
    **dict.fromkeys(("loss", "factored_loss", "layer_loss"), _loss),
    **dict.fromkeys(("gradient", "factored_gradient", "layer_gradient"), _gradient),
    "loss_and_gradient": lambda one: (*_loss(one), *_gradient(one)),
    "hessian_vector_product": _product,
    **dict.fromkeys(("relative_error", "layer_relative_error"), _relative_error),
}
