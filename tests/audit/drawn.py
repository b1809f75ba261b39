"""Shares of a long list that one run takes: CI draws them by the commit, everyone else takes all."""

import os
from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


def drawn(every: Sequence[T], share: float, name: str) -> list[T]:
    """Return a share of the list, drawn by ``ATTNPRUNE_DRAW`` and the name; all of it where that is not set.

    Every entry is drawn sooner or later, and nobody who commits chooses which.
    """
    seed = os.environ.get("ATTNPRUNE_DRAW")
    if not seed:
        return list(every)
    chosen = Random(f"{seed} {name}").sample(range(len(every)), max(1, round(share * len(every))))
    return [every[place] for place in sorted(chosen)]
