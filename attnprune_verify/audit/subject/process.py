"""The audited functions, called in a process of their own."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.contract import Parameter
from attnprune_verify.audit.subject import confinement, landlock, wire
from attnprune_verify.audit.subject.answers import Answer, Ended, NoAnswer, OurError, SubjectLost
from attnprune_verify.audit.subject.functions import KEPT, KEPT_BYTES, LONGEST_MESSAGE, Functions, printable
from attnprune_verify.audit.subject.line import Allowance, Line, LineBroken
from attnprune_verify.audit.subject.reach import path_of_subjects
from attnprune_verify.audit.subject.target import Target
from attnprune_verify.errors import InvalidInstance

SECONDS_PER_CALL = 30.0  # of processor time, as the contract says
WALL_FACTOR = 10  # so many times that in all, as the contract says
SECONDS_TO_START = 120.0  # chosen: torch and jax together take ten on a cold disk
_LACKING = ("ModuleNotFoundError", "ImportError", "FileNotFoundError", "PermissionError")
_LEAST_ANSWER = 1 << 20  # bytes that every answer may have; chosen: 131072 numbers
_LARGEST_ANSWER = 1 << 26  # bytes, where no argument is that large; right ones are far smaller
_LOOKED_AT = 1 << 16  # bytes of earlier results that are read again at every call
_NUMBERS_PER_PAIR = 8  # numbers an answer may have per batch, head and pair of indices: four parts, of 16 bytes each


@dataclass
class Subject:
    """Someone's implementation behind a line; use as a context manager.

    Attributes
    ----------
    functions : dict[str, tuple[Parameter, ...] or None]
        The names it has, with the parameters of each (None: unknown).
    broken : dict[str, str]
        Names that are there but cannot be had, and why.
    bridge : tuple[str, ...]
        A module that wraps the functions in the subject's process, and its settings.
    bridged : tuple[str, ...]
        Only a target that has one of these functions needs it; empty: every one.
    itself : str
        The name of the function that a callable is which has none of the names.
    forked : bool
        Whether a live object runs in a copy of this process, where the platform can make one.
    has : tuple[str, ...]
        What a module without any of the names has in their place.
    made : bool
        Whether the target is a class of which an instance was made.
    way : str
        How its functions are had: "attribute", "item" of a mapping, or "itself".
    seconds_per_call : float
        Processor time of a call; in all it may take ten times that.
    limit : float or None
        Seconds that the whole run may take, from the subject's start.
    confine : "available", "required" or "off"
    first : tuple of str
        Folders that come first on the import path, and are open for reading.
    confinement : dict
        What was in force, as it stands in the result.
    ended : str
        Why the run is over, and `refused`, how many calls were refused since.
    """

    target: Target
    names: tuple[str, ...]
    bridge: tuple[str, ...] = ()
    bridged: tuple[str, ...] = ()
    itself: str = ""
    forked: bool = True
    seconds_per_call: float = SECONDS_PER_CALL
    seconds_to_start: float = SECONDS_TO_START
    limit: float | None = None
    confine: str = "available"
    first: tuple[str, ...] = ()
    confinement: dict[str, Any] = field(default_factory=lambda: confinement.NOTHING)
    ended: str = ""
    refused: int = 0
    functions: dict[str, tuple[Parameter, ...] | None] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    version: str | None = None
    has: tuple[str, ...] = ()
    made: bool = False
    way: str = "attribute"
    calls: int = 0
    _line: Line | Here | None = None
    _begun: float = field(default_factory=time.monotonic)
    _path: list[str] = field(default_factory=path_of_subjects)
    _results: dict[int, list[bytes]] = field(default_factory=dict)
    _places: dict[int, list[InMemory]] = field(default_factory=dict)

    def __enter__(self) -> Subject:
        self._begun = time.monotonic()
        try:
            if self.confine == "required" and not (self.apart and landlock.abi()):
                raise self._end(f"may not run: confinement is required, and {self._why_open()}")
            self._start()
        except Ended as over:
            self.broken = dict.fromkeys(self.names, str(over))
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
        largest: int | None = None,
    ) -> Answer:
        """Call a function with fresh copies of the arguments, laid out in memory as they are.

        Raises
        ------
        NoAnswer
            If the call raised or returned no numbers.
        SubjectLost
            If it took more than `seconds_per_call` or its process died.
        Ended
            If the run is over.
        OurError
            If this package failed beside the call.
        """
        line = self._line or self._start()
        self.calls += 1
        given = [*arguments, *(keywords or {}).values()]
        again = self._looked_at_again()
        request = {"number": self.calls, "again": again, "function": function, "arguments": arguments}
        request |= {"keywords": keywords or {}, "parts": parts, "attributes": list(attributes)}
        most = largest_answer(given) if largest is None else largest
        most += sum(len(part) for number in again for part in self._results[number])
        allowed = Allowance(self.seconds_per_call, WALL_FACTOR * self.seconds_per_call)
        reply, touched, wall = self._exchange(line, request, most, allowed)
        if reply.get("status") == "returned":
            try:
                overwritten = self._overwritten(reply["again"], again)
                answer = _answer(reply, parts if not attributes else len(attributes), wall)
                self._remember(answer, reply.get("places", []))
                overwritten |= self._written_over(line)
            except Exception:
                raise self._end("broke the line to the audit: the answer is none") from None
            return replace(answer, changed=_arguments(given, touched), overwritten=overwritten)
        said = _clean(reply.get("error"))
        if reply.get("status") == "unreadable":
            raise NoAnswer(f"returned something unreadable: {said}", unreadable=True)
        if reply.get("status") == "ours":
            raise OurError(said)
        raise NoAnswer(f"raised {said}", raised=True)

    def close(self) -> None:
        """End the process, and whatever it started."""
        line, self._line = self._line, None
        self._results.clear()
        self._places.clear()
        if line is not None:
            line.close()

    @property
    def apart(self) -> bool:
        """True where the subject has a process of its own."""
        return self.target.kind != "live" or (self.forked and hasattr(os, "fork"))

    def _start(self) -> Line | Here:
        if self.ended:
            raise self._end(self.ended)
        path = [*self.first, *([] if self.target.kind == "file" else [str(Path.cwd())]), *self._path]
        line: Line | Here = Here(self.target)
        if self.apart:
            line = Line(self.target, path, confined=self.confine != "off")
            self.confinement = line.confinement
        self._line = line
        if self.confine == "required" and self.confinement.get("kind") != "landlock":
            raise self._end(f"may not run: confinement is required, and {self._why_open()}")
        order = {"kind": self.target.kind, "place": self.target.place, "names": list(self.names), "path": path}
        order["bridge"], order["bridged"] = list(self.bridge), list(self.bridged)
        order["adapter"], order["itself"] = self.target.adapter, self.itself
        start = Allowance(self.seconds_to_start, self.seconds_to_start)
        try:
            loaded, _, _ = self._exchange(line, order, _LEAST_ANSWER, start)
        except SubjectLost as lost:
            if self.ended or not (isinstance(line, Line) and line.told):
                raise
            raise self._end(f"could not be judged: while its names were listed, it {lost}") from None
        if loaded.get("status") != "loaded":
            said = _clean(loaded.get("error"))
            if loaded.get("status") == "unlisted":
                raise self._end(f"could not be judged: its names cannot be listed: {said}")
            self.close()
            if loaded.get("status") == "unmade":
                raise InvalidInstance(f"TARGET {self.target.spec!r} cannot be audited: {said.partition(': ')[2]}")
            if said.endswith("is not a package"):
                said += f": write {':'.join(self.target.spec.rsplit('.', 1))}"
            elif "files" in self.confinement.get("closed", ()) and said.startswith(_LACKING):
                said += "; install what is missing, or open its folder: --path FOLDER does, --confine off opens all"
            raise InvalidInstance(f"TARGET {self.target.spec!r} must be importable; got {said}")
        try:
            known = {name: loaded["functions"][name] for name in self.names if name in loaded["functions"]}
            self.functions = {name: _parameters(found) for name, found in known.items()}
            self.broken = {name: _clean(loaded["broken"][name]) for name in self.names if name in loaded["broken"]}
            self.version = None if loaded["version"] is None else _clean(loaded["version"])
            self.made, self.way = bool(loaded["made"]), _clean(loaded["way"])
            self.has = tuple(_clean(name) for name in loaded["names"])
        except Exception:
            raise self._end("broke the line to the audit: the answer is none") from None
        return line

    def _exchange(
        self, line: Line | Here, request: dict[str, Any], largest: int, allowed: Allowance
    ) -> tuple[dict[str, Any], list[int], float]:
        rest = float("inf") if self.limit is None else self._begun + self.limit - time.monotonic()
        late = f"is not called any more: the limit of {self.limit or 0:g} s for the whole audit is over"
        if rest <= 0:
            raise self._end(late)
        if isinstance(line, Here):
            return line.exchange(request, largest)
        try:
            return line.exchange(request, largest, replace(allowed, wall=min(rest, allowed.wall)))
        except LineBroken as broken:
            self._line = None
            self._results.clear()
            self._places.clear()
            if broken.out_of_turn:
                raise self._end(str(broken)) from None
            if self.limit is not None and time.monotonic() >= self._begun + self.limit:
                raise self._end(late) from None
            raise SubjectLost(str(broken), hung=broken.hung) from None

    def _end(self, reason: str) -> Ended:
        """Close the run; no further call is made."""
        self.close()
        self.ended = reason
        self.refused += 1
        return Ended(reason)

    def _why_open(self) -> str:
        return "this kernel has no Landlock" if self.apart else "the subject runs in the audit's own process"

    def _looked_at_again(self) -> list[int]:
        """The earlier results that are read again: all kept ones where they are small, else the last and the first."""
        numbers = sorted(self._results)
        small = sum(len(part) for parts in self._results.values() for part in parts) <= _LOOKED_AT
        return numbers if small or len(numbers) < 2 else [numbers[0], numbers[-1]]

    def _overwritten(self, again: dict[str, Any], numbers: list[int]) -> bool:
        now = {number: [part.tobytes() for part in again[str(number)]] for number in numbers}
        return any(self._results[number] != parts for number, parts in now.items())

    def _written_over(self, line: Line | Here) -> bool:
        """Report whether memory in which a kept result lies holds something else, as seen from outside."""
        if isinstance(line, Here):
            return False
        return any(
            place.read(line.memory) not in (None, place.content) for kept in self._places.values() for place in kept
        )

    def _remember(self, answer: Answer, places: list[Any]) -> None:
        kept = [(p, place) for p, place in zip_longest(answer.parts, places) if p.ndim and p.nbytes <= KEPT_BYTES]
        self._results[self.calls] = [p.tobytes() for p, _ in kept]
        self._places[self.calls] = [InMemory.of(p, *place) for p, place in kept if place and p.size]
        for results in (self._results, self._places):
            results.pop(self.calls - KEPT, None)


@dataclass(frozen=True)
class InMemory:
    """A place in the subject's memory: bytes from `start`, with a result in its own layout in them."""

    content: bytes
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]
    start: int
    size: int
    offset: int

    @classmethod
    def of(cls, part: NDArray[Any], address: int, strides: list[int]) -> InMemory:
        reach = [int(stride) * (length - 1) for stride, length in zip(strides, part.shape, strict=True)]
        low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0) + part.itemsize
        return cls(part.tobytes(), part.shape, part.dtype, tuple(strides), int(address) + low, high - low, -low)

    def read(self, memory: Callable[[int, int], bytes | None]) -> bytes | None:
        """The array as it is now, None where it cannot be read."""
        now = memory(self.start, self.size) if self.size <= _LARGEST_ANSWER else None
        if now is None or len(now) < self.size:
            return None
        return np.ndarray(self.shape, self.dtype, now, self.offset, self.strides).tobytes()


