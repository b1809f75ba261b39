"""Targets: ``package.module``, ``package.module:object``, ``path/to/file.py``, or something alive."""

import hashlib
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.files import read_regular
from attnprune_verify.state.digests import of_files
from attnprune_verify.values import nearest

_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*", re.UNICODE)


@dataclass(frozen=True)
class Target:
    """The place of the audited functions.

    `place` is what follows in the worker: a dotted module or an absolute file, each with an optional ``:object``; of a
    live `object` its name. `adapter` is the published adapter that is to be put around what is found there.
    """

    spec: str
    kind: Literal["module", "file", "live"]
    place: str
    object: Any = field(default=None, compare=False, repr=False)
    adapter: str = ""

    @property
    def title(self) -> str:
        """The name in a report."""
        return f"{self.adapter}({self.spec})" if self.adapter else self.spec

    @property
    def attribute(self) -> str:
        """The object inside the module, or an empty string."""
        head, _, tail = self.place.rpartition(":")
        return tail if head and _DOTTED.fullmatch(tail) else ""

    @property
    def location(self) -> str:
        """The module or file without the object."""
        return self.place.removesuffix(f":{self.attribute}") if self.attribute else self.place


def target_of(target: object) -> Target:
    """The target that a text names, or that a module, object, function or mapping of functions is.

    Examples
    --------
    >>> target_of({"loss": sum}).spec
    'dict of loss'
    """
    if isinstance(target, (str, Path)):
        return parse_target(str(target))
    if isinstance(target, ModuleType):
        return Target(target.__name__, "live", "", target)
    name = str(getattr(target, "__name__", ""))
    if title := inspect.getattr_static(target, "_attnprune_title", ""):  # of what an adapter has made
        return Target(title, "live", name, target)
    if isinstance(target, Mapping):
        return Target(f"dict of {', '.join(map(str, target))}"[:100], "live", "", dict(target))
    home = getattr(target, "__module__", None) or type(target).__module__
    return Target(f"{home}.{name}" if name else f"object of {home}.{type(target).__qualname__}", "live", name, target)


def parse_target(spec: str) -> Target:
    """Read a TARGET; nothing is imported here.

    Raises
    ------
    InvalidInstance
        If the text is neither a dotted name nor an existing Python file.

    Examples
    --------
    >>> parse_target("package.module:object").location
    'package.module'
    """
    rule = "TARGET must be package.module or path/to/file.py, or package.module:object, file.py:name"
    text = str(spec)
    head, colon, tail = text.rpartition(":")
    path, attribute = (head, tail) if colon and head.endswith(".py") else (text, "")
    if path.endswith(".py"):
        if path != text and not _DOTTED.fullmatch(attribute):
            raise InvalidInstance(f"{rule}; got the object {attribute!r}")
        file = Path(path)
        if not file.is_file():
            if file.exists():
                raise InvalidInstance(f"{rule}; {path!r} is {'a folder' if file.is_dir() else 'a pipe or a device'}")
            beside = [str(one) for one in file.parent.glob("*.py")] if file.parent.is_dir() else []
            raise InvalidInstance(f"{rule}; there is no file {path!r}{nearest(path, beside)}")
        return Target(text, "file", f"{file.resolve()}{':' + attribute if attribute else ''}")
    if "::" in text:  # as pytest writes it
        raise InvalidInstance(f"{rule}; got {text!r}: write {text.replace('::', ':')}")
    module, colon, attribute = text.partition(":")
    if not _DOTTED.fullmatch(module) or (colon and not _DOTTED.fullmatch(attribute)) or Path(text).is_file():
        raise InvalidInstance(f"{rule}; got {text!r}")
    return Target(text, "module", text)


def source_file(target: Target, path: list[str]) -> str | None:
    """The file that an import of the target would read, without an import; None if only an import can show it."""
    if target.kind == "file":
        return target.location
    found, search, name = None, path, ""
    for part in target.location.split(".") if target.kind == "module" else ():
        name = f"{name}.{part}" if name else part
        found = PathFinder.find_spec(name, search)
        if found is None:
            return None
        search = list(found.submodule_search_locations or ())
    return found.origin if found is not None else None


def fingerprint(file: str | None) -> str | None:
    """SHA-256 of a source file; of a package of all its Python files and their names."""
    if file is None or not Path(file).is_file():
        return None
    path = Path(file)
    if path.name == "__init__.py":
        return of_files(path.parent, path.parent.rglob("*.py"))
    return hashlib.sha256(read_regular(path)).hexdigest()
