"""Name the mistake: which known wrong formula, alone or with another, gives exactly what was returned?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import TypeAlias

import numpy as np

from attnprune_verify.audit.functions.layer.sample import LayerSample
from attnprune_verify.audit.functions.naming.describing import cut_off, described, wrong_entries
from attnprune_verify.audit.functions.naming.exponential import logit_factor, smooth_in_distance
from attnprune_verify.audit.functions.naming.fitting import (
    LISTED,
    Fit,
    Observation,
    compared,
    fits,
    matches,
    same_as_right,
    telling,
)
from attnprune_verify.audit.functions.naming.mistakes import MISTAKES, Mistake
from attnprune_verify.audit.functions.truth.formulas import RIGHT, Array, Steps
from attnprune_verify.audit.functions.truth.precision import FLOAT32, PRECISIONS, Precision
from attnprune_verify.audit.functions.truth.reference import MAPS, reference
from attnprune_verify.audit.functions.truth.samples import Sample
from attnprune_verify.audit.mistakes import SENTENCES, explained
from attnprune_verify.audit.naming.words import format_factor
from attnprune_verify.audit.record import Diagnosis

Attempt: TypeAlias = "Callable[[str, list[Observation]], Diagnosis | None]"

_VARIANTS = 3  # chosen: of a mistake, in pairs, whose number is the square of all
_TURNED = {"gradient-transposed": "transposed", "gradient-symmetrised": "symmetrised"}


def diagnose(
    function: str,
    observations: list[Observation],
    *,
    pairs: bool = True,
    precision: bool | str = True,
    known: tuple[str, ...] = (),
) -> Diagnosis:
    """Compare the result with the known wrong formulas, alone and in pairs; without a match, describe the error.

    `precision` is whether rounding in a coarser format is an explanation; "float32": in this one only.
    With `known` ids only their formulas are tried, which is cheap, and factors.

    Parts of a result that are right are left aside; parts that are wrong each in their own way are named one by one.
    """
    if not any(part is not None and np.isfinite(part).any() for o in observations for part in o.parts):
        return Diagnosis(("unknown",), described(function, observations))  # too many formulas give nan
    wrong = _wrong_parts(function, observations)
    if known:
        quick: list[Attempt] = [_exchanged, _formulas_of(known), _one_factor, _factors_alone]
        named = _named(function, _only(observations, wrong), quick)
        return named or Diagnosis(("unknown",), SENTENCES["unknown"])
    attempts: list[Attempt] = [_exchanged, *_NOTHING, _one_factor, _one_formula, _factors_alone, _with_a_constant]
    attempts += [_low_precision] * (precision is True) + [_in_float32] * (precision == "float32")
    attempts += [_leaking, _formula_with_factors] + [_two_formulas] * pairs
    whole = _named(function, _only(observations, wrong), attempts)
    if whole is not None:
        return whole
    if len(wrong) > 1:
        singly = [attempt for attempt in attempts if attempt is not _two_formulas]
        each = [_named(function, _only(observations, [index]), singly) for index in wrong]
        if all(one is not None for one in each):
            found = [one for one in each if one is not None]
            ids = tuple(dict.fromkeys(id for one in found for id in one.ids))
            return Diagnosis(ids, "; and ".join(dict.fromkeys(one.words for one in found)))
    return Diagnosis(("unknown",), described(function, observations))


def _named(function: str, observations: list[Observation], attempts: list[Attempt]) -> Diagnosis | None:
    for attempt in attempts:
        found = attempt(function, observations)
        if found is not None:
            return found
    return None


def _wrong_parts(function: str, observations: list[Observation]) -> list[int]:
    every = list(range(len(reference(function, observations[0].sample)) if observations else 1))
    pairs = {index: compared(function, _only(observations, [index])) for index in every}
    wrong = [i for i in every if any(wrong_entries(part, one.value, one.bound).any() for part, one in pairs[i])]
    return wrong or every


def _only(observations: list[Observation], parts: list[int]) -> list[Observation]:
    """The observations restricted to some parts."""
    return [
        Observation(o.sample, tuple(part if index in parts else None for index, part in enumerate(o.parts)))
        for o in observations
    ]


def _exchanged(function: str, observations: list[Observation]) -> Diagnosis | None:
    """The right arrays in the wrong order."""
    if function not in ("factored_gradient", "layer_gradient"):
        return None
    for observation in observations:
        for part, truth in zip(observation.parts, reversed(reference(function, observation.sample)), strict=True):
            if part is None or part.shape != truth.value.shape or wrong_entries(part, truth.value, truth.bound).any():
                return None
    return _worded([("parts-exchanged", "")]) if observations else None


def _all_zero(function: str, observations: list[Observation]) -> Diagnosis | None:
    """Return True where the result is all zeros and the truth is not; no wrong factor explains this."""
    for observation in observations:
        looked_at = list(compared(function, [observation]))
        if any(part.any() for part, _ in looked_at) or not any(truth.value.any() for _, truth in looked_at):
            return None
    return _worded([("zero-output", "")]) if observations else None


def _all_the_same(function: str, observations: list[Observation]) -> Diagnosis | None:
    """One number, everywhere, on several instances."""
    numbers = {number for part, _ in compared(function, observations) for number in np.unique(part)}
    several = len(observations) >= _SEVERAL and len({o.sample.seed + o.sample.work for o in observations}) > 1
    return _worded([("constant-output", f"{numbers.pop():g}")]) if several and len(numbers) == 1 else None


def _leaking(function: str, observations: list[Observation]) -> Diagnosis | None:
    """Attention that is right but for what it gives to forbidden positions, however little that is."""
    if function not in MAPS:
        return None
    seen = False
    for observation in observations:
        (part,), (truth,) = observation.parts, reference(function, observation.sample)
        if part is None or not np.isfinite(part).all() or (part < 0).any():
            return None
        forbidden = (truth.value == 0) & (truth.bound == 0)
        wrong = wrong_entries(part, truth.value, truth.bound)
        if (wrong & ~forbidden).any():
            return None
        seen |= bool(wrong.any())
    return _worded([("mask-leaks", "")]) if seen else None


_NOTHING: tuple[Attempt, ...] = (_all_zero, _all_the_same)
_SEVERAL = 3  # chosen: instances on which one number is no accident


def _one_factor(function: str, observations: list[Observation]) -> Diagnosis | None:
    """Factors that are the same everywhere; those that vary may be a formula's."""
    if not telling(function, observations, 20 * LISTED**2):
        return None
    fit = fits(function, observations, RIGHT, "right")
    if fit is None:
        return None
    varying = [column[~np.isnan(column)] for column in np.array(fit.factors).reshape(len(fit.factors), -1).T]
    if any(column.size and np.ptp(column) > 1e-6 * np.abs(column).max() for column in varying):
        return None
    ids = _ids_of_factors(function, observations, fit)
    return _worded(list(ids.items())) if ids else None


