"""A stored run: its rows, one a line, and a record of everything they depend on, with a digest over both.

`NAME.csv` holds the rows, `NAME.json` the record, `seconds.csv` of the folder the time of each record's runs, which
nothing is compared with. A record whose digest does not fit is refused: numbers are written by ``python -m
attnprune_verify.experiments.stored measure``, never typed.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from attnprune_verify.errors import InvalidInput
from attnprune_verify.files import dumps, parse, read_regular, write_whole
from attnprune_verify.state.digests import of_arrays, of_files

__all__ = ["FOLDER", "NAMES", "StoredRecord", "kernel", "read", "source"]

_HERE = files("attnprune_verify.experiments").joinpath("stored")
FOLDER = Path(str(_HERE))
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))

_COMPUTING = ("algorithms", "experiments", "instance", "model", "pretrained", "whole_model")
"""The parts of the package whose code decides the numbers."""


@dataclass(frozen=True)
class StoredRecord:
    """Everything that a stored table of numbers depends on.

    Attributes
    ----------
    experiment : "synthetic", "layer" or "perplexity"
    command : str
        The command line that measures the table.
    plan : dict
        The settings, seeds among them.
    inputs : dict of str to str
        SHA-256 of every file that was read, by name.
    code : dict of str to str
        `version` of the package, and `source`, the SHA-256 of the code that computes.
    kernel : str
        Name of the machine's rounding, see the function `kernel`.
    rows : int
        Number of rows.
    moved : dict of str to float
        For each setting that descends on a mask, the largest relative change of its numbers when the start of a run is
        disturbed by `redo.DISTURBANCE`; a setting that was not measured is missing.
    """

    experiment: str
    command: str
    plan: dict[str, Any]
    inputs: dict[str, str]
    code: dict[str, str]
    kernel: str
    rows: int
    moved: dict[str, float] = field(default_factory=dict)

    def digest(self, table: bytes) -> str:
        """Return the digest of the record and its table."""
        return hashlib.sha256(json.dumps(self._content(), sort_keys=True).encode() + table).hexdigest()

    def _content(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "moved" or value}

    def write(self, path: Path, table: bytes) -> None:
        """Write ``path.json`` and ``path.csv``."""
        write_whole(path.with_suffix(".csv"), table)
        write_whole(path.with_suffix(".json"), dumps(self._content() | {"digest": self.digest(table)}).encode())


def read(path: Path) -> tuple[StoredRecord, list[dict[str, Any]]]:
    """The record at ``path.json`` and its rows.

    Raises
    ------
    InvalidInput
        If record and rows are not as they were written.
    """
    content, table = parse(read_regular(path.with_suffix(".json"))), read_regular(path.with_suffix(".csv"))
    digest = content.pop("digest", None)
    record = StoredRecord(**content)
    rows = [_typed(row) for row in csv.DictReader(io.StringIO(table.decode()))]
    if record.digest(table) != digest or len(rows) != record.rows:
        raise InvalidInput(f"a stored run must be as it was measured; {path.name} was changed since")
    return record, rows


def _typed(row: dict[str, str]) -> dict[str, Any]:
    return {name: _value(text) for name, text in row.items() if text != ""}


def _value(text: str) -> Any:
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        return {"True": True, "False": False}.get(text, text)


@cache
def source() -> str:
    """SHA-256 of the code that computes, names and contents."""
    root = Path(str(files("attnprune_verify")))
    return of_files(root, (path for part in _COMPUTING for path in (root / part).rglob("*.py")))


def code() -> dict[str, str]:
    """Return the version and the source digest of the code that measures now."""
    return {"version": version("attnprune-verify"), "source": source()}


@cache
def kernel() -> str:
    """A name for how this machine rounds: the bits of a few products, exponentials, sums and factors.

    BLAS, its version and the CPU's vector units show in it; our own code does not, so that a change of how the model
    rounds is seen: on an equal kernel chaotic runs must come out equal, too.
    """
    rng = np.random.default_rng(0)
    results: list[np.ndarray[Any, Any]] = []
    for shape in ((16, 64, 16), (128, 64, 64), (64, 128, 257), (384, 384, 32)):
        A, B = rng.standard_normal(shape[:2]), rng.standard_normal(shape[1:])
        results += (A @ B, np.exp(A), A.sum(axis=1), np.linalg.qr(A)[1], (A @ A.T)[0] @ A)
    return of_arrays(results)[:12]
