"""The line to a subject's process: a socket and a pipe with deadlines, and a pipe whose closing ends the process."""

import fcntl
import io
import json
import mmap
import os
import secrets
import select
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnprune_verify.audit.subject import keeper, limits, reach, start, wire, worker
from attnprune_verify.audit.subject.target import Target

_HEADER = 1 << 16  # bytes an answer may have beyond its arrays: names, shapes, a message, a list of parameters
_PATIENCE = 10.0  # seconds to wait for a process that has been told to end
_MOMENT = 0.25  # seconds between two looks at a subject that has not answered
_SET_DUMPABLE = 4  # of prctl
_SET_PIPE_SIZE, _GET_PIPE_SIZE = 1031, 1032  # of fcntl
_WIDE, _NARROW = 1 << 20, 1 << 14  # bytes: what Linux lets a user have, and what any system has
_open_lines: set[int] = set()


@dataclass(frozen=True)
class Allowance:
    """The time that an exchange may take.

    Attributes
    ----------
    processor : float
        Seconds of processor time of the subject's processes.
    wall : float
        Seconds until an answer, whatever they do.
    """

    processor: float
    wall: float


class LineBroken(Exception):
    """The process hung, died or wrote out of turn; the line is closed."""

    def __init__(self, reason: str, *, hung: bool = False, out_of_turn: bool = False) -> None:
        super().__init__(reason)
        self.hung = hung
        self.out_of_turn = out_of_turn


