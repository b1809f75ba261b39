"""Losses of tokens in nats, from logits, and the divergence of two next-token distributions."""

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.instance.validate import Array


def log_probabilities(logits: Array) -> Array:
    """``log softmax`` over the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def token_losses(logits: Array, ids: NDArray[np.int64]) -> Array:
    """``-log p(ids[:, i + 1] | ids[:, :i + 1])``, (k, n - 1)."""
    log_p = log_probabilities(logits[:, :-1])
    return -np.take_along_axis(log_p, ids[:, 1:, np.newaxis], axis=-1)[..., 0]


def divergences(log_p: Array, log_q: Array) -> Array:
    """``KL(p || q) = sum_v p_v log(p_v / q_v)`` over the last axis, never below 0.

    Summed as ``p (r - 1 - log r)`` with r = q/p: no term is negative, so nothing cancels when p and q are close.
    """
    gap = log_q - log_p
    terms: Array = np.exp(log_p) * (np.expm1(gap) - gap)
    return np.asarray(terms.sum(axis=-1, dtype=np.float64))


def mean_loss(losses: Array) -> float:
    """The mean over all tokens, summed in float64."""
    return float(losses.astype(np.float64).mean())
