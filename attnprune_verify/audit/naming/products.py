"""Mistakes of Hessian-vector products: terms of the second derivative that are left out, added, or scaled."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from attnprune_verify.audit.naming.mistake import HVP, Mistake
from attnprune_verify.audit.truth.formulas import Array

__all__ = ["product_mistakes", "right_product"]


def _rows(product: Array) -> Array:
    return np.asarray(product.sum(axis=1, keepdims=True))


def right_product(c: Array, F: Array, dF: Array, dz: Array) -> Array:
    """The derivative dp of p in the direction of dF."""
    return np.asarray(dF * F + c * dF - _rows(dF * F + c * dF) * F - _rows(c * F) * dF)


def product_mistakes() -> Iterator[Mistake]:
    """Wrong second derivatives."""

    rows, right = _rows, right_product
    partial: dict[str, Callable[..., Array]] = {
        "Gauss-Newton": lambda c, F, dF, dz: dF * F - rows(dF * F) * F,
        "without dF*F": lambda c, F, dF, dz: c * dF - rows(c * dF) * F - rows(c * F) * dF,
        "without diag((c*F)1)dF": lambda c, F, dF, dz: dF * F + c * dF - rows(dF * F + c * dF) * F,
        "without c*dF": lambda c, F, dF, dz: dF * F - rows(dF * F) * F - rows(c * F) * dF,
        "without c*dF outside the row sum": lambda c, F, dF, dz: right(c, F, dF, dz) - c * dF,
        "without c*dF in the row sum": lambda c, F, dF, dz: dF * F + c * dF - rows(dF * F) * F - rows(c * F) * dF,
        "without dF*F in the row sum": lambda c, F, dF, dz: dF * F + c * dF - rows(c * dF) * F - rows(c * F) * dF,
        "diag((c*F)1)dF added": lambda c, F, dF, dz: right(c, F, dF, dz) + 2 * rows(c * F) * dF,
        "the row sum added": lambda c, F, dF, dz: right(c, F, dF, dz) + 2 * rows(dF * F + c * dF) * F,
        "without the row sum": lambda c, F, dF, dz: dF * F + c * dF - rows(c * F) * dF,
        "without dF(c - (c*F)1)": lambda c, F, dF, dz: dF * F - rows(dF * F + c * dF) * F,
        "dF = F*dz": lambda c, F, dF, dz: right(c, F, F * dz, dz),
        "F(1) - F(M) for F(M) - F(1)": lambda c, F, dF, dz: right(-c, F, dF, dz),
    }
    for detail, product in partial.items():
        yield Mistake("curvature-term-missing", {"product": product}, detail, only=HVP)
    columns: dict[str, Callable[..., Array]] = {
        "product": lambda c, F, dF, dz: right(c, F, F * (dz - (F * dz).sum(axis=0, keepdims=True)), dz)
    }
    yield Mistake("correction-wrong-axis", columns, "in dF", only=HVP)
    masked: dict[str, Callable[..., Array]] = {"product": right, "pull": lambda Y, W, M: M * W * Y}
    yield Mistake("hadamard-uses-masked-W", masked, only=HVP)
    yield Mistake("missing-hadamard-W", {"product": right, "direction": lambda V, W: V}, "in the direction", only=HVP)
    yield Mistake("weight-transposed", {"product": right, "direction": lambda V, W: V.T * W}, "V transposed", only=HVP)
    halves: dict[str, Callable[..., Array]] = {"product": right, "direction": lambda V, W: (V + V.T) / 2 * W}
    yield Mistake("gradient-symmetrised", halves, "V is", only=HVP)
