"""A live subject where no process can be forked: it runs in the audit's own, which can protect itself less."""

from __future__ import annotations

from typing import Any

from attnprune_verify.audit.subject import worker
from attnprune_verify.audit.subject.target import Target

__all__ = ["Here"]


class Here:
    """A `Line` without a process."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._functions: worker.Functions | None = None

    def exchange(self, request: dict[str, Any], seconds: float, largest: int) -> dict[str, Any]:
        """Answer as the worker does, with copies of the arguments; nothing ends a call that hangs."""
        if self._functions is None:
            self._functions = worker.Functions(self._target.object, request["names"], self._target.place)
            self._functions.bridge(request["bridge"], request["bridged"])
            return {"status": "loaded", **self._functions.describe(), "version": None}
        body = worker.encode({**request, "number": "", "largest": largest})[8:]
        return self._functions.answer(worker.decode(body))

    def close(self) -> None:
        """There is nothing to end."""
