"""Asks a kernel everything it accepts in all triples: what it refuses is found out first, with tiny samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from attnprune_verify.audit.kernel.bridge import FORWARD
from attnprune_verify.audit.kernel.context import KernelContext, Refused
from attnprune_verify.audit.kernel.interactions import FACTORS, LEVELS, Row, asked_together, interaction, rows
from attnprune_verify.audit.kernel.judge import judge
from attnprune_verify.audit.kernel.sample import Sample
from attnprune_verify.audit.kernel.shapes import misshapen
from attnprune_verify.audit.subject.process import NoAnswer, SubjectLost

__all__ = ["Together", "together"]

_MOST_SECONDS = 20.0  # chosen: above, a slow kernel is asked pairs of small sizes instead of triples
_PLAIN: dict[str, Any] = {name: levels[0] for name, levels in FACTORS.items()}


@dataclass
class Together:
    """The samples of all interactions that a function accepts, and the rows they stand for."""

    samples: tuple[Sample, ...]
    rows: tuple[Row, ...]
    refused: frozenset[str]
    pairs: set[frozenset[str]] = field(default_factory=set)

    def describe(self) -> str:
        """How many pairs and triples were asked, and which pairs are refused."""
        said = asked_together(self.rows, self.refused)
        listed = "; ".join(" with ".join(sorted(pair)) for pair in sorted(self.pairs, key=sorted))
        return f"{said}{f'; refused together: {listed}' if listed else ''}"


def together(context: KernelContext, function: str) -> Together:
    """The samples, made once for each function of a kernel."""
    if function not in context.together:
        context.together[function] = _made(context, function)
    found: Together = context.together[function]
    return found


def _made(context: KernelContext, function: str) -> Together:
    refused = frozenset(name for name in LEVELS if _refuses(context, function, (name,)))
    # A framework that compiles for every shape and keyword pays for each row.
    strength = 2 if context.quick or context.framework == "jax" else 3
    largest = context.precision.name != "float64"  # whose truth is in balls
    found = Together((), (), refused)
    for strong in range(strength, 1, -1):
        asked = tuple(_accepted(context, function, rows(refused, strong, largest), found.pairs))
        aligned = _bottom_right(context, function)
        samples = [interaction(row, context.seed, context.precision.name, place) for place, row in enumerate(asked)]
        fitted = [(_aligned(one, aligned), row) for one, row in zip(samples, asked, strict=True)]
        kept = [(one, row) for one, row in fitted if one is not None]
        found.samples, found.rows = tuple(one for one, _ in kept), tuple(row for _, row in kept)
        if context.predicted(function, found.samples) <= _MOST_SECONDS:
            break
    return found


def _tiny(features: tuple[str, ...]) -> Row:
    """The plain row with these features, as small as they show."""
    chosen = dict(_PLAIN)
    for name in features:
        factor, levels = LEVELS[name]
        chosen[factor] = levels[0] if factor != "lengths" else "fewer queries"
    return chosen


def _refuses(context: KernelContext, function: str, features: tuple[str, ...]) -> bool:
    """Whether the function raises where it is given these features on a small plain instance."""
    key = (function, features)
    if key not in context.tiny:
        context.tiny[key] = interaction(_tiny(features), context.seed, context.precision.name, 0)
    try:
        context.answer(function, context.tiny[key])
    except SubjectLost:
        raise
    except Refused:
        return True
    except NoAnswer:
        return False
    return False


def _accepted(
    context: KernelContext, function: str, every: tuple[Row, ...], pairs: set[frozenset[str]]
) -> Iterator[Row]:
    """The rows; one that holds a pair which is refused gives two, each with one of the pair."""
    for row in every:
        yield from _split(context, function, row, pairs)


def _split(context: KernelContext, function: str, row: Row, pairs: set[frozenset[str]]) -> Iterator[Row]:
    present = [name for name, (factor, levels) in LEVELS.items() if row[factor] in levels]
    for pair in combinations(present, 2):
        if _refuses(context, function, pair):
            pairs.add(frozenset(pair))
            for name in pair:
                factor = LEVELS[name][0]
                yield from _split(context, function, {**row, factor: _PLAIN[factor]}, pairs)
            return
    yield row


def _bottom_right(context: KernelContext, function: str) -> bool | None:
    """Whether a causal mask over more keys than queries ends at the last key; the contract leaves it open."""
    name = FORWARD if FORWARD in context.subject.functions else function
    if name not in context.alignment:
        sample = interaction(_tiny(("causal", "l != n")), context.seed, context.precision.name, 1)
        found = False
        try:
            reply = context.answer(name, sample)
            if misshapen(name, sample, reply) is None and judge(name, sample, reply.parts).status == "failed":
                found = judge(name, sample.changed(bottom_right=True), reply.parts).status != "failed"
        except NoAnswer:
            found = False
        context.alignment[name] = found
        if found:
            context.notes[name] = "causal: the last query sees the last key"
    return context.alignment[name]


def _aligned(sample: Sample, bottom_right: bool | None) -> Sample | None:
    """The sample as the kernel's causal masks are aligned; None where that leaves rows empty or distances open."""
    n, length = sample.allowed.shape
    if not (bottom_right and sample.causal and n != length):
        return sample
    if n > length or sample.window is not None or sample.alibi is not None:
        return None
    moved = sample.changed(bottom_right=True)
    return moved if moved.allowed.any(axis=1).all() else None
