"""Running of a campaign: judge every statement on N instances, resume an earlier run, confirm the worst instance."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from attnprune_verify.claims.campaign.checkpoint import Checkpoint
from attnprune_verify.claims.campaign.draw import Quota, groups
from attnprune_verify.claims.campaign.examine import confirmed, refuse_other_slack
from attnprune_verify.claims.campaign.kernel import code, kernel
from attnprune_verify.claims.campaign.plan import CampaignPlan
from attnprune_verify.claims.campaign.tally import Tally
from attnprune_verify.claims.campaign.workers import perform, refuse_missing_dask
from attnprune_verify.claims.core import Claim
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.values import as_count

Progress = Callable[[int, int], object]


@dataclass(frozen=True)
class CampaignResult:
    """Result of a campaign.

    Attributes
    ----------
    plan : CampaignPlan
    tallies : tuple of Tally
        One for each of ``plan.claims``.
    confirmed : tuple of (bool or None)
        For each worst instance, judged in balls: True (the statement holds there), False (violated), None (undecided).
    seconds : float
        Processor seconds, those of earlier runs into the same folder included.
    resumed : bool
        True if the campaign resumed an earlier run.
    """

    plan: CampaignPlan
    tallies: tuple[Tally, ...]
    confirmed: tuple[bool | None, ...]
    seconds: float
    resumed: bool

    def __repr__(self) -> str:
        ids = ", ".join(self.plan.ids)
        return f"<campaign of {self.plan.instances} instances against {ids}: {self.outcome}>"

    @property
    def broken(self) -> list[Claim]:
        """Repaired and own statements that were violated, which none may be."""
        return [claim for claim, tally in self._rows if claim.own and tally.violations]

    @property
    def found(self) -> list[Claim]:
        """Statements of the paper that were violated."""
        return [claim for claim, tally in self._rows if not claim.own and tally.violations]

    @property
    def outcome(self) -> str:
        """The outcome: "failed" if a statement of ours was violated, else "passed"."""
        return "failed" if self.broken else "passed"

    @cached_property
    def _rows(self) -> list[tuple[Claim, Tally]]:
        return list(zip(self.plan.claims, self.tallies, strict=True))

    @property
    def rate(self) -> float:
        """Instances a processor second, each statement counted."""
        return self.plan.instances * len(self.tallies) / max(self.seconds, 1e-9)

    def as_dict(self) -> dict[str, Any]:
        """The JSON report; all but the last two are the same to the bit whatever the jobs and interruptions."""
        statements = []
        for (claim, tally), sure in zip(self._rows, self.confirmed, strict=True):
            worst: dict[str, Any] | None = None
            if tally.worst is not None:
                w = tally.worst
                worst = {"slack": w.slack, "seed": self.plan.seed, "index": w.index, "n": w.n, "d": w.d}
                worst["in_balls"] = {True: "holds", False: "violated", None: "undecided"}[sure]
            counts = {name: getattr(tally, name) for name in ("instances", "met", "undecided", "violations")}
            statements.append({"id": claim.id, "reading": claim.reading.name, **counts, "worst": worst})
        return {
            "schema": "attnprune-verify/campaign/1",
            "seed": self.plan.seed,
            "sizes": self.plan.sizes.as_dict(),
            "kernel": kernel(),
            "statements": statements,
            "instances_per_second": self.rate,
            "resumed": self.resumed,
        }


def run_campaign(
    ids: str | Iterable[str],
    instances: int,
    *,
    seed: int = 0,
    sizes: object = None,
    out: str | Path | None = None,
    jobs: int = 1,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> CampaignResult:
    """Attack statements on many seeded random instances.

    Parameters
    ----------
    ids : str or iterable of str
        Statements; each is judged under every reading that instances can attack.
    instances : int
    seed : int
    sizes : str or mapping, optional
        ``"n=2..8,d=2..8"`` or ``{"n": (2, 8), "d": (2, 8)}``, which is the default.
    out : path, optional
        A folder for the checkpoint, made if missing; the same campaign resumes from it.
    jobs : int
        Processes.
    scheduler : str, optional
        Address of a Dask scheduler, instead of local processes.
    progress : callable, optional
        Called as ``progress(instances done, instances)``.

    Returns
    -------
    CampaignResult
        ``.as_dict()`` is the report; it is the same to the bit for any jobs, cluster, interruption or order.

    Raises
    ------
    InvalidInstance
        If a setting is out of range, a statement cannot be attacked by instances, `out` is of another campaign, dask is
        missing, or a worker rounds otherwise than this machine.

    Examples
    --------
    >>> result = run_campaign(["lem:PL_ineq", "fix:PL_ineq"], 200, sizes="n=3,d=4")
    >>> [(row["id"], row["reading"], row["violations"] > 0) for row in result.as_dict()["statements"]]
    [('lem:PL_ineq', 'full', True), ('lem:PL_ineq', 'causal', False), ('fix:PL_ineq', 'any', False)]
    """
    plan = CampaignPlan.of(ids, instances, seed, sizes)
    processes = as_count("jobs", jobs, least=1)
    refuse_missing_dask(scheduler)
    request = {**plan.as_dict(), "kernel": kernel(), "code": code()}
    store = Checkpoint(None if out is None else Path(out), request, len(plan.claims))
    asked = list(groups(plan.instances))
    with store.opened(asked):
        _refuse_other_slacks(plan, store)
        _judge(plan, asked, store, processes, scheduler, progress)
    _refuse_other_slacks(plan, store)
    sure = tuple(confirmed(plan, claim, tally) for claim, tally in zip(plan.claims, store.tallies, strict=True))
    return CampaignResult(plan, tuple(store.tallies), sure, store.seconds, store.resumed)


def _judge(
    plan: CampaignPlan,
    asked: list[Quota],
    store: Checkpoint,
    processes: int,
    scheduler: str | None,
    progress: Progress | None,
) -> None:
    """Judge the groups that are not yet judged."""
    lanes = {group.number: group.lanes for group in asked}
    done = sum(lanes[number] for number in store.done)
    if progress is not None:
        progress(done, plan.instances)
    missing = [group for group in asked if group.number not in store.done]
    for found in perform(plan, missing, processes, scheduler):
        if (found.kernel, found.code) != (kernel(), code()):
            _refuse(found.kernel, found.code)
        store.add(found.group, found.tallies, found.seconds)
        done += lanes[found.group]
        if progress is not None:
            progress(done, plan.instances)
    if done != plan.instances:
        raise RuntimeError(f"every instance must be judged; {plan.instances - done} were not")


def _refuse_other_slacks(plan: CampaignPlan, store: Checkpoint) -> None:
    for claim, tally in zip(plan.claims, store.tallies, strict=True):
        refuse_other_slack(plan, claim, tally)


def _refuse(theirs: dict[str, str], their_code: str) -> None:
    mine = {**kernel(), "code": code()}
    other = {**theirs, "code": their_code}
    name = next(one for one in ("code", *mine) if mine[one] != other[one])
    raise InvalidInstance(
        f"every worker must compute as this machine does; {name} is {mine[name]} here and {other[name]} on a worker"
    )
