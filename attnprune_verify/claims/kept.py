"""Verdicts kept between runs, each under a key of everything it depends on: code, data, effort, libraries.

A verdict that is kept is the one that this code would compute again; whoever shows it says that it is kept.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from attnprune_verify.claims import shelf
from attnprune_verify.claims.case import Case
from attnprune_verify.claims.core import Claim, Verdict
from attnprune_verify.claims.falsifier import Effort
from attnprune_verify.claims.judge import Judgement
from attnprune_verify.claims.relation import Relation, numbers
from attnprune_verify.claims.trial import Trial
from attnprune_verify.files import write_whole

__all__ = ["code_and_libraries", "keep", "kept"]

_ABOVE = ("cli", "report", "spec", "audit")  # floors that no verdict depends on
_PLAIN = ("tried", "met", "slack", "best", "certified", "undecided", "reason", "error", "misprint")
_TRIALS = ("worst", "nearest", "witness", "smallest")


def kept(claim: Claim, effort: Effort) -> Judgement | None:
    """The verdict of an earlier run on the same claim, code, data and libraries, if there is one."""
    try:
        content = json.loads(_place(claim, effort).read_bytes())
        found = Judgement(claim, kept=True, **{name: content[name] for name in _PLAIN})
        found.statement, found.failed = Verdict(content["statement"]), Counter(content["failed"])
        for name in _TRIALS:
            setattr(found, name, _trial(content[name]))
    except (OSError, ValueError, KeyError, TypeError):  # not there, or not what was written
        return None
    return found


def keep(judgement: Judgement, effort: Effort) -> None:
    """Keep a verdict, where the user's cache can be written to; what could not be run is tried again next time."""
    if judgement.error:
        return
    content = {name: getattr(judgement, name) for name in _PLAIN}
    content |= {"statement": judgement.statement.value, "failed": dict(judgement.failed)}
    content |= {name: _row(getattr(judgement, name)) for name in _TRIALS}
    with suppress(OSError, TypeError):  # a read-only home, or a case that JSON cannot hold
        place = _place(judgement.claim, effort)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, json.dumps(content, default=_encoded).encode())


def _place(claim: Claim, effort: Effort) -> Path:
    name = hashlib.sha256(f"{claim.test_id} {tuple(effort)}".encode()).hexdigest()[:20]
    return shelf.folder() / code_and_libraries() / f"{name}.json"


def code_and_libraries() -> str:
    """A digest of the files below the floors that only show, and of the versions of what they compute with."""
    return shelf.code_key(_ABOVE)


def _row(trial: Trial | None) -> dict[str, Any] | None:
    if trial is None:
        return None
    row = {name: getattr(trial, name) for name in ("failed", "slack", "certain", "problem")}
    sides = None
    if trial.relation is not None:
        sides = [trial.relation.kind, *numbers(trial.relation), trial.relation.part]
    return {**row, "relation": sides, "origin": trial.case.origin, "values": dict(trial.case.values)}


def _trial(row: Mapping[str, Any] | None) -> Trial | None:
    if row is None:
        return None
    values = {name: _decoded(value) for name, value in row["values"].items()}
    relation = None if row["relation"] is None else Relation(*row["relation"])
    return Trial(Case(values, row["origin"]), row["failed"], row["slack"], relation, row["certain"], row["problem"])


def _encoded(value: Any) -> Any:
    """What JSON does not know: arrays with their kind of numbers, and exact fractions."""
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "kind": value.dtype.kind, "shape": value.shape}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Fraction):
        return {"fraction": str(value)}
    raise TypeError(f"{type(value).__name__} is not kept")


def _decoded(value: Any) -> Any:
    if isinstance(value, dict) and "fraction" in value:
        return Fraction(value["fraction"])
    if isinstance(value, dict) and "array" in value:
        if value["kind"] != "O":
            return np.array(value["array"], dtype={"b": bool, "i": int, "u": int}.get(value["kind"], float))
        flat = np.empty(value["shape"], dtype=object)
        flat[...] = np.array(value["array"], dtype=object).reshape(value["shape"])
        return np.frompyfunc(_decoded, 1, 1)(flat)
    return value
