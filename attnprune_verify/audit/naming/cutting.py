"""Gradients that are cut off: what was returned tells the bound, its largest entry."""

from __future__ import annotations

import numpy as np

from attnprune_verify.audit.naming.fitting import Observation, tolerances
from attnprune_verify.audit.truth.formulas import RIGHT, Array
from attnprune_verify.audit.truth.parts import attention_part
from attnprune_verify.audit.truth.reference import reference

__all__ = ["cut_off"]

_FEWEST = 3  # entries at the bound, and entries within it
_CUT = ("gradient", "loss_and_gradient", "factored_gradient", "layer_gradient", "hessian_vector_product")


def cut_off(function: str, observations: list[Observation]) -> str | None:
    """How entries were cut off, in words: all of them, or before the regulariser; None if they were not.

    Examples
    --------
    >>> from attnprune_verify.audit.truth.asked import asked_samples
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
