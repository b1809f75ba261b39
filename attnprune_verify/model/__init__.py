"""The paper's definitions in plain NumPy: attention, loss, closed-form gradient, Hessian-vector product."""

from attnprune_verify.model.attention import attention, causal_mask
from attnprune_verify.model.factored import factored_gradient, factored_loss
from attnprune_verify.model.objective import (
    Objective,
    gradient,
    hessian_vector_product,
    loss,
    loss_and_gradient,
    relative_error,
)

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
