"""Inputs that a trained network makes, of which random ones have nothing: stored small, derived by a command.

q, k and v of 33 tokens in the small Llama of tests/data (4 query heads, 2 key heads, 16 features), after the rotation
by position: ``python -m benchmarks.real_inputs`` writes them, and a test computes them again. They are here for

* block 0: a token that comes again has the same value row and a rotated key, and all logits are within 1/60 of 0. What
  holds positions with equal values for one is wrong here alone.
* block 1: keys lie close to each other, 0.13 of their length where no random ones of 16 features and more come closer
  than 0.33; a feature's mean is up to ten times its deviation, four singular values hold nine tenths of their squares,
  and most logits are negative. What merges keys that are nearly equal is wrong here alone.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from attnprune_verify.audit.kernel.problem.sample import Array, Regime
from attnprune_verify.audit.kernel.problem.sample_factory import Maker
from attnprune_verify.audit.kernel.problem.tensors import unpacked

STORED = Path(__file__).with_name("real_inputs.safetensors")
BLOCKS = (0, 1)


@cache
def _stored() -> dict[str, Array]:
    return unpacked(STORED.read_bytes(), STORED.name)


def real(maker: Maker) -> tuple[Regime, ...]:
    """Return the regime of real inputs: one key head for each query head, causal, and in groups."""
    made = []
    for block in BLOCKS:
        q, k, v = (_stored()[f"{block}.{name}"][None] for name in "qkv")
        heads, n, m = q.shape[1:]
        for name, own, options in (
            (f"block {block}", q[:, :: heads // k.shape[1]], {}),
            (f"block {block}, causal", q[:, :: heads // k.shape[1]], {"causal": True}),
            (f"block {block}, groups", q, {"causal": True}),
        ):
            sample = maker.make(name, n, m, heads=own.shape[1], kv_heads=k.shape[1], generic=False, **options)
            logits = np.sqrt(sample.shape[5] / m)  # are as large as in the network, whatever the number of features
            arrays = {"q": logits * own, "k": k, "v": v}
            placed = {key: _placed(array, getattr(sample, key).shape) for key, array in arrays.items()}
            made.append(maker.exact(sample, **placed))
    return (Regime("real inputs", "q, k and v of a trained network: equal values, outlier features", tuple(made)),)


def _placed(array: Array, shape: tuple[int, ...]) -> Array:
    """The numbers in another shape: heads and tokens begin anew where there are more of them, more features are 0."""
    found = np.zeros(shape)
    heads, tokens = (np.arange(shape[axis]) % array.shape[axis] for axis in (1, 2))
    features = min(shape[3], array.shape[3])
    found[..., :features] = array[:, heads][:, :, tokens, :features]
    return found
