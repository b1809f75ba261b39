"""Runs in the subject's process: NumPy float64 goes in, the kernel is called in its own framework, float64 comes out.

`bridged` wraps what was found in the target, so that the worker can call it as any function. A wrapped function takes
q, k, v (and do), as float64 or in the kernel's own type, and one keyword, `how`: the kernel's keywords, the memory
layout of its inputs, and a slot whose arrays are filled again. It returns a mapping of float64 arrays with two more:
the types that came back, and which inputs were changed. Without a backward pass of its own, a torch or jax kernel gets
its framework's.
"""

from __future__ import annotations

import functools
import inspect
import json
import operator
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from attnprune_verify.audit.kernel.problem.conventions import CAPABILITIES, Conventions
from attnprune_verify.audit.kernel.problem.features import FEATURES
from attnprune_verify.audit.kernel.problem.sample import BACKWARD, FORWARD
from attnprune_verify.audit.kernel.problem.scope import CASES, KernelScope
from attnprune_verify.audit.kernel.process.bridged_merge import MERGES, BridgedMerge, takes_parts
from attnprune_verify.audit.kernel.process.detect_framework import whose_arrays
from attnprune_verify.audit.kernel.process.frameworks import Framework, framework_named, no_tuple
from attnprune_verify.audit.kernel.process.parameters import SCALES, plainly_called
from attnprune_verify.audit.kernel.typing import Deferred, Foreign, Plain
from attnprune_verify.audit.subject.answers import OurError, ours
from attnprune_verify.errors import InvalidInstance

__all__ = [
    "BACKWARD", "DECLARATIONS", "FACTS", "FORWARD", "FRAMEWORKS", "LAYOUTS", "TYPES", "BridgedKernel", "as_sequences",
    "bridged", "declared_by", "framework_for", "framework_of", "named_of",
]  # fmt: skip

FACTS = "facts of the kernel"
FRAMEWORKS = ("numpy", "torch", "jax")
DECLARATIONS = ("CONVENTIONS", "CAPABILITIES", "SIZES", "LAYOUT", "SCALE", "IGNORED", "RECIPE")
ORDERS = ("bhnm", "bnhm", "hnm", "nhm", "nm")
"""What LAYOUT may be: the order of samples, heads, positions and features in q, k, v, o, do and the gradients."""
TYPES = ("float16", "bfloat16", "float32", "float64", "longdouble", "int32", "int64", "bool", "complex64", "complex128",
         "float8_e4m3fn", "float8_e5m2")  # fmt: skip
_OPTIONAL = tuple(dict.fromkeys(feature.parameter for feature in FEATURES if feature.parameter))
"""Parameters that CAPABILITIES may name where a function takes **keywords."""
LAYOUTS = ("plain", "transposed", "heads last", "spaced", "reversed", "expanded")
_GRADIENTS = {"dbias": "bias", "dsinks": "sinks"}  # by autodiff: of which keywords
_SIGNATURE = inspect.signature
_partial = functools.partial
_invoke: Foreign = operator.call


class UnreadableResult:
    """Stands for a result without numbers; reading it raises an error with the reason."""

    def __init__(self, why: str) -> None:
        object.__setattr__(self, "_why", why)

    def __getattr__(self, name: str) -> Foreign:
        raise TypeError(object.__getattribute__(self, "_why"))


