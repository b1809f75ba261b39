"""Lines of a script that get the audited function: from a file, a module, a package, a class, a mapping, or alive."""

import keyword
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FunctionType, ModuleType

from attnprune_verify.audit.subject.process import Subject
from attnprune_verify.audit.subject.target import Target, source_file

# Modules that a snippet, or what it needs, has imported before the subject: a file of the same name needs a loader.
_TAKEN = frozenset({*sys.stdlib_module_names, "numpy", "attnprune_verify", "torch", "jax", "ml_dtypes"})


def import_lines(subject: Subject, function: str) -> list[str]:
    """Statements after which `function` is the audited function, in a fresh interpreter in any folder.

    Of a live object that no import finds again a comment says what to put in the place of SUBJECT.
    """
    target = subject.target
    if target.kind == "live":
        return _live(subject, function)
    first, _, rest = target.attribute.partition(".")
    if target.kind == "file":
        lines, module = _of_file(Path(target.location), first or function)
    else:
        lines, module = [*_path_to(target.location), f"from {target.location} import {first or function}"], ""
    if target.adapter:
        names = f"{{{function!r}: {module}.{function}}}" if module else f"{{{function!r}: {function}}}"
        holder = ".".join(part for part in (module, first, rest) if part) if target.attribute else names
        adapted = _out_of(f"adapters.{target.adapter}({holder})", subject, function)
        return ["from attnprune_verify.audit import adapters", *lines, *adapted]
    if not target.attribute:
        return [*lines, f"{function} = {module}.{function}"] if module else lines
    holder = ".".join(part for part in (module, first, rest) if part)
    return [*lines, *_out_of(holder, subject, function)]


def _of_file(file: Path, wanted: str) -> tuple[list[str], str]:
    """Import the file as the audit does it: its folder on the path; inside a package, as part of it.

    The second value is empty where `wanted` was imported by name, else the variable that holds the module.
    """
    folder, parts = file.parent, [file.stem] if file.stem != "__init__" else []
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    on_path = ["import sys", "", f"sys.path.insert(0, {str(folder)!r})"]
    if parts[0] not in _TAKEN and all(part.isidentifier() and not keyword.iskeyword(part) for part in parts):
        return [*on_path, f"from {'.'.join(parts)} import {wanted}"], ""
    return [
        "import importlib.util",
        *on_path,
        f"spec = importlib.util.spec_from_file_location({file.stem!r}, {str(file)!r})",
        "module = importlib.util.module_from_spec(spec)",
        "spec.loader.exec_module(module)",
    ], "module"


def _path_to(module: str) -> list[str]:
    """The current folder on the path, where the module is found there and nowhere else."""
    here = str(Path.cwd())
    elsewhere = [entry for entry in sys.path if entry and Path(entry).absolute() != Path(here)]
    target = Target(module, "module", module)
    if source_file(target, [here]) is None or source_file(target, elsewhere) is not None:
        return []
    return ["import sys", "", f"sys.path.insert(0, {here!r})"]


def _out_of(holder: str, subject: Subject, function: str) -> list[str]:
    """The function out of what holds it: itself, an item of a mapping, an attribute; of a class, of a new instance."""
    made = f"{holder}()" if subject.made else holder
    if subject.way == "itself":
        return [] if made == function else [f"{function} = {made}"]
    if subject.way == "item":
        return [f"{function} = {holder}[{function!r}]"]
    return [f"{function} = {made}.{function}"]


def _live(subject: Subject, function: str) -> list[str]:
    """Import a live object by the name it has in a module, if that finds it again; else a comment describes it."""
    alive = subject.target.object
    if isinstance(alive, ModuleType) and sys.modules.get(alive.__name__) is alive and alive.__name__ != "__main__":
        return [*_path_to(alive.__name__), f"from {alive.__name__} import {function}"]
    itself = alive.get(function) if isinstance(alive, Mapping) else alive if subject.way == "itself" else None
    module, name = _name_of(itself)
    if name:
        if module == "__main__":
            return [f"# Paste this where {name} is defined.", *([] if name == function else [f"{function} = {name}"])]
        return [*_path_to(module), f"from {module} import {name}{'' if name == function else f' as {function}'}"]
    module, name = _name_of(alive) if isinstance(alive, type) else ("", "")
    if name and module == "__main__":
        return [f"# Paste this where {name} is defined.", *_out_of(name, subject, function)]
    if name:
        return [*_path_to(module), f"from {module} import {name}", *_out_of(name, subject, function)]
    return [
        f"# SUBJECT stands for the {subject.target.spec} that was audited: no import finds it again.",
        *_out_of("SUBJECT", subject, function),
    ]


def _name_of(thing: object) -> tuple[str, str]:
    """The module and the name under which a function or class is found there again; empty if it is not.

    Of nothing else are attributes read: what a property does is done in the subject's process.
    """
    if not isinstance(thing, (FunctionType, type)):
        return "", ""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
    if not isinstance(module, str) or not str(name).isidentifier():
        return "", ""
    return (module, name) if getattr(sys.modules.get(module), name, None) is thing else ("", "")
