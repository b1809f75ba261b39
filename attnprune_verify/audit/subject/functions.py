"""The audited functions of a target, as they are found and called in the process in which its code runs."""

import functools
import importlib
import importlib.util
import inspect
import operator
import os
import sys
import time
import traceback
import types
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

import numpy as np

from attnprune_verify.audit.subject.answers import OurError

__all__ = ["KEPT", "KEPT_BYTES", "LONGEST_MESSAGE", "Functions", "line_of", "load", "printable", "version_of"]

_array_of, _single, _errstate = np.asarray, np.float32, np.errstate
_clock, _partial = time.perf_counter, functools.partial
_invoke: Any = operator.call
_WIDE = np.dtype(np.float64)
KEPT, KEPT_BYTES = 8, 1 << 20  # how many results are looked at again later, and how large they may be
LONGEST_MESSAGE = 300
_LISTED = 8  # names that a message proposes


class Functions:
    """The audited functions of a module, object, class, mapping or function, by their names in the contract.

    A callable without any of the names is the function of the name that it was asked for under or that it has itself,
    else of the name `itself`.
    """

    def __init__(self, holder: Any, names: list[str], alias: str = "", itself: str = "") -> None:
        given = holder
        self._needs = ""  # why a class that is asked for is not made without arguments
        if isinstance(holder, type) and not _by_apply(holder):
            try:
                holder = holder()
            except Exception as error:  # its static methods may be meant
                self._needs = line_of(error)
        self.holder = holder
        self.made = holder is not given
        self.way = "item" if isinstance(holder, dict) else "attribute"
        self.found: dict[str, Callable[..., Any]] = {}
        self.broken: dict[str, str] = {}
        self._kept: dict[int, list[Any]] = {}
        for name in names:
            try:
                found = holder[name] if isinstance(holder, dict) else getattr(holder, name)
            except (AttributeError, KeyError):
                continue
            except BaseException as error:  # a lazy module may fail here in any way
                self.broken[name] = line_of(error)
                continue
            if callable(found):
                self.found[name] = found
            else:
                hint = f": write {name} = {name}.forward" if hasattr(found, "forward") else ""
                self.broken[name] = f"{name} is not callable but {type(found).__name__}{hint}"
        if not self.found and not self.broken and callable(holder):
            known = next((name for name in (alias, getattr(holder, "__name__", "")) if name in names), itself)
            if known and not self._needs:
                self.found[known] = holder
                self.way = "itself"

    def bridge(self, through: list[str], needed_by: list[str]) -> None:
        """Wrap the functions by `bridged(functions, holder, *settings)` of the module `through[0]`."""
        if self._needs and not self.found:
            name = self.holder.__name__
            raise ValueError(f"the class {name} needs arguments ({self._needs}): name an instance, x = {name}(...)")
        if through and (not needed_by or any(name in self.found for name in needed_by)):
            module, *settings = through
            self.found = importlib.import_module(module).bridged(self.found, self.holder, *settings)

    def describe(self) -> dict[str, Any]:
        return {
            "functions": {name: _parameters(function) for name, function in self.found.items()},
            "broken": self.broken,
            "made": self.made,
            "way": self.way,
            "names": [] if self.found else _names_in(self.holder),
        }

    def answer(self, request: dict[str, Any], after: tuple[Callable[[], Any], ...]) -> tuple[bytes, dict[str, Any]]:
        """Call a function; return the ticket of its answer, and the answer.

        Parameters
        ----------
        request : dict
            What is called with which arguments, and the numbers of the earlier calls whose results are read again.
        after : tuple of callable
            Steps that follow the call: tell that it has ended, with the memory of the arguments, and wait for the
            ticket. They are made of callables in C: between the function's return and the ticket no line of Python
            runs in this thread, and no hook that the subject has set.
        """
        function, arguments, keywords = self.found[request["function"]], request["arguments"], request["keywords"]
        call = _partial(function, *arguments, **keywords)
        start = _clock()
        try:
            steps: tuple[Callable[[], Any], ...] = (call, _clock, *after)
            with _errstate(all="ignore"):  # whatever the caller, or the subject's module, has set
                result, end, *_, ticket = [*map(_invoke, steps)]
        except BaseException as error:  # SystemExit and KeyboardInterrupt too: the subject does not end the audit
            *_, ticket = [*map(_invoke, after)]
            own = error.__cause__ if isinstance(error, OurError) else None
            return ticket, {"status": "ours" if own else "raised", "error": line_of(own or error)}
        try:
            parts = _as_parts(result, request["parts"], request["attributes"], request["largest"])
            detached = _has_tensors(result)
        except BaseException as error:
            return ticket, {"status": "unreadable", "error": line_of(error)}
        again = {str(number): self._kept[number] for number in request["again"]}
        self._kept[request["number"]] = [part for part in parts if part.ndim and part.nbytes <= KEPT_BYTES]
        self._kept.pop(request["number"] - KEPT, None)
        places = [[part.__array_interface__["data"][0], part.strides] for part in parts]
        told = {"parts": parts, "places": places, "seconds": end - start, "again": again, "detached": detached}
        return ticket, {"status": "returned", **told}


def _names_in(holder: Any) -> list[str]:
    """Return the public functions and classes that were written in a module."""
    found = vars(holder).items() if isinstance(holder, types.ModuleType) else ()
    mine = [name for name, value in found if callable(value) and getattr(value, "__module__", "") == holder.__name__]
    return [name for name in mine if not name.startswith("_")][:_LISTED]


