"""Running a function on many tasks in several processes; a task whose process dies is run again in another one."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Any, TypeVar

DEATHS = 5
"""Chosen: how often in a row a process may die before a task is done; one that is killed for its memory dies again."""
WAITING = 4
"""Chosen: tasks that wait for each process, so that none is idle and a million tasks are not queued at once."""

_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class WorkersLost(RuntimeError):
    """Raised when workers die as fast as they are replaced, or the cluster is gone; what was done stays done."""


def cores() -> int:
    """Return the number of cores that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def unordered(
    function: Callable[[_Task], _Result], tasks: Sequence[_Task], processes: int, *, importable: bool = False
) -> Iterator[tuple[int, _Result]]:
    """Yield ``(place, function(tasks[place]))`` as soon as each is done; tasks start in their order.

    Parameters
    ----------
    function : callable
        Of a module, or anything where joblib is installed, whose processes need no guarded main module either.
    tasks : sequence
    processes : int
        How many tasks run at the same time, one BLAS thread each.
    importable : bool
        True if function and tasks are those of modules: the standard library's processes start faster, and do not run
        the main module, guarded or not.

    Yields
    ------
    (int, object)

    Raises
    ------
    WorkersLost
        If processes die as fast as they are replaced.
    """
    missing = dict(enumerate(tasks))
    deaths = 0
    while missing:
        pool = _pool(min(processes, len(missing)), importable)
        finished = False
        try:
            for place, result in _flowing(pool, function, list(missing.items()), WAITING * processes, importable):
                del missing[place]
                deaths = 0
                yield place, result
            finished = True
        except BrokenExecutor:
            deaths += 1
            if deaths > DEATHS:
                raise WorkersLost(f"{deaths} worker processes died one after the other") from None
        finally:
            _close(pool, kill=not finished)


def _flowing(
    pool: Any, function: Callable[[_Task], _Result], tasks: list[tuple[int, _Task]], most: int, importable: bool
) -> Iterator[tuple[int, _Result]]:
    """Submit tasks to the pool, a bounded number at once, and yield each result with its task's index."""
    waiting = iter(tasks)
    running: dict[Future[_Result], int] = {}
    while True:
        for place, task in waiting:
            with _interrupts_waiting(), _one_thread(), _main_module(hidden=importable):
                running[pool.submit(function, task)] = place
            if len(running) >= most:
                break
        if not running:
            return
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            yield running.pop(future), future.result()


def _pool(processes: int, importable: bool) -> Any:
    """Return joblib's processes where it is installed, which need no guarded main module; else the standard library's.

    Small products lose by threaded BLAS when the other cores are busy, so a process gets one BLAS thread.
    """
    if not importable and find_spec("joblib") is not None:
        from joblib.externals.loky import ProcessPoolExecutor

        return ProcessPoolExecutor(processes, initializer=_follow, initargs=(os.getpid(),), env=_ONE_THREAD)
    from concurrent.futures import ProcessPoolExecutor as Pool
    from multiprocessing import get_context

    return Pool(processes, get_context("spawn"), _follow, (os.getpid(),))


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


@contextmanager
def _interrupts_waiting() -> Iterator[None]:
    """Hold interrupts back until the end; a process that is started meanwhile never gets one."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Give one BLAS thread to a process that is started meanwhile; the caller's environment stays as it was."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _main_module(*, hidden: bool) -> Iterator[None]:
    """Hide the main module from a process that is started meanwhile, which would run it, if its function needs none."""
    main = sys.modules["__main__"]
    if hidden:
        sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
