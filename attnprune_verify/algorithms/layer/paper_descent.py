"""The paper's method on a real layer, as Section 6.2 describes it: descend on real masks, keep the largest entries.

Kept as a reproduction. At M = 1 the attention term has no gradient, so what drives M afterwards is the Hessian applied
to the all-ones direction, a signed quantity: entries that enlarge the logits are kept, those that cancel them are
dropped, and the pruned attention is sharper than the dense one. On an encoder's layers its attention error
is worse than a random mask's; in a small Llama's perplexity it is better than that, and at rho = 0.5 worse than Wanda.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from attnprune_verify.algorithms.descent import Run
from attnprune_verify.algorithms.layer.calibration import Calibration, LayerOutcome, by_masks
from attnprune_verify.algorithms.layer.heads import keep_largest, split_heads
from attnprune_verify.algorithms.readings import DescentReading
from attnprune_verify.algorithms.trace import Settings
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.model.objective import Objective
from attnprune_verify.values import as_choice, as_count, as_lam, as_momentum, as_positive

LayerReading = Literal["literal", "sum", "mean"]


@dataclass(frozen=True)
class PaperDescent:
    """Options of the method ``paper-gd``; the defaults are Section 6.2's lam and eta, T is not stated there.

    Attributes
    ----------
    reading : "literal", "sum" or "mean"
        Place of 1/k: (sum_j grad_j + lam M)/k as in alg:mask_gd, sum_j grad_j + lam M, or (sum_j grad_j)/k + lam M.
    lam, step_size, momentum : float
    steps : int
    """

    reading: LayerReading = "literal"
    lam: float = 0.05
    step_size: float = 0.005
    momentum: float = 0.9
    steps: int = 100

    def __post_init__(self) -> None:
        as_choice("reading", self.reading, get_args(LayerReading))
        as_lam(self.lam)
        as_positive("step_size", self.step_size)
        as_momentum(self.momentum)
        as_count("steps", self.steps)


def descend_on_masks(data: Calibration, rho: float, options: PaperDescent) -> LayerOutcome:
    """Heavy-ball descent from M = 1, then the largest entries of every head.

    Raises
    ------
    InvalidInstance
        If the descent diverges (masks or logits leave the floating-point range).
    """
    # 1/k in front of everything, or of nothing: the averaged loss with lam/k, at the step or k times the step.
    reading = DescentReading(options.reading, "0.1/lam", over_samples=options.reading != "mean")
    step = options.step_size * (data.k if options.reading == "sum" else 1)
    settings = Settings(rho, options.lam, reading, step, options.momentum, "heavy-ball", project=False)
    objective = Objective.of(data.maps, reading.strength(options.lam, data.n, data.k), keep_dense=False)
    run = Run(objective, settings, step, [np.ones_like(data.layer.W_Q), np.ones_like(data.layer.W_K)])
    run.descend(options.steps)
    if run.status == "diverged":
        raise InvalidInstance(f"the descent must stay finite; with step_size = {options.step_size} it {run.message}")
    by_head = zip(run.masks, (data.layer.heads, data.layer.kv_heads), strict=True)
    kept_Q, kept_K = (keep_largest(split_heads(M, heads), rho) for M, heads in by_head)
    return by_masks(data, (kept_Q, kept_K))
