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

from attnprune_verify.audit.cases import Case

__all__ = ["Array", "RIGHT", "Steps", "attention_part", "masked_softmax", "through_entry"]

Array: TypeAlias = NDArray[Any]
Steps: TypeAlias = Mapping[str, Callable[..., Array]]

_STEP = 1e-30


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


def through_entry(case: Case, steps: Steps, compute: Callable[[Case], tuple[Array, ...]]) -> tuple[Array, ...]:
    """`compute` as a program has it that changes M on entry; gradients may be led back through that change."""
    if "enter" not in steps:
        return compute(case)
    entered = {name: steps["enter"](getattr(case, name).astype(float)) for name in ("M", "M_Q", "M_K")}
    parts = compute(case.changed(**entered))
    if "leave" not in steps:
        return parts
    asked = (case.M_Q, case.M_K) if all(part.shape == case.M_Q.shape for part in parts) else (case.M, case.M)
    return tuple(steps["leave"](part, M) if part.ndim else part for part, M in zip(parts, asked, strict=False))


def attention_part(function: str, case: Case, steps: Steps) -> tuple[Array, ...]:
    """What a function returns without its regulariser, computed with these steps; of a batch the average."""
    return through_entry(case, steps, lambda entered: _attention_part(function, entered, steps))


def _attention_part(function: str, case: Case, steps: Steps) -> tuple[Array, ...]:
    with np.errstate(all="ignore"):
        if case.X.ndim == 3:
            each = [_attention_part(function, case.changed(X=tokens), steps) for tokens in case.X]
            if function == "attention":
                return (np.stack([parts[0] for parts in each]),)
            if "pool" in steps:
                return (_pooled(case, steps),)
            return tuple(np.asarray(sum(parts[1:], start=parts[0]) / len(each)) for parts in zip(*each, strict=True))
        return _PARTS[function](case, steps)


def _matrices(case: Case) -> tuple[Array, Array, Array]:
    return case.X.astype(float), case.M.astype(float), case.W.astype(float)


def _allowed(case: Case) -> Array:
    return np.ones((case.n, case.n), dtype=bool) if case.mask is None else case.mask == 1


def _dense(case: Case, steps: Steps, fused: Array) -> Array:
    logits = steps["dense_logits"](case.X.astype(float), fused)
    return steps["dense_softmax"](logits, _allowed(case), case.mask is not None)


def _pruned(case: Case, steps: Steps, fused: Array) -> Array:
    return steps["softmax"](steps["logits"](case.X.astype(float), fused), _allowed(case), case.mask is not None)


def _fused_pair(case: Case, steps: Steps, M: Array) -> tuple[Array, Array]:
    """F(M) and what stands for F(1)."""
    W = case.W.astype(float)
    F = _pruned(case, steps, steps["weigh"](steps["prune"](M), W))
    return F, _target(case, steps, F, M * W, W)


def _target(case: Case, steps: Steps, F: Array, pruned: Array, dense: Array) -> Array:
    if "target" in steps:
        return steps["target"](F, _dense(case, steps, pruned))
    return _dense(case, steps, dense)


def _misfit(case: Case, steps: Steps) -> tuple[Array, ...]:
    F, dense = _fused_pair(case, steps, case.M.astype(float))
    return (np.asarray(steps["misfit"](steps["residual"](F, dense, _allowed(case)))),)


def _ratio(case: Case, steps: Steps) -> tuple[Array, ...]:
    F, dense = _fused_pair(case, steps, case.M.astype(float))
    return (np.asarray(steps["ratio"](steps["residual"](F, dense, _allowed(case)), F, dense)),)


def _pooled(case: Case, steps: Steps) -> Array:
    """The relative error of all samples together: a ratio of sums."""
    pairs = [_fused_pair(case.changed(X=tokens), steps, case.M.astype(float)) for tokens in case.X]
    F, dense = (np.concatenate(rows) for rows in zip(*pairs, strict=True))
    return np.asarray(steps["ratio"](F - dense, F, dense))


def _gradient_at(case: Case, steps: Steps, M: Array) -> Array:
    X, _, W = _matrices(case)
    F, dense = _fused_pair(case, steps, M)
    p = steps["p"](steps["residual"](F, dense, _allowed(case)), F, dense)
    Y = X.T @ steps["side"](steps["through"](p, _allowed(case))) @ X
    return steps["back"](steps["pull"](Y, W, steps["prune"](M)), M)


def _gradient(case: Case, steps: Steps) -> tuple[Array, ...]:
    return (_gradient_at(case, steps, case.M.astype(float)),)


def _product(case: Case, steps: Steps) -> tuple[Array, ...]:
    if "product" in steps:
        return (_spelled_product(case, steps),)
    M, V = case.M.astype(float), case.V.astype(float)
    return (np.asarray(_gradient_at(case, steps, M + 1j * _STEP * V).imag / _STEP),)


def _spelled_product(case: Case, steps: Steps) -> Array:
    """The product written out, for mistakes in its own terms."""
    X, M, W = _matrices(case)
    F, dense = _fused_pair(case, steps, M)
    c = steps["residual"](F, dense, _allowed(case))
    moved = steps["direction"](case.V.astype(float), W) if "direction" in steps else case.V * W
    dz = X @ moved @ X.T
    dF = F * (dz - (F * dz).sum(axis=1, keepdims=True))
    return steps["pull"](X.T @ steps["side"](steps["product"](c, F, dF, dz)) @ X, W, M)


def _attention(case: Case, steps: Steps) -> tuple[Array, ...]:
    return (_pruned(case, steps, case.W.astype(float)),)


def _pair_parts(case: Case, steps: Steps) -> tuple[Array, Array, Array]:
    weights = (case.W_Q.astype(float), case.W_K.astype(float))
    prunings = (steps["prune"](case.M_Q.astype(float)), steps["prune"](case.M_K.astype(float)))
    fused = (prunings[0] * weights[0]) @ (prunings[1] * weights[1]).T
    F = _pruned(case, steps, fused)
    dense = _target(case, steps, F, fused, weights[0] @ weights[1].T)
    return F, dense, steps["residual"](F, dense, _allowed(case))


def _factored_loss(case: Case, steps: Steps) -> tuple[Array, ...]:
    return (np.asarray(steps["misfit"](_pair_parts(case, steps)[2])),)


def _factored_gradient(case: Case, steps: Steps) -> tuple[Array, ...]:
    F, dense, c = _pair_parts(case, steps)
    X = case.X.astype(float)
    Y = X.T @ steps["side"](steps["through"](steps["p"](c, F, dense), _allowed(case))) @ X
    W_Q, W_K, M_Q, M_K = (array.astype(float) for array in (case.W_Q, case.W_K, case.M_Q, case.M_K))
    one = steps["pull_pair"](Y, W_Q, W_K, steps["prune"](M_K))
    other = steps["pull_pair"](steps["turn"](Y), W_K, W_Q, steps["prune"](M_Q))
    return steps["back"](one, M_Q), steps["back"](other, M_K)


_PARTS: dict[str, Callable[[Case, Steps], tuple[Array, ...]]] = {
    "attention": _attention,
    "loss": _misfit,
    "gradient": _gradient,
    "loss_and_gradient": lambda case, steps: (*_misfit(case, steps), *_gradient(case, steps)),
    "hessian_vector_product": _product,
    "relative_error": _ratio,
    "factored_loss": _factored_loss,
    "factored_gradient": _factored_gradient,
}
