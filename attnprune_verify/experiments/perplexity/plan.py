"""Plan of the perplexity experiment: model, texts, methods, ratios, calibration sizes and draws."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.values import as_choice, as_count
from attnprune_verify.whole_model.plan import ATTENTION_METHODS, DENSE, REST_METHODS, Plan

_KNOW_PATTERNS = {DENSE, *REST_METHODS}
_SAME = "same"


@dataclass(frozen=True)
class PerplexityRun:
    """One pruned model; with `layer` only that block is pruned."""

    rest: str
    attention: str
    rho: float | None
    pattern: str | None
    budget: str
    k: int
    seed: int
    layer: int | None = None
    hold: tuple[int, ...] = ()

    def plan(self) -> Plan:
        """Return the plan by which the model is pruned."""
        only = () if self.layer is None else (self.layer,)
        return Plan(self.attention, self.rest, self.rho, self.pattern, self.budget, only=only, hold=self.hold)  # type: ignore[arg-type]


@dataclass(frozen=True)
class PerplexityPlan:
    """The experiment's choices: every combination of them is a run.

    Attributes
    ----------
    model : str
        Path of the model's folder.
    calibration, held_out : tuple of str
        Paths of texts; empty for the shipped ones.
    attention, rest : tuple of str
        Methods, or "dense"; `rest` also "same", for the method of W_Q and W_K.
    rhos : tuple of float
        Pruning ratios.
    patterns : tuple of str
        Patterns "N:M", for the methods that support them.
    budgets : tuple of str
        "matrix", "measured" or "owl".
    hold : tuple of int
        Blocks that are pruned by rho whatever the budget.
    ks : tuple of int
        Numbers of windows of calibration text.
    n : int or None
        Tokens of a window; None for the model's context, at most 2048.
    seeds : int
        Number of draws of the calibration windows.
    windows : int or None
        Number of held-out windows to measure on, evenly spaced; None for all.
    by_layer : bool
        If True, measure also the effect of pruning each block alone.

    Raises
    ------
    InvalidInstance
        If a method is unknown or a number out of range.

    Examples
    --------
    >>> plan = PerplexityPlan("model", attention=("wanda", "sparsegpt"), rhos=(0.5, 0.7), patterns=("2:4",), seeds=2)
    >>> len(plan.runs(depth=4))
    12
    """

    model: str
    calibration: tuple[str, ...] = ()
    held_out: tuple[str, ...] = ()
    attention: tuple[str, ...] = ("wanda", "sparsegpt", "auto")
    rest: tuple[str, ...] = (DENSE,)
    rhos: tuple[float, ...] = ()
    patterns: tuple[str, ...] = ()
    budgets: tuple[str, ...] = ("matrix",)
    hold: tuple[int, ...] = ()
    ks: tuple[int, ...] = (8,)
    n: int | None = None
    seeds: int = 1
    windows: int | None = None
    by_layer: bool = False

    def __post_init__(self) -> None:
        if not (self.rhos or self.patterns):
            object.__setattr__(self, "rhos", (0.5,))
        for name in ("attention", "rest", "budgets", "ks"):
            if not getattr(self, name):
                raise InvalidInstance(f"{name} must not be empty")
        for part, known in (("attention", ATTENTION_METHODS), ("rest", REST_METHODS)):
            for method in getattr(self, part):
                as_choice(part, method, ("auto", DENSE, *known, *([_SAME] if part == "rest" else [])))
        for k in self.ks:
            as_count("k", k, least=1)
        as_count("seeds", self.seeds, least=1)
        for name, least in (("n", 2), ("windows", 1)):
            if getattr(self, name) is not None:
                as_count(name, getattr(self, name), least=least)
        shared = {Path(path).resolve() for path in self.calibration} & {Path(path).resolve() for path in self.held_out}
        if shared:
            raise InvalidInstance(f"calibration and held-out texts must differ; both have {sorted(shared)[0].name!r}")
        runs = self.runs(depth=1)
        if not runs and {*self.attention, *self.rest} != {DENSE}:
            given = ", ".join(dict.fromkeys((*self.attention, *self.rest)))
            raise InvalidInstance(f"some method must support patterns N:M; got {given}")
        for run in runs:
            run.plan()

    def runs(self, depth: int) -> list[PerplexityRun]:
        """Every combination once, ordered by the draw of texts; N:M for methods that support it."""
        sizes: list[tuple[float | None, str | None, str]]
        sizes = [(rho, None, budget) for rho in self.rhos for budget in self.budgets]
        sizes += [(None, pattern, "matrix") for pattern in self.patterns]
        layers = [None, *range(depth)] if self.by_layer else [None]
        runs = [
            PerplexityRun(
                rest, attention, rho, pattern, "matrix" if layer is not None else budget, k, seed, layer, self.hold
            )
            for k in self.ks
            for seed in range(self.seeds)
            for asked in self.rest
            for attention in map(_resolved, self.attention)
            for rest in [attention if asked == _SAME else _resolved(asked)]
            for rho, pattern, budget in sizes
            for layer in layers
            if not rest == attention == DENSE and (pattern is None or {rest, attention} <= _KNOW_PATTERNS)
        ]
        return list(dict.fromkeys(runs))

    def fields(self) -> dict[str, Any]:
        """The choices on which numbers depend, for the fingerprint."""
        left_out = ("model", "calibration", "held_out")
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name not in left_out}

    def document(self) -> dict[str, Any]:
        """Return the choices as plain values, with the paths as given: enough to repeat the experiment."""
        return asdict(self)

    @classmethod
    def from_document(cls, content: dict[str, Any]) -> PerplexityPlan:
        """The plan that `document` describes."""
        known = {one.name for one in fields(cls)}
        if not isinstance(content, dict) or not set(content) <= known or not isinstance(content.get("model"), str):
            raise InvalidInstance("a result must hold the plan it was measured by; this one holds none")
        values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in content.items()}
        return cls(**values)


def _resolved(method: str) -> str:
    return Plan(method, DENSE, 0.5).attention
