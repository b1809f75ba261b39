"""Estimates of time: operations by the maps' sizes, over rates measured here; and what budgets may take."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from attnprune_verify.whole_model.plan import Plan

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
_GREEDY = 3.5, 6.0
"""SparseGPT's operations in units of in^3 and of out in^2, at a product's rate: what it takes at the sizes of
Llama-3.2-1B (docs/output_obs.md, section 6)."""
_SHORTEST, _FEWEST_WINDOWS = 256, 8
"""Tokens and windows below which a limit of time does not go; chosen: with fewer the damping of most maps of a
real model is at its limit."""
_SIZE = 512
"""Rows of the product that is timed; chosen: a millisecond, and as fast as larger ones."""
OF_PRUNING = 0.125
"""Chosen: what judging may take of pruning's operations, less than the steps of reconstruction, in which time is better
spent: against half of them it leaves 1.02 and 1.01 of the KL without steps on the model of the tests (two draws)."""
_SLOWEST = 100
"""Times by which a load may slow this process down; chosen: a bound where clocks are coarse."""
_FEWEST, _MOST = 64, 1024
"""Tokens that are judged; chosen: with 256 of them budgets were as good as with 1024 on the model of
the tests (0.306 and 0.311 of SparseGPT's KL); fewer than 64 would be one sentence."""


class Size(NamedTuple):
    """A map: outputs, inputs, and blocks of outputs between which the metric keeps no products."""

    out: int
    into: int
    blocks: int


class ModelSizes(NamedTuple):
    """ModelSizes of a model that is pruned.

    Attributes
    ----------
    maps : sequence of Size
        What is pruned.
    groups : int
        How many maps, or groups of maps, are judged for budgets.
    head : int
        Weights of the map to the logits.
    passed : int
        Weights of blocks that tokens go through although they are not pruned.
    """

    maps: Sequence[Size]
    groups: int
    head: int
    passed: int

    @property
    def weights(self) -> int:
        """The number of weights of `maps`."""
        return sum(out * into for out, into, _ in self.maps)


def solver_operations(sizes: Iterable[Size]) -> float:
    """Operations of pruning maps of these sizes by output-obs."""
    total = 0.0
    for out, into, blocks in sizes:
        m = out // blocks
        rotation = 2.0 * out * into * (into + m)
        total += _EIGH * (into**3 + blocks * m**3) + (2 * _ITERATIONS + 2 * _REFIT) * rotation
    return total


def run_operations(sizes: ModelSizes, windows: int, tokens: int, steps: int, echoes: int, *, budgets: bool) -> float:
    """Operations of passes, of output-obs, the slowest method, for every map, of budgets and of reconstruction.

    Parameters
    ----------
    sizes : ModelSizes
    windows, tokens : int
        How many there are, in all.
    steps, echoes : int
        Of reconstruction, a window each; an echo goes forward twice, half of what a step takes.
    """
    operations = solver_operations(sizes.maps) + _pass_operations(sizes, tokens)
    if budgets:
        greedy = sum(_GREEDY[0] * into**3 + _GREEDY[1] * out * into**2 for out, into, _ in sizes.maps)
        operations += greedy + _judging(sizes) * judged_tokens(sizes, tokens)
    return operations + _STEP * (steps + echoes / 2) * tokens / windows * sizes.weights


def _pass_operations(sizes: ModelSizes, tokens: int) -> float:
    """All passes of the tokens through the maps, and the moments of their inputs."""
    return tokens * (
        2.0 * sizes.passed + sum(_PASSES * 2.0 * out * into + 2.0 * into**2 for out, into, _ in sizes.maps)
    )


def _judging(sizes: ModelSizes) -> float:
    """Operations of judging all groups on a token: on average half of the blocks, and the head."""
    return sizes.groups * (sizes.weights + sizes.passed + 2.0 * sizes.head)


def judged_tokens(sizes: ModelSizes, tokens: int) -> int:
    """Return as many tokens as can be judged in an eighth of the operations of pruning itself, from 64 to 1024."""
    allowed = OF_PRUNING * (solver_operations(sizes.maps) + _pass_operations(sizes, tokens))
    return int(min(max(allowed / max(_judging(sizes), 1.0), _FEWEST), _MOST))


class WindowSetting(NamedTuple):
    """Windows, their tokens, and whether steps of reconstruction are taken."""

    k: int
    n: int
    steps: bool

    def of(self, plan: Plan) -> Plan:
        """Return the plan, without steps where none are taken."""
        return plan if self.steps else replace(plan, reconstruct=0)


def settings_within(k: int, n: int) -> list[WindowSetting]:
    """Return settings of at most k windows of n tokens, from the most work to the least.

    Examples
    --------
    >>> [tuple(setting) for setting in settings_within(16, 512)]
    [(16, 512, True), (16, 256, True), (8, 256, True), (8, 256, False)]
    """
    found = [WindowSetting(k, n, True)]
    while n > _SHORTEST or k > _FEWEST_WINDOWS:
        n, k = (max(n // 2, _SHORTEST), k) if n > _SHORTEST else (n, max(k // 2, _FEWEST_WINDOWS))
        found.append(WindowSetting(k, n, True))
    return [*found, WindowSetting(k, n, False)]


def matmul_rates(seconds: float = 0.05) -> tuple[float, float]:
    """Operations of a product in float64 for a second of a processor, and for one that passes here, as loaded."""
    a = np.random.default_rng(0).standard_normal((_SIZE, _SIZE))
    start, busy, products = time.perf_counter(), time.thread_time(), 0
    while time.perf_counter() - start < seconds or not products:
        a @ a
        products += 1
    done = products * 2.0 * _SIZE**3
    passed, used = time.perf_counter() - start, time.thread_time() - busy
    return done / max(used, passed / _SLOWEST), done / passed
