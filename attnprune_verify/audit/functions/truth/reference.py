"""The right result of a function on a sample, and the error a correct program may have, without the subject."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import attnprune_verify.model as model
from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.audit.functions.layer.sample import LAYERED, LayerSample
from attnprune_verify.audit.functions.layer.truth import (
    layer_bounds,
    layer_enclosures,
    layer_loops,
    layer_trusted,
    permuted_layer,
    stored_attention_error,
)
from attnprune_verify.audit.functions.truth.formulas import masked_softmax
from attnprune_verify.audit.functions.truth.samples import Sample
from attnprune_verify.oracle import ball, running_error

Matrix = NDArray[np.float64]
Bounds: TypeAlias = "tuple[Any, ...]"  # of every part: an array, or a number


def loop_error(function: str, sample: Sample, unit_roundoff: float) -> Bounds:
    """Extra rounding error, by returned part, of summing all n^2 positions one by one.

    The bound assumes sums over n terms, twice; a loop over all pairs (i, j) rounds n^2 times, each time relative to the
    partial sum: at most n^2 u times the sum of absolute values.
    """
    batch = sample.X if sample.X.ndim == 3 else sample.X[None]
    count = len(batch) * sample.n**2 + sample.n + sample.d + 8
    return tuple(1.01 * count * unit_roundoff * size for size in _sizes(function, sample, batch.astype(np.float64)))


def _sizes(function: str, sample: Sample, batch: Matrix) -> Bounds:
    W, M, V = (np.abs(getattr(sample, name).astype(float)) for name in ("W", "M", "V"))
    if function in ("gradient", "loss_and_gradient", "hessian_vector_product"):
        dense = sample.W.astype(np.float64)
        moved = sample.V.astype(np.float64) * dense if function == "hessian_vector_product" else None
        inner = _averaged(sample, batch, (sample.M.astype(np.float64) * dense, dense), moved)
        whole = W * inner + sample.lam * (V if moved is not None else M)
        return (0.0, whole) if function == "loss_and_gradient" else (whole,)
    if function == "factored_gradient":
        W_Q, W_K, M_Q, M_K = (getattr(sample, name).astype(float) for name in ("W_Q", "W_K", "M_Q", "M_K"))
        fused = (M_Q * W_Q) @ (M_K * W_K).T, W_Q @ W_K.T
        inner = _averaged(sample, batch, fused, None)
        return (
            np.abs(W_Q) * (inner @ np.abs(M_K * W_K)) + sample.lam * np.abs(M_Q),
            np.abs(W_K) * (inner.T @ np.abs(M_Q * W_Q)) + sample.lam * np.abs(M_K),
        )
    return (0.0,)  # the bounds of the others count every position already


def _averaged(sample: Sample, batch: Matrix, fused: tuple[Matrix, Matrix], moved: Matrix | None) -> Matrix:
    return np.asarray(np.mean([_inner(sample, tokens, fused, moved) for tokens in batch], axis=0))


def _inner(sample: Sample, tokens: Matrix, fused: tuple[Matrix, Matrix], moved: Matrix | None) -> Matrix:
    """|X|^T |p| |X|, or with the parts of dp when the weights move."""
    with np.errstate(all="ignore"):
        F, dense = (masked_softmax(tokens @ weight @ tokens.T, sample.allowed) for weight in fused)
    c = np.abs(F - dense)
    if moved is not None:
        dz = tokens @ moved @ tokens.T
        dF = F * np.abs(dz - (F * dz).sum(axis=1, keepdims=True))
        first = dF * (F + c)
        sizes = first + first.sum(axis=1, keepdims=True) * F + (c * F).sum(axis=1, keepdims=True) * dF
    else:
        sizes = c * F + (c * F).sum(axis=1, keepdims=True) * F
    columns = np.abs(tokens)
    return np.asarray(columns.T @ sizes @ columns)


# The functions whose values ball arithmetic encloses.
VALUED = (
    "attention",
    "loss",
    "gradient",
    "loss_and_gradient",
    "hessian_vector_product",
    "relative_error",
    "factored_loss",
    "factored_gradient",
)
ENCLOSED = (*VALUED, *LAYERED)
MAPS = ("attention", "layer_attention")
"""The functions that return weights of attention."""


@dataclass(frozen=True)
class Component:
    """One returned array or number: the true value to within `radius`, and the running-error bound around it."""

    value: Matrix
    radius: Matrix
    bound: Matrix


def parameters(function: str, sample: Sample) -> list[Any]:
    """The positional arguments of a call on this sample; the mask is of the arrays' dtype, as tensors would need it."""
    given = sample.arguments(FUNCTIONS[function].arguments)
    return [_given(value, sample) for value in given]


