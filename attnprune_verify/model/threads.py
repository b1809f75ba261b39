"""Python threads over parts of one large evaluation, each with one BLAS thread.

A threaded BLAS waits for its slowest thread in every product; on a busy machine waiting can cost a hundred times the
product. Independent parts do not wait. The parts depend on the problem alone and their results are combined in one
order, so the number of threads changes no bit of the result.

The number of threads is the value of the environment variable ``ATTNPRUNE_THREADS``; without it, the number that BLAS
would use (``OPENBLAS_NUM_THREADS`` and its relatives). Problems below `WORTH` operations run in the calling thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

import numpy as np

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.softmax import quiet

WORTH = 1e9
"""Operations from which on a problem is worth several threads."""
_SLAB = 512  # chosen: rows of a thread's least share

_T = TypeVar("_T")
_S = TypeVar("_S")


class Crew:
    """Applies a function to parts, in one thread or several, and yields the results in the order of the parts."""

    def __init__(self, pool: ThreadPoolExecutor | None = None, *, split: bool = False) -> None:
        self._pool, self.split = pool, split

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing: there is no thread to end."""

    def map(self, function: Callable[[_S], _T], parts: Iterable[_S]) -> Iterable[_T]:
        """`function` of each part, in order."""
        if self._pool is None:
            return map(function, parts)

        def quietly(part: _S) -> _T:  # what NumPy is told to ignore, it is told in each thread
            with quiet():
                return function(part)

        return self._pool.map(quietly, parts)

    def product(self, A: Array, B: Array, out: Array) -> Array:
        """A @ B into `out`; in a large problem slab by slab of A's rows, whoever computes them."""
        rows = len(A)
        if not self.split or rows < 2 * _SLAB:
            return np.matmul(A, B, out=out)
        edges = [*range(0, rows - _SLAB + 1, _SLAB), rows]
        slabs = [slice(start, stop) for start, stop in zip(edges, edges[1:], strict=False)]
        for _ in self.map(lambda slab: np.matmul(A[slab], B, out=out[slab]), slabs):
            pass
        return out


alone = Crew()
"""The crew of the calling thread alone; it computes products in one piece."""


class HiredCrew(Crew):
    """Threads for one evaluation, while BLAS is held to one thread each."""

    def __init__(self) -> None:
        self._changed = [(library, library.num_threads) for library in _blas() if library.num_threads != 1]
        asked = os.environ.get("ATTNPRUNE_THREADS", "").strip()
        threads = _as_threads(asked) if asked else max((count for _, count in self._changed), default=1)
        super().__init__(ThreadPoolExecutor(threads) if threads > 1 else None, split=True)

    def __enter__(self) -> Crew:
        for library, _ in self._changed:
            library.set_num_threads(1)
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        for library, count in self._changed:
            library.set_num_threads(count)


def crew_for(work: float) -> Crew:
    """Return the crew that computes a problem of `work` operations; to be used in a `with` statement."""
    return alone if work < WORTH else HiredCrew()


def _as_threads(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) >= 1):
        raise InvalidInstance(f"ATTNPRUNE_THREADS must be an integer >= 1; got {text!r:.60}")
    return int(text)


@cache
def _blas() -> Sequence[Any]:
    """The BLAS libraries of this process: finding them takes longer than a small evaluation."""
    from threadpoolctl import ThreadpoolController

    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)
