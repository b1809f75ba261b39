"""Instances beyond the regimes: arbitrarily many random small ones, and a few large ones."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from attnprune_verify.audit.truth.precision import FLOAT64, Precision
from attnprune_verify.audit.truth.samples import MaskMaker, Sample, banded, causal, make_sample, scattered

__all__ = ["drawn", "large_samples"]

_MASKS: tuple[MaskMaker | None, ...] = (None, causal, scattered, None, banded)
_SHAPES = ((5, 4), (4, 6), (9, 3))  # of a few shapes only: a compiling subject pays for each new one


def drawn(seed: int, index: int, precision: Precision = FLOAT64) -> Sample:
    """One of arbitrarily many random instances: every size of logits, pruning, regulariser and mask."""
    rng = np.random.default_rng([seed, index, 99])
    n, d = _SHAPES[index % len(_SHAPES)]
    options: dict[str, Any] = {
        "largest": float(np.exp(rng.uniform(-1.0, 2.3))),
        "mask": _MASKS[index % len(_MASKS)],
        "pruning": ((0.1, 0.9), (-0.5, 1.5), (0.6, 1.4))[rng.integers(3)],
        "lam": float(rng.choice([0.0, 0.05, 0.5, 1.5])),
    }
    return make_sample(f"random-{index}", seed, n, d, precision=precision, **options).exact()


@lru_cache(maxsize=4)
def large_samples(seed: int, precision: Precision = FLOAT64) -> tuple[Sample, ...]:
    """A few instances past the usual blocks of 64, 128, 256, 512 and 1024, none of whose sizes is a multiple of one."""
    kinds: tuple[tuple[int, int, MaskMaker | None], ...] = (
        (70, 130, causal),
        (300, 20, None),
        (523, 5, scattered),
        (1100, 3, causal),
        (3, 1100, None),
    )
    # A regulariser over 10^6 entries would hide everything else.
    options: dict[str, Any] = {"largest": 4.0, "precision": precision}
    return tuple(
        make_sample(f"size-{n}x{d}", seed, n, d, mask=mask, lam=0.0 if d > 20 else 0.01, **options).exact()
        for n, d, mask in kinds
    )
