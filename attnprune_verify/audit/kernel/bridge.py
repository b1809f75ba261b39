"""Runs in the subject's process: NumPy float64 goes in, the kernel is called in its own framework, float64 comes out.

`bridged` wraps what was found in the target, so that the worker can call it as any function. A wrapped function takes
q, k, v (and do) as float64 and one keyword, `how`: the kernel's own keywords, the memory layout of its inputs, and a
slot whose arrays are filled again. It returns a mapping of float64 arrays with two more: the types that came back, and
which inputs were changed. Without a backward pass of its own, a torch or jax kernel gets its framework's.
"""

from __future__ import annotations

import functools
import inspect
import operator
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from attnprune_verify.audit.kernel.foreign import Deferred, Foreign, Plain
from attnprune_verify.audit.kernel.frameworks import Framework, framework_named
from attnprune_verify.audit.kernel.repeats import repeated
from attnprune_verify.audit.kernel.whose import whose_arrays

__all__ = ["BACKWARD", "FACTS", "FORWARD", "FRAMEWORKS", "LAYOUTS", "TYPES", "bridged", "framework_of"]

FORWARD, BACKWARD, FACTS = "attention", "attention_backward", "facts of the kernel"
FRAMEWORKS = ("numpy", "torch", "jax")
TYPES = ("float16", "bfloat16", "float32", "float64", "longdouble", "int32", "int64", "bool", "complex64", "complex128")
LAYOUTS = ("plain", "transposed", "heads last", "spaced", "reversed", "expanded")
_PARTS = {FORWARD: ("o",), BACKWARD: ("dq", "dk", "dv")}
_SIGNATURE = inspect.signature
_partial = functools.partial
_invoke: Any = operator.call


class Unreadable:
    """Stands for a result that holds no numbers: whoever reads it is told why."""

    def __init__(self, why: str) -> None:
        object.__setattr__(self, "_why", why)

    def __getattr__(self, name: str) -> Any:
        raise TypeError(object.__getattribute__(self, "_why"))


def bridged(
    functions: Mapping[str, Callable[..., Foreign]], holder: Foreign, dtype: str, device: str = "cpu"
) -> dict[str, Callable[..., Foreign]]:
    """The kernel's functions, callable with float64 arrays; its backward pass is autodiff's where it has none.

    Raises
    ------
    ValueError
        If FRAMEWORK is unknown, or its library cannot make this dtype or has no such device.
    """
    if FORWARD not in functions and BACKWARD not in functions:
        return {}
    name = whose_arrays(framework_of(functions, holder), functions, holder)
    if name not in FRAMEWORKS:
        raise ValueError(f"FRAMEWORK must be one of {', '.join(FRAMEWORKS)}; got {name!r}")
    framework = framework_named(name, dtype, device)
    found = {key: _Kernel(key, function, framework) for key, function in functions.items()}
    own = BACKWARD in functions
    if not own and framework.differentiates:
        found[BACKWARD] = _Kernel(BACKWARD, functions[FORWARD], framework, differentiate=True)
    facts = np.array([FRAMEWORKS.index(name), float(own)])
    return {**found, FACTS: lambda: facts}


def framework_of(functions: Mapping[str, Callable[..., Any]], holder: Any) -> str:
    """FRAMEWORK of the target, or of the module that one of its functions comes from."""
    places: list[Any] = [holder]
    for function in functions.values():
        inner = inspect.unwrap(function)
        places += [inner, getattr(inner, "__globals__", {}), sys.modules.get(getattr(inner, "__module__", None) or "")]
    places.append(sys.modules.get(type(holder).__module__))
    for place in places:
        name = place.get("FRAMEWORK") if isinstance(place, Mapping) else getattr(place, "FRAMEWORK", None)
        if name is not None:
            return str(name)
    return "numpy"


class _Kernel:
    """One function of the subject, with its arrays made and read."""

    def __init__(
        self, name: str, function: Callable[..., Any], framework: Framework, differentiate: bool = False
    ) -> None:
        self.name, self.function, self.framework, self.differentiate = name, function, framework, differentiate
        self._slots: dict[str, list[Any]] = {}
        self._graphs: dict[str, Deferred] = {}
        try:
            self.__signature__ = _SIGNATURE(function)
        except (TypeError, ValueError):
            pass

    def __call__(self, *arrays: Any, how: dict[str, Any]) -> Any:
        return repeated(_partial(self._once, arrays, how), *how.get("times", ()))

    def _once(self, arrays: tuple[Foreign, ...], how: Plain) -> Foreign:
        inputs = self._inputs(arrays, how)
        if how.get("poison"):
            self.framework.poison(how["poison"])
        before = tuple(self.framework.bits(array) for array in inputs)
        keywords = {
            key: self.framework.side_input(value) if isinstance(value, np.ndarray) else value
            for key, value in how["keywords"].items()
        }
        arrays_by_name = [value for value in keywords.values() if not isinstance(value, (bool, int, float))]
        masks = tuple(map(self.framework.bits, arrays_by_name))
        # One step of the interpreter: no hook of the subject's runs between its return and the copies.
        copiers = tuple(map(_copier, (*inputs, *arrays_by_name)))
        call = self._replayed(inputs, keywords, how["slot"]) if how.get("replay") else self._call(inputs, keywords)
        result, *copies = [*map(_invoke, (call, *copiers))]
        try:
            parts = self._read(result)
        except Exception as error:  # whatever it is, it is not what the contract says
            return Unreadable(f"{type(error).__name__}: {error}")
        after = tuple(map(self.framework.bits, copies))
        changed = [float(old != new) for old, new in zip(before, after, strict=False)]
        changed.append(float(masks != after[len(before) :]))
        return {**parts, "changed": np.array(changed)}

    def _inputs(self, arrays: tuple[Any, ...], how: dict[str, Any]) -> list[Any]:
        """Fresh arrays, or those of a slot filled again."""
        slot, layout = how.get("slot", ""), how.get("layout", "plain")
        if slot in self._slots:
            self.framework.fill(self._slots[slot], arrays)
            return self._slots[slot]
        made = [self.framework.made(array, layout) for array in arrays]
        if slot:
            self._slots[slot] = made
        return made

    def _call(self, inputs: list[Any], keywords: dict[str, Any]) -> Callable[[], Any]:
        if self.differentiate:
            return _partial(self.framework.differentiated, self.function, inputs, keywords)
        return _partial(self.function, *inputs, **keywords)

    def _replayed(self, inputs: list[Foreign], keywords: Plain, slot: str) -> Deferred:
        """The call on a slot's arrays, recorded when they were made."""
        if slot not in self._graphs:
            self._graphs[slot] = self.framework.captured(self._call(inputs, keywords))
        return self._graphs[slot]

    def _read(self, result: Any) -> dict[str, Any]:
        names = _PARTS[self.name]
        values = [result] if self.name == FORWARD else list(result)
        if len(values) != len(names):
            raise TypeError(f"returns {len(values)} things instead of {len(names)}")
        parts, types = {}, []
        for name, value in zip(names, values, strict=True):
            parts[name], kind = self.framework.read(value)
            types.append(TYPES.index(kind) if kind in TYPES else -1)
        return {**parts, "types": np.array(types)}


def _copier(array: Any) -> Callable[[], Any]:
    """A method in C that copies an array or tensor; the keyword arrays of a kernel, too."""
    found: Callable[[], Any] = getattr(array, "clone", None) or array.copy
    return found
