"""The right formulas cut into exchangeable steps, so that a wrong one is the right one with some steps exchanged.

Every step is analytic code on plain arrays, so a Hessian-vector product is the complex-step derivative
``Im g(M + i h V) / h`` of whatever gradient the steps make, exact to rounding. Only for naming mistakes: the verdicts
come from ball arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.truth.samples import Sample

__all__ = ["Array", "RIGHT", "Steps", "fused_part", "masked_softmax", "through_entry"]

Array: TypeAlias = NDArray[Any]
Steps: TypeAlias = Mapping[str, Callable[..., Array]]

_STEP = 1e-30  # of a complex-step derivative: its square is below every rounding


def masked_softmax(logits: Array, allowed: Array, epsilon: float = 0.0, shifted: bool = True) -> Array:
    """Row-wise softmax over the allowed positions; a row that allows nothing is nan."""
    highest = np.where(allowed, logits.real, -np.inf).max(axis=1, keepdims=True) if shifted else 0.0
    weights = np.where(allowed, np.exp(logits - highest), 0.0)
    return np.asarray(weights / (weights.sum(axis=1, keepdims=True) + epsilon))


def _softmax(logits: Array, allowed: Array, given: bool) -> Array:
    return masked_softmax(logits, allowed)


def _p(c: Array, F: Array, dense: Array) -> Array:
    return np.asarray(c * F - (c * F).sum(axis=1, keepdims=True) * F)


RIGHT: dict[str, Callable[..., Array]] = {
    "prune": lambda M: M,
    "weigh": lambda M, W: M * W,
    "logits": lambda X, A: X @ A @ X.T,
    "dense_logits": lambda X, A: X @ A @ X.T,
    "softmax": _softmax,
    "dense_softmax": _softmax,
    "residual": lambda F, dense, allowed: F - dense,
    "p": _p,
    "through": lambda p, allowed: p,
    "side": lambda p: p,
    "back": lambda G, M: G,
    "pull": lambda Y, W, M: W * Y,
    "pull_pair": lambda Y, weight, other, pruning: weight * (Y @ (pruning * other)),
    "misfit": lambda c: 0.5 * (c * c).sum(),
    "ratio": lambda c, F, dense: (c * c).sum() / (dense * dense).sum(),
    "turn": lambda Y: Y.T,
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


def fused_part(function: str, sample: Sample, steps: Steps) -> tuple[Array, ...]:
    """Return the results of a function without its regulariser, computed with these steps; of a batch the average."""
    return through_entry(sample, steps, lambda entered: _fused(function, entered, steps))


def _fused(function: str, sample: Sample, steps: Steps) -> tuple[Array, ...]:
    with np.errstate(all="ignore"):
        if sample.X.ndim == 3:
            each = [_fused(function, sample.changed(X=tokens), steps) for tokens in sample.X]
            if function == "attention":
                return (np.stack([parts[0] for parts in each]),)
            if "pool" in steps:
                return (_pooled(sample, steps),)
            if "average" in steps:
                return (_of_average(sample, steps),)
            return tuple(np.asarray(sum(parts[1:], start=parts[0]) / len(each)) for parts in zip(*each, strict=True))
        return _PARTS[function](sample, steps)


def _matrices(sample: Sample) -> tuple[Array, Array, Array]:
    return sample.X.astype(float), sample.M.astype(float), sample.W.astype(float)


def _dense(sample: Sample, steps: Steps, fused: Array) -> Array:
    logits = steps["dense_logits"](sample.X.astype(float), fused)
    return steps["dense_softmax"](logits, sample.allowed, sample.mask is not None)


def _pruned(sample: Sample, steps: Steps, fused: Array) -> Array:
    return steps["softmax"](steps["logits"](sample.X.astype(float), fused), sample.allowed, sample.mask is not None)


def _fused_pair(sample: Sample, steps: Steps, M: Array) -> tuple[Array, Array]:
    """F(M) and what stands for F(1)."""
    W = sample.W.astype(float)
    F = _pruned(sample, steps, steps["weigh"](steps["prune"](M), W))
    return F, _target(sample, steps, F, M * W, W)


def _target(sample: Sample, steps: Steps, F: Array, pruned: Array, dense: Array) -> Array:
    if "target" in steps:
        return steps["target"](F, _dense(sample, steps, pruned))
    return _dense(sample, steps, dense)


def _misfit(sample: Sample, steps: Steps) -> tuple[Array, ...]:
    F, dense = _fused_pair(sample, steps, sample.M.astype(float))
    return (np.asarray(steps["misfit"](steps["residual"](F, dense, sample.allowed))),)


def _ratio(sample: Sample, steps: Steps) -> tuple[Array, ...]:
    F, dense = _fused_pair(sample, steps, sample.M.astype(float))
    return (np.asarray(steps["ratio"](steps["residual"](F, dense, sample.allowed), F, dense)),)


def _pooled(sample: Sample, steps: Steps) -> Array:
    """The relative error of all samples together: a ratio of sums."""
    pairs = [_fused_pair(sample.changed(X=tokens), steps, sample.M.astype(float)) for tokens in sample.X]
    F, dense = (np.concatenate(rows) for rows in zip(*pairs, strict=True))
    return np.asarray(steps["ratio"](F - dense, F, dense))


def _of_average(sample: Sample, steps: Steps) -> Array:
    """The misfit of what the samples give on average."""
    M = sample.M.astype(float)
    pairs = [_fused_pair(sample.changed(X=tokens), steps, M) for tokens in sample.X]
    return np.asarray(steps["misfit"](sum(F - dense for F, dense in pairs) / len(pairs)))


def _gradient_at(sample: Sample, steps: Steps, M: Array) -> Array:
    X, _, W = _matrices(sample)
    F, dense = _fused_pair(sample, steps, M)
    p = steps["p"](steps["residual"](F, dense, sample.allowed), F, dense)
    Y = X.T @ steps["side"](steps["through"](p, sample.allowed)) @ X
    return steps["back"](steps["pull"](Y, W, steps["prune"](M)), M)


def _gradient(sample: Sample, steps: Steps) -> tuple[Array, ...]:
    return (_gradient_at(sample, steps, sample.M.astype(float)),)


def _product(sample: Sample, steps: Steps) -> tuple[Array, ...]:
    if "product" in steps:
        return (_spelled_product(sample, steps),)
    M, V = sample.M.astype(float), sample.V.astype(float)
    return (np.asarray(_gradient_at(sample, steps, M + 1j * _STEP * V).imag / _STEP),)


def _spelled_product(sample: Sample, steps: Steps) -> Array:
    """The product written out, for mistakes in its own terms."""
    X, M, W = _matrices(sample)
    F, dense = _fused_pair(sample, steps, M)
    c = steps["residual"](F, dense, sample.allowed)
    moved = steps["direction"](sample.V.astype(float), W) if "direction" in steps else sample.V * W
    dz = X @ moved @ X.T
    dF = F * (dz - (F * dz).sum(axis=1, keepdims=True))
    return steps["pull"](X.T @ steps["side"](steps["product"](c, F, dF, dz)) @ X, W, M)


def _attention(sample: Sample, steps: Steps) -> tuple[Array, ...]:
    return (_pruned(sample, steps, sample.W.astype(float)),)


def _pair_parts(sample: Sample, steps: Steps) -> tuple[Array, Array, Array]:
    weights = (sample.W_Q.astype(float), sample.W_K.astype(float))
    prunings = (steps["prune"](sample.M_Q.astype(float)), steps["prune"](sample.M_K.astype(float)))
    fused = (prunings[0] * weights[0]) @ (prunings[1] * weights[1]).T
    F = _pruned(sample, steps, fused)
    dense = _target(sample, steps, F, fused, weights[0] @ weights[1].T)
    return F, dense, steps["residual"](F, dense, sample.allowed)


def _factored_loss(sample: Sample, steps: Steps) -> tuple[Array, ...]:
    return (np.asarray(steps["misfit"](_pair_parts(sample, steps)[2])),)


def _factored_gradient(sample: Sample, steps: Steps) -> tuple[Array, ...]:
    F, dense, c = _pair_parts(sample, steps)
    X = sample.X.astype(float)
    Y = X.T @ steps["side"](steps["through"](steps["p"](c, F, dense), sample.allowed)) @ X
    W_Q, W_K, M_Q, M_K = (array.astype(float) for array in (sample.W_Q, sample.W_K, sample.M_Q, sample.M_K))
    one = steps["pull_pair"](Y, W_Q, W_K, steps["prune"](M_K))
    other = steps["pull_pair"](steps["turn"](Y), W_K, W_Q, steps["prune"](M_Q))
    return steps["back"](one, M_Q), steps["back"](other, M_K)


_PARTS: dict[str, Callable[[Sample, Steps], tuple[Array, ...]]] = {
    "attention": _attention,
    "loss": _misfit,
    "gradient": _gradient,
    "loss_and_gradient": lambda sample, steps: (*_misfit(sample, steps), *_gradient(sample, steps)),
    "hessian_vector_product": _product,
    "relative_error": _ratio,
    "factored_loss": _factored_loss,
    "factored_gradient": _factored_gradient,
}
