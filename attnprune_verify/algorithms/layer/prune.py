"""`prune_layer`: one door to every method for real attention layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.algorithms.arguments import pruned_count
from attnprune_verify.algorithms.baselines.table import BASELINES, prune_by
from attnprune_verify.algorithms.layer.calibration import Calibration
from attnprune_verify.algorithms.layer.fisher_obs import FisherOBS, PrunedPair, prune_fisher_obs
from attnprune_verify.algorithms.layer.heads import join_heads
from attnprune_verify.algorithms.layer.mask_only import (
    FisherDiagonal,
    fisher_diagonal_masks,
    magnitude_masks,
    random_masks,
)
from attnprune_verify.algorithms.layer.output_obs import LayerOutputOBS, prune_layer_output_obs
from attnprune_verify.algorithms.layer.paper_descent import PaperDescent, descend_on_masks
from attnprune_verify.algorithms.layer.polish import FisherOBSKL, prune_fisher_obs_kl
from attnprune_verify.algorithms.layer.ste import STE, learn_masks
from attnprune_verify.algorithms.matrix.budget import Pattern, as_pattern, choose_by_group
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.layer import AttentionLayer, as_layer
from attnprune_verify.instance.memory import estimate_memory, require_memory
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.layer_functions import layer_relative_error
from attnprune_verify.values import as_choice, as_count, as_nonnegative, as_ratio, nearest

__all__ = ["LAYER_METHODS", "PATTERN_METHODS", "PrunedLayer", "check_options", "prune_layer"]

_OWN_CONVENTION = tuple(name for name in BASELINES if name != "magnitude")
"""Baselines that choose over the whole matrix as their authors do, not over each head's block."""
PATTERN_METHODS = ("magnitude", *_OWN_CONVENTION, "output-obs")


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


def prune_layer(
    layer: AttentionLayer,
    X: ArrayLike,
    rho: float | None = None,
    method: str = "fisher-obs",
    *,
    pattern: str | None = None,
    certify: bool = False,
    **options: Any,
) -> PrunedLayer:
    """Prune W_Q and W_K of a real attention layer, each by the ratio rho or to an N:M pattern. Biases are kept.

    ========================  =========================================================================
    ``random``                uniformly random masks; option `seed`
    ``magnitude``             largest ``|w|`` of every head
    ``wanda``                 Wanda in its own convention: per output column
    ``sparsegpt``             SparseGPT in its own convention: thresholds over all heads; `blocksize`, `percdamp`
    ``paper-gd``              the paper's descent on real masks (a reproduction); options of `PaperDescent`
    ``fisher-diagonal``       largest w^2 h, h the KL's second derivative; weights unchanged; option `threshold`
    ``fisher-obs``            two-sided OBS: inputs' second moments, the softmax's Fisher metric; options of `FisherOBS`
    ``fisher-obs-kl``         the same, then the kept weights follow the KL; options of `FisherOBSKL`, `FisherOBS`
    ``ste``                   a mask learnt by descent on the KL; weights unchanged; options of `STE`
    ``output-obs``            the same objective, metric from one backward probe; options of `LayerOutputOBS`
    ========================  =========================================================================

    Everything is deterministic; `random` and the probes of `output-obs` by their seed. No method looks at anything but
    the layer and X.

    Parameters
    ----------
    layer : AttentionLayer
    X : (n, d) or (k, n, d) array
        Calibration tokens: inputs of this layer, at the lengths it will be used at.
    rho : float
        Pruning ratio in [0, 1]. Exactly ``floor(rho * size)`` zeros in each head's block of W_Q and of W_K, except for
        ``wanda`` (per column) and ``sparsegpt`` (one more per block of inputs).
    method : str
    pattern : str, optional
        "N:M" in place of rho, for magnitude, wanda, sparsegpt and output-obs: of every M consecutive inputs, each
        output keeps N.
    certify : bool
        Put `certified_mask_gap` of each head's two masks, the other map and the kept weights dense, into
        ``summary["mask_gap"]`` ("Q" and "K": bound, kl, ratio, ...): some seconds a head.
    **options
        As in the table.

    Returns
    -------
    PrunedLayer

    Raises
    ------
    InvalidInstance
        If X does not fit, rho is outside [0, 1], the method or an option is unknown, an option is out of its range, or
        not exactly one of rho and pattern is given.

    Notes
    -----
    The metrics are derived in docs/fisher_obs.md and docs/output_obs.md.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> layer = AttentionLayer(rng.normal(size=(8, 8)), rng.normal(size=(8, 4)), heads=2, kv_heads=1)
    >>> pruned = prune_layer(layer, rng.normal(size=(4, 6, 8)), 0.5)
    >>> pruned.summary["pruned_Q"], pruned.summary["pruned_K"]
    ((16, 16), (16,))
    >>> print(repr(pruned)[-38:])
    by fisher-obs: 48 of 96 weights are 0>
    """
    settings = _settings(method, options)
    goal = _goal(layer, rho, method, pattern)
    shape = np.shape(X)
    if len(shape) in (2, 3):  # anything else Calibration refuses
        k, n = (1, *shape)[-3:-1]
        sizes = {"n": n, "d": layer.d, "k": k, "heads": layer.heads, "kv_heads": layer.kv_heads, "m": layer.m}
        if min(sizes.values()) > 0:
            said = ", ".join(f"{name} = {size}" for name, size in sizes.items())
            require_memory(f"pruning with {said}", estimate_memory("prune", **sizes))
    data = Calibration(layer, X)
    trivial = _trivial(data, goal) if method not in _OWN_CONVENTION and isinstance(goal, float) else None
    outcome = trivial or _METHODS[method](data, goal, settings)
    W_Q, W_K = (W.astype(layer.W_Q.dtype) for W in (outcome.W_Q, outcome.W_K))
    pruned = layer.with_weights(W_Q, W_K)
    summary = {
        "method": method,
        "rho": goal if isinstance(goal, float) else None,
        "pattern": None if isinstance(goal, float) else str(goal),
        "options": _plain(settings) | outcome.chosen,
        "pruned_Q": _zeros(outcome.kept_Q, layer.heads),
        "pruned_K": _zeros(outcome.kept_K, layer.kv_heads),
        "in_sample_error": tuple(map(float, layer_relative_error(layer, pruned, X))),
    }
    if certify:
        from attnprune_verify.algorithms.gap.by_head import both_sides  # loads balls and SciPy

        summary["mask_gap"] = both_sides(layer, data.X, outcome.kept_Q * 1.0, outcome.kept_K * 1.0)
    return PrunedLayer(pruned, outcome.kept_Q.astype(W_Q.dtype), outcome.kept_K.astype(W_K.dtype), summary)


