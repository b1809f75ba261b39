"""The line to a subject's process: two pipes with deadlines, and a third whose closing ends the process."""

from __future__ import annotations

import os
import secrets
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from attnprune_verify.audit.subject import keeper, worker
from attnprune_verify.audit.subject.target import Target

__all__ = ["Line", "LineBroken"]

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_HEADER = 1 << 20  # bytes an answer may have beyond its arrays
_PATIENCE = 10.0  # seconds to wait for a process that has been told to end
_SET_DUMPABLE = 4
_open_lines: set[int] = set()


class LineBroken(Exception):
    """The process hung, died or wrote nonsense; the line is closed."""

    def __init__(self, reason: str, *, hung: bool = False, nonsense: bool = False) -> None:
        super().__init__(reason)
        self.hung = hung
        self.nonsense = nonsense


class _Process(Protocol):
    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


class Line:
    """A running subject: a keeper, the worker below it, and the pipes."""

    def __init__(self, target: Target) -> None:
        requests, self._out = os.pipe()
        self._in, answers = os.pipe()
        life, self._life = os.pipe()
        inherited = (requests, answers, life)
        try:
            self._process = _forked(target, *inherited) if target.kind == "live" else _started(*inherited)
        finally:
            for channel in inherited:
                os.close(channel)
        _protect_audit(self._process.pid)
        _open_lines.add(id(self))
        keeper.control(_SET_DUMPABLE, 0)  # /proc/PID/mem, fd and environ of the audit are closed while a subject runs

    def exchange(self, request: dict[str, Any], seconds: float, largest: int) -> dict[str, Any]:
        """Send a request and wait for its answer, of at most `largest` bytes of arrays.

        Raises
        ------
        LineBroken
        """
        deadline = time.monotonic() + seconds
        number = secrets.token_hex(8)
        try:
            self._write(worker.encode({**request, "number": number, "largest": largest}), deadline, seconds)
            (size,) = np.frombuffer(self._read(8, deadline, seconds), dtype="<u8")
            if size > largest + _HEADER:
                raise LineBroken(f"answered with {float(size):.2e} bytes", nonsense=True)
            reply = worker.decode(self._read(int(size), deadline, seconds))
            if not isinstance(reply, dict) or reply.get("number") != number:
                raise ValueError("not the answer to this request")
            return reply
        except (OSError, EOFError):
            reason = self._end()
            raise LineBroken(reason) from None
        except LineBroken:
            self.close()
            raise
        except Exception:  # the subject may have written anything into the pipe
            self.close()
            raise LineBroken("broke the line to the audit", nonsense=True) from None

    def close(self) -> None:
        """End the process and whatever it started. The keeper does it; should it be gone, at least its session."""
        if self._life < 0:
            return
        for channel in (self._life, self._in, self._out):
            os.close(channel)
        self._life = -1
        _open_lines.discard(id(self))
        if not _open_lines:
            keeper.control(_SET_DUMPABLE, 1)
        try:
            self._process.wait(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            _kill_group(self._process.pid)
            self._process.wait()

    def _write(self, data: bytes, deadline: float, seconds: float) -> None:
        rest = memoryview(data)
        while rest:
            if self._ready(self._out, deadline, seconds, to_write=True):
                rest = rest[os.write(self._out, rest[: select.PIPE_BUF]) :]  # what fits without waiting

    def _read(self, size: int, deadline: float, seconds: float) -> bytes:
        parts: list[bytes] = []
        while size:
            if self._ready(self._in, deadline, seconds):
                part = os.read(self._in, min(size, 1 << 20))
                if not part:
                    raise EOFError
                parts.append(part)
                size -= len(part)
        return b"".join(parts)

    def _ready(self, pipe: int, deadline: float, seconds: float, *, to_write: bool = False) -> bool:
        """Wait a moment for the pipe; polled, because a child of the subject may keep it open after its death."""
        moment = min(0.5, max(0.0, deadline - time.monotonic()))
        waiting: tuple[list[int], list[int]] = ([], [pipe]) if to_write else ([pipe], [])
        if any(select.select(*waiting, [], moment)):
            return True
        if self._process.poll() is not None:
            raise EOFError
        if time.monotonic() >= deadline:
            raise LineBroken(f"did not end within {seconds:g} s", hung=True)
        return False

    def _end(self) -> str:
        """Wait for a process that has gone, and say how."""
        try:
            code: int | None = self._process.wait(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            code = None
        self.close()
        if code is not None and code < 0:
            return f"killed its interpreter with {_signal_name(-code)}"
        if code == keeper.TOO_MUCH_MEMORY:
            return f"took more than {worker.MEMORY / 2**30:.1f} GiB of memory, with what it shares"
        return f"ended its interpreter (exit code {code})"


def _started(requests: int, answers: int, life: int) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **dict.fromkeys(_THREADS, "1"), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONWARNINGS", None)  # the subject is not judged by the strictness of our own runs
    program = [sys.executable, "-P", worker.__file__, str(requests), str(answers)]
    return subprocess.Popen(
        [sys.executable, "-I", "-S", keeper.__file__, str(life), str(worker.MEMORY), *program],
        pass_fds=(requests, answers, life),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=environment,
    )


class _Forked:
    """A forked process, asked after as `subprocess.Popen` is."""

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


def _forked(target: Target, requests: int, answers: int, life: int) -> _Forked:
    """A copy of this process that serves the live object; nothing of it ever returns from here."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return _Forked(pid)
    try:
        os.setsid()
        _forget_everything_but(requests, answers, life)
        keeper.keep(life, worker.MEMORY)
        worker.limit_memory()
        worker.serve(requests, answers, target.object, target.place)
    finally:
        os._exit(0)


def _forget_everything_but(*kept: int) -> None:
    """No file, socket or stream of the audit is the subject's."""
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


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _protect_audit(pid: int) -> None:
    """When memory runs out the system shall end the subject, not the audit."""
    try:
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
    except OSError:
        pass
