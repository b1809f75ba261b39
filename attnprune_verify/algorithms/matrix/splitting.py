"""Places of the zeros by operator splitting: least squares over all weights on one side, the budget on the other.

The splitting and its adaptive schedule of penalties are those of ALPS (Meng, Behdin, Wang, Mazumder, arXiv 2406.07831);
the metric on the outputs and the annealed schedule are ours. For f(W) = tr((W - T)^T H (W - T) G) / 2 and a copy D that
obeys the budget,

::

    W = argmin f(W) + (penalty / 2) ||W - D + V / penalty||^2
    D = W + V / penalty with all but the largest entries set to 0
    V = V + penalty (W - D)

With H = A diag(a) A^T and G = B diag(b) B^T the first step is exact and cheap: H W G + penalty W = R has the solution
A [(A^T R B) / (a b^T + penalty)] B^T. Both metrics are brought to unit diagonals first, so that entries compare.

The adaptive schedule takes about thirty iterations whatever the metrics. Its penalties start at 0.1, far above most
curvatures a b^T where those are spread widely: what it finds is then worse than it need be. The annealed schedule goes
from 0.3 to 4 times their geometric mean in thirteen iterations, W taken 1.4 times as far as the least squares go.
"""

from __future__ import annotations

from math import exp

from array_api_compat import device

from attnprune_verify.algorithms.arrays import AnyArray, diagonal, is_large, masked, swapped, xp_of
from attnprune_verify.algorithms.matrix.budget import Budget
from attnprune_verify.algorithms.matrix.two_sided import Pruned, by_block, in_metric, side_by_side

_PENALTY, _ITERATIONS, _LOOK_EVERY, _SETTLED_FROM = 0.1, 300, 3, 30  # ALPS's program
_GROWTH = ((0.1, 1.3), (0.005, 1.2), (0.0, 1.1))  # factor of the penalty where more than this share of the kept changed
_SETTLED = 0.0003  # ALPS's program

_ANNEALED, _FIRST, _LAST, _BEYOND = 13, 0.3, 4.0, 0.4
"""Chosen: of some twenty settings with eight to sixteen iterations the least time for no more than 0.96 of the adaptive
schedule's objective (`python benchmarks/paper_layer.py`, smaller sizes). Two steps of refit are then enough."""
_SPREAD = 0.15
"""Geometric mean of the curvatures (their mean is 1) below which annealing is used: from 0.4 on twelve iterations
leave 1 to 4 % more than the adaptive schedule's thirty, at 0.13 and below they leave less (`--decay 0.4`, 0.6)."""


def split(
    target: AnyArray, H: AnyArray, G: AnyArray | None, budget: Budget, *, annealed: bool | None = False
) -> Pruned:
    """Prune `target` (blocks, d, m) in the metric of H (d, d) and G (blocks, m, m); None is the identity.

    Iterates in float32: they only decide which weights are kept. What is returned is W on them, to be refitted.

    Parameters
    ----------
    annealed : bool or None
        Which schedule; None anneals large matrices whose curvatures are spread widely.
    """
    problem = _Splitting(target, H, G)
    if annealed is None:
        annealed = is_large(target) and problem.middle < _SPREAD
    return problem.finish((_anneal if annealed else _adapt)(problem, budget), budget)


def _anneal(problem: _Splitting, budget: Budget) -> AnyArray:
    """W after a fixed number of iterations, the penalty growing geometrically.

    With U = V / penalty and Z = W + U, relaxed, D is Z where it is kept and the next U is Z where it is not.
    """
    penalties = [problem.middle * _FIRST * (_LAST / _FIRST) ** (i / (_ANNEALED - 1)) for i in range(_ANNEALED)]
    D = W = problem.project(problem.target, budget)
    U = problem.xp.zeros_like(D)
    for penalty, following in zip(penalties, [*penalties[1:], penalties[-1]], strict=True):
        W = problem.least_squares(problem.slope + penalty * (D - U), penalty)
        Z = (1 + _BEYOND) * W - _BEYOND * D + U
        D = problem.project(Z, budget)
        U = (Z - D) * (penalty / following)
    return W


