"""Echoes of calibration windows: every token but the first exchanged for one that the dense model predicts there.

Steps of reconstruction see a window each. Where windows are fewer than steps, the kept weights fit these windows and
nothing else. Tokens drawn from the dense model's own predictions after the real ones before them are such as it meets,
cost one dense pass, and need no more text. Metrics and budgets are of the real windows alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.instance.validate import Array
from attnprune_verify.pretrained.network import PretrainedModel
from attnprune_verify.whole_model.reconstruct import ECHOES, steps_for

__all__ = ["echo_count", "steps_fields", "steps_of", "with_echoes"]


def echo_count(windows: int, steps: int | None) -> int:
    """Return how many echoes are drawn: as many as steps are left when every window was seen, at most two of each.

    Examples
    --------
    >>> echo_count(8, 60), echo_count(8, 12), echo_count(128, 60)
    (16, 4, 0)
    """
    return min(ECHOES * windows, max(steps_of(windows, steps) - windows, 0))


def steps_of(windows: int, steps: int | None) -> int:
    """Return the number of steps where `steps` are prescribed, or None, and a model that predicts has so many windows.

    Examples
    --------
    >>> steps_of(2, None), steps_of(128, None), steps_of(2, 7)
    (30, 50, 7)
    """
    return steps_for((1 + ECHOES) * windows) if steps is None else steps


def steps_fields(windows: int, steps: int | None) -> dict[str, dict[str, int]]:
    """Return what a request depends on besides its plan, where steps are taken: how many, and on how many echoes.

    Examples
    --------
    >>> steps_fields(8, None)
    {'reconstruction': {'steps': 50, 'echoes': 16}}
    >>> steps_fields(8, 0)
    {}
    """
    taken = {"steps": steps_of(windows, steps), "echoes": echo_count(windows, steps)}
    return {} if steps == 0 else {"reconstruction": taken}


def with_echoes(model: PretrainedModel, ids: NDArray[np.int64], steps: int | None, seed: int) -> NDArray[np.int64]:
    """Return the windows (k, n), and behind them their echoes; a model that predicts nothing (an encoder) has none."""
    count = echo_count(len(ids), steps) if model.family.predicts else 0
    drawn = [_echo(model.logits(ids[i % len(ids), None])[0], ids[i % len(ids)], (seed, i)) for i in range(count)]
    return np.stack([*ids, *drawn])


def _echo(logits: Array, window: NDArray[np.int64], seed: tuple[int, int]) -> NDArray[np.int64]:
    """Return the window with a draw from the softmax of the logits before it in every place but the first."""
    noise = np.random.default_rng(seed).gumbel(size=logits[:-1].shape).astype(logits.dtype)
    return np.concatenate([window[:1], (logits[:-1] + noise).argmax(-1)])
