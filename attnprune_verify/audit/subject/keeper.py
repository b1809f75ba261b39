"""Stands between the audit and its subject: whatever ends first, everything the subject has started ends with it.

As a script ``keeper.py LIFE MOST PROGRAM ARGUMENT...`` it runs the program as its child; with the standard library
alone, so that it starts in a moment. It adopts what the subject's processes leave behind (Linux), ends all of them when
the subject is gone, when the pipe LIFE is closed (the audit has enough, or is dead itself), or when together they hold
more than MOST bytes of memory, shared memory included, and then ends as the subject did.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

__all__ = ["TOO_MUCH_MEMORY", "control", "keep"]

TOO_MUCH_MEMORY = 199  # the exit code
_MOMENT = 0.2
_SET_CHILD_SUBREAPER, _SET_PARENT_DEATH_SIGNAL, _SET_DUMPABLE = 36, 1, 4
_DROP_FROM_BOUNDING_SET, _RIGHTS = 24, (19, 21, 38)  # to trace, to administrate, to watch: other processes' memory
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def keep(life: int, most: int) -> None:
    """Fork. Returns in the child, which leads a session of its own; the parent stays here until all is over."""
    control(_SET_CHILD_SUBREAPER, 1)
    ended, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    child = os.fork()
    if child == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for channel in (ended, told, life):
            os.close(channel)
        os.setsid()
        control(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        for right in _RIGHTS:  # even of root; they are gone once the worker's program begins
            control(_DROP_FROM_BOUNDING_SET, right)
        return
    for channel in range(3, max(life, ended, told) + 1):  # the pipes to the audit are the subject's alone
        if channel not in (life, ended, told):
            _close(channel)
    status = _watch(child, life, ended, most)
    _end_all()
    _end_as(status)


def _watch(child: int, life: int, ended: int, most: int) -> int:
    """Until the child, the audit or the memory ends; the child's wait status."""
    while True:
        ready, _, _ = select.select([life, ended], [], [], _MOMENT)
        if life in ready:
            return 0
        if ended in ready:
            os.read(ended, 4096)
        for pid, status in _reaped():
            if pid == child:
                return status
        if sum(_memory(pid) for pid in _descendants()) > most:
            return TOO_MUCH_MEMORY << 8


def _reaped() -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        found.append((pid, status))


def _end_all() -> None:
    """Every descendant; again, as long as there are any, because the last ones may just have forked."""
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline:
        living = _descendants()
        for pid in living:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        _reaped()
        if not living:
            return
        time.sleep(0.001)


def _descendants() -> list[int]:
    """All processes below this one, dead ones that nobody has asked after included."""
    found: list[int] = []
    open_ = [os.getpid()]
    while open_:
        pid = open_.pop()
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for task in tasks:
            try:
                with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                    children = [int(word) for word in file.read().split()]
            except (OSError, ValueError):
                continue
            found += children
            open_ += children
    return found


def _memory(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


def _end_as(status: int) -> None:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        control(_SET_DUMPABLE, 0)  # one core file of a crash is enough
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1)


def control(option: int, value: int) -> int:
    """Linux's prctl; elsewhere nothing, and -1."""
    try:
        import ctypes

        return int(ctypes.CDLL(None).prctl(option, value, 0, 0, 0))
    except Exception:
        return -1


def _close(channel: int) -> None:
    try:
        os.close(channel)
    except OSError:
        pass


if __name__ == "__main__":
    keep(int(sys.argv[1]), int(sys.argv[2]))
    os.execv(sys.argv[3], sys.argv[3:])
