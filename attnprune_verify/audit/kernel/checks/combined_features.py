"""Runs a kernel on all triples of the features that it accepts; tiny samples first show the ones it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from attnprune_verify.audit.kernel.checks.skip_reason import accepts_lse_cotangent, skip_reason
from attnprune_verify.audit.kernel.problem.interactions import (
    FACTORS,
    LEVELS,
    Row,
    asked_together,
    interaction,
    rows,
    within,
)
from attnprune_verify.audit.kernel.problem.sample import BACKWARD, FORWARD, KernelSample
from attnprune_verify.audit.kernel.problem.scope import KernelScope
from attnprune_verify.audit.kernel.process.context import KernelContext
from attnprune_verify.audit.kernel.process.facts import Refused
from attnprune_verify.audit.subject.answers import NoAnswer, SubjectLost

_MOST_QUERIES = 129  # chosen: of a row of a single query that loses that
_MOST_SECONDS = 20.0  # chosen: above, a slow kernel is asked pairs of small sizes instead of triples


@dataclass
class CombinedFeatures:
    """The samples of all interactions that a function accepts, and the rows they stand for."""

    samples: tuple[KernelSample, ...]
    rows: tuple[Row, ...]
    refused: frozenset[str]
    scope: KernelScope
    pairs: set[frozenset[str]] = field(default_factory=set)

    def describe(self) -> str:
        """Describe the number of pairs and triples tried, and the pairs refused."""
        said = asked_together(self.rows, self.refused, self.scope)
        listed = "; ".join(" with ".join(sorted(pair)) for pair in sorted(self.pairs, key=sorted))
        return f"{said}{f'; not together: {listed}' if listed else ''}"


def combined_features(context: KernelContext, function: str) -> CombinedFeatures:
    """The samples, made once for each function of a kernel."""
    facts = context.functions[function]
    facts.combined = facts.combined or _made(context, function)
    found: CombinedFeatures = facts.combined
    return found


def _made(context: KernelContext, function: str) -> CombinedFeatures:
    refused = frozenset(name for name in LEVELS if _refuses(context, function, (name,)))
    if function == BACKWARD and not (context.has(FORWARD, "return_lse") or accepts_lse_cotangent(context)):
        refused |= {"lse"}
    # A framework that compiles for every shape and keyword pays for each row.
    strength = 1 if context.declared.framework == "jax" else 2 if context.quick else 3
    largest = context.precision.name != "float64"  # whose truth is in balls
    meaningless = {"lse"} if function == BACKWARD and not accepts_lse_cotangent(context) else set()  # not counted
    found = CombinedFeatures((), (), refused | meaningless, context.scope)
    for strong in range(strength, 0, -1):
        every = rows(refused, strong, largest, context.declared.conventions.bottom_right, context.scope)
        asked = tuple(_accepted(context, function, every, found.pairs))
        samples = [_accepted_layout(context, function, row, place) for place, row in enumerate(asked)]
        pairs = zip(samples, asked, strict=True)
        kept = [(sample, row) for sample, row in pairs if not skip_reason(context, function, sample)]
        found.samples, found.rows = tuple(sample for sample, _ in kept), tuple(row for _, row in kept)
        if context.predicted(function, found.samples) <= _MOST_SECONDS:
            break
    return found


def _sample(context: KernelContext, row: Row, place: int) -> KernelSample:
    """The sample of a row, the same for both functions, so that its truth is computed once."""
    key = (*row.values(), place)
    if key not in context.rows:
        gradients = not context.declared.own_backward or context.has(BACKWARD, "wanted")
        made = interaction(
            row,
            context.seed,
            context.precision.name,
            place,
            context.declared.conventions,
            gradients,
            accepts_lse_cotangent(context),
            context.scope,
        )
        context.rows[key] = context.meant(made)
    return context.rows[key]


def _accepted_layout(context: KernelContext, function: str, row: Row, place: int) -> KernelSample:
    """The sample of a row; with heads last in memory where another layout is refused."""
    sample, tiny = _sample(context, row, place), context.functions[function].tiny
    if sample.layout not in ("spaced", "broadcast"):
        return sample
    plain = {**_plain(context), "layout": "broadcast"} if sample.layout == "broadcast" else _plain(context)
    laid_out = _sample(context, plain, 0).changed(layout=sample.layout)
    if not _raises(context, function, tiny.setdefault(laid_out.features, laid_out)):
        return sample
    again = (*row.values(), place, "heads last")
    return context.rows.setdefault(again, sample.changed(layout="heads last"))


def _plain(context: KernelContext) -> dict[str, Any]:
    return {factor: levels[0] for factor, levels in within(FACTORS, context.scope).items()}


def _tiny(context: KernelContext, features: tuple[str, ...]) -> Row:
    """The plain row with these features, as small as they show."""
    chosen, table = _plain(context), within(FACTORS, context.scope)
    for name in features:
        factor, levels = LEVELS[name]
        there = [level for level in table[factor] if level in levels] or [levels[0]]
        chosen[factor] = there[0]
        if factor == "lengths":
            chosen[factor] = "fewer queries" if "fewer queries" in there else there[-1]
        if factor in ("rank", "empty") and chosen["mask"] == "none":
            chosen["mask"] = "scattered"
    return _defined(context, chosen)[0]


def _defined(context: KernelContext, row: Row) -> tuple[Row, ...]:
    """The row, or two in place of what is left open of windows and slopes beside masks that end at the last key."""
    aligned = context.declared.conventions.bottom_right and context.scope.causal is None
    if not (aligned and row["window"] and row["lengths"] != "equal") or (row["causal"] and not row["alibi"]):
        return (row,)
    return {**row, "causal": True, "alibi": False}, {**row, "window": None}


def _refuses(context: KernelContext, function: str, features: tuple[str, ...]) -> bool:
    """Return True where the function raises on a small plain instance with these features."""
    tiny = context.functions[function].tiny
    if features not in tiny:
        tiny[features] = _sample(context, _tiny(context, features), 0)
    return _raises(context, function, tiny[features])


def _raises(context: KernelContext, function: str, sample: KernelSample) -> bool:
    try:
        context.answer(function, sample)
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
        for defined in _defined(context, row):
            yield from _split(context, function, defined, pairs)


def _split(context: KernelContext, function: str, row: Row, pairs: set[frozenset[str]]) -> Iterator[Row]:
    present = [name for name, (factor, levels) in LEVELS.items() if row[factor] in levels]
    for pair in combinations(present, 2):
        if _refuses(context, function, pair):
            pairs.add(frozenset(pair))
            for name in pair:
                factor = LEVELS[name][0]
                without = {**row, factor: _plain(context)[factor]}
                if factor == "lengths":  # a query for each of a thousand keys is another instance
                    without["size"] = min(row["size"], _MOST_QUERIES)
                yield from _split(context, function, without, pairs)
            return
    yield row
