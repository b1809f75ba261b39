"""One instance of a campaign, alone: its values, its slack, and its verdict in ball arithmetic."""

from dataclasses import dataclass
from typing import Any

from attnprune_verify.claims.campaign.decide import HOLDS, NOT_MET, UNDECIDED, VIOLATED
from attnprune_verify.claims.campaign.draw import Draw, locate
from attnprune_verify.claims.campaign.judge import Group, case_of, decide, in_balls
from attnprune_verify.claims.campaign.plan import CampaignPlan
from attnprune_verify.claims.campaign.tally import Tally
from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.supply import Instances
from attnprune_verify.claims.core import Claim
from attnprune_verify.errors import InvalidInstance

_WORDS = {NOT_MET: "not met", HOLDS: "holds", UNDECIDED: "undecided", VIOLATED: "violated"}
_LARGEST = 4096
"""Up to this n^2 d^2 the worst instance is confirmed: enclosing the eigenvalues of larger matrices takes minutes."""


@dataclass(frozen=True)
class Examined:
    """One instance under one statement.

    Attributes
    ----------
    claim : Claim
    case : Case
        The instance as the statement reads it.
    state : "holds", "violated", "undecided" or "not met"
        As the campaign counted it in float64.
    slack : float
        Equal to the bit to the campaign's; nan if a hypothesis is not met.
    in_balls : "holds", "violated", "undecided" or "not met"
        The state in ball arithmetic.
    """

    claim: Claim
    case: Case
    state: str
    slack: float
    in_balls: str


def examine(id_: str, index: int, *, seed: int = 0, sizes: object = None) -> list[Examined]:
    """Draw one instance again from its number, and judge it under every reading of a statement.

    Examples
    --------
    >>> [(one.claim.reading.name, one.state) for one in examine("fix:PL_ineq", 12, sizes="n=3,d=4")]
    [('any', 'holds')]
    """
    plan = CampaignPlan.of(id_, 1, seed, sizes)
    found = []
    for claim in plan.claims:
        group = _alone(plan, index)
        decision = decide(claim, group)
        case = case_of(claim, group.draw, 0)
        state = _WORDS[int(decision.state[0])]
        found.append(Examined(claim, case, state, float(decision.slack[0]), _WORDS[in_balls(claim, case)[0]]))
    return found


def confirmed(plan: CampaignPlan, claim: Claim, tally: Tally) -> bool | None:
    """Judge the worst instance in balls: True if the statement certainly holds there, False if violated, else None."""
    if tally.worst is None or (tally.worst.n or 1) ** 2 * (tally.worst.d or 1) ** 2 > _LARGEST:
        return None
    case = case_of(claim, _alone(plan, tally.worst.index).draw, 0)
    return {HOLDS: True, VIOLATED: False}.get(in_balls(claim, case)[0])


def refuse_other_slack(plan: CampaignPlan, claim: Claim, tally: Tally) -> None:
    """Evaluate the worst instance anew and refuse a slack or sizes that differ from the recorded ones in any bit.

    Raises
    ------
    InvalidInstance
        If they do not: a checkpoint or a worker gave a number that no instance has.
    """
    worst = tally.worst
    if worst is None:
        return
    group = _alone(plan, worst.index)
    sizes = (group.draw.n, group.draw.d) if isinstance(claim.supply, Instances) else (None, None)
    slack = float(decide(claim, group).slack[0])
    if slack != worst.slack or sizes != (worst.n, worst.d) or worst.index >= plan.instances:
        raise InvalidInstance(
            f"the worst instance of {claim.test_id} must have the slack that is recorded; "
            f"instance {worst.index} has {slack}, not {worst.slack}"
        )


def _alone(plan: CampaignPlan, index: int) -> Group:
    number, lane = locate(index)
    return Group(Draw.of(plan.seed, plan.sizes, number, lane, 1))


def as_dict(one: Examined) -> dict[str, Any]:
    """Return the findings on one instance for JSON."""
    return {
        "id": one.claim.id,
        "reading": one.claim.reading.name,
        "state": one.state,
        "slack": one.slack,
        "in_balls": one.in_balls,
        "inputs": one.case.as_json(),
    }