def _adapt(problem: _Splitting, budget: Budget) -> AnyArray:
    """W where the support has settled, the penalty growing by how much of it changes."""
    xp = problem.xp
    start = problem.project(problem.target, budget)
    penalty, growing = _PENALTY, False
    W, D, V, support = start, start, xp.zeros_like(start), start != 0
    for iteration in range(1, _ITERATIONS + 1):
        W = problem.least_squares(problem.slope - V + penalty * D, penalty)
        D = problem.project(W + V / penalty, budget)
        V = V + penalty * (W - D)
        if iteration % _LOOK_EVERY:
            continue
        now = D != 0
        changed, kept = int(xp.count_nonzero(now != support)), max(1, int(xp.count_nonzero(now)))
        support = now
        if changed > _GROWTH[1][0] * kept or (changed and growing):
            growing = True
            penalty *= next(factor for share, factor in _GROWTH if changed > share * kept)
        elif growing:
            break
        else:  # too stiff from the beginning: nothing moved
            penalty /= 5
            if changed:
                D, V = start, xp.zeros_like(start)
        if iteration >= _SETTLED_FROM and changed < _SETTLED * kept:
            break
    return W


class _Splitting:
    """The problem in units in which both metrics have a diagonal of ones."""

    def __init__(self, target: AnyArray, H: AnyArray, G: AnyArray | None) -> None:
        self.xp = xp = xp_of(target, H)
        of_inputs = xp.sqrt(diagonal(H))
        self.units = of_inputs[:, None]
        H = H / (of_inputs[:, None] * of_inputs[None, :])
        a, self.A = _decomposed(H)
        curvature, self.middle = a[:, None], float(xp.mean(xp.log(a)))
        self.B: AnyArray | None = None
        if G is not None:
            of_outputs = xp.sqrt(diagonal(G))
            self.units = self.units * of_outputs[:, None, :]
            G = G / (of_outputs[:, :, None] * of_outputs[:, None, :])
            b, B = xp.linalg.eigh(G)
            self.B, curvature = xp.astype(B, xp.float32), curvature * b[:, None, :]
            self.middle += float(xp.mean(xp.log(b)))
        self.middle = exp(self.middle)  # the geometric mean of the curvatures, whose mean is 1
        self.curvature = xp.astype(curvature, xp.float32)
        in_units = target * self.units
        self.target = xp.astype(in_units, xp.float32)
        self.slope = xp.astype(in_metric(in_units, H, G), xp.float32)

    def least_squares(self, right: AnyArray, penalty: float) -> AnyArray:
        """The W with H W G + penalty W = right."""
        rotated = by_block(swapped(self.A) @ side_by_side(right), right.shape[0])
        if self.B is not None:
            rotated = rotated @ self.B
        rotated = rotated / (self.curvature + penalty)
        if self.B is not None:
            rotated = rotated @ swapped(self.B)
        return by_block(self.A @ side_by_side(rotated), right.shape[0])

    def project(self, W: AnyArray, budget: Budget) -> AnyArray:
        """W with the entries that the budget prunes set to 0."""
        return masked(~budget.choose(self.xp.abs(W), 0), W)

    def finish(self, W: AnyArray, budget: Budget) -> Pruned:
        """Back in the weights' own units."""
        kept = ~budget.choose(self.xp.abs(W), 0)
        return Pruned(masked(kept, self.xp.astype(W, self.units.dtype) / self.units), kept)


_LATEST: list[tuple[AnyArray, AnyArray, AnyArray]] = []
_KEPT_UP_TO = 4096  # features: chosen, at most 192 MiB


def _decomposed(H: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Eigenvalues, and eigenvectors in float32; maps with the same inputs follow each other, so the latest is kept."""
    xp = xp_of(H)
    for of, a, A in _LATEST:
        if type(of) is type(H) and of.shape == H.shape and device(of) == device(H) and bool(xp.all(of == H)):
            return a, A
    _LATEST.clear()
    a, A = xp.linalg.eigh(H)
    A = xp.astype(A, xp.float32)
    if H.shape[0] <= _KEPT_UP_TO:
        _LATEST.append((H, a, A))
    return a, A
