"""Errors without a name: where they are, what the wrong numbers look like, where gradients are cut off."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from attnprune_verify.audit.functions.naming.fitting import Observation, compared, tolerances
from attnprune_verify.audit.functions.truth.formulas import RIGHT, Array, attention_part
from attnprune_verify.audit.functions.truth.reference import reference
from attnprune_verify.audit.functions.truth.tolerance import judge
from attnprune_verify.audit.mistakes import SENTENCES
from attnprune_verify.audit.naming.words import format_factor


def described(function: str, observations: list[Observation]) -> str:
    """Describe an error without a name by the properties of the wrong numbers."""
    said: list[str] = []
    each = [[(part, one.value, one.bound) for part, one in compared(function, [o])] for o in observations]
    for name, property_of in _PROPERTIES.items():
        if each and all(any(property_of(*parts) for parts in one) for one in each):
            said.append(name)
    ratios = list(_ratios(function, observations))
    same = len(ratios) > 1 and np.ptp(ratios) <= 1e-9 * abs(ratios[0])  # of one number something is always true
    if same and abs(ratios[0] - 1) > 1e-14:
        said.append(f"everything returned is {format_factor(ratios[0])} times what is right")
    return ", ".join(said) if said else SENTENCES["unknown"]


def summed_up(function: str, observations: list[Observation]) -> str:
    """Describe the failing instances run until now: their number, what they have in common, two extremes.

    Nothing where none is wrong. For functions that have no call left for an experiment.
    """
    judged = [(one.sample, judge(function, one.sample, tuple(p for p in one.parts if p is not None)))
              for one in observations]  # fmt: skip
    wrong = [(sample, one) for sample, one in judged if one.verdict in ("failed", "suspect")]
    if not wrong:
        return ""
    right = [sample.extras for sample, one in judged if one.verdict == "passed"]
    common = frozenset.intersection(*(sample.extras for sample, _ in wrong))
    telling = sorted(common - frozenset.intersection(*right)) if right else []
    smallest = min((sample for sample, _ in wrong), key=lambda sample: sample.work)
    worst, off = max(wrong, key=lambda one: one[1].error)
    shared = f", all with {' and '.join(telling)}" if telling else ""
    return (
        f"{len(wrong)} of {len(judged)} instances so far are wrong{shared}; "
        f"the smallest: {smallest.describe()}; the largest deviation: {off.error:.3g}, on {worst.describe()}"
    )


def _ratios(function: str, observations: list[Observation]) -> Iterator[float]:
    """Factors of the truth that give what was returned; nan where none does."""
    for part, truth in compared(function, observations):
        if np.linalg.norm(truth.value) > 0:
            ratio = float((part * truth.value).sum() / (truth.value**2).sum())
            same = np.linalg.norm(part - ratio * truth.value) <= 1e-12 * np.linalg.norm(part)
            yield ratio if same else np.nan


def wrong_entries(part: Array, truth: Array, bound: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.asarray(~(np.abs(part - truth) <= bound + 1e-13 * np.abs(truth)))


def _in_one(axis: int) -> Callable[[Array, Array, Array], bool]:
    def property_of(part: Array, truth: Array, bound: Array) -> bool:
        if part.ndim < 2 or part.shape[axis] < 2:
            return False
        wrong = wrong_entries(part, truth, bound).any(axis=1 - axis) if part.ndim == 2 else np.zeros(0, dtype=bool)
        return int(wrong.sum()) == 1

    return property_of


_PROPERTIES: dict[str, Callable[[Array, Array, Array], bool]] = {
    "exactly one entry is wrong": lambda part, truth, bound: (
        part.size > 1 and int(wrong_entries(part, truth, bound).sum()) == 1
    ),
    "exactly one row is wrong": _in_one(0),
    "exactly one column is wrong": _in_one(1),
    "only the diagonal is wrong": lambda part, truth, bound: (
        part.ndim == 2
        and part.shape[0] > 1
        and bool(wrong_entries(part, truth, bound).any())
        and not (wrong_entries(part, truth, bound) & (np.eye(*part.shape) == 0)).any()
    ),
    "everything returned is 0": lambda part, truth, bound: not part.any() and bool(truth.any()),
    "the result is symmetric though the truth is not": lambda part, truth, bound: (
        part.ndim == 2
        and part.shape[0] == part.shape[1] > 1
        and np.allclose(part, part.T, rtol=1e-12, atol=0)
        and not np.allclose(truth, truth.T, rtol=1e-6)
    ),
    "the result is not finite": lambda part, truth, bound: not np.isfinite(part).all(),
    "the error is below 1 % of the norm": lambda part, truth, bound: (
        0 < np.linalg.norm(part - truth) < 0.01 * np.linalg.norm(truth)
    ),
}


_FEWEST = 3  # entries at the bound, and entries within it
_CUT = ("gradient", "loss_and_gradient", "factored_gradient", "layer_gradient", "hessian_vector_product")


def cut_off(function: str, observations: list[Observation]) -> str | None:
    """Describe how entries were cut off: all of them, or before the regulariser; None if they were not.

    Examples
    --------
    >>> from attnprune_verify.audit.functions.truth.samples_for import asked_samples
    >>> samples = asked_samples("gradient", 0, "full")
    >>> cut = [np.clip(reference("gradient", one)[0].value, -0.05, 0.05) for one in samples]
    >>> cut_off("gradient", [Observation(one, (part,)) for one, part in zip(samples, cut)])
    'every entry lies between -0.05 and 0.05'
    """
    if function not in _CUT:
        return None
    returned: list[Array] = []
    whole: list[Array] = []
    attention: list[Array] = []
    allowed: list[float] = []
    for one in observations:
        right = attention_part(function, one.sample, RIGHT)
        limits = tolerances(function, one.sample)
        for part, truth, ours, limit in zip(one.parts, reference(function, one.sample), right, limits, strict=True):
            if part is None or part.ndim != 2:
                continue
            if part.shape != truth.value.shape or not np.isfinite(part).all():
                return None
            returned.append(part)
            whole.append(truth.value)
            attention.append(ours)
            allowed.append(limit)
    if not returned:
        return None
    regular = [value - ours for value, ours in zip(whole, attention, strict=True)]
    bound = _bound(returned, whole, allowed)
    if bound is not None:
        return f"every entry lies between {-bound:.4g} and {bound:.4g}"
    before = [part - term for part, term in zip(returned, regular, strict=True)]
    bound = _bound(before, attention, allowed)
    if bound is not None:
        return f"before the regulariser, every entry lies between {-bound:.4g} and {bound:.4g}"
    return None


def _bound(cut: list[Array], right: list[Array], allowed: list[float]) -> float | None:
    """The bound that makes the right arrays what they are."""
    bound = max(float(np.abs(part).max()) for part in cut)
    beyond = sum(int((np.abs(part) > bound).sum()) for part in right)
    if min(beyond, sum(part.size for part in right) - beyond) < _FEWEST:
        return None
    pairs = zip(cut, right, allowed, strict=True)
    near = (np.linalg.norm(part - np.clip(true, -bound, bound)) <= limit for part, true, limit in pairs)
    return bound if all(near) else None
