"""The synthetic experiment of Section 6.1, resumable: every finished run is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnprune_verify.experiments.journal import Journal
from attnprune_verify.experiments.parallel import run_all
from attnprune_verify.experiments.synthetic_plan import Run, SyntheticPlan, perform

__all__ = ["Results", "count_finished", "run_synthetic"]

JOURNAL = "runs.jsonl"


@dataclass(frozen=True)
class Results:
    """The tidy table of an experiment.

    Attributes
    ----------
    plan : SyntheticPlan
    rows : list of dict
        One per method, setting and rho: `method` (a name of `RIVALS`, or "descent"), `weights`, `seed`, `k`, `n`, `d`,
        `rank`, `scale`, `rho`, the errors of `Errors`, and for "descent" its reading, lam, momentum and fate.
    chaos : list of dict
        What rounding alone does to masks: `flipped`, `flipped_float32`, and the errors of the three masks.
    """

    plan: SyntheticPlan
    rows: list[dict[str, Any]]
    chaos: list[dict[str, Any]]


def run_synthetic(
    plan: SyntheticPlan,
    folder: Path | None = None,
    *,
    processes: int = 1,
    progress: Callable[[int, int], object] | None = None,
) -> Results:
    """Do all runs of `plan` that `folder` does not hold yet, and return the table of all of them.

    Parameters
    ----------
    plan : SyntheticPlan
        `QUICK`, `FULL`, or your own.
    folder : path, optional
        Where finished runs are kept (created when missing); None keeps nothing.
    processes : int
        Runs done at the same time; needs joblib beyond 1.
    progress : callable, optional
        Called as ``progress(runs done, runs)``, first with those that were there already.

    Examples
    --------
    >>> tiny = SyntheticPlan(weights=("shared",), lams=(0.25,), fixed_lams=(0.25,), side_readings=(), ns=(8,),
    ...                      fixed_n=8, rhos=(0.5,), seeds=((2, 1),), steps=3, d=6)
    >>> sorted({row["method"] for row in run_synthetic(tiny).rows})[:3]
    ['descent', 'everything', 'magnitude']
    """
    runs = plan.runs()
    finished: dict[str, dict[str, Any]] = {}
    journal = None
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        journal = Journal(folder / JOURNAL)
        finished = _finished(runs, journal)
    missing = sorted((run for run in runs if run.key not in finished), key=_cost, reverse=True)
    if progress is not None:
        progress(len(finished), len(runs))
    for result in run_all(perform, missing, processes):
        if journal is not None:
            journal.add(result)
        finished[result["key"]] = result
        if progress is not None:
            progress(len(finished), len(runs))
    rows = [row for run in runs for row in finished[run.key]["rows"]]
    return Results(
        plan, [row for row in rows if row["method"] != "chaos"], [row for row in rows if row["method"] == "chaos"]
    )


def count_finished(plan: SyntheticPlan, folder: Path) -> tuple[int, int]:
    """How many runs of `plan` the folder holds, and how many there are."""
    runs = plan.runs()
    return len(_finished(runs, Journal(folder / JOURNAL))), len(runs)


def _finished(runs: list[Run], journal: Journal) -> dict[str, dict[str, Any]]:
    return {run.key: journal.finished[run.key] for run in runs if run.key in journal.finished}


def _cost(run: Run) -> float:
    """Long runs first, so that no process is left alone with one at the end."""
    repeats = {"rivals": 0.02, "descent": 1.0, "chaos": 3.0}[run.kind]
    return repeats * run.cell.k * run.cell.n**2
