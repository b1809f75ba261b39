"""Checks of pruning programs over layers: a refused layer leaves the others, failures show what they have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.functions.checks.structure import TIMES
from attnprune_verify.audit.functions.context import Context
from attnprune_verify.audit.functions.truth.conventions import MaskConventions
from attnprune_verify.audit.functions.truth.layers import LinearLayer, layers, together
from attnprune_verify.audit.record import Finding
from attnprune_verify.audit.subject.answers import Answer, NoAnswer, NotAccepted, SubjectLost

Judge = Callable[[LinearLayer], Finding | None]
_GENERAL = {"squared-norm": "baseline-score", "not-updated": "baseline-update"}
"""Names that hold beside a more exact one."""


def asked_layers(context: Context, function: str, name: str) -> tuple[LinearLayer, ...]:
    """The layers of a check that the target's PATTERNS do not leave out."""
    precision, patterns = context.precision(function), context.patterns
    if name == "together":
        return together(context.seed, precision, patterns)
    every = layers(context.seed, precision)[name]
    return tuple(item for item in every if not item.m or patterns is None or item.kind in patterns)


def over_layers(
    context: Context, function: str, asked: Sequence[LinearLayer], judged: Judge, right: Callable[[int], Finding]
) -> Finding:
    """Judge every layer that is not refused; `right` makes the finding where none is wrong."""
    if not asked:
        precision = context.precision(function).name
        return Finding("not_applicable", f"not asked in {precision}, or of the patterns that PATTERNS names")
    wrong: list[tuple[LinearLayer, Finding]] = []
    fine: list[LinearLayer] = []
    refused: list[tuple[LinearLayer, NoAnswer]] = []
    for layer in asked:
        try:
            found = judged(layer)
        except NoAnswer as refusal:
            if refusal.unreadable or isinstance(refusal, SubjectLost):
                raise
            refused.append((layer, refusal))
            continue
        fine += [layer] if found is None else []
        wrong += [(layer, found)] if found is not None else []
    said = _refusals([*fine, *(layer for layer, _ in wrong)], [layer for layer, _ in refused])
    if wrong:
        found = explained([item for _, item in wrong])
        if all(layer.few for layer, _ in wrong) and any(not layer.few for layer in fine):
            found = replace(found, ids=("too-few-tokens", *(id for id in found.ids if id != "unknown")))
        return replace(
            found, reason=f"{found.reason}; wrong on {len(wrong)} of {len(asked)} layers{said and f'; {said}'}"
        )
    if fine:
        context.of(function).refused |= set(said.removeprefix("refuses ").split("; ")) - {""}
        passed = right(len(fine))
        return replace(passed, reason=f"{passed.reason}{said and f'; {said}'}")
    _, first = refused[0]
    kinds = {layer.kind for layer, _ in refused}
    if isinstance(first, NotAccepted) or _answers_another(context, function, kinds):
        context.of(function).refused |= kinds
        return Finding("not_applicable", f"{function} refuses {', '.join(sorted(kinds))}: {first}")
    raise first


def deterministic(context: Context, function: str, differ: Callable[[LinearLayer, list[Answer]], bool]) -> Finding:
    """Answers to equal calls do not differ, up to what the method leaves open."""

    def judged(layer: LinearLayer) -> Finding | None:
        answers = [context.call(function, layer.arguments, dict(layer.keywords)) for _ in range(1 + TIMES)]
        if not differ(layer, answers):
            return None
        return Finding("failed", "equal calls differ", ids=("nondeterministic",), call=layer.call(function))

    asked = (*asked_layers(context, function, "values"), *asked_layers(context, function, "groups")[:1])
    return over_layers(context, function, asked, judged, lambda count: Finding("passed", "equal calls agree"))


def _answers_another(context: Context, function: str, kinds: set[str]) -> bool:
    """Return True where the function prunes by a ratio or pattern that is not among these kinds."""
    every = (
        *layers(context.seed, context.precision(function))["values"][:1],
        *asked_layers(context, function, "groups"),
    )
    for layer in {item.kind: item for item in every if item.kind not in kinds}.values():
        try:
            context.call(function, layer.arguments, dict(layer.keywords), where=layer.name)
        except SubjectLost:
            raise
        except NoAnswer:
            continue
        return True
    return False


