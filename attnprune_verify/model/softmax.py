"""F by blocks of rows: the row-wise softmax of the logits over the allowed positions (def:attn_matrix).

Queries and keys come as (count, n, m) with one matrix per sample and head; nothing of size n x n is built.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.mask import RowBlock
from attnprune_verify.instance.scores import Bend, ScoreModifier, modify
from attnprune_verify.instance.validate import Array


def quiet() -> np.errstate:
    """Silence NumPy here: underflow of exp is harmless, and the caller detects and reports overflow."""
    return np.errstate(over="ignore", under="ignore", invalid="ignore")


def product(*factors: Array) -> Array:
    """Return the matrix product; the caller detects overflow in the logits and reports its cause."""
    with quiet():
        result = factors[0]
        for factor in factors[1:]:
            result = result @ factor
    return result


def largest_norm(features: Array) -> float:
    """max |v| over all tokens and heads; inf or NaN where it overflows."""
    return math.sqrt(np.einsum("...d,...d->...", features, features).max())


def shift_is_needed(query_norm: float, key_norm: float, dtype: Any, modifiers: Sequence[ScoreModifier] = ()) -> bool:
    """Return True where exp of an unshifted logit might overflow or vanish, by |q . k| <= |q| |k|.

    Leaving out the shift saves two of the passes over every block, and changes nothing else for moderate logits.
    """
    moderate = query_norm * key_norm < (300.0 if dtype == np.float64 else 40.0)  # False for a NaN, too
    return not moderate or (bool(modifiers) and any(modifier.may_lower for modifier in modifiers))


def score_block(
    queries: Array,
    keys: Array,
    block: RowBlock,
    shift: bool = True,
    out: Array | None = None,
    modifiers: Sequence[ScoreModifier] = (),
) -> tuple[Array, Bend | None]:
    """Logits ``u(queries @ keys^T)`` of a block of rows, (count, rows, columns), and the derivatives of u."""
    S: Array = np.matmul(queries[..., block.rows, :], keys[..., block.columns, :].swapaxes(-1, -2), out=out)
    if not modifiers:
        return S, None
    if shift and not np.isfinite(S).all():  # a cap would hide it
        raise InvalidInstance(f"logits must be finite in {S.dtype}; got {S[~np.isfinite(S)][0]}")
    return S, modify(modifiers, S, block)


def softmax_block(
    queries: Array,
    keys: Array,
    block: RowBlock,
    shift: bool = True,
    modifiers: Sequence[ScoreModifier] = (),
) -> Array:
    """Rows of F; (count, rows, columns)."""
    with quiet():
        return bent_softmax(queries, keys, block, shift, modifiers=modifiers)[0]


def bent_softmax(
    queries: Array,
    keys: Array,
    block: RowBlock,
    shift: bool = True,
    modifiers: Sequence[ScoreModifier] = (),
) -> tuple[Array, Bend | None]:
    """Rows of F, (count, rows, columns), and the derivatives of the modified scores; to be called under `quiet`."""
    F, bend = score_block(queries, keys, block, shift, modifiers=modifiers)
    if shift:
        block.fill_forbidden(F, -np.inf)
        highest = F.max(axis=-1, keepdims=True)
        if not np.isfinite(highest).all():
            raise InvalidInstance(f"logits must be finite in {F.dtype}; the largest is {highest.max()}")
        F -= highest
    np.exp(F, out=F)
    if not shift:
        block.fill_forbidden(F, 0.0)
    F /= row_sums(F)  # not times the reciprocal: a row with one position is exactly 1
    return F, bend


def row_sums(A: Array) -> Array:
    """The sums of rows as a column; a matrix product is the fastest way to them."""
    sums: Array = A @ np.ones((A.shape[-1], 1), A.dtype)
    return sums
