"""The synthetic experiment of Section 6.1, resumable: every finished run is kept."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnprune_verify.experiments.runs import Progress, complete
from attnprune_verify.experiments.synthetic.plan import SyntheticPlan, SyntheticRun, perform

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
        Effect of rounding alone on masks: `flipped`, `flipped_float32`, and the errors of the three masks.
    """

    plan: SyntheticPlan
    rows: list[dict[str, Any]]
    chaos: list[dict[str, Any]]

    def __repr__(self) -> str:
        return f"<synthetic experiment: {len(self.rows)} rows>"


def run_synthetic(
    plan: SyntheticPlan,
    folder: Path | None = None,
    *,
    processes: int = 1,
    progress: Progress | None = None,
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
        Called as ``progress(runs done, runs)``, first with the runs that `folder` held already.

    Examples
    --------
    >>> tiny = SyntheticPlan(weights=("shared",), lams=(0.25,), fixed_lams=(0.25,), side_readings=(), ns=(8,),
    ...                      fixed_n=8, rhos=(0.5,), seeds=((2, 1),), steps=3, d=6)
    >>> {"descent", "everything", "wanda"} <= {row["method"] for row in run_synthetic(tiny).rows}
    True
    """
    journal = None if folder is None else folder / JOURNAL
    finished = complete(_by_key(plan), perform, journal, processes=processes, progress=progress, cost=_cost)
    rows = [row for run in finished for row in run["rows"]]
    return Results(
        plan, [row for row in rows if row["method"] != "chaos"], [row for row in rows if row["method"] == "chaos"]
    )


def _by_key(plan: SyntheticPlan) -> dict[str, SyntheticRun]:
    return {run.key: run for run in plan.runs()}


def _cost(run: SyntheticRun) -> float:
    return {"rivals": 0.02, "descent": 1.0, "chaos": 3.0}[run.kind] * run.cell.k * run.cell.n**2