def bridged(
    functions: Mapping[str, Callable[..., Foreign]], holder: Foreign, dtype: str, device: str = "cpu", given: str = "{}"
) -> dict[str, Callable[..., Foreign]]:
    """The kernel's functions, callable with float64 arrays; its backward pass is autodiff's where it has none.

    `given` are declarations as JSON, which stand in place of the target's own.

    Raises
    ------
    ValueError
        If FRAMEWORK is unknown, or its library cannot make this dtype or has no such device.
    InvalidInstance
        If a declaration is no such, or a parameter of a function is neither the contract's nor has a default.
    """
    merges = {name: fn for name, fn in functions.items() if name in MERGES and takes_parts(name, fn)}
    joined = {name: BridgedMerge(name, fn, framework_for(merges, holder, dtype, device)) for name, fn in merges.items()}
    told, functions = functions, {name: fn for name, fn in functions.items() if name in (FORWARD, BACKWARD)}
    if not functions and not joined:
        return {}
    framework = framework_for(functions or merges, holder, dtype, device)
    said = declared_by(told, holder, json.loads(given))
    forward_only = "forward_only" in said["capabilities"]
    found, spelled = {}, {}
    for key, function in functions.items():
        if not (forward_only and key == BACKWARD):
            called, parameters = plainly_called(function, 3 + (key == BACKWARD), said["scale"])
            found[key] = BridgedKernel(key, called, framework, said["layout"])
            found[key].sequences_alone = parameters is not None and "cu_seqlens_q" in parameters.always
            spelled[key] = parameters and parameters.as_dict()
    own = BACKWARD in found
    if FORWARD in found and not own and not forward_only and framework.differentiates:
        found[BACKWARD] = BridgedKernel(BACKWARD, found[FORWARD].function, framework, said["layout"], True)
        found[BACKWARD].sequences_alone = found[FORWARD].sequences_alone
    said |= {"framework": framework.name, "own": own, "parameters": spelled}
    facts = np.frombuffer(json.dumps(said).encode(), dtype=np.uint8)
    return {**found, **joined, FACTS: lambda: facts}


def framework_for(
    functions: Mapping[str, Callable[..., Foreign]], holder: Foreign, dtype: str, device: str
) -> Framework:
    """Return the framework whose arrays the functions take, in a dtype.

    Raises
    ------
    ValueError
        If there is no such framework, or it cannot make this dtype.
    """
    name = whose_arrays(framework_of(functions, holder), functions, holder)
    if name not in FRAMEWORKS:
        raise ValueError(f"FRAMEWORK must be one of {', '.join(FRAMEWORKS)}; got {name!r}")
    return framework_named(name, dtype, device)


def declared_by(functions: Mapping[str, Callable[..., Foreign]], holder: Foreign, given: Plain) -> Plain:
    """Read the target's declarations; those that are given stand in their place."""
    told = {name: given.get(name, named_of(functions, holder, name)) for name in DECLARATIONS}
    conventions = told["CONVENTIONS"]
    if not isinstance(conventions, Mapping | None):
        raise InvalidInstance(f"CONVENTIONS must be a mapping of names to choices; got {conventions!r}")
    words = {name: _words(name, told[name]) for name in ("CAPABILITIES", "IGNORED")}
    known = (*CAPABILITIES, *CASES, *_OPTIONAL)
    for word in words["CAPABILITIES"]:
        if word not in known:
            raise InvalidInstance(f"CAPABILITIES must be of {', '.join(known)}; got {word!r}")
    for name, choices in (("LAYOUT", ORDERS), ("SCALE", SCALES)):
        told[name] = told[name] or choices[0]
        if told[name] not in choices:
            raise InvalidInstance(f"{name} must be one of {', '.join(choices)}; got {told[name]!r}")
    sizes = told["SIZES"] or {}
    KernelScope.declared(sizes, words["CAPABILITIES"])
    return {
        "conventions": conventions and Conventions.declared(dict(conventions)).as_dict(),
        "capabilities": words["CAPABILITIES"],
        "sizes": sizes, "layout": told["LAYOUT"], "scale": told["SCALE"], "ignored": words["IGNORED"],
        "declares": conventions is not None or bool(set(words["CAPABILITIES"]) - set(CASES)),
    }  # fmt: skip


def _words(name: str, given: Foreign) -> list[str]:
    if isinstance(given, str) or not isinstance(given, Iterable | None):
        raise InvalidInstance(f"{name} must be a sequence of names; got {given!r}")
    return [str(word) for word in given or ()]


def framework_of(functions: Mapping[str, Callable[..., Foreign]], holder: Foreign) -> str:
    """FRAMEWORK of the target, or of the module that one of its functions comes from."""
    return str(named_of(functions, holder, "FRAMEWORK") or "numpy")


def named_of(functions: Mapping[str, Callable[..., Foreign]], holder: Foreign, wanted: str) -> Foreign:
    """The attribute of this name of the target, or of the module that one of its functions comes from."""
    places: list[Foreign] = [holder]
    for function in functions.values():
        inner = inspect.unwrap(function)
        places += [inner, getattr(inner, "__globals__", {}), sys.modules.get(getattr(inner, "__module__", None) or "")]
    places.append(sys.modules.get(type(holder).__module__))
    for place in places:
        found = place.get(wanted) if isinstance(place, Mapping) else getattr(place, wanted, None)
        if found is not None:
            return found
    return None


