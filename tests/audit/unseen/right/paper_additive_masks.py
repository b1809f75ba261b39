"""Forbidden positions get -inf added to their logits; scipy takes the softmax."""

import numpy as np
from scipy.special import log_softmax


def attention(X, W, mask=None):
    added = 0.0 if mask is None else np.where(np.asarray(mask) > 0, 0.0, -np.inf)
    return np.exp(log_softmax(X @ W @ np.swapaxes(X, -1, -2) + added, axis=-1))


def loss(M, X, W, lam=0.0, mask=None):
    change = attention(X, M * W, mask) - attention(X, W, mask)
    return 0.5 * np.vdot(change, change) / (len(X) if X.ndim == 3 else 1) + 0.5 * lam * np.vdot(M, M)
