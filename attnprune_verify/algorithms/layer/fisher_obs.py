"""Two-sided OBS with the tokens' second moments on the inputs and the softmax's Fisher metric on the outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from attnprune_verify.algorithms.layer.calibration import Calibration
from attnprune_verify.algorithms.layer.fisher import (
    key_metric,
    key_metric_size,
    query_metric,
    query_metric_size,
    row_weights,
)
from attnprune_verify.algorithms.layer.fisher_squared import squared_query_metric, squared_row_weights
from attnprune_verify.algorithms.layer.multiplier import key_target, query_target
from attnprune_verify.algorithms.matrix.budget import PerBlock
from attnprune_verify.algorithms.matrix.damping import damped, input_metric
from attnprune_verify.algorithms.matrix.two_sided import Pruned, prune_two_sided, refit
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array
from attnprune_verify.values import as_choice, as_count, as_nonnegative, as_positive

__all__ = ["FisherOBS", "PrunedPair", "prune_fisher_obs"]

OutputMetric = Literal["fisher", "squared", "identity"]

_OUTPUT_DAMPING = 0.01
_NOISE = 1e-12


@dataclass(frozen=True)
class FisherOBS:
    """Options of the method ``fisher-obs``.

    Attributes
    ----------
    damping : float or None
        Relative damping of the inputs' metric; None takes it from the calibration tokens (`shrinkage_damping`).
    blocksize : int
        Inputs whose masks are chosen together.
    refit_steps : int
        Conjugate-gradient steps on the kept weights once a matrix is pruned.
    sequential : bool
        Fit K to the already pruned Q (right multiplier, metric at the pruned Q) instead of to the dense one.
    multiplier_ridge : float
        What holds the right multiplier at the identity, relative to the mean square of the features. Larger values cost
        little on texts like the calibration texts and lose less on others (longer ones, for instance).
    sweeps : int
        Further rounds Q given K, K given Q; needs `sequential`.
    output_metric : "fisher", "squared" or "identity"
        "squared" stands for the squared attention error (J_i^2 in place of J_i; without RoPE only). With "identity",
        ``refit_steps=0`` and ``sequential=False`` every head is pruned as SparseGPT would prune it.
    """

    damping: float | None = None
    blocksize: int = 32
    refit_steps: int = 20
    sequential: bool = True
    multiplier_ridge: float = 0.1
    sweeps: int = 0
    output_metric: OutputMetric = "fisher"

    def __post_init__(self) -> None:
        if self.damping is not None:
            as_nonnegative("damping", self.damping)
        as_positive("multiplier_ridge", self.multiplier_ridge)
        as_count("blocksize", self.blocksize, least=1)
        as_count("refit_steps", self.refit_steps)
        as_choice("sequential", self.sequential, (True, False))
        if as_count("sweeps", self.sweeps) and not self.sequential:
            raise InvalidInstance(f"sweeps must be 0 unless sequential is True; got {self.sweeps}")
        as_choice("output_metric", self.output_metric, get_args(OutputMetric))


@dataclass(frozen=True)
class PrunedPair:
    """Both matrices by heads, the metrics they were last pruned in, and the damping that was used."""

    Q: Pruned
    K: Pruned
    G_Q: Array
    G_K: Array
    damping: float


def prune_fisher_obs(data: Calibration, rho: float, options: FisherOBS) -> PrunedPair:
    """Q first; then K towards W_K T, T the multiplier that makes up for what Q lost; then `sweeps` more rounds."""
    if options.output_metric == "squared" and data.layer.rope is not None:
        raise InvalidInstance("output_metric must be fisher or identity for a layer with RoPE; got 'squared'")
    H, damping = input_metric(data.X, options.damping)
    try:
        np.linalg.cholesky(H)
    except np.linalg.LinAlgError as error:
        raise InvalidInstance(
            f"the inputs' metric X^T X must be positive definite after damping; damping = {damping} is too small"
        ) from error
    constant = np.linalg.solve(H, data.X.mean(axis=(0, 1)))
    weights = squared_row_weights(data) if options.output_metric == "squared" else row_weights(data)

    def prune(target: Array, G: Array) -> Pruned:
        pruned = prune_two_sided(target, H, G, PerBlock(rho), options.blocksize)
        return refit(pruned, target, H, G, options.refit_steps)

    def prune_K(Q: Pruned) -> tuple[Pruned, Array]:
        queries = data.queries_of(Q.weight)
        G_K = _key_metric(data, queries, weights, options)
        return prune(key_target(data, queries, weights, constant, options.multiplier_ridge), G_K), G_K

    G_Q = _query_metric(data, data.keys, options)
    Q = prune(data.W_Q, G_Q)
    if not options.sequential:
        G_K = _key_metric(data, data.queries, weights, options)
        return PrunedPair(Q, prune(data.W_K, G_K), G_Q, G_K, damping)
    K, G_K = prune_K(Q)
    for _ in range(options.sweeps):
        keys = data.keys_of(K.weight)
        G_Q = _query_metric(data, keys, options)
        Q = prune(query_target(data, keys, constant, options.multiplier_ridge), G_Q)
        K, G_K = prune_K(Q)
    return PrunedPair(Q, K, G_Q, G_K, damping)


def _query_metric(data: Calibration, keys: Array, options: FisherOBS) -> Array:
    if options.output_metric == "identity":
        return _identity(data.layer.heads, data.layer.m)
    metric = squared_query_metric if options.output_metric == "squared" else query_metric
    return _usable(metric(data, keys), data.layer.scale**2 * query_metric_size(data, keys))


def _key_metric(data: Calibration, queries: Array, weights: Array, options: FisherOBS) -> Array:
    if options.output_metric == "identity":
        return _identity(data.layer.kv_heads, data.layer.m)
    return _usable(key_metric(data, queries, weights), key_metric_size(data, queries))


def _usable(G: Array, subtracted: float) -> Array:
    """Damped, of mean diagonal about 1, and certainly positive definite.

    J_i is a difference, so G carries rounding errors of size `_NOISE` times what was subtracted. Where the softmax
    is so saturated that nothing else is left (or n = 1), the metric tends to a multiple of the identity.
    """
    m = G.shape[-1]
    G = damped(G, _OUTPUT_DAMPING, _NOISE * subtracted)
    mean = np.trace(G, axis1=1, axis2=2) / m
    usable = np.isfinite(mean) & (mean > np.finfo(np.float64).tiny / _NOISE)
    scale = np.where(usable, mean, 1.0)[:, np.newaxis, np.newaxis]
    return np.where(usable[:, np.newaxis, np.newaxis], G / scale, np.eye(m))


def _identity(heads: int, m: int) -> Array:
    return np.broadcast_to(np.eye(m), (heads, m, m)).copy()
