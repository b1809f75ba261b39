"""Room for implementations that add up all n^2 positions one by one, index by index.

The running-error bound assumes sums over n terms, twice; a loop over all pairs (i, j) rounds n^2 times, each time
relative to the partial sum. What such loops add is at most n^2 u times the sum of absolute values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.truth.formulas import masked_softmax
from attnprune_verify.audit.truth.samples import Sample

__all__ = ["loop_error"]

Matrix = NDArray[np.float64]


def loop_error(function: str, sample: Sample, unit_roundoff: float) -> tuple[Any, ...]:
    """Per returned part, what adding up index by index may cost beyond the running-error bound."""
    batch = sample.X if sample.X.ndim == 3 else sample.X[None]
    count = len(batch) * sample.n**2 + sample.n + sample.d + 8
    return tuple(1.01 * count * unit_roundoff * size for size in _sizes(function, sample, batch.astype(np.float64)))


def _sizes(function: str, sample: Sample, batch: Matrix) -> tuple[Any, ...]:
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
    allowed = np.ones((sample.n, sample.n), dtype=bool) if sample.mask is None else sample.mask == 1
    with np.errstate(all="ignore"):
        F, dense = (masked_softmax(tokens @ weight @ tokens.T, allowed) for weight in fused)
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