def _factors_alone(function: str, observations: list[Observation]) -> Diagnosis | None:
    fit = fits(function, observations, RIGHT, "right") if telling(function, observations, 20, free=2) else None
    ids = _ids_of_factors(function, observations, fit) if fit is not None else {}
    return _worded(list(ids.items())) if ids else None


def _with_a_constant(function: str, observations: list[Observation]) -> Diagnosis | None:
    """Logits times a constant, something smooth for exp, entries cut off: none is rounding."""
    factor = logit_factor(function, observations)
    if factor is not None:
        return _worded([("logit-scale", factor)])
    if smooth_in_distance(function, observations):
        return _worded([("approximate-exp", "")])
    cut = cut_off(function, observations)
    return None if cut is None else _worded([("gradient-clipped", cut)])


def _candidates(function: str, observations: list[Observation]) -> Iterator[tuple[Mistake, Steps]]:
    for mistake in MISTAKES:
        steps = {**RIGHT, **mistake.steps}
        if mistake.applies(function) and not same_as_right(function, observations, steps, mistake, RIGHT):
            yield mistake, steps


def _one_formula(function: str, observations: list[Observation]) -> Diagnosis | None:
    if not telling(function, observations, len(MISTAKES)):
        return None
    for mistake, steps in _candidates(function, observations):
        if matches(function, observations, steps, mistake):
            return _worded([(mistake.id, mistake.detail)])
    return None


