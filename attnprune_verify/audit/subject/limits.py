"""Limits of a subject's process: memory, files, and the processor time that it takes, seen from outside."""

import os
import time
from collections.abc import Iterable

MEMORY = (8 << 30) + (os.cpu_count() or 1) * (64 << 20)  # bytes a subject may hold, with its threads' stacks
LARGEST_FILE = 1 << 30  # bytes of one file; chosen: as much as its temporary folder in memory holds
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_OF_CHILDREN = slice(13, 15)  # cutime and cstime in /proc/PID/stat, counted from the state
_BLOCK = 512  # bytes, of st_blocks
_CLOCK_OF_A_PROCESS = 2  # CPUCLOCK_SCHED: the id of the clock of process p is (~p << 3) | 2


def limit_resources() -> None:
    """Limit memory, so that a MemoryError comes before the machine has none left, the size of files, and core files."""
    try:
        import resource
    except ImportError:
        return
    largest = {
        resource.RLIMIT_DATA: MEMORY + _inherited(),
        resource.RLIMIT_FSIZE: LARGEST_FILE,
        resource.RLIMIT_CORE: 0,
    }
    for name, most in largest.items():
        soft, hard = resource.getrlimit(name)
        least = min(limit for limit in (most, soft, hard) if limit != resource.RLIM_INFINITY)
        try:
            resource.setrlimit(name, (least, hard if name == resource.RLIMIT_DATA else least))
        except (OSError, ValueError):
            pass


def _inherited() -> int:
    """Bytes of data that this process has from the one it was copied from."""
    try:
        with open("/proc/self/statm", encoding="utf-8") as file:
            return int(file.read().split()[5]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


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
    """The processor time of each existing process, threads and ended children that were waited for included."""
    found = {}
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                ticks = file.read().rpartition(")")[2].split()[_OF_CHILDREN]
            found[pid] = time.clock_gettime((~pid << 3) | _CLOCK_OF_A_PROCESS) + sum(map(int, ticks)) / _TICKS
        except (OSError, AttributeError, OverflowError, ValueError):
            continue
    return found


def memory(pids: Iterable[int]) -> int:
    """Bytes that processes hold: what they have mapped, and files without a name, which may be mapped by none."""
    mapped, unnamed = 0, {}
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm", encoding="utf-8") as file:
                mapped += int(file.read().split()[1]) * _PAGE
            for entry in os.scandir(f"/proc/{pid}/fd"):
                if os.readlink(entry.path).startswith("/memfd:"):
                    found = os.stat(entry.path)
                    unnamed[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK
        except (OSError, ValueError, IndexError):
            continue
    return mapped + sum(unnamed.values())
