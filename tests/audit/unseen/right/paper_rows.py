"""The gradient as a sum over rows, each with its Jacobian written out."""

import numpy as np


def row(z, allowed):
    e = np.where(allowed, np.exp(z - z[allowed].max()), 0.0)
    return e / e.sum()


def gradient(M, X, W, lam=0.0, mask=None):
    if X.ndim == 3:
        raise ValueError("one sample")
    X, W, M = (np.asarray(a, dtype=np.result_type(X, W, M, np.float32)) for a in (X, W, M))
    found = lam * M
    for i, x in enumerate(X):
        allowed = np.ones(len(X), bool) if mask is None else np.asarray(mask[i]) != 0
        with np.errstate(over="ignore"):
            new, old = row(X @ (M * W).T @ x, allowed), row(X @ W.T @ x, allowed)
        jacobian = np.diag(new) - np.outer(new, new)
        found = found + W * np.outer(x, X.T @ (jacobian @ (new - old)))
    return found
