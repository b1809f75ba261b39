"""Independent runs on several processes, one BLAS thread in each; in one process where joblib is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any, TypeVar

__all__ = ["can_run_in_parallel", "run_all"]

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


def can_run_in_parallel() -> bool:
    """Whether the extra `parallel` is installed."""
    return find_spec("joblib") is not None


def run_all(function: Callable[[_Task], _Result], tasks: Sequence[_Task], processes: int) -> Iterator[_Result]:
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