def load(kind: str, place: str, adapter: str) -> tuple[Any, Any, str]:
    """Import a module or file; return it, the object in it or what an adapter makes of that, and the object's name."""
    location, _, attribute = place.partition(":") if kind == "module" else _split_file(place)
    module = _import_file(location) if kind == "file" else importlib.import_module(location)
    holder: Any = module
    for part in attribute.split(".") if attribute else []:
        if holder is module and not hasattr(module, part) and (near := get_close_matches(part, _names_in(module))):
            raise AttributeError(f"{module.__name__} has no {part}; did you mean {near[0]}?")
        holder = getattr(holder, part)
    if adapter:
        holder = getattr(importlib.import_module("attnprune_verify.audit.adapters"), adapter)(holder)
    return module, holder, attribute.rpartition(".")[2]


def _by_apply(kind: type) -> bool:
    """True of a torch.autograd.Function, which is never made."""
    return any(base.__module__ == "torch.autograd.function" for base in kind.__mro__)


def version_of(module: Any) -> str | None:
    """The version that a module or its package has."""
    if module is None:
        return None
    top = importlib.import_module(module.__name__.partition(".")[0]) if module.__spec__ else module
    version = getattr(module, "__version__", None) or getattr(top, "__version__", None)
    return version if isinstance(version, str) else None


def _split_file(place: str) -> tuple[str, str, str]:
    head, colon, tail = place.rpartition(":")
    return (head, colon, tail) if colon and head.endswith(".py") else (place, "", "")


def _import_file(path: str) -> Any:
    """Import a file as a module, its folder first on the path as for a script; inside a package, as part of it."""
    folder, name = os.path.dirname(os.path.abspath(path)), os.path.splitext(os.path.basename(path))[0]
    parts = [name] if name != "__init__" else []
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        parts.insert(0, package)
    sys.path.insert(0, folder)
    if (len(parts) > 1 or name == "__init__") and "." not in name:
        module = importlib.import_module(".".join(parts))
        if os.path.samefile(module.__file__ or "", path):
            return module
    name = name.replace(".", "_")  # with a dot it would be part of a package
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"not a Python file: {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    spec.loader.exec_module(module)
    return module


def _parameters(function: Callable[..., Any]) -> list[list[Any]] | None:
    """The name, the kind and whether there is a default, of every parameter; None when unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [[one.name, one.kind.name, one.default is not one.empty] for one in parameters]


def _as_array(value: Any, largest: int) -> Any:
    """Whatever np.asarray understands, and tensors that must be detached from a graph or fetched from a device."""
    if hasattr(value, "detach"):
        value = value.detach()
        if hasattr(value, "cpu"):
            value = value.cpu()
        if "bfloat16" in str(getattr(value, "dtype", "")):
            value = value.float()
    elif isinstance(value, (list, tuple)):
        value = [_as_array(item, largest) for item in value]
    array = _array_of(value)
    # Asked by kind and letter: a dtype looks for its name in modules, which a subject may have removed.
    kind, letter = array.dtype.kind, array.dtype.char
    if kind == "O" or letter == "g":
        array = array.astype(_WIDE)
    elif kind == "V" or (kind == "f" and letter not in "efd"):  # bfloat16 and its like in ml_dtypes
        array = array.astype(_single)
    if array.nbytes > largest:
        raise TypeError(f"returns {array.nbytes / 1e6:.0f} MB of shape {array.shape}")
    if array.dtype.kind not in "biufc":
        raise TypeError(f"returns {type(value).__name__} of dtype {array.dtype.str}, no numbers")
    return array


def _as_parts(value: Any, parts: int, attributes: list[str], largest: int) -> list[Any]:
    """The numbers in a result: one array, `parts` arrays (0: one, or a tuple's), or attributes of an object."""
    if attributes:
        items = [value[name] if isinstance(value, dict) else getattr(value, name) for name in attributes]
    elif not parts:
        items = list(value) if isinstance(value, tuple) else [value]
    else:
        items = [value] if parts == 1 else list(value)
        if len(items) != parts:
            raise TypeError(f"returns {len(items)} things instead of {parts}")
    return [_as_array(item, largest) for item in items]


def _has_tensors(value: Any) -> bool:
    """Return True where there are tensors in it, which NumPy takes only without their graph."""
    items = value if isinstance(value, (list, tuple)) else [value]
    return any(hasattr(item, "detach") for item in items)


def line_of(error: BaseException) -> str:
    try:
        text = " ".join(str(error)[: 4 * LONGEST_MESSAGE].split())
    except BaseException:
        text = "(its message cannot be printed)"
    if isinstance(error, SystemExit):
        text = f"sys.exit({text}) was called"
    if asserted := _assertion_without_words(error.__cause__ or error):
        text = f"{text} at {asserted}".strip()
    return printable(f"{type(error).__name__}: {text}"[:LONGEST_MESSAGE])


def _assertion_without_words(error: BaseException) -> str:
    """Return the source line of an assertion without a message, or nothing."""
    if not isinstance(error, AssertionError) or error.args not in ((), ("",)):
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "site-packages" not in frame.filename] or frames
    return (own[-1].line or "") if own else ""


def printable(text: str) -> str:
    """A report is UTF-8 and is read in terminals: no lone surrogates, no control characters."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
