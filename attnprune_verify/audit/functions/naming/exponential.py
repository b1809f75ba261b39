"""Logits with one constant factor, whatever it is, and another function of the logits in the place of exp.

A temperature is no rounding: it is the same on every instance, and its error follows the inputs. It is found by Gauss
and Newton from the best of a few starts, and has to give everything observed to rounding. A polynomial for exp is told
by this: what it makes of a row depends on the distance to the row's largest logit alone, and smoothly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.functions.naming.fitting import Observation, matches, telling
from attnprune_verify.audit.functions.naming.structural_mistakes import right_product
from attnprune_verify.audit.functions.truth.formulas import RIGHT, Array, Step, Steps, attention_part
from attnprune_verify.audit.functions.truth.reference import MAPS, reference
from attnprune_verify.audit.naming.words import follows_curve, format_factor

_STARTS = np.geomspace(0.05, 20.0, 13)
_FITTED, _TURNS = 6, 12  # observations of the fit, and its steps
_FORMULAS = 50.0  # starts and places: so many formulas are tried
_NUMBERS = 4  # that one factor has to explain
_SLOPES = ("gradient", "loss_and_gradient", "factored_gradient", "layer_gradient", "hessian_vector_product")


def _places(function: str) -> Iterator[tuple[str, Callable[[float], dict[str, Step]]]]:
    """The places where a factor may stand, and the steps that have it there."""

    def factors(*places: str) -> Callable[[float], dict[str, Step]]:
        return lambda a: dict.fromkeys(places, lambda sample: a * sample.factor)

    yield "", factors("scale", "dense_scale", "slope_scale")
    if function in MAPS:
        return
    yield "in F(M) only", factors("scale", "slope_scale")
    yield "in F(1) only", factors("dense_scale")
    if function in _SLOPES:
        yield "in the logits only", factors("scale", "dense_scale")
        yield "in the logits of F(M) only", factors("scale")
    if function == "hessian_vector_product":
        yield "in both", lambda a: {**factors("scale", "dense_scale")(a), "product": right_product}


def logit_factor(function: str, observations: list[Observation]) -> str | None:
    """The factor of the logits that gives everything observed, in words; None if there is none.

    Examples
    --------
    >>> from attnprune_verify.audit.functions.truth.samples_for import asked_samples
    >>> samples = asked_samples("attention", 0, "full")
    >>> steps = {**RIGHT, "scale": lambda sample: 1.0005 * sample.factor}
    >>> logit_factor("attention", [Observation(one, attention_part("attention", one, steps)) for one in samples])
    'factor 1.0005'
    """
    numbers = sum(part.size for one in observations for part in one.parts if part is not None)
    if numbers < _NUMBERS or not telling(function, observations, int(_FORMULAS), free=1):
        return None
    few = sorted(observations, key=lambda one: one.sample.work)[:_FITTED]
    regular = [_regularisers(function, one) for one in few]
    for where, steps_of in _places(function):

        def gap(a: float, steps_of: Callable[[float], Steps] = steps_of) -> NDArray[np.float64]:
            return _gap(function, few, regular, {**RIGHT, **steps_of(a)})

        with np.errstate(all="ignore"):
            factor = _fitted(gap)
        if factor is None or not matches(function, observations, {**RIGHT, **steps_of(factor)}, None):
            continue
        if not matches(function, observations, RIGHT, None):
            return f"factor {format_factor(factor)}{f' {where}' if where else ''}"
    return None


def _regularisers(function: str, one: Observation) -> list[Array]:
    right = attention_part(function, one.sample, RIGHT)
    return [part.value - ours for part, ours in zip(reference(function, one.sample), right, strict=True)]


def _gap(function: str, few: list[Observation], regular: list[list[Array]], steps: Steps) -> NDArray[np.float64]:
    found = []
    for one, terms in zip(few, regular, strict=True):
        formula = attention_part(function, one.sample, steps)
        for part, ours, term in zip(one.parts, formula, terms, strict=True):
            if part is not None and part.shape == ours.shape:
                size = max(float(np.linalg.norm(part)), 1e-300)
                found.append(np.ravel(part - ours - term) / size)
    return np.concatenate(found) if found else np.full(1, np.nan)


def _fitted(gap: Callable[[float], NDArray[np.float64]]) -> float | None:
    """The factor with the smallest gap, by Gauss and Newton; None where it runs away."""
    sizes = [float(np.linalg.norm(gap(float(start)))) for start in _STARTS]
    if not np.isfinite(sizes).any():
        return None
    a = float(_STARTS[int(np.nanargmin(sizes))])
    for _ in range(_TURNS):
        here = gap(a)
        slope = (gap(a * (1 + 1e-7)) - gap(a * (1 - 1e-7))) / (2e-7 * a)
        curvature = float(slope @ slope)
        if not np.isfinite(curvature) or curvature == 0.0:
            return None
        a -= float(np.clip(slope @ here / curvature, -0.5 * a, a))
    return a


def smooth_in_distance(function: str, observations: list[Observation]) -> bool:
    """Return True where a function other than exp makes a row's weights from the distances to its largest logit."""
    if function != "attention":
        return False
    distances, errors = [], []
    for one in observations:
        (part,) = one.parts
        if (
            part is None
            or part.ndim != 2
            or one.sample.X.ndim == 3
            or not (np.isfinite(part).all() and (part >= 0).all())
        ):
            return False
        allowed = one.sample.allowed
        if part[~allowed].any():
            return False
        X, W = one.sample.X.astype(float), one.sample.W.astype(float)
        logits = np.where(allowed, X @ W @ X.T, -np.inf)
        top = logits.argmax(axis=1)[:, None]
        z = logits - np.take_along_axis(logits, top, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.log(part / np.take_along_axis(part, top, axis=1)) - z
        seen = allowed & (z < 0) & (z > -5.0) & np.isfinite(error)
        distances.append(z[seen])
        errors.append(error[seen])
    z, error = np.concatenate(distances), np.concatenate(errors)
    return follows_curve(z, error) and bool(np.abs(error).max() > 1e-12)
