"""A stored run of the synthetic experiment's default plan, so that statements about it need no minutes of work.

`measured/figure2.csv` is the `results.csv` that ``attnprune-verify experiment synthetic`` writes. The verdicts are not
stored: they are computed from the table whenever they are asked for.
"""

from __future__ import annotations

import csv
import io
from importlib.resources import files
from typing import Any

from attnprune_verify.experiments.synthetic import Results
from attnprune_verify.experiments.synthetic_plan import QUICK

__all__ = ["stored_results"]

_INTEGERS = ("seed", "k", "n", "d", "rank", "steps", "ascents", "outside_box")
_TEXTS = ("method", "reading", "weights", "momentum_form", "status")


def stored_results() -> Results:
    """The stored table as the result of `QUICK`; its chaos diagnostic is not stored.

    Examples
    --------
    >>> results = stored_results()
    >>> {row["k"] for row in results.rows} == {k for k, _ in results.plan.seeds}
    True
    """
    text = files("attnprune_verify.experiments").joinpath("measured/figure2.csv").read_text(encoding="utf-8")
    return Results(QUICK, [_typed(row) for row in csv.DictReader(io.StringIO(text))], [])


def _typed(row: dict[str, str]) -> dict[str, Any]:
    typed: dict[str, Any] = {}
    for name, value in row.items():
        if value == "":
            continue
        if name in _TEXTS:
            typed[name] = value
        elif name == "project":
            typed[name] = value == "True"
        else:
            typed[name] = int(value) if name in _INTEGERS else float(value)
    return typed
