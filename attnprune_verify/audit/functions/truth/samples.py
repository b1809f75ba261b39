"""The instances an audit is made on: every regime in which an implementation may go wrong on its own.

Small (n, d <= 16) but for a few; shapes come from a small pool, because a compiling subject pays for each new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from attnprune_verify.audit.covering import covering
from attnprune_verify.audit.functions.truth.precision import FLOAT32, FLOAT64, Precision, near_one
from attnprune_verify.audit.functions.truth.sample import (
    ARRAYS,
    MaskMaker,
    Real,
    Sample,
    banded,
    causal,
    documents,
    inner_features,
    make_sample,
    off_diagonal,
    one_key,
    scattered,
)

__all__ = [
    "ARRAYS", "BENIGN", "CHANGES_OF_M", "REQUIRED", "STABILITY", "MaskMaker", "Sample", "banded", "causal",
    "degenerate", "drawn", "drawn_options", "inner_features", "large_samples", "make_sample", "masks_of", "nearer",
    "pruning_of", "regimes", "samples", "scattered",
]  # fmt: skip

Kind = TypeVar("Kind", bound=Sample)
_MASKS: tuple[MaskMaker | None, ...] = (None, causal, scattered, banded, one_key, documents)
_BINARY = "binary"
# M is uniform between two numbers, of 0 and 1, or close to 1.
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


def _together(seed: int, precision: Precision, batches: bool = False) -> Iterator[Sample]:
    """Every pair of levels in a few instances; batches are separate, since many functions take none."""
    for place, row in enumerate(covering(_BATCHES if batches else _TABLE)):
        yield _made(f"{'batch-' * batches}together-{place}", seed, row, row["precision"] or precision)
    for mask in () if batches else _LONG:
        options: dict[str, Any] = {"mask": mask, "lam": 0.01, "largest": 4.0, "precision": precision}
        yield make_sample(f"together-{mask.__name__}", seed, 140, 2, **options)


def _made(name: str, seed: int, row: dict[str, Any], precision: Precision) -> Sample:
    options = {key: row[key] for key in ("mask", "lam", "largest")}
    pruning = pruning_of(row, precision)
    made = make_sample(name, seed, *row["size"], pruning=pruning, k=row.get("k"), precision=precision, **options)
    return masks_of(row, made)


def pruning_of(row: dict[str, Any], precision: Precision) -> tuple[float, float]:
    """The range of the masks of a row of levels."""
    if row["M"] == CHANGES_OF_M[-1] and precision.unit_roundoff > 2.0**-40:
        return 0.97, 1.03  # nearer, a coarser precision decides nothing
    least, most = (0.1, 0.9) if row["M"] == _BINARY else row["M"]
    return least, most


def masks_of(row: dict[str, Any], sample: Kind) -> Kind:
    """The sample of a row of levels, with masks of 0 and 1 where the row has them."""
    return sample.masked(lambda M: np.asarray((M > 0.4) * 1.0)) if row["M"] == _BINARY else sample


def _binary(sample: Sample) -> Sample:
    rng = np.random.default_rng(sample.seed)
    return sample.masked(lambda M: (rng.random(M.shape) < 0.6) * 1.0)


def nearer(size: float) -> Callable[[Real], Real]:
    """The change of masks to ones so close to 1 that the loss is tiny, and not 0."""
    return lambda M: np.asarray(1 + size * (M - 0.5))


def _uneven(sample: Sample, factor: float) -> Sample:
    """One sample of a batch with far larger logits than the others."""
    X = sample.X.copy()
    X[0] *= factor
    return sample.changed(X=X)


def degenerate(sample: Kind) -> Kind:
    """A zero token, two equal tokens, zeros in every weight."""
    X, holed = sample.X.copy(), {name: getattr(sample, name).copy() for name in ("W", "W_Q", "W_K")}
    X[0], X[-1] = 0.0, X[1]
    for weight in holed.values():
        weight.flat[::3] = 0.0
    return sample.changed(X=X, **holed)


def _symmetric(sample: Sample) -> Sample:
    return sample.changed(W=(sample.W + sample.W.T) / 2, M=(sample.M + sample.M.T) / 2)


def _offset(sample: Sample, size: float) -> Sample:
    """Shift all logits near `size` without changing their differences, so that only exp is tested."""
    X, W, M = sample.X.copy(), sample.W.copy(), sample.M.copy()
    X[:, 0] = 1.0
    W[0, :], W[:, 0], W[0, 0], M[0, 0] = 0.0, 0.0, size, 1.0
    W_Q, W_K, M_Q, M_K = (getattr(sample, name).copy() for name in ("W_Q", "W_K", "M_Q", "M_K"))
    W_Q[0, :], W_K[0, :], W_Q[:, 0], W_K[:, 0] = 0.0, 0.0, 0.0, 0.0
    W_Q[0, 0], W_K[0, 0], M_Q[0, 0], M_K[0, 0] = size, 1.0, 1.0, 1.0
    return sample.changed(X=X, W=W, M=M, W_Q=W_Q, W_K=W_K, M_Q=M_Q, M_K=M_K)


def _forbidden_giant(sample: Sample, size: float) -> Sample:
    """Make the last token's logits by far the largest, and forbid the token in every row."""
    sample = _offset(sample, 0.0)
    X = sample.X.copy()
    X[-1, 0] = size
    mask = np.tri(sample.n)
    mask[-1, -1] = 0.0
    W, W_Q, W_K = sample.W.copy(), sample.W_Q.copy(), sample.W_K.copy()
    W[0, 0], W_Q[0, 0], W_K[0, 0] = 1.0, 1.0, 1.0
    return sample.changed(X=X, W=W, W_Q=W_Q, W_K=W_K, mask=mask)


