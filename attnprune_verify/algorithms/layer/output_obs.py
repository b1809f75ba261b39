"""`output-obs` for one attention layer on its own: the output metric is the softmax's, from one backward probe.

A layer alone does not show how its attention is used, so the probe's random changes of the logits have the Fisher
information of the softmax as their covariance; for a whole block `algorithms.matrix.metrics` continues through V and O.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from attnprune_verify.algorithms.layer.calibration import Calibration, LayerOutcome, by_outputs
from attnprune_verify.algorithms.matrix.backward import softmax_probe
from attnprune_verify.algorithms.matrix.budget import Budget, Pattern, PerBlock, Share
from attnprune_verify.algorithms.matrix.damping import MomentSum, second_moments
from attnprune_verify.algorithms.matrix.output_obs import OutputOBS, input_damping, prune_output_obs
from attnprune_verify.values import as_choice, as_count


@dataclass(frozen=True)
class LayerOutputOBS(OutputOBS):
    """Options of the method ``output-obs`` for a layer: those of `OutputOBS`, and three more.

    Attributes
    ----------
    budget : "head" or "matrix"
        "head" prunes each head by rho; "matrix" prunes the matrix by rho, more in heads that matter less.
    probes : int
        Backward passes; one is enough.
    seed : int
    """

    budget: Literal["head", "matrix"] = "head"
    probes: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        as_choice("budget", self.budget, ("head", "matrix"))
        as_count("probes", self.probes, least=1)
        as_count("seed", self.seed)


def prune_layer_output_obs(data: Calibration, goal: float | Pattern, options: LayerOutputOBS) -> LayerOutcome:
    """Prune W_Q and W_K; the dampings are chosen by the calibration sequences where the options name none."""
    layer, inputs = data.layer, second_moments(data.X)
    outputs = {
        "Q": MomentSum(layer.heads * layer.m, data.k * options.probes, layer.heads),
        "K": MomentSum(layer.kv_heads * layer.m, data.k * options.probes, layer.kv_heads),
    }
    for window, tokens in enumerate(data.X):
        rng, sizes = np.random.default_rng((options.seed, window)), np.square(tokens).sum(axis=1)
        for _ in range(options.probes):
            gradients = softmax_probe(layer, tokens, rng)
            outputs["Q"].add(gradients.queries, sizes)
            outputs["K"].add(gradients.keys, sizes)
    metrics = {side: sums.finish() for side, sums in outputs.items()}
    budget = goal if isinstance(goal, Pattern) else _BUDGETS[options.budget](goal)
    Q, K = (
        prune_output_obs(weight.T, inputs, metrics[side], budget, options)
        for side, weight in (("Q", layer.W_Q), ("K", layer.W_K))
    )
    chosen = {"damping": input_damping(inputs) if options.damping is None else options.damping}
    if options.output_damping is None:
        chosen |= {f"output_damping_{side}": metric.damping for side, metric in metrics.items()}
    return by_outputs(Q, K, **chosen)


_BUDGETS: dict[str, Callable[[float], Budget]] = {"head": PerBlock, "matrix": Share}
