"""A failure as lines of NumPy that run as pasted: the call, what it returns, what is right, where they differ."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np

from attnprune_verify.audit.functions.truth.formulas import Array
from attnprune_verify.audit.naming.importing import import_lines
from attnprune_verify.audit.naming.shrink import FEW, formula_of
from attnprune_verify.audit.record import Call
from attnprune_verify.audit.subject.process import Subject
from attnprune_verify.instance.layer import AttentionLayer

_LARGEST = 2000  # chosen: numbers of an array beyond which no screen holds it
_MOST_LINES = 36  # chosen: with the lines above it a failure fits on a screen of 40
_TIMES = 20  # equal calls, of which some differ
_WIDE = 74  # chosen: columns of a comment, within the 80 of a terminal, indented


def as_code(
    subject: Subject,
    call: Call,
    names: list[str],
    *,
    title: str,
    parts: tuple[str, ...] = (),
    ids: tuple[str, ...] = (),
    tensors: bool = False,
    returned: tuple[Array, ...] = (),
) -> str | None:
    """Import the subject, build the arguments, call it, and print result, truth and difference.

    The program names no path but the target's own; it needs NumPy and the subject. None where the instance is too
    large to be written down.

    Parameters
    ----------
    call : Call
        The arguments in the subject's order and under its names.
    names : list[str]
        The variables that hold the positional arguments.
    title : str
        The first line, a comment.
    parts : tuple[str, ...]
        The names of what is returned, where it is several things; with a dot in front: attributes of one object.
    ids : tuple[str, ...]
        The mistake; one about the program and not its numbers is shown in its own way.
    tensors : bool
        Whether what is returned has to be taken out of a graph.
    returned : tuple[Array, ...]
        What the call returned, if it is known: its worst entries are shown beside what is right.
    """
    given = (*call.arguments.values(), *call.keywords.values())
    if max(_numbers(value) for value in given) > _LARGEST:
        return None
    lines = [*_comment(title), "import numpy as np"]
    if any(isinstance(value, AttentionLayer) for value in given):
        lines.append("import attnprune_verify as apv")
    lines += [*import_lines(subject, call.function), ""]
    inputs = {**call.arguments, **call.keywords}
    lines += [f"{name} = {_value(value)}" for name, value in inputs.items() if _written(name, value, names)]
    passed = [name if name in names else f"{name}={_argument(name, value)}" for name, value in inputs.items()]
    expression = f"{call.function}({', '.join(passed)})"
    lines += _earlier(call, names)
    kind = next((id for id in ids if id in _SHOWN), "")
    last = [] if kind in ("mutates-input", "wrong-shape") else _compared(call, parts, returned)
    if kind:
        lines += _SHOWN[kind](_Expression(expression, inputs, parts))
    lines += _call(expression, parts, tensors) if last else []
    lines += last
    return "\n".join(lines) + "\n" if len("\n".join(lines).splitlines()) <= _MOST_LINES else None


def audit_code(subject: Subject, check: str, seed: int, dtype: str | None) -> str | None:
    """The one check again, where its instance is too large to be written down."""
    if subject.target.kind == "live":
        return None
    given = [repr(subject.target.spec), *([f"seed={seed}"] if seed else []), *([f"dtype={dtype!r}"] if dtype else [])]
    given += [f"adapter={subject.target.adapter!r}"] if subject.target.adapter else []
    words = "The instance is too large to be written down; from the same folder, this runs the check again."
    audit = f"print(apv.run_audit({', '.join(given)}, only={check!r}))"
    return "\n".join([*_comment(words), "import attnprune_verify as apv", "", audit, ""])


def _comment(words: str) -> list[str]:
    """A comment in lines that a terminal does not break: what it breaks off would be code where it is pasted."""
    return wrap(words, _WIDE, initial_indent="# ", subsequent_indent="# ", break_long_words=False)


def _earlier(call: Call, names: list[str]) -> list[str]:
    """The call before, with the arguments that it has otherwise."""
    if call.earlier is None:
        return []
    before, now = ({**one.arguments, **one.keywords} for one in (call.earlier, call))
    other = {name: f"before_{name}" for name in before if _value(before[name]) != _value(now[name])}
    lines = [f"{other[name]} = {_value(before[name])}" for name in other]
    passed = [
        other.get(name, name) if name in names else f"{name}={other.get(name, _argument(name, value))}"
        for name, value in before.items()
    ]
    return [*lines, "# the call before", f"{call.function}({', '.join(passed)})"]


def _numbers(value: Any) -> int:
    return max(np.size(part) for part in layer_arrays(value)) if isinstance(value, AttentionLayer) else np.size(value)


def _written(name: str, value: Any, names: list[str]) -> bool:
    """Return True where an argument gets a line of its own; plain values stand in the call."""
    return name in names or isinstance(value, (np.ndarray, AttentionLayer))


def _argument(name: str, value: Any) -> str:
    return name if isinstance(value, (np.ndarray, AttentionLayer)) else _value(value)


def _value(value: Any) -> str:
    if isinstance(value, AttentionLayer):
        return layer_code(value, array_code)
    if isinstance(value, np.ndarray):
        return array_code(value)
    return repr(value.item() if isinstance(value, np.generic) else value)


def array_code(value: Any) -> str:
    """An array of the same numbers, dtype and layout; NumPy before 2 reads it, too."""
    if value.ndim == 0:
        return repr(value.item())
    formula = formula_of(value) if value.flags.c_contiguous else None
    if formula is not None:
        return formula if value.dtype == np.float64 else f"{formula}.astype(np.{value.dtype})"
    indent = "\n" + " " * 4
    text = np.array2string(value, separator=", ", threshold=_LARGEST + 1, floatmode="unique", max_line_width=110)
    text = text.replace("\n", indent).replace("nan", "np.nan").replace("inf", "np.inf")
    if value.dtype == bool:
        kind = ", dtype=bool"
    else:
        kind = "" if value.dtype == np.float64 else f", dtype=np.{value.dtype}"
    order = ', order="F"' if value.flags.f_contiguous and not value.flags.c_contiguous else ""
    written = f"np.array({text}{kind}{order})"
    contiguous = value.flags.c_contiguous or value.flags.f_contiguous
    return written if contiguous else f"np.repeat({written}, 2, axis=-1)[..., ::2]"


def _call(expression: str, parts: tuple[str, ...], tensors: bool) -> list[str]:
    """The call, its result as NumPy sees it."""
    taken = "np.asarray(({}).detach())" if tensors else "np.asarray({})"
    if not parts:
        return [f"result = {taken.format(expression)}"]
    if not parts[0].startswith("."):
        names = ", ".join(parts)
        return [f"{names} = {expression}", *(f"{name} = {taken.format(name)}" for name in parts)]
    fetched = "answer[{!r}] if isinstance(answer, dict) else answer{}"
    lines = [f"answer = {expression}"]
    return lines + [f"{name[1:]} = {taken.format(fetched.format(name[1:], name))}" for name in parts]


def _compared(call: Call, parts: tuple[str, ...], returned: tuple[Array, ...]) -> list[str]:
    """Result and expectation where they are farthest apart; without an expectation the result alone."""
    names = [name.lstrip(".") for name in parts] or ["result"]
    lines = ["np.set_printoptions(precision=17)"]
    if not call.expected:
        return [*lines, f"print({', '.join(names)}, sep='\\n')"]
    found: list[Array | None] = [np.asarray(part) for part in returned] or [None] * len(call.expected)
    pairs = list(zip(names, call.expected, found, strict=False))
    far = [_far(np.asarray(part), got) for _, part, got in pairs]
    for (name, part, got), distance in zip(pairs, far, strict=True):
        if distance >= _BLAMED * max(far):
            lines += _beside(call.function, name, bool(parts), np.asarray(part), got)
    return lines


_BLAMED = 1e-3
"""Of the largest relative difference: an array that is off by less is right beside the one that is wrong."""


def _far(right: Array, got: Array | None) -> float:
    """The error of an array, relative to its size."""
    if got is None or got.shape != right.shape:
        return np.inf
    with np.errstate(all="ignore"):
        gap = np.abs(got.astype(float) - right.astype(float)).max(initial=0.0)
        return float(np.nan_to_num(gap / max(float(np.abs(right).max(initial=0.0)), 1e-300), nan=np.inf, posinf=np.inf))


def _beside(function: str, name: str, several: bool, right: Array, got: Array | None) -> list[str]:
    """Lines that print an array, or its worst entries, beside what is right; what they print, as a comment."""
    label, expected = (f"{name} ", f"expected_{name}") if several else ("", "expected")
    if got is not None and got.shape != right.shape:
        got = None
    places = None if right.size <= FEW else _worst(right, got)
    at = "" if places is None else "[farthest]"
    lines = [] if places is None else [f"farthest = {tuple(one.tolist() for one in places)}"]
    chosen = right if places is None else right[places]
    lines.append(f"{expected} = {array_code(chosen)}")
    lines.append(f"print({label + 'returned:'!r}, {name}{at}, {'expected:'!r}, {expected}, sep='\\n')")
    if right.dtype == bool or name == "mask" or function in ("causal_mask", "binary_mask"):
        differing = f"{name}{at} != {expected}"
        listed = f"np.argwhere({differing})" if places is None else f"np.transpose(farthest)[{differing}]"
        lines.append(f"print('they differ at', {listed}.tolist())")
    else:
        lines.append(f"print('largest difference:', np.abs({name}{at} - {expected}).max())")
    if got is not None:
        here = got if places is None else got[places]
        for a in range(0, here.size, _ABREAST):
            rows = (_digits(one.ravel()[a : a + _ABREAST]) for one in (here, chosen))
            lines += [
                f"# {words} {row}"
                for words, row in zip((f"{label}returned", f"{' ' * len(label)}expected"), rows, strict=True)
            ]
    return lines


def _worst(right: Array, got: Array | None) -> tuple[Array, ...]:
    """The places of the largest differences, in their order in memory."""
    with np.errstate(all="ignore"):
        gap = np.zeros(right.shape) if got is None else np.abs(got.astype(float) - right.astype(float))
    order = np.argsort(-np.nan_to_num(gap, nan=np.inf), axis=None, kind="stable")[:FEW]
    return np.unravel_index(np.sort(order), right.shape)


_ABREAST = 4  # numbers of 13 characters behind a name, on a terminal of 80


def _digits(values: Array) -> str:
    return "  ".join(f"{value:>11.5g}" for value in values.astype(float))


@dataclass(frozen=True)
class _Expression:
    """A call in a script: its text, its arguments, the names of what it returns."""

    text: str
    inputs: Mapping[str, Any]
    parts: tuple[str, ...]

    @property
    def one(self) -> str:
        """The last of several returned things."""
        if not self.parts:
            return self.text
        if not self.parts[0].startswith("."):
            return f"{self.text}[-1]"
        name = self.parts[-1][1:]
        return f"(lambda one: one[{name!r}] if isinstance(one, dict) else one.{name})({self.text})"

    @property
    def other(self) -> str:
        """Another call: the last matrix is turned round."""
        matrices = [name for name, value in self.inputs.items() if isinstance(value, np.ndarray) and value.ndim > 1]
        return re.sub(rf"\b{matrices[-1]}(?=[,)])", f"{matrices[-1]}[..., ::-1]", self.text) if matrices else self.text


def _twice(call: _Expression) -> list[str]:
    return [
        "np.set_printoptions(precision=17)",
        "results = []",
        f"for _ in range({_TIMES}):",
        f"    results.append(repr({call.one}))",
        f"    {call.other}  # something else in between",
        f"print('different results of {_TIMES} equal calls:', len(set(results)))",
    ]


def _untouched(call: _Expression) -> list[str]:
    arrays = [f"{name}={name}" for name, value in call.inputs.items() if isinstance(value, np.ndarray)]
    return [
        f"inputs = dict({', '.join(arrays)})",
        "before = {name: array.copy() for name, array in inputs.items()}",
        call.text,
        "print('changed inputs:', [name for name in inputs if not np.array_equal(inputs[name], before[name])])",
    ]


def _kept(call: _Expression) -> list[str]:
    return [
        f"first = {call.one}",
        "before = np.array(first)",
        f"{call.other}  # another call",
        "print('by which the first result changed:', np.abs(np.asarray(first) - before).max())",
    ]


def _shape(call: _Expression) -> list[str]:
    return [
        f"result = {call.text}",
        "print('returned', type(result).__name__, 'of shape', getattr(result, 'shape', None), repr(result), sep='\\n')",
    ]


_SHOWN: dict[str, Callable[[_Expression], list[str]]] = {
    "nondeterministic": _twice,
    "mutates-input": _untouched,
    "overwrites-results": _kept,
    "wrong-shape": _shape,
}


def layer_arrays(layer: AttentionLayer) -> list[Any]:
    """Return the layer's arrays that may be large."""
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
