"""What a TARGET is: ``package.module``, ``package.module:object`` or ``path/to/file.py``."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from attnprune_verify.errors import InvalidInstance

__all__ = ["Target", "fingerprint", "parse_target"]

_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*", re.UNICODE)


@dataclass(frozen=True)
class Target:
    """Where the audited functions are found.

    `place` is what follows in the worker: a dotted module or an absolute file, each with an optional ``:object``.
    """

    spec: str
    kind: Literal["module", "file"]
    place: str

    @property
    def attribute(self) -> str:
        """The object inside the module, or an empty string."""
        head, _, tail = self.place.rpartition(":")
        return tail if head and _DOTTED.fullmatch(tail) else ""

    @property
    def location(self) -> str:
        """The module or file without the object."""
        return self.place.removesuffix(f":{self.attribute}") if self.attribute else self.place


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
    rule = "TARGET must be package.module, package.module:object or path/to/file.py"
    text = str(spec)
    head, colon, tail = text.rpartition(":")
    path, attribute = (head, tail) if colon and head.endswith(".py") else (text, "")
    if path.endswith(".py"):
        if path != text and not _DOTTED.fullmatch(attribute):
            raise InvalidInstance(f"{rule}; got the object {attribute!r}")
        file = Path(path)
        if not file.is_file():
            raise InvalidInstance(f"{rule}; there is no file {path!r}")
        return Target(text, "file", f"{file.resolve()}{':' + attribute if attribute else ''}")
    module, colon, attribute = text.partition(":")
    if not _DOTTED.fullmatch(module) or (colon and not _DOTTED.fullmatch(attribute)):
        raise InvalidInstance(f"{rule}; got {text!r}")
    return Target(text, "module", text)


def fingerprint(file: str | None) -> str | None:
    """SHA-256 of a source file; of a package all its Python files, in the order of their names."""
    if file is None or not Path(file).is_file():
        return None
    path = Path(file)
    sources = sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes())
    return digest.hexdigest()
