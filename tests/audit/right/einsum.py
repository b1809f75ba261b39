"""einsum over a batch throughout; a single sample is a batch of one."""

import numpy as np


def _softmax(X, W, mask):
    logits = np.einsum("kia,ab,kjb->kij", X, W, X)
    if mask is not None:
        logits = np.where(np.asarray(mask, dtype=bool), logits, -np.inf)
    logits = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return logits / np.einsum("kij->ki", logits)[..., None]


def _batch(X):
    return X if X.ndim == 3 else X[None]


def attention(X, W, mask=None):
    F = _softmax(_batch(X), W, mask)
    return F if X.ndim == 3 else F[0]


def loss_and_gradient(M, X, W, lam=0.0, mask=None):
    samples = _batch(X)
    F = _softmax(samples, np.einsum("ab,ab->ab", M, W), mask)
    c = F - _softmax(samples, W, mask)
    p = np.einsum("kij,kij->kij", c, F) - np.einsum("kil,kil,kij->kij", c, F, F)
    misfit = np.einsum("kij,kij->", c, c) / (2 * len(samples))
    value = misfit + lam / 2 * np.einsum("ab,ab->", M, M)
    return value, np.einsum("ab,kia,kij,kjb->ab", W, samples, p, samples) / len(samples) + lam * M


def loss(M, X, W, lam=0.0, mask=None):
    return loss_and_gradient(M, X, W, lam, mask)[0]


def gradient(M, X, W, lam=0.0, mask=None):
    return loss_and_gradient(M, X, W, lam, mask)[1]