class Line:
    """A running subject: a keeper, the worker below it, and the channels.

    Attributes
    ----------
    confinement : dict
        What is in force, as it stands in the result.
    told
        Whether the call that was asked for last has ended; of the first request, the import.
    """

    def __init__(self, target: Target, path: list[str], *, confined: bool) -> None:
        self._socket, requests = socket.socketpair()
        self._socket.setblocking(False)
        self._rest = b""
        self._in, answers = os.pipe()
        self._at_once = _widened(self._in) - mmap.PAGESIZE  # the first of its pages begins with ENDED
        life, self._life = os.pipe()
        in_force, told = os.pipe()
        name = f"attnprune-audit-{secrets.token_hex(8)}"  # made and removed by the keeper, which outlives the audit
        self._folder = os.path.join(os.path.realpath(tempfile.gettempdir()), name)
        orders = start.order_file(reach.plan(target, path, self._folder, confined=confined))
        channels = start.Channels(requests.fileno(), answers, life, orders, told)
        try:
            self._process = start.started(target, channels, self._folder, confined=confined)
        finally:
            requests.close()
            for channel in (answers, life, orders, told):
                os.close(channel)
        _protect_audit(self._process.pid)
        _open_lines.add(id(self))
        keeper.control(_SET_DUMPABLE, 0)  # /proc/PID/mem, fd and environ of the audit are closed while a subject runs
        with open(in_force, "rb") as file:  # ends when the subject's process begins, or is dead
            said = file.read()
        self.confinement: dict[str, Any] = json.loads(said) if said else {}
        self._memory: io.FileIO | None = None
        self._worker = limits.descendants(self._process.pid)[-1:]  # the only one, or the only one of the first one

    def exchange(
        self, request: dict[str, Any], largest: int, allowance: Allowance
    ) -> tuple[dict[str, Any], list[int], float]:
        """Send a request; return its answer, of at most `largest` bytes of arrays, the arrays changed, and the seconds.

        Raises
        ------
        LineBroken
        """
        header, content, spans = wire.placed({**request, "largest": largest})
        memory, told = start.memory_file(0, content), min(len(content), self._at_once)
        self._begin(allowance)
        try:
            self._expect_silence()
            self._send(worker.HEADER.pack(len(header), len(content), told) + header, memory)
            end = self._read(len(worker.ENDED) + told)
            if not end.startswith(worker.ENDED):
                raise ValueError("out of turn")
            self.told, seconds = True, time.monotonic() - self._began
            returned, after = end[len(worker.ENDED) :], os.pread(memory, len(content), 0)
            self._expect_silence()
            ticket = secrets.token_bytes(worker.TICKET)
            self._send(ticket)
            reply = self._reply(ticket, largest)
        except (OSError, EOFError):
            reason = self._end()
            raise LineBroken(reason) from None
        except LineBroken:
            self.close()
            raise
        except Exception:  # the subject may have written anything into the pipe
            self.close()
            raise LineBroken("broke the line to the audit: wrote out of turn", out_of_turn=True) from None
        finally:
            os.close(memory)
        return reply, wire.changed(spans, content[:told], returned) + wire.changed(spans, content, after), seconds

    def memory(self, address: int, size: int) -> bytes | None:
        """Read from an address of the subject's process; None where that cannot be read."""
        try:
            if self._memory is None:
                self._memory = open(f"/proc/{self._worker[0]}/mem", "rb", buffering=0)
            return os.pread(self._memory.fileno(), size, address)
        except (OSError, IndexError, OverflowError):
            return None

    @property
    def pid(self) -> int:
        """The keeper's number; the subject's processes are below it."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True until the process is ended."""
        return self._life >= 0

    def close(self) -> None:
        """End the process and whatever it started. The keeper does it; should it be gone, at least its session."""
        if self._life < 0:
            return
        self._socket.close()
        if self._memory is not None:
            self._memory.close()
        for channel in (self._life, self._in):
            os.close(channel)
        self._life = -1
        _open_lines.discard(id(self))
        if not _open_lines:
            keeper.control(_SET_DUMPABLE, 1)
        try:
            self._wait()
        except subprocess.TimeoutExpired:
            start.kill_group(self._process.pid)
            self._process.wait()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(self) -> int:
        """Wait for the end of the process, without polling where Linux allows it; return its exit code."""
        if hasattr(os, "pidfd_open") and self._process.poll() is None:
            watched = os.pidfd_open(self._process.pid)
            select.select([watched], [], [], _PATIENCE)
            os.close(watched)
        return self._process.wait(timeout=_PATIENCE)

    def _reply(self, ticket: bytes, largest: int) -> dict[str, Any]:
        if self._read(len(ticket)) != ticket:
            raise ValueError("not the answer to this request")
        size = int.from_bytes(self._read(8), "little")
        if size > largest + _HEADER:
            raise LineBroken(f"answered with {float(size):.2e} bytes", out_of_turn=True)
        reply = wire.decode(self._read(size))
        if not isinstance(reply, dict):
            raise TypeError("no answer")
        return reply

    def _expect_silence(self) -> None:
        """Raise if there is something to read now: the other end is closed, or something was written out of turn."""
        if self._rest or select.select([self._in], [], [], 0)[0]:
            raise EOFError if not self._rest and not os.read(self._in, 1) else ValueError("out of turn")

    def _send(self, data: bytes, file: int | None = None) -> None:
        rest, files = memoryview(data), [] if file is None else [file]
        while rest:
            try:
                sent = socket.send_fds(self._socket, [rest], files) if files else self._socket.send(rest)
                rest, files = rest[sent:], []
            except BlockingIOError:
                self._ready(self._socket.fileno(), to_write=True)

    def _read(self, size: int) -> bytes:
        """Read a number of bytes; bytes that arrive beyond them are kept for the next call."""
        parts, had = [self._rest], len(self._rest)
        while had < size:
            if self._ready(self._in):
                parts.append(os.read(self._in, 1 << 20))
                if not parts[-1]:
                    raise EOFError
                had += len(parts[-1])
        whole = b"".join(parts)
        self._rest = whole[size:]
        return whole[:size]

    def _begin(self, allowance: Allowance) -> None:
        self._allowance, self._began, self.told = allowance, time.monotonic(), False
        self._used: dict[int, float] = {}

    def _ready(self, channel: int, *, to_write: bool = False) -> bool:
        """Wait a moment for a channel; polled, because a child of the subject may keep it open after its death."""
        rest = self._began + self._allowance.wall - time.monotonic()
        waiting: tuple[list[int], list[int]] = ([], [channel]) if to_write else ([channel], [])
        if any(select.select(*waiting, [], min(_MOMENT, max(0.0, rest)))):
            return True
        if self._process.poll() is not None:
            raise EOFError
        if rest <= 0:
            raise LineBroken(f"did not end within {self._allowance.wall:g} s", hung=True)
        if self._allowance.processor < self._allowance.wall:
            now = limits.processor_seconds([self._process.pid, *limits.descendants(self._process.pid)])
            self._used = self._used or now  # from the first moment on: what ends leaves its time to who waited for it
            if sum(now.values()) - sum(self._used.values()) >= self._allowance.processor:
                said = f"did not end within {self._allowance.processor:g} s of processor time"
                raise LineBroken(said, hung=True)
        return False

    def _end(self) -> str:
        """Wait for a process that has ended, and describe its end."""
        try:
            code: int | None = self._wait()
        except subprocess.TimeoutExpired:
            code = None
        self.close()
        if code is not None and code < 0:
            return f"killed its interpreter with {start.signal_name(-code)}"
        if code == keeper.TOO_MUCH_MEMORY:
            return f"took more than {limits.MEMORY / 2**30:.1f} GiB of memory, with what it shares"
        return f"ended its interpreter (exit code {code})"


def _widened(pipe: int) -> int:
    """Widen a pipe as far as a user may; return the number of bytes it holds."""
    try:
        fcntl.fcntl(pipe, _SET_PIPE_SIZE, _WIDE)
        return fcntl.fcntl(pipe, _GET_PIPE_SIZE)
    except OSError:
        return _NARROW


def _protect_audit(pid: int) -> None:
    """Make the system end the subject, not the audit, when memory runs out."""
    try:
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
    except OSError:
        pass
