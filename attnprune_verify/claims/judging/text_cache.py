"""A cache of verdicts between runs; a key covers every file and library that the verdict depends on.

Light: what is kept is shown without loading what computed it.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import attnprune_verify
from attnprune_verify.state.digests import of_document, of_files, of_text, versions
from attnprune_verify.state.sealed import keep_document, kept_document

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
    root = Path(attnprune_verify.__file__).parent
    inside = (path for path in root.rglob("*") if path.suffix != ".pyc" and path.is_file())
    files = of_files(root, (path for path in inside if path.relative_to(root).parts[0] not in leave_out))
    return of_document([files, versions(_LIBRARIES)])[:32]


def kept(code: str, name: str) -> dict[str, Any] | None:
    """Return the entry that `keep` stored under this name with the present code; None if there is none."""
    return kept_document(_place(code, name), f"{code} {name}")


def keep(code: str, name: str, document: Mapping[str, Any]) -> None:
    """Keep a document, where the user's cache can be written to and JSON can hold it."""
    with suppress(OSError, TypeError, ValueError):
        keep_document(_place(code, name), document, f"{code} {name}")


def kept_page(id_: str) -> list[dict[str, Any]] | None:
    """Return the page that `keep_page` stored for this statement with the present code, if there is one."""
    page = kept(code_key(_NO_PAGE), f"page {id_}")
    return None if page is None else page["readings"]


def keep_page(id_: str, readings: list[dict[str, Any]]) -> None:
    """Store a statement's page: for each reading its place in the order, its JSON row and its blocks of text."""
    keep(code_key(_NO_PAGE), f"page {id_}", {"readings": readings})


def _place(code: str, name: str) -> Path:
    return folder() / code / f"{of_text(name)[:20]}.json"
