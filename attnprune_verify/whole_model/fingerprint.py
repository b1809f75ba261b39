"""Everything a number depends on, with one digest over all of it: two results are comparable or one sees why not."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from attnprune_verify.files import dumps, plain
from attnprune_verify.pretrained.tensors import weight_files

__all__ = ["differing_fields", "fingerprint", "model_fields", "texts_fields", "versions"]

_PACKAGES = ("attnprune-verify", "numpy", "scipy", "safetensors", "tokenizers")


def fingerprint(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with the SHA-256 of their canonical JSON.

    Examples
    --------
    >>> fingerprint({"k": 8})["digest"] == fingerprint({"k": 8})["digest"] != fingerprint({"k": 9})["digest"]
    True
    """
    known = plain(dict(fields))
    return {"digest": _sha256(dumps(_ordered(known), indent=None).encode()), "fields": known}


def model_fields(folder: Path) -> dict[str, Any]:
    """Digests of the configuration, the weights and the tokenizer of a model folder."""
    names = ["config.json", "tokenizer.json"]
    small = {name.partition(".")[0]: _file(folder / name) if (folder / name).is_file() else None for name in names}
    return {**small, "weights": {file.name: _file(file) for file in weight_files(folder)}}


def texts_fields(texts: Sequence[str]) -> list[str]:
    """Digests of texts; where they lie does not matter."""
    return [_sha256(text.encode()) for text in texts]


def versions() -> dict[str, str]:
    """What computes."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in _PACKAGES:
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


def _ordered(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _ordered(value[name]) for name in sorted(value)}
    return [_ordered(item) for item in value] if isinstance(value, list) else value


def _file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
