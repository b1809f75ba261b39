"""Workers that judge groups: this process, several processes, or a Dask cluster; the order changes no result."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from importlib.util import find_spec
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

__all__ = ["Found", "WorkersLost", "judge_group", "perform", "refuse_missing_dask"]

_DEATHS = 5
"""How often in a row a worker may die before a group is done."""
_ADDRESS = re.compile(r"inproc://\S+|((tcp|tls|ucx|wss?)://)?(\[[0-9a-fA-F:.%]+\]|[^\s/:\[\]]+):\d{1,5}")
_WAITING = 4
"""Groups that wait for each process, so that none is idle and a large campaign is not queued at once."""


class WorkersLost(RuntimeError):
    """Raised when workers die as fast as they are replaced, or the cluster is gone; the checkpoint stays."""


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
        yield from _in_processes(plan, groups, min(jobs, len(groups)))
    else:
        yield from (judge_group(plan, asked) for asked in groups)


def _in_processes(plan: CampaignPlan, groups: Sequence[Asked], jobs: int) -> Iterator[Found]:
    """Judge groups in processes; a process that dies is replaced, and its group judged again."""
    missing = {asked.number: asked for asked in groups}
    deaths = 0
    while missing:
        pool = _pool(jobs)
        finished = False
        try:
            for found in _flowing(pool, plan, list(missing.values()), jobs):
                del missing[found.group]
                deaths = 0
                yield found
            finished = True
        except BrokenExecutor:
            deaths += 1
            if deaths > _DEATHS:
                raise WorkersLost(f"{deaths} worker processes died one after the other") from None
        finally:
            _close(pool, kill=not finished)


def _flowing(pool: Any, plan: CampaignPlan, groups: list[Asked], jobs: int) -> Iterator[Found]:
    waiting = iter(groups)
    running: set[Future[Found]] = set()
    while True:
        for asked in waiting:
            running.add(pool.submit(judge_group, plan, asked))
            if len(running) >= _WAITING * jobs:
                break
        if not running:
            return
        done, running = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            yield future.result()


def _pool(jobs: int) -> Any:
    """joblib's processes where it is installed, which need no guarded main module; else those of the standard library.

    Small products lose by threaded BLAS when the other cores are busy, so a process gets one BLAS thread.
    """
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    if find_spec("joblib") is not None:
        from joblib.externals.loky import ProcessPoolExecutor

        return ProcessPoolExecutor(jobs, initializer=_follow, initargs=(os.getpid(),))
    from concurrent.futures import ProcessPoolExecutor as Pool
    from multiprocessing import get_context

    return Pool(jobs, get_context("spawn"), _follow, (os.getpid(),))


def _follow(parent: int) -> None:
    """Leave interrupts to the parent, and end when it is gone, however it ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _close(pool: Any, *, kill: bool) -> None:
    if kill:
        for process in list((getattr(pool, "_processes", None) or {}).values()):
            process.terminate()
    pool.shutdown(wait=True)


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
            return client.submit(judge_group, plan, asked, pure=False, retries=_DEATHS)

        slots = _WAITING * max(1, sum(client.nthreads().values()))
        running = dask.as_completed([submit(asked) for asked in islice(waiting, slots)])
        for future in running:
            try:
                found: Found = future.result()
            except (dask.scheduler.KilledWorker, dask.CancelledError, OSError) as error:
                raise WorkersLost(f"the Dask cluster stopped: {type(error).__name__}") from error
            for asked in islice(waiting, 1):
                running.add(submit(asked))
            yield found
