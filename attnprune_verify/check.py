"""One instance, checked: the gradient by four oracles, the assumptions, constants, bounds and the theorem."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from attnprune_verify.algorithms.gap.by_head import HeadGap, gaps_by_head
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.memory import estimate_memory, require_memory
from attnprune_verify.instance.problem import Instance, LayerInstance
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.objective import Objective
from attnprune_verify.oracle.verdict import OracleVerdict, judge_gradient
from attnprune_verify.pretrained.load import load_pretrained
from attnprune_verify.pretrained.texts import read_text, token_stream
from attnprune_verify.theory.assumptions import Assumption
from attnprune_verify.theory.bounds import Bound
from attnprune_verify.theory.constants import Constants
from attnprune_verify.theory.layers import LayerConstants
from attnprune_verify.theory.of_problem import theory_of
from attnprune_verify.theory.theorem import TheoremVerdict
from attnprune_verify.values import as_count, as_positive, as_ratio

SCHEMA = "attnprune-verify/check/1"
Outcome = Literal["passed", "failed", "incomplete"]
_SEVERITY = {"passed": 0, "inconclusive": 1, "failed": 2}


# Nominal seconds for the expensive oracles (`oracle.verdict`); what they compare depends on it, not on the clock. At
# d = 64 and with a causal mask 22 let every oracle decide up to about 1500 tokens at a given M. Without one, M = 1 is
# judged too, where only lam M is left to see: 6 of the 22 suffice there up to about 800 tokens.
_EFFORT = 22.0
_AT_ONES = 6.0 / 22.0  # the share of M = 1: see the lines above


class _OraclePoint(NamedTuple):
    name: str
    instance: Instance | LayerInstance
    share: float


@dataclass(frozen=True)
class CheckResult:
    """Result of `run_check`; `as_dict` is the JSON of ``attnprune-verify check``.

    Attributes
    ----------
    instance : Instance or LayerInstance
    assumptions : tuple of Assumption
    gradient : tuple of OracleVerdict
        One per oracle: autodiff, taylor-slope, multiprecision, ball.
    constants : Constants or LayerConstants
    bounds : tuple of Bound
    theorem : TheoremVerdict
    mask_gaps : tuple of HeadGap or None
        With a pruning ratio: for each head, the best mask found and a lower bound of every mask's divergence.
    outcome : str
        "passed" when every gradient oracle passed and no repaired bound is violated; "failed" when one is refuted
        (or, under `strict`, an assumption fails); else "incomplete".
    """

    instance: Instance | LayerInstance
    assumptions: tuple[Assumption, ...]
    gradient: tuple[OracleVerdict, ...]
    constants: Constants | LayerConstants
    bounds: tuple[Bound, ...]
    theorem: TheoremVerdict
    outcome: Outcome
    mask_gaps: tuple[HeadGap, ...] | None = None

    def __repr__(self) -> str:
        failing = ", ".join(assumption.id for assumption in self.assumptions if not assumption.holds)
        return f"<check of {self.instance}: {self.outcome}; assumptions that fail: {failing or 'none'}>"

    def as_dict(self) -> dict[str, Any]:
        """The result as plain data, in the layout of the schema "attnprune-verify/check/1"."""
        return {
            "schema": SCHEMA,
            "instance": self.instance.as_dict(),
            "assumptions": [a.as_dict() for a in self.assumptions],
            "gradient": [
                {"oracle": v.oracle, "status": v.status, "value": v.value, "tolerance": v.tolerance, "note": v.note}
                for v in self.gradient
            ],
            "constants": self.constants.document(),
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
        } | ({} if self.mask_gaps is None else {"mask_gaps": [gap.as_dict() for gap in self.mask_gaps]})


def run_check(
    instance: Instance | LayerInstance,
    *,
    beta: float | None = None,
    delta: float | None = None,
    strict: bool = False,
    seed: int = 0,
    effort: float = _EFFORT,
    rho: float | None = None,
    progress: Callable[[str], None] | None = None,
) -> CheckResult:
    """Check the closed-form gradient on `instance`, the paper's assumptions, its constants, bounds and theorem.

    float32 data are taken as exact numbers, and the closed form is evaluated on them in float64. Without a pruning
    mask, assumptions, constants and theorem take M = 1. The gradient is then judged at M = 1 and at a seeded M uniform
    in [0.1, 0.9], and the worse verdict counts (at M = 1 the attention gradient is exactly 0).

    A layer is judged the same way, its gradients in M_Q and M_K together; the theory is evaluated on its worst head.

    Parameters
    ----------
    instance : Instance or LayerInstance
    beta, delta : float, optional
        Judge these values instead of the instance's own.
    strict : bool
        Count a failed assumption as a failure.
    seed : int
        Seed of the random M and of the oracles' random directions.
    effort : float
        Nominal seconds that the oracles in exact arithmetic may take; it decides what they compare, the clock does not.
        An oracle that needs more is skipped; its note names the effort that is enough.
    rho : float, optional
        Also bound the divergence of all masks with this share of zeros (`certified_mask_gap`), of W or of each head's
        W_Q, if that costs less than `effort`.
    progress : callable, optional
        Called with a few words about each step before it starts.

    Returns
    -------
    CheckResult

    Raises
    ------
    InvalidInstance
        If it is no instance, a logit or the gradient overflows, `beta` or `delta` is not a number, `effort` is not
        finite and > 0, or the check does not fit into the memory budget (`instance.memory`).

    Examples
    --------
    >>> import numpy as np
    >>> result = run_check(Instance(np.eye(2), 0.1 * np.array([[1, -1], [-1, 1]]), M=np.zeros((2, 2))))
    >>> result.outcome, {bound.id: bound.status for bound in result.bounds}["lem:PL_ineq"]
    ('passed', 'violated')
    """
    tell = progress or (lambda _: None)
    if not isinstance(instance, Instance | LayerInstance):
        raise InvalidInstance(f"instance must be an Instance or a LayerInstance; got {instance!r:.80}")
    as_positive("effort", effort)
    ratio = None if rho is None else as_ratio(rho)
    said = ", ".join(f"{name} = {size}" for name, size in instance.sizes.items())
    require_memory(f"a check with {said}", estimate_memory("check", **instance.sizes))
    rng = np.random.default_rng(seed)
    theory = theory_of(instance)
    tell("assumptions")
    judged = theory.assumptions(instance, beta=beta, delta=delta)
    verdicts = _judge_gradient(instance, rng, effort, tell)
    tell("constants")
    numbers = theory.constants(instance, beta=beta, delta=delta)
    tell("bounds")
    bounds = theory.bounds(instance, tell)
    tell("theorem")
    statement = theory.theorem(instance, beta=beta, delta=delta)
    if ratio is not None:
        tell("masks")
    gaps = None if ratio is None else gaps_by_head(instance, ratio, effort)
    outcome = _outcome(judged, verdicts, bounds, strict)
    return CheckResult(instance, judged, verdicts, numbers, bounds, statement, outcome, gaps)


def instance_of_model(
    folder: str | os.PathLike[str], layer: int, text: str | os.PathLike[str], n: int = 128
) -> LayerInstance:
    """Attention layer `layer` of a model in Hugging Face layout, on the first n tokens of a text; lam = 0.

    Raises
    ------
    InvalidInstance
        If the model or the text cannot be read, there is no such layer, or the text has fewer than n tokens.
    """
    model = load_pretrained(folder)
    as_count("layer", layer, least=0)
    if layer >= model.depth:
        raise InvalidInstance(f"layer must be in 0..{model.depth - 1}, the model's layers; got {layer}")
    stream = token_stream([read_text(text)], model.tokenizer)
    if len(stream) < as_count("n", n, least=1):
        raise InvalidInstance(f"the text must have at least n = {n} tokens; {str(text)!r} has {len(stream)}")
    hidden = model.family.embed(model.checked_ids(stream[:n]))
    for index in range(layer):
        hidden = model.block(index)(hidden).output
    block = model.block(layer)
    return LayerInstance(block.layer, block(hidden).x[0])


def gradient(instance: Instance | LayerInstance) -> tuple[Array, ...]:
    """The closed form at the instance's masks, which are validated: one array a mask."""
    return tuple(Objective(instance).loss_and_gradient_at(instance.masks_or_ones)[1])


