"""The audited functions, called in a process of their own."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.subject import worker
from attnprune_verify.audit.subject.here import Here
from attnprune_verify.audit.subject.line import Line, LineBroken
from attnprune_verify.audit.subject.target import Target
from attnprune_verify.errors import InvalidInstance

__all__ = ["Answer", "NoAnswer", "Parameter", "Subject", "SubjectLost"]

SECONDS_PER_CALL = 30.0
SECONDS_TO_START = 120.0
LARGEST_ANSWER = 1 << 26  # bytes; right ones are far smaller


@dataclass(frozen=True)
class Parameter:
    """A parameter of a subject's function."""

    name: str
    kind: str  # of inspect.Parameter: POSITIONAL_ONLY, POSITIONAL_OR_KEYWORD, VAR_POSITIONAL, KEYWORD_ONLY, VAR_KEYWORD
    has_default: bool


@dataclass(frozen=True)
class Answer:
    """What a call returned: its numbers, which arguments it changed, and how long it took.

    Attributes
    ----------
    changed : indices of the changed arguments, keyword arguments after the others
    overwritten : whether something returned earlier has changed since
    detached : whether tensors had to be taken out of their graph
    """

    parts: tuple[NDArray[Any], ...]
    changed: tuple[int, ...]
    seconds: float
    overwritten: bool = False
    detached: bool = False


class NoAnswer(Exception):
    """A call without numbers: it raised, returned something unreadable, hung, or took the interpreter with it."""

    def __init__(self, reason: str, *, raised: bool = False, unreadable: bool = False) -> None:
        super().__init__(reason)
        self.raised = raised
        self.unreadable = unreadable


class SubjectLost(NoAnswer):
    """The process hung or died; it has been replaced."""

    def __init__(self, reason: str, *, hung: bool = False) -> None:
        super().__init__(reason)
        self.hung = hung


@dataclass
class Subject:
    """Someone's implementation behind a line; use as a context manager.

    Attributes
    ----------
    functions : the names it has, with the parameters of each (None: unknown)
    broken : names that are there but cannot be had, and why
    bridge : a module that wraps the functions in the subject's process, and its settings
    bridged : only a target that has one of these functions needs it; empty: every one
    forked : whether a live object runs in a copy of this process, where the platform can make one
    made : whether the target is a class of which an instance was made
    way : how its functions are had: "attribute", "item" of a mapping, or "itself"
    """

    target: Target
    names: tuple[str, ...]
    bridge: tuple[str, ...] = ()
    bridged: tuple[str, ...] = ()
    forked: bool = True
    seconds_per_call: float = SECONDS_PER_CALL
    seconds_to_start: float = SECONDS_TO_START
    functions: dict[str, tuple[Parameter, ...] | None] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    version: str | None = None
    made: bool = False
    way: str = "attribute"
    calls: int = 0
    _line: Line | Here | None = None

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
        largest: int = LARGEST_ANSWER,
    ) -> Answer:
        """Call a function with fresh copies of the arguments, laid out in memory as they are.

        Raises
        ------
        NoAnswer
            If the call raised or returned no numbers.
        SubjectLost
            If it hung for more than `seconds_per_call` or its process died.
        """
        line = self._line or self._start()
        self.calls += 1
        request = {
            "function": function,
            "arguments": arguments,
            "keywords": keywords or {},
            "parts": parts,
            "attributes": list(attributes),
        }
        reply = self._exchange(line, request, self.seconds_per_call, largest)
        if reply.get("status") == "returned":
            try:
                return _answer(reply, parts if not attributes else len(attributes))
            except Exception:
                self.close()
                raise SubjectLost("broke the line to the audit") from None
        said = _clean(reply.get("error"))
        if reply.get("status") == "unreadable":
            raise NoAnswer(f"returned something unreadable: {said}", unreadable=True)
        raise NoAnswer(f"raised {said}", raised=True)

    def close(self) -> None:
        """End the process, and whatever it started."""
        line, self._line = self._line, None
        if line is not None:
            line.close()

    @property
    def apart(self) -> bool:
        """Whether it has a process of its own."""
        return self.target.kind != "live" or (self.forked and hasattr(os, "fork"))

    def _start(self) -> Line | Here:
        line: Line | Here = Line(self.target) if self.apart else Here(self.target)
        self._line = line
        path = sys.path if self.target.kind == "file" else [str(Path.cwd()), *sys.path]
        order = {"kind": self.target.kind, "place": self.target.place, "names": list(self.names), "path": path}
        order["bridge"], order["bridged"] = list(self.bridge), list(self.bridged)
        order["adapter"] = self.target.adapter
        loaded = self._exchange(line, order, self.seconds_to_start, LARGEST_ANSWER)
        if loaded.get("status") != "loaded":
            self.close()
            raise InvalidInstance(f"TARGET {self.target.spec!r} must be importable; got {_clean(loaded.get('error'))}")
        try:
            known = {name: loaded["functions"][name] for name in self.names if name in loaded["functions"]}
            self.functions = {name: _parameters(found) for name, found in known.items()}
            self.broken = {name: _clean(loaded["broken"][name]) for name in self.names if name in loaded["broken"]}
            self.version = None if loaded["version"] is None else _clean(loaded["version"])
            self.made, self.way = bool(loaded["made"]), _clean(loaded["way"])
        except Exception:
            self.close()
            raise SubjectLost("broke the line to the audit") from None
        return line

    def _exchange(self, line: Line | Here, request: dict[str, Any], seconds: float, largest: int) -> dict[str, Any]:
        try:
            return line.exchange(request, seconds, largest)
        except LineBroken as broken:
            self._line = None
            raise SubjectLost(str(broken), hung=broken.hung) from None


def _answer(reply: dict[str, Any], count: int) -> Answer:
    """The reply as an answer; whatever is not as the worker writes it was written by somebody else."""
    parts = tuple(reply["parts"])
    if (count and len(parts) != count) or not parts or not all(isinstance(part, np.ndarray) for part in parts):
        raise TypeError("not so many arrays")
    return Answer(
        parts,
        tuple(int(index) for index in reply["changed"]),
        float(reply["seconds"]),
        bool(reply["overwritten"]),
        bool(reply["detached"]),
    )


def _parameters(found: Any) -> tuple[Parameter, ...] | None:
    return None if found is None else tuple(Parameter(str(n), str(kind), bool(default)) for n, kind, default in found)


def _clean(text: object) -> str:
    """Words of a subject as a report can hold them, whatever its process sent."""
    return worker.printable(str(text)[: worker.LONGEST_MESSAGE])
