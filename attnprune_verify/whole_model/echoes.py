"""Echoes of calibration windows: every token but the first exchanged for one that the dense model predicts there.

Steps of reconstruction see a window each. Where windows are fewer than steps, the kept weights fit these windows and
nothing else. Tokens drawn from the dense model's own predictions after the real ones before them are such as it meets,
cost one dense pass of each window, and need no more text. Metrics and budgets are of the real windows alone.
"""

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.pretrained.network import PretrainedModel
from attnprune_verify.whole_model.reconstruct import ECHOES, HELD, RATE, steps_for


def echo_count(windows: int, steps: int | None) -> int:
    """Return the number of echoes: the steps that are left when every window was seen, at most two of each.

    Examples
    --------
    >>> echo_count(8, 60), echo_count(8, 12), echo_count(128, 60)
    (16, 4, 0)
    """
    return min(ECHOES * windows, max(steps_of(windows, steps) - windows, 0))


def steps_of(windows: int, steps: int | None) -> int:
    """Return the number of steps for a model with `windows` windows; None for `steps` takes the default.

    Examples
    --------
    >>> steps_of(2, None), steps_of(128, None), steps_of(2, 7)
    (30, 50, 7)
    """
    return steps_for((1 + ECHOES) * windows) if steps is None else steps


def steps_fields(windows: int, steps: int | None, *, predicts: bool = True) -> dict[str, dict[str, float]]:
    """Return the settings of steps that a request depends on besides its plan: number, size, echoes.

    Examples
    --------
    >>> steps_fields(8, None)
    {'reconstruction': {'steps': 50, 'rate': 0.2, 'echoes': 16, 'held': 8}}
    >>> steps_fields(8, None, predicts=False)
    {'reconstruction': {'steps': 40, 'rate': 0.2, 'echoes': 0, 'held': 8}}
    >>> steps_fields(8, 0)
    {}
    """
    if steps == 0:
        return {}
    echoes = echo_count(windows, steps) if predicts else 0
    taken = steps_for(windows + echoes) if steps is None else steps
    return {"reconstruction": {"steps": taken, "rate": RATE, "echoes": echoes, "held": HELD}}


def with_echoes(model: PretrainedModel, ids: NDArray[np.int64], steps: int | None, seed: int) -> NDArray[np.int64]:
    """Return the windows (k, n), and behind them their echoes; a model that predicts nothing (an encoder) has none."""
    count = echo_count(len(ids), steps) if model.family.predicts else 0
    return np.concatenate([ids, drawn_echoes(model, ids, count, seed)])


def drawn_echoes(model: PretrainedModel, ids: NDArray[np.int64], count: int, seed: int) -> NDArray[np.int64]:
    """Draw `count` echoes (count, n) of the windows (k, n), in turn; every window goes through the model once.

    Raises
    ------
    InvalidInstance
        If a prediction is not finite.
    """
    drawn = np.empty((count, ids.shape[1]), dtype=np.int64)
    for number, window in enumerate(ids[:count]):
        logits = model.logits(window[np.newaxis])[0, :-1]
        refuse_infinite(bool(np.isfinite(logits).all()), number)
        for echo in range(number, count, len(ids)):
            noise = np.random.default_rng((seed, echo)).gumbel(size=logits.shape).astype(logits.dtype)
            drawn[echo] = [window[0], *(logits + noise).argmax(-1)]
    return drawn


def refuse_infinite(finite: bool, number: int) -> None:
    """Refuse to draw from predictions that are not finite.

    Raises
    ------
    InvalidInstance
    """
    if not finite:
        raise InvalidInstance(f"the model's predictions must be finite to draw from; those of window {number} are not")
