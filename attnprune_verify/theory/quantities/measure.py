"""Quantities computed once an instance and used by all constants: beta, delta, K, norms and the loss at the start."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from flint import arb

from attnprune_verify.instance.problem import Instance, LayerInstance
from attnprune_verify.theory.numbers.balls import frobenius, precision
from attnprune_verify.theory.quantities.attention_floor import AttentionFloor, attention_floor
from attnprune_verify.theory.quantities.evaluation import attention_squares
from attnprune_verify.theory.quantities.gram import GramFloor, gram_floor
from attnprune_verify.theory.quantities.operator_norm import NormBounds, norm_bounds

_T = TypeVar("_T")
_I = TypeVar("_I", Instance, LayerInstance)


def once_per_instance(function: Callable[[_I], _T]) -> Callable[[_I], _T]:
    """Remember the result as long as the instance lives: instances never change."""
    known: WeakKeyDictionary[_I, _T] = WeakKeyDictionary()

    @wraps(function)
    def remembered(instance: _I) -> _T:
        if instance not in known:
            known[instance] = function(instance)
        return known[instance]

    return remembered


@dataclass(frozen=True)
class Measurements:
    """Balls and exact facts of one instance; over a batch, those of the worst sample.

    Attributes
    ----------
    beta : GramFloor
        lambda_min(X X^T), smallest over the samples.
    floor : AttentionFloor
        delta at the instance's M (1 when it has none).
    dense_floor : AttentionFloor
        The same of the dense attention F(1).
    min_W, max_W : arb
        min |W_ij| and max |W_ij|.
    norm_X, norm_W, norm_M : arb
        Frobenius norms; norm_X the largest over the samples.
    radius : arb
        R = max(1, ||X||_F, ||W||_F).
    """

    beta: GramFloor
    floor: AttentionFloor
    dense_floor: AttentionFloor
    min_W: arb
    max_W: arb
    norm_X: arb
    norm_W: arb
    norm_M: arb
    radius: arb


@once_per_instance
def measure(instance: Instance) -> Measurements:
    """Measure the cheap quantities; `logit_norm` computes K, `start_loss` the loss at the start.

    Examples
    --------
    >>> import numpy as np
    >>> found = measure(Instance(np.eye(2), np.eye(2)))
    >>> float(found.beta.value), float(found.min_W)
    (1.0, 0.0)
    """
    with precision():
        floors = [gram_floor(sample) for sample in instance.samples]
        worst = floors[0]
        for floor in floors[1:]:
            if floor.value < worst.value:
                worst = floor
        at_M = attention_floor(instance)
        at_ones = at_M if instance.M is None else attention_floor(instance, np.ones_like(instance.W))
        norms = [frobenius(sample) for sample in instance.samples]
        norm_X = norms[0]
        for norm in norms[1:]:
            norm_X = arb.max(norm_X, norm)
        norm_W = frobenius(instance.W)
        size = np.abs(instance.W)
        return Measurements(
            beta=worst,
            floor=at_M,
            dense_floor=at_ones,
            min_W=arb(float(size.min())),
            max_W=arb(float(size.max())),
            norm_X=norm_X,
            norm_W=norm_W,
            norm_M=arb(instance.d) if instance.M is None else frobenius(instance.M),
            radius=arb.max(arb(1), arb.max(norm_X, norm_W)),
        )


@once_per_instance
def logit_norm(instance: Instance) -> NormBounds:
    """K = ||Pi A|| from both sides (`operator_norm.norm_bounds`)."""
    return norm_bounds(instance)


@once_per_instance
def start_loss(instance: Instance) -> arb:
    """L(M^(0)) with M^(0) = M where the instance has one, else 1, where the attention term is exactly 0."""
    with precision():
        regulariser = arb(instance.lam) / 2 * measure(instance).norm_M ** 2
        return regulariser + attention_squares(instance) / 2
