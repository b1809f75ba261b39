"""Wrong implementations, each an edit of a line or two of `base.py` or `layer_base.py`: see the TOML files.

There source text changes; in the formulas the audit compares with (`attnprune_verify.audit.functions.naming.mistakes`)
steps do. So the two cannot agree by sharing a mistake.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Wrong:
    """`function` becomes wrong by replacing texts of the base; `names` are the diagnoses that would be right.

    What is wrong by less than an audit sees in the precision `below` passes there.
    """

    id: str
    function: str
    names: tuple[str, ...]
    edits: tuple[tuple[str, str], ...]
    base: str = "base.py"
    below: str | None = None

    def source(self) -> str:
        text = (HERE / self.base).read_text(encoding="utf-8")
        for old, new in self.edits:
            if old not in text:
                raise LookupError(f"{self.id}: {self.base} has no {old!r}")
            text = text.replace(old, new)
        return text


def _read(catalogue: str, base: str) -> tuple[Wrong, ...]:
    entries = tomllib.loads((HERE / catalogue).read_text(encoding="utf-8"))["wrong"]
    return tuple(_wrong(base, **entry) for entry in entries)


def _wrong(base: str, names: list[str], edits: list[list[str]], below: str | None = None, **function: str) -> Wrong:
    ((name, id),) = function.items()
    return Wrong(id, name, tuple(names), tuple((old, new) for old, new in edits), base, below)


WRONG = (*_read("catalogue.toml", "base.py"), *_read("layers.toml", "layer_base.py"))
