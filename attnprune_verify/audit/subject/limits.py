"""Limits of a subject's process: memory, files, and the processor time that it takes, seen from outside."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

__all__ = ["LARGEST_FILE", "MEMORY", "descendants", "limit_resources", "processor_seconds"]

MEMORY = (8 << 30) + (os.cpu_count() or 1) * (64 << 20)  # bytes a subject may hold, with its threads' stacks
LARGEST_FILE = 1 << 30  # bytes of one file; chosen: as much as its temporary folder in memory holds
_CLOCK_OF_A_PROCESS = 2  # CPUCLOCK_SCHED: the id of the clock of process p is (~p << 3) | 2


def limit_resources() -> None:
    """Limit memory, so that a MemoryError comes before the machine has none left, the size of files, and core files."""
    try:
        import resource
    except ImportError:
        return
    largest = {resource.RLIMIT_DATA: MEMORY, resource.RLIMIT_FSIZE: LARGEST_FILE, resource.RLIMIT_CORE: 0}
    for name, most in largest.items():
        soft, hard = resource.getrlimit(name)
        least = min(limit for limit in (most, soft, hard) if limit != resource.RLIM_INFINITY)
        try:
            resource.setrlimit(name, (least, hard if name == resource.RLIMIT_DATA else least))
        except (OSError, ValueError):
            pass


def descendants(of: int) -> list[int]:
    """All processes below one, including dead ones not yet waited for; none where there is no ``/proc``."""
    found: list[int] = []
    open_ = [of]
    while open_:
        pid = open_.pop()
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for task in tasks:
            try:
                with open(f"/proc/{pid}/task/{task}/children", encoding="utf-8") as file:
                    children = [int(word) for word in file.read().split()]
            except (OSError, ValueError):
                continue
            found += children
            open_ += children
    return found


def processor_seconds(pids: Iterable[int]) -> dict[int, float]:
    """The processor time of each existing process, threads included, as the system counts it."""
    found = {}
    for pid in pids:
        try:
            found[pid] = time.clock_gettime((~pid << 3) | _CLOCK_OF_A_PROCESS)
        except (OSError, AttributeError, OverflowError):
            continue
    return found
