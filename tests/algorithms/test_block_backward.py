"""The backward pass of a block against finite differences of the block itself and, where it is installed, torch."""

from dataclasses import replace

import numpy as np
import pytest

from attnprune_verify.algorithms.matrix.block_backward import attention_gradients, block_backward
from attnprune_verify.algorithms.matrix.damping import second_moments
from attnprune_verify.algorithms.matrix.metrics import OUTPUT_METRICS, OutputSums, output_blocks, probe
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.rope import RoPE
from attnprune_verify.pretrained.block import Block
from attnprune_verify.pretrained.pieces import LayerNorm, Linear, RMSNorm, activation

KINDS = {
    "decoder": dict(norm_first=True, gated=True, act="silu", mask="causal", rope=RoPE(100.0), kv_heads=1),
    "decoder, gelu": dict(norm_first=True, gated=True, act="gelu_new", mask="causal", kv_heads=2),
    "capped": dict(norm_first=True, gated=True, act="silu", mask="causal", kv_heads=1, softcap=2.0),
    "two groups of two": dict(norm_first=True, gated=True, act="silu", mask="causal", heads=4, kv_heads=2),
    "encoder": dict(norm_first=False, gated=False, act="gelu", kv_heads=2),
    "encoder, relu": dict(norm_first=False, gated=False, act="relu", kv_heads=2),
}


def random_block(kind, seed=0, d=6, inner=5, n=7, k=2):
    """A small block and hidden states for it."""
    rng = np.random.default_rng(seed)
    options = dict(KINDS[kind])
    norm_first, gated, act = (options.pop(name) for name in ("norm_first", "gated", "act"))
    normal = lambda *shape: 0.5 * rng.normal(size=shape)  # noqa: E731
    heads = options.pop("heads", 2)
    wide, kv = 4 * heads, 4 * options["kv_heads"]
    layer = AttentionLayer(normal(d, wide), normal(d, kv), normal(wide), normal(kv), heads=heads, **options)
    shapes = {"V": (kv, d), "O": (d, wide), "gate": (inner, d), "up": (inner, d), "down": (d, inner)}
    maps = {role: Linear(normal(*shape), normal(shape[0])) for role, shape in shapes.items() if gated or role != "gate"}
    norm = lambda: RMSNorm(1 + normal(d), 1e-3) if norm_first else LayerNorm(1 + normal(d), normal(d), 1e-3)  # noqa: E731
    return Block(layer, maps, (norm(), norm()), activation(act), norm_first), rng.normal(size=(k, n, d))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_slopes(kind):
    """A change of any map's output (through its bias) and of what comes in changes the output as the gradients say."""
    block, hidden = random_block(kind)
    rng = np.random.default_rng(1)
    upstream = rng.normal(size=hidden.shape)
    gradients = block_backward(block, block(hidden), upstream)
    assert set(gradients.maps) == set(block.roles)
    for role in (*block.roles, "hidden"):
        size = hidden.shape if role == "hidden" else (len(block.weight(role)),)
        direction = rng.normal(size=size)

        def moved(step, role=role, direction=direction):
            if role == "hidden":
                return np.vdot(upstream, block(hidden + step * direction).output)
            return np.vdot(upstream, shifted(block, role, step * direction)(hidden).output)

        slope = (moved(1e-5) - moved(-1e-5)) / 2e-5
        claimed = gradients.hidden if role == "hidden" else gradients.maps[role]
        assert np.sum(claimed * direction) == pytest.approx(slope, rel=1e-6, abs=1e-8)


def shifted(block, role, change):
    if role in ("Q", "K"):
        layer = block.layer
        biases = (layer.b_Q + change, layer.b_K) if role == "Q" else (layer.b_Q, layer.b_K + change)
        options = dict(
            heads=layer.heads, kv_heads=layer.kv_heads, rope=layer.rope, mask=layer.mask, softcap=layer.softcap
        )
        return replace(block, layer=AttentionLayer(layer.W_Q, layer.W_K, *biases, **options))
    changed = replace(block.maps[role], bias=block.maps[role].bias + change)
    return replace(block, maps={**block.maps, role: changed})


