"""Mistakes that leave the logits aside, the row sum out, or forbidden positions a little: all are wrong softmaxes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

import numpy as np

from attnprune_verify.audit.naming.mistake import Mistake
from attnprune_verify.audit.truth.formulas import Array, masked_softmax

__all__ = ["weight_mistakes"]

Softmax: TypeAlias = Callable[..., Array]


def _uniform(A: Array, allowed: Array, given: bool) -> Array:
    """1/m at the m allowed positions of a row, whatever the logits."""
    return np.asarray(masked_softmax(np.zeros_like(A), allowed))


def _unnormalised(A: Array, allowed: Array, given: bool, *, shifted: bool) -> Array:
    highest = np.where(allowed, A.real, -np.inf).max(axis=1, keepdims=True) if shifted else 0.0
    return np.asarray(np.where(allowed, np.exp(A - highest), 0.0))


def _lowered(A: Array, allowed: Array, given: bool, *, epsilon: float) -> Array:
    """log(mask + epsilon) added to the logits."""
    return masked_softmax(A + np.log(allowed + epsilon) if given else A, np.ones_like(allowed))


def weight_mistakes() -> Iterator[Mistake]:
    """In both softmaxes first, then in F(M) or in F(1) alone."""
    softmaxes: dict[str, tuple[str, Softmax]] = {
        "every allowed position gets 1/m": ("uniform-attention", _uniform),
        "shifted exponentials": ("not-normalised", partial(_unnormalised, shifted=True)),
        "bare exponentials": ("not-normalised", partial(_unnormalised, shifted=False)),
    }
    for detail, (id, softmax) in softmaxes.items():
        yield Mistake(id, {"softmax": softmax, "dense_softmax": softmax}, detail)
        yield Mistake(id, {"softmax": softmax}, f"{detail}, in F(M) only")
        yield Mistake(id, {"dense_softmax": softmax}, f"{detail}, in F(1) only")
    for power in range(-3, -13, -1):
        lowered = partial(_lowered, epsilon=10.0**power)
        yield Mistake("mask-leaks", {"softmax": lowered, "dense_softmax": lowered}, f"log(mask + 1e{power}) is added")
