"""Stands between the audit and its subject: whatever ends first, everything the subject has started ends with it.

`main` with the arguments ``LIFE ORDERS TOLD PROGRAM ARGUMENT...`` runs the program as its child, confined as the file
ORDERS says, and writes to the pipe TOLD what is in force; with the standard library alone, so that it starts in a
moment. It adopts what the subject's processes leave behind (Linux), ends all of them when the subject is gone, when the
pipe LIFE is closed (the audit has enough, or is dead itself), or when together they hold too much memory, shared memory
included, removes the temporary folder, and then ends as the subject did.
"""

import json
import mmap
import os
import select
import shutil
import signal
import struct
import sys
import time
from typing import Any

from attnprune_verify.audit.subject import confinement, limits, namespaces, view

TOO_MUCH_MEMORY = 199  # the exit code
_OWN_COPIES = 2  # below the keeper: the first process of the namespaces, and the subject
_MOMENT = 0.2
_SET_CHILD_SUBREAPER, _SET_PARENT_DEATH_SIGNAL, _SET_DUMPABLE = 36, 1, 4  # of prctl, in linux/prctl.h
_CHANNELS = 1 << 12  # more than the audit has open
_STATUS = struct.Struct("<i")


def keep(life: int, orders: int, told: int) -> None:
    """Fork. Returns in the child, confined, in a session of its own; the parent stays here until all is over."""
    with open(orders, encoding="utf-8") as file:
        order = json.load(file)
    os.mkdir(order["folder"], 0o700)
    control(_SET_CHILD_SUBREAPER, 1)
    apart = order["confined"] and namespaces.enter()
    ended, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    last = mmap.mmap(-1, _STATUS.size)  # how the subject ended, where a process stands between
    child = os.fork()
    if child == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for channel in (ended, waking, life):
            os.close(channel)
        own = _first_of_all(order, last) if apart else None
        last.close()
        os.setsid()
        control(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        in_force = confinement.put_in_force(order, own)
        os.write(told, json.dumps(in_force).encode())  # far less than a pipe holds
        os.close(told)
        return
    for channel in range(3, max(life, ended, waking, told) + 1):  # the pipes to the audit are the subject's alone
        if channel not in (life, ended, waking):
            _close(channel)
    status = _watch(child, life, ended, last if apart else None)
    _end_all()
    shutil.rmtree(order["folder"], ignore_errors=True)
    _end_as(status)


def _first_of_all(order: dict[str, Any], last: mmap.mmap) -> list[str]:
    """Be the first process of the new namespaces, whose end is that of all others, and return in its child.

    The kernel spares a first process most signals; the subject is therefore the second.
    """
    control(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    own = view.mount_own(order["shown"], order["folder"])
    child = os.fork()
    if child == 0:
        return own
    os.closerange(3, _CHANNELS)
    while True:
        pid, status = os.wait()
        if pid == child:
            last[:] = _STATUS.pack(status)
            os._exit(0)


def _watch(child: int, life: int, ended: int, last: mmap.mmap | None) -> int:
    """Wait until the child, the audit or the memory ends; return the subject's wait status."""
    looked = 0.0
    inherited = limits.memory([os.getpid()])  # where the audit runs in a large process, each copy of it has as much
    while True:
        ready, _, _ = select.select([life, ended], [], [], _MOMENT)
        if life in ready:
            return 0
        if ended in ready:
            os.read(ended, 4096)
        for pid, status in _reaped():
            if pid == child:
                return int(_STATUS.unpack(last[:])[0]) if last is not None and status == 0 else status
        if time.monotonic() >= looked + _MOMENT:  # not after every child that has ended
            looked = time.monotonic()
            pids = limits.descendants(os.getpid())
            if limits.memory(pids) > limits.MEMORY + inherited * min(len(pids), _OWN_COPIES):
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
        living = limits.descendants(os.getpid())
        for pid in living:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        _reaped()
        if not living:
            return
        time.sleep(0.001)


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


def main() -> None:
    """Keep the program that the arguments name."""
    keep(*map(int, sys.argv[1:4]))
    os.execv(sys.argv[4], sys.argv[4:])