def _refusals(answered: Iterable[LinearLayer], refused: list[LinearLayer]) -> str:
    """The fewest levels, such as a pattern or one token, that no answered layer has and that every refused one has."""
    taken = {level for layer in answered for level in _levels(layer)}
    said, left = [], refused
    while left:
        counts = Counter(level for layer in left for level in _levels(layer) if level not in taken)
        ((name, level), _), *_ = counts.most_common(1) or [(("kind", left[0].describe()), 1)]
        said.append(f"{name} {level}".removeprefix("kind "))
        left = [item for item in left[1 if not counts else 0 :] if (name, level) not in _levels(item)]
    return f"refuses {'; '.join(said)}" if said else ""


def _levels(layer: LinearLayer) -> list[tuple[str, object]]:
    return list((layer.levels or {"kind": layer.kind}).items())


def explained(wrong: list[Finding]) -> Finding:
    """The first of several failures, under the first name that explains all of them, or else under two that do."""
    misshapen = next((item for item in wrong if item.ids == ("wrong-shape",)), None)
    if misshapen is not None:
        return replace(misshapen, fitting=misshapen.ids)
    ids = [id for id in wrong[0].ids if all(id in other.ids for other in wrong)]
    every = dict.fromkeys(id for item in wrong for id in item.ids if id != "unknown")
    pair = next((two for two in combinations(every, 2) if all(set(two) & {*item.ids} for item in wrong)), ())
    named = tuple(ids[:1]) or pair or ("unknown",)
    named += tuple(_GENERAL[id] for id in named if id in _GENERAL)
    named += ("pattern-dropped",) * all("pattern-dropped" in item.ids for item in wrong)
    return replace(wrong[0], ids=tuple(dict.fromkeys(named)), fitting=tuple(ids) or pair)


def miscounted(
    gone: NDArray[np.bool_], right: NDArray[np.bool_], width: int, loose: NDArray[np.bool_] | None = None
) -> tuple[str, ...]:
    """Names of wrong counts in groups of `width` neighbours.

    Where an entry is `loose` its group counts nothing.

    Examples
    --------
    >>> miscounted(np.array([[True, True, False, False]]), np.array([[True, False, True, False]]), 2)
    ('pattern-dropped',)
    """
    off = gone.reshape(-1, width).sum(axis=1, dtype=int) - right.reshape(-1, width).sum(axis=1, dtype=int)
    if loose is not None:
        off = off[~loose.reshape(-1, width).any(axis=1)]
    if not off.any():
        return ()
    one_way = ("too-few",) if off.max() <= 0 else ("too-many",) if off.min() >= 0 else ()
    return (*one_way, *(("pattern-dropped",) if width < gone.shape[1] and off.min() != off.max() else ()))


def as_convention(
    context: Context, function: str, finding: Finding, fits: Callable[[MaskConventions], bool]
) -> Finding:
    """The finding; a failure with the declaration that makes all the function's masks right, if there is one."""
    if finding.status != "failed":
        return finding
    known, declared = context.of(function), context.conventions(function)
    if known.meant is None:
        known.meant = ""  # what raises on the way has no such name
        known.meant = next(
            (item.beside(MaskConventions.declared(function, {})) for item in declared.others() if fits(item)), ""
        )
    if not known.meant:
        return finding
    said = f". Another convention than the declared one: declare {known.meant} if that is meant"
    shrink = finding.shrink

    def smaller(ids: tuple[str, ...]) -> Finding | None:
        small = shrink(ids) if shrink else None
        return small and replace(small, reason=small.reason + said)

    ids = (*(id for id in finding.ids if id != "unknown"), "convention")
    fitting = (*finding.fitting, "convention")
    return replace(finding, reason=finding.reason + said, ids=ids, fitting=fitting, shrink=smaller)
