"""Attack a claim: stored attacks, named families, limits, a guided random search, and local optimisation of the slack.

Random draws alone are worthless here: Gaussian instances gave no violation of the false PL lemma in 400 tries, while
|W| constant with orthonormal X gives one every time.
"""

import math
from collections.abc import Callable, Iterator
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.supply import moved
from attnprune_verify.claims.core import Claim, Strength
from attnprune_verify.claims.judging.trial import Trial
from attnprune_verify.files import read_lines


class Effort(NamedTuple):
    """Effort of an attack: family cases kept for limits, examples drawn, optimiser starts, evaluations per start."""

    limits: int
    examples: int
    starts: int
    evaluations: int


QUICK = Effort(limits=3, examples=30, starts=2, evaluations=120)
THOROUGH = Effort(limits=12, examples=300, starts=6, evaluations=1500)


def attack(
    claim: Claim,
    attempt: Callable[[Case], Trial],
    rng: Generator,
    effort: Effort,
    decided: Callable[[], bool],
) -> None:
    """Call `attempt` on every case of the attack; stop early once `decided()` is true."""
    trials: list[Trial] = []

    def keep(case: Case) -> float:
        if decided():  # every further violation would only be confirmed once more
            return 1.0
        trial = attempt(case)
        if trial.failed is None and not trial.problem:
            trials.append(trial)
            return trial.slack
        return 1.0

    for case in _named(claim, rng):
        keep(case)
    for trial in _worst(trials, effort.limits):
        for case in claim.supply.limits(trial.case):
            keep(case)
    _guided(claim, keep, rng, effort.examples)
    if claim.strength is Strength.IDENTITY or decided():
        return
    free = claim.supply.free if claim.free is None else claim.free
    for trial in _worst(trials, effort.starts):
        names = [name for name in free if name in trial.case]
        if names:
            _descend(trial.case, names, keep, effort.evaluations)


def _named(claim: Claim, rng: Generator) -> Iterator[Case]:
    """Stored attacks, cases that attain the bound, cases that meet the hypotheses, and the supply's families."""
    yield from stored_attacks(claim.test_id)
    for case in claim.attains() if claim.attains else ():
        yield claim.supply.complete(case, rng)
    for hypothesis in claim.hypotheses:
        for case in hypothesis.cases(rng):
            yield claim.supply.complete(case, rng)
    yield from claim.supply.families(rng)


@cache
def attacks() -> dict[str, dict[str, Any]]:
    """The stored attacks by the test id of their claim: `origin`, `slack` and `values`."""
    rows = read_lines((resources.files("attnprune_verify.claims") / "attacks.jsonl").read_bytes())
    return {row["claim"]: row for row in rows}


def stored_attacks(test_id: str) -> list[Case]:
    """The best attack found so far on this claim, replayed in every run."""
    entry = attacks().get(test_id)
    return [Case.from_json(entry["values"], f"stored attack: {entry['origin']}")] if entry else []


def _worst(trials: list[Trial], count: int) -> list[Trial]:
    """The `count` smallest slacks, at most one per origin so that the starts differ."""
    chosen: dict[str, Trial] = {}
    for trial in sorted(trials, key=lambda one: one.slack):
        if len(chosen) >= count:
            break
        chosen.setdefault(trial.case.origin.split(",")[0].split(";")[0], trial)
    return list(chosen.values())


def _guided(claim: Claim, keep: Callable[[Case], float], rng: Generator, examples: int) -> None:
    """Draw cases, and for every one that is drawn try a neighbour of the worst so far.

    Seeded like everything else here: a library that draws from what else is loaded would make verdicts depend on it.
    """
    worst, draft = math.inf, None
    for count in range(examples):
        fresh = draft is None or count % 2 == 0
        tried = claim.supply.draft(rng) if fresh or draft is None else moved(draft, rng)
        if tried is None:
            return
        slack = keep(claim.supply.finished(tried))
        if slack < worst or draft is None:
            worst, draft = slack, tried


def _descend(case: Case, names: list[str], keep: Callable[[Case], float], evaluations: int) -> None:
    """Minimise the slack over the named arrays: simplex in few dimensions, quasi-Newton in more."""
    from scipy.optimize import minimize  # half of what the program takes to start, and identities do without

    start = case.vector(names)
    moved = case.but(origin=f"{case.origin}; optimised")

    def objective(vector: NDArray[np.float64]) -> float:
        if not np.isfinite(vector).all() or np.abs(vector).max(initial=0.0) > 1e6:
            return 1.0
        return keep(moved.at(names, vector))

    if start.size <= 12:
        minimize(objective, start, method="Nelder-Mead", options={"maxfev": evaluations, "adaptive": True})
    else:
        minimize(objective, start, method="L-BFGS-B", options={"maxfun": evaluations, "eps": 1e-6})
