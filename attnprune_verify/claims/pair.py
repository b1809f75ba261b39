"""The loss of two masks over several heads, from its definition, in any arithmetic."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attnprune_verify.claims.quantities import Quantities, spectral_norm
from attnprune_verify.theory.arithmetic import FLOAT

__all__ = ["Pair", "PairPoint", "norm_of_pair"]


class PairPoint(NamedTuple):
    """At one (M_Q, M_K): c and p by head and row (allowed positions), the gradient of L_attn in both masks, keys."""

    c: list[list[Any]]
    p: list[list[Any]]
    floor: list[Any]
    G_Q: Any
    G_K: Any
    keys: list[Any]


class Pair:
    """X, W_Q, W_K, heads, key heads and scale of a case; `at` evaluates the definitions and the chain rule."""

    def __init__(self, q: Quantities) -> None:
        self.q = q
        self.heads, self.groups = int(q.case["heads"]), int(q.case["kv_heads"])
        self.m = np.shape(q.case["W_Q"])[1] // self.heads
        self.scale = q.number(float(q.case["scale"]))
        self.dense = self._softmaxes(q.W_Q, q.W_K)

    @property
    def entries(self) -> int:
        """N, of both masks together."""
        return int(np.size(self.q.case["W_Q"]) + np.size(self.q.case["W_K"]))

    @property
    def rows(self) -> int:
        """Rows with a choice, over all heads."""
        return self.heads * self.q.n_e

    def _sides(self, head: int) -> tuple[slice, slice]:
        group = head * self.groups // self.heads
        return slice(head * self.m, (head + 1) * self.m), slice(group * self.m, (group + 1) * self.m)

    def _softmaxes(self, A_Q: Any, A_K: Any) -> list[list[Any]]:
        found = []
        for head in range(self.heads):
            left, right = self._sides(head)
            logits = (self.q.X @ A_Q[:, left]) @ (self.q.X @ A_K[:, right]).T * self.scale
            found.append([self.q.softmax(row[allowed]) for row, allowed in zip(logits, self.q.allowed, strict=True)])
        return found

    def at(self, M_Q: Any, M_K: Any) -> PairPoint:
        """Everything at these masks."""
        q, A_Q, A_K = self.q, M_Q * self.q.W_Q, M_K * self.q.W_K
        zero = q.number(0.0)
        G_Q, G_K = q.number(np.zeros(np.shape(A_Q))), q.number(np.zeros(np.shape(A_K)))
        cs: list[list[Any]] = []
        ps: list[list[Any]] = []
        floors: list[Any] = []
        keys: list[Any] = []
        for head, (rows, dense) in enumerate(zip(self._softmaxes(A_Q, A_K), self.dense, strict=True)):
            left, right = self._sides(head)
            c = [s - f for s, f in zip(rows, dense, strict=True)]
            p = [s * (e - (e * s).sum()) for s, e in zip(rows, c, strict=True)]
            full = np.full((q.n, q.n), zero, dtype=object if q.arithmetic is not FLOAT else float)
            for i, row in enumerate(p):
                full[i, q.allowed[i]] = row
            key = q.X @ A_K[:, right]
            G_Q[:, left] = q.W_Q[:, left] * (q.X.T @ full @ key) * self.scale
            G_K[:, right] = G_K[:, right] + q.W_K[:, right] * (q.X.T @ full.T @ (q.X @ A_Q[:, left])) * self.scale
            cs, ps, keys = [*cs, c], [*ps, p], [*keys, key]
            floors += [q.smallest(s) for s in rows if len(s) > 1]
        return PairPoint(cs, ps, floors, G_Q, G_K, keys)

    def square(self, rows: list[list[Any]]) -> Any:
        """The sum of squares over heads and rows."""
        return sum((self.q.square(row) for head in rows for row in head), self.q.number(0.0))


def norm_of_pair(q: Quantities) -> Any:
    """k from its definition, as `theory.pair.pair_norm`."""
    X = q.X
    centred = X - X.sum(axis=0) / q.number(float(q.n))

    def widest(tokens: Any, W: Any) -> Any:
        norms = [tokens * column for column in W.T]
        return q.largest([np.linalg.norm(one, 2) if q.arithmetic is FLOAT else spectral_norm(one) for one in norms])

    return q.number(float(q.case["scale"])) * widest(X, q.W_Q) * widest(centred, q.W_K)
