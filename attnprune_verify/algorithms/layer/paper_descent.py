"""The paper's method on a real layer, as Section 6.2 describes it: descend on real masks, keep the largest entries.

Kept as a reproduction. At M = 1 the attention term has no gradient, so what drives M afterwards is the Hessian applied
to the all-ones direction, a signed quantity: entries that enlarge the logits are kept, those that cancel them are
dropped, and the pruned attention is sharper than the dense one. On real weights it does worse than a random mask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.algorithms.arguments import as_count, as_positive
from attnprune_verify.algorithms.layer.calibration import Calibration
from attnprune_verify.algorithms.layer.heads import keep_largest, split_heads
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import as_lam
from attnprune_verify.model.layer_objective import layer_gradient

__all__ = ["PaperDescent", "descend_on_masks"]

LayerReading = Literal["literal", "sum", "mean"]


@dataclass(frozen=True)
class PaperDescent:
    """Options of the method ``paper-gd``; the defaults are Section 6.2's lam and eta, T is not stated there.

    Attributes
    ----------
    reading : "literal", "sum" or "mean"
        Where 1/k stands: (sum_j grad_j + lam M)/k as in alg:mask_gd, sum_j grad_j + lam M, or (sum_j grad_j)/k + lam M.
    lam, step_size, momentum : float
    steps : int
    """

    reading: LayerReading = "literal"
    lam: float = 0.05
    step_size: float = 0.005
    momentum: float = 0.9
    steps: int = 100

    def __post_init__(self) -> None:
        if self.reading not in get_args(LayerReading):
            known = ", ".join(get_args(LayerReading))
            raise InvalidInstance(f"reading must be one of {known}; got {self.reading!r:.60}")
        as_lam(self.lam)
        as_positive("step_size", self.step_size)
        if not 0 <= as_positive("momentum", self.momentum, zero=True) < 1:
            raise InvalidInstance(f"momentum must be in [0, 1); got {self.momentum}")
        as_count("steps", self.steps)


def descend_on_masks(
    data: Calibration, rho: float, options: PaperDescent
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Heavy-ball descent from M = 1, then the largest entries of every head.

    Raises
    ------
    InvalidInstance
        If the descent diverges (masks or logits leave the floating-point range).
    """
    k = data.k
    factor, strength = {"literal": (1.0, 1 / k), "sum": (float(k), 1.0), "mean": (1.0, 1.0)}[options.reading]
    masks = [np.ones_like(data.layer.W_Q), np.ones_like(data.layer.W_K)]
    velocity = [np.zeros_like(mask) for mask in masks]
    for step in range(1, options.steps + 1):
        try:
            gradients = layer_gradient(data.layer, masks[0], masks[1], data.X)
        except InvalidInstance as error:
            rule = f"the descent must stay finite; it diverged in step {step} with step_size = {options.step_size}"
            raise InvalidInstance(f"{rule}: {error}") from error
        for i, gradient in enumerate(gradients):
            slope = factor * gradient + strength * options.lam * masks[i]
            velocity[i] = options.momentum * velocity[i] + slope
            masks[i] = masks[i] - options.step_size * velocity[i]
    if not all(np.isfinite(mask).all() for mask in masks):
        raise InvalidInstance(f"the masks must stay finite; they diverged with step_size = {options.step_size}")
    return (
        keep_largest(split_heads(masks[0], data.layer.heads), rho),
        keep_largest(split_heads(masks[1], data.layer.kv_heads), rho),
    )
