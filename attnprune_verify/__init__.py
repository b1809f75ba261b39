"""attnprune-verify: a paper on pruning attention weights, made executable.

The front door. Names are loaded from their modules on first use, so that ``import attnprune_verify`` stays cheap;
see README.md for a tour and CONTRACT-style reference in each function's docstring.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnprune_verify.algorithms.baselines.magnitude import magnitude_mask as magnitude_mask
    from attnprune_verify.algorithms.baselines.sparsegpt import sparsegpt as sparsegpt
    from attnprune_verify.algorithms.baselines.sparsegpt import sparsegpt_report as sparsegpt_report
    from attnprune_verify.algorithms.baselines.wanda import wanda_mask as wanda_mask
    from attnprune_verify.algorithms.baselines.wanda import wanda_report as wanda_report
    from attnprune_verify.algorithms.chaos import chaos as chaos
    from attnprune_verify.algorithms.descent import prune_mask_gd as prune_mask_gd
    from attnprune_verify.algorithms.layer.prune import prune_layer as prune_layer
    from attnprune_verify.algorithms.refit import refit_pair as refit_pair
    from attnprune_verify.algorithms.rounding import binary_mask as binary_mask
    from attnprune_verify.algorithms.rounding import threshold_mask as threshold_mask
    from attnprune_verify.audit.run import run_audit as run_audit
    from attnprune_verify.checking.run import run_check as run_check
    from attnprune_verify.claims.run import run_claims as run_claims
    from attnprune_verify.errors import InvalidInstance as InvalidInstance
    from attnprune_verify.experiments.assumptions_real import measure_assumptions as measure_assumptions
    from attnprune_verify.experiments.layer import run_layers as run_layers
    from attnprune_verify.experiments.layer_plan import LayerPlan as LayerPlan
    from attnprune_verify.experiments.layer_plots import draw_layers as draw_layers
    from attnprune_verify.experiments.layer_statements import layer_statements as layer_statements
    from attnprune_verify.experiments.synthetic import run_synthetic as run_synthetic
    from attnprune_verify.experiments.synthetic_plan import SyntheticPlan as SyntheticPlan
    from attnprune_verify.experiments.synthetic_plots import draw_figure2 as draw_figure2
    from attnprune_verify.experiments.synthetic_statements import figure2_statements as figure2_statements
    from attnprune_verify.instance.npz import load_instance as load_instance
    from attnprune_verify.instance.npz import save_instance as save_instance
    from attnprune_verify.instance.problem import Instance as Instance
    from attnprune_verify.model.attention import attention as attention
    from attnprune_verify.model.attention import causal_mask as causal_mask
    from attnprune_verify.model.factored import factored_gradient as factored_gradient
    from attnprune_verify.model.factored import factored_loss as factored_loss
    from attnprune_verify.model.layer import AttentionLayer as AttentionLayer
    from attnprune_verify.model.layer_objective import layer_attention as layer_attention
    from attnprune_verify.model.layer_objective import layer_gradient as layer_gradient
    from attnprune_verify.model.layer_objective import layer_hessian_vector_product as layer_hessian_vector_product
    from attnprune_verify.model.layer_objective import layer_loss as layer_loss
    from attnprune_verify.model.layer_objective import layer_relative_error as layer_relative_error
    from attnprune_verify.model.objective import Objective as Objective
    from attnprune_verify.model.objective import gradient as gradient
    from attnprune_verify.model.objective import hessian_vector_product as hessian_vector_product
    from attnprune_verify.model.objective import loss as loss
    from attnprune_verify.model.objective import loss_and_gradient as loss_and_gradient
    from attnprune_verify.model.objective import relative_error as relative_error
    from attnprune_verify.model.rope import RoPE as RoPE
    from attnprune_verify.pretrained.load import load_pretrained as load_pretrained
    from attnprune_verify.theory.assumptions import assumptions as assumptions
    from attnprune_verify.theory.constants import constants as constants

__version__ = "0.1.0"

_HOME = {
    "InvalidInstance": "errors",
    "Instance": "instance.problem",
    "load_instance": "instance.npz",
    "save_instance": "instance.npz",
    "attention": "model.attention",
    "causal_mask": "model.attention",
    "Objective": "model.objective",
    "loss": "model.objective",
    "gradient": "model.objective",
    "loss_and_gradient": "model.objective",
    "hessian_vector_product": "model.objective",
    "relative_error": "model.objective",
    "factored_loss": "model.factored",
    "factored_gradient": "model.factored",
    "binary_mask": "algorithms.rounding",
    "threshold_mask": "algorithms.rounding",
    "prune_mask_gd": "algorithms.descent",
    "chaos": "algorithms.chaos",
    "magnitude_mask": "algorithms.baselines.magnitude",
    "wanda_mask": "algorithms.baselines.wanda",
    "wanda_report": "algorithms.baselines.wanda",
    "sparsegpt": "algorithms.baselines.sparsegpt",
    "sparsegpt_report": "algorithms.baselines.sparsegpt",
    "refit_pair": "algorithms.refit",
    "SyntheticPlan": "experiments.synthetic_plan",
    "run_synthetic": "experiments.synthetic",
    "figure2_statements": "experiments.synthetic_statements",
    "draw_figure2": "experiments.synthetic_plots",
    "AttentionLayer": "model.layer",
    "RoPE": "model.rope",
    "layer_attention": "model.layer_objective",
    "layer_loss": "model.layer_objective",
    "layer_gradient": "model.layer_objective",
    "layer_hessian_vector_product": "model.layer_objective",
    "layer_relative_error": "model.layer_objective",
    "prune_layer": "algorithms.layer.prune",
    "load_pretrained": "pretrained.load",
    "LayerPlan": "experiments.layer_plan",
    "run_layers": "experiments.layer",
    "layer_statements": "experiments.layer_statements",
    "draw_layers": "experiments.layer_plots",
    "measure_assumptions": "experiments.assumptions_real",
    "assumptions": "theory.assumptions",
    "constants": "theory.constants",
    "run_check": "checking.run",
    "run_audit": "audit.run",
    "run_claims": "claims.run",
}

__all__ = ["__version__", *_HOME]  # noqa: PLE0604  # every entry is a string


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
