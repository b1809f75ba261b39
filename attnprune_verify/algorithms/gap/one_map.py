"""The KL of attention rows as a function of one map, everything else as given: value, slope, curvature.

With the keys given, row i's logits z_i(B) are affine in the mask B of the query weight, or in the weight itself where
B is that (and the other way round), and

    KL_i(B) = KL(f_i || softmax(z_i(B))) = log sum_j exp z_ij(B) - <f_i, z_i(B)> + sum_j f_ij log f_ij

is convex in z_i, with derivative softmax(z_i) - f_i. The mean is over the rows of all samples, the sum over heads.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.scores import Alibi
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.maps import Heads, Problem

_LEAST = 1e-12
"""The smallest scale of an entry against the largest: chosen, keeps quotients finite where a weight is 0."""


class Curved(NamedTuple):
    """The gradient at a mask, and softmax(z) for products with the Hessian there."""

    gradient: Array
    F: Array


class OneMap:
    """KL(f || F(B)), mean over rows, summed over heads, weight number `place` of F being B times `weight`.

    Parameters
    ----------
    problem : Fused or Heads
        The dense one, in float64, without a softcap.
    given : sequence of arrays
        The weights of F; the moved one is not looked at.
    place : int
        0 for W or W_Q, 1 for W_K.
    weight : array
        The dense weight where B is a mask; 1 on the support and 0 elsewhere where B is the weight.
    """

    def __init__(self, problem: Problem, given: tuple[Array, ...], place: int, weight: Array) -> None:
        weights = tuple(problem.weights.values())
        self.problem, self.given, self.place, self.weight = problem, given, place, weight
        self.rows = problem.k * problem.n
        self.constant = self._constant()
        queries, keys = problem.sides(weights)
        self.f = np.stack([_softmax(self._scores(h, queries[h] @ keys[h].T)) for h in range(problem.count)])
        with np.errstate(divide="ignore", invalid="ignore"):
            self.entropy = -float(np.where(self.f > 0, self.f * np.log(self.f), 0.0).sum())
        self.other = problem.sides(list(given))[1 - place]

    def _constant(self) -> Array:
        """The part of the logits, by head, that no mask changes: ALiBi's slopes, and -inf where nothing may be seen."""
        n, problem = self.problem.n, self.problem
        distance = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
        falls = [modifier.slopes for modifier in problem.modifiers if isinstance(modifier, Alibi)]
        added = -sum(falls, np.zeros(problem.heads))[:, np.newaxis, np.newaxis] * distance
        return np.where(problem.visible.allowed(n), added, -np.inf)

    def _scores(self, matrix: int, products: Array) -> Array:
        products += self.constant[matrix % len(self.constant)]
        if np.isnan(products).any() or np.isposinf(products).any():
            raise InvalidInstance("logits must be finite in float64; they overflow")
        return products

    def moved(self, weight: Array, *, bias: bool = True) -> Array:
        """The rows, (count, n, m), of the map that moves; a direction has no bias."""
        if isinstance(self.problem, Heads):
            side = self.problem.queries if self.place == 0 else self.problem.keys
            return side(weight, bias=bias)
        return self.problem.sides([weight])[0]

    def _products(self, moved: Array, matrix: int) -> Array:
        one, other = moved[matrix], self.other[matrix]
        return np.asarray(one @ other.T if self.place == 0 else other @ one.T)

    def logits(self, mask: Array) -> Iterator[Array]:
        """(n, n) matrix by matrix, -inf where nothing may be seen."""
        moved = self.moved(mask * self.weight)
        return (self._scores(h, self._products(moved, h)) for h in range(self.problem.count))

    def value(self, mask: Array) -> float:
        """The divergence."""
        total = -self.entropy
        for f, z in zip(self.f, self.logits(mask), strict=True):
            total += _gap_of_rows(f, z)[0]
        return total / self.rows

    def value_and_gradient(self, mask: Array) -> tuple[float, Array]:
        """The divergence and its derivative in the mask."""
        total, slopes = -self.entropy, []
        for h, (f, z) in enumerate(zip(self.f, self.logits(mask), strict=True)):
            value, F = _gap_of_rows(f, z)
            total += value
            slopes.append(self.times_other(F - f, h))
        return total / self.rows, self.pulled_back(np.stack(slopes))

    def curved(self, mask: Array) -> Curved:
        """Return the gradient at a mask and the attention there, which `product` needs."""
        F = np.stack([_softmax(z) for z in self.logits(mask)])
        return Curved(self.pulled_back(np.stack([self.times_other(F[h] - f, h) for h, f in enumerate(self.f)])), F)

    def product(self, at: Curved, direction: Array) -> Array:
        """The Hessian times a direction: dF = F * (dz - <F, dz>)."""
        moved, slopes = self.moved(direction * self.weight, bias=False), []
        for h, F in enumerate(at.F):
            dF = self._products(moved, h)
            dF *= F
            dF -= F * dF.sum(axis=1, keepdims=True)
            slopes.append(self.times_other(dF, h))
        return self.pulled_back(np.stack(slopes))

    def times_other(self, rows: Array, matrix: int) -> Array:
        """The derivative in the moved rows from that in the logits of one matrix."""
        return np.asarray((rows if self.place == 0 else rows.T) @ self.other[matrix])

    def pulled_back(self, slopes: Array) -> Array:
        """The derivative in the mask from that in the moved rows, (count, n, m)."""
        if isinstance(self.problem, Heads):
            back = self.problem.pull_back_queries if self.place == 0 else self.problem.pull_back_keys
            pulled = back(slopes)
        else:
            pulled = self.problem.pull_back(slopes, None)[0]
        return np.asarray(self.weight * pulled / self.rows)

    def scale(self, mask: Array) -> Array:
        """Approximate diagonal of the Hessian: w_ac^2 sum_i x_ia^2 v_ic, v the spread of the partners; > 0.

        Rotations are looked away from: they mix two features of a pair, whose spreads are averaged.
        """
        spreads = []
        for F, other in zip(self.curved(mask).F, self.other, strict=True):
            if self.place == 0:
                spreads.append(F @ np.square(other) - np.square(F @ other))
            else:
                spreads.append(F.T @ np.square(other))
        per_matrix = np.stack(spreads)  # (k*heads, n, m)
        problem = self.problem
        by_sample = per_matrix.reshape(problem.k, -1, *per_matrix.shape[1:])
        if isinstance(problem, Heads):
            layer = problem.layer
            if layer.rope is not None:
                first, second = layer.rope.pairs(layer.m)
                both = (by_sample[..., first] + by_sample[..., second]) / 2
                by_sample[..., first] = by_sample[..., second] = both
            if self.place == 1:
                by_sample = by_sample.reshape(problem.k, layer.kv_heads, layer.group, problem.n, -1).sum(axis=2)
            else:
                by_sample = by_sample * layer.scale**2
        found = np.einsum("kia,khic->ahc", np.square(problem.X), by_sample, optimize=True)
        size = np.square(self.weight) * found.reshape(self.weight.shape) / self.rows
        return np.asarray(np.maximum(size, _LEAST * size.max()) if size.max() > 0 else np.ones_like(size))


def _softmax(z: Array) -> Array:
    grown = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=1, keepdims=True))


def _gap_of_rows(f: Array, z: Array) -> tuple[float, Array]:
    """sum_i log sum_j exp z_ij - <f_i, z_i>, and softmax(z)."""
    shift = z.max(axis=1, keepdims=True)
    away = z - shift
    F = np.exp(away)
    sums = F.sum(axis=1, keepdims=True)
    F /= sums
    np.copyto(away, 0.0, where=f == 0)  # 0 times -inf
    return float(np.log(sums).sum() - np.vdot(f, away)), F
