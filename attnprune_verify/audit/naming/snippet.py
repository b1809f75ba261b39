"""A failure as a few lines of NumPy that anyone can run."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnprune_verify.audit.layer.code import layer_arrays, layer_code
from attnprune_verify.audit.record import Call
from attnprune_verify.audit.subject.target import Target
from attnprune_verify.instance.layer import AttentionLayer

__all__ = ["as_code", "import_lines"]

_LARGEST = 2000


def as_code(target: Target, call: Call) -> str:
    """Import the subject, build the arguments, call it, and print result and truth.

    The program names no path but the target's own; it needs NumPy and the subject.
    """
    layers = [value for value in call.arguments.values() if isinstance(value, AttentionLayer)]
    given = (*call.arguments.values(), *call.keywords.values())
    plain = [value for value in given if not isinstance(value, AttentionLayer)]
    sizes = [np.size(value) for value in (*plain, *(part for layer in layers for part in layer_arrays(layer)))]
    lines = ["import numpy as np", *import_lines(target, call.function), ""]
    if layers:
        lines[1:1] = ["import attnprune_verify as apv"]
    if max(sizes) > _LARGEST:
        return (
            "\n".join([*lines, f"# The instance has {max(sizes)} numbers in one array; rerun the audit with its seed."])
            + "\n"
        )
    for name, value in (*call.arguments.items(), *call.keywords.items()):
        if isinstance(value, AttentionLayer):
            lines.append(f"{name} = {layer_code(value, _array)}")
        elif isinstance(value, np.ndarray):
            lines.append(f"{name} = {_array(value)}")
        elif name not in call.keywords:
            lines.append(f"{name} = {_plain(value)}")
    passed = [
        *call.arguments,
        *(f"{k}={k if isinstance(v, np.ndarray) else _plain(v)}" for k, v in call.keywords.items()),
    ]
    lines.append(f"result = {call.function}({', '.join(passed)})")
    lines.append("print(result)")
    if call.expected is not None and max(np.size(part) for part in call.expected) <= _LARGEST:
        names = ["expected"] if len(call.expected) == 1 else [f"expected_{i}" for i in range(len(call.expected))]
        for name, part in zip(names, call.expected, strict=True):
            lines.append(f"{name} = {_array(np.asarray(part))}")
        lines.append(f"print({', '.join(names)})")
    return "\n".join(lines) + "\n"


def import_lines(target: Target, function: str) -> list[str]:
    """How the subject is imported in a script."""
    attribute = target.attribute
    single = attribute.rpartition(".")[2] == function
    if target.kind == "file":
        lines = ["import runpy", f"subject = runpy.run_path({target.location!r})"]
        holder = "subject"
        for index, part in enumerate(attribute.split(".") if attribute else []):
            holder = f"{holder}[{part!r}]" if index == 0 else f"{holder}.{part}"
        if not attribute:
            return [*lines, f"{function} = subject[{function!r}]"]
        return [*lines, f"{function} = {holder if single else f'getattr({holder}, {function!r})'}"]
    if not attribute:
        return [f"from {target.location} import {function}"]
    first, _, rest = attribute.partition(".")
    path = f"{first}.{rest}" if rest else first
    return [f"from {target.location} import {first}", f"{function} = {path if single else f'{path}.{function}'}"]


def _array(value: Any) -> str:
    if value.ndim == 0:
        return repr(value.item())
    text = np.array2string(value, separator=", ", threshold=_LARGEST + 1, floatmode="unique", max_line_width=110)
    return f"np.array({text.replace(chr(10), chr(10) + ' ' * 4)}, dtype=np.{value.dtype})".replace(
        "nan", "np.nan"
    ).replace("inf", "np.inf")


def _plain(value: Any) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)
