"""Layers on their way to a subject: a description of plain values and arrays, made an `AttentionLayer` there.

`described` runs in the audit, `bridged` in the worker; messages carry no pickles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.rope import RoPE

__all__ = ["MODULE", "bridged", "described"]

MODULE = __name__
_KEY = "attention layer"
_PARTS = (
    "W_Q", "W_K", "b_Q", "b_K", "heads", "kv_heads", "scale", "mask", "window", "softcap", "alibi",
)  # fmt: skip


def described(value: Any) -> Any:
    """A layer as a message can hold it; anything else as it is."""
    if not isinstance(value, AttentionLayer):
        return value
    rope = value.rope
    turned = rope and {"theta": rope.theta, "layout": rope.layout, "scaling": rope.scaling and dict(rope.scaling)}
    return {_KEY: {**{name: getattr(value, name) for name in _PARTS}, "rope": turned}}


def bridged(functions: Mapping[str, Callable[..., Any]], holder: Any, *names: str) -> dict[str, Callable[..., Any]]:
    """The functions, those of `names` with layers in place of their descriptions."""
    return {name: _Layered(function) if name in names else function for name, function in functions.items()}


class _Layered:
    """A subject's function that takes layers."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__wrapped__ = function  # what inspect.signature looks at

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        made = {name: _made(value) for name, value in keywords.items()}
        return self.__wrapped__(*map(_made, arguments), **made)


def _made(value: Any) -> Any:
    if not (isinstance(value, dict) and set(value) == {_KEY}):
        return value
    parts = dict(value[_KEY])
    rope = parts.pop("rope")
    return AttentionLayer(**parts, rope=None if rope is None else RoPE(**rope))
