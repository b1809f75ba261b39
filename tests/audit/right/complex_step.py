"""Derivatives by steps of 1e-30 i, which cancel nothing: entry by entry, and along V."""

import numpy as np


def softmax(X, A, mask):
    S = X @ A @ X.T
    allowed = np.ones(S.shape, bool) if mask is None else np.asarray(mask) > 0
    top = np.where(allowed, S.real, -np.inf).max(1, keepdims=True)
    E = np.where(allowed, np.exp(np.where(allowed, S - top, 0)), 0)
    return E / E.sum(1, keepdims=True)


def gradient(M, X, W, lam=0.0, mask=None):
    c = softmax(X, M * W, mask) - softmax(X, W, mask)
    G = np.zeros(M.shape)
    for place in np.ndindex(*M.shape):
        moved = M.astype(complex)
        moved[place] += 1e-30j
        G[place] = (c * softmax(X, moved * W, mask).imag).sum() / 1e-30
    return G + lam * M


def hessian_vector_product(M, V, X, W, lam=0.0, mask=None):
    moved = M.astype(complex) + 1e-30j * V  # in complex64 the step would underflow
    F = softmax(X, moved * W, mask)
    c = F - softmax(X, W, mask)
    p = F * (c - (F * c).sum(1, keepdims=True))
    return (W * (X.T @ p @ X) + lam * moved).imag / 1e-30
