"""`BridgedMerge` calls a merge of partial results in the subject's process, with the arrays of its framework.

A wrapped merge takes (o, lse) pairs as float64 or in the kernel's own type, and one keyword, `layouts`: how each array
lies in memory. It returns a mapping of float64 arrays with `changed`: whether an input was changed, and whether a
result lies in the memory of one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np

from attnprune_verify.audit.contract import Signature
from attnprune_verify.audit.kernel.process.frameworks import Framework
from attnprune_verify.audit.kernel.typing import Call, Foreign, Plain
from attnprune_verify.audit.subject.answers import ours

_PAIRS = ("o1", "lse1", "o2", "lse2")
MERGES = {
    "merge": Signature("merge", _PAIRS, "joins two partial results", "o, lse", parts=2),
    "merge_many": Signature("merge_many", ("o", "lse"), "joins many partial results", "o, lse", parts=2),
    "merge_backward": Signature(
        "merge_backward", (*_PAIRS, "do", "dlse"), "gradients of a merge", "do1, dlse1, do2, dlse2", parts=4
    ),
}


def takes_parts(name: str, function: Call) -> bool:
    """Return True where a function can be called as the merge of this name; a helper of a kernel may not."""
    try:
        inspect.signature(function).bind(*MERGES[name].arguments)
    except TypeError:
        return False
    except ValueError:  # it shows no signature
        return True
    return True


class BridgedMerge:
    """A merge or its gradient, with its arrays made and read."""

    def __init__(self, name: str, function: Call, framework: Framework) -> None:
        self.parts, self.function, self.framework = MERGES[name].parts, function, framework

    def __call__(self, *arrays: Foreign, layouts: list[str]) -> Plain:
        with ours():
            inputs = [
                self.framework.side_input(array) if place % 2 else self.framework.made(array, layout)
                for place, (array, layout) in enumerate(zip(arrays, layouts, strict=True))
            ]
            before = [self.framework.bits(array) for array in inputs]
        with np.errstate(all="ignore"):
            results = list(self.function(*inputs))
        changed = [self.framework.bits(array) for array in inputs] != before
        shared = any(_shares(result, array) for result in results for array in inputs)
        if len(results) != self.parts:
            raise TypeError(f"returns {len(results)} arrays for {self.parts}")
        found = {f"result{place}": self.framework.read(result)[0] for place, result in enumerate(results)}
        return {**found, "changed": np.array([changed, shared], dtype=float)}


def _shares(result: Foreign, array: Foreign) -> bool:
    """Return True where two arrays share memory, as far as the framework shows it."""
    if isinstance(result, np.ndarray) and isinstance(array, np.ndarray):
        return bool(np.shares_memory(result, array))
    places: list[Callable[[], int]] = [getattr(x, "data_ptr", lambda: 0) for x in (result, array)]
    return places[0]() == places[1]() != 0