class BridgedKernel:
    """One function of the subject, with its arrays made and read.

    Attributes
    ----------
    sequences_alone : bool
        Whether it takes packed sequences only: the samples of a batch are sequences of one length there.
    """

    def __init__(
        self, name: str, function: Callable[..., Foreign], framework: Framework, order: str, differentiate: bool = False
    ) -> None:
        self.name, self.function, self.framework, self.differentiate = name, function, framework, differentiate
        self.order, self.sequences_alone = order, False
        self._slots: dict[str, list[Foreign]] = {}
        self._graphs: dict[str, Deferred] = {}
        try:
            self.__signature__ = _SIGNATURE(function)
        except (TypeError, ValueError):
            pass

    def __call__(self, *arrays: Foreign, how: Plain) -> Foreign:
        with ours():
            samples = len(arrays[0]) if self.sequences_alone and not how.get("packed") else None
            if samples is not None:
                how = {**how, "packed": True, "keywords": as_sequences(how["keywords"], *arrays[:2])}
                arrays = tuple(map(_behind_each_other, arrays))
            packed, order = bool(how.get("packed")), how.get("order", self.order)
            kept = arrays[1 : 3 if how.get("paged") else 1]  # pages have one order of axes
            arrays = tuple(_packed(array) if packed else _ordered(array, order) for array in arrays)
            arrays = (*arrays[:1], *kept, *arrays[1 + len(kept) :])
            inputs = self._inputs(arrays, how)
            if how.get("poison"):
                self.framework.poison(how["poison"])
            before = tuple(self.framework.bits(array) for array in inputs)
            keywords = {key: self._keyword(key, value) for key, value in how["keywords"].items()}
            arrays_by_name = [value for value in keywords.values() if not isinstance(value, (bool, int, float, tuple))]
            masks = tuple(map(self.framework.bits, arrays_by_name))
            # One step of the interpreter: no hook of the subject's runs between its return and the copies.
            copiers = tuple(map(_copier, (*inputs, *arrays_by_name)))
            call = self._call(inputs, keywords, how["parts"])
        call = self._replayed(call, how["slot"]) if how.get("replay") else call
        result, *copies = [*map(_invoke, (call, *copiers))]
        if how.get("then"):  # the same call on other numbers, before the answer is read
            self._call([self.framework.made(array[..., ::-1], "plain") for array in arrays], keywords, how["parts"])()
        try:
            parts = self._read(result, how["parts"], packed, order)
            with ours():
                parts = parts if samples is None else {name: _sampled(parts[name], samples) for name in parts}
        except OurError:
            raise
        except Exception as error:  # whatever it is, it is not what the contract says
            return UnreadableResult(str(error) or type(error).__name__)
        after = tuple(map(self.framework.bits, copies))
        changed = [float(old != new) for old, new in zip(before, after, strict=False)]
        changed.append(float(masks != after[len(before) :]))
        return {**parts, "changed": np.array(changed)}

    def _keyword(self, name: str, value: Foreign) -> Foreign:
        """A mask, slopes and the like; what is added to logits has the kernel's own dtype."""
        if isinstance(value, list):
            return tuple(value)
        if not isinstance(value, np.ndarray):
            return value
        if name in ("bias", "sinks", "mask") and value.dtype.kind == "f":
            return self.framework.made(value, "plain")
        return self.framework.side_input(value)

    def _inputs(self, arrays: Sequence[Foreign], how: Plain) -> list[Foreign]:
        """Fresh arrays, or those of a slot filled again."""
        slot, layout = how.get("slot", ""), how.get("layout", "plain")
        if slot in self._slots:
            self.framework.fill(self._slots[slot], tuple(arrays))
            return self._slots[slot]
        made = [self.framework.made(array, layout) for array in arrays]
        if slot:
            self._slots[slot] = made
        return made

    def _call(self, inputs: list[Foreign], keywords: Plain, parts: list[str]) -> Callable[[], Foreign]:
        if self.differentiate:
            also = [_GRADIENTS[name] for name in parts if name in _GRADIENTS]
            given = {name: value for name, value in keywords.items() if name not in ("wanted", "dlse")}
            dlse = keywords.get("dlse")
            given |= {} if dlse is None else {"return_lse": True}
            return _partial(self.framework.differentiated, self.function, inputs, given, also, dlse)
        return _partial(self.function, *inputs, **keywords)

    def _replayed(self, call: Deferred, slot: str) -> Deferred:
        """The call on a slot's arrays, recorded when they were made."""
        if slot not in self._graphs:
            self._graphs[slot] = self.framework.captured(call)
        return self._graphs[slot]

    def _read(self, result: Foreign, names: list[str], packed: bool, order: str) -> Plain:
        values = [no_tuple(result)] if names == ["o"] else list(result)
        if len(values) != len(names):
            raise TypeError(f"returns {len(values)} things instead of {len(names)}")
        parts: Plain = {}
        types = []
        for name, value in zip(names, values, strict=True):
            if value is None or isinstance(value, (Mapping, str)):
                raise TypeError(f"{name} is {value if value is None else type(value).__name__}: return an array")
            read, kind = self.framework.read(value)
            with ours():
                parts[name] = _unpacked(name, read, parts) if packed else _as_contract(name, read, order)
            types.append(TYPES.index(kind) if kind in TYPES else -1)
        return {**parts, "types": np.array(types)}