def _given(value: Any, sample: Sample) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    return np.ascontiguousarray(value.astype(sample.X.dtype) if value is sample.mask else value)


def reference(function: str, sample: Sample, unit_roundoff: float | None = None) -> tuple[Component, ...]:
    """The enclosed values with running-error bounds for `unit_roundoff`; default: that of the contract's precision."""
    u = sample.unit_roundoff if unit_roundoff is None else unit_roundoff
    key = ("reference", function, u)
    if key not in sample.memo:
        enclosures = _enclosed(function, sample)
        sample.memo[key] = tuple(
            Component(enclosure.midpoint, enclosure.radius, np.asarray(bound + more, dtype=float))
            for enclosure, bound, more in zip(enclosures, *_bounds(function, sample, u), strict=True)
        )
    found: tuple[Component, ...] = sample.memo[key]
    return found


def rounding_bounds(function: str, sample: Sample) -> tuple[Matrix, ...]:
    """The running-error bounds alone."""
    pairs = zip(*_bounds(function, sample, sample.unit_roundoff), strict=True)
    return tuple(np.asarray(bound + more, dtype=float) for bound, more in pairs)


def _bounds(function: str, sample: Sample, u: float) -> tuple[Bounds, Bounds]:
    """The running-error bound of every part, and what loops over single positions may cost beyond it."""
    if isinstance(sample, LayerSample):
        return layer_bounds(function, sample, u), layer_loops(function, sample, u)
    return _BOUNDS[function](sample, u), loop_error(function, sample, u)


def _enclosed(function: str, sample: Sample) -> tuple[ball.Enclosure, ...]:
    key = ("enclosure", function)
    if key not in sample.memo:
        sample.memo[key] = (
            layer_enclosures(function, sample) if isinstance(sample, LayerSample) else _ENCLOSURES[function](sample)
        )
    found: tuple[ball.Enclosure, ...] = sample.memo[key]
    return found


def _plain(function: str) -> Callable[[Sample], tuple[ball.Enclosure, ...]]:
    def enclosed(sample: Sample) -> tuple[ball.Enclosure, ...]:
        value = getattr(ball, function)(*parameters(function, sample))
        return value if isinstance(value, tuple) else (value,)

    return enclosed


def _relative_error(sample: Sample) -> tuple[ball.Enclosure, ...]:
    """||F(M) - F(1)||^2 is twice the loss without regulariser; ||F(1)||^2 has no cancellation."""
    lower = upper = 0.0
    batch = sample.X if sample.X.ndim == 3 else sample.X[None]
    for tokens in batch:
        misfit = ball.loss(sample.M, tokens, sample.W, 0.0, sample.mask)
        dense = ball.attention(tokens, sample.W, sample.mask)
        few = 1 + (tokens.shape[0] ** 2 + 4) * 2.0**-52  # rounding of the sum of squares
        least = float((np.maximum(dense.lower, 0.0) ** 2).sum()) / few
        most = float((dense.upper**2).sum()) * few
        lower += 2 * max(float(misfit.lower), 0.0) / most / len(batch)
        upper += 2 * float(misfit.upper) / least / len(batch)
    slack = 1 + 2.0**-50
    return (ball.Enclosure(np.asarray(lower / slack), np.asarray(upper * slack)),)


_ENCLOSURES: dict[str, Callable[[Sample], tuple[ball.Enclosure, ...]]] = {
    **{name: _plain(name) for name in VALUED},
    "loss_and_gradient": lambda sample: (*_enclosed("loss", sample), *_enclosed("gradient", sample)),
    "relative_error": _relative_error,
}


def _pair(sample: Sample) -> tuple[Any, Any, Any, Any, Any]:
    return sample.M_Q, sample.M_K, sample.X, sample.W_Q, sample.W_K


def _relative_error_bound(sample: Sample, u: float) -> Bounds:
    batch = sample.X if sample.X.ndim == 3 else sample.X[None]
    total = 0.0
    for tokens in batch:
        dense = ball.attention(tokens, sample.W, sample.mask).midpoint
        size = float((dense**2).sum())
        error_of_size = float((2 * dense * running_error.attention_bound(tokens, sample.W, sample.mask, u)).sum())
        misfit = 2 * float(ball.loss(sample.M, tokens, sample.W, 0.0, sample.mask).upper)
        error_of_misfit = 2 * running_error.loss_bound(sample.M, tokens, sample.W, 0.0, sample.mask, u)
        rounding = (tokens.shape[0] ** 2 + 8) * u
        total += (error_of_misfit + misfit * (error_of_size / size + rounding)) / size
    return (1.01 * total / len(batch),)


