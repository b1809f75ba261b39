"""A right implementation, written plainly so that every wrong one is an edit of a line or two of this text."""

import numpy as np


def causal_mask(n):
    return np.tri(n)


def softmax(logits, mask):
    allowed = np.ones(logits.shape, dtype=bool) if mask is None else np.asarray(mask) == 1
    shift = np.max(np.where(allowed, logits, -np.inf), axis=1, keepdims=True)
    weights = np.where(allowed, np.exp(np.where(allowed, logits - shift, 0)), 0)
    F = weights / weights.sum(axis=1, keepdims=True)
    return F


def dense_attention(X, W, mask):
    logits = X @ W @ X.T
    return softmax(logits, mask)


def attention(X, W, mask=None):
    if X.ndim == 3:
        return np.stack([attention(x, W, mask) for x in X])
    logits = X @ W @ X.T
    return softmax(logits, mask)


def residual(M, X, W, mask):
    F = attention(X, M * W, mask)
    dense = dense_attention(X, W, mask)
    c = F - dense
    return F, dense, c


def p_of(F, dense, c):
    r = (c * F).sum(axis=1, keepdims=True)
    p = c * F - r * F
    return p


def loss(M, X, W, lam=0.0, mask=None):
    if X.ndim == 3:
        return np.mean([loss(M, x, W, 0.0, mask) for x in X]) + lam / 2 * (M * M).sum()
    F, dense, c = residual(M, X, W, mask)
    misfit = 0.5 * (c * c).sum()
    regular = 0.5 * lam * (M * M).sum()
    return misfit + regular


def gradient(M, X, W, lam=0.0, mask=None):
    if X.ndim == 3:
        return sum(gradient(M, x, W, 0.0, mask) for x in X) / len(X) + lam * M
    F, dense, c = residual(M, X, W, mask)
    p = p_of(F, dense, c)
    XpX = X.T @ p @ X
    G = W * XpX
    G = G + lam * M
    return G


def loss_and_gradient(M, X, W, lam=0.0, mask=None):
    return loss(M, X, W, lam, mask), gradient(M, X, W, lam, mask)


def hessian_vector_product(M, V, X, W, lam=0.0, mask=None):
    if X.ndim == 3:
        return sum(hessian_vector_product(M, V, x, W, 0.0, mask) for x in X) / len(X) + lam * V
    F, dense, c = residual(M, X, W, mask)
    dz = X @ (V * W) @ X.T
    dF = F * (dz - (F * dz).sum(axis=1, keepdims=True))
    s = (dF * F + c * dF).sum(axis=1, keepdims=True)
    r = (c * F).sum(axis=1, keepdims=True)
    dp = dF * F + c * dF - s * F - r * dF
    H = W * (X.T @ dp @ X)
    H = H + lam * V
    return H


def relative_error(M, X, W, mask=None):
    if X.ndim == 3:
        return np.mean([relative_error(M, x, W, mask) for x in X])
    F, dense, c = residual(M, X, W, mask)
    ratio = (c * c).sum() / (dense * dense).sum()
    return ratio


def factored_parts(M_Q, M_K, X, W_Q, W_K, mask):
    F = attention(X, (M_Q * W_Q) @ (M_K * W_K).T, mask)
    dense = dense_attention(X, W_Q @ W_K.T, mask)
    return F, dense, F - dense


def factored_loss(M_Q, M_K, X, W_Q, W_K, lam=0.0, mask=None):
    if X.ndim == 3:
        each = [factored_loss(M_Q, M_K, x, W_Q, W_K, 0.0, mask) for x in X]
        return np.mean(each) + lam / 2 * ((M_Q * M_Q).sum() + (M_K * M_K).sum())
    F, dense, c = factored_parts(M_Q, M_K, X, W_Q, W_K, mask)
    squares = (M_Q * M_Q).sum() + (M_K * M_K).sum()
    return 0.5 * (c * c).sum() + 0.5 * lam * squares


