"""Where what was computed is kept between runs, and under which key: of every file and library it depends on.

Light: what is kept is shown without loading what computed it.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import attnprune_verify
from attnprune_verify.files import write_whole

__all__ = ["code_key", "folder", "kept_page", "keep_page"]

_LIBRARIES = ("numpy", "scipy", "python-flint", "mpmath", "autograd")
_NO_PAGE = ("cli", "spec", "audit")  # floors on which no page of a statement depends


def folder() -> Path:
    """The user's cache folder for verdicts; the environment's ATTNPRUNE_CACHE names another."""
    if named := os.environ.get("ATTNPRUNE_CACHE"):
        return Path(named)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home()))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "attnprune-verify"


@cache
def code_key(leave_out: Iterable[str]) -> str:
    """A digest of the package's files, but for the folders left out, and of the versions of what computes with them."""
    digest = hashlib.sha256(" ".join(f"{name} {metadata.version(name)}" for name in _LIBRARIES).encode())
    root = Path(attnprune_verify.__file__).parent
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        if path.suffix != ".pyc" and inside.parts[0] not in leave_out and path.is_file():
            digest.update(f"\n{inside.as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:32]


def kept_page(id_: str) -> list[dict[str, Any]] | None:
    """What `keep_page` kept for this statement with this very code, if it did."""
    try:
        content = json.loads(_place(id_).read_bytes())
        return (
            content if content and all({"reading", "order", "row", "blocks"} <= set(one) for one in content) else None
        )
    except (OSError, ValueError, TypeError):  # not there, or not what was written
        return None


def keep_page(id_: str, readings: list[dict[str, Any]]) -> None:
    """Keep what is shown of a statement: of each reading its place among all, its JSON row and its blocks of text."""
    with suppress(OSError, TypeError, ValueError):  # a read-only home, or a value that JSON cannot hold
        place = _place(id_)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, json.dumps(readings, allow_nan=False).encode())


def _place(id_: str) -> Path:
    name = hashlib.sha256(f"page {id_}".encode()).hexdigest()[:20]
    return folder() / code_key(_NO_PAGE) / f"{name}.json"