def largest_answer(given: list[Any]) -> int:
    """The most bytes of a result for these arguments: a few numbers for every batch, head and pair of indices.

    Of many of them no more than two of the largest type for each number of the largest argument.

    Examples
    --------
    >>> largest_answer([np.zeros((3, 300, 8))]) == 3 * 300**2 * 16 * 8
    True
    """
    arrays: list[tuple[int, ...]] = []
    heads = longest = 1
    open_ = list(given)
    while open_:
        one = open_.pop()
        if isinstance(one, np.ndarray):
            arrays.append(one.shape)
        elif isinstance(one, dict):
            heads = max(heads, *(int(one[name]) for name in one if name == "heads"), 1)
            open_ += one.values()
        elif isinstance(one, list | tuple):
            open_ += one
        elif isinstance(one, int):
            longest = max(longest, one)
    longest = max([longest, *(length for shape in arrays for length in shape[-2:])])
    batch = max([1, *(math.prod(shape[:-2]) for shape in arrays)])
    most = max([_LARGEST_ANSWER, *(2 * 16 * math.prod(shape) for shape in arrays)])
    return min(max(_LEAST_ANSWER, batch * heads * longest**2 * 16 * _NUMBERS_PER_PAIR), most)


def _arguments(given: list[Any], touched: list[int]) -> tuple[int, ...]:
    """The places of the arguments that were changed, or an array inside of them."""
    places, index = [], 0
    for place, one in enumerate(given):
        count = _arrays_in(one)
        places += [place] * any(index <= changed < index + count for changed in touched)
        index += count
    return tuple(places)


