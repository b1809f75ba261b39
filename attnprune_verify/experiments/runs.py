"""Doing the missing runs of an experiment, several at a time; each is kept as soon as it is done."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from attnprune_verify.experiments.stored.record import code, kernel
from attnprune_verify.files import alone
from attnprune_verify.state.digests import of_document, versions
from attnprune_verify.state.journal import Journal
from attnprune_verify.state.processes import unordered

Row = dict[str, Any]
"""One row of a table of measurements, or the result of a run: values by name."""

Progress = Callable[[int, int], object]
"""Called as ``progress(runs done, runs)``, first with the runs that the journal held already."""

_Task = TypeVar("_Task")
_LIBRARIES = ("numpy", "scipy", "safetensors", "tokenizers", "threadpoolctl", "torch", "transformers")


def complete(
    runs: Mapping[str, _Task],
    perform: Callable[[_Task], Mapping[str, Any]],
    journal: Path | None = None,
    *,
    processes: int = 1,
    progress: Progress | None = None,
    cost: Callable[[_Task], float] = lambda task: 0.0,
) -> list[Row]:
    """The result of every run, in the order of `runs`; those that `journal` holds are not repeated.

    Parameters
    ----------
    runs : mapping
        The runs by key; equal keys mean equal results.
    perform : callable
        Does one run and returns a mapping that JSON can hold.
    journal : Path, optional
        File that keeps finished runs, its folder made if missing; None keeps nothing. Runs of another code or of other
        libraries are repeated.
    processes : int
        Runs done at the same time; needs joblib beyond 1.
    progress : callable, optional
        Called as ``progress(runs done, runs)``.
    cost : callable
        Estimated cost of a run; the most costly runs start first, so that none of them is alone at the end.

    Raises
    ------
    InvalidInstance
        If another process uses this journal, or the file holds anything else than finished runs.

    Examples
    --------
    >>> complete({"3": 3, "4": 4}, lambda n: {"square": n * n})
    [{'key': '3', 'square': 9}, {'key': '4', 'square': 16}]
    """
    if journal is None:
        return _complete(runs, perform, None, processes, progress, cost)
    with alone(journal):
        return _complete(runs, perform, Journal(journal, computing()), processes, progress, cost)


def _complete(
    runs: Mapping[str, _Task],
    perform: Callable[[_Task], Mapping[str, Any]],
    kept: Journal | None,
    processes: int,
    progress: Progress | None,
    cost: Callable[[_Task], float],
) -> list[Row]:
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


@cache
def computing() -> str:
    """A digest of the code, the libraries and the rounding that a run's numbers come from."""
    return of_document([code(), versions(_LIBRARIES), kernel()])[:16]


def can_run_in_parallel() -> bool:
    """Return True where the extra `parallel` is installed."""
    return find_spec("joblib") is not None


def _keyed(perform: Callable[[_Task], Mapping[str, Any]], item: tuple[str, _Task]) -> Row:
    key, task = item
    return {"key": key, **perform(task)}


def _run_all(function: Callable[[_Task], Row], tasks: Sequence[_Task], processes: int) -> Iterator[Row]:
    """Yield ``function(task)`` for every task, each as soon as it is done, in any order."""
    if processes <= 1 or len(tasks) <= 1 or not can_run_in_parallel():
        yield from map(function, tasks)
        return
    yield from (result for _, result in unordered(function, tasks, processes))
