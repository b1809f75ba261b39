"""Sinks: a first token whose states outweigh all others; windows that lack it calibrate another model.

With h_i the states of token i after a block, the first token's share of their energy is

::

    |h_0|^2 / sum_i |h_i|^2,      the largest one over all blocks
"""

import warnings
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.instance.validate import Array

SEEN = 32
"""Tokens that a sink is looked for among; chosen: a pass over so few costs nothing beside the calibration."""
_SINK = 0.5  # chosen: the first token outweighs all others; without a sink its share is about 1/32
_LOST = 0.5  # chosen: a window whose first token has half the sink's share has a sink of its own


def first_share(states: Iterable[Array]) -> float:
    """Return the largest share of the energy of the states (n, d) after a block that the first token has.

    Examples
    --------
    >>> first_share([np.ones((4, 2)), np.array([[3.0], [1.0]])])
    0.9
    """
    energies = (np.square(block, dtype=np.float64).sum(axis=1) for block in states)
    return max((float(energy[0] / energy.sum()) for energy in energies if energy.sum() > 0), default=0.0)


def sink_lost(
    token: object, windows: Sequence[NDArray[np.int64]], vocabulary: int, share: Callable[[NDArray[np.int64]], float]
) -> list[str]:
    """Warn, and return the warning, if the token that documents begin with is a sink that windows lack.

    Parameters
    ----------
    token : object
        ``bos_token_id`` of the model's configuration; what is no id of the vocabulary is no token.
    windows : sequence of (n,) arrays
        Calibration windows.
    vocabulary : int
    share : callable
        `first_share` of the model's states for ids (n,).
    """
    if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocabulary:
        return []
    lacking = [window for window in windows if window[0] != token]
    if not lacking:
        return []
    given = lacking[0][:SEEN]
    own, sink = share(given), share(np.concatenate([[token], given[: SEEN - 1]]))
    if not (sink > _SINK and own < _LOST * sink):
        return []
    message = (
        f"token {token}, which begins a document, has {sink:.1%} of the energy of the states behind some block: it is "
        f"the model's sink; {len(lacking)} of {len(windows)} calibration windows begin without it (their first token "
        f"has {own:.1%}): begin each window that `prune_` gets with it, or calibration misses what the model computes"
    )
    warnings.warn(message, stacklevel=2)
    return [message]
