"""A layer as code that makes it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attnprune_verify.instance.layer import AttentionLayer

__all__ = ["layer_arrays", "layer_code"]


def layer_arrays(layer: AttentionLayer) -> list[Any]:
    """Everything in it that may be large."""
    found = (layer.W_Q, layer.W_K, layer.mask)
    return [part for part in found if isinstance(part, np.ndarray)]


def layer_code(layer: AttentionLayer, array: Callable[[Any], str]) -> str:
    """The call that makes a layer; `array` writes an array."""
    given = {name: getattr(layer, name) for name in ("b_Q", "b_K", "heads", "kv_heads", "scale", "rope")}
    given |= {name: getattr(layer, name) for name in ("mask", "window", "softcap", "alibi")}
    said = [
        f"{name}={array(value) if isinstance(value, np.ndarray) else _plain(value)}"
        for name, value in given.items()
        if value is not None
    ]
    return f"apv.AttentionLayer(\n    {array(layer.W_Q)},\n    {array(layer.W_K)},\n    {', '.join(said)})"


def _plain(value: Any) -> str:
    return f"apv.{value!r}" if type(value).__name__ == "RoPE" else repr(value)
