"""Probes of a function before it is judged, so that each peculiarity is one finding and not sixty.

The order of its parameters, the kind of masks it reads, and the precision in which it is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.audit.functions.checks.descent import coarser_descent, iterate
from attnprune_verify.audit.functions.checks.selection import coarser_selection
from attnprune_verify.audit.functions.checks.sparsegpt import coarser_sparsegpt
from attnprune_verify.audit.functions.checks.wanda import coarser_wanda
from attnprune_verify.audit.functions.context import Context
from attnprune_verify.audit.functions.naming.diagnosis import diagnose
from attnprune_verify.audit.functions.naming.fitting import Observation
from attnprune_verify.audit.functions.truth.layers import layers
from attnprune_verify.audit.functions.truth.precision import FLOAT32, PRECISIONS, Precision
from attnprune_verify.audit.functions.truth.reference import ENCLOSED, reference
from attnprune_verify.audit.functions.truth.sample import ARRAYS
from attnprune_verify.audit.functions.truth.samples import Sample
from attnprune_verify.audit.functions.truth.tolerance import judge
from attnprune_verify.audit.subject.answers import Answer, NoAnswer, SubjectLost

_BENIGN = ("full", "causal", "outside-box")
_MOVED = 0.02  # chosen: many units in the last place of 16 bits, 2^-8 at most
_TELLING = 8  # different numbers: that each of so many double ones ends in 29 zero bits by chance has chance 2^-232
_KEPT = 0.5  # of an error that a formula makes a move of the inputs changes some hundredths, of rounding all


def probe(context: Context, function: str) -> None:
    """Probe the function and keep the result in the context."""
    try:
        if function not in ENCLOSED:
            _probe_other(context, function)
            return
        _probe_order(context, function)
        _probe_masks(context, function)
        _probe_precision(context, function)
    except SubjectLost:
        return  # the checks will meet it again, and say so


def _probe_other(context: Context, function: str) -> None:
    """The precision of what selects entries, updates weights or descends."""
    probes: dict[str, Callable[[], bool]] = {
        "binary_mask": lambda: coarser_selection(context, function),
        "magnitude_mask": lambda: coarser_selection(context, function),
        "wanda": lambda: coarser_wanda(context, function),
        "sparsegpt": lambda: coarser_sparsegpt(context, function),
        "sparsegpt_report": lambda: coarser_sparsegpt(context, function),
        "prune_mask_gd": lambda: coarser_descent(context),
    }
    if context.declared.declared or function not in probes:
        return
    try:
        if probes[function]():
            context.of(function).coarser = FLOAT32.carried_by(context.declared.carrier)
        elif function in _SHOWING:
            shown = _shown_precision(context, function, _SHOWING[function](context, function))
            if shown is not None:
                context.of(function).coarser = FLOAT32.carried_by(context.declared.carrier)
    except SubjectLost:
        raise
    except NoAnswer:
        return  # the checks will say why


def _of_layer(context: Context, function: str) -> list[NDArray[np.float64]]:
    layer = layers(context.seed, context.precision(function))["values"][0]
    return [context.call(function, layer.arguments, dict(layer.keywords), where=layer.name).parts[0]]


_SHOWING: dict[str, Callable[[Context, str], list[NDArray[np.float64]]]] = {
    "wanda": _of_layer,
    "sparsegpt": _of_layer,
    "sparsegpt_report": _of_layer,
    "prune_mask_gd": lambda context, function: [iterate(context)],
}
"""What shows the precision of functions that are not enclosed."""


def _right(context: Context, function: str, sample: Sample, answer: Answer) -> bool:
    return (
        context.misshapen(function, sample, answer) is None
        and judge(function, sample, answer.parts).verdict == "passed"
    )


def _passes(context: Context, function: str, sample: Sample) -> bool | None:
    """Return True where the function is right on a sample; None if it gives no answer."""
    try:
        return _right(context, function, sample, context.answer(function, sample))
    except SubjectLost:
        raise
    except NoAnswer:
        return None


def _probe_order(context: Context, function: str) -> None:
    """Positional parameters under other names may come in another order."""
    required = len(FUNCTIONS[function].arguments) - FUNCTIONS[function].defaults
    given = context.binding(function).order[:required]
    sample, other = context.samples("full", function)[:2]
    if len(given) < 2 or _passes(context, function, sample):
        return
    for order in _orders(given):
        context.of(function).order = order
        try:
            if all(_right(context, function, one, context.ask(function, one)) for one in (sample, other)):
                context.forget(function)
                return
        except SubjectLost:
            break
        except NoAnswer:
            continue
    context.of(function).order = ()


def _orders(given: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Every other order of up to three parameters; of more those with the tokens or the weights elsewhere."""
    if len(given) <= 3:
        yield from (order for order in permutations(given) if order != given)
        return
    masks = [name for name in given if name.startswith(("M", "V"))]
    weights = [name for name in given if name.startswith("W")]
    pairs = [name for pair in zip(masks, weights, strict=False) for name in pair]
    groups = {tuple(masks), tuple(masks[::-1])}
    for first in sorted(groups):
        for order in permutations((first, tuple(weights), ("X",))):
            yield tuple(name for group in order for name in group)
    yield from (("X", *pairs), (*pairs, "X"))


