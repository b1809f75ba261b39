"""Estimates of time: operations by the maps' sizes, over rates measured here; and what budgets may take."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

__all__ = [
    "OF_PRUNING",
    "Size",
    "curve_operations",
    "judged_tokens",
    "matmul_rate",
    "pass_operations",
    "reconstruction_operations",
    "solver_operations",
]

_ITERATIONS, _REFIT = 30, 10
"""Steps of the splitting and of the refit (docs/output_obs.md, section 4)."""
_EIGH = 25
"""Operations of an eigendecomposition, in units of n^3: 4/3 for the reduction, about 9 for the vectors, at a rate lower
than a product's by a factor two to three (LAPACK's syevd)."""
_PASSES = 7
"""Passes of a token through a map, each 2 in out operations: 1 dense, 1 before and 1 after pruning, and 2 backward
passes, for the loss and the probe, that cost 2 each."""
_STEP = 8
"""Operations a weight and token of a step of reconstruction: 2 forward, 4 backward, 2 for the dense block's output."""
_SIZE = 512
"""Rows of the product that is timed; chosen: a millisecond, and as fast as larger ones."""
OF_PRUNING = 0.125
"""Chosen: what judging may take of pruning's operations, less than the steps of reconstruction, in which time is better
spent: against half of them it leaves 1.02 and 1.01 of the KL without steps on the model of the tests (two draws)."""
_FEWEST, _MOST = 64, 1024
"""Tokens that are judged; chosen: with 256 of them budgets were as good as with 1024 on the model of
the tests (0.306 and 0.311 of SparseGPT's KL); fewer than 64 would be one sentence."""


class Size(NamedTuple):
    """A map: outputs, inputs, and blocks of outputs between which the metric keeps no products."""

    out: int
    into: int
    blocks: int


def solver_operations(sizes: Iterable[Size]) -> float:
    """Operations of pruning maps of these sizes by output-obs."""
    total = 0.0
    for out, into, blocks in sizes:
        m = out // blocks
        rotation = 2.0 * out * into * (into + m)
        total += _EIGH * (into**3 + blocks * m**3) + (2 * _ITERATIONS + 2 * _REFIT) * rotation
    return total


def pass_operations(sizes: Iterable[Size], tokens: int) -> float:
    """Operations of all passes of `tokens` tokens through these maps, and of their inputs' moments."""
    return sum(tokens * (_PASSES * 2.0 * out * into + 2.0 * into**2) for out, into, _ in sizes)


def reconstruction_operations(sizes: Iterable[Size], tokens: float) -> float:
    """Operations of reconstruction on `tokens` tokens: all windows of all steps together."""
    return _STEP * tokens * sum(out * into for out, into, _ in sizes)


def curve_operations(sizes: Iterable[Size], judged: int, maps: int, head: int) -> float:
    """Operations of judging `maps` maps one by one: on average half of the blocks, and the head."""
    return judged * maps * (sum(out * into for out, into, _ in sizes) + 2.0 * head)


def judged_tokens(sizes: Sequence[Size], tokens: int, maps: int, head: int) -> int:
    """Return as many tokens as can be judged in an eighth of the operations of pruning itself, from 64 to 1024.

    Parameters
    ----------
    sizes : of all maps
    tokens : int
        Calibration tokens.
    maps : int
        How many maps, or groups of maps, are judged.
    head : int
        Weights of the map to the logits.
    """
    allowed = OF_PRUNING * (solver_operations(sizes) + pass_operations(sizes, tokens))
    return int(min(max(allowed / max(curve_operations(sizes, 1, maps, head), 1.0), _FEWEST), _MOST))


def matmul_rate(seconds: float = 0.05) -> float:
    """Operations a second of a product in float64, measured for so long."""
    a = np.random.default_rng(0).standard_normal((_SIZE, _SIZE))
    start, products = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        a @ a
        products += 1
    return products * 2.0 * _SIZE**3 / (time.perf_counter() - start)
