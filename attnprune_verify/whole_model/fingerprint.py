"""Everything a number depends on, with one digest over all of it: two results are comparable or one sees why not."""

import platform
from collections.abc import Mapping, Sequence
from typing import Any

from attnprune_verify.files import plain
from attnprune_verify.state import digests
from attnprune_verify.state.digests import of_document, of_text

_PACKAGES = ("attnprune-verify", "numpy", "scipy", "safetensors", "tokenizers")


def fingerprint(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with the SHA-256 of their canonical JSON.

    Examples
    --------
    >>> fingerprint({"k": 8})["digest"] == fingerprint({"k": 8})["digest"] != fingerprint({"k": 9})["digest"]
    True
    """
    known = plain(dict(fields))
    return {"digest": of_document(known), "fields": known}


def model_fields(files: Mapping[str, str]) -> dict[str, Any]:
    """Pick the digests of a model's files (`Source`) that decide numbers: configuration, tokenizer and weights."""
    small = {name: files.get(f"{name}.json") for name in ("config", "tokenizer")}
    return {**small, "weights": {name: digest for name, digest in files.items() if name.endswith(".safetensors")}}


def texts_fields(texts: Sequence[str]) -> list[str]:
    """Digests of texts; where they lie does not matter."""
    return [of_text(text) for text in texts]


def versions() -> dict[str, str]:
    """Versions of what computes."""
    return {"python": platform.python_version(), "machine": platform.machine(), **digests.versions(_PACKAGES)}
