"""Workers that judge groups: this process, several processes, or a Dask cluster; the order changes no result."""

import re
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from attnprune_verify.claims.campaign.draw import Draw
from attnprune_verify.claims.campaign.draw import Quota as Asked
from attnprune_verify.claims.campaign.judge import Group, tally
from attnprune_verify.claims.campaign.kernel import code, kernel
from attnprune_verify.claims.campaign.plan import CampaignPlan
from attnprune_verify.claims.campaign.tally import Tally
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.extras import need
from attnprune_verify.state.processes import DEATHS, WAITING, WorkersLost, unordered

_ADDRESS = re.compile(r"inproc://\S+|((tcp|tls|ucx|wss?)://)?(\[[0-9a-fA-F:.%]+\]|[^\s/:\[\]]+):\d{1,5}")


class Found(NamedTuple):
    """A judged group: a tally for each statement, processor seconds, how its worker rounds, and by which code."""

    group: int
    tallies: tuple[Tally, ...]
    seconds: float
    kernel: dict[str, str]
    code: str


def judge_group(plan: CampaignPlan, asked: Asked) -> Found:
    """Judge one group under every statement of the plan."""
    started = time.process_time()
    group = Group(Draw.of(plan.seed, plan.sizes, asked.number, 0, asked.lanes))
    tallies = tuple(tally(claim, group) for claim in plan.claims)
    return Found(asked.number, tallies, time.process_time() - started, kernel(), code())


def perform(plan: CampaignPlan, groups: Sequence[Asked], jobs: int, scheduler: str | None) -> Iterator[Found]:
    """Judge the groups, each handed out as soon as it is done."""
    if scheduler is not None:
        yield from _on_cluster(plan, groups, scheduler)
    elif jobs > 1 and len(groups) > 1:
        yield from (found for _, found in unordered(partial(judge_group, plan), groups, jobs))
    else:
        yield from (judge_group(plan, asked) for asked in groups)


def refuse_missing_dask(scheduler: str | None) -> None:
    """A scheduler needs dask and an address.

    Raises
    ------
    MissingExtra
        If it is not installed.
    InvalidInstance
        If the address is none: dask prints a traceback about each.
    """
    if scheduler is not None:
        need("a Dask scheduler", "parallel", "distributed")
        if not _ADDRESS.fullmatch(scheduler):
            raise InvalidInstance(f"--scheduler must read like tcp://127.0.0.1:8786; got {scheduler!r:.60}")


def _on_cluster(plan: CampaignPlan, groups: Sequence[Asked], scheduler: str) -> Iterator[Found]:
    """Judge groups on a Dask cluster, which gives the group of a worker that died to another one."""
    import distributed

    dask: Any = distributed  # it has no types
    try:
        client = dask.Client(scheduler, timeout="10s", set_as_default=False)
    except Exception as error:  # addresses that are none raise many kinds
        raise InvalidInstance(f"--scheduler must be a Dask scheduler that answers; got {scheduler!r}") from error
    with client, client.as_current():
        waiting = iter(groups)

        def submit(asked: Asked) -> Any:
            return client.submit(judge_group, plan, asked, pure=False, retries=DEATHS)

        slots = WAITING * max(1, sum(client.nthreads().values()))
        running = dask.as_completed([submit(asked) for asked in islice(waiting, slots)])
        for future in running:
            try:
                found: Found = future.result()
            except (dask.scheduler.KilledWorker, dask.CancelledError, OSError) as error:
                raise WorkersLost(f"the Dask cluster stopped: {type(error).__name__}") from error
            for asked in islice(waiting, 1):
                running.add(submit(asked))
            yield found
