"""A live subject where no process can be forked: it runs in the audit's own, which can protect itself less."""

from __future__ import annotations

from typing import Any

from attnprune_verify.audit.subject import wire
from attnprune_verify.audit.subject.functions import Functions
from attnprune_verify.audit.subject.target import Target
from attnprune_verify.errors import InvalidInstance

__all__ = ["Here"]


class Here:
    """A `Line` without a process."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._functions: Functions | None = None

    def exchange(self, request: dict[str, Any], largest: int) -> tuple[dict[str, Any], list[int], float]:
        """Answer as the worker does, with copies of the arguments; nothing ends a call that hangs."""
        if self._functions is None:
            self._functions = Functions(self._target.object, request["names"], self._target.place)
            try:
                self._functions.bridge(request["bridge"], request["bridged"])
            except ValueError as error:  # such as a dtype or a device that its framework has not
                raise InvalidInstance(str(error)) from None
            return {"status": "loaded", **self._functions.describe(), "version": None}, [], 0.0
        header, content, spans = wire.placed({**request, "largest": largest})
        memory = bytearray(content)
        seen: list[bytes] = []
        _, reply = self._functions.answer(wire.taken(header, memory), (lambda: seen.append(bytes(memory)),))
        changed = wire.changed(spans, content, seen[-1])
        return reply, changed, float(reply.get("seconds", 0.0))

    def close(self) -> None:
        """There is nothing to end."""
