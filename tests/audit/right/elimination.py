"""Baselines the long way: heaps, norms as a running mean, one inverse Hessian for the inputs that are left."""

import heapq

import numpy as np


def binary_mask(M, rho):
    kept = np.ones(M.size, np.int8)
    for _, place in heapq.nsmallest(int(rho * M.size), zip(M.ravel().tolist(), range(M.size), strict=True)):
        kept[place] = 0
    return kept.reshape(M.shape)


def magnitude_mask(weight, rho):
    return (1 - binary_mask(np.abs(weight), rho)).astype(bool).tolist()


def wanda_mask(weight, X, rho, *, prune_n=0, prune_m=0):
    squares, count = np.zeros(X.shape[-1]), 0
    for x in X[None] if X.ndim == 2 else X:
        squares *= count / (count + 1)
        count += 1
        squares += np.linalg.norm(x.astype(float), axis=0) ** 2 / count
    scores = np.abs(weight) * np.sqrt(squares)
    gone = np.zeros(weight.shape, bool)
    width = prune_m or scores.shape[1]
    fewest = prune_n if prune_m else int(scores.shape[1] * rho)
    for start in range(0, scores.shape[1], width):
        order = np.argsort(scores[:, start : start + width], axis=1, kind="stable")
        np.put_along_axis(gone, start + order[:, :fewest], True, 1)
    return gone


def wanda(weight, X, rho, *, prune_n=0, prune_m=0):
    return weight * ~wanda_mask(weight, X, rho, prune_n=prune_n, prune_m=prune_m)


def sparsegpt(weight, X, rho, *, prune_n=0, prune_m=0, blocksize=128, percdamp=0.01):
    W, X = weight.astype(float), (X if X.ndim == 3 else X[None]).astype(float)
    gone = np.zeros(W.shape, bool)
    if not prune_m and rho == 0:
        return W.astype(weight.dtype), gone
    tokens = X.reshape(-1, X.shape[-1])
    H = 2 / len(X) * (tokens.T @ tokens)
    dead = np.diag(H) == 0
    H[dead, dead], W[:, dead] = 1, 0
    H += percdamp * np.diag(H).mean() * np.eye(len(H))
    first = [np.linalg.inv(H[j:, j:])[0] for j in range(len(H))]
    scale = np.array([row[0] for row in first])
    for a in range(0, len(H), blocksize):
        b = min(a + blocksize, len(H))
        if not prune_m:
            scores = W[:, a:b] ** 2 / scale[a:b]
            last = min(int(scores.size * rho), scores.size - 1)
            gone[:, a:b] = scores <= np.partition(scores.ravel(), last)[last]
        for j in range(a, b):
            if prune_m and (j - a) % prune_m == 0:
                order = np.argsort(W[:, j : j + prune_m] ** 2 / scale[j : j + prune_m], axis=1, kind="stable")
                np.put_along_axis(gone, j + order[:, :prune_n], True, 1)
            W[:, j:] -= np.outer(np.where(gone[:, j], W[:, j], 0) / scale[j], first[j])
            W[gone[:, j], j] = 0
    return W.astype(weight.dtype), gone