def _tokens_times(sample: Sample, factor: float) -> Sample:
    return sample.changed(X=sample.X * factor, W=sample.W / factor**2, W_Q=sample.W_Q / factor**2)


# Regimes whose instances are benign: every entry is decided there, and an overall pass needs them.
BENIGN = ("full", "causal", "given-mask")
REQUIRED = (*BENIGN, "M-near-1")
STABILITY = (
    "logits-100",
    "logits-1000",
    "logits-1000-float32",
    "offset-logits",
    "forbidden-giant",
    "batch-logits-1000",
)


@lru_cache(maxsize=8)
def regimes(seed: int, precision: Precision = FLOAT64) -> dict[str, tuple[Sample, ...]]:
    """The instances of every regime; the same seed gives the same numbers.

    Of a declared precision nothing else is asked; otherwise some are in float32. What a format of 16 bits cannot hold
    is left out.
    """
    every = {
        regime: tuple(sample.exact() for sample in made if precision.covers(sample.precision))
        for regime, made in _drawn(seed, precision).items()
    }
    return {
        regime: tuple(sample for sample in made if sample.precision.holds(*sample.largest))
        if not (precision.short and regime in ("small-loss", "M-near-1"))  # nothing but subnormal numbers
        else ()
        for regime, made in every.items()
    }


