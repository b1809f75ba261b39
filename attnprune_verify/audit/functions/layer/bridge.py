"""Layers on their way to a subject: a description of plain values and arrays, made an `AttentionLayer` there.

`described` runs in the audit, `bridged` in the worker; messages carry no pickles. What the target declares comes back.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.rope import RoPE

MODULE = __name__
FACTS = "declarations of the target"
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
    """The functions, those of `names` with layers in place of their descriptions; what is declared comes by `FACTS`."""
    found = {name: _Layered(function) if name in names else function for name, function in functions.items()}
    declared = {name: _declared(functions, holder, name) for name in ("CONVENTIONS", "PATTERNS")}
    if any(value is not None for value in declared.values()):
        facts = np.frombuffer(json.dumps(declared, default=repr).encode(), dtype=np.uint8)
        found[FACTS] = lambda: facts
    return found


def _declared(functions: Mapping[str, Callable[..., Any]], holder: Any, name: str) -> Any:
    """The attribute of the target, or of the module that one of its functions comes from."""
    places = [holder]
    for function in map(inspect.unwrap, functions.values()):
        places += [
            function,
            getattr(function, "__globals__", {}),
            sys.modules.get(getattr(function, "__module__", None) or ""),
        ]
    for place in places:
        found = place.get(name) if isinstance(place, Mapping) else getattr(place, name, None)
        if found is not None:
            return found
    return None


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
