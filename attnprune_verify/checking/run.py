"""One instance, checked: the gradient by four oracles, the assumptions, constants, bounds and the theorem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from attnprune_verify.instance.problem import Instance
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.objective import gradient
from attnprune_verify.oracle.verdict import OracleVerdict, judge_gradient
from attnprune_verify.theory.assumptions import Assumption, assumptions
from attnprune_verify.theory.bounds import Bound, evaluate_bounds
from attnprune_verify.theory.constants import Constants, constants
from attnprune_verify.theory.theorem import TheoremVerdict, theorem

__all__ = ["SCHEMA", "CheckResult", "run_check"]

SCHEMA = "attnprune-verify/check/1"
Outcome = Literal["passed", "failed", "incomplete"]
_SEVERITY = {"passed": 0, "inconclusive": 1, "failed": 2}


_EFFORT = 22.0  # nominal seconds for the expensive oracles; what they compare depends on it, not on the clock


class _Point(NamedTuple):
    name: str
    M: Array
    effort: float


@dataclass(frozen=True)
class CheckResult:
    """What `run_check` found; `as_dict` is the JSON of ``attnprune-verify check``.

    Attributes
    ----------
    instance : Instance
    assumptions : tuple of Assumption
    gradient : tuple of OracleVerdict
        One per oracle: autodiff, taylor-slope, multiprecision, ball.
    constants : Constants
    bounds : tuple of Bound
    theorem : TheoremVerdict
    outcome : str
        "passed" when every gradient oracle passed and no repaired bound is violated; "failed" when one is refuted
        (or, under `strict`, an assumption fails); else "incomplete".
    """

    instance: Instance
    assumptions: tuple[Assumption, ...]
    gradient: tuple[OracleVerdict, ...]
    constants: Constants
    bounds: tuple[Bound, ...]
    theorem: TheoremVerdict
    outcome: Outcome

    def as_dict(self) -> dict[str, Any]:
        """The result as plain data, in the layout of the schema "attnprune-verify/check/1"."""
        instance = self.instance
        return {
            "schema": SCHEMA,
            "instance": {
                "n": instance.n,
                "d": instance.d,
                "k": instance.k,
                "mask": instance.mask_kind,
                "lam": instance.lam,
            },
            "assumptions": [
                {"id": a.id, "holds": a.holds, "value": a.value, "log10": a.log10, "reason": a.reason}
                for a in self.assumptions
            ],
            "gradient": [
                {"oracle": v.oracle, "status": v.status, "value": v.value, "tolerance": v.tolerance, "note": v.note}
                for v in self.gradient
            ],
            "constants": {**self.constants.as_dict(), "log10": dict(self.constants.log10)},
            "bounds": [
                {"id": b.id, "lhs": b.lhs, "rhs": b.rhs, "status": b.status, "note": b.note} for b in self.bounds
            ],
            "theorem": {
                "applies": self.theorem.applies,
                "vacuous": self.theorem.vacuous,
                "reasons": list(self.theorem.reasons),
                "guarantees": [{"id": g.id, "applies": g.applies, "says": g.says} for g in self.theorem.guarantees],
            },
            "outcome": self.outcome,
        }


def run_check(
    instance: Instance,
    *,
    beta: float | None = None,
    delta: float | None = None,
    strict: bool = False,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> CheckResult:
    """Check the closed-form gradient on `instance` and say which of the paper's assumptions hold.

    float32 data are taken as the exact numbers they are, and the closed form is evaluated on them in float64. Without a
    pruning mask, assumptions, constants and theorem take M = 1; the gradient is judged at M = 1 and at a
    seeded M uniform in [0.1, 0.9], and the worse verdict counts (at M = 1 the attention gradient is exactly 0).

    Parameters
    ----------
    instance : Instance
    beta, delta : float, optional
        Judge these values instead of the instance's own.
    strict : bool
        Count a failed assumption as a failure.
    seed : int
        Of the random M and of the directions the oracles look along.
    progress : callable, optional
        Told, in a few words, what is done next.

    Returns
    -------
    CheckResult

    Raises
    ------
    InvalidInstance
        If a logit or the gradient overflows, or `beta` or `delta` is not a number.

    Examples
    --------
    >>> import numpy as np
    >>> result = run_check(Instance(np.eye(2), 0.1 * np.array([[1, -1], [-1, 1]]), M=np.zeros((2, 2))))
    >>> result.outcome, {bound.id: bound.status for bound in result.bounds}["lem:PL_ineq"]
    ('passed', 'violated')
    """
    tell = progress or (lambda _: None)
    tell("assumptions")
    judged = assumptions(instance, beta=beta, delta=delta)
    verdicts = _judge_gradient(instance, np.random.default_rng(seed), tell)
    tell("constants")
    numbers = constants(instance, beta=beta, delta=delta)
    tell("bounds")
    bounds = evaluate_bounds(instance)
    tell("theorem")
    statement = theorem(instance, beta=beta, delta=delta)
    return CheckResult(
        instance, judged, verdicts, numbers, bounds, statement, _outcome(judged, verdicts, bounds, strict)
    )


def _judge_gradient(
    instance: Instance, rng: np.random.Generator, tell: Callable[[str], None]
) -> tuple[OracleVerdict, ...]:
    X, W, M = (array.astype(np.float64) for array in (instance.X, instance.W, instance.M_or_ones))
    points = [_Point("M", M, _EFFORT)]
    if instance.M is None:  # at M = 1 only lam M is left to judge; the random M deserves the time
        points = [_Point("M = 1", M, 6.0), _Point("random M", rng.uniform(0.1, 0.9, W.shape), _EFFORT - 6.0)]
    exact = Instance(X, W, mask=instance.mask, lam=instance.lam)
    found = [_judge_at(point, exact, rng, tell) for point in points]
    return tuple(max(versions, key=_badness) for versions in zip(*found, strict=True))


def _judge_at(
    point: _Point, instance: Instance, rng: np.random.Generator, tell: Callable[[str], None]
) -> tuple[OracleVerdict, ...]:
    closed_form = gradient(point.M, instance.X, instance.W, instance.lam, instance.mask)

    def progress(oracle: str) -> None:
        tell(f"{oracle} at {point.name}")

    return judge_gradient(instance, point.M, closed_form, rng=rng, effort=point.effort, progress=progress)


def _badness(verdict: OracleVerdict) -> tuple[int, float]:
    """Failed before inconclusive before passed; among equals, the smaller margin."""
    ratio = verdict.value / verdict.tolerance if verdict.tolerance > 0 else float(verdict.value > 0)
    return _SEVERITY[verdict.status], ratio if ratio == ratio else float("inf")


def _outcome(
    judged: tuple[Assumption, ...], verdicts: tuple[OracleVerdict, ...], bounds: tuple[Bound, ...], strict: bool
) -> Outcome:
    refuted = any(v.status == "failed" for v in verdicts)
    broken = any(b.status == "violated" and b.id.startswith("fix:") for b in bounds)
    if refuted or broken or (strict and not all(a.holds for a in judged)):
        return "failed"
    return "passed" if all(v.status == "passed" for v in verdicts) else "incomplete"