def _drawn(seed: int, precision: Precision) -> dict[str, tuple[Sample, ...]]:
    def make(name: str, n: int, d: int, **options: Any) -> Sample:
        return make_sample(name, seed, n, d, **{"precision": precision, **options})

    single = {"precision": FLOAT32}
    wide = {"pruning": (-2.0, 3.0)}
    return {
        "full": (make("full-4x6", 4, 6), make("full-5x4", 5, 4, lam=0.07), make("full-9x3", 9, 3, largest=6.0)),
        "causal": (
            make("causal-5x4", 5, 4, mask=causal),
            make("causal-4x6", 4, 6, mask=causal, lam=0.07, largest=6.0),
            make("causal-2x3", 2, 3, mask=causal),
        ),
        "given-mask": (
            make("scattered-5x4", 5, 4, mask=scattered),
            make("banded-4x6", 4, 6, mask=banded),
            make("off-diagonal-5x4", 5, 4, mask=off_diagonal, lam=0.07),
            make("scattered-6x6", 6, 6, mask=scattered),
        ),
        "n>d": (
            make("tall-9x3", 9, 3),
            make("tall-9x3-causal", 9, 3, mask=causal),
            make("tall-9x3-scattered", 9, 3, mask=scattered),
            make("tall-16x2", 16, 2, largest=4.0),
            make("tall-7x5", 7, 5, mask=causal),
        ),
        "n<d": (
            make("wide-4x6", 4, 6, lam=0.02),
            make("wide-3x16", 3, 16),
            make("wide-3x16-causal", 3, 16, mask=causal),
        ),
        "n=d": (make("square-6x6", 6, 6), make("square-5x5-causal", 5, 5, mask=causal)),
        "one-token": (make("one-token", 1, 4),),
        "one-feature": (make("one-feature", 5, 1), make("one-feature-causal", 5, 1, mask=causal)),
        "outside-box": (
            make("outside-5x4", 5, 4, **wide),
            make("outside-4x6-causal", 4, 6, mask=causal, **wide),
            make("negative-5x4", 5, 4, pruning=(-1.5, -0.1)),
            make("above-5x4", 5, 4, pruning=(1.1, 2.5)),
        ),
        "binary-M": (_binary(make("binary-5x4", 5, 4)), _binary(make("binary-4x6", 4, 6, mask=causal))),
        "unpruned": (
            make("unpruned-5x4", 5, 4).masked(np.ones_like),
            make("unpruned-4x6", 4, 6, mask=causal).masked(np.ones_like),
        ),
        "M-near-1": (
            *(make("near-5x4", 5, 4, lam=0.0).masked(nearer(size)) for size in near_one(precision)),
            *(
                make("near-4x6-causal", 4, 6, lam=0.0, mask=causal).masked(nearer(size))
                for size in near_one(precision, 1e-6)
            ),
        ),
        "M-zero": (
            make("zero-5x4", 5, 4).masked(np.zeros_like),
            make("zero-4x6-causal", 4, 6, mask=causal).masked(np.zeros_like),
        ),
        "lam-zero": (
            make("lam-zero-5x4", 5, 4, lam=0.0),
            make("lam-zero-4x6-causal", 4, 6, lam=0.0, mask=causal),
            make("lam-zero-9x3", 9, 3, lam=0.0, mask=scattered),
        ),
        "lam-large": (
            make("lam-1-5x4", 5, 4, lam=1.0),
            make("lam-3-5x4", 5, 4, lam=3.0, mask=causal),
            make("lam-40-5x4", 5, 4, lam=40.0),
            make("lam-2000-4x6", 4, 6, lam=2000.0),
        ),
        "small-loss": (
            make("small-5x4", 5, 4, largest=1e-3, lam=0.0),
            make("small-4x6-causal", 4, 6, largest=1e-5, lam=0.0, mask=causal),
            make("small-5x4-lam", 5, 4, largest=1e-3, lam=1e-8),
        ),
        "scaled-tokens": (
            _tokens_times(make("big-tokens-5x4", 5, 4), 1000.0),
            _tokens_times(make("tiny-tokens-4x6", 4, 6, mask=causal), 1e-3),
        ),
        "degenerate": (
            degenerate(make("degenerate-5x4", 5, 4)),
            degenerate(make("degenerate-9x3", 9, 3, mask=causal)),
            _symmetric(make("symmetric-5x4", 5, 4)),
            _symmetric(make("symmetric-4x6", 4, 6, mask=causal)),
        ),
        "sharp": (make("logits-15-5x4", 5, 4, largest=15.0), make("logits-30-9x3", 9, 3, largest=30.0, mask=causal)),
        "float32": (
            make("float32-5x4", 5, 4, **single),
            make("float32-4x6-causal", 4, 6, mask=causal, **single),
            make("float32-9x3-scattered", 9, 3, mask=scattered, **single),
            make("float32-outside-5x4", 5, 4, lam=3.0, **single, **wide),
            make("float32-lam-zero-9x3", 9, 3, lam=0.0, **single),
        ),
        "larger": (
            make("larger-24x16", 24, 16, largest=6.0),
            make("larger-16x33", 16, 33, mask=causal),
            make("larger-70x5", 70, 5, mask=causal),
            make("larger-140x3", 140, 3, mask=scattered),
            make("larger-270x2", 270, 2),
            make("larger-4x70", 4, 70, mask=scattered),
        ),
        "logits-100": (
            make("logits-100-5x4", 5, 4, largest=100.0),
            make("logits-100-9x3-causal", 9, 3, largest=100.0, mask=causal),
            make("logits-100-5x4-float32", 5, 4, largest=100.0, **single),
        ),
        "logits-1000": (
            make("logits-1000-5x4", 5, 4, largest=1000.0),
            make("logits-1000-9x3-causal", 9, 3, largest=1000.0, mask=causal),
            make("logits-1000-4x6", 4, 6, largest=1000.0, mask=scattered),
            make("logits-8000-70x5", 70, 5, largest=8000.0),  # far larger than any of the first block of a row
        ),
        "logits-1000-float32": (
            make("logits-1000-5x4-float32", 5, 4, largest=1000.0, **single),
            make("logits-1000-9x3-float32-causal", 9, 3, largest=1000.0, mask=causal, **single),
        ),
        "offset-logits": (
            _offset(make("offset-plus-5x4", 5, 4), 900.0),
            _offset(make("offset-minus-5x4", 5, 4), -900.0),
            _offset(make("offset-minus-9x3-causal", 9, 3, mask=causal), -1000.0),
            # beyond a fill of -1e4 and of -65504; nearer, and with more to see, where coarser numbers decide nothing
            _offset(make("offset-far-minus-5x4", 5, 4, mask=scattered), -70000.0)
            if precision.unit_roundoff < 2.0**-40
            else _offset(make("offset-far-minus-5x4", 5, 4, largest=30.0, lam=0.0, mask=scattered), -10500.0),
            _offset(make("offset-plus-5x4-float32", 5, 4, **single), 120.0),
            _offset(make("offset-minus-5x4-float32", 5, 4, **single), -120.0),
        ),
        "forbidden-giant": (
            _forbidden_giant(make("giant-5x4", 5, 4), 900.0),
            _forbidden_giant(make("giant-9x3", 9, 3), 900.0),
        ),
        "batch": (
            make("batch-3x5x4", 5, 4, k=3),
            make("batch-2x9x3-causal", 9, 3, k=2, mask=causal),
            make("batch-1x5x4", 5, 4, k=1),
            make("batch-3x5x4-lam-large", 5, 4, k=3, lam=3.0),
            make("batch-3x5x4-float32", 5, 4, k=3, **single),
            make("batch-7x4x6", 4, 6, k=7, mask=causal),
            make("batch-5x9x3", 9, 3, k=5),
        ),
        "batch-logits-1000": (
            make("batch-logits-1000-3x5x4", 5, 4, k=3, largest=1000.0),
            _uneven(make("batch-uneven-3x5x4", 5, 4, k=3, mask=causal), 30.0),
        ),
        "together": tuple(_together(seed, precision)),
        "batch-together": tuple(_together(seed, precision, batches=True)),
    }


