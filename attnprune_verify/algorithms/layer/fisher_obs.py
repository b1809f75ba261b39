"""Two-sided OBS with the tokens' second moments on the inputs and the softmax's Fisher metric on the outputs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from attnprune_verify.algorithms.arrays import inverse_factor
from attnprune_verify.algorithms.layer.calibration import Calibration, LayerOutcome, by_heads
from attnprune_verify.algorithms.layer.fisher import (
    key_metric,
    key_metric_size,
    query_metric,
    query_metric_size,
    row_weights,
    squared_query_metric,
    squared_row_weights,
)
from attnprune_verify.algorithms.layer.fisher_draws import Estimate
from attnprune_verify.algorithms.layer.fisher_estimate import (
    estimated_key_metric,
    estimated_query_metric,
    estimated_row_weights,
)
from attnprune_verify.algorithms.layer.multiplier import key_target, query_target
from attnprune_verify.algorithms.matrix.budget import PerBlock
from attnprune_verify.algorithms.matrix.damping import damped, input_metric
from attnprune_verify.algorithms.matrix.two_sided import Pruned, prune_two_sided, refit
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array
from attnprune_verify.values import as_choice, as_count, as_nonnegative, as_positive

OutputMetric = Literal["fisher", "squared", "identity"]

_OUTPUT_DAMPING = 0.01  # of the mean diagonal; chosen: as much as SparseGPT's percdamp
_NOISE = 1e-12  # chosen: 4,500 times float64's unit in the last place, 2^-52, for sums over that many terms
_WEIGHT_SKETCHES = 64  # chosen: the estimate of a trace then errs by at most sqrt(2/64) = 18 per cent (one sigma)


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
        Ridge that pulls the right multiplier to the identity, relative to the mean square of the features. Larger
        values cost little on texts like the calibration texts and lose less on others (longer ones, for instance).
    sweeps : int
        Further rounds Q given K, K given Q; needs `sequential`.
    output_metric : "fisher", "squared" or "identity"
        "squared" stands for the squared attention error (J_i^2 in place of J_i; without RoPE only). With "identity",
        ``refit_steps=0`` and ``sequential=False`` every head is pruned as SparseGPT would prune it.
    metric_rows : int or None
        Number of random rows of the calibration set's attention from which the "fisher" metrics are estimated
        (`fisher_estimate`); None sums over all rows, which takes n^3 m operations if positions rotate.
    metric_sketches : int
        Random projections that stand for the tokens in each row of an estimated key metric.
    seed : int
        Of the rows and projections.
    """

    damping: float | None = None
    blocksize: int = 32
    refit_steps: int = 20
    sequential: bool = True
    multiplier_ridge: float = 0.1
    sweeps: int = 0
    output_metric: OutputMetric = "fisher"
    metric_rows: int | None = None
    metric_sketches: int = 8
    seed: int = 0

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
        as_count("metric_sketches", self.metric_sketches, least=1)
        as_count("seed", self.seed)
        if self.metric_rows is not None:
            as_count("metric_rows", self.metric_rows, least=1)
            if self.output_metric != "fisher":
                raise InvalidInstance(
                    f"metric_rows must be None unless output_metric is fisher; got {self.metric_rows}"
                )


@dataclass(frozen=True)
class PrunedPair:
    """Both matrices by heads, the metrics they were last pruned in, the damping that was used.

    `errors`: for metrics that were estimated, the largest relative standard error among the heads.
    """

    Q: Pruned
    K: Pruned
    G_Q: Array
    G_K: Array
    damping: float
    errors: Mapping[str, float] = field(default_factory=dict)

    def outcome(self, **chosen: float) -> LayerOutcome:
        """Both matrices in the layer's layout."""
        return by_heads(self.Q, self.K, **{"damping": self.damping, **chosen, **self.errors})


def prune_fisher_obs(data: Calibration, rho: float, options: FisherOBS) -> PrunedPair:
    """Prune Q, then K towards W_K T, with T the multiplier that compensates Q's loss; then `sweeps` more rounds."""
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
    metrics = _Metrics(data, options)
    factor = inverse_factor(H)  # one for Q, K and every sweep

    def prune(target: Array, G: Array) -> Pruned:
        pruned = prune_two_sided(target, H, G, PerBlock(rho), options.blocksize, factor=factor)
        return refit(pruned, target, H, G, options.refit_steps)

    def prune_K(Q: Pruned) -> tuple[Pruned, Array]:
        queries = data.queries_of(Q.weight)
        G_K = metrics.of_queries(queries)
        return prune(key_target(data, queries, metrics.weights, constant, options.multiplier_ridge), G_K), G_K

    G_Q = metrics.of_keys(data.keys)
    Q = prune(data.W_Q, G_Q)
    if not options.sequential:
        G_K = metrics.of_queries(data.queries)
        return PrunedPair(Q, prune(data.W_K, G_K), G_Q, G_K, damping, metrics.errors)
    K, G_K = prune_K(Q)
    for _ in range(options.sweeps):
        keys = data.keys_of(K.weight)
        G_Q = metrics.of_keys(keys)
        Q = prune(query_target(data, keys, constant, options.multiplier_ridge), G_Q)
        K, G_K = prune_K(Q)
    return PrunedPair(Q, K, G_Q, G_K, damping, metrics.errors)


class _Metrics:
    """The output metrics, exact or estimated, and the rows' weights t_i."""

    def __init__(self, data: Calibration, options: FisherOBS) -> None:
        self._data, self._options = data, options
        self._rng = np.random.default_rng(options.seed)
        self.errors: dict[str, float] = {}
        if options.metric_rows is not None:
            self.weights = estimated_row_weights(data, _WEIGHT_SKETCHES, self._rng)
        elif options.output_metric == "squared":
            self.weights = squared_row_weights(data)
        else:
            self.weights = row_weights(data)

    def of_keys(self, keys: Array) -> Array:
        """G_Q."""
        data, rows = self._data, self._options.metric_rows
        if rows is None:
            return _query_metric(data, keys, self._options)
        estimate = estimated_query_metric(data, keys, rows, self._rng)
        return self._noted("Q", estimate, data.layer.scale**2 * query_metric_size(data, keys))

    def of_queries(self, queries: Array) -> Array:
        """G_K."""
        data, rows, sketches = self._data, self._options.metric_rows, self._options.metric_sketches
        if rows is None:
            return _key_metric(data, queries, self.weights, self._options)
        estimate = estimated_key_metric(data, queries, self.weights, rows, sketches, self._rng)
        return self._noted("K", estimate, key_metric_size(data, queries))

    def _noted(self, side: str, estimate: Estimate, subtracted: float) -> Array:
        self.errors[f"metric_error_{side}"] = float(estimate.error.max())
        return _usable(estimate.value, subtracted)


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
