"""Random problems and wrong gradients for the tests of the oracles. The formulas here are the tests' own."""

from dataclasses import dataclass

import numpy as np

from attnprune_verify.instance.problem import Instance
from attnprune_verify.oracle.inputs import fused

LOGITS = (0.1, 1.0, 10.0, 100.0, 1000.0)
FLOAT64, FLOAT32 = 2.0**-53, 2.0**-24


@dataclass
class Problem:
    M: np.ndarray
    X: np.ndarray
    W: np.ndarray
    lam: float
    mask: object

    @property
    def args(self):
        return self.M, self.X, self.W, self.lam, self.mask

    @property
    def at(self):
        return fused(*self.args)

    @property
    def samples(self):
        return self.X if self.X.ndim == 3 else self.X[None]

    @property
    def allowed(self):
        n = self.X.shape[-2]
        if self.mask is None:
            return np.ones((n, n), bool)
        return np.tri(n, dtype=bool) if isinstance(self.mask, str) else np.asarray(self.mask, bool)

    @property
    def instance(self):
        return Instance(self.X, self.W, M=self.M, mask=self.mask, lam=self.lam)


def random_problem(rng, index, *, largest=7, logits=None, dtype=np.float64):
    """n > d, n = 1, d = 1, batches, three kinds of mask, lam = 0 and huge lam all occur."""
    n, d, k = rng.integers(1, largest + 1), rng.integers(1, largest + 1), rng.integers(0, 3)
    X = rng.standard_normal((k, n, d) if k else (n, d))
    W = rng.standard_normal((d, d))
    size = np.abs(X @ W @ np.swapaxes(X, -1, -2)).max()
    W *= (LOGITS[index % len(LOGITS)] if logits is None else logits) / size
    M = rng.uniform(-0.2, 1.2, (d, d))
    mask = (None, "causal", (rng.random((n, n)) < 0.5) | np.eye(n, dtype=bool)[rng.permutation(n)])[index % 3]
    lam = float(np.float32((0.0, 0.1, 1e-4, 1e5)[index % 4]))
    return Problem(M.astype(dtype), X.astype(dtype), W.astype(dtype), lam, mask)


def softmax(logits, allowed):
    logits = np.where(allowed, logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def closed_form(problem, mistake=None):
    """The gradient, or one of the classic wrong ones."""
    M, W, allowed = problem.M, problem.W, problem.allowed
    total = np.zeros_like(W)
    for tokens in problem.samples:
        f = softmax(tokens @ (M * W) @ tokens.T, allowed)
        dense = softmax(tokens @ W @ tokens.T, allowed)
        c = f - dense
        a = c * f
        corrected = dense if mistake == "dense softmax in the correction" else f
        p = a if mistake == "missing p_2" else a - a.sum(axis=1, keepdims=True) * corrected
        p = p.T if mistake == "transposed p" else p
        total += tokens.T @ p @ tokens
    total /= len(problem.samples)
    return (total if mistake == "missing Hadamard W" else W * total) + W.dtype.type(problem.lam) * M


def one_entry_flipped(gradient, which):
    order = np.argsort(np.abs(gradient), axis=None)
    wrong = gradient.copy()
    wrong.flat[order[-1 if which == "largest" else gradient.size // 2]] *= -1
    return wrong


FORMULA_MISTAKES = ("missing p_2", "dense softmax in the correction", "transposed p", "missing Hadamard W")
WRONG = {
    **{mistake: (lambda problem, m=mistake: closed_form(problem, m)) for mistake in FORMULA_MISTAKES},
    "sign flipped": lambda problem: -closed_form(problem),
    "0.1 % too large": lambda problem: 1.001 * closed_form(problem),
    "0.1 % too small": lambda problem: 0.999 * closed_form(problem),
    "largest entry flipped": lambda problem: one_entry_flipped(closed_form(problem), "largest"),
    "median entry flipped": lambda problem: one_entry_flipped(closed_form(problem), "median"),
    "zero": lambda problem: np.zeros_like(problem.W),
}