def samples(seed: int, regime: str, precision: Precision = FLOAT64) -> tuple[Sample, ...]:
    """The instances of one regime."""
    return regimes(seed, precision)[regime]


_DRAWN_MASKS: tuple[MaskMaker | None, ...] = (None, causal, scattered, None, banded)
_SHAPES = ((5, 4), (4, 6), (9, 3))  # of a few shapes only: a compiling subject pays for each new one


def drawn_options(rng: np.random.Generator) -> dict[str, Any]:
    """Any size of logits, pruning and regulariser."""
    return {
        "largest": float(np.exp(rng.uniform(-1.0, 2.3))),
        "pruning": ((0.1, 0.9), (-0.5, 1.5), (0.6, 1.4))[rng.integers(3)],
        "lam": float(rng.choice([0.0, 0.05, 0.5, 1.5])),
    }


def drawn(seed: int, index: int, precision: Precision = FLOAT64) -> Sample:
    """One of arbitrarily many random instances: every size of logits, pruning, regulariser and mask."""
    rng = np.random.default_rng([seed, index, 99])
    n, d = _SHAPES[index % len(_SHAPES)]
    mask = _DRAWN_MASKS[index % len(_DRAWN_MASKS)]
    return make_sample(f"random-{index}", seed, n, d, mask=mask, precision=precision, **drawn_options(rng)).exact()


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
