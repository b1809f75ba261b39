"""SHA-256 digests of the things a result depends on: documents, files, folders, arrays; and versions of packages."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from attnprune_verify.files import plain


def of_text(text: str) -> str:
    """SHA-256 of a text in UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


def of_document(document: Any) -> str:
    """SHA-256 of the document's JSON on one line, names in order; numbers that JSON lacks are written as words.

    Examples
    --------
    >>> of_document({"k": 8, "n": (1, 2)}) == of_document({"n": [1, 2], "k": 8}) != of_document({"k": 9, "n": [1, 2]})
    True
    """
    return of_text(json.dumps(plain(document), sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


def of_file(path: Path) -> str:
    """SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def of_files(root: Path, paths: Iterable[Path]) -> str:
    """SHA-256 over the names below `root` and the contents of files, in the order of their paths."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def of_arrays(arrays: Iterable[Any]) -> str:
    """SHA-256 over the bits of arrays, one after the other."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(array.tobytes())
    return digest.hexdigest()


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Versions of the packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # an extra that is not there
            continue
    return found


def differing_fields(one: Mapping[str, Any], other: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Dotted names of the fields in which two sets of fields differ.

    Examples
    --------
    >>> differing_fields({"k": 8, "texts": {"held_out": ["a"]}}, {"k": 4, "texts": {"held_out": ["b"]}})
    ['k', 'texts.held_out']
    """
    names: list[str] = []
    for name in sorted({*one, *other}):
        first, second = one.get(name), other.get(name)
        if isinstance(first, Mapping) and isinstance(second, Mapping):
            names += differing_fields(first, second, f"{prefix}{name}.")
        elif first != second or (name in one) != (name in other):
            names.append(prefix + name)
    return names
