"""The framework whose arrays a kernel takes, where nothing declares it: what its code names, and a small call.

Imported in the subject's process.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from types import ModuleType

import numpy as np

from attnprune_verify.audit.kernel.typing import Call, Foreign

_FRAMEWORK_OF = {"torch": "torch", "jax": "jax", "jaxlib": "jax"}  # by the first part of a module's name
_FROM_NUMPY = {"from_numpy", "numpy"}  # a function that calls these goes there and back by itself


def whose_arrays(declared: str, functions: Mapping[str, Call], holder: Foreign) -> str:
    """Return the declared framework; where none is, NumPy, unless the code names another that the answer shows.

    A call on one query and one key is refused, or returns that framework's array.
    """
    places = [holder, *(getattr(inspect.unwrap(one), "__globals__", {}) for one in functions.values())]
    if any("FRAMEWORK" in place if isinstance(place, Mapping) else hasattr(place, "FRAMEWORK") for place in places):
        return declared
    for function in functions.values():
        other = implied(function)
        if declared == "numpy" and other != "numpy" and not _takes_numpy(function):
            return other
    return declared


def _takes_numpy(function: Call) -> bool:
    try:
        arrays = sum(one.default is one.empty for one in inspect.signature(function).parameters.values())
        ones = [np.ones((1, 1, 1, 1), np.float32) for _ in range(arrays)]
        found = function(*ones)
        np.asarray(found, dtype=np.float64)
    except Exception:  # whatever it is, it was raised on NumPy's arrays
        return False
    return not set(_FRAMEWORK_OF) & set(_roots(found))  # jax takes them, and returns its own


def implied(fn: Foreign) -> str:
    """Return the framework that a callable is an object of, or whose module its code names; else "numpy".

    Examples
    --------
    >>> implied(lambda q, k, v: np.exp(q))
    'numpy'
    """
    inner = inspect.unwrap(fn) if callable(fn) else fn
    for root in (*_roots(fn), *_roots(inner), getattr(fn, "__globals__", {}).get("__name__", "").partition(".")[0]):
        if root in _FRAMEWORK_OF:
            return _FRAMEWORK_OF[root]
    while isinstance(inner, functools.partial):
        inner = inner.func
    inner = getattr(inner, "__func__", inner)
    if not hasattr(inner, "__code__"):
        inner = type(inner).__call__
    return _in_code(getattr(inner, "__code__", None), inner)


def _roots(value: Foreign) -> list[str]:
    """The first parts of the names of the modules that an object and its classes are of."""
    if isinstance(value, ModuleType):
        return [value.__name__.partition(".")[0]]
    kinds = (value, *(value.__mro__ if isinstance(value, type) else type(value).__mro__))
    return [str(getattr(kind, "__module__", None) or "").partition(".")[0] for kind in kinds]


def _in_code(code: Foreign, function: Foreign) -> str:
    """The first framework of which the code, or a function that it calls in the same module, names a module."""
    if code is None:
        return "numpy"
    shared = getattr(function, "__globals__", {})
    known = dict(shared)
    cells = getattr(function, "__closure__", None) or ()
    for name, cell in zip(code.co_freevars, cells, strict=False):
        try:
            known[name] = cell.cell_contents
        except ValueError:  # a name that is not bound yet
            continue
    seen, open_ = set(), [code]
    while open_:
        one = open_.pop()
        seen.add(one)
        if _FROM_NUMPY & set(one.co_names):
            return "numpy"
        for name in (*one.co_names, *one.co_freevars):
            value = known.get(name)
            for root in (*_roots(value), name):
                if root in _FRAMEWORK_OF:
                    return _FRAMEWORK_OF[root]
            further = getattr(value, "__code__", None)
            if further is not None and further not in seen and getattr(value, "__globals__", None) is shared:
                open_.append(further)
        open_ += [c for c in one.co_consts if hasattr(c, "co_names") and c not in seen]
    return "numpy"