def _goal(layer: AttentionLayer, rho: float | None, method: str, pattern: str | None) -> float | Pattern:
    """The ratio, or the pattern in its place."""
    if (rho is None) == (pattern is None):
        raise InvalidInstance(f"exactly one of rho and pattern must be given; got {rho!r:.60} and {pattern!r:.60}")
    if pattern is None:
        return as_ratio(rho)
    as_choice("a method with a pattern", method, PATTERN_METHODS)
    return as_pattern(pattern, as_layer(layer).d)


@dataclass(frozen=True)
class _Outcome:
    """Weights and kept entries in the layer's own layout."""

    W_Q: Array
    W_K: Array
    kept_Q: NDArray[np.bool_]
    kept_K: NDArray[np.bool_]
    chosen: dict[str, Any]


@dataclass(frozen=True)
class _Nothing:
    """No options."""


@dataclass(frozen=True)
class _Random:
    seed: int = 0

    def __post_init__(self) -> None:
        as_count("seed", self.seed)


@dataclass(frozen=True)
class _SparseGPT:
    blocksize: int = 128
    percdamp: float = 0.01

    def __post_init__(self) -> None:
        as_count("blocksize", self.blocksize, least=1)
        as_nonnegative("percdamp", self.percdamp)


def _masked(data: Calibration, masks: tuple[NDArray[np.bool_], NDArray[np.bool_]]) -> _Outcome:
    kept_Q, kept_K = (join_heads(mask) for mask in masks)
    W_Q, W_K = data.layer.W_Q, data.layer.W_K
    return _Outcome(np.where(kept_Q, W_Q, 0.0), np.where(kept_K, W_K, 0.0), kept_Q, kept_K, {})


def _trivial(data: Calibration, rho: float) -> _Outcome | None:
    """Prune nothing or everything, without a method: there is no choice, and kept weights must not move."""
    size = data.X.shape[2] * data.layer.m
    count = pruned_count(rho, size)
    if 0 < count < size:
        return None
    keep = count == 0
    return _masked(data, (np.full(data.W_Q.shape, keep), np.full(data.W_K.shape, keep)))


def _magnitude(data: Calibration, goal: float | Pattern, _: _Nothing) -> _Outcome:
    if isinstance(goal, float):
        return _masked(data, magnitude_masks(data, goal))
    W_Q, W_K = data.layer.W_Q, data.layer.W_K
    kept_Q, kept_K = (~choose_by_group(np.abs(W.T), goal).T for W in (W_Q, W_K))
    return _Outcome(np.where(kept_Q, W_Q, 0.0), np.where(kept_K, W_K, 0.0), kept_Q, kept_K, {})


