"""Runs of an experiment: which are finished, which are missing, several at a time, each kept as soon as it is done."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.files import alone

__all__ = ["Journal", "Progress", "can_run_in_parallel", "complete", "count_finished"]

Progress = Callable[[int, int], object]
"""Called as ``progress(runs done, runs)``, first with those that were there already."""

_Task = TypeVar("_Task")


class Journal:
    """One JSON object per line, each with a `key`; a last line that was cut off is forgotten, any other damage refused.

    Parameters
    ----------
    path : path of the file; it need not exist, its folder must.

    Raises
    ------
    InvalidInstance
        If the file holds something else than finished runs.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.finished: dict[str, dict[str, Any]] = {}
        if path.exists():
            self._read()

    def _read(self) -> None:
        content = self.path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                run = json.loads(line)
                self.finished[run["key"]] = run
            except (ValueError, TypeError, KeyError) as error:
                raise InvalidInstance(f"{self.path} must hold finished runs; line {number} is none") from error
        if whole != content:  # the last write was interrupted
            with self.path.open("r+b") as file:
                file.truncate(len(whole))

    def add(self, run: Mapping[str, Any]) -> None:
        """Write one finished run down, and through to the disk."""
        line = json.dumps(run, allow_nan=False) + "\n"
        with self.path.open("ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
        self.finished[run["key"]] = dict(run)


def complete(
    runs: Mapping[str, _Task],
    perform: Callable[[_Task], Mapping[str, Any]],
    journal: Path | None = None,
    *,
    processes: int = 1,
    progress: Progress | None = None,
    cost: Callable[[_Task], float] = lambda task: 0.0,
) -> list[dict[str, Any]]:
    """The result of every run, in the order of `runs`; those that `journal` holds are not repeated.

    Parameters
    ----------
    runs : what to do, by key; equal keys mean equal results
    perform : does one; what it returns is JSON
    journal : path of the file that keeps finished runs, its folder made when missing; None keeps nothing
    processes : runs at a time; needs joblib beyond 1
    cost : dear runs go first, so that no process is left alone with one at the end

    Raises
    ------
    InvalidInstance
        If another process is at work with this journal, or the file holds something else than finished runs.

    Examples
    --------
    >>> complete({"3": 3, "4": 4}, lambda n: {"square": n * n})
    [{'key': '3', 'square': 9}, {'key': '4', 'square': 16}]
    """
    if journal is None:
        return _complete(runs, perform, None, processes, progress, cost)
    journal.parent.mkdir(parents=True, exist_ok=True)
    with alone(journal, journal.parent):
        return _complete(runs, perform, Journal(journal), processes, progress, cost)


def _complete(
    runs: Mapping[str, _Task],
    perform: Callable[[_Task], Mapping[str, Any]],
    kept: Journal | None,
    processes: int,
    progress: Progress | None,
    cost: Callable[[_Task], float],
) -> list[dict[str, Any]]:
    known = {} if kept is None else kept.finished
    finished = {key: known[key] for key in runs if key in known}
    missing = [(key, task) for key, task in runs.items() if key not in finished]
    missing.sort(key=lambda item: cost(item[1]), reverse=True)
    if progress is not None:
        progress(len(finished), len(runs))
    for result in _run_all(partial(_keyed, perform), missing, processes):
        if kept is not None:
            kept.add(result)
        finished[result["key"]] = result
        if progress is not None:
            progress(len(finished), len(runs))
    return [finished[key] for key in runs]


def count_finished(keys: Iterable[str], journal: Path) -> int:
    """How many of these runs the journal holds."""
    finished = Journal(journal).finished
    return sum(key in finished for key in keys)


def can_run_in_parallel() -> bool:
    """Whether the extra `parallel` is installed."""
    return find_spec("joblib") is not None


def _keyed(perform: Callable[[_Task], Mapping[str, Any]], item: tuple[str, _Task]) -> dict[str, Any]:
    key, task = item
    return {"key": key, **perform(task)}


def _run_all(
    function: Callable[[_Task], dict[str, Any]], tasks: Sequence[_Task], processes: int
) -> Iterable[dict[str, Any]]:
    """``function(task)`` for every task, each as soon as it is done, in any order.

    Small matrices lose by threaded BLAS when the other cores are busy, so workers get one BLAS thread each.
    """
    if processes <= 1 or len(tasks) <= 1 or not can_run_in_parallel():
        yield from map(function, tasks)
        return
    import joblib

    options: dict[str, Any] = {"return_as": "generator_unordered", "batch_size": 1}
    with joblib.parallel_config("loky", n_jobs=min(processes, len(tasks)), inner_max_num_threads=1):
        yield from joblib.Parallel(**options)(joblib.delayed(function)(task) for task in tasks)
