"""The audited functions, called in a process of their own."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit import worker
from attnprune_verify.audit.target import Target
from attnprune_verify.errors import InvalidInstance

__all__ = ["Answer", "NoAnswer", "Subject", "SubjectLost"]

SECONDS_PER_CALL = 30.0
_LARGEST_ANSWER = 1 << 28
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Answer:
    """What a call returned: its numbers, which arguments it changed, and how long it took."""

    parts: tuple[NDArray[Any], ...]
    changed: tuple[int, ...]
    seconds: float


class NoAnswer(Exception):
    """A call without numbers: it raised, returned something unreadable, hung, or took the interpreter with it."""

    def __init__(self, reason: str, *, raised: bool = False, unreadable: bool = False) -> None:
        super().__init__(reason)
        self.raised = raised
        self.unreadable = unreadable


class SubjectLost(NoAnswer):
    """The process hung or died; it has been replaced."""

    def __init__(self, reason: str, *, hung: bool) -> None:
        super().__init__(reason)
        self.hung = hung


@dataclass
class Subject:
    """Someone's implementation behind a pipe; use as a context manager.

    Attributes
    ----------
    functions : the names it has, and how many positional arguments each takes (None: unknown)
    broken : names that are there but cannot be had, and why
    """

    target: Target
    names: tuple[str, ...]
    seconds_per_call: float = SECONDS_PER_CALL
    functions: dict[str, int | None] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    version: str | None = None
    file: str | None = None
    calls: int = 0
    _process: subprocess.Popen[bytes] | None = None
    _pipes: tuple[int, int] = (-1, -1)

    def __enter__(self) -> Subject:
        try:
            self._start()
        except SubjectLost as lost:
            self.close()
            raise InvalidInstance(f"TARGET {self.target.spec!r} must be importable; its import {lost}") from lost
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call(
        self,
        function: str,
        arguments: list[Any],
        keywords: dict[str, Any] | None = None,
        *,
        parts: int = 1,
        attributes: tuple[str, ...] = (),
    ) -> Answer:
        """Call a function with fresh copies of the arguments.

        Raises
        ------
        NoAnswer
            If the call raised or returned no numbers.
        SubjectLost
            If it hung for more than `seconds_per_call` or its process died.
        """
        if self._process is None:
            self._start()
        self.calls += 1
        request = {
            "function": function,
            "arguments": arguments,
            "keywords": keywords or {},
            "parts": parts,
            "attributes": list(attributes),
        }
        reply = self._exchange(request)
        if reply.get("status") == "returned":
            try:
                arrays = tuple(_checked(part) for part in reply["parts"])
                return Answer(arrays, tuple(reply["changed"]), float(reply["seconds"]))
            except Exception:
                raise self._broken_line() from None
        if reply.get("status") == "unreadable":
            raise NoAnswer(f"returned something unreadable: {reply.get('error')}", unreadable=True)
        raise NoAnswer(f"raised {reply.get('error')}", raised=True)

    def close(self) -> None:
        """End the process, and whatever it started."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in self._pipes:
            os.close(pipe)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    def _start(self) -> None:
        request_in, request_out = os.pipe()
        answer_in, answer_out = os.pipe()
        environment = {**os.environ, **dict.fromkeys(_THREADS, "1"), "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("PYTHONWARNINGS", None)  # the subject is not judged by the strictness of our own runs
        self._process = subprocess.Popen(
            [sys.executable, "-P", worker.__file__, str(request_in), str(answer_out)],
            pass_fds=(request_in, answer_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=environment,
        )
        os.close(request_in)
        os.close(answer_out)
        self._pipes = (request_out, answer_in)
        _protect_audit(self._process.pid)
        path = sys.path if self.target.kind == "file" else [str(Path.cwd()), *sys.path]
        loaded = self._exchange(
            {"kind": self.target.kind, "place": self.target.place, "names": list(self.names), "path": path}
        )
        if loaded.get("status") != "loaded":
            self.close()
            raise InvalidInstance(f"TARGET {self.target.spec!r} must be importable; got {loaded.get('error')}")
        self.functions, self.broken = loaded["functions"], loaded["broken"]
        self.version, self.file = loaded["version"], loaded["file"]

    def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        deadline = time.monotonic() + self.seconds_per_call
        try:
            self._write(worker.encode(request), deadline)
            (size,) = np.frombuffer(self._read(8, deadline), dtype="<u8")
            if size > _LARGEST_ANSWER:
                raise SubjectLost(f"returned {int(size):.2e} bytes, more than {_LARGEST_ANSWER:.2e}", hung=False)
            reply = worker.decode(self._read(int(size), deadline))
            if not isinstance(reply, dict):
                raise ValueError("no mapping")
            return reply
        except (OSError, EOFError):
            raise self._lost() from None
        except SubjectLost:
            self.close()
            raise
        except Exception:  # the subject may have written anything into the pipe
            raise self._broken_line() from None

    def _broken_line(self) -> SubjectLost:
        self.close()
        return SubjectLost("broke the line to the audit", hung=False)

    def _write(self, data: bytes, deadline: float) -> None:
        rest = memoryview(data)
        while rest:
            if self._ready(self._pipes[0], deadline, to_write=True):
                rest = rest[os.write(self._pipes[0], rest[: select.PIPE_BUF]) :]  # what fits without waiting

    def _read(self, size: int, deadline: float) -> bytes:
        parts: list[bytes] = []
        while size:
            if self._ready(self._pipes[1], deadline):
                part = os.read(self._pipes[1], min(size, 1 << 20))
                if not part:
                    raise EOFError
                parts.append(part)
                size -= len(part)
        return b"".join(parts)

    def _ready(self, pipe: int, deadline: float, *, to_write: bool = False) -> bool:
        """Wait a moment for the pipe; polled, because a child of the subject may keep it open after its death."""
        moment = min(0.5, max(0.0, deadline - time.monotonic()))
        waiting: tuple[list[int], list[int]] = ([], [pipe]) if to_write else ([pipe], [])
        if any(select.select(*waiting, [], moment)):
            return True
        if self._process is not None and self._process.poll() is not None:
            raise EOFError
        if time.monotonic() >= deadline:
            raise SubjectLost(f"did not end within {self.seconds_per_call:g} s", hung=True)
        return False

    def _lost(self) -> SubjectLost:
        process = self._process
        code: int | None = None
        if process is not None:
            try:
                code = process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                code = None
        self.close()
        if code is not None and code < 0:
            return SubjectLost(f"killed its interpreter with {_signal_name(-code)}", hung=False)
        return SubjectLost(f"ended its interpreter (exit code {code})", hung=False)


def _checked(part: object) -> NDArray[Any]:
    if not isinstance(part, np.ndarray):
        raise TypeError("no array")
    return part


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
