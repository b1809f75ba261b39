"""Selection by ranks, not by thresholds."""

import numpy as np


def _ranks(scores, axis):
    return np.argsort(np.argsort(scores, axis=axis, kind="stable"), axis=axis, kind="stable")


def binary_mask(M, rho):
    M = np.asarray(M)
    return (_ranks(M.ravel(), 0) >= int(np.floor(rho * M.size))).reshape(M.shape) * 1.0


def magnitude_mask(weight, rho):
    return (_ranks(abs(np.ravel(weight)), 0) < int(np.floor(rho * np.size(weight)))).reshape(np.shape(weight))


def wanda_mask(weight, X, rho, *, prune_n=0, prune_m=0):
    scores = abs(weight) * np.linalg.norm(X.reshape(-1, X.shape[-1]), axis=0)
    if prune_m:
        grouped = scores.reshape(len(scores), -1, prune_m)
        return (_ranks(grouped, -1) < prune_n).reshape(scores.shape)
    return _ranks(scores, 1) < int(rho * scores.shape[1])
