"""Verdicts kept between runs, each under a key of everything it depends on: code, data, effort, libraries.

A verdict that is kept is the one that this code would compute again; whoever shows it says that it is kept.
"""

import math
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.relation import Relation, numbers
from attnprune_verify.claims.core import Claim, Verdict
from attnprune_verify.claims.judging import text_cache
from attnprune_verify.claims.judging.falsifier import Effort
from attnprune_verify.claims.judging.judge import Judgement
from attnprune_verify.claims.judging.trial import Trial

_ABOVE = ("cli", "report", "spec", "audit")  # floors that no verdict depends on
_PLAIN = ("tried", "met", "slack", "best", "certified", "undecided", "reason", "error", "misprint")
_TRIALS = ("worst", "nearest", "witness", "smallest")


def kept(claim: Claim, effort: Effort) -> Judgement | None:
    """The verdict of an earlier run on the same claim, code, data and libraries, if there is one."""
    try:
        found = judgement_in(claim, text_cache.kept(code_and_libraries(), _name(claim, effort)))
    except (ValueError, KeyError, TypeError):  # not there, or not what was written
        return None
    found.kept = True
    return found


def keep(judgement: Judgement, effort: Effort) -> None:
    """Keep a verdict, where the user's cache can be written to; what could not be run is tried again next time."""
    if judgement.error:
        return
    with suppress(TypeError):  # a case that JSON cannot hold
        text_cache.keep(code_and_libraries(), _name(judgement.claim, effort), in_words_of_json(judgement))


def in_words_of_json(judgement: Judgement) -> dict[str, Any]:
    """Return the judgement without its claim, relations by their two numbers.

    Raises
    ------
    TypeError
        If JSON cannot hold one of its cases.
    """
    content = {name: getattr(judgement, name) for name in _PLAIN}
    content |= {"statement": judgement.statement.value, "failed": dict(judgement.failed)}
    content |= {name: _row(getattr(judgement, name)) for name in _TRIALS}
    encoded: dict[str, Any] = _encoded(content)
    return encoded


def judgement_in(claim: Claim, document: Mapping[str, Any] | None) -> Judgement:
    """Return the claim's judgement that `in_words_of_json` wrote.

    Raises
    ------
    ValueError, KeyError, TypeError
        If the document is another one.
    """
    content = _decoded(document)
    found = Judgement(claim, **{name: content[name] for name in _PLAIN})
    found.statement, found.failed = Verdict(content["statement"]), Counter(content["failed"])
    for name in _TRIALS:
        setattr(found, name, _trial(content[name]))
    return found


def _name(claim: Claim, effort: Effort) -> str:
    return f"{claim.test_id} {tuple(effort)}"


def code_and_libraries() -> str:
    """A digest of the files below the floors that only show, and of the versions of what they compute with."""
    return text_cache.code_key(_ABOVE)


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
    relation = None if row["relation"] is None else Relation(*row["relation"])
    case = Case(row["values"], row["origin"])
    return Trial(case, row["failed"], row["slack"], relation, row["certain"], row["problem"])


def _encoded(value: Any) -> Any:
    """Encode as JSON: arrays with the kind of their numbers, exact fractions, and numbers that are not finite."""
    if isinstance(value, np.ndarray):
        return {"array": _encoded(value.tolist()), "kind": value.dtype.kind, "shape": list(value.shape)}
    if isinstance(value, np.generic):
        return _encoded(value.item())
    if isinstance(value, Fraction):
        return {"fraction": str(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value)}
    if isinstance(value, Mapping):
        return {name: _encoded(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encoded(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{type(value).__name__} is not kept")


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "fraction" in value:
        return Fraction(value["fraction"])
    if "number" in value:
        return float(value["number"])
    if "array" not in value:
        return {name: _decoded(item) for name, item in value.items()}
    items = _decoded(value["array"])
    if value["kind"] != "O":
        return np.array(items, dtype={"b": bool, "i": int, "u": int}.get(value["kind"], float))
    flat = np.empty(value["shape"], dtype=object)
    flat[...] = np.array(items, dtype=object).reshape(value["shape"])
    return flat
