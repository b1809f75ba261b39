"""Judge one group of instances under one statement: many at once where its formulas allow that, else one by one."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attnprune_verify.claims.campaign.decide import (
    HOLDS,
    NOT_MET,
    UNDECIDED,
    VIOLATED,
    Decision,
    TooManyBranches,
    decide_lanes,
)
from attnprune_verify.claims.campaign.draw import Draw, index_of, own_generator
from attnprune_verify.claims.campaign.forms import margin_of
from attnprune_verify.claims.campaign.quantities import LaneCase, LaneQuantities
from attnprune_verify.claims.campaign.tally import LeastSlack, Tally
from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.lipschitz_pairs import second_mask
from attnprune_verify.claims.cases.relation import Relation
from attnprune_verify.claims.cases.supply import Arrays, Instances
from attnprune_verify.claims.core import Claim
from attnprune_verify.claims.judging.trial import Trial, certain, try_case
from attnprune_verify.theory.numbers.arithmetic import FLOAT, Undecidable

ROUNDING = 1e-9
"""One by one in float64: a relative slack above minus this is not looked at, a smaller one is decided by balls."""
BALLS_A_GROUP = 4
"""Chosen: number of a group's instances that violate a statement of ours and are judged again, in balls."""
_UNSUITED = (Undecidable, TooManyBranches, TypeError, AttributeError, ValueError, LookupError, np.linalg.LinAlgError)
"""Exceptions raised by the code of a statement that cannot judge many instances at once."""


def attackable(claim: Claim) -> bool:
    """Return True where random instances can violate the claim: not if it is measured, or about one listed case."""
    return isinstance(claim.supply, Instances | Arrays) and not claim.tags & {"existential", "measured"}


@dataclass
class Group:
    """Instances judged together, and the quantities computed so far."""

    draw: Draw
    shared: dict[Any, LaneQuantities] = field(default_factory=dict)

    def lanes_of(self, claim: Claim) -> LaneQuantities | None:
        """Return all instances as the statement reads them; None if it adds values that are drawn one by one."""
        supply = claim.supply
        if not isinstance(supply, Instances) or supply.extra not in (None, second_mask):
            return None
        clipped = supply.in_box and not self.draw.boxed
        mask = _read_mask(supply.mask, self.draw)
        key = (mask.tobytes() if isinstance(mask, np.ndarray) else mask, clipped, supply.lam)
        if key not in self.shared:
            arrays = dict(self.draw.values)
            common = {"mask": mask}
            if clipped:
                arrays["M"] = np.clip(arrays["M"], 0.0, 1.0)
            if supply.lam is not None:
                arrays["lam"] = np.full(len(self.draw.lanes), supply.lam)
            self.shared[key] = LaneQuantities(LaneCase(arrays, common))
        return self.shared[key]


def decide(claim: Claim, group: Group) -> Decision:
    """Decide every instance of the group; no decision depends on which instances are judged together."""
    draw = group.draw
    count = len(draw.lanes)
    if isinstance(claim.supply, Instances) and draw.n < claim.supply.least_tokens:
        return Decision(np.full(count, NOT_MET, dtype=np.int8), np.full(count, np.nan))
    quantities = group.lanes_of(claim)
    if quantities is not None:
        try:
            return decide_lanes(claim, quantities, count, margin_of(claim))
        except _UNSUITED:
            pass
    cases = [case_of(claim, draw, place) for place in range(count)]
    found = Decision(np.full(count, NOT_MET, dtype=np.int8), np.full(count, np.nan))
    for places in _alike(cases) if quantities is None else [range(count)]:
        chosen = [cases[place] for place in places]
        part = _decide_drawn(claim, chosen, together=quantities is None)
        found.state[list(places)], found.slack[list(places)] = part
    return found


def tally(claim: Claim, group: Group) -> Tally:
    """Count a group's decisions; an undecided instance is never the worst, since its slack is mostly rounding."""
    found = decide(claim, group)
    if claim.own:
        for place in np.flatnonzero(found.state == VIOLATED)[:BALLS_A_GROUP]:
            found.state[place] = in_balls(claim, case_of(claim, group.draw, int(place)))[0]
    met = found.state != NOT_MET
    slack = np.where(met & (found.state != UNDECIDED) & ~np.isnan(found.slack), found.slack, np.inf)
    worst = None
    if np.isfinite(slack).any():
        lane = int(np.argmin(slack))  # lanes of a group ascend with their indices, and the first one is taken
        index = index_of(group.draw.group, int(group.draw.lanes[lane]))
        shape = (group.draw.n, group.draw.d) if isinstance(claim.supply, Instances) else (None, None)
        worst = LeastSlack(float(slack[lane]), index, *shape)
    return Tally(
        instances=len(found.state),
        met=int(met.sum()),
        undecided=int((found.state == UNDECIDED).sum()),
        violations=int((found.state == VIOLATED).sum()),
        worst=worst,
    )


