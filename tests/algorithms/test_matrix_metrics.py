"""Output metrics by backward probes: gradients against finite differences, and their moments in expectation exactly."""

import numpy as np
import pytest
from scipy.linalg import hadamard

from attnprune_verify.algorithms.layer.calibration import Calibration
from attnprune_verify.algorithms.layer.fisher import key_metric, query_metric, row_weights
from attnprune_verify.algorithms.matrix.backward import attention_backward, softmax_probe
from attnprune_verify.algorithms.matrix.damping import MomentSum
from attnprune_verify.model.layer_functions import layer_attention
from tests.model.layers import KINDS, random_layer


class SignTable:
    """Stands for a random generator: every call takes the next columns of one row of a Hadamard matrix.

    Columns of a Hadamard matrix are orthogonal, so averages over its rows of anything quadratic in the signs are exact
    expectations.
    """

    def __init__(self, row):
        self.bits, self.used = (row + 1) // 2, 0

    def integers(self, low, high, shape, dtype):
        size = int(np.prod(shape))
        self.used += size
        return self.bits[self.used - size : self.used].reshape(shape).astype(dtype)


def mixed(layer, X, values):
    """The heads' mixtures, written out."""
    v = values.reshape(len(X), layer.kv_heads, -1)
    F = layer_attention(layer, X)
    return np.concatenate([F[h] @ v[:, h // layer.group] for h in range(layer.heads)], axis=1)


@pytest.mark.parametrize("kind", KINDS)
def test_attention_backward_is_the_transposed_derivative(kind):
    """dL for a change of the weights and of the values, from the gradients at the maps' outputs and by differences."""
    layer, X = random_layer(kind)
    X, rng = X[0], np.random.default_rng(1)
    values, upstream = rng.normal(size=(len(X), 3 * layer.kv_heads)), rng.normal(size=(len(X), 3 * layer.heads))
    d_Q, d_K, d_V = rng.normal(size=layer.W_Q.shape), rng.normal(size=layer.W_K.shape), rng.normal(size=values.shape)
    got = attention_backward(layer, X, values, upstream)

    def moved(step):
        changed = layer.with_weights(layer.W_Q + step * d_Q, layer.W_K + step * d_K)
        return np.vdot(upstream, mixed(changed, X, values + step * d_V))

    step = 1e-5
    slope = (moved(step) - moved(-step)) / (2 * step)
    assert np.vdot(got.queries, X @ d_Q) + np.vdot(got.keys, X @ d_K) + np.vdot(got.values, d_V) == pytest.approx(
        slope, rel=1e-7
    )


@pytest.mark.parametrize("kind", KINDS)
def test_softmax_probes_are_the_fisher_metric_in_expectation(kind):
    """Averaged over orthogonal signs, the probes give the exact partial traces that `fisher-obs` computes.

    Queries: sum |x_i|^2 g_i g_i^T as it is. Keys: a row's softmax ties its keys together, so the exact trace is that of
    the weight's gradient X^T g; the sum over tokens alone leaves the products of two tokens out.
    """
    layer, X = random_layer(kind, n=5, k=1)
    data = Calibration(layer, X)
    table = hadamard(128)  # heads * n * n <= 100 of its columns are used, none constant
    for_Q, for_K = MomentSum(layer.heads * layer.m, len(table), layer.heads), 0
    for row in table:
        probe = softmax_probe(layer, X[0], SignTable(row[1:]))
        for_Q.add(probe.queries, np.square(X[0]).sum(axis=1))
        of_weight = (X[0].T @ probe.keys).reshape(layer.d, layer.kv_heads, -1).swapaxes(0, 1)
        for_K += of_weight.swapaxes(1, 2) @ of_weight
    exact_K = key_metric(data, data.queries, row_weights(data))
    assert len(X[0]) * for_Q.finish().H == pytest.approx(query_metric(data, data.keys), rel=1e-9, abs=1e-12)
    assert for_K / len(table) == pytest.approx(exact_K, rel=1e-9, abs=1e-12)


def test_signed_probes_of_the_attention_output_are_its_squared_change_in_expectation():
    """The metric of the attention output, from its whole Jacobian, against orthogonal probes."""
    layer, X = random_layer("rope half")
    X, rng = X[0], np.random.default_rng(2)
    values, W_O = rng.normal(size=(len(X), 3 * layer.kv_heads)), rng.normal(size=(5, 3 * layer.heads))
    probes = hadamard(32)[:, 1 : 1 + 5 * len(X)]

    def metric(table):
        sums = MomentSum(layer.heads * layer.m, len(table), layer.heads)
        for row in table:
            gradients = attention_backward(layer, X, values, row.reshape(len(X), 5) @ W_O)
            sums.add(gradients.queries, np.square(X).sum(axis=1))
        return sums.finish().H * len(table)

    assert metric(probes) / len(probes) == pytest.approx(metric(np.eye(5 * len(X))), rel=1e-9)
