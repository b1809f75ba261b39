"""The functions that can be audited: their names, the order of their arguments, and what they return."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FUNCTIONS", "Signature"]


@dataclass(frozen=True)
class Signature:
    """How a function of the contract is called.

    Attributes
    ----------
    arguments : positional, in this order
    parts : how many arrays or numbers it returns
    attributes : the attributes read from the object it returns, when it returns one
    defaults : the last so many arguments may be left out
    claim : the statement of the paper it implements, if it is one
    says : what it computes, in one line
    """

    name: str
    arguments: tuple[str, ...]
    says: str
    claim: str | None = None
    parts: int = 1
    attributes: tuple[str, ...] = ()
    defaults: int = 0


_FUSED = ("M", "X", "W", "lam", "mask")
_PAIR = ("M_Q", "M_K", "X", "W_Q", "W_K", "lam", "mask")
_LAYER = ("weight", "X", "rho")

FUNCTIONS: dict[str, Signature] = {
    signature.name: signature
    for signature in (
        Signature("causal_mask", ("n",), "1 where i >= j", "def:mask"),
        Signature("attention", ("X", "W", "mask"), "row-wise softmax of X W X^T", "def:attn_matrix", defaults=1),
        Signature("loss", _FUSED, "1/2 ||F(M) - F(1)||^2 + lam/2 ||M||^2", "def:loss_func", defaults=2),
        Signature("gradient", _FUSED, "W * (X^T p X) + lam M", "thm:mat_view_l", defaults=2),
        Signature("loss_and_gradient", _FUSED, "both at once", "thm:mat_view_l", parts=2, defaults=2),
        Signature(
            "hessian_vector_product",
            ("M", "V", "X", "W", "lam", "mask"),
            "W * (X^T dp X) + lam V",
            "thm:mat_view_l",
            defaults=2,
        ),
        Signature(
            "relative_error", ("M", "X", "W", "mask"), "||F(M) - F(1)||^2 / ||F(1)||^2", "def:rec_err", defaults=1
        ),
        Signature("factored_loss", _PAIR, "the loss with a mask for W_Q and one for W_K", "eq:new_loss", defaults=2),
        Signature("factored_gradient", _PAIR, "its gradients", "eq:new_loss", parts=2, defaults=2),
        Signature("binary_mask", ("M", "rho"), "exactly floor(rho size) zeros, the smallest entries", "alg:mask_gd"),
        Signature(
            "prune_mask_gd",
            ("X", "W", "rho", "lam"),
            "gradient descent on M, then rounding",
            "alg:mask_gd",
            attributes=("mask", "M"),
            parts=2,
        ),
        Signature("magnitude_mask", ("weight", "rho"), "the smallest |weight| of the whole matrix"),
        Signature("wanda_mask", _LAYER, "per row the smallest |weight| ||X_j||"),
        Signature("sparsegpt", _LAYER, "column by column, with second-order updates", parts=2),
        Signature(
            "sparsegpt_report",
            _LAYER,
            "the same, with error, damping and condition",
            attributes=("weight", "pruned", "error", "damping", "condition", "undecided"),
            parts=6,
        ),
    )
}