@pytest.mark.parametrize("metric", OUTPUT_METRICS)
def test_every_metric_is_positive_semidefinite_and_of_the_right_size(metric):
    block, hidden = random_block("decoder")
    trace, rng = block(hidden), np.random.default_rng(0)
    sums = OutputSums(block, block.roles, len(hidden))
    probed = probe(metric, block, trace, rng, upstream=np.ones_like(hidden))
    sums.add(probed)
    for role in probed:
        H = sums.sums[role].finish().H
        assert H.shape[0] == output_blocks(block, role) and H.shape[0] * H.shape[1] == len(block.weight(role))
        assert np.linalg.eigvalsh(H).min() >= -1e-12 * np.abs(H).max()


@pytest.mark.parametrize("kind", ["encoder", "two groups of two"])
def test_boa_is_the_gram_matrix_of_the_partner(kind):
    """BoA (arXiv 2406.13474): K^T K for queries, Q^T Q for keys, head by head (summed over the queries of a group)."""
    block, hidden = random_block(kind)
    trace = block(hidden)
    sums = OutputSums(block, "QK", len(hidden))
    sums.add(probe("boa", block, trace, np.random.default_rng(0)))
    layer = block.layer
    x, group = block.norms[0](hidden) if block.norm_first else hidden, layer.group
    queries, keys = (side.reshape(14, -1, 4) for side in (x @ layer.W_Q + layer.b_Q, x @ layer.W_K + layer.b_K))
    met = {"Q": [keys[:, head // group] for head in range(layer.heads)]}
    met["K"] = [layer.scale * queries[:, group * g : group * (g + 1)].reshape(-1, 4) for g in range(layer.kv_heads)]
    for role, partners in met.items():
        for found, rows in zip(sums.sums[role].finish().H, partners, strict=True):
            assert found == pytest.approx(rows.T @ rows / len(rows), rel=1e-9)


def test_the_factors_of_k_fac():
    """K-FAC: E[a a^T] of the inputs and E[g g^T] of the outputs, each a mean over tokens (arXiv 2312.17244, eq. 6)."""
    block, hidden = random_block("decoder")
    trace, upstream = block(hidden), np.random.default_rng(5).normal(size=hidden.shape)
    sums = OutputSums(block, ["up"], len(hidden))
    sums.add(probe("kfac", block, trace, np.random.default_rng(0), upstream))
    g, a = block_backward(block, trace, upstream).maps["up"].reshape(14, -1), trace.y.reshape(14, -1)
    assert sums.sums["up"].finish().H[0] == pytest.approx(np.mean([np.outer(row, row) for row in g], axis=0))
    assert second_moments(trace.y).H == pytest.approx(np.mean([np.outer(row, row) for row in a], axis=0))


def test_a_loss_metric_needs_the_loss():
    block, hidden = random_block("decoder")
    with pytest.raises(InvalidInstance, match="upstream must be given for the metric loss"):
        probe("loss", block, block(hidden), np.random.default_rng(0))


def test_attention_against_torch():
    torch = pytest.importorskip("torch")
    block, hidden = random_block("decoder, gelu", k=1)
    layer, x = block.layer, torch.tensor(block.norms[0](hidden)[0])
    q, k, v = (
        (x @ torch.tensor(block.weight(role).T.copy()) + torch.tensor(bias)).requires_grad_(True)
        for role, bias in (("Q", layer.b_Q), ("K", layer.b_K), ("V", block.maps["V"].bias))
    )
    heads = [part.reshape(7, 2, 4).transpose(0, 1) for part in (q, k, v)]
    mixed = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True).transpose(0, 1).reshape(7, 8)
    upstream = np.random.default_rng(1).normal(size=hidden.shape)
    (mixed @ torch.tensor(block.weight("O").T.copy()) * torch.tensor(upstream[0])).sum().backward()
    got = attention_gradients(block, block(hidden), upstream)
    for role, tensor in (("Q", q), ("K", k), ("V", v)):
        assert got[role][0] == pytest.approx(tensor.grad.numpy(), rel=1e-9, abs=1e-12)
