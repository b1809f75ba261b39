"""The descent as a generator of iterates; the step by doubling and halving; a mapping is returned."""

from itertools import islice

import numpy as np


def weights_of(X, A, allowed):
    s = np.where(allowed, X @ A @ np.swapaxes(X, -1, -2), -np.inf)
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


class Problem:
    def __init__(self, X, W, lam, mask):
        self.X, self.W, self.lam = (X if X.ndim == 3 else X[None]), W, lam
        n = X.shape[-2]
        self.allowed = np.ones((n, n), bool) if mask is None else np.asarray(mask) == 1
        self.dense = weights_of(self.X, W, self.allowed)

    def loss(self, M):
        c = weights_of(self.X, M * self.W, self.allowed) - self.dense
        return 0.5 * (c * c).sum() / len(self.X) + 0.5 * self.lam * (M * M).sum()

    def gradient(self, M):
        F = weights_of(self.X, M * self.W, self.allowed)
        c = F - self.dense
        p = F * (c - (c * F).sum(axis=-1, keepdims=True))
        return self.W * np.einsum("kia,kij,kjb->ab", self.X, p, self.X) / len(self.X) + self.lam * M


def iterates(problem, eta, momentum):
    M, velocity = np.ones_like(problem.W), 0.0
    while True:
        yield M
        slope = problem.gradient(M)
        velocity = momentum * velocity + slope
        step = halved(problem, M, slope) if eta is None else eta
        M = M - step * velocity


def halved(problem, M, slope):
    step, here = 1.0, problem.loss(M)
    while problem.loss(M - step * slope) > here and step > 1e-30:
        step /= 2
    return step


def binary_mask(M, rho):
    kept = np.ones(M.size)
    kept[np.argsort(M, axis=None, kind="stable")[: int(np.floor(rho * M.size))]] = 0
    return kept.reshape(M.shape)


def prune_mask_gd(X, W, rho, lam, *, mask=None, eta=None, steps=100, momentum=0.0):
    M = next(islice(iterates(Problem(X, W, lam, mask), eta, momentum), steps, None))
    return {"mask": binary_mask(M, rho), "M": M}