def _probe_masks(context: Context, function: str) -> None:
    """A subject that is right with bool masks only."""
    masked = context.samples("causal", function)
    if not masked or "mask" not in FUNCTIONS[function].arguments:
        return
    sample = masked[0]
    right = _passes(context, function, sample)
    known = context.known(function, sample)
    wrong_shape = known is not None and context.misshapen(function, sample, known) is not None
    if right or sample.mask is None or wrong_shape or (known is not None and _roughly(function, sample, known)):
        return
    try:
        answer = context.ask(function, sample, mask=sample.mask == 1)
    except SubjectLost:
        raise
    except NoAnswer:
        return
    if context.misshapen(function, sample, answer) is None and _roughly(function, sample, answer):
        context.of(function).boolean_masks = "refuses" if right is None else "misreads"
        context.forget(function)


def _roughly(function: str, sample: Sample, answer: Answer) -> bool:
    """Right, or as right as without a mask: within what float32 would explain."""
    return judge(function, sample, answer.parts).verdict == "passed" or all(
        np.linalg.norm(part - truth) <= 1e-3 * np.linalg.norm(truth)
        for part, truth in zip(answer.parts, _truth(function, sample), strict=True)
    )


def _truth(function: str, sample: Sample) -> list[NDArray[np.float64]]:
    return [part.value for part in reference(function, sample)]


def _probe_precision(context: Context, function: str) -> None:
    """Choose the finest precision in which the function is right, if none is declared and errors look like rounding."""
    if context.declared.declared:
        return
    asked = [sample for regime in _BENIGN for sample in context.samples(regime, function)]
    observed = [Observation(sample, parts) for sample, parts in context.well_formed(function, asked)]
    if not observed or all(_acceptable(function, one) for one in observed):
        return
    for precision in _coarser(context.declared):
        context.of(function).coarser = precision
        again = [sample for regime in _BENIGN for sample in context.samples(regime, function)]
        answered = context.well_formed(function, again)
        fine = [Observation(sample, parts) for sample, parts in answered]
        if len(answered) == len(again) and fine and all(_acceptable(function, one) for one in fine):
            rounded = "low-precision" in diagnose(function, observed, pairs=False).ids
            if rounded and not (precision.short and smoothly_wrong(context, function)):
                return
            break
    context.of(function).coarser = None
    shown = _shown_precision(context, function, _answered_on(context, function, asked))
    if shown is not None:
        context.of(function).coarser = shown


def _answered_on(context: Context, function: str, some: list[Sample]) -> list[NDArray[np.float64]]:
    """All arrays that were returned on these instances."""
    return [part for _, parts in context.well_formed(function, some) for part in parts]


def _shown_precision(context: Context, function: str, returned: list[NDArray[np.float64]]) -> Precision | None:
    """The coarser precision that a function shows, right or wrong: all it returns are numbers of that format."""
    entries = np.concatenate([np.ravel(part).astype(float) for part in returned]) if returned else np.zeros(0)
    entries = np.unique(entries[np.isfinite(entries)])
    if len(entries) < _TELLING:
        return None
    for precision in reversed(list(_coarser(context.declared))):
        if np.array_equal(precision.exact(entries), entries):
            return precision if not np.array_equal(np.round(entries * 64), entries * 64) else None
    return None


def smoothly_wrong(context: Context, function: str) -> bool:
    """Return True where the error follows the inputs: a wrong formula's does, that of rounding to 16 bits does not.

    Every number is changed by up to two hundredths, which is many units in the last place of 16 bits.
    """
    known = context.of(function)
    if known.smooth is None:
        errors: list[NDArray[np.float64]] = []
        for place, sample in enumerate(one for regime in _BENIGN for one in context.samples(regime, function)):
            rng = np.random.default_rng(place)
            arrays = {name: getattr(sample, name) for name in ARRAYS}
            near = {name: (1 + _MOVED * rng.uniform(-1, 1, one.shape)) * one for name, one in arrays.items()}
            pair = context.well_formed(function, (sample, sample.changed(**near).exact()))
            off = [
                np.concatenate(
                    [(part - truth).ravel() for part, truth in zip(parts, _truth(function, one), strict=True)]
                )
                for one, parts in pair
            ]
            errors += [np.stack(off)] if len(off) == 2 else []
        first, again = np.concatenate(errors, axis=1) if errors else np.zeros((2, 1))
        known.smooth = bool(np.linalg.norm(first - again) < _KEPT * np.linalg.norm(first))
    return known.smooth


def _errors(function: str, sample: Sample, parts: tuple[NDArray[np.float64], ...]) -> NDArray[np.float64]:
    return np.concatenate([(part - truth).ravel() for part, truth in zip(parts, _truth(function, sample), strict=True)])


def _coarser(than: Precision) -> Iterator[Precision]:
    """The coarser precisions, finest first, in the arrays the subject is given anyway."""
    ordered = sorted(PRECISIONS.values(), key=lambda one: one.unit_roundoff)
    return (one.carried_by(than.carrier) for one in ordered if one.unit_roundoff > than.unit_roundoff)


def _acceptable(function: str, observation: Observation) -> bool:
    parts = tuple(part for part in observation.parts if part is not None)
    return judge(function, observation.sample, parts).verdict in ("passed", "inconclusive")
