"""Where does optimising the attention error pay? Candidates against the baselines, held-out, over seeds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, get_args

from attnprune_verify.algorithms.arguments import as_count, as_positive, as_ratio
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.experiments.beyond_candidates import CANDIDATES
from attnprune_verify.experiments.journal import Journal
from attnprune_verify.experiments.parallel import run_all
from attnprune_verify.experiments.synthetic_curves import Truth, all_of, curve, is_below
from attnprune_verify.experiments.synthetic_data import Cell, Weights, draw
from attnprune_verify.experiments.synthetic_rivals import rivals

__all__ = ["BeyondPlan", "Trial", "beyond_summary", "pays", "run_beyond"]

_TO_BEAT = ("wanda", "sparsegpt", "magnitude-fused")


@dataclass(frozen=True)
class Trial:
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
                if value not in known:
                    raise InvalidInstance(f"{name} must be among {', '.join(known)}; got {value!r}")
        for k in self.ks:
            as_count("k", k, least=2)
        for scale in self.scales:
            as_positive("scale", scale)
        for rho in self.rhos:
            as_ratio(rho)
        for name in ("seeds", "n", "d"):
            as_count(name, getattr(self, name), least=1)

    def trials(self) -> list[Trial]:
        """Every trial, in a fixed order."""
        regimes = product(self.weights, self.ks, self.scales, range(self.seeds), self.rhos)
        cells = [(Cell(weights, seed, k, self.n, self.d, scale=scale), rho) for weights, k, scale, seed, rho in regimes]
        return [Trial(name, cell, rho) for cell, rho in cells for name in ("", *self.candidates)]


def perform(trial: Trial) -> dict[str, Any]:
    """Measure one trial: {"key", "rows"}."""
    problem = draw(trial.cell)
    if trial.candidate:
        weights = [(trial.candidate, CANDIDATES[trial.candidate](problem, trial.rho))]
    else:
        weights = list(rivals(problem, trial.rho))
    head = asdict(trial.cell) | {"rho": trial.rho}
    return {
        "key": trial.key,
        "rows": [{"method": name, **head, **asdict(problem.errors(weight))} for name, weight in weights],
    }


def run_beyond(
    plan: BeyondPlan,
    folder: Path | None = None,
    *,
    processes: int = 1,
    progress: Callable[[int, int], object] | None = None,
) -> list[dict[str, Any]]:
    """The rows of all trials; finished ones found in `folder` are not repeated.

    Examples
    --------
    >>> plan = BeyondPlan(("shared",), (2,), (1.0,), seeds=1, n=8, d=6, candidates=("loss-change",))
    >>> len(run_beyond(plan))
    9
    """
    trials = plan.trials()
    journal, finished = None, {}
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        journal = Journal(folder / "beyond.jsonl")
        finished = {trial.key: journal.finished[trial.key] for trial in trials if trial.key in journal.finished}
    if progress is not None:
        progress(len(finished), len(trials))
    for result in run_all(perform, [trial for trial in trials if trial.key not in finished], processes):
        if journal is not None:
            journal.add(result)
        finished[result["key"]] = result
        if progress is not None:
            progress(len(finished), len(trials))
    return [row for trial in trials for row in finished[trial.key]["rows"]]


def pays(rows: list[dict[str, Any]], candidate: str, rho: float, **regime: Any) -> Truth:
    """Whether the candidate is below Wanda, SparseGPT and fused magnitude on fresh samples, beyond the spread."""
    ours, *others = (curve(rows, "rho", "out_mean", method=name, **regime) for name in (candidate, *_TO_BEAT))
    if ours is None:
        return None
    return all_of(None if other is None else is_below(ours.at(rho), other.at(rho)) for other in others)


def beyond_summary(plan: BeyondPlan, rows: list[dict[str, Any]]) -> str:
    """One table for each regime: in-sample and held-out error, and whether the candidate pays there."""
    return "\n".join(_tables(plan, rows))


def _tables(plan: BeyondPlan, rows: list[dict[str, Any]]) -> Iterator[str]:
    words = {True: "pays", False: "", None: "within the spread"}
    for weights, k, scale, rho in product(plan.weights, plan.ks, plan.scales, plan.rhos):
        regime = {"weights": weights, "k": k, "scale": scale}
        yield f"{weights} weights, k = {k}, logits x {scale:g}, rho = {rho:g}, {plan.seeds} seeds"
        yield f"  {'':18} {'in-sample':>9} {'held-out':>9} {'sd':>6}"
        for name in (*_TO_BEAT, *plan.candidates):
            inside, outside = (curve(rows, "rho", column, method=name, **regime) for column in ("in_mean", "out_mean"))
            if inside is None or outside is None:
                continue
            at = outside.axis.index(rho)
            verdict = words[pays(rows, name, rho, **regime)] if name in plan.candidates else ""
            numbers = f"{inside.mean[at]:9.3f} {outside.mean[at]:9.3f} {outside.spread[at]:6.3f}"
            yield f"  {name:18} {numbers}  {verdict}".rstrip()
        yield ""
