"""Blocks of three rows; nothing n x n is kept."""

import numpy as np


def _rows(M, X, W, mask):
    for start in range(0, len(X), 3):
        rows = slice(start, start + 3)
        allowed = True if mask is None else mask[rows] > 0
        both = []
        for weight in (M * W, W):
            logits = np.where(allowed, X[rows] @ (weight @ X.T), -np.inf)
            logits = np.exp(logits - logits.max(axis=1, keepdims=True))
            both.append(logits / logits.sum(axis=1, keepdims=True))
        yield rows, both[0], both[0] - both[1], both[1]


def loss(M, X, W, lam=0.0, mask=None):
    return sum(float((c**2).sum()) for _, _, c, _ in _rows(M, X, W, mask)) / 2 + lam / 2 * float((M**2).sum())


def gradient(M, X, W, lam=0.0, mask=None):
    total = np.zeros_like(W)
    for rows, F, c, _ in _rows(M, X, W, mask):
        cF = c * F
        total += X[rows].T @ (cF @ X - cF.sum(axis=1, keepdims=True) * (F @ X))
    return W * total + lam * M


def relative_error(M, X, W, mask=None):
    pairs = [(float((c**2).sum()), float((dense**2).sum())) for _, _, c, dense in _rows(M, X, W, mask)]
    return sum(error for error, _ in pairs) / sum(size for _, size in pairs)
