"""Plan of the synthetic experiment: its runs, and the computation of one run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from attnprune_verify.algorithms.chaos import chaos
from attnprune_verify.algorithms.descent import prune_mask_gd
from attnprune_verify.algorithms.readings import MomentumForm, as_reading
from attnprune_verify.algorithms.rounding import binary_mask
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.experiments.synthetic.data import Cell, Weights, draw
from attnprune_verify.experiments.synthetic.rivals import rivals
from attnprune_verify.values import as_choice, as_count, as_lam, as_momentum, as_positive, as_ratio


@dataclass(frozen=True)
class SyntheticPlan:
    """The sweeps of Figure 2: over lam, over n and over rho, the other two at their fixed values.

    Attributes
    ----------
    readings : tuple of str
        Readings of the algorithm that are swept.
    side_readings : tuple of str
        Readings measured at the fixed n only, for the fixed lams.
    fixed_lams : tuple of float
        lam of the sweeps over n and rho; Section 6.1 states 0.04, and the favourable reading does best at 2^-2.
    seeds : tuple of (int, int)
        Pairs (k, number of seeds); the first seed of the first k also measures the effect of rounding on the masks.

    Examples
    --------
    >>> len(SyntheticPlan(weights=("shared",), seeds=((16, 1),)).runs())
    26
    """

    weights: tuple[Weights, ...] = get_args(Weights)
    readings: tuple[str, ...] = ("literal-norm",)
    side_readings: tuple[str, ...] = ("literal-tilde",)
    lams: tuple[float, ...] = (2**-8, 2**-6, 2**-4, 2**-2, 1.0, 4.0)
    fixed_lams: tuple[float, ...] = (0.04, 0.25)
    ns: tuple[int, ...] = (16, 32, 64, 128, 256)
    fixed_n: int = 128
    rhos: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 0.9)
    fixed_rho: float = 0.5
    seeds: tuple[tuple[int, int], ...] = ((16, 7), (64, 4))
    steps: int = 100
    momentum: float = 0.9
    momentum_form: MomentumForm = "heavy-ball"
    project: bool = False
    scale: float = 1.0
    d: int = 64
    rank: int = 4

    def __post_init__(self) -> None:
        for name in ("weights", "lams", "fixed_lams", "ns", "rhos", "seeds"):
            if not getattr(self, name):
                raise InvalidInstance(f"an experiment needs at least one of {name}; got none")
        for name in self.weights:
            as_choice("weights", name, get_args(Weights))
        for n in (*self.ns, self.fixed_n):
            as_count("n", n, least=1)
        for lam in (*self.lams, *self.fixed_lams):
            for reading in (*self.readings, *self.side_readings):
                as_reading(reading).fixed_step(as_lam(lam), self.fixed_n)  # refuses lam = 0 where eta is 0.1/lam
        for rho in (*self.rhos, self.fixed_rho):
            as_ratio(rho)
        for k, count in self.seeds:
            as_count("k", k, least=1)
            as_count("seeds", count, least=1)
        as_count("steps", self.steps)
        as_count("d", self.d, least=1)
        as_count("rank", self.rank, least=1)
        as_positive("scale", self.scale)
        as_momentum(self.momentum)
        as_choice("momentum_form", self.momentum_form, get_args(MomentumForm))

    def runs(self) -> list[SyntheticRun]:
        """Every run, in a fixed order, none twice."""
        return list(dict.fromkeys(self._runs()))

    def _runs(self) -> Iterator[SyntheticRun]:
        all_rhos = tuple(sorted({*self.rhos, self.fixed_rho}))
        for weights in self.weights:
            for k, count in self.seeds:
                for seed in range(count):
                    for n in sorted({*self.ns, self.fixed_n}):
                        cell = Cell(weights, seed, k, n, self.d, self.rank, self.scale)
                        at_fixed = n == self.fixed_n
                        yield SyntheticRun("rivals", cell, all_rhos if at_fixed else (self.fixed_rho,))
                        yield from self._descents(cell, all_rhos, at_fixed)

    def _descents(self, cell: Cell, all_rhos: tuple[float, ...], at_fixed: bool) -> Iterator[SyntheticRun]:
        base = SyntheticRun(
            "descent", cell, (self.fixed_rho,), steps=self.steps, momentum=self.momentum,
            momentum_form=self.momentum_form, project=self.project,
        )  # fmt: skip
        for reading in self.readings + (self.side_readings if at_fixed else ()):
            for lam in self.fixed_lams:
                run = replace(base, reading=reading, lam=lam, rhos=all_rhos if at_fixed else (self.fixed_rho,))
                yield run
                if at_fixed and cell.seed == 0 and cell.k == self.seeds[0][0]:
                    yield replace(run, kind="chaos", rhos=(self.fixed_rho,))
            if at_fixed and reading in self.readings:
                for lam in sorted({*self.lams} - {*self.fixed_lams}):
                    yield replace(base, reading=reading, lam=lam)


QUICK = SyntheticPlan()
"""About five minutes on two cores: as many seeds as paired tests need to decide most sentences."""

FULL = SyntheticPlan(
    readings=("literal-norm", "literal-tilde", "literal-direct"),
    side_readings=("mean-norm", "theorem"),
    lams=tuple(2.0**power for power in range(-8, 3)),
    ns=(16, 32, 64, 128, 256, 512),
    rhos=tuple(round(0.1 * tenth, 1) for tenth in range(1, 10)),
    seeds=((16, 5), (64, 5)),
)
"""The ranges of Figure 2, with five seeds; hours on two cores."""


@dataclass(frozen=True)
class SyntheticRun:
    """One unit of work; everything its result depends on."""

    kind: Literal["rivals", "descent", "chaos"]
    cell: Cell
    rhos: tuple[float, ...]
    reading: str = ""
    lam: float = 0.0
    steps: int = 0
    momentum: float = 0.0
    momentum_form: MomentumForm = "heavy-ball"
    project: bool = False

    @property
    def key(self) -> str:
        """The run as text; equal keys mean equal results."""
        return json.dumps(asdict(self), sort_keys=True)


def perform(run: SyntheticRun, disturbance: float = 0.0) -> dict[str, Any]:
    """Do one run: {"rows"}, a row per method and rho. A descent starts at ``1 + disturbance N(0, 1)``."""
    problem = draw(run.cell)
    head: dict[str, Any] = asdict(run.cell)
    rows: list[dict[str, Any]] = []
    if run.kind == "rivals":
        for rho in run.rhos:
            for method, weight in rivals(problem, rho):
                rows.append({"method": method, **head, "rho": rho, **asdict(problem.errors(weight))})
        return {"rows": rows}
    options: dict[str, Any] = {
        "mask": "causal", "reading": run.reading, "steps": run.steps, "momentum": run.momentum,
        "momentum_form": run.momentum_form, "project": run.project,
    }  # fmt: skip
    head |= {name: getattr(run, name) for name in ("reading", "lam", "steps", "momentum", "momentum_form", "project")}
    if run.kind == "chaos":
        for rho in run.rhos:
            found = chaos(problem.X, problem.W, rho, run.lam, **options)
            numbers = {"flipped": found.flipped, "flipped_float32": found.flipped_float32}
            spread = [problem.errors(mask * problem.W).in_mean for mask in found.masks]
            rows.append({"method": "chaos", **head, "rho": rho, **numbers, "errors": spread})
        return {"rows": rows}
    if disturbance:
        options["initial"] = 1 + disturbance * np.random.default_rng(0).standard_normal(problem.W.shape)
    result = prune_mask_gd(problem.X, problem.W, run.rhos[0], run.lam, **options)
    facts = {
        "status": result.status, "ascents": result.trace.ascents, "outside_box": int(result.trace.outside[-1]),
        "least": float(result.trace.least[-1]), "greatest": float(result.trace.greatest[-1]),
    }  # fmt: skip
    for rho in run.rhos:
        errors = problem.errors(binary_mask(result.M, rho) * problem.W)
        rows.append({"method": "descent", **head, "rho": rho, **asdict(errors), **facts})
    return {"rows": rows}
