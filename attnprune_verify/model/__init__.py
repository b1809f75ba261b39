"""The paper's definitions in plain NumPy: attention, loss, closed-form gradient, Hessian-vector product."""

from attnprune_verify.model.functions import (
    attention,
    causal_mask,
    gradient,
    hessian_vector_product,
    loss,
    loss_and_gradient,
    relative_error,
)
from attnprune_verify.model.layer_functions import factored_gradient, factored_loss
from attnprune_verify.model.objective import Objective

__all__ = [
    "Objective",
    "attention",
    "causal_mask",
    "factored_gradient",
    "factored_loss",
    "gradient",
    "hessian_vector_product",
    "loss",
    "loss_and_gradient",
    "relative_error",
]