def _ordered(array: Foreign, order: str) -> Foreign:
    """An array (batch, heads, n, m) with its axes in another order; without samples, or heads, the only one."""
    if order == "nm":
        return array[0, 0]
    turned = array if order.endswith("hnm") else np.ascontiguousarray(array.swapaxes(1, 2))
    return turned if order[0] == "b" else turned[0]


def _as_contract(name: str, array: Foreign, order: str) -> Foreign:
    """A result in the contract's order of axes: o and gradients of the inputs, or log sum exp without samples."""
    missing = 4 - len(order)
    if missing and array.ndim == len(order) - (name == "lse") and name not in ("dbias", "dsinks"):
        array = array[(None,) * missing]
    turned = order.endswith("nhm") and array.ndim == 4 and name in ("o", "dq", "dk", "dv")
    return array.swapaxes(1, 2) if turned else array


def _packed(array: Foreign) -> Foreign:
    """Reshape (1, heads, total, m) to (total, heads, m)."""
    return np.ascontiguousarray(array[0].swapaxes(0, 1))


def _unpacked(name: str, array: Foreign, parts: Mapping[str, Foreign]) -> Foreign:
    """Back again; log sum exp may come as (heads, total) or (total, heads)."""
    if name == "lse" and array.ndim == 2:
        heads = parts["o"].shape[1] if parts["o"].ndim == 4 else 0
        return (array if len(array) == heads else array.T)[None]
    if name == "lse":
        return array
    return array.swapaxes(0, 1)[None] if array.ndim == 3 else array


def as_sequences(keywords: Plain, q: Foreign, k: Foreign) -> Plain:
    """The keywords of a call whose samples stand behind each other, as sequences of one length."""
    names = ("cu_seqlens_q", "cu_seqlens_k")
    found = {name: np.arange(len(x) + 1, dtype=np.int32) * x.shape[2] for name, x in zip(names, (q, k), strict=True)}
    dlse = keywords.get("dlse")
    turned = {} if dlse is None else {"dlse": dlse.swapaxes(0, 1).reshape(dlse.shape[1], -1)}
    return {**keywords, **found, **turned}


def _behind_each_other(array: Foreign) -> Foreign:
    """Reshape (batch, heads, n, m) to (1, heads, batch * n, m)."""
    _, heads, _, width = array.shape
    return np.ascontiguousarray(array.swapaxes(0, 1)).reshape(1, heads, -1, width)


def _sampled(part: Foreign, samples: int) -> Foreign:
    """Reshape (1, heads, batch * n, ...) back to (batch, heads, n, ...); leave what has another shape."""
    if part.ndim < 3 or len(part) != 1 or part.shape[2] % samples:
        return part
    return part[0].reshape(len(part[0]), samples, part.shape[2] // samples, *part.shape[3:]).swapaxes(0, 1)


def _copier(array: Foreign) -> Callable[[], Foreign]:
    """A method in C that copies an array or tensor; the keyword arrays of a kernel, too."""
    found: Callable[[], Foreign] = getattr(array, "clone", None) or array.copy
    return found
