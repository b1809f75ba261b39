"""The coverage of a kernel by its audit: cases, features and sizes, and the parameters that no check has passed."""

from __future__ import annotations

from collections.abc import Iterator

from attnprune_verify.audit.kernel.checks.probe_scope import to_declare
from attnprune_verify.audit.kernel.options import Options
from attnprune_verify.audit.kernel.problem.features import FEATURES
from attnprune_verify.audit.kernel.problem.sample import BACKWARD, FORWARD
from attnprune_verify.audit.kernel.process.context import KernelContext
from attnprune_verify.audit.record import Coverage

_GROUPED = "kv_heads < heads"
_SIZES = ("l != n", "mv != m")
_AXES = {"n": 3, "l": 4, "m": 5}
"""Places in the shape of a sample."""


def coverage(context: KernelContext, options: Options) -> Coverage:
    """Return the coverage of the calls so far."""
    left = tuple(_not_exercised(context, options))
    return Coverage(tuple(_judged(context)), left, to_declare(context), options.quick)


def _judged(context: KernelContext) -> Iterator[str]:
    passed = {keyword for facts in context.functions.values() for keyword in facts.passed}
    taken = {name for facts in context.functions.values() for features in facts.accepted for name in features}
    if any(facts.accepted for facts in context.functions.values()) and not context.declared.integers_alone:
        yield "causal only" if context.scope.causal else "plain"
    for feature in FEATURES:
        asked = feature.parameter in passed if feature.parameter else bool(feature.factor)
        if feature.name in taken and asked and feature.name not in _SIZES:
            yield _called(context, feature.name)
    if context.functions[BACKWARD].accepted:
        yield f"backward without {', '.join(left)}" if (left := _forward_alone(context)) else "backward"
    shapes = [shape for facts in context.functions.values() for shape in facts.shapes]
    for axis, place in _AXES.items() if shapes else ():
        sizes = sorted({shape[place] for shape in shapes})
        yield f"{axis} = {sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else f"{axis} = {sizes[0]}"


def _called(context: KernelContext, feature: str) -> str:
    """A feature in words; groups of several key heads may be refused where arrays broadcast a single one."""
    if feature == _GROUPED:
        return "a single key head" if context.refuses(feature) else "grouped heads"
    return feature


def _forward_alone(context: KernelContext) -> list[str]:
    """Features that the forward pass has taken and the backward pass has not."""
    forward, backward = (set[str]().union(*context.functions[name].accepted) for name in (FORWARD, BACKWARD))
    left = forward - backward - {"lse"}
    return [_called(context, feature.name) for feature in FEATURES if feature.name in left]


def _not_exercised(context: KernelContext, options: Options) -> Iterator[str]:
    """Yield parameters that no check passes; where only some checks were chosen, those that none of all would."""
    found: dict[str, None] = {}
    for function, mine in context.declared.parameters.items():
        passed = context.functions[function].passed
        left = [own for name, own in mine.own.items() if name not in passed and not options.only]
        found |= dict.fromkeys(name for name in (*mine.foreign, *left) if name not in context.declared.ignored)
    yield from found
