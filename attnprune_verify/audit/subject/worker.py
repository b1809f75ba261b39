"""The process in which the audited code runs; nothing it does there can reach the audit.

A script, started by `attnprune_verify.audit.subject.process` with two pipes. It takes requests from one and answers
on the other; standard output and error are somebody else's. It uses only the standard library and NumPy, takes its own
references to what it needs before the subject is imported (a subject may replace `numpy.asarray`), and sends arrays
as raw bytes, never pickles.

A message is a length (8 bytes), a JSON header, and the bytes of its arrays. A value in a header is null, a number, a
string, a list, a mapping, or ``{"array": i}``; an array comes out with the memory layout it went in with. Every request
has a number that nobody can guess, and its answer the same one.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["LONGEST_MESSAGE", "MEMORY", "Functions", "decode", "encode", "limit_memory", "printable", "serve"]

_array_of, _frombuffer, _ndarray, _generic, _single = np.asarray, np.frombuffer, np.ndarray, np.generic, np.float32
_empty = np.empty
_dumps, _loads, _pack, _unpack = json.dumps, json.loads, struct.pack, struct.unpack
_read, _write, _clock = os.read, os.write, time.perf_counter
_WIDE = np.dtype(np.float64)
_KEPT, _KEPT_BYTES = 8, 1 << 20  # how many answers are looked at again later, and how large they may be
MEMORY = (8 << 30) + (os.cpu_count() or 1) * (64 << 20)  # bytes a subject may hold, with its threads' stacks
LONGEST_MESSAGE = 300


def encode(value: Any) -> bytes:
    """A message: length, JSON header, array bytes."""
    arrays: list[Any] = []
    tree = _strip(value, arrays)
    shapes = [[array.dtype.str, list(array.shape), _layout(array)] for array in arrays]
    header = _dumps({"tree": tree, "arrays": shapes}).encode()
    body = b"".join([_pack("<Q", len(header)), header, *(array.tobytes() for array in arrays)])
    return _pack("<Q", len(body)) + body


def decode(body: bytes) -> Any:
    """The value in a message without its leading length; every array is a fresh, writable copy."""
    (size,) = _unpack("<Q", body[:8])
    header = _loads(body[8 : 8 + size])
    position = 8 + size
    arrays = []
    for dtype, shape, layout in header["arrays"]:
        if dtype[1] not in "biufc":
            raise ValueError(f"no number type: {dtype}")
        count = 1
        for length in shape:
            count *= length
        end = position + count * int(dtype[2:])
        arrays.append(_laid_out(_frombuffer(body[position:end], dtype=dtype).reshape(shape), layout))
        position = end
    return _fill(header["tree"], arrays)


def _layout(array: Any) -> str:
    """C, F as in Fortran, or S for anything with gaps."""
    flags = array.flags
    return "C" if flags["C_CONTIGUOUS"] else ("F" if flags["F_CONTIGUOUS"] else "S")


def _laid_out(array: Any, layout: str) -> Any:
    """A fresh copy; with gaps it is every other entry of a row twice as long."""
    if layout != "S":
        return array.copy(order=layout)
    spaced = _empty((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)[..., ::2]
    spaced[...] = array
    return spaced


def _strip(value: Any, arrays: list[Any]) -> Any:
    if isinstance(value, _generic):
        value = _array_of(value)
    if isinstance(value, _ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, dict):
        return {str(key): _strip(item, arrays) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strip(item, arrays) for item in value]
    return value


def _fill(tree: Any, arrays: list[Any]) -> Any:
    if isinstance(tree, dict):
        if set(tree) == {"array"}:
            return arrays[tree["array"]]
        return {key: _fill(item, arrays) for key, item in tree.items()}
    return [_fill(item, arrays) for item in tree] if isinstance(tree, list) else tree


def _receive(channel: int) -> Any:
    (size,) = _unpack("<Q", _exactly(channel, 8))
    return decode(_exactly(channel, size))


def _exactly(channel: int, size: int) -> bytes:
    parts = []
    while size:
        part = _read(channel, min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _send(channel: int, value: Any) -> None:
    data = memoryview(encode(value))
    while data:
        data = data[_write(channel, data) :]


class Functions:
    """The audited functions of a module, object, class, mapping or function, by their names in the contract."""

    def __init__(self, holder: Any, names: list[str], alias: str = "") -> None:
        given = holder
        if isinstance(holder, type):
            holder = _instance(holder)
        self.holder = holder
        self.made = holder is not given
        self.way = "item" if isinstance(holder, dict) else "attribute"
        self.found: dict[str, Callable[..., Any]] = {}
        self.broken: dict[str, str] = {}
        self._kept: list[tuple[Any, bytes]] = []
        for name in names:
            try:
                found = holder[name] if isinstance(holder, dict) else getattr(holder, name)
            except (AttributeError, KeyError):
                continue
            except BaseException as error:  # a lazy module may fail here in any way
                self.broken[name] = _line(error)
                continue
            if callable(found):
                self.found[name] = found
            else:
                self.broken[name] = f"{name} is not callable but {type(found).__name__}"
        if not self.found and not self.broken and callable(holder):
            known = next((name for name in (alias, getattr(holder, "__name__", "")) if name in names), "")
            if known:
                self.found[known] = holder
                self.way = "itself"

    def bridge(self, through: list[str], needed_by: list[str]) -> None:
        """Wrap what was found as a module of ours says: `bridged(functions, holder, *settings)` in `through[0]`."""
        if through and (not needed_by or any(name in self.found for name in needed_by)):
            module, *settings = through
            self.found = importlib.import_module(module).bridged(self.found, self.holder, *settings)

    def describe(self) -> dict[str, Any]:
        return {
            "functions": {name: _parameters(function) for name, function in self.found.items()},
            "broken": self.broken,
            "made": self.made,
            "way": self.way,
        }

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Call a function; say too whether something that was returned earlier has changed since."""
        reply = self._call(self.found[request["function"]], request)
        return {**reply, "number": request["number"]}

    def _call(self, function: Callable[..., Any], request: dict[str, Any]) -> dict[str, Any]:
        arguments, keywords = request["arguments"], request["keywords"]
        given = [*arguments, *keywords.values()]
        before = [item.tobytes() if isinstance(item, _ndarray) else None for item in given]
        start = _clock()
        try:
            result = function(*arguments, **keywords)
        except BaseException as error:  # SystemExit and KeyboardInterrupt too: the subject does not end the audit
            return {"status": "raised", "error": _line(error)}
        seconds = _clock() - start
        after = [item.tobytes() if isinstance(item, _ndarray) else None for item in given]
        try:
            parts = _as_parts(result, request["parts"], request["attributes"], request["largest"])
            overwritten = any(array.tobytes() != old for array, old in self._kept)
            detached = _has_tensors(result)
        except BaseException as error:
            return {"status": "unreadable", "error": _line(error)}
        self._kept += [(part, part.tobytes()) for part in parts if part.ndim and part.nbytes <= _KEPT_BYTES]
        del self._kept[:-_KEPT]
        changed = [index for index, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
        return {
            "status": "returned",
            "parts": parts,
            "changed": changed,
            "seconds": seconds,
            "overwritten": overwritten,
            "detached": detached,
        }


def _load(kind: str, place: str, names: list[str], adapter: str) -> tuple[Functions, dict[str, Any]]:
    """Import a module or file, and find the functions in it or in one of its objects, or in what an adapter makes."""
    location, _, attribute = place.partition(":") if kind == "module" else _split_file(place)
    module = _import_file(location) if kind == "file" else importlib.import_module(location)
    holder: Any = module
    for part in attribute.split(".") if attribute else []:
        holder = getattr(holder, part)
    if adapter:
        holder = getattr(importlib.import_module("attnprune_verify.audit.adapters"), adapter)(holder)
    top = importlib.import_module(module.__name__.partition(".")[0]) if module.__spec__ else module
    version = getattr(module, "__version__", None) or getattr(top, "__version__", None)
    return Functions(holder, names, attribute.rpartition(".")[2]), {
        "version": version if isinstance(version, str) else None
    }


def _instance(kind: type) -> Any:
    """An instance, if the class makes one without arguments; else the class itself, for its static methods."""
    try:
        return kind()
    except Exception:
        return kind


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
    if len(parts) > 1 or name == "__init__":
        module = importlib.import_module(".".join(parts))
        if os.path.samefile(module.__file__ or "", path):
            return module
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
    """The numbers in a result: one array, so many of them (0: one, or those of a tuple), or attributes of an object."""
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
    """Whether there are tensors in it, which NumPy takes only without their graph."""
    items = value if isinstance(value, (list, tuple)) else [value]
    return any(hasattr(item, "detach") for item in items)


def _line(error: BaseException) -> str:
    try:
        text = " ".join(str(error)[: 4 * LONGEST_MESSAGE].split())
    except BaseException:
        text = "(its message cannot be printed)"
    if isinstance(error, SystemExit):
        text = f"sys.exit({text}) was called"
    return printable(f"{type(error).__name__}: {text}"[:LONGEST_MESSAGE])


def printable(text: str) -> str:
    """A report is UTF-8 and is read in terminals: no lone surrogates, no control characters."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def limit_memory() -> None:
    """A subject that takes ever more memory gets a MemoryError, before the machine runs out of it."""
    try:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = min(limit for limit in (MEMORY, soft, hard) if limit != resource.RLIM_INFINITY)
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    except Exception:
        pass


def serve(inbox: int, outbox: int, holder: Any = None, alias: str = "") -> None:
    """Answer requests until there are no more; of a live object, or of what the first request says to import."""
    first = _receive(inbox)
    try:
        if holder is None:
            sys.path[:] = first["path"]
            functions, known = _load(first["kind"], first["place"], first["names"], first["adapter"])
        else:
            functions, known = Functions(holder, first["names"], alias), {"version": None}
        functions.bridge(first["bridge"], first["bridged"])
        description = {"status": "loaded", **functions.describe(), **known}
    except BaseException as error:
        description = {"status": "raised", "error": _line(error)}
    _send(outbox, {**description, "number": first["number"]})
    while description["status"] == "loaded":
        try:
            request = _receive(inbox)
        except EOFError:
            return
        _send(outbox, functions.answer(request))


if __name__ == "__main__":
    limit_memory()
    for _channel in (int(sys.argv[1]), int(sys.argv[2])):
        os.set_inheritable(_channel, False)
    serve(int(sys.argv[1]), int(sys.argv[2]))
    os._exit(0)  # whatever the subject registered to run at exit is none of the audit's business