def _formulas_of(known: tuple[str, ...]) -> Attempt:
    """Only the formulas of some ids."""

    def attempt(function: str, observations: list[Observation]) -> Diagnosis | None:
        if not telling(function, observations, len(MISTAKES)):
            return None
        for mistake in (one for one in MISTAKES if one.id in known and one.applies(function)):
            if matches(function, observations, {**RIGHT, **mistake.steps}, mistake):
                return _worded([(mistake.id, mistake.detail)])
        return None

    return attempt


def _formula_with_factors(function: str, observations: list[Observation]) -> Diagnosis | None:
    if not telling(function, observations, len(MISTAKES), free=2):
        return None
    for mistake, steps in _candidates(function, observations):
        fit = fits(function, observations, steps, mistake)
        if fit is None:
            continue
        ids = _ids_of_factors(function, observations, fit)
        if _TURNED.get(mistake.id) == fit.regularizer:
            ids.pop(mistake.id, None)  # with its regulariser, of course
        elif not ids:
            continue
        if "dense-target-uses-M" not in ids:
            return _worded([(mistake.id, mistake.detail), *ids.items()])
    return None


def _two_formulas(function: str, observations: list[Observation]) -> Diagnosis | None:
    if not telling(function, observations, len(MISTAKES) ** 2 // 2):
        return None
    first = [min(observations, key=lambda observation: observation.sample.work)] if observations else []
    plain: list[Mistake] = []
    seen: Counter[str] = Counter()
    for mistake, _ in _candidates(function, observations):
        seen[mistake.id] += 1
        if seen[mistake.id] <= _VARIANTS and not mistake.alone:  # the rarer variants of a mistake are tried alone only
            plain.append(mistake)
    for one, two in combinations(plain, 2):
        if one.id == two.id or set(one.steps) & set(two.steps):
            continue
        steps = {**RIGHT, **one.steps, **two.steps}
        if matches(function, first, steps, None) and matches(function, observations, steps, None):
            return _worded([(one.id, one.detail), (two.id, two.detail)])
    return None


def _in_float32(function: str, observations: list[Observation]) -> Diagnosis | None:
    return _low_precision(function, observations, (FLOAT32,))


def _low_precision(
    function: str,
    observations: list[Observation],
    formats: tuple[Precision, ...] = (FLOAT32, PRECISIONS["float16"], PRECISIONS["bfloat16"]),
) -> Diagnosis | None:
    """Most entries are off by what rounding in a coarser format does, and none by more."""
    alone = len(observations) < 3
    for precision in formats:
        u = precision.unit_roundoff
        if precision != FLOAT32 and any(part is None for one in observations for part in one.parts):
            break  # what is right to full precision beside it was not computed in 16 bits
        coarser = all(u > one.sample.unit_roundoff for one in observations)
        looks = coarser and all(_rounded_to(function, one, precision, alone) for one in observations)
        if looks and (alone or _both_signs(function, observations)):
            return _worded([("low-precision", f"the error is that of {precision.name}")])
    return None


def _both_signs(function: str, observations: list[Observation]) -> bool:
    """Rounding errors go both ways; an added epsilon does not."""
    errors = [(part - truth.value).ravel() for part, truth in compared(function, observations)]
    return bool(errors) and np.concatenate(errors).min() < 0 < np.concatenate(errors).max()


def _rounded_to(function: str, observation: Observation, precision: Precision, alone: bool) -> bool:
    typical, u = False, precision.unit_roundoff
    wider = u / observation.sample.unit_roundoff
    for part, truth in compared(function, [observation]):
        error = np.abs(part - truth.value)
        size = float(np.linalg.norm(truth.value))
        coarse = np.minimum(wider * truth.bound, 1.0 + size) + 2 * u * np.abs(truth.value)
        # What cancels to little shows the roundings of what it came from, which is of the size of 1.
        off, cancelled = float(np.linalg.norm(error)), 1e-3 * u
        if not (error <= coarse).all() or off > 40 * u * (size + 0.1 * (off > cancelled)):
            return False
        # One number, or one instance, may be off by that much for any reason, unless it is stored in that precision.
        stored = bool((precision.carried_by("float64").exact(part) == part).all())
        enough = stored or precision == FLOAT32 or (part.size > 1 and not alone)
        typical |= enough and 2 * int((error > truth.bound).sum()) >= int(np.count_nonzero(truth.value))
    return typical


def _ids_of_factors(function: str, observations: list[Observation], fit: Fit) -> dict[str, str]:
    """Return the ids of factors other than 1; for attention itself they have no name."""
    ids: dict[str, str] = {}
    if function in MAPS:
        return ids
    for index, pairs in enumerate(np.moveaxis(np.array(fit.factors), 1, 0)):
        loss = function in ("loss", "factored_loss", "layer_loss") or (function == "loss_and_gradient" and index == 0)
        a, b = (column[~np.isnan(column)] for column in pairs.T)
        ids |= _ids_of_form(fit.regularizer, b)
        whole = False  # whether the regulariser has the same factor
        if _is(a, 0):
            ids["dense-target-uses-M"] = "the attention part is 0"
        elif _is(a, -1) and not loss:
            whole = _is(b, -1)
            ids["gradient-sign"] = "of everything" if whole else ""
        elif _differs(a, 1):
            other = _no_factor(function, index, observations, pairs[:, 0])
            if other is not None:
                return other
            ids["loss-scale" if loss or function.endswith("relative_error") else "gradient-scale"] = _factor(a)
            both = pairs[~np.isnan(pairs).any(axis=1)]
            whole = bool(both.size) and np.allclose(both[:, 0], both[:, 1], rtol=1e-6)
        wrong = b[np.abs(b - 1) > _ONE]  # on the other instances it may well be right
        if wrong.size and not whole and fit.regularizer == "right":
            ids |= {"missing-regularizer": ""} if _is(wrong, 0) else {"regularizer-scale": _factor(b)}
    return ids


def _ids_of_form(form: str, factors: Array) -> dict[str, str]:
    """Return the id of a wrong form of the regulariser."""
    if form.endswith("alone"):
        return {"missing-regularizer": f"it is {form}"}
    if form == "right" or not _differs(factors, 0):
        return {}
    if form == "not squared":
        return {"regularizer-not-squared": ""}
    turned = [id for id, one in _TURNED.items() if one == form]
    return {turned[0]: "the regulariser's part"} if turned else {"regularizer-scale": f"it is {form}"}


def _no_factor(function: str, index: int, observations: list[Observation], column: Array) -> dict[str, str] | None:
    """Mistakes that only look like factors of the attention term, with details; None where a factor is wrong."""
    scaled = [(o.sample, factor) for o, factor in zip(observations, column, strict=True) if factor == factor]
    wrong = [(sample, factor) for sample, factor in scaled if abs(factor - 1) > _ONE]
    if all(abs(factor) < _ZERO for _, factor in wrong):
        return {}  # it vanishes on some instances only, which no factor does
    if all(_summed(sample, factor) for sample, factor in scaled if factor != 1):
        return {"batch-not-averaged": "right for one sample; sums over batches, the contract averages"}
    if function == "layer_gradient" and all(_unscaled(sample, factor) for sample, factor in scaled):
        return {"scale-missing-in-gradient": f"in G_{'QK'[index]}"}
    return None


def _summed(sample: Sample, factor: float) -> bool:
    """Return True where a factor is that of a sum over the batch, or of an average of averages."""
    k = sample.X.shape[0] if sample.X.ndim == 3 else 1
    return k > 1 and min(abs(factor - k), abs(factor - 1 / k)) < 1e-5


def _unscaled(sample: Sample, factor: float) -> bool:
    """Return True where a factor is what leaving out the scale gives."""
    return isinstance(sample, LayerSample) and abs(factor * sample.factor - 1) < 1e-6 < abs(factor - 1)


_ZERO, _ONE = 1e-9, 1e-12
"""Within which a fitted factor is a whole number, and is 1: factors are fitted to rounding, and snapped to 1."""


def _is(values: Array, number: float) -> bool:
    return bool(values.size) and bool((np.abs(values - number) < _ZERO).all())


def _differs(values: Array, number: float) -> bool:
    return bool((np.abs(values - number) > _ONE).any())


def _factor(values: Array) -> str:
    low, high = float(values.min()), float(values.max())
    same = high - low <= 1e-6 * abs(high)
    return f"factor {format_factor(low)}" if same else f"factor between {low:.3g} and {high:.3g}"


def _worded(found: list[tuple[str, str]]) -> Diagnosis:
    words = [explained(id, detail) for id, detail in found]
    return Diagnosis(tuple(dict.fromkeys(id for id, _ in found)), "; and ".join(dict.fromkeys(words)))
