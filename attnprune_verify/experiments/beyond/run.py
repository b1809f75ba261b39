"""Experiment on where optimising the attention error pays: candidates against baselines, held out, over seeds."""

import json
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, get_args

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.experiments.beyond.candidates import CANDIDATES
from attnprune_verify.experiments.runs import Progress, complete
from attnprune_verify.experiments.synthetic.data import Cell, Weights, draw
from attnprune_verify.experiments.synthetic.rivals import rivals
from attnprune_verify.values import as_choice, as_count, as_positive, as_ratio


@dataclass(frozen=True)
class BeyondRun:
    """One candidate, or all baselines (candidate ""), on one problem."""

    candidate: str
    cell: Cell
    rho: float

    @property
    def key(self) -> str:
        return json.dumps({"beyond": asdict(self)}, sort_keys=True)


@dataclass(frozen=True)
class BeyondPlan:
    """The regimes in which the candidates are tried."""

    weights: tuple[Weights, ...] = get_args(Weights)
    ks: tuple[int, ...] = (16,)
    scales: tuple[float, ...] = (1.0, 1 / 32)
    rhos: tuple[float, ...] = (0.5,)
    seeds: int = 3
    n: int = 128
    d: int = 64
    candidates: tuple[str, ...] = tuple(CANDIDATES)

    def __post_init__(self) -> None:
        for name in ("weights", "ks", "scales", "rhos", "candidates"):
            if not getattr(self, name):
                raise InvalidInstance(f"an experiment needs at least one of {name}; got none")
        for name, known in (("weights", get_args(Weights)), ("candidates", tuple(CANDIDATES))):
            for value in getattr(self, name):
                as_choice(name, value, known)
        for k in self.ks:
            as_count("k", k, least=2)
        for scale in self.scales:
            as_positive("scale", scale)
        for rho in self.rhos:
            as_ratio(rho)
        for name in ("seeds", "n", "d"):
            as_count(name, getattr(self, name), least=1)

    def runs(self) -> list[BeyondRun]:
        """Every run, in a fixed order."""
        regimes = product(self.weights, self.ks, self.scales, range(self.seeds), self.rhos)
        cells = [(Cell(weights, seed, k, self.n, self.d, scale=scale), rho) for weights, k, scale, seed, rho in regimes]
        return [BeyondRun(name, cell, rho) for cell, rho in cells for name in ("", *self.candidates)]


def perform(run: BeyondRun) -> dict[str, Any]:
    """Measure one run: {"rows"}."""
    problem = draw(run.cell)
    if run.candidate:
        weights = [(run.candidate, CANDIDATES[run.candidate](problem, run.rho))]
    else:
        weights = list(rivals(problem, run.rho))
    head = asdict(run.cell) | {"rho": run.rho}
    return {
        "rows": [{"method": name, **head, **asdict(problem.errors(weight))} for name, weight in weights],
    }


def run_beyond(
    plan: BeyondPlan,
    folder: Path | None = None,
    *,
    processes: int = 1,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """The rows of all runs; finished ones found in `folder` are not repeated.

    Examples
    --------
    >>> plan = BeyondPlan(("shared",), (2,), (1.0,), seeds=1, n=8, d=6, candidates=("loss-change",))
    >>> {"loss-change", "wanda"} <= {row["method"] for row in run_beyond(plan)}
    True
    """
    runs = {run.key: run for run in plan.runs()}
    journal = None if folder is None else folder / "beyond.jsonl"
    return [
        row for one in complete(runs, perform, journal, processes=processes, progress=progress) for row in one["rows"]
    ]
