"""Every method on a real attention layer: the masks, the kept weights and what was chosen."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.algorithms.arguments import pruned_count
from attnprune_verify.algorithms.layer.calibration import Calibration, LayerOutcome, by_masks
from attnprune_verify.algorithms.matrix.budget import Pattern, as_pattern
from attnprune_verify.algorithms.methods import METHODS, PATTERN_METHODS, layer_options
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.layer import AttentionLayer, as_layer
from attnprune_verify.instance.memory import estimate_memory, require_memory
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.layer_functions import layer_relative_error
from attnprune_verify.values import as_choice, as_ratio


@dataclass(frozen=True)
class PrunedLayer:
    """A pruned attention layer.

    Attributes
    ----------
    layer : AttentionLayer
        The pruned one, ready to be used in place of the dense one.
    mask_Q, mask_K : (d, heads*m) and (d, kv_heads*m) arrays
        1 = kept, 0 = pruned; pruned weights are exactly 0.
    summary : mapping
        ``method``, ``rho``, ``options`` (as used, with the damping that was chosen), ``pruned_Q`` and ``pruned_K``
        (zeros per head), ``in_sample_error`` (per head, on the calibration tokens: it understates the error on others).
    """

    layer: AttentionLayer
    mask_Q: Array
    mask_K: Array
    summary: Mapping[str, Any]

    def __repr__(self) -> str:
        size, kept = (sum(count(mask) for mask in (self.mask_Q, self.mask_K)) for count in (np.size, np.count_nonzero))
        return f"<{self.layer} by {self.summary['method']}: {size - kept} of {size} weights are 0>"


def solve_layer(
    layer: AttentionLayer, X: ArrayLike, rho: float | None, method: str, pattern: str | None, options: Mapping[str, Any]
) -> PrunedLayer:
    """Prune W_Q and W_K; see `prune_layer`, which can also bound the best mask's divergence."""
    settings = layer_options(method, options)
    goal = _goal(layer, rho, method, pattern)
    shape = np.shape(X)
    if len(shape) in (2, 3):  # anything else Calibration refuses
        k, n = (1, *shape)[-3:-1]
        sizes = {"n": n, "d": layer.d, "k": k, "heads": layer.heads, "kv_heads": layer.kv_heads, "m": layer.m}
        if min(sizes.values()) > 0:
            said = ", ".join(f"{name} = {size}" for name, size in sizes.items())
            require_memory(f"pruning with {said}", estimate_memory("prune", **sizes))
    data = Calibration(layer, X)
    prune = METHODS[method].layer
    assert prune is not None  # `layer_options` has refused the others
    trivial = _trivial(data, goal) if METHODS[method].by_head and isinstance(goal, float) else None
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            Q, K, chosen = trivial or prune(data, goal, settings)
    except ArithmeticError as error:
        largest = {"X": data.X, "W_Q": data.W_Q, "W_K": data.W_K}
        said = ", ".join(f"|{name}| {np.abs(array).max():.3g}" for name, array in largest.items())
        raise InvalidInstance(f"pruning by {method} must stay within float64; the largest are {said}") from error
    W_Q, W_K = (one.weight.astype(layer.W_Q.dtype) for one in (Q, K))
    pruned = layer.with_weights(W_Q, W_K)
    summary = {
        "method": method,
        "rho": goal if isinstance(goal, float) else None,
        "pattern": None if isinstance(goal, float) else str(goal),
        "options": asdict(settings) | {**chosen},
        "pruned_Q": _zeros(Q.kept, layer.heads),
        "pruned_K": _zeros(K.kept, layer.kv_heads),
        "in_sample_error": tuple(map(float, layer_relative_error(layer, pruned, X))),
    }
    return PrunedLayer(pruned, Q.kept.astype(W_Q.dtype), K.kept.astype(W_K.dtype), summary)


def _goal(layer: AttentionLayer, rho: float | None, method: str, pattern: str | None) -> float | Pattern:
    """The ratio, or the pattern in its place."""
    if (rho is None) == (pattern is None):
        raise InvalidInstance(f"exactly one of rho and pattern must be given; got {rho!r:.60} and {pattern!r:.60}")
    if pattern is None:
        return as_ratio(rho)
    as_choice("a method with a pattern", method, PATTERN_METHODS)
    return as_pattern(pattern, as_layer(layer).d)


def _trivial(data: Calibration, rho: float) -> LayerOutcome | None:
    """Prune nothing or everything, without a method: there is no choice, and kept weights must not move."""
    size = data.X.shape[2] * data.layer.m
    count = pruned_count(rho, size)
    if 0 < count < size:
        return None
    keep = count == 0
    return by_masks(data, (np.full(data.W_Q.shape, keep), np.full(data.W_K.shape, keep)))


def _zeros(kept: NDArray[np.bool_], heads: int) -> tuple[int, ...]:
    per_head = (~kept).reshape(kept.shape[0], heads, -1).sum(axis=(0, 2))
    return tuple(map(int, per_head))
