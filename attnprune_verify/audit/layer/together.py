"""Layers in which features stand together: all pairs of what a subject accepts, in a few instances."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from attnprune_verify.audit.covering import covering
from attnprune_verify.audit.layer.sample import LayerSample, make_layer_sample
from attnprune_verify.audit.truth.precision import FLOAT32, Precision
from attnprune_verify.audit.truth.sample import banded, documents, one_key, scattered
from attnprune_verify.audit.truth.together import CHANGES_OF_M
from attnprune_verify.instance.rope import RoPE

__all__ = ["layers_together"]

_CAUSAL = "causal"
_HALF, _PAIRS = RoPE(100.0, "half"), RoPE(100.0, "interleaved")
_TABLE: dict[str, tuple[Any, ...]] = {
    "mask": (None, _CAUSAL, scattered, banded, one_key, documents),
    "heads": ((1, 1), (2, 2), (4, 2)),
    "biases": ("", "QK", "K"),
    "scale": (None, 0.6),
    "rope": (None, _HALF, _PAIRS),
    "window": (None, 2, 9),
    "softcap": (None, 1.5),
    "alibi": (False, True),
    "size": ((5, 4, 2), (9, 3, 4), (17, 3, 2)),
    "M": CHANGES_OF_M,
    "lam": (0.3, 0.0),
    "precision": (None, FLOAT32),
}
# What a refusal takes out of the table.
_LEVELS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "given-mask": ("mask", (scattered, banded, one_key, documents)),
    "groups": ("heads", ((4, 2),)),
    "biases": ("biases", ("QK", "K")),
    "scale": ("scale", (0.6,)),
    "rope-half": ("rope", (_HALF,)),
    "rope-interleaved": ("rope", (_PAIRS,)),
    "window": ("window", (2, 9)),
    "softcap": ("softcap", (1.5,)),
    "alibi": ("alibi", (True,)),
}
_BATCHES = {**_TABLE, "k": (2, 3), "size": ((5, 4, 2), (9, 3, 4)), "precision": (None,)}
# Past blocks of 16, 32 and 64: with rotations, windows and slopes, as far as they are accepted.
_LONG = {**_TABLE, "size": ((70, 3, 2), (33, 2, 2)), "heads": ((1, 1), (2, 1)), "lam": (0.0,), "precision": (None,)}
_MOST_LONG = 4


@lru_cache(maxsize=32)
def layers_together(
    seed: int, precision: Precision, refused: frozenset[str], batches: bool = False
) -> tuple[LayerSample, ...]:
    """Every pair of levels that is not refused; then a few long ones."""
    rows = list(covering(_accepted(_BATCHES if batches else _TABLE, refused)))
    if not batches:
        rows += list(covering(_accepted({**_LONG, "M": CHANGES_OF_M[:1]}, refused)))[:_MOST_LONG]
    prefix = "layer-batch-together" if batches else "layer-together"
    made = (_made(f"{prefix}-{place}", seed, row, row["precision"] or precision) for place, row in enumerate(rows))
    return tuple(sample.exact() for sample in made if _asked_in(precision, sample))


def _asked_in(precision: Precision, sample: LayerSample) -> bool:
    same = sample.precision == precision
    return (same or not precision.declared) and sample.precision.holds(*sample.largest)


def _accepted(table: dict[str, tuple[Any, ...]], refused: frozenset[str]) -> dict[str, tuple[Any, ...]]:
    found = dict(table)
    for feature in refused & set(_LEVELS):
        factor, levels = _LEVELS[feature]
        found[factor] = tuple(level for level in found[factor] if level not in levels)
    return found


def _made(name: str, seed: int, row: dict[str, Any], precision: Precision) -> LayerSample:
    n, d, m = row["size"]
    binary, given = row["M"] == "binary", row["mask"]
    if row["M"] == CHANGES_OF_M[-1] and precision.unit_roundoff > 2.0**-40:
        row = {**row, "M": (0.97, 1.03)}  # nearer, a coarser precision decides nothing
    sample = make_layer_sample(
        name, seed, n, d, m, *row["heads"], biases=row["biases"], scale=row["scale"], rope=row["rope"],
        window=row["window"], softcap=row["softcap"], alibi=row["alibi"], causal=given == _CAUSAL,
        mask=None if given == _CAUSAL else given, pruning=(0.1, 0.9) if binary else row["M"], lam=row["lam"],
        k=row.get("k"), precision=precision,
    )  # fmt: skip
    if binary:
        sample = sample.changed(M_Q=(sample.M_Q > 0.4) * 1.0, M_K=(sample.M_K > 0.4) * 1.0)
    empty = np.asarray(~sample.allowed.any(axis=1))
    if empty.any() and sample.mask is not None:
        sample = sample.changed(mask=np.where(empty[:, np.newaxis] & np.eye(n, dtype=bool), 1.0, sample.mask))
    return sample
