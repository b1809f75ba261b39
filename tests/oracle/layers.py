"""Layers for the tests of the oracles, and gradients of them: right in several styles, and wrong ones. Own formulas."""

import numpy as np

from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.problem import LayerInstance
from attnprune_verify.instance.rope import RoPE
from tests.oracle.problems import LOGITS, softmax

SHAPES = (  # heads, kv_heads, options
    (1, 1, {}),
    (2, 1, {"mask": "causal"}),
    (4, 2, {"rope": RoPE(100.0), "mask": "causal"}),
    (2, 2, {"rope": RoPE(10.0, "interleaved", {"rope_type": "linear", "factor": 2.0}), "window": 3}),
    (3, 3, {"softcap": 2.0, "mask": "causal"}),
    (2, 1, {"alibi": [0.5, -0.25], "mask": "causal"}),
    (4, 2, {"rope": RoPE(7.0), "softcap": 30.0, "alibi": [1.0, 0.5, 0.25, 0.0], "mask": "causal", "window": 4}),
)


def random_instance(rng, index, *, largest=7, logits=None, dtype=np.float64, n=None):
    """All shapes in turn, with and without biases, lam = 0 too; logits of about the size asked for."""
    heads, kv_heads, options = SHAPES[index % len(SHAPES)]
    n = int(rng.integers(1, largest + 1)) if n is None else n
    d, m, k = int(rng.integers(1, largest + 1)), 2 * int(rng.integers(1, 3)), int(rng.integers(0, 3))
    X = rng.standard_normal((k, n, d) if k else (n, d))
    size = LOGITS[index % len(LOGITS)] if logits is None else logits
    W_Q, W_K = (np.sqrt(size) * rng.standard_normal((d, count * m)) / np.sqrt(d) for count in (heads, kv_heads))
    biases = [np.sqrt(size) * rng.standard_normal(count * m) for count in (heads, kv_heads)]
    arrays = [part.astype(dtype) for part in (W_Q, W_K, *biases)]
    if index % 3 == 0:
        arrays[2] = arrays[3] = None
    layer = AttentionLayer(*arrays, heads=heads, kv_heads=kv_heads, **options)
    masks = (rng.uniform(-0.2, 1.2, W.shape).astype(dtype) for W in (W_Q, W_K))
    lam = float(np.float32((0.0, 0.1, 1e-4)[index % 3]))
    return LayerInstance(layer, X.astype(dtype), **dict(zip(("M_Q", "M_K"), masks, strict=True)), lam=lam)


def rotated(rope, rows, places, *, inverse=False, rough=False):
    """Pairs as complex numbers times exp(i angle); `rough` forms the angles in the precision of the rows, too."""
    if rope is None:
        return rows
    m = rows.shape[-1]
    first, second = rope.pairs(m)
    angles = np.outer(places, rope.frequencies(m))
    if rough:
        angles = np.outer(places.astype(rows.dtype), rope.frequencies(m).astype(rows.dtype))
    turn = np.exp((-1j if inverse else 1j) * angles)
    numbers = (rows[..., first] + 1j * rows[..., second]) * turn.astype(np.result_type(rows, np.complex64))
    turned = np.empty_like(rows)
    turned[..., first], turned[..., second] = numbers.real, numbers.imag
    return turned


def allowed(layer, n, mistake=None):
    i, j = np.mgrid[:n, :n]
    seen = np.ones((n, n), bool) if layer.mask is None else i >= j
    width = np.inf if layer.window is None else layer.window + (mistake == "window off by one")
    return seen & (abs(i - j) < width)


