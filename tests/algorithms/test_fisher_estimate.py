"""Estimated output metrics: unbiased, row by row and sign by sign; close, and honest about how close; cheap."""

import numpy as np
import pytest

from attnprune_verify.algorithms.layer import fisher_draws
from attnprune_verify.algorithms.layer.calibration import Calibration
from attnprune_verify.algorithms.layer.fisher import key_metric, query_metric, row_weights
from attnprune_verify.algorithms.layer.fisher_draws import attention_rows, draw_rows, importance
from attnprune_verify.algorithms.layer.fisher_estimate import (
    estimated_key_metric,
    estimated_query_metric,
    estimated_row_weights,
    exact_operations,
)
from attnprune_verify.algorithms.layer.prune import prune_layer
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.rope import RoPE
from attnprune_verify.model.layer_functions import layer_relative_error
from tests.model.layers import KINDS, MODIFIED, random_layer

STARTS = 8
SHARES = np.array([[5, 0, 1, 2, 8, 16], [1, 11, 3, 7, 4, 6]]) / 64  # of 8 points: boundaries at eighths of a start


class FromStart:
    """A random generator whose first number is known; the rest does not matter for a mean over the groups."""

    def __init__(self, start):
        self.start, self.rest = start, np.random.default_rng(0)

    def random(self):
        return self.start

    def permuted(self, *arguments, **options):
        return self.rest.permuted(*arguments, **options)


def every_start():
    return [FromStart((index + 0.5) / STARTS) for index in range(STARTS)]


def basis(shape):
    """In place of random signs all directions in turn: the mean of w w^T is the identity exactly."""
    return np.broadcast_to(np.sqrt(shape[-1]) * np.eye(shape[-1]), shape)


@pytest.mark.parametrize("groups", [1, 4, 8])
def test_every_row_is_drawn_as_often_as_it_should(groups):
    mean = np.zeros_like(SHARES)
    for rng in every_start():
        for sample, drawn in enumerate(draw_rows(SHARES, 8, rng, groups)):
            assert drawn.weights.shape == (groups, len(drawn.rows))
            mean[sample, drawn.rows] += drawn.weights.mean(axis=0) / STARTS
    np.testing.assert_allclose(mean, SHARES > 0, rtol=1e-12)


def test_all_rows_are_each_drawn_once_where_there_are_no_more():
    for drawn in draw_rows(SHARES, 12, np.random.default_rng(0), 4):
        np.testing.assert_allclose(drawn.weights.mean(axis=0), 1.0)


def test_no_token_is_left_out():
    shares = np.zeros((2, 3, 6))
    shares[0, 0, 2] = 1.0
    likely = importance(shares, np.ones((2, 6)))
    assert likely.sum() == pytest.approx(0.1 + 0.3) and (likely >= 0.1 / 12 * (1 - 1e-12)).all()


@pytest.mark.parametrize("kind", [*KINDS, *MODIFIED])
def test_rows_of_the_attention_are_those_of_the_blocks(kind):
    layer, X = random_layer(kind, n=6)
    data = Calibration(layer, X)
    for index in (0, layer.heads):
        rows = np.array([0, 3, 4])
        columns, first, second = attention_rows(data, index, rows)
        wide = np.zeros((2, 6, 6))
        for block, _, one, two in data.attention_of(index):
            wide[:, block.rows, block.columns] = one, two
        np.testing.assert_allclose(first, wide[0][rows, columns], atol=1e-15)
        np.testing.assert_allclose(second, wide[1][rows, columns], atol=1e-15)


@pytest.mark.parametrize("kind", [*KINDS, "softcap, alibi, rope"])
def test_the_mean_over_all_draws_is_the_exact_sum(kind, monkeypatch):
    """12 tokens, 8 points, every start; every direction for the signs: no sampling error is left."""
    layer, X = random_layer(kind, seed=3, n=6)
    data = Calibration(layer, X)
    monkeypatch.setattr("attnprune_verify.algorithms.layer.fisher_estimate.importance", lambda *_: POSITIVE)
    weights = row_weights(data)
    exact_Q, exact_K = query_metric(data, data.keys), key_metric(data, data.queries, weights)
    d = X.shape[2]
    every = every_start()
    Q = np.mean([estimated_query_metric(data, data.keys, 8, rng).value for rng in every], axis=0)
    K = np.mean([estimated_key_metric(data, data.queries, weights, 8, d, rng, basis).value for rng in every], axis=0)
    np.testing.assert_allclose(Q, exact_Q, atol=1e-12 * np.abs(exact_Q).max())
    np.testing.assert_allclose(K, exact_K, atol=1e-12 * np.abs(exact_K).max())
    np.testing.assert_allclose(estimated_row_weights(data, d, every[0], basis), weights, atol=1e-12 * weights.max())


