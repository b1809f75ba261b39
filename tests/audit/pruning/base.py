"""Pruning programs in NumPy, which the wrong ones of wrong.toml are edits of."""

import numpy as np

kept = {}


def norms_of(X):
    return np.linalg.norm(X.reshape(-1, X.shape[-1]), axis=0)


def smallest(scores, count):
    gone = np.zeros(scores.shape, bool)
    np.put_along_axis(gone, np.argsort(scores, 1, kind="stable")[:, :count], True, 1)
    return gone


def magnitude_mask(weight, rho):
    gone = np.zeros(weight.size, bool)
    sizes = np.abs(weight)
    count = int(weight.size * rho)
    gone[np.argsort(sizes.ravel(), kind="stable")[:count]] = True
    gone = gone.reshape(weight.shape)
    return gone


def wanda(weight, X, rho, *, prune_n=0, prune_m=0):
    scores = np.abs(weight) * norms_of(X)
    columns = weight.shape[1]
    if prune_m:
        gone = np.zeros(weight.shape, bool)
        for a in range(0, columns, prune_m):
            group = scores[:, a : a + prune_m]
            gone[:, a : a + prune_m] = smallest(group, prune_n)
    else:
        gone = smallest(scores, int(columns * rho))
    return np.where(gone, 0, weight), gone


def sparsegpt(weight, X, rho, *, prune_n=0, prune_m=0, blocksize=128, percdamp=0.01):
    W, x = np.array(weight, float), X.reshape(-1, X.shape[-1]).astype(float)
    H = 2 / (len(X) if X.ndim == 3 else 1) * x.T @ x
    dead = np.diag(H) == 0
    H[dead, dead] = 1
    W[:, dead] = 0
    H += percdamp * np.diag(H).mean() * np.eye(len(H))
    U = np.linalg.cholesky(np.linalg.inv(H)).T
    mask = np.zeros(W.shape, bool)
    for a in range(0, W.shape[1], blocksize):
        b = min(a + blocksize, W.shape[1])
        if not prune_m:
            scores = W[:, a:b] ** 2 / np.diag(U)[a:b] ** 2
            ranked = np.sort(scores, axis=None)
            cut = ranked[min(int(ranked.size * rho), ranked.size - 1)]
            mask[:, a:b] = scores <= cut if rho else False
        for j in range(a, b):
            if prune_m and (j - a) % prune_m == 0:
                part = slice(j, j + prune_m)
                scores = W[:, part] ** 2 / np.diag(U)[part] ** 2
                mask[:, part] = smallest(scores, prune_n)
            kept_ones = np.where(mask[:, j], 0, W[:, j])
            error = (W[:, j] - kept_ones) / U[j, j]
            W[:, j:] -= np.outer(error, U[j, j:])
            W[:, j] = kept_ones
    return W, mask


def pruner(weight, X, rho, *, prune_n=0, prune_m=0):
    scores = np.abs(weight) * norms_of(X)
    if prune_m:
        flat = scores.reshape(-1, prune_m)
        gone = smallest(flat, prune_n).reshape(scores.shape)
    else:
        gone = smallest(scores.reshape(1, -1), int(scores.size * rho)).reshape(scores.shape)
    return np.where(gone, 0, weight)
