"""The layers an audit is made on: one feature at a time, then all of them together.

Regimes that a fused weight has too carry the same names, so that one check asks both.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from attnprune_verify.audit.covering import covering
from attnprune_verify.audit.functions.layer.sample import LayerSample, make_layer_sample
from attnprune_verify.audit.functions.truth.precision import FLOAT32, FLOAT64, Precision, near_one
from attnprune_verify.audit.functions.truth.sample import banded, documents, one_key, scattered
from attnprune_verify.audit.functions.truth.samples import (
    CHANGES_OF_M,
    degenerate,
    drawn_options,
    masks_of,
    nearer,
    pruning_of,
)
from attnprune_verify.instance.rope import RoPE

LAYER_SAYS = {
    "full": "right values for one head without a mask",
    "causal": "right values with the causal mask, for one head and several",
    "given-mask": "right values with scattered and banded masks",
    "several-heads": "right values for several heads: head h owns columns h*m .. (h+1)*m - 1",
    "groups": "right values where query head h reads key head h // (heads / kv_heads)",
    "biases": "right values with biases of queries, of keys, of both",
    "scale": "right values for a scale other than 1/sqrt(m)",
    "rope-half": "right values with rotary positions, pairs (a, a + m/2)",
    "rope-interleaved": "right values with rotary positions, pairs (2a, 2a + 1)",
    "rope-scaling": "right values with scaled rotary positions (linear and llama3)",
    "window": "right values with a sliding window, causal and not",
    "softcap": "right values with capped logits",
    "alibi": "right values with linear biases per head",
    "all-features": "right values with groups, biases, rotations, window, cap and slopes at once",
    "one-token": "right values for n = 1",
    "one-feature": "right values for d = 1 and for m = 1",
    "n>d": "right values with more tokens than features",
    "n<d": "right values with more features than tokens",
    "outside-box": "right values for masks outside [0, 1]",
    "binary-M": "right values for masks of 0 and 1",
    "unpruned": "right values at M_Q = M_K = 1",
    "M-near-1": "right values for masks close to 1",
    "M-zero": "right values where one of the masks is 0",
    "lam-zero": "right values for lam = 0",
    "lam-large": "right values for lam from 1 to 40",
    "small-logits": "right values for logits of 1e-3 and less",
    "sharp": "right values for logits of 15 and 30",
    "degenerate": "right values for zero and repeated tokens and zero weights",
    "float32": "right values in float32",
    "larger": "right values up to n = 70 and d = 33",
    "batch": "a batch is the average over its samples (relative errors: a ratio of sums)",
    "logits-100": "stable for logits of 100",
    "logits-1000": "stable for logits of 1000",
    "logits-1000-float32": "stable for logits of 1000 in float32",
    "offset-logits": "stable where all logits of a row are near +-900",
    "batch-logits-1000": "a batch with large logits",
    "together": "right values for all pairs of the features that are accepted",
    "batch-together": "the same of batches",
}
_LLAMA3 = {
    "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8,
}  # fmt: skip
_LINEAR = {"rope_type": "linear", "factor": 2.0}
_HALF, _PAIRS = RoPE(100.0, "half"), RoPE(100.0, "interleaved")


def _offset(sample: LayerSample, size: float) -> LayerSample:
    """Shift all logits near `size` without changing their differences, so that only exp is tested."""
    X, holed = sample.X.copy(), {name: getattr(sample, name).copy() for name in ("W_Q", "W_K", *LayerSample.MASKS)}
    X[:, 0] = 1.0
    for h in range(sample.heads):
        own = slice(h * sample.m, (h + 1) * sample.m)
        for name in ("W_Q", "W_K"):
            holed[name][0, own], holed[name][:, h * sample.m] = 0.0, 0.0
        holed["W_Q"][0, h * sample.m], holed["W_K"][0, h * sample.m] = size / sample.factor, 1.0
        for name in LayerSample.MASKS:
            holed[name][0, h * sample.m] = 1.0
    return sample.changed(X=X, **holed)


@lru_cache(maxsize=8)
def layer_regimes(seed: int, precision: Precision = FLOAT64) -> dict[str, tuple[LayerSample, ...]]:
    """The instances of every regime; the same seed gives the same numbers."""
    asked = {
        regime: tuple(sample.exact() for sample in made if precision.covers(sample.precision))
        for regime, made in _drawn(seed, precision).items()
    }
    if precision.short:
        asked = {**asked, "small-logits": (), "M-near-1": ()}
    return {regime: tuple(one for one in made if one.precision.holds(*one.largest)) for regime, made in asked.items()}


def _drawn(seed: int, precision: Precision) -> dict[str, tuple[LayerSample, ...]]:
    def make(name: str, *sizes: int, **options: Any) -> LayerSample:
        return make_layer_sample(f"layer-{name}", seed, *sizes, **{"precision": precision, **options})

    single, wide = {"precision": FLOAT32}, {"pruning": (-2.0, 3.0)}
    every: dict[str, Any] = {"biases": "QK", "causal": True, "window": 4, "softcap": 1.5, "alibi": True, "scale": 0.6}
    return {
        "full": (make("5x4", 5, 4, 3), make("4x6", 4, 6, 2, lam=0.07), make("9x3", 9, 3, 4, largest=6.0)),
        "causal": (
            make("causal-5x4", 5, 4, 3, causal=True),
            make("causal-9x3", 9, 3, 2, largest=6.0, causal=True),
            make("causal-5x4-heads", 5, 4, 2, 3, causal=True, lam=0.07),
        ),
        "given-mask": (
            make("scattered-5x4", 5, 4, 3, mask=scattered),
            make("banded-4x6-heads", 4, 6, 2, 2, mask=banded),
            make("scattered-9x3", 9, 3, 4, largest=4.0, mask=scattered),
        ),
        "several-heads": (make("5x4-heads", 5, 4, 2, 3), make("4x6-heads", 4, 6, 3, 2, largest=6.0)),
        "groups": (
            make("groups-5x4", 5, 4, 2, 4, 2),
            make("groups-4x6-causal", 4, 6, 2, 3, 1, causal=True),
            make("groups-5x4-six", 5, 4, 1, 6, 2, lam=0.0),
        ),
        "biases": (
            make("biases-5x4", 5, 4, 3, biases="QK"),
            make("biases-4x6-queries", 4, 6, 2, 2, biases="Q"),
            make("biases-5x4-keys", 5, 4, 2, 2, biases="K", causal=True),
        ),
        "scale": (make("scale-5x4", 5, 4, 3, scale=1.0), make("scale-4x6", 4, 6, 2, 2, scale=0.3, causal=True)),
        "rope-half": (make("half-9x3", 9, 3, 4, rope=_HALF), make("half-5x4", 5, 4, 4, 2, rope=_HALF, causal=True)),
        "rope-interleaved": (
            make("interleaved-9x3", 9, 3, 4, rope=_PAIRS),
            make("interleaved-5x4", 5, 4, 4, 2, rope=_PAIRS, causal=True),
        ),
        "rope-scaling": (
            make("llama3-9x3", 9, 3, 8, rope=RoPE(30.0, "half", _LLAMA3)),
            make("linear-5x4", 5, 4, 4, rope=RoPE(100.0, "half", _LINEAR), causal=True),
        ),
        "window": (make("window-9x3", 9, 3, 2, 2, window=3), make("window-5x4", 5, 4, 3, window=2, causal=True)),
        "softcap": (
            make("capped-5x4", 5, 4, 3, softcap=1.0),
            make("capped-9x3", 9, 3, 2, 2, softcap=3.0, largest=6.0, causal=True),
        ),
        "alibi": (make("sloped-9x3", 9, 3, 2, 2, alibi=True), make("sloped-5x4", 5, 4, 3, alibi=True, causal=True)),
        "all-features": (
            make("all-9x3", 9, 3, 4, 4, 2, rope=_HALF, **every),
            make("all-5x4", 5, 4, 2, 2, 1, rope=_PAIRS, **{**every, "causal": False, "mask": scattered}, k=3),
        ),
        "one-token": (make("one-token", 1, 4, 2, 2),),
        "one-feature": (make("one-feature", 5, 1, 1, 2), make("one-feature-a-head", 5, 4, 1, 3, causal=True)),
        "n>d": (make("tall-9x3-heads", 9, 3, 2, 3), make("tall-16x2", 16, 2, 3, 2, causal=True, largest=4.0)),
        "n<d": (make("wide-3x16", 3, 16, 4, 4), make("wide-4x6", 4, 6, 8, causal=True)),
        "outside-box": (
            make("outside-5x4", 5, 4, 3, **wide),
            make("outside-5x4-heads", 5, 4, 2, 3, causal=True, **wide),
            make("negative-4x6", 4, 6, 2, pruning=(-1.5, -0.1)),
        ),
        "binary-M": (
            make("binary-5x4", 5, 4, 3).masked(lambda M: (M > 0.4) * 1.0),
            make("binary-5x4-heads", 5, 4, 2, 3, causal=True).masked(lambda M: (M > 0.4) * 1.0),
        ),
        "unpruned": (
            make("ones-5x4", 5, 4, 3).masked(np.ones_like),
            make("ones-5x4-heads", 5, 4, 2, 3).masked(np.ones_like),
        ),
        "M-near-1": tuple(
            one.masked(nearer(size))
            for one, nearest in (
                (make("near-5x4", 5, 4, 3, lam=0.0), 1e-4),
                (make("near-5x4-heads", 5, 4, 2, 3, lam=0.0, causal=True), 1e-6),
            )
            for size in near_one(precision, nearest)
        ),
        "M-zero": (
            make("zero-5x4-queries", 5, 4, 3).masked(np.zeros_like, ("M_Q",)),
            make("zero-5x4-keys", 5, 4, 2, 3, causal=True).masked(np.zeros_like, ("M_K",)),
        ),
        "lam-zero": (make("lam-zero-5x4", 5, 4, 3, lam=0.0), make("lam-zero-heads", 5, 4, 2, 3, lam=0.0, causal=True)),
        "lam-large": (
            make("lam-1-5x4", 5, 4, 3, lam=1.0),
            make("lam-3-heads", 5, 4, 2, 3, lam=3.0, causal=True),
            make("lam-40-4x6", 4, 6, 2, lam=40.0),
        ),
        "small-logits": (
            make("small-5x4", 5, 4, 3, largest=1e-3, lam=0.0),
            make("small-heads", 5, 4, 2, 3, largest=1e-5, lam=0.0, causal=True),
        ),
        "sharp": (make("sharp-5x4", 5, 4, 3, largest=15.0), make("sharp-9x3", 9, 3, 2, 2, largest=30.0, causal=True)),
        "degenerate": (
            degenerate(make("degenerate-5x4", 5, 4, 3)),
            degenerate(make("degenerate-heads", 9, 3, 2, 3, causal=True)),
        ),
        "float32": (
            make("float32-5x4", 5, 4, 3, **single),
            make("float32-heads", 5, 4, 2, 3, causal=True, **single),
            make("float32-9x3", 9, 3, 4, lam=0.0, **wide, **single),
        ),
        "larger": (make("larger-24x16", 24, 16, 8, 2, largest=4.0), make("larger-70x33", 70, 33, 4, causal=True)),
        "batch": (
            make("batch-3x5x4", 5, 4, 3, k=3),
            make("batch-2x5x4-heads", 5, 4, 2, 3, k=2, causal=True),
            make("batch-1x5x4", 5, 4, 3, k=1),
            make("batch-5x4x6", 4, 6, 2, 2, k=5, lam=1.5),
        ),
        "logits-100": (
            make("logits-100-5x4", 5, 4, 3, largest=100.0),
            make("logits-100-9x3", 9, 3, 2, 2, largest=100.0, causal=True),
        ),
        "logits-1000": (
            make("logits-1000-5x4", 5, 4, 3, largest=1000.0),
            make("logits-1000-9x3", 9, 3, 2, 2, largest=1000.0, causal=True),
        ),
        "logits-1000-float32": (
            make("logits-1000-float32", 5, 4, 3, largest=1000.0, **single),
            make("logits-1000-float32-heads", 9, 3, 2, 3, largest=1000.0, causal=True, **single),
            make("logits-1000-float32-wide", 9, 3, 4, largest=1000.0, **single),
        ),
        "offset-logits": (
            _offset(make("offset-plus", 5, 4, 3), 900.0),
            _offset(make("offset-minus", 5, 4, 2, 2, causal=True), -900.0),
        ),
        "batch-logits-1000": (make("batch-logits-1000", 5, 4, 3, k=3, largest=1000.0),),
    }


def drawn_layer(seed: int, index: int, precision: Precision = FLOAT64) -> LayerSample:
    """One of arbitrarily many random layers: every size of logits, pruning and regulariser, some with a feature."""
    rng = np.random.default_rng([seed, index, 98])
    n, d, m, heads, kv_heads = ((5, 4, 2, 3, 3), (4, 6, 4, 2, 1), (9, 3, 4, 1, 1))[index % 3]
    feature: dict[str, Any] = (
        {}, {}, {"causal": True}, {"causal": True, "biases": "QK"}, {"mask": scattered}, {"softcap": 2.0},
        {"alibi": True}, {"causal": True, "window": 3}, {"scale": 0.7}, {"rope": _HALF}, {"rope": _PAIRS},
    )[index % 11]  # fmt: skip
    if m % 2:
        feature.pop("rope", None)
    options = {**drawn_options(rng), "precision": precision, **feature}
    return make_layer_sample(f"layer-random-{index}", seed, n, d, m, heads, kv_heads, **options).exact()


@lru_cache(maxsize=4)
def large_layers(seed: int, precision: Precision = FLOAT64) -> tuple[LayerSample, ...]:
    """A few layers past the usual blocks, none of whose sizes is a multiple of one."""
    kinds: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
        ((70, 130, 6, 5), {"causal": True}),
        ((300, 20, 4, 2), {"mask": scattered}),
        ((1100, 3, 2), {"causal": True}),
        ((3, 1100, 20, 3), {}),
    )
    options = {"largest": 4.0, "lam": 0.0, "precision": precision}
    return tuple(_large(seed, sizes, {**options, **more}) for sizes, more in kinds)


def _large(seed: int, sizes: tuple[int, ...], options: dict[str, Any]) -> LayerSample:
    return make_layer_sample(f"layer-size-{sizes[0]}x{sizes[1]}", seed, *sizes, **options).exact()


_CAUSAL = "causal"
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
# The levels that a refusal takes out of the table.
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
_MOST_LONG = 4  # chosen: few, since each has as many positions as ten small ones


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
    asked = (sample for sample in made if precision.covers(sample.precision))
    return tuple(sample.exact() for sample in asked if sample.precision.holds(*sample.largest))


def _accepted(table: dict[str, tuple[Any, ...]], refused: frozenset[str]) -> dict[str, tuple[Any, ...]]:
    found = dict(table)
    for feature in refused & set(_LEVELS):
        factor, levels = _LEVELS[feature]
        found[factor] = tuple(level for level in found[factor] if level not in levels)
    return found


def _made(name: str, seed: int, row: dict[str, Any], precision: Precision) -> LayerSample:
    n, d, m = row["size"]
    given = row["mask"]
    made = make_layer_sample(
        name, seed, n, d, m, *row["heads"], biases=row["biases"], scale=row["scale"], rope=row["rope"],
        window=row["window"], softcap=row["softcap"], alibi=row["alibi"], causal=given == _CAUSAL,
        mask=None if given == _CAUSAL else given, lam=row["lam"], k=row.get("k"), precision=precision,
        pruning=pruning_of(row, precision),
    )  # fmt: skip
    sample = masks_of(row, made)
    empty = np.asarray(~sample.allowed.any(axis=1))
    if empty.any() and sample.mask is not None:
        sample = sample.changed(mask=np.where(empty[:, np.newaxis] & np.eye(n, dtype=bool), 1.0, sample.mask))
    return sample
