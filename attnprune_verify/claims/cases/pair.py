"""The loss of two masks over several heads, from its definition, in any arithmetic."""

from typing import NamedTuple

import numpy as np

from attnprune_verify.claims.cases.eigenvalues import spectral_norm
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.theory.numbers.arithmetic import FLOAT


class PairPoint(NamedTuple):
    """Values at one (M_Q, M_K): c and p by head and row (allowed positions), L_attn's gradients in both masks, keys."""

    c: list[list[Lifted]]
    p: list[list[Lifted]]
    floor: list[Lifted]
    G_Q: Lifted
    G_K: Lifted
    keys: list[Lifted]


class Pair:
    """X, W_Q, W_K, heads, key heads and scale of a case; `at` evaluates the definitions and the chain rule.

    With `turns` token i's queries and keys are rotated by i quarter turns: a rotary head whose cosines are exact.
    """

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

    def _turned(self, rows: Lifted, way: int = 1) -> Lifted:
        """Row i by i quarter turns of each pair of features; a last feature without a partner stays."""
        if not self.q.case.get("turns"):
            return rows
        found = rows.copy()
        for i, row in enumerate(rows):
            for a in range(0, self.m - 1, 2):
                one, two = row[a], row[a + 1]
                for _ in range(way * i % 4):
                    one, two = -two, one
                found[i, a], found[i, a + 1] = one, two
        return found

    def _softmaxes(self, A_Q: Lifted, A_K: Lifted) -> list[list[Lifted]]:
        found = []
        for head in range(self.heads):
            left, right = self._sides(head)
            logits = self._turned(self.q.X @ A_Q[:, left]) @ self._turned(self.q.X @ A_K[:, right]).T * self.scale
            found.append([self.q.softmax(row[allowed]) for row, allowed in zip(logits, self.q.allowed, strict=True)])
        return found

    def at(self, M_Q: Lifted, M_K: Lifted) -> PairPoint:
        """Return the values at these masks."""
        q, A_Q, A_K = self.q, M_Q * self.q.W_Q, M_K * self.q.W_K
        zero = q.number(0.0)
        G_Q, G_K = q.number(np.zeros(np.shape(A_Q))), q.number(np.zeros(np.shape(A_K)))
        cs: list[list[Lifted]] = []
        ps: list[list[Lifted]] = []
        floors: list[Lifted] = []
        keys: list[Lifted] = []
        for head, (rows, dense) in enumerate(zip(self._softmaxes(A_Q, A_K), self.dense, strict=True)):
            left, right = self._sides(head)
            c = [s - f for s, f in zip(rows, dense, strict=True)]
            p = [s * (e - (e * s).sum()) for s, e in zip(rows, c, strict=True)]
            full = np.full((q.n, q.n), zero, dtype=object if q.arithmetic is not FLOAT else float)
            for i, row in enumerate(p):
                full[i, q.allowed[i]] = row
            key, query = self._turned(q.X @ A_K[:, right]), self._turned(q.X @ A_Q[:, left])
            pulled = q.X.T @ self._turned(full @ key, -1), q.X.T @ self._turned(full.T @ query, -1)
            G_Q[:, left] = q.W_Q[:, left] * pulled[0] * self.scale
            G_K[:, right] = G_K[:, right] + q.W_K[:, right] * pulled[1] * self.scale
            cs, ps, keys = [*cs, c], [*ps, p], [*keys, key]
            floors += [q.smallest(s) for s in rows if len(s) > 1]
        return PairPoint(cs, ps, floors, G_Q, G_K, keys)

    def square(self, rows: list[list[Lifted]]) -> Lifted:
        """The sum of squares over heads and rows."""
        return sum((self.q.square(row) for head in rows for row in head), self.q.number(0.0))


def norm_of_pair(q: Quantities) -> Lifted:
    """k from its definition, as `theory.pair.pair_norm`."""
    X = q.X
    centred = X if q.case.get("turns") else X - X.sum(axis=0) / q.number(float(q.n))

    def widest(tokens: Lifted, W: Lifted) -> Lifted:
        norms = [tokens * column for column in W.T]
        return q.largest([np.linalg.norm(one, 2) if q.arithmetic is FLOAT else spectral_norm(one) for one in norms])

    return q.number(float(q.case["scale"])) * widest(X, q.W_Q) * widest(centred, q.W_K)
