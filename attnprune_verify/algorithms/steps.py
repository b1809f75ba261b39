"""Steps with a guarantee: how far one may go along a direction before the loss can rise.

Along any direction V the loss curves at most like ``lam ||V||_F^2 + C_+ motion(V)``, with ``motion(V)`` the mean over
the samples of the squared norm of the logits' change ``X (V * W) X^T`` after subtracting, in each row, its mean over
the allowed positions (softmax does not see that mean), and C_+ the largest curvature of
``s -> 1/2 ||softmax(s) - f||^2``.
"""

import math

import numpy as np

from attnprune_verify.instance.validate import Array
from attnprune_verify.model.objective import Objective
from attnprune_verify.model.softmax import product, quiet

LARGEST_CURVATURE = (39 + 55 * math.sqrt(33)) / 1152
"""C_+ = 0.3081...: sup over rows of the largest Hessian eigenvalue of 1/2 ||softmax(s) - f||^2; it is approached."""

_ROUNDING = 1 + 1e-9  # far above the rounding of what it is applied to, far below what it costs


@quiet()
def logit_motion(objective: Objective, direction: Array) -> float:
    """(1/k) sum_j ||Pi X_j (V * W) X_j^T||_F^2, Pi subtracting each row's mean over its allowed positions."""
    problem = objective.problem
    queries, keys = problem.sides([direction * problem.weights["W"]])
    total = 0.0
    for block in problem.blocks():
        change = product(queries[:, block.rows], keys[:, block.columns].swapaxes(-1, -2))
        allowed = np.ones(change.shape[1:], change.dtype)
        block.fill_forbidden(allowed, 0.0)
        change *= allowed
        change -= change.sum(axis=-1, keepdims=True) / allowed.sum(axis=-1, keepdims=True)
        change *= allowed
        total += float(np.vdot(change, change))
    return float(total / problem.k)


def safe_step(objective: Objective, slope: float, direction: Array) -> float:
    """The step tau = <g, V> / (lam ||V||^2 + C_+ motion(V)) along -V, where slope = <g, V> and g is the gradient.

    It decreases the loss by at least ``tau <g, V> / 2``; with V = g it is at least 1/L for every Lipschitz constant L
    of the gradient that is made of the same bound. 0 when V is no descent direction.
    """
    curvature = objective.lam * float(np.vdot(direction, direction))
    curvature += LARGEST_CURVATURE * logit_motion(objective, direction)
    if slope <= 0 or curvature == 0:
        return 0.0
    return float(slope / (curvature * _ROUNDING))


def smoothness(objective: Objective) -> float:
    """An upper bound of the gradient's Lipschitz constant: lam + C_+ K^2, with K^2 bounded from above.

    K is the norm of V -> Pi X (V * W) X^T. For |W_ij| <= a_i b_j it is at most ||X diag(a)||_2 ||X_c diag(b)||_2, with
    X_c the tokens centred by their mean over all positions. The pairs (a, b) are (row maxima of |W|, 1) and
    (1, column maxima); the lesser bound is used, averaged over the samples.
    """
    magnitude = np.abs(objective.W).astype(np.float64)
    ones = np.ones(len(magnitude))
    pairs = ((magnitude.max(axis=1), ones), (ones, magnitude.max(axis=0)))
    squares = []
    for sample in objective.X.astype(np.float64):
        centred = sample - sample.mean(axis=0)
        bounds = [np.linalg.norm(sample * a, 2) * np.linalg.norm(centred * b, 2) for a, b in pairs]
        squares.append(min(bounds) ** 2)
    return (objective.lam + LARGEST_CURVATURE * float(np.mean(squares))) * _ROUNDING


def sharp_step(objective: Objective) -> float:
    """1 / L for the bound L of `smoothness`: decreases the loss by at least ||g||^2 / (2 L) in every step.

    Infinite curvature bounds give 0; a loss without any curvature (lam = 0 and W = 0) gives 0 too, as nothing moves.
    """
    bound = smoothness(objective)
    return 1 / bound if bound > 0 else 0.0