POSITIVE = np.where(SHARES == 0, 1, 64 * SHARES)
POSITIVE = (POSITIVE - np.eye(2, 6, 5)) / 64  # still eighths, none of them 0


def test_the_signs_are_independent_with_unit_covariance():
    layer, X = random_layer("rope half", n=6, k=1)
    data = Calibration(layer, X)
    weights = row_weights(data)
    rng = np.random.default_rng(1)
    off = estimated_row_weights(data, 20000, rng)[:, 1:] / weights[:, 1:] - 1  # the first row sees one token only
    assert np.abs(off).max() < 0.05
    metric = estimated_key_metric(data, data.queries, weights, 6, 20000, rng).value
    exact = key_metric(data, data.queries, weights)
    assert np.abs(metric - exact).max() < 0.05 * np.abs(exact).max()


def larger(n=128, k=8, seed=0):
    """Heads of 8 features on tokens that share directions, as those of a network do."""
    rng = np.random.default_rng(seed)
    W_Q, W_K = rng.standard_normal((24, 32)), rng.standard_normal((24, 16))
    layer = AttentionLayer(W_Q, W_K, heads=4, kv_heads=2, rope=RoPE(1e4), mask="causal", scale=0.05)
    return layer, rng.standard_normal((k, n, 24)) * np.linspace(2.0, 0.2, 24) + 0.5


def rms(numbers):
    return np.sqrt(np.mean(np.square(numbers)))


def test_estimates_are_close_and_say_how_close():
    layer, X = larger()
    data = Calibration(layer, X)
    weights = row_weights(data)
    exact_Q, exact_K = query_metric(data, data.keys), key_metric(data, data.queries, weights)
    errors = {}
    for rows in (64, 512):
        ratios, errors[rows] = [], []
        for seed in range(6):
            rng = np.random.default_rng(seed)
            Q = estimated_query_metric(data, data.keys, rows, rng)
            K = estimated_key_metric(data, data.queries, weights, rows, 8, rng)
            for estimate, exact in ((Q, exact_Q), (K, exact_K)):
                off = np.linalg.norm(estimate.value - exact, axis=(1, 2)) / np.linalg.norm(exact, axis=(1, 2))
                ratios.extend(off / estimate.error)
                errors[rows].extend(off)
                assert (np.linalg.eigvalsh(estimate.value) > 0).all()
        assert 0.2 < rms(ratios) < 1.2  # never far below the truth
    assert rms(errors[512]) < rms(errors[64]) / 2


def test_operations_grow_with_the_rows_not_with_their_squares():
    layer, X = larger()
    data = Calibration(layer, X)
    weights, rng = row_weights(data), np.random.default_rng(0)
    few, many = (estimated_key_metric(data, data.queries, weights, rows, 4, rng).operations for rows in (128, 512))
    assert 2.5 < many / few < 4.5
    assert exact_operations(data) > 4 * many


def test_a_layer_pruned_by_estimates_is_as_good():
    layer, X = larger()
    unseen = larger(seed=1)[1]
    exact = prune_layer(layer, X, 0.5)
    estimated = prune_layer(layer, X, 0.5, metric_rows=512, seed=3)
    again = prune_layer(layer, X, 0.5, metric_rows=512, seed=3)
    np.testing.assert_array_equal(estimated.layer.W_K, again.layer.W_K)
    ratio = (
        layer_relative_error(layer, estimated.layer, unseen).mean()
        / layer_relative_error(layer, exact.layer, unseen).mean()
    )
    assert abs(ratio - 1) < 0.02
    chosen = estimated.summary["options"]
    assert 0 < chosen["metric_error_Q"] < 0.1 and 0 < chosen["metric_error_K"] < 0.2
    assert "metric_error_Q" not in exact.summary["options"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric_rows": 0}, "metric_rows must be an integer >= 1; got 0"),
        ({"metric_sketches": 0}, "metric_sketches must be an integer >= 1"),
        ({"metric_rows": 5, "output_metric": "identity"}, "metric_rows must be None unless output_metric is fisher"),
    ],
)
def test_bad_options(options, message):
    layer, X = random_layer("heads")
    with pytest.raises(InvalidInstance, match=message):
        prune_layer(layer, X, 0.5, **options)


def test_weights_that_are_forgotten_would_be_seen(monkeypatch):
    """Each drawn row counted once, however likely it was: biased, and the test of the mean says so."""
    right = fisher_draws._of_sample
    monkeypatch.setattr(fisher_draws, "_of_sample", lambda weights: right((weights > 0).astype(float)))
    with pytest.raises(AssertionError):
        test_the_mean_over_all_draws_is_the_exact_sum("rope half", monkeypatch)