def factored_gradient(M_Q, M_K, X, W_Q, W_K, lam=0.0, mask=None):
    if X.ndim == 3:
        each = [factored_gradient(M_Q, M_K, x, W_Q, W_K, 0.0, mask) for x in X]
        return sum(a for a, _ in each) / len(X) + lam * M_Q, sum(b for _, b in each) / len(X) + lam * M_K
    F, dense, c = factored_parts(M_Q, M_K, X, W_Q, W_K, mask)
    Y = X.T @ p_of(F, dense, c) @ X
    G_Q = W_Q * (Y @ (M_K * W_K)) + lam * M_Q
    G_K = W_K * (Y.T @ (M_Q * W_Q)) + lam * M_K
    return G_Q, G_K


def smallest(values, count):
    gone = np.zeros(values.size, dtype=bool)
    order = np.argsort(values.ravel(), kind="stable")
    gone[order[:count]] = True
    return gone.reshape(values.shape)


def binary_mask(M, rho):
    count = int(np.floor(rho * M.size))
    gone = smallest(M, count)
    return np.where(gone, 0.0, 1.0)


def magnitude_mask(weight, rho):
    count = int(np.floor(rho * weight.size))
    return smallest(np.abs(weight), count)


class Result:
    def __init__(self, mask, M, trace):
        self.mask, self.M, self.trace = mask, M, trace


def prune_mask_gd(X, W, rho, lam, *, mask=None, eta=None, steps=100, momentum=0.0):
    M, v, trace = np.ones_like(W), np.zeros_like(W), []
    for _ in range(steps):
        g = gradient(M, X, W, lam, mask)
        v = momentum * v + g
        step = eta if eta is not None else guaranteed_step(M, g, X, W, lam, mask)
        M = M - step * v
        trace.append(loss(M, X, W, lam, mask))
    return Result(binary_mask(M, rho), M, trace)


def guaranteed_step(M, g, X, W, lam, mask):
    step = 1.0
    while loss(M - step * g, X, W, lam, mask) > loss(M, X, W, lam, mask) and step > 1e-30:
        step /= 2
    return step


def groups_of(scores, n, m):
    parts = [np.stack([smallest(row, n) for row in part]) for part in np.split(scores, scores.shape[1] // m, axis=1)]
    return np.concatenate(parts, axis=1)


def wanda_mask(weight, X, rho, *, prune_n=0, prune_m=0):
    norms = np.sqrt((X.reshape(-1, X.shape[-1]) ** 2).sum(axis=0))
    scores = np.abs(weight) * norms
    if prune_m:
        return groups_of(scores, prune_n, prune_m)
    count = int(scores.shape[1] * rho)
    return np.stack([smallest(row, count) for row in scores])


def sparsegpt(weight, X, rho, *, prune_n=0, prune_m=0, blocksize=128, percdamp=0.01):
    W = weight.astype(float)
    gone = np.zeros(W.shape, dtype=bool)
    if (prune_n == 0) if prune_m else (rho == 0):
        return W, gone
    X = (X if X.ndim == 3 else X[None]).astype(float)
    tokens = X.reshape(-1, X.shape[-1])
    H = 2 / len(X) * tokens.T @ tokens
    dead = np.diag(H) == 0
    H[dead, dead] = 1
    W[:, dead] = 0
    H = H + percdamp * np.mean(np.diag(H)) * np.eye(len(H))
    U = np.linalg.cholesky(np.linalg.inv(H)).T
    scale = np.diag(U)
    for a in range(0, W.shape[1], blocksize):
        b = min(a + blocksize, W.shape[1])
        if not prune_m:
            scores = (W[:, a:b] / scale[a:b]) ** 2
            index = int(scores.size * rho)
            gone[:, a:b] = scores <= np.sort(scores, axis=None)[index] if rho < 1 else True
        for j in range(a, b):
            if prune_m and j % prune_m == 0:
                scores = (W[:, j : j + prune_m] / scale[j : j + prune_m]) ** 2
                gone[:, j : j + prune_m] = groups_of(scores, prune_n, prune_m)
            error = np.where(gone[:, j], W[:, j], 0) / U[j, j]
            W[:, j] = np.where(gone[:, j], 0, W[:, j])
            W[:, j + 1 :] -= np.outer(error, U[j, j + 1 :])
    return W.astype(weight.dtype), gone
