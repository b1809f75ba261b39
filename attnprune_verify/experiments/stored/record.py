"""A stored run: its rows, and a record of everything they depend on, with a digest over both.

A folder holds its records in `records.json`, one a line, and their tables in `rows.xz`, with the time of each run (not
compared). A record whose digest does not fit is refused: numbers are written by ``python -m
attnprune_verify.experiments.stored measure``, never typed. Every number stands once: a row that another record has
measured before on the same model, texts and settings names that record (`=NAME`) in place of numbers.
"""

import csv
import hashlib
import io
import json
import lzma
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from attnprune_verify.errors import InvalidInput
from attnprune_verify.files import parse, read_regular, table, write_whole
from attnprune_verify.state.digests import of_arrays, of_files

Row = dict[str, Any]
_HERE = files("attnprune_verify.experiments").joinpath("stored")
FOLDER = Path(str(_HERE))
NAMES = tuple(sorted(parse(read_regular(FOLDER / "records.json"))))
_TAKEN = "="
"""Before the name of the record that holds a row's numbers; no number and no word in a table begins so."""

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
    plan: Row
    inputs: dict[str, str]
    code: dict[str, str]
    kernel: str
    rows: int
    moved: dict[str, float] = field(default_factory=dict)

    def digest(self, table: bytes) -> str:
        """Return the digest of the record and its table."""
        return hashlib.sha256(json.dumps(self._content(), sort_keys=True).encode() + table).hexdigest()

    def _content(self) -> Row:
        return {name: value for name, value in vars(self).items() if name != "moved" or value}

    def write(self, path: Path, table: bytes, seconds: str | None = None) -> None:
        """Write the record called ``path.name`` in the folder, and its table; without `seconds` the times stay."""
        records, tables = (_contents(path.parent, name) for name in ("records.json", "rows.xz"))
        records[path.name] = self._content() | {"digest": self.digest(table)}
        kept = tables.get(path.name, {"seconds": ""})["seconds"]
        tables[path.name] = {"seconds": kept if seconds is None else seconds, "table": table.decode()}
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(records[name])}" for name in sorted(records))
        text = json.dumps({name: tables[name] for name in sorted(tables)}).encode()
        write_whole(path.with_name("rows.xz"), lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))
        write_whole(path.with_name("records.json"), f"{{\n{lines}\n}}\n".encode())


def _contents(folder: Path, name: str) -> Row:
    return dict(_unpacked(read_regular(folder / name))) if (folder / name).exists() else {}


@lru_cache(maxsize=4)
def _unpacked(content: bytes) -> Row:
    return dict(json.loads(lzma.decompress(content) if content.startswith(b"\xfd7zXZ") else content))


def table_of(path: Path) -> bytes:
    """The record's table as it is stored, CSV."""
    return str(_contents(path.parent, "rows.xz")[path.name]["table"]).encode()


def times(path: Path) -> list[float]:
    """Return the seconds that each run of a record took."""
    return [float(seconds) for seconds in _contents(path.parent, "rows.xz")[path.name]["seconds"].split()]


def read(path: Path) -> tuple[StoredRecord, list[Row]]:
    """Return the record called ``path.name`` in the folder, and its rows; numbers of other records are filled in.

    Raises
    ------
    InvalidInput
        If record and rows are not as they were written.
    """
    record, rows = own(path)
    names = table_of(path).decode().partition("\n")[0].split(",")
    held = cache(lambda owner, known: {tuple(map(row.get, known)): row for row in own(path.with_name(owner))[1]})
    for place, row in enumerate(rows):
        for name, owner in taken(row).items():
            known = tuple(names[: names.index(name)])
            rows[place] = held(owner, known).get(tuple(map(row.get, known)), {name: _TAKEN})
            if taken(rows[place]):
                raise InvalidInput(
                    f"a stored row must be measured by the record it names; {owner} lacks one of {path.name}"
                )
    return record, rows


def own(path: Path) -> tuple[StoredRecord, list[Row]]:
    """Return a record and its rows as they are stored: some name the record that holds their numbers.

    Raises
    ------
    InvalidInput
        If record and rows are not as they were written.
    """
    content, text = dict(_contents(path.parent, "records.json")[path.name]), table_of(path)
    digest = content.pop("digest", None)
    record = StoredRecord(**content)
    rows = [_typed(row) for row in csv.DictReader(io.StringIO(text.decode()))]
    if record.digest(text) != digest or len(rows) != record.rows:
        raise InvalidInput(f"a stored run must be as it was measured; {path.name} was changed since")
    return record, rows


def taken(row: Row) -> dict[str, str]:
    """Map the column where a row names another record to the name of that record; empty for a row with numbers."""
    words = {name: value for name, value in row.items() if isinstance(value, str)}
    return {name: word.removeprefix(_TAKEN) for name, word in words.items() if word.startswith(_TAKEN)}


def once(path: Path, record: StoredRecord, rows: list[Row], kind: Any) -> bytes:
    """The table to store: rows that another record of the folder has measured, on equal inputs, name that record."""
    known = tuple(name for name in kind.columns if name not in kind.measured)
    held: dict[tuple[Any, ...], str] = {}
    for name in _contents(path.parent, "records.json"):
        before, theirs = own(path.with_name(name))
        same = (before.experiment, before.inputs) == (record.experiment, record.inputs)
        if same and name != path.name and all(before.plan[key] == record.plan[key] for key in kind.beside):
            held |= {tuple(map(row.get, known)): name for row in theirs if not taken(row)}
    for place, row in enumerate(rows):
        key = tuple(map(row.get, known))
        if key in held:
            rows[place] = dict(zip(known, key, strict=True)) | {kind.measured[0]: f"{_TAKEN}{held[key]}"}
    return table(rows, kind.columns)


def _typed(row: dict[str, str]) -> Row:
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