def gradients(instance, style="plain", mistake=None):
    """(G_Q, G_K) in the dtype of the instance."""
    layer, dtype, n = instance.layer, instance.X.dtype, instance.n
    kind, m, group = dtype.type, layer.m, layer.heads // layer.kv_heads
    seen, places = allowed(layer, n, mistake), np.arange(n)
    sums = [np.zeros_like(W) for W in (layer.W_Q, layer.W_K)]
    order = slice(None, None, -1) if style == "reversed" else slice(None)
    for tokens in instance.samples:
        tokens = tokens[order]
        for head in range(layer.heads):
            key_head = head % layer.kv_heads if mistake == "heads swapped" else head // group
            own, shared = slice(head * m, (head + 1) * m), slice(key_head * m, (key_head + 1) * m)
            parts = [
                attention(
                    layer, tokens, W_Q[:, own], W_K[:, shared], head, key_head, places[order], seen, style, mistake
                )
                for W_Q, W_K in (
                    (instance.M_Q * layer.W_Q, instance.M_K * layer.W_K),
                    (layer.W_Q, layer.W_K),
                )
            ]
            f, queries, keys, bend = parts[0]
            c = f - parts[1][0]
            p = (
                c * f - (c * f).sum(axis=1, keepdims=True) * f
                if style == "reversed"
                else f * (c - (c * f).sum(1)[:, None])
            )
            p = p * (1 if mistake == "missing tanh derivative" else bend)
            p = p * (1 if mistake == "scale missing in gradient" else kind(layer.scale))
            for total, columns, slope in zip(sums, (own, shared), (p @ keys, p.T @ queries), strict=True):
                back = rotated(
                    layer.rope,
                    slope,
                    places[order],
                    inverse=mistake != "rotation transposed",
                    rough=style == "reversed",
                )
                if mistake == "group sum dropped" and total is sums[1]:
                    total[:, columns] = tokens.T @ back
                else:
                    total[:, columns] += tokens.T @ back
    share = kind(len(instance.samples))
    found = [
        W * (total / share) + kind(instance.lam) * M
        for W, total, M in zip((layer.W_Q, layer.W_K), sums, (instance.M_Q, instance.M_K), strict=True)
    ]
    return [-part for part in found] if mistake == "sign flipped" else found


def attention(layer, tokens, A_Q, A_K, head, key_head, places, seen, style, mistake):
    """One head's attention, its turned queries and keys, and the slope of the cap."""
    kind, m = tokens.dtype.type, layer.m
    b_Q, b_K = (
        np.zeros(m, tokens.dtype) if b is None or mistake == "bias dropped" else b[place * m : (place + 1) * m]
        for b, place in ((layer.b_Q, head), (layer.b_K, key_head))
    )
    queries, keys = (
        rotated(layer.rope, tokens @ A + b, places, rough=style == "reversed") for A, b in ((A_Q, b_Q), (A_K, b_K))
    )
    if style == "fused" and layer.rope is None:
        whole = np.concatenate([tokens, np.ones((len(tokens), 1), tokens.dtype)], axis=1)
        product = np.vstack([A_Q, b_Q]) @ np.vstack([A_K, b_K]).T
        logits = kind(layer.scale) * (whole @ product @ whole.T)
    else:
        logits = (kind(layer.scale) * queries) @ keys.T if style == "reversed" else queries @ keys.T * kind(layer.scale)
    seen, bend = seen[np.ix_(places, places)], kind(1)
    if mistake == "cap after mask":
        logits, seen = np.where(seen, logits, kind(-np.inf)), np.ones_like(seen)
    if layer.softcap is not None:
        share = logits / kind(layer.softcap)
        bend = 1 / np.cosh(np.clip(share, -40, 40)) ** 2 if style == "fused" else 1 - np.tanh(share) ** 2
        logits = kind(layer.softcap) * np.tanh(share)
    if layer.alibi is not None:
        fall = layer.alibi[head].astype(tokens.dtype) * abs(places[:, None] - places).astype(tokens.dtype)
        logits = logits + fall if mistake == "slope sign" else logits - fall
    return softmax(logits, seen), queries, keys, bend


STYLES = ("plain", "reversed", "fused")
MISTAKES = {  # and a shape on which each shows
    "sign flipped": 2,
    "group sum dropped": 2,
    "rotation transposed": 2,
    "heads swapped": 2,
    "bias dropped": 1,
    "scale missing in gradient": 0,
    "window off by one": 3,
    "cap after mask": 4,
    "missing tanh derivative": 4,
    "slope sign": 5,
}