def _arrays_in(one: Any) -> int:
    if isinstance(one, dict | list | tuple):
        return sum(map(_arrays_in, one.values() if isinstance(one, dict) else one))
    return int(isinstance(one, np.ndarray | np.generic))


def _answer(reply: dict[str, Any], count: int, wall: float) -> Answer:
    """The reply as an answer; whatever is not as the worker writes it was written by somebody else."""
    parts = tuple(reply["parts"])
    if (count and len(parts) != count) or not parts or not all(isinstance(part, np.ndarray) for part in parts):
        raise TypeError("not so many arrays")
    seconds = min(max(0.0, float(reply["seconds"])), wall)  # a call cannot have taken longer than it was waited for
    return Answer(parts, (), seconds, detached=bool(reply["detached"]))


def _parameters(found: Any) -> tuple[Parameter, ...] | None:
    return None if found is None else tuple(Parameter(str(n), str(kind), bool(default)) for n, kind, default in found)


def _clean(text: object) -> str:
    """Words of a subject as a report can hold them, whatever its process sent."""
    return printable(str(text)[:LONGEST_MESSAGE])


class Here:
    """A `Line` without a process."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._functions: Functions | None = None

    def exchange(self, request: dict[str, Any], largest: int) -> tuple[dict[str, Any], list[int], float]:
        """Answer as the worker does, with copies of the arguments; nothing ends a call that hangs."""
        if self._functions is None:
            self._functions = Functions(self._target.object, request["names"], self._target.place, request["itself"])
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
        """Do nothing: no process was started."""
