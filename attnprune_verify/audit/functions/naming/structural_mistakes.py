"""Mistakes that put something else in a place: in the softmax's, in the weights', in the tokens', in the loss's.

Only forward formulas: what people differentiate by hand is the right one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from attnprune_verify.audit.functions.layer.sample import LAYERED
from attnprune_verify.audit.functions.truth.formulas import FUSED_ONLY, Array, Steps, masked_softmax

HVP = ("hessian_vector_product",)


@dataclass(frozen=True, eq=False)
class Mistake:
    """A wrong formula: the right one with `steps` exchanged; `alone`: not tried together with another."""

    id: str
    steps: Steps
    detail: str = ""
    only: tuple[str, ...] = field(default=())
    alone: bool = False

    def applies(self, function: str) -> bool:
        taken = function not in LAYERED or not set(self.steps) & set(FUSED_ONLY)
        return taken and (not self.only or function in self.only)


Softmax: TypeAlias = Callable[..., Array]

ERRORS = ("relative_error", "layer_relative_error")
LOSSES = ("loss", "factored_loss", "loss_and_gradient", "layer_loss")
_MAPS = ("attention", "layer_attention")
FORWARD = (*_MAPS, *LOSSES, *ERRORS)
_FUSED = ("attention", "loss", "factored_loss", "relative_error")


def other_mistakes() -> Iterator[Mistake]:
    """All of them, in both softmaxes."""
    yield from _broadcast()
    yield from _other_functions()
    yield from _changed_weights()
    yield from _other_masks()
    yield from _changed_tokens()
    yield from _distances()
    yield from _changed_masks()


def _same(id: str, softmax: Softmax, detail: str, only: tuple[str, ...] = FORWARD) -> Mistake:
    return Mistake(id, {"softmax": softmax, "dense_softmax": softmax}, detail, only, alone=True)


def _exponentials(A: Array, allowed: Array, highest: Array) -> Array:
    return np.asarray(np.where(allowed, np.exp(A - highest), 0.0))


def _top(A: Array, allowed: Array) -> Array:
    return np.asarray(np.where(allowed, A.real, -np.inf).max(axis=1))


def _broadcast() -> Iterator[Mistake]:
    """Row maxima or sums without keepdims: entry j of a vector meets column j, not row j."""

    def sums(A: Array, allowed: Array, given: bool) -> Array:
        weights = _exponentials(A, allowed, _top(A, allowed)[:, None])
        return np.asarray(weights / weights.sum(axis=1))

    def maxima(A: Array, allowed: Array, given: bool) -> Array:
        weights = _exponentials(A, allowed, _top(A, allowed))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def both(A: Array, allowed: Array, given: bool) -> Array:
        weights = _exponentials(A, allowed, _top(A, allowed))
        return np.asarray(weights / weights.sum(axis=1))

    def columns(A: Array, allowed: Array, given: bool) -> Array:
        weights = _exponentials(A, allowed, _top(A, allowed)[:, None])
        return np.asarray(weights / weights.sum(axis=0))

    softmaxes: dict[str, Softmax] = {
        "row sums broadcast along columns": sums,
        "row maxima broadcast along columns": maxima,
        "row maxima and sums broadcast along columns": both,
        "maxima of rows, sums of columns": columns,
    }
    for detail, softmax in softmaxes.items():
        yield _same("wrong-softmax-axis", softmax, detail)


def _other_functions() -> Iterator[Mistake]:
    def sigmoid(A: Array) -> Array:
        return np.asarray(1 / (1 + np.exp(-A)))

    bare: dict[str, Callable[[Array], Array]] = {
        "the logits themselves": lambda A: A,
        "the sigmoid": sigmoid,
        "the positive part": lambda A: np.maximum(A.real, 0.0),
    }
    for detail, function in bare.items():
        yield _same("missing-softmax", partial(_spared, function=function, fill=0.0), detail)
        yield _same("missing-softmax", partial(_spared, function=function, fill=None), f"{detail}, everywhere")
    yield _same("missing-softmax", partial(_spared, function=lambda A: A, fill=-np.inf), "-inf where forbidden")
    for floor in (0.0, 1e-300):
        yield _same("missing-softmax", partial(_logarithm, floor=floor), f"its logarithm{', bounded' if floor else ''}")
    normalised: dict[str, Callable[[Array], Array]] = {
        "the sigmoid": sigmoid,
        "the positive part": lambda A: np.maximum(A.real, 0.0),
        "the squared positive part": lambda A: np.maximum(A.real, 0.0) ** 2,
        "the absolute value": lambda A: np.abs(A.real),
        "the square": lambda A: A * A,
        "1 + elu": lambda A: np.where(A.real > 0, 1 + A, np.exp(np.minimum(A.real, 0.0))),
        "log(1 + e^x)": lambda A: np.logaddexp(0.0, A.real),
    }
    for detail, function in normalised.items():
        yield _same("missing-softmax", partial(_divided, function=function), f"{detail} divided by its row sum")


def _spared(A: Array, allowed: Array, given: bool, *, function: Callable[[Array], Array], fill: float | None) -> Array:
    return np.asarray(function(A) if fill is None else np.where(allowed, function(A), fill))


def _logarithm(A: Array, allowed: Array, given: bool, *, floor: float) -> Array:
    F = masked_softmax(A, allowed)
    return np.asarray(np.log(np.maximum(F, floor) if floor else F))


def _divided(A: Array, allowed: Array, given: bool, *, function: Callable[[Array], Array]) -> Array:
    weights = np.where(allowed, function(A), 0.0)
    return np.asarray(weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-9))


def _changed_weights() -> Iterator[Mistake]:
    def turned(A: Array, allowed: Array, given: bool) -> Array:
        return np.asarray(masked_softmax(A, allowed).T)

    yield _same("attention-transposed", turned, "", _MAPS)
    changes: dict[str, Callable[[Array, float], Array]] = {
        "weights below {} become it": lambda F, size: np.maximum(F, size),
        "weights below {} become 0": lambda F, size: np.where(F < size, 0.0, F),
        "weights below {} become 0, then normalised": lambda F, size: _normal(np.where(F < size, 0.0, F)),
        "{} is added to every weight": lambda F, size: F + size,
        "{} is added to every weight, then normalised": lambda F, size: _normal(F + size),
    }
    for detail, change in changes.items():
        for power in range(-1, -13, -1):
            changed = partial(_after, change=change, size=10.0**power)
            yield _same("weights-changed", changed, detail.format(f"1e{power}"), (*_MAPS, "loss", "relative_error"))
    for power in range(-1, -11, -1):
        twice = partial(_twice_divided, epsilon=10.0**power)
        yield _same("denominator-epsilon", twice, f"1e{power}, where the masked softmax is divided by its row sum")


def _normal(F: Array) -> Array:
    return np.asarray(F / F.sum(axis=1, keepdims=True))


def _after(A: Array, allowed: Array, given: bool, *, change: Callable[[Array, float], Array], size: float) -> Array:
    return change(masked_softmax(A, allowed), size)


def _twice_divided(A: Array, allowed: Array, given: bool, *, epsilon: float) -> Array:
    weights = masked_softmax(A, np.ones_like(allowed)) * allowed
    return np.asarray(weights / (weights.sum(axis=1, keepdims=True) + epsilon))


def _other_masks() -> Iterator[Mistake]:
    def softmax(A: Array, allowed: Array, given: bool, *, change: Callable[[Array], Array]) -> Array:
        return masked_softmax(A, change(allowed) if given else allowed)

    masks: dict[str, tuple[str, Callable[[Array], Array]]] = {
        "the last row": ("mask-broadcast", lambda allowed: np.broadcast_to(allowed[-1:], allowed.shape)),
        "the first row": ("mask-broadcast", lambda allowed: np.broadcast_to(allowed[:1], allowed.shape)),
        "the first column": ("mask-broadcast", lambda allowed: np.broadcast_to(allowed[:, :1], allowed.shape)),
        "the first column, as a row": ("mask-broadcast", lambda allowed: np.broadcast_to(allowed[:, 0], allowed.shape)),
        "i >= j - 1": ("causal-off-by-one", lambda allowed: np.tri(len(allowed), k=1, dtype=bool)),
        "given, and i >= j - 1": ("causal-off-by-one", _one_more),
    }
    for detail, (id, change) in masks.items():
        yield _same(id, partial(softmax, change=change), detail, (*_MAPS, "loss", "relative_error"))


def _one_more(allowed: Array) -> Array:
    """A causal mask one further, any other as it is."""
    n = len(allowed)
    return np.tri(n, k=1, dtype=bool) if np.array_equal(allowed, np.tri(n, dtype=bool)) else allowed


def _changed_tokens() -> Iterator[Mistake]:
    def norm(X: Array) -> Array:
        return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))

    def centred(X: Array) -> Array:
        return np.asarray(X - X.mean(axis=1, keepdims=True))

    changes: dict[str, Callable[[Array], Array]] = {
        "each centred": centred,
        "each divided by its norm": norm,
        "each divided by its root mean square": lambda X: norm(X) * X.shape[1] ** 0.5,
        "each centred and divided by its standard deviation": lambda X: norm(centred(X)) * X.shape[1] ** 0.5,
        "features centred": lambda X: X - X.mean(axis=0),
        "features divided by their standard deviation": lambda X: X / X.std(axis=0),
        "features standardised": lambda X: (X - X.mean(axis=0)) / X.std(axis=0),
        "all divided by the largest entry": lambda X: X / np.abs(X).max(),
        "in another order": lambda X: X[::-1],
    }
    for detail, change in changes.items():
        logits = partial(_of_changed, change=change)
        yield Mistake("tokens-changed", {"logits": logits, "dense_logits": logits}, detail, _FUSED, alone=True)
    half = _symmetrised
    yield Mistake("weight-transposed", {"logits": half, "dense_logits": half}, "symmetrised", _FUSED, alone=True)


def _of_changed(X: Array, A: Array, *, change: Callable[[Array], Array]) -> Array:
    X = change(X)
    return np.asarray(X @ A @ X.T)


def _symmetrised(X: Array, A: Array) -> Array:
    return np.asarray(X @ ((A + A.T) / 2) @ X.T)


def _distances() -> Iterator[Mistake]:
    """Something else than half the squared Frobenius norm between F(M) and F(1)."""

    def both(F: Array, dense: Array, allowed: Array) -> Array:
        return np.stack([F, dense])

    def divergence(P: Array, Q: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(np.where(P > 0, P * np.log(P / Q), 0.0).sum())

    pairs: dict[str, Callable[[Array], Array]] = {
        "Kullback-Leibler of F(1) against F(M)": lambda both: divergence(both[1], both[0]),
        "Kullback-Leibler of F(M) against F(1)": lambda both: divergence(both[0], both[1]),
        "cross entropy": lambda both: divergence(both[1], both[0]) - divergence(both[1], np.ones_like(both[1])),
    }
    for detail, misfit in pairs.items():
        for suffix, factor in (("", lambda F: 1.0), (", averaged over rows", lambda F: 1.0 / len(F[0]))):
            scaled = partial(_scaled, misfit=misfit, factor=factor)
            yield Mistake("loss-distance", {"residual": both, "misfit": scaled}, detail + suffix, LOSSES, alone=True)
    norms: dict[str, Callable[[Array], Array]] = {
        "spectral norm": lambda c: np.asarray(0.5 * np.linalg.norm(c, 2) ** 2),
        "the largest row": lambda c: 0.5 * (c * c).sum(axis=1).max(),
        "the largest entry": lambda c: 0.5 * (c * c).max(),
        "the lower triangle": lambda c: 0.5 * (np.tril(c) ** 2).sum(),
        "norms of rows": lambda c: np.asarray(0.5 * np.linalg.norm(c, axis=1).sum()),
    }
    for detail, misfit in norms.items():
        yield Mistake("loss-distance", {"misfit": misfit}, detail, LOSSES, alone=True)
    absolute: dict[str, Callable[..., Array]] = {"ratio": lambda c, F, dense: np.abs(c).sum() / np.abs(dense).sum()}
    yield Mistake("loss-not-squared", absolute, "sums of absolute values", ("relative_error",), alone=True)
    averaged: dict[str, Callable[..., Any]] = {
        "gather": lambda parts: [[sum(of_head) / len(of_head) for of_head in zip(*parts, strict=True)]]
    }
    yield Mistake("batch-not-averaged", averaged, "F(M) - F(1) is averaged first", ("loss", "layer_loss"), alone=True)
    larger: dict[str, Callable[..., Array]] = {
        "ratio": lambda c, F, dense: (c * c).sum() / max((F * F).sum(), (dense * dense).sum())
    }
    yield Mistake("dense-target-uses-M", larger, "the larger of both below", ("relative_error",), alone=True)


def _scaled(both: Array, *, misfit: Callable[[Array], Array], factor: Callable[[Array], float]) -> Array:
    return np.asarray(factor(both) * misfit(both))


def _changed_masks() -> Iterator[Mistake]:
    """M is replaced before it multiplies the weights."""
    only = (*FORWARD, "gradient", "factored_gradient")
    prunings: dict[str, Callable[[Array], Array]] = {
        "divided by the largest": lambda M: M / np.abs(M).max(),
        "divided by its norm": lambda M: M / np.linalg.norm(M),
        "divided by its mean": lambda M: M / M.mean(),
        "thresholded at its median": lambda M: (np.median(M) < M) * 1.0,
        "thresholded at its mean": lambda M: (M.mean() < M) * 1.0,
        "a softmax over all entries": lambda M: np.exp(M) / np.exp(M).sum(),
        "a softmax over rows": lambda M: np.exp(M) / np.exp(M).sum(axis=1, keepdims=True),
        "its first column for all": lambda M: np.broadcast_to(M[:, :1], M.shape),
        "its first row for all": lambda M: np.broadcast_to(M[:1], M.shape),
        "square roots": lambda M: np.sqrt(np.maximum(M, 0.0)),
        **{f"negative entries times {slope}": partial(_leaky, slope=slope) for slope in (0.01, 0.1, 0.2)},
    }
    for detail, prune in prunings.items():
        yield Mistake("clips-or-rounds-M", {"prune": prune}, detail, only, alone=True)


def _leaky(M: Array, *, slope: float) -> Array:
    return np.where(M < 0, slope * M, M)


def _rows(product: Array) -> Array:
    return np.asarray(product.sum(axis=1, keepdims=True))


def right_product(c: Array, F: Array, dF: Array, dz: Array) -> Array:
    """The derivative dp of p in the direction of dF."""
    return np.asarray(dF * F + c * dF - _rows(dF * F + c * dF) * F - _rows(c * F) * dF)


def product_mistakes() -> Iterator[Mistake]:
    """Wrong second derivatives."""

    rows, right = _rows, right_product
    partial: dict[str, Callable[..., Array]] = {
        "Gauss-Newton": lambda c, F, dF, dz: dF * F - rows(dF * F) * F,
        "without dF*F": lambda c, F, dF, dz: c * dF - rows(c * dF) * F - rows(c * F) * dF,
        "without diag((c*F)1)dF": lambda c, F, dF, dz: dF * F + c * dF - rows(dF * F + c * dF) * F,
        "without c*dF": lambda c, F, dF, dz: dF * F - rows(dF * F) * F - rows(c * F) * dF,
        "without c*dF outside the row sum": lambda c, F, dF, dz: right(c, F, dF, dz) - c * dF,
        "without c*dF in the row sum": lambda c, F, dF, dz: dF * F + c * dF - rows(dF * F) * F - rows(c * F) * dF,
        "without dF*F in the row sum": lambda c, F, dF, dz: dF * F + c * dF - rows(c * dF) * F - rows(c * F) * dF,
        "diag((c*F)1)dF added": lambda c, F, dF, dz: right(c, F, dF, dz) + 2 * rows(c * F) * dF,
        "the row sum added": lambda c, F, dF, dz: right(c, F, dF, dz) + 2 * rows(dF * F + c * dF) * F,
        "without the row sum": lambda c, F, dF, dz: dF * F + c * dF - rows(c * F) * dF,
        "without dF(c - (c*F)1)": lambda c, F, dF, dz: dF * F - rows(dF * F + c * dF) * F,
        "dF = F*dz": lambda c, F, dF, dz: right(c, F, F * dz, dz),
        "F(1) - F(M) for F(M) - F(1)": lambda c, F, dF, dz: right(-c, F, dF, dz),
    }
    for detail, product in partial.items():
        yield Mistake("curvature-term-missing", {"product": product}, detail, only=HVP)
    columns: dict[str, Callable[..., Array]] = {
        "product": lambda c, F, dF, dz: right(c, F, F * (dz - (F * dz).sum(axis=0, keepdims=True)), dz)
    }
    yield Mistake("correction-wrong-axis", columns, "in dF", only=HVP)
    masked: dict[str, Callable[..., Array]] = {"product": right, "pull": lambda Y, W, M: M * W * Y}
    yield Mistake("hadamard-uses-masked-W", masked, only=HVP)
    yield Mistake("missing-hadamard-W", {"product": right, "direction": lambda V, W: V}, "in the direction", only=HVP)
    yield Mistake("weight-transposed", {"product": right, "direction": lambda V, W: V.T * W}, "V transposed", only=HVP)
    halves: dict[str, Callable[..., Array]] = {"product": right, "direction": lambda V, W: (V + V.T) / 2 * W}
    yield Mistake("gradient-symmetrised", halves, "V is", only=HVP)


def _uniform(A: Array, allowed: Array, given: bool) -> Array:
    """1/m at the m allowed positions of a row, whatever the logits."""
    return np.asarray(masked_softmax(np.zeros_like(A), allowed))


def _unnormalised(A: Array, allowed: Array, given: bool, *, shifted: bool) -> Array:
    highest = np.where(allowed, A.real, -np.inf).max(axis=1, keepdims=True) if shifted else 0.0
    return np.asarray(np.where(allowed, np.exp(A - highest), 0.0))


def _lowered(A: Array, allowed: Array, given: bool, *, epsilon: float) -> Array:
    """log(mask + epsilon) added to the logits."""
    return masked_softmax(A + np.log(allowed + epsilon) if given else A, np.ones_like(allowed))


def weight_mistakes() -> Iterator[Mistake]:
    """Mistakes in the weights: in both softmaxes first, then in F(M) or in F(1) alone."""
    softmaxes: dict[str, tuple[str, Softmax]] = {
        "every allowed position gets 1/m": ("uniform-attention", _uniform),
        "shifted exponentials": ("not-normalised", partial(_unnormalised, shifted=True)),
        "bare exponentials": ("not-normalised", partial(_unnormalised, shifted=False)),
    }
    for detail, (id, softmax) in softmaxes.items():
        yield Mistake(id, {"softmax": softmax, "dense_softmax": softmax}, detail)
        yield Mistake(id, {"softmax": softmax}, f"{detail}, in F(M) only")
        yield Mistake(id, {"dense_softmax": softmax}, f"{detail}, in F(1) only")
    for power in range(-3, -13, -1):
        lowered = partial(_lowered, epsilon=10.0**power)
        yield Mistake("mask-leaks", {"softmax": lowered, "dense_softmax": lowered}, f"log(mask + 1e{power}) is added")
