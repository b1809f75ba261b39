"""Paths a subject may read and write: decided by the audit, before anything of the subject runs."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attnprune_verify
from attnprune_verify.audit.subject.target import Target, source_file

__all__ = ["folders_of", "leave_working_directory", "path_of_subjects", "plan"]

_LIBRARIES = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/nix/store", "/gnu/store")
_SETTINGS = ("ld.so.cache", "ld.so.preload", "localtime", "passwd", "group", "nsswitch.conf")  # below /etc; no secrets
_OF_A_PREFIX = ("bin", "lib", "lib64", "include", "pyvenv.cfg")  # the rest of a prefix may be a home
_PACKAGE = str(Path(attnprune_verify.__file__).resolve().parent)
_STATE = ("/proc", "/sys")  # other processes' memory, files and environment stay closed

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
    """Return, as plain data, what a subject may read and its temporary folder, where alone it may write."""
    read = [*_LIBRARIES, *(f"/etc/{name}" for name in _SETTINGS), *_STATE]
    for prefix in dict.fromkeys((sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)):
        read += [os.path.join(os.path.realpath(prefix), part) for part in _OF_A_PREFIX]
    read += [os.path.realpath(sys.executable), *filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))]
    read.append(_PACKAGE)
    listed = [os.path.dirname(_PACKAGE)]
    for place in dict.fromkeys(map(os.path.realpath, [*path, *folders_of(target, path), *_editable()])):
        if not any(place == one or place.startswith(one.rstrip("/") + "/") for one in read):
            listed += [place] * os.path.isdir(place)
            read += _visible(place)
    return {"confined": confined, "read": read, "listed": listed, "folder": folder}


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


def _visible(place: str) -> list[str]:
    """List the readable part of a folder that code is imported from: no hidden files, and of a home the code alone."""
    if not os.path.isdir(place):
        return [place]  # an archive
    home = os.path.realpath(os.path.expanduser("~"))
    private = home == place or home.startswith(place.rstrip("/") + "/")
    try:
        names = [name for name in os.listdir(place) if not name.startswith(".")]
    except OSError:
        return []
    found = [os.path.join(place, name) for name in names]
    if private:
        found = [one for one in found if one.endswith(".py") or os.path.isfile(os.path.join(one, "__init__.py"))]
    return found


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
