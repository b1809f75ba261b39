"""Work of other people's libraries in a process of its own, which may abort, never end, or take all memory."""

import faulthandler
import os
import signal
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from attnprune_verify.errors import InvalidInstance

_ROOM = 1 << 30  # bytes that the child may take beside what the caller asks for; chosen: twice a Python with torch
_SECONDS = 60  # processor time beside what the caller asks for; chosen: the largest tokenizers load in 2 s
_LONGEST = 200  # characters of a library's message, chosen: two lines of a terminal


def in_child(rule: str, work: Callable[[], bytes], *, memory: int = 0, seconds: int = 0) -> bytes:
    """Run `work` in a forked process with bounded memory and processor time, and return its result.

    The child prints nothing. Where processes cannot be forked, `work` runs in this one.

    Parameters
    ----------
    rule : str
        What the input must be; the message of a failure begins with it.
    work : callable
    memory, seconds : int
        Bytes, and seconds of processor time, that honest input needs beyond 1 GiB and a minute.

    Raises
    ------
    InvalidInstance
        If `work` raises, aborts, or needs more than that.

    Examples
    --------
    >>> in_child("a number must not be 0", lambda: bytes([1 // 0]))
    Traceback (most recent call last):
        ...
    attnprune_verify.errors.InvalidInstance: a number must not be 0; integer division or modulo by zero
    """
    if not hasattr(os, "fork"):
        try:
            return work()
        except BaseException as error:
            raise InvalidInstance(f"{rule}; {_message(error)}") from error
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads: the child uses none of the parent's
        pid = os.fork()
    if not pid:
        os.close(reading)
        _run(work, writing, memory + _ROOM, seconds + _SECONDS)
    os.close(writing)
    try:
        with open(reading, "rb") as pipe:
            answer = pipe.read()
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code == 0 and answer[:1] == b"+":
        return answer[1:]
    if answer[:1] == b"-":
        raise InvalidInstance(f"{rule}; {answer[1:].decode(errors='replace')}")
    if code == -signal.SIGXCPU:
        raise InvalidInstance(f"{rule}; it does not end within {seconds + _SECONDS} s of processor time")
    gigabytes = (memory + _ROOM) / (1 << 30)
    raise InvalidInstance(f"{rule}; its library was ended by signal {-code} within {gigabytes:.1f} GiB of memory")


def _run(work: Callable[[], bytes], writing: int, memory: int, seconds: int) -> None:
    """The child: its answer is "+" and the result, or "-" and the message of an error."""
    code = 1
    try:
        faulthandler.disable()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(quiet, stream)
        _limit(memory, seconds)
        answer, code = b"+" + work(), 0
    except BaseException as error:  # panics of Rust are no Exception
        answer = b"-" + _message(error).encode(errors="replace")
    finally:
        with suppress(BaseException), open(writing, "wb") as pipe:
            pipe.write(answer)
        os._exit(code)


def _message(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "it needs more memory than a model of this size does"
    return (" ".join(str(error).split()) or type(error).__name__)[:_LONGEST]


def _limit(memory: int, seconds: int) -> None:
    """Bound memory beyond what the parent holds, and processor time; no core file."""
    import resource

    with suppress(OSError, ValueError, IndexError):  # where the system does not say what is held, it limits nothing
        held = int(Path("/proc/self/statm").read_text("ascii").split()[5]) * os.sysconf("SC_PAGE_SIZE")
        _lower(resource.RLIMIT_DATA, held + memory)
    _lower(resource.RLIMIT_CPU, seconds)
    _lower(resource.RLIMIT_CORE, 0)


def _lower(limit: int, most: int) -> None:
    import resource

    soft, hard = resource.getrlimit(limit)
    least = min(bound for bound in (most, soft, hard) if bound != resource.RLIM_INFINITY)
    with suppress(OSError, ValueError):
        resource.setrlimit(limit, (least, hard))
