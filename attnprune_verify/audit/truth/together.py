"""Instances of the fused weight in which features stand together: all pairs of mask, size, precision, M, lam, batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from attnprune_verify.audit.covering import covering
from attnprune_verify.audit.truth.precision import FLOAT32, Precision
from attnprune_verify.audit.truth.sample import (
    MaskMaker,
    Sample,
    banded,
    causal,
    documents,
    make_sample,
    one_key,
    scattered,
)

__all__ = ["CHANGES_OF_M", "together"]

_MASKS: tuple[MaskMaker | None, ...] = (None, causal, scattered, banded, one_key, documents)
_BINARY = "binary"
# What M is: uniform between two numbers, of 0 and 1, or close to 1.
CHANGES_OF_M: tuple[Any, ...] = ((0.1, 0.9), (-1.0, 2.0), _BINARY, (1 - 1e-4, 1 + 1e-4))
_TABLE: dict[str, tuple[Any, ...]] = {
    "mask": _MASKS,
    "size": ((5, 4), (17, 5), (40, 3)),
    "precision": (None, FLOAT32),
    "M": CHANGES_OF_M,
    "lam": (0.3, 0.0),
    "largest": (4.0,),
}
# Of batches the sizes are small: what a batch does to a mask shows on nine tokens.
_BATCHES = {
    **_TABLE, "k": (2, 3), "size": ((5, 4), (17, 2)), "precision": (None,), "M": CHANGES_OF_M[:2], "lam": (0.3,)
}  # fmt: skip
# Past the usual blocks, one mask each.
_LONG: tuple[MaskMaker, ...] = (causal, banded, one_key, documents)


def together(seed: int, precision: Precision, batches: bool = False) -> Iterator[Sample]:
    """Every pair of levels in a few instances; what is asked of batches is apart, since many functions take none."""
    for place, row in enumerate(covering(_BATCHES if batches else _TABLE)):
        yield _made(f"{'batch-' * batches}together-{place}", seed, row, row["precision"] or precision)
    for mask in () if batches else _LONG:
        options: dict[str, Any] = {"mask": mask, "lam": 0.01, "largest": 4.0, "precision": precision}
        yield make_sample(f"together-{mask.__name__}", seed, 140, 2, **options)


def _made(name: str, seed: int, row: dict[str, Any], precision: Precision) -> Sample:
    binary = row["M"] == _BINARY
    options = {key: row[key] for key in ("mask", "lam", "largest")}
    n, d = row["size"]
    pruning = (0.1, 0.9) if binary else row["M"]
    if row["M"] == CHANGES_OF_M[-1] and precision.unit_roundoff > 2.0**-40:
        pruning = (0.97, 1.03)  # nearer, a coarser precision decides nothing
    sample = make_sample(name, seed, n, d, pruning=pruning, k=row.get("k"), precision=precision, **options)
    kept = {one: (getattr(sample, one) > 0.4) * 1.0 for one in ("M", "M_Q", "M_K")} if binary else {}
    return sample.changed(**{one: np.asarray(value) for one, value in kept.items()})
