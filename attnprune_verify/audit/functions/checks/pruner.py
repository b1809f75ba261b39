"""Is this a pruning of the layer, by whatever method? Count, pattern, dead inputs, zeros, at most magnitude's error."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.functions.checks.inputs import keeping_checks
from attnprune_verify.audit.functions.checks.pruning import asked_layers, deterministic, over_layers
from attnprune_verify.audit.functions.checks.smaller import check, shrunk
from attnprune_verify.audit.functions.context import Context
from attnprune_verify.audit.functions.truth.conventions import MaskConventions, units
from attnprune_verify.audit.functions.truth.layers import LinearLayer
from attnprune_verify.audit.record import Check, Finding
from attnprune_verify.audit.subject.answers import Answer

Fault = tuple[str, tuple[str, ...]]


def pruner_checks(function: str) -> Iterator[Check]:
    """The checks of a method that is none of ours."""
    says = "count, pattern, finite weights, dead inputs first, zeros kept, whatever stands together"
    yield check(function, "together", says, partial(_over, name="together"), required=True)
    for name in ("values", "groups"):
        says = "the error of the output is at most magnitude's of the same count"
        yield check(function, f"error:{name}", says, partial(_over, name=name))
    yield check(function, "deterministic", "equal calls agree", partial(deterministic, differ=_differ))
    yield from keeping_checks(function)


def _over(context: Context, function: str, name: str) -> Finding:
    passed = partial("{} layers".format)
    judged = partial(_judged, context, function, compared=name != "together")
    return over_layers(
        context, function, asked_layers(context, function, name), judged, lambda count: Finding("passed", passed(count))
    )


def _judged(context: Context, function: str, layer: LinearLayer, compared: bool) -> Finding | None:
    parts = context.call(function, layer.arguments, dict(layer.keywords), where=layer.name).parts
    fault = _fault(parts, layer, context.conventions(function), compared)
    if fault is None:
        context.judged_matrix(function, layer.weight.shape)
        return None
    said, ids = f"{fault[0]}, on {layer.describe()}", fault[1]
    again = partial(_judged, context, function, compared=compared)
    smaller = partial(shrunk, layer, LinearLayer.cuts, again, said)
    return Finding("failed", said, ids=ids, call=layer.call(function), shrink=smaller)


def _fault(
    parts: tuple[NDArray[np.generic], ...], layer: LinearLayer, rules: MaskConventions, compared: bool
) -> Fault | None:
    """The first rule that a result breaks, with the mistake's ids."""
    shape, weight = layer.weight.shape, np.asarray(parts[0])
    if len(parts) > 2 or any(result.shape != shape for result in parts) or weight.dtype.kind != "f":
        return f"returns shapes {', '.join(str(result.shape) for result in parts)} instead of {shape}", ("wrong-shape",)
    if not np.isfinite(weight).all():
        return "returns weights that are not finite", ("nan-output",)
    gone = np.asarray(parts[-1] == 1) if len(parts) == 2 else weight == 0
    before = layer.weight == 0
    if (filled := (before | gone) & (weight != 0)).any():
        return f"{int(filled.sum())} entries that were 0, or are called pruned, are not 0", ("zeros-filled",)
    free = before if len(parts) == 1 else np.zeros(shape, dtype=np.bool_)  # whether these were pruned nobody can tell
    return (
        _miscount(gone, free, layer, rules)
        or _kept_dead(weight, layer, rules)
        or (_worse(weight, layer, rules) if compared else None)
    )


def _places(layer: LinearLayer, rules: MaskConventions) -> Iterator[tuple[slice, slice]]:
    rows, columns = layer.weight.shape
    if not layer.m:
        return units((rows, columns), rules.threshold)
    return ((slice(i, i + 1), slice(j, j + layer.m)) for i in range(rows) for j in range(0, columns, layer.m))


def _counts(layer: LinearLayer, rules: MaskConventions, size: int) -> tuple[int, ...]:
    return (layer.n,) if layer.m else rules.counts(size, layer.rho)


def _miscount(
    gone: NDArray[np.bool_], free: NDArray[np.bool_], layer: LinearLayer, rules: MaskConventions
) -> Fault | None:
    off, turned = [], True
    for place in _places(layer, rules):
        most = int(gone[place].sum())
        least, wanted = most - int((gone & free)[place].sum()), _counts(layer, rules, gone[place].size)
        turned &= any(least <= gone[place].size - result <= most for result in wanted)
        off.append(min((max(least - result, 0) - max(result - most, 0) for result in wanted), key=abs))
    if not any(off):
        return None
    unit = f"groups of {layer.m}" if layer.m else {"row": "rows", "block": "blocks"}.get(rules.threshold, "matrices")
    said = f"{sum(map(bool, off))} of {len(off)} {unit} have a wrong count, by {min(off)} to {max(off)}"
    one_way = ("too-few",) if max(off) <= 0 else ("too-many",) if min(off) >= 0 else ("wrong-count",)
    dropped = ("pattern-dropped",) * bool(layer.m and len({*off}) > 1)
    return said, (*("keeps-instead-of-prunes",) * turned, *dropped, *one_way)


def _kept_dead(weight: NDArray[np.generic], layer: LinearLayer, rules: MaskConventions) -> Fault | None:
    """A weight of an input that is always 0 stays where a weight of a living input goes."""
    dead = np.broadcast_to(~layer.X.reshape(-1, layer.X.shape[-1]).any(axis=0), weight.shape)
    went = (weight == 0) & (layer.weight != 0) & ~dead
    for place in _places(layer, rules):
        if (dead & (weight != 0))[place].any() and went[place].any():
            return "keeps weights of dead inputs and prunes weights of living ones", ("baseline-dead-inputs",)
    return None


def _worse(weight: NDArray[np.generic], layer: LinearLayer, rules: MaskConventions) -> Fault | None:
    """The error of the output, above that of the smallest magnitudes gone, as many of each unit."""
    X, W = layer.X.reshape(-1, layer.X.shape[-1]).astype(float), layer.weight.astype(float)
    magnitude = W.copy()
    for place in _places(layer, rules):
        count = _counts(layer, rules, W[place].size)[-1]
        magnitude[place][rules.chosen(np.abs(W[place]), count)] = 0.0
    turned = np.where(weight == 0, W, 0.0)
    outputs = (X @ (new - W).T for new in (weight.astype(float), magnitude, turned))
    error, least, of_kept = (float(np.linalg.norm(output)) for output in outputs)
    if error <= least * (1 + 1e-6):
        return None
    said = f"the output is off by {error:.4g} where pruning the smallest magnitudes makes {least:.4g}"
    return said, (*("keeps-instead-of-prunes",) * (of_kept <= least * (1 + 1e-6)), "baseline-score")


def _differ(_: LinearLayer, answers: list[Answer]) -> bool:
    first, *others = (answer.parts[0] for answer in answers)
    return not all(two.shape == first.shape and np.allclose(two, first, 1e-4, 0, equal_nan=True) for two in others)
