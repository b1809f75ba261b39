"""The process in which the audited code runs; nothing it does there can reach the audit.

Started by `attnprune_verify.audit.subject.line` with a socket and a pipe. It takes requests from one and answers on the
other; standard output and error are somebody else's. It uses only the standard library and NumPy, and takes its own
references to what it needs before the subject is imported (a subject may replace `numpy.asarray`).

A request is a length (8 bytes) and a header, and brings the file of the memory in which its arrays lie. When the call
has ended the worker writes `ENDED` and that memory, in one call of the system: what is in the pipe nobody can change.
The audit looks at the memory itself as well, and only then sends a ticket, which nobody could know before, and which
the answer must carry. Whatever else is written into the pipe, and whenever, ends the run.
"""

import functools
import mmap
import os
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

from attnprune_verify.audit.subject import wire
from attnprune_verify.audit.subject.functions import Functions, line_of, load, version_of

ENDED = b"ended   "
TICKET = 16  # bytes
HEADER = struct.Struct("<QQQ")  # how long the JSON is, how large the memory, how much of it a pipe holds at once
_read, _write, _write_all, _encode, _taken = os.read, os.write, os.writev, wire.encode, wire.taken
_recv_fds, _close, _map = socket.recv_fds, os.close, mmap.mmap
_partial = functools.partial


class _Ends:
    """The subject's ends of the line."""

    def __init__(self, inbox: int, outbox: int) -> None:
        self._socket, self._inbox, self._outbox = socket.socket(fileno=inbox), inbox, outbox
        self.ticket = _partial(_read, inbox, TICKET)

    def request(self) -> tuple[Any, Callable[[], object]]:
        """Receive a request; return it, and the step that follows its call."""
        lengths, files, _, _ = _recv_fds(self._socket, HEADER.size, 1)
        if not lengths:
            raise EOFError
        size, room, told = HEADER.unpack(lengths)
        header = self._exactly(size)
        memory = _map(files[0], max(room, 1))
        _close(files[0])
        return _taken(header, memory), _partial(_write_all, self._outbox, (ENDED, memoryview(memory)[:told]))

    def answer(self, ticket: bytes, reply: dict[str, Any]) -> None:
        """Send the answer to the request that the ticket belongs to."""
        data = memoryview(ticket + _encode(reply))
        while data:
            data = data[_write(self._outbox, data) :]

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            part = _read(self._inbox, min(size, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def serve(inbox: int, outbox: int, holder: Any = None, alias: str = "") -> None:
    """Answer requests until there are no more, for a live object or for the import named by the first request."""
    ends = _Ends(inbox, outbox)
    first, tell = ends.request()
    functions: Functions | None = None
    description: dict[str, Any] = {"status": "raised"}
    module = None
    try:
        if holder is None:
            sys.path[:] = first["path"]
            module, holder, alias = load(first["kind"], first["place"], first["adapter"])
        tell()
        description = {"status": "unlisted"}
        functions = Functions(holder, first["names"], alias, first["itself"])
        try:
            functions.bridge(first["bridge"], first["bridged"])
        except (ImportError, ValueError):  # a framework that is not there, or that nobody knows
            description = {"status": "unmade"}
            raise
        description = {"status": "loaded", **functions.describe(), "version": version_of(module)}
    except BaseException as error:
        description["error"] = line_of(error)
    if description["status"] == "raised":
        tell()
    ends.answer(ends.ticket(), description)
    while functions is not None and description["status"] == "loaded":
        try:
            request, tell = ends.request()
        except EOFError:
            return
        ends.answer(*functions.answer(request, (tell, ends.ticket)))


def main() -> None:
    """Serve the target that the first request names, on the channels that the arguments name."""
    for channel in (inbox := int(sys.argv[1]), outbox := int(sys.argv[2])):
        os.set_inheritable(channel, False)
    serve(inbox, outbox)
    os._exit(0)  # whatever the subject registered to run at exit is none of the audit's business
