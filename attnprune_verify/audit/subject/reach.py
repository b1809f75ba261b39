"""Paths a subject may read and write: decided by the audit, before anything of the subject runs."""

import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attnprune_verify
from attnprune_verify.audit.subject.target import Target, source_file

_LIBRARIES = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/nix/store", "/gnu/store")
# Below /etc; no secrets.
_SETTINGS = ("ld.so.cache", "ld.so.preload", "localtime", "passwd", "group", "nsswitch.conf", "alternatives")
_OF_A_PREFIX = ("bin", "lib", "lib64", "include", "pyvenv.cfg")  # the rest of a prefix may be a home
_PACKAGE = str(Path(attnprune_verify.__file__).resolve().parent)
_STATE = ("/proc", "/sys")  # other processes' memory, files and environment stay closed
_MOST_NAMES = 20_000  # chosen: a tenth of a second; a folder of code has some thousand
_DEEPEST = 100  # folders, chosen: what lies deeper stays closed

_left: list[list[str]] = []


@contextmanager
def leave_working_directory() -> Iterator[None]:
    """Take the working directory off this process's path for a while; subjects keep the path as it was."""
    here = os.path.realpath(os.getcwd())
    _left.append(list(sys.path))
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry or ".") != here]
    try:
        yield
    finally:
        sys.path[:] = _left.pop()


def path_of_subjects() -> list[str]:
    """Return the import path of a subject's modules."""
    return list(_left[0] if _left else sys.path)


def plan(target: Target, path: list[str], folder: str, *, confined: bool) -> dict[str, Any]:
    """Return, as plain data, what a subject may read and its temporary folder, where alone it may write.

    ``read`` and ``listed`` are free of links; ``shown`` are the same places under the names that they have for others;
    ``whole``: whether hidden files are closed at every depth.
    """
    named = [*_LIBRARIES, *(f"/etc/{name}" for name in _SETTINGS), *_STATE]
    for prefix in dict.fromkeys((sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)):
        named += [os.path.join(prefix, part) for part in _OF_A_PREFIX]
    named += [sys.executable, *filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")), _PACKAGE]
    read = list(dict.fromkeys(map(os.path.realpath, named)))
    listed, shown, rest = [os.path.dirname(_PACKAGE)], [*named], _MOST_NAMES
    home, shared = map(os.path.realpath, (os.path.expanduser("~"), tempfile.gettempdir()))
    for name in dict.fromkeys(map(os.path.abspath, [*folders_of(target, path), *path, *_editable()])):
        place = os.path.realpath(name)
        if _below(place, read):
            shown.append(name)
            continue
        private = place == shared or _below(home, [place])
        files, folders, rest = _visible(place, rest, code_alone=private)
        read += files
        listed += folders
        shown += files if private else [name]
    return {"confined": confined, "read": read, "listed": listed, "shown": shown, "folder": folder, "whole": rest > 0}


def _below(place: str, others: Iterable[str]) -> bool:
    return any(place == one or place.startswith(one.rstrip("/") + "/") for one in others)


def folders_of(target: Target, path: list[str]) -> list[str]:
    """Return the folders in which the target's own files lie; of a package, the one that the package is in."""
    if target.kind == "live":
        file = _file_of(target.object)
    else:
        file = source_file(target, path) or _found(target.location.partition(".")[0])
    if file is None:
        return []
    folder = os.path.dirname(os.path.realpath(file))
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder = os.path.dirname(folder)
    return [folder, os.path.dirname(os.path.abspath(file))]


def _visible(place: str, rest: int, *, code_alone: bool) -> tuple[list[str], list[str], int]:
    """List what may be read of a folder that code is imported from: nothing hidden, and nothing through a link.

    A rule holds for all that lies below a path. A folder with something hidden below it is therefore listed alone, and
    has rules for each of its parts.

    Parameters
    ----------
    rest : int
        So many names are looked at; folders that are met after that are read as they are.
    code_alone : bool
        Of this folder Python files and packages are read, and nothing else.

    Returns
    -------
    tuple
        Paths that may be read, folders whose names may be listed alone, and how many names are left.
    """
    if not os.path.isdir(place):
        return [place], [], rest  # an archive
    if place.count("/") > _DEEPEST:
        return [], [], rest
    read: list[str] = []
    listed: list[str] = []
    hidden = code_alone
    installed = os.path.basename(place) in ("site-packages", "dist-packages")  # everybody's, and too many to look at
    try:
        entries = list(os.scandir(place)) if rest > 0 else []
    except OSError:
        return [], [], rest
    for entry in entries:
        rest -= 1
        if entry.name.startswith("."):
            hidden = True
        elif entry.is_symlink():
            continue  # a rule would be about what it points at
        elif not entry.is_dir(follow_symlinks=False):
            read += [entry.path] * (not code_alone or entry.name.endswith(".py"))
        elif not code_alone or os.path.isfile(os.path.join(entry.path, "__init__.py")):
            files, folders, rest = (
                ([entry.path], [], rest) if installed else _visible(entry.path, rest, code_alone=False)
            )
            read += files
            listed += folders
            hidden |= files != [entry.path]
    return (read, [place, *listed], rest) if hidden else ([place], [], rest)


def _file_of(alive: Any) -> str | None:
    """The file in which something alive was defined."""
    module = sys.modules.get(str(getattr(alive, "__module__", "")), alive)
    file = getattr(module, "__file__", None)
    return file if isinstance(file, str) else None


def _found(name: str) -> str | None:
    """The file of a top-level module as any finder has it, editable installs included; nothing is imported."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    return spec.origin if spec is not None and spec.origin and Path(spec.origin).exists() else None


def _editable() -> list[str]:
    """The folders of editable installs that an import finder, not the path, provides."""
    maps = [getattr(module, "MAPPING", {}) for name, module in list(sys.modules.items()) if "__editable__" in name]
    return [str(Path(place).parent) for one in maps if isinstance(one, dict) for place in one.values()]
