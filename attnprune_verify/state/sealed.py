"""Documents that contain a digest of their content: a document that was changed since it was written is not read.

The digest detects accidents and edits. It is no signature: anyone can compute the digest of another content.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.files import dumps, parse, plain, read_regular, write_whole
from attnprune_verify.state.digests import of_document


def sealed(document: Mapping[str, Any], about: str = "", indent: int | None = 2) -> bytes:
    """Return the document as JSON with a `digest` over its content and over `about`, such as its name and request."""
    return dumps({**document, "digest": of_document([about, plain(document)])}, indent).encode()


def unsealed(content: bytes, about: str = "") -> dict[str, Any]:
    """Return the document in the bytes that `sealed` made.

    Raises
    ------
    InvalidInstance
        If the bytes are no JSON object, or the digest is not that of the content.

    Examples
    --------
    >>> unsealed(sealed({"worst": 0.25}))
    {'worst': 0.25}
    >>> unsealed(sealed({"worst": 0.25}).replace(b"0.25", b"0.75"))
    Traceback (most recent call last):
        ...
    attnprune_verify.errors.InvalidInstance: a document must be as it was written; its digest differs from its content's
    """
    document = parse(content)
    if not isinstance(document, dict):
        raise InvalidInstance(f"a document must be a JSON object; got {type(document).__name__}")
    if document.pop("digest", None) != of_document([about, document]):
        raise InvalidInstance("a document must be as it was written; its digest differs from its content's")
    return document


def keep_document(path: Path, document: Mapping[str, Any], about: str = "") -> None:
    """Write the sealed document to `path`, whole or not at all; the folder is made if missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, sealed(document, about))


def kept_document(path: Path, about: str = "") -> dict[str, Any] | None:
    """Return the document that `keep_document` wrote to `path`; None if the file is missing or holds anything else."""
    try:
        return unsealed(read_regular(path), about)
    except (OSError, InvalidInstance):
        return None