def _baseline(name: str, data: Calibration, goal: float | Pattern, settings: Any) -> _Outcome:
    """A baseline in its own convention, on the linear layers W_Q^T and W_K^T."""
    chosen = asdict(settings)
    if isinstance(goal, Pattern):
        chosen |= {"prune_n": goal.group - goal.kept, "prune_m": goal.group}
    rho = goal if isinstance(goal, float) else 0.0
    new = [prune_by(name, W.T, data.X, rho, **chosen) for W in (data.layer.W_Q, data.layer.W_K)]
    (W_Q, gone_Q), (W_K, gone_K) = ((weight.T, gone.T) for weight, gone in new)
    return _Outcome(W_Q, W_K, ~gone_Q, ~gone_K, {})


def _output_obs(data: Calibration, goal: float | Pattern, options: LayerOutputOBS) -> _Outcome:
    Q, K, chosen = prune_layer_output_obs(data, goal, options)
    return _Outcome(Q.weight.T, K.weight.T, Q.kept.T, K.kept.T, chosen)


def _fisher_obs(data: Calibration, rho: float, options: FisherOBS) -> _Outcome:
    pair = prune_fisher_obs(data, rho, options)
    return _from_pair(pair, {"damping": pair.damping, **pair.errors})


def _fisher_obs_kl(data: Calibration, rho: float, options: FisherOBSKL) -> _Outcome:
    pair, ridge = prune_fisher_obs_kl(data, rho, options)
    return _from_pair(pair, {"damping": pair.damping, "ridge": ridge, **pair.errors})


def _from_pair(pair: PrunedPair, chosen: dict[str, Any]) -> _Outcome:
    kept_Q, kept_K = join_heads(pair.Q.kept), join_heads(pair.K.kept)
    W_Q = np.where(kept_Q, join_heads(pair.Q.weight), 0.0)
    W_K = np.where(kept_K, join_heads(pair.K.weight), 0.0)
    return _Outcome(W_Q, W_K, kept_Q, kept_K, chosen)


_METHODS: dict[str, Callable[[Calibration, Any, Any], _Outcome]] = {
    "random": lambda data, rho, options: _masked(data, random_masks(data, rho, options.seed)),
    "magnitude": _magnitude,
    **{name: partial(_baseline, name) for name in _OWN_CONVENTION},
    "paper-gd": lambda data, rho, options: _masked(data, descend_on_masks(data, rho, options)),
    "fisher-diagonal": lambda data, rho, options: _masked(data, fisher_diagonal_masks(data, rho, options)),
    "fisher-obs": _fisher_obs,
    "fisher-obs-kl": _fisher_obs_kl,
    "ste": lambda data, rho, options: _masked(data, learn_masks(data, rho, options)),
    "output-obs": _output_obs,
}
LAYER_METHODS = tuple(_METHODS)
_OPTIONS: dict[str, type[Any]] = {
    "random": _Random,
    "sparsegpt": _SparseGPT,
    "fisher-diagonal": FisherDiagonal,
    "paper-gd": PaperDescent,
    "fisher-obs": FisherOBS,
    "fisher-obs-kl": FisherOBSKL,
    "ste": STE,
    "output-obs": LayerOutputOBS,
}


def check_options(method: str, options: Mapping[str, Any]) -> None:
    """Refuse a method or options that `prune_layer` would refuse, without a layer."""
    _settings(method, dict(options))


def _settings(method: str, options: dict[str, Any]) -> Any:
    as_choice("method", method, LAYER_METHODS)
    kind = _OPTIONS.get(method, _Nothing)
    names = [one.name for one in fields(kind)]
    first_stage = [one.name for one in fields(FisherOBS)] if kind is FisherOBSKL else []
    known = [name for name in names if name != "start"] + first_stage
    unknown = sorted(set(options) - set(known))
    if unknown:
        rule = f"options of method {method!r} are {', '.join(known)}" if known else f"method {method!r} has no options"
        raise InvalidInstance(f"{rule}; got {', '.join(map(repr, unknown))}{nearest(unknown[0], known)}")
    if kind is FisherOBSKL:
        start = {"sweeps": 1} | {name: options.pop(name) for name in first_stage if name in options}
        return FisherOBSKL(**options, start=FisherOBS(**start))
    return kind(**options)


def _plain(settings: Any) -> dict[str, Any]:
    plain = {one.name: getattr(settings, one.name) for one in fields(settings)}
    start = plain.pop("start", None)
    return (plain | _plain(start)) if start is not None else plain


def _zeros(kept: NDArray[np.bool_], heads: int) -> tuple[int, ...]:
    per_head = (~kept).reshape(kept.shape[0], heads, -1).sum(axis=(0, 2))
    return tuple(map(int, per_head))
