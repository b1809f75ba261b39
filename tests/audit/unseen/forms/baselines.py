"""Baselines that stream: sums of squares sequence by sequence, a sweep that updates lazily behind each block."""

import numpy as np


class Streamed:
    def __init__(self, width):
        self.gram, self.count = np.zeros((width, width)), 0

    def add(self, tokens):
        self.gram += np.asarray(tokens, float).T @ np.asarray(tokens, float)
        self.count += 1


def gathered(X):
    stream = Streamed(X.shape[-1])
    for sequence in X if X.ndim == 3 else [X]:
        stream.add(sequence)
    return stream


def lowest(scores, count):
    gone = np.zeros(scores.shape, bool)
    np.put_along_axis(gone, np.argsort(scores, axis=-1, kind="stable")[..., :count], True, axis=-1)
    return gone


def magnitude_mask(weight, rho):
    size = np.abs(weight).ravel()
    return lowest(size, int(np.floor(rho * size.size))).reshape(weight.shape)


def wanda_mask(weight, X, rho, *, prune_n=0, prune_m=0):
    norms = np.sqrt(np.diag(gathered(X).gram))
    scores = np.abs(weight) * norms
    if prune_m:
        return lowest(scores.reshape(len(weight), -1, prune_m), prune_n).reshape(weight.shape)
    return lowest(scores, int(weight.shape[1] * rho))


def wanda(weight, X, rho, *, prune_n=0, prune_m=0):
    return np.where(wanda_mask(weight, X, rho, prune_n=prune_n, prune_m=prune_m), 0, weight)


def upper(stream, percdamp):
    H = 2 * stream.gram / stream.count
    dead = np.diag(H) == 0
    H[dead, dead] = 1
    H[np.diag_indices_from(H)] += percdamp * np.diag(H).mean()
    return np.linalg.cholesky(np.linalg.inv(H)).T, dead


def sparsegpt(weight, X, rho, *, prune_n=0, prune_m=0, blocksize=128, percdamp=0.01):
    W, gone = np.array(weight, float), np.zeros(weight.shape, bool)
    if (prune_n == 0) if prune_m else (rho == 0):
        return W.astype(weight.dtype), gone
    U, dead = upper(gathered(X), percdamp)
    W[:, dead] = 0
    for a in range(0, W.shape[1], blocksize):
        b = min(a + blocksize, W.shape[1])
        errors = np.zeros((len(W), b - a))
        if not prune_m:
            scores = (W[:, a:b] / np.diag(U)[a:b]) ** 2
            at = int(scores.size * rho)
            gone[:, a:b] = scores <= np.sort(scores, axis=None)[at] if at < scores.size else True
        for j in range(a, b):
            if prune_m and (j - a) % prune_m == 0:
                scores = (W[:, j : j + prune_m] / np.diag(U)[j : j + prune_m]) ** 2
                gone[:, j : j + prune_m] = lowest(scores, prune_n)
            errors[:, j - a] = np.where(gone[:, j], W[:, j], 0) / U[j, j]
            W[:, j] = np.where(gone[:, j], 0, W[:, j])
            W[:, j + 1 : b] -= np.outer(errors[:, j - a], U[j, j + 1 : b])
        W[:, b:] -= errors @ U[a:b, b:]
    return W.astype(weight.dtype), gone
