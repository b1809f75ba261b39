"""Calls a kernel of eight bits in the subject's process: bytes go in as arrays of their format, scales as keywords.

What its scales are called is found in its signature: ``q_scale``, ``q_descale``, ``descale_q`` and so on.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from attnprune_verify.audit.kernel.problem.eight_bits import EIGHT_BITS
from attnprune_verify.audit.kernel.problem.recipe import STORED, WIDE_UNITS
from attnprune_verify.audit.kernel.process.bridge import (
    FACTS,
    FORWARD,
    BridgedKernel,
    declared_by,
    framework_for,
    named_of,
)  # fmt: skip
from attnprune_verify.audit.kernel.process.frameworks import Framework, framework_named
from attnprune_verify.audit.kernel.process.parameters import plainly_called
from attnprune_verify.audit.kernel.typing import Deferred, Foreign, Plain
from attnprune_verify.audit.subject.answers import ours

_SPELLINGS = ("{}_scale", "{}_descale", "descale_{}", "scale_{}", "{}_scales", "{}_descales")


def bridged(
    functions: Mapping[str, Callable[..., Foreign]], holder: Foreign, dtype: str, device: str = "cpu", given: str = "{}"
) -> dict[str, Callable[..., Foreign]]:
    """The forward pass, callable with bytes of eight bits, and the facts about it.

    Raises
    ------
    ValueError
        If FRAMEWORK is unknown, or its library cannot make a format of the recipe or has no such device.
    InvalidInstance
        If another declaration than RECIPE, which the audit itself reads, is no such.
    """
    own = {name: fn for name, fn in functions.items() if name == FORWARD}
    if not own:
        return {}
    declared = json.loads(given)
    said = declared_by(functions, holder, declared)
    recipe = declared.get("RECIPE", named_of(functions, holder, "RECIPE"))
    wide = framework_for(own, holder, "float32", device)
    formats = {"float32": wide}
    for kind in _given(recipe):
        if isinstance(kind, str) and kind in (*EIGHT_BITS, *WIDE_UNITS):
            formats.setdefault(kind, framework_named(wide.name, kind, device))
    function, names = own[FORWARD], _names(own[FORWARD])
    spellings = {part: [spelling.format(part) for spelling in _SPELLINGS] for part in STORED}
    scales = {part: next(name for name in own if name in names) for part, own in spellings.items() if {*own} & {*names}}
    bound = functools.partial(function, **dict.fromkeys(scales.values(), 1.0))
    called, parameters = plainly_called(bound, 3, said["scale"])
    spelled = parameters and parameters.as_dict()
    if spelled:
        spelled["foreign"] = [name for name in spelled["foreign"] if name not in scales.values()]
    said |= {"framework": wide.name, "own": False, "parameters": {FORWARD: spelled}}
    said |= {"recipe": _plain(recipe), "scales": scales}
    facts = np.frombuffer(json.dumps(said, default=repr).encode(), dtype=np.uint8)
    kernel = _BridgedEight(function, wide, formats, scales, said["layout"], said["scale"])
    if parameters is not None:  # by the contract's names
        kernel.__signature__ = inspect.signature(called)
    return {FORWARD: kernel, FACTS: lambda: facts}


class _BridgedEight(BridgedKernel):
    """A forward pass whose inputs have formats of their own."""

    def __init__(
        self, function: Callable[..., Foreign], wide: Framework, formats: dict[str, Framework], scales: dict[str, str],
        order: str, scale: str,
    ) -> None:  # fmt: skip
        super().__init__(FORWARD, function, wide, order)
        self.formats, self.scales, self.scale = formats, scales, scale
        self._factors: Plain = {}

    def __call__(self, *arrays: Foreign, how: Plain) -> Foreign:
        with ours():
            factors = {self.scales[name]: value for name, value in how["factors"].items()}
            self._factors = {name: self._factor(value) for name, value in factors.items()}
        return super().__call__(*arrays, how=how)

    def _factor(self, value: Foreign) -> Foreign:
        """A number for a tensor; else an array of float32 by samples, heads and what shares a scale."""
        if value.ndim == 0:
            return float(value)
        return self.framework.side_input(np.asarray(value[(0,) * (4 - len(self.order))]))

    def _inputs(self, arrays: Sequence[Foreign], how: Plain) -> list[Foreign]:
        kinds = zip(how["formats"], arrays, strict=True)
        return [self.formats[kind].made(array, how["layout"]) for kind, array in kinds]

    def _call(self, inputs: list[Foreign], keywords: Plain, parts: list[str]) -> Deferred:
        bound = functools.partial(self.function, **self._factors)
        called, _ = plainly_called(bound, 3, self.scale)
        return functools.partial(called, *inputs, **keywords)


def _given(recipe: Foreign) -> list[Foreign]:
    """The types of q, k and v, as a recipe that nobody has read yet has them."""
    if not isinstance(recipe, Mapping):
        return []
    inputs = recipe.get("inputs", "stored")
    return [recipe.get(part) for part in STORED] if inputs == "stored" else [inputs]


def _names(function: Callable[..., Foreign]) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()


def _plain(recipe: Foreign) -> Foreign:
    if isinstance(recipe, Mapping):
        return {str(name): _plain(value) for name, value in recipe.items()}
    return recipe
