"""The two functions of an attention kernel, as reports speak of them."""

from __future__ import annotations

from attnprune_verify.audit.contract import Signature

__all__ = ["FUNCTIONS"]

FUNCTIONS: dict[str, Signature] = {
    "attention": Signature("attention", ("q", "k", "v"), "softmax(scale q k^T) v", "o"),
    "attention_backward": Signature(
        "attention_backward", ("q", "k", "v", "do"), "its gradients dq, dk, dv", "dq, dk, dv", parts=3
    ),
}
