"""Start of a subject's process: a program of its own, or a copy of the audit's."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import attnprune_verify
from attnprune_verify.audit.subject import keeper, worker
from attnprune_verify.audit.subject.environment import environment
from attnprune_verify.audit.subject.target import Target

_HOME = str(Path(attnprune_verify.__file__).parents[1])
# The folder that the package is in is on the path for this import alone.
_PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from attnprune_verify.audit.subject.{0} import main; del sys.path[0]; main()"  # noqa: E501


class Channels(NamedTuple):
    """The subject's ends: requests and answers, what ends it, the orders of its keeper, and what is in force."""

    requests: int
    answers: int
    life: int
    orders: int
    told: int


class _Process(Protocol):
    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


def started(target: Target, channels: Channels, folder: str, *, confined: bool) -> _Process:
    """Start the subject's process below a keeper: forked for what is alive, else with nothing of the audit in it."""
    variables = environment(folder, confined=confined)
    if target.kind == "live":
        return _forked(target, channels, variables)
    requests, answers, *kept = map(str, channels)
    python = [sys.executable, "-P", "-c", _PROGRAM.format("worker"), _HOME, requests, answers]
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _PROGRAM.format("keeper"), _HOME, *kept, *python],
        pass_fds=channels,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=variables,
    )


def order_file(order: dict[str, Any]) -> int:
    """A file without a name that holds the order, to be read from its beginning."""
    file = memory_file(0, json.dumps(order).encode())
    os.lseek(file, 0, os.SEEK_SET)
    return file


def memory_file(size: int, content: bytes) -> int:
    """A file without a name, of at least this size and one byte, in memory where the platform has such files."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("attnprune")
    else:
        with tempfile.TemporaryFile() as unnamed:
            file = os.dup(unnamed.fileno())
    os.ftruncate(file, max(size, 1))
    rest = memoryview(content)
    while rest:
        rest = rest[os.pwrite(file, rest, len(content) - len(rest)) :]
    return file


class _Forked:
    """A forked process with the interface of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        deadline = time.monotonic() + (1e9 if timeout is None else timeout)
        while (code := self.poll()) is None:
            if time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired("fork", timeout or 0.0)
            time.sleep(0.002)
        return code


def _forked(target: Target, channels: Channels, variables: dict[str, str]) -> _Forked:
    """A copy of this process that serves the live object; nothing of it ever returns from here."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return _Forked(pid)
    try:
        os.setsid()
        _forget_everything_but(*channels)
        os.environ.clear()
        os.environ.update(variables)
        keeper.keep(channels.life, channels.orders, channels.told)
        worker.serve(channels.requests, channels.answers, target.object, target.place)
    finally:
        os._exit(0)


def _forget_everything_but(*kept: int) -> None:
    """Close every file, socket and stream of the audit in the subject's process, except `kept`."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for channel in (0, 1, 2):
        os.dup2(nowhere, channel)
    last = 2
    for channel in sorted(kept):
        os.closerange(last + 1, channel)
        last = channel
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX") if os.sysconf("SC_OPEN_MAX") < 1 << 20 else 1 << 20)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def kill_group(pid: int) -> None:
    """End a session, should its keeper be gone."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass


def signal_name(number: int) -> str:
    """SIGSEGV for 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
