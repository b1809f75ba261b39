"""Ways in which optimising the attention error might pay: each turns a problem and a ratio into a fused weight.

Whether they do is measured by `beyond`; what was found is in docs/beyond_the_paper.md.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from attnprune_verify.algorithms.baselines.magnitude import magnitude_mask
from attnprune_verify.algorithms.descent import prune_mask_gd
from attnprune_verify.algorithms.refit import refit_pair
from attnprune_verify.algorithms.rounding import binary_mask
from attnprune_verify.algorithms.trace import Descent
from attnprune_verify.experiments.synthetic.data import SyntheticProblem
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.functions import attention
from attnprune_verify.model.objective import Objective


def _best_reading(problem: SyntheticProblem) -> tuple[str, float]:
    """The reading and lam that do best at the problem's logit scale, chosen after the fact and in their favour."""
    return ("literal-norm", 0.25) if problem.cell.scale >= 0.5 else ("literal-direct", 0.04)


def _descend(problem: SyntheticProblem, rho: float, *, factor: float = 1.0, **options: Any) -> Descent:
    reading, lam = _best_reading(problem)
    settings: dict[str, Any] = {"reading": reading, "mask": "causal", "momentum": 0.9} | options
    return prune_mask_gd(settings.pop("X", problem.X), problem.W, rho, factor * lam, **settings)


def algorithm(problem: SyntheticProblem, rho: float) -> Array:
    """Algorithm 1 in its best reading, for comparison."""
    return np.asarray(_descend(problem, rho).mask * problem.W)


def guaranteed_step(problem: SyntheticProblem, rho: float) -> Array:
    """The step with a guarantee instead of eta = 0.1/lam."""
    return np.asarray(_descend(problem, rho, reading="theorem", momentum=0.0).mask * problem.W)


def projected(problem: SyntheticProblem, rho: float) -> Array:
    """M clipped to [0, 1] after every step."""
    return np.asarray(_descend(problem, rho, project=True).mask * problem.W)


def sorted_by_product(problem: SyntheticProblem, rho: float) -> Array:
    """Rounding by |M W|, the entry's contribution, instead of M."""
    weighted = np.abs(_descend(problem, rho).M * problem.W)
    return np.asarray(binary_mask(weighted, rho) * problem.W)


def continuation(problem: SyntheticProblem, rho: float) -> Array:
    """lam from 16 times to once its value in three stages, each from where the last ended."""
    M = None
    for factor, steps in ((16.0, 34), (4.0, 33), (1.0, 33)):
        result = _descend(problem, rho, factor=factor, steps=steps, initial=M)
        M = result.M
    return np.asarray(result.mask * problem.W)