def _judge_gradient(
    instance: Instance | LayerInstance, rng: np.random.Generator, effort: float, tell: Callable[[str], None]
) -> tuple[OracleVerdict, ...]:
    found = [_judge_at(point, rng, effort, tell) for point in _points(instance, rng)]
    return tuple(max(versions, key=_badness) for versions in zip(*found, strict=True))


def _points(instance: Instance | LayerInstance, rng: np.random.Generator) -> list[_OraclePoint]:
    """The instance itself, in float64; without masks, at M = 1 and at a random M."""
    here = instance.in_float64()
    if instance.masks is not None:
        return [_OraclePoint("M", here, 1.0)]
    elsewhere = here.with_masks(*(rng.uniform(0.1, 0.9, W.shape) for W in here.weights))
    return [_OraclePoint("M = 1", here, _AT_ONES), _OraclePoint("random M", elsewhere, 1.0 - _AT_ONES)]


def _judge_at(
    point: _OraclePoint, rng: np.random.Generator, effort: float, tell: Callable[[str], None]
) -> tuple[OracleVerdict, ...]:
    def progress(oracle: str) -> None:
        tell(f"{oracle} at {point.name}")

    here = point.instance
    verdicts = judge_gradient(here, gradient(here), rng=rng, effort=point.share * effort, progress=progress)
    return tuple(_with_way_out(verdict, point) for verdict in verdicts)


def _with_way_out(verdict: OracleVerdict, point: _OraclePoint) -> OracleVerdict:
    """Add to a skipped oracle's verdict the effort of the whole check that is enough to run it, in two digits."""
    if verdict.needs is None:
        return verdict
    enough = float(f"{1.06 * verdict.needs / point.share:.2g}")
    return replace(verdict, needs=enough, note=f"{verdict.note} at {point.name}; an effort of {enough:g} is enough")


def _badness(verdict: OracleVerdict) -> tuple[int, float]:
    """Return a key that sorts failed, inconclusive, passed; among equals by margin, or by the effort needed."""
    if verdict.needs is not None:
        return _SEVERITY[verdict.status], verdict.needs
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
