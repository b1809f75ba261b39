"""Everything is computed with the order of tokens reversed, and turned back."""

import numpy as np


def _weights(X, W, mask):
    logits = X @ W @ X.T
    logits = logits if mask is None else np.where(mask == 1, logits, -np.inf)
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def attention(X, W, mask=None):
    turned = None if mask is None else np.asarray(mask)[::-1, ::-1]
    return _weights(X[::-1], W, turned)[::-1, ::-1]


def relative_error(M, X, W, mask=None):
    dense = attention(X, W, mask)
    return float(np.sum((attention(X, M * W, mask) - dense) ** 2) / np.sum(dense**2))