def held_out_lambda(problem: SyntheticProblem, rho: float) -> Array:
    """lam chosen among five by the error on the last quarter of the samples, which the descents do not see."""
    judged = max(1, len(problem.X) // 4)
    objective = Objective(problem.X[-judged:], problem.W, 0.0, "causal")
    masks = [_descend(problem, rho, factor=4.0**power, X=problem.X[:-judged]).mask for power in range(-2, 3)]
    return np.asarray(min(masks, key=objective.relative_error) * problem.W)


def curvature(problem: SyntheticProblem, weight: Array) -> Array:
    """Return, by entry of M, the Gauss-Newton second derivative of the attention error at M * W = `weight`.

    W_ab^2 mean_j sum_i X_ia^2 ||J_i X_b||^2 with J_i = diag(f_i) - f_i f_i^T; exact at M = 1, where c = 0.
    """
    total = np.zeros_like(problem.W)
    for X in problem.X:
        F = attention(X, weight, "causal")
        # ||J_i X_b||^2 = sum_l F_il^2 (X_lb - (F X)_ib)^2
        mean = F @ X
        motion = F**2 @ X**2 - 2 * mean * (F**2 @ X) + mean**2 * np.sum(F**2, axis=1, keepdims=True)
        total += (X**2).T @ motion
    return np.asarray(problem.W**2 * total / len(problem.X))


def loss_change(problem: SyntheticProblem, rho: float) -> Array:
    """Rounding by the change of the loss, to second order, when an entry alone is removed from M = 1."""
    return np.asarray(binary_mask(curvature(problem, problem.W), rho) * problem.W)


def swaps(problem: SyntheticProblem, rho: float, rounds: int = 60) -> Array:
    """The smallest weights of W pruned, then entries exchanged as long as the exact loss falls.

    To second order a kept entry's removal costs -g + h/2 and a pruned one's return g + h/2. The pairs that promise a
    gain are exchanged together; if the loss does not fall, half as many; a pair that fails alone is not tried again.
    """
    objective = Objective(problem.X, problem.W, 0.0, "causal")
    mask = 1.0 - magnitude_mask(problem.W, rho)
    loss, gradient = objective.loss_and_gradient(mask)
    cost = _exchange_cost(problem, mask, gradient)
    failed = np.zeros(mask.size, dtype=np.bool_)
    count = mask.size // 20 + 1
    for _ in range(rounds):
        kept, pruned = np.flatnonzero((mask.ravel() == 1) & ~failed), np.flatnonzero((mask.ravel() == 0) & ~failed)
        leave, enter = (entries[np.argsort(cost[entries], kind="stable")] for entries in (kept, pruned))
        pairs = min(len(leave), len(enter))
        promising = min(count, int(np.count_nonzero(cost[leave[:pairs]] + cost[enter[:pairs]] < 0)))
        if promising == 0:
            break
        leave, enter = leave[:promising], enter[:promising]
        trial = mask.copy()
        trial.flat[leave], trial.flat[enter] = 0, 1
        trial_loss, trial_gradient = objective.loss_and_gradient(trial)
        if trial_loss < loss:
            mask, loss = trial, trial_loss
            cost = _exchange_cost(problem, mask, trial_gradient)
        elif promising == 1:
            failed[[*leave, *enter]] = True
        else:
            count = promising // 2
    return np.asarray(mask * problem.W)


def _exchange_cost(problem: SyntheticProblem, mask: Array, gradient: Array) -> Array:
    """The predicted change of the loss when an entry of the mask is flipped, flat."""
    slope = np.where(mask == 1, -gradient, gradient)
    return np.asarray(slope + curvature(problem, mask * problem.W) / 2).ravel()


def tuned_fused(problem: SyntheticProblem, rho: float) -> Array:
    """The smallest weights of W pruned, the kept ones tuned on the attention error."""
    identity = np.eye(len(problem.W))
    tuned = refit_pair(problem.X, problem.W, identity, ~magnitude_mask(problem.W, rho), identity, mask="causal")
    return np.asarray(tuned.W_Q @ tuned.W_K.T)


def tuned_pair(problem: SyntheticProblem, rho: float) -> Array:
    """The smallest weights of W_Q and of W_K pruned, the kept ones tuned on the attention error (`refit_pair`)."""
    root = np.sqrt(problem.cell.scale)
    W_Q, W_K = root * problem.W_Q, root * problem.W_K
    kept = (~magnitude_mask(part, rho) for part in (W_Q, W_K))
    tuned = refit_pair(problem.X, W_Q, W_K, *kept, mask="causal")
    return np.asarray(tuned.W_Q @ tuned.W_K.T)


CANDIDATES: dict[str, Callable[[SyntheticProblem, float], Array]] = {
    "algorithm": algorithm,
    "guaranteed-step": guaranteed_step,
    "projected": projected,
    "sorted-by-product": sorted_by_product,
    "continuation": continuation,
    "held-out-lambda": held_out_lambda,
    "loss-change": loss_change,
    "swaps": swaps,
    "tuned-fused": tuned_fused,
    "tuned-pair": tuned_pair,
}
