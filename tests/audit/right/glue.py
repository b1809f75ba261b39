"""Everything else, given someone's softmax over a mask: for implementations that differ in the softmax alone."""

import numpy as np


def functions_of(softmax):
    """The contract's functions on top of `softmax(logits, allowed)`, for one sample or a batch."""

    def attention(X, W, mask=None):
        if X.ndim == 3:
            return np.stack([attention(x, W, mask) for x in X])
        allowed = np.ones((len(X), len(X)), dtype=bool) if mask is None else mask != 0
        return softmax((X @ W) @ X.T, allowed)

    def parts(X, A, B, mask):
        F = attention(X, A, mask)
        c = F - attention(X, B, mask)
        return F, c, F * (c - np.sum(F * c, axis=-1, keepdims=True))

    def loss(M, X, W, lam=0.0, mask=None):
        samples = X if X.ndim == 3 else X[None]
        return np.mean([0.5 * np.sum(parts(x, M * W, W, mask)[1] ** 2) for x in samples]) + 0.5 * lam * np.sum(M**2)

    def gradient(M, X, W, lam=0.0, mask=None):
        samples = X if X.ndim == 3 else X[None]
        return W * np.mean([x.T @ parts(x, M * W, W, mask)[2] @ x for x in samples], axis=0) + lam * M

    def loss_and_gradient(M, X, W, lam=0.0, mask=None):
        return loss(M, X, W, lam, mask), gradient(M, X, W, lam, mask)

    def hessian_vector_product(M, V, X, W, lam=0.0, mask=None):
        total = 0
        for x in X if X.ndim == 3 else X[None]:
            F, c, _ = parts(x, M * W, W, mask)
            dz = x @ (V * W) @ x.T
            dF = F * (dz - np.sum(F * dz, axis=-1, keepdims=True))
            inner = c - np.sum(F * c, axis=-1, keepdims=True)
            dp = dF * inner + F * (dF - np.sum(dF * c + F * dF, axis=-1, keepdims=True))
            total = total + W * (x.T @ dp @ x)
        return total / (len(X) if X.ndim == 3 else 1) + lam * V

    def relative_error(M, X, W, mask=None):
        samples = X if X.ndim == 3 else X[None]
        dense = [attention(x, W, mask) for x in samples]
        each = [
            np.sum((attention(x, M * W, mask) - F) ** 2) / np.sum(F**2) for x, F in zip(samples, dense, strict=True)
        ]
        return float(np.mean(each))

    def factored_loss(M_Q, M_K, X, W_Q, W_K, lam=0.0, mask=None):
        samples = X if X.ndim == 3 else X[None]
        pruned, full = (M_Q * W_Q) @ (M_K * W_K).T, W_Q @ W_K.T
        misfit = np.mean([0.5 * np.sum(parts(x, pruned, full, mask)[1] ** 2) for x in samples])
        return misfit + 0.5 * lam * (np.sum(M_Q**2) + np.sum(M_K**2))

    def factored_gradient(M_Q, M_K, X, W_Q, W_K, lam=0.0, mask=None):
        samples = X if X.ndim == 3 else X[None]
        pruned, full = (M_Q * W_Q) @ (M_K * W_K).T, W_Q @ W_K.T
        Y = np.mean([x.T @ parts(x, pruned, full, mask)[2] @ x for x in samples], axis=0)
        return W_Q * (Y @ (M_K * W_K)) + lam * M_Q, W_K * (Y.T @ (M_Q * W_Q)) + lam * M_K

    names = (attention, loss, gradient, loss_and_gradient, hessian_vector_product, relative_error)
    return {function.__name__: function for function in (*names, factored_loss, factored_gradient)}