def case_of(claim: Claim, draw: Draw, place: int) -> Case:
    """One instance as the statement reads it, as a plain case."""
    lane = int(draw.lanes[place])
    origin = f"campaign, seed {draw.seed}, instance {index_of(draw.group, lane)}"
    rng = own_generator(draw.seed, draw.group, lane)
    supply = claim.supply
    if isinstance(supply, Arrays):
        return supply.drawn(rng, origin)
    assert isinstance(supply, Instances)
    values: dict[str, Any] = {name: draw.values[name][place] for name in ("X", "W", "M")}
    values |= {"lam": float(draw.values["lam"][place]), "mask": _read_mask(supply.mask, draw)}
    if supply.in_box:
        values["M"] = np.clip(values["M"], 0.0, 1.0)
    if supply.lam is not None:
        values["lam"] = supply.lam
    if supply.extra is second_mask:
        values["N"] = draw.values["N"][place]
    return supply.complete(Case(values, origin), rng)


def in_balls(claim: Claim, case: Case) -> tuple[int, Trial]:
    """The case in ball arithmetic."""
    trial = certain(claim, case)
    if trial.failed is not None:
        return NOT_MET, trial
    return {True: HOLDS, False: VIOLATED, None: UNDECIDED}[trial.certain], trial


def _read_mask(reading: str, draw: Draw) -> Any:
    return {"full": None, "causal": "causal", "given": draw.random_mask, "any": draw.mask}[reading]


def _alike(cases: Sequence[Case]) -> Iterable[list[int]]:
    """Places of the cases that have the same names, shapes and words, in order of their first."""
    kinds: dict[Any, list[int]] = {}
    for place, case in enumerate(cases):
        kinds.setdefault(tuple((name, *_kind(name, value)) for name, value in case.values.items()), []).append(place)
    return kinds.values()


def _kind(name: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, np.ndarray) and value.dtype != bool:
        return ("array", value.shape)
    if isinstance(value, float) and not isinstance(value, bool):
        return ("number",)
    return ("same", value.tobytes() if isinstance(value, np.ndarray) else repr(value))


def _decide_drawn(claim: Claim, cases: Sequence[Case], *, together: bool) -> Decision:
    """Cases that were drawn one by one: together if their code allows it, else each for itself."""
    if together:
        arrays: dict[str, Any] = {}
        common: dict[str, Any] = {}
        for name, value in cases[0].values.items():
            if _kind(name, value)[0] == "same":
                common[name] = value
            else:
                arrays[name] = np.stack([np.asarray(case[name], dtype=np.float64) for case in cases])
        try:
            return decide_lanes(claim, LaneQuantities(LaneCase(arrays, common)), len(cases), margin_of(claim))
        except _UNSUITED:
            pass
    each = [_one(claim, case) for case in cases]
    return Decision(np.array([one[0] for one in each], dtype=np.int8), np.array([one[1] for one in each]))


def _one(claim: Claim, case: Case) -> tuple[int, float]:
    """One case as `claims` judges it: floats search and balls decide, or balls at once."""
    if claim.arithmetic == "float":
        trial = try_case(claim, case, FLOAT)
        if trial.failed is not None:
            return NOT_MET, math.nan
        if not trial.problem and trial.slack >= -ROUNDING:
            return HOLDS, _slack(trial.slack, trial.relation)
    state, trial = in_balls(claim, case)
    return state, (math.nan if state == NOT_MET else _slack(trial.slack, trial.relation))


def _slack(slack: float, relation: Relation | None) -> float:
    """An identity's slack is 1 - error/bound, with the radii of balls as bound; fractions agree or they do not."""
    if relation is None or relation.kind != "==":
        return slack
    worst = 1.0
    lhs, rhs = (np.atleast_1d(np.asarray(side, dtype=object)) for side in (relation.lhs, relation.rhs))
    if lhs.shape != rhs.shape:
        return -1.0
    for a, b in zip(lhs.ravel(), rhs.ravel(), strict=True):
        gap = a - b
        if hasattr(gap, "rad"):
            error, bound = abs(float(gap.mid())), float(gap.rad())
        else:
            error, bound = abs(float(gap)), ROUNDING * (abs(float(a)) + abs(float(b)))
        if error > 0:  # exact sides that differ do so by at least a float's last digit
            worst = min(worst, 1 - error / max(bound, 2.0**-53 * (abs(float(a)) + abs(float(b)))))
    return worst