_BOUNDS: dict[str, Callable[[Sample, float], Bounds]] = {
    "attention": lambda sample, u: (running_error.attention_bound(sample.X, sample.W, sample.mask, u),),
    "loss": lambda sample, u: (running_error.loss_bound(sample.M, sample.X, sample.W, sample.lam, sample.mask, u),),
    "gradient": lambda sample, u: (
        running_error.gradient_bound(sample.M, sample.X, sample.W, sample.lam, sample.mask, u),
    ),
    "loss_and_gradient": lambda sample, u: (
        running_error.loss_bound(sample.M, sample.X, sample.W, sample.lam, sample.mask, u),
        running_error.gradient_bound(sample.M, sample.X, sample.W, sample.lam, sample.mask, u),
    ),
    "hessian_vector_product": lambda sample, u: (
        running_error.hessian_vector_product_bound(sample.M, sample.V, sample.X, sample.W, sample.lam, sample.mask, u),
    ),
    "relative_error": _relative_error_bound,
    "factored_loss": lambda sample, u: (running_error.factored_loss_bound(*_pair(sample), sample.lam, sample.mask, u),),
    "factored_gradient": lambda sample, u: running_error.factored_gradient_bound(
        *_pair(sample), sample.lam, sample.mask, u
    ),
}


def trusted(function: str, sample: Sample) -> tuple[Matrix, ...]:
    """The library's own floating-point result, in float32 unless the sample is in float64."""
    if isinstance(sample, LayerSample):
        return layer_trusted(function, sample)
    dtype = np.float64 if sample.unit_roundoff < 2.0**-40 else np.float32
    given = [value.astype(dtype) if isinstance(value, np.ndarray) else value for value in parameters(function, sample)]
    value = getattr(model, function)(*given)
    return tuple(np.asarray(part) for part in value) if isinstance(value, tuple) else (np.asarray(value),)


def spread(function: str, sample: Sample) -> tuple[float, ...]:
    """The largest error of the trusted implementation, in its precision, over random orders of tokens and features.

    Formats of 16 bits magnify the errors of float32 as their roundings are coarser.
    """
    key = ("spread", function)
    if key not in sample.memo:
        truth = [part.value for part in reference(function, sample)]
        rng = np.random.default_rng(sample.seed)
        largest = [0.0] * len(truth)
        for _ in range(8 if sample.work < 4000 else 2):
            moved, back = permuted(sample, rng)
            for index, part in enumerate(back(function, trusted(function, moved))):
                largest[index] = max(largest[index], float(np.linalg.norm(part - truth[index])))
        coarser = max(1.0, sample.unit_roundoff / 2.0**-24) if sample.precision.short else 1.0
        stored = 0.0
        if function == "layer_loss" and isinstance(sample, LayerSample):
            stored = stored_attention_error(sample)
        sample.memo[key] = tuple(max(coarser * one, stored) for one in largest)
    found: tuple[float, ...] = sample.memo[key]
    return found


def permuted(
    sample: Sample, rng: np.random.Generator
) -> tuple[Sample, Callable[[str, tuple[Matrix, ...]], tuple[Matrix, ...]]]:
    """The sample with tokens, features and inner features in another order, and how to bring results back."""
    if isinstance(sample, LayerSample):
        return permuted_layer(sample, rng)
    tokens, features, inner = (rng.permutation(size) for size in (sample.n, sample.d, sample.W_Q.shape[1]))
    square, pair = np.ix_(features, features), np.ix_(features, inner)
    moved = sample.changed(
        X=sample.X[..., tokens, :][..., features],
        mask=None if sample.mask is None else sample.mask[np.ix_(tokens, tokens)],
        **{name: getattr(sample, name)[square] for name in ("W", "M", "V")},
        **{name: getattr(sample, name)[pair] for name in ("W_Q", "W_K", "M_Q", "M_K")},
    )

    def back(function: str, parts: tuple[Matrix, ...]) -> tuple[Matrix, ...]:
        restored = []
        for part in parts:
            array = np.array(part)
            if array.ndim:
                target = np.empty_like(array)
                if function == "attention":
                    target[..., tokens[:, None], tokens] = array
                else:
                    target[pair if function.startswith("factored") else square] = array
                array = target
            restored.append(array)
        return tuple(restored)

    return moved, back
