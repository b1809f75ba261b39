"""Formulas of score modifiers for the oracles: u(s) written once more, and what bounds its rounding errors."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from autograd import elementwise_grad
from numpy.typing import NDArray

Array = NDArray[np.float64]


class ScoreFormula(NamedTuple):
    """u(s) of one type of modifier, where |u'| <= 1.

    `value` and the bounds are functions of the modifier; `value` computes u(s) with autograd's NumPy. `steepest` bounds
    |u''| and `third` the next derivative. `roundings` counts the roundings of u, relative to u, those of u', relative
    to 1, and those of u'', relative to `steepest`, an error of u that reaches them included: the largest of the three.
    """

    value: Callable[[Any, Any], Any]
    steepest: Callable[[Any], float]
    third: Callable[[Any], float]
    roundings: int


SCORES: dict[type, ScoreFormula] = {}
"""Formulas by the type of the modifier; an oracle that computes with them has `SCORES` in its entry of `ORACLES`."""


def derivatives(score: object, logits: Array) -> tuple[Array, Array, Array]:
    """Return u(s), u'(s) and u''(s) by automatic differentiation."""
    u = SCORES[type(score)].value
    slope = elementwise_grad(lambda s: u(score, s))
    return u(score, logits), slope(logits), elementwise_grad(slope)(logits)
