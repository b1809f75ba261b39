"""Layers with all heads at once, einsum, complex rotations, and the gradient by hand through the scores."""

import numpy as np


def _rotations(layer, n):
    """exp(i angle) per token and pair."""
    m = layer.W_Q.shape[1] // layer.heads
    return np.exp(1j * np.outer(np.arange(n), layer.rope.frequencies(m)))


def _turn(layer, rows, back=False):
    if layer.rope is None:
        return rows
    m = rows.shape[-1]
    half = layer.rope.layout == "half"
    first, second = (rows[..., : m // 2], rows[..., m // 2 :]) if half else (rows[..., ::2], rows[..., 1::2])
    turns = _rotations(layer, rows.shape[-2])
    pairs = (first + 1j * second) * (turns.conj() if back else turns)
    if half:
        return np.concatenate([pairs.real, pairs.imag], axis=-1)
    return np.stack([pairs.real, pairs.imag], axis=-1).reshape(rows.shape)


def _split(rows, heads):
    """(k, n, heads*m) to (k, heads, n, m)."""
    return np.moveaxis(rows.reshape(*rows.shape[:-1], heads, -1), -2, -3)


def _joined(heads):
    return np.moveaxis(heads, -3, -2).reshape(*heads.shape[:-3], heads.shape[-2], -1)


def _forward(layer, X, W_Q, W_K):
    queries, keys = X @ W_Q, X @ W_K
    queries = queries if layer.b_Q is None else queries + layer.b_Q
    keys = keys if layer.b_K is None else keys + layer.b_K
    q = _turn(layer, _split(queries, layer.heads) * layer.scale)
    k = np.repeat(_turn(layer, _split(keys, layer.kv_heads)), layer.heads // layer.kv_heads, axis=-3)
    scores = np.einsum("...ia,...ja->...ij", q, k)
    slope = np.ones_like(scores)
    if layer.softcap is not None:
        bent = np.tanh(scores / layer.softcap)
        scores, slope = layer.softcap * bent, 1 - bent**2
    n = X.shape[-2]
    if layer.alibi is not None:
        scores = scores - np.multiply.outer(layer.alibi, np.abs(np.arange(n)[:, None] - np.arange(n)))
    seen = layer.visible.allowed(n)
    scores = np.where(seen, scores, -np.inf)
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return scores / scores.sum(axis=-1, keepdims=True), q, k, slope


def layer_attention(layer, X):
    return _forward(layer, X, layer.W_Q, layer.W_K)[0]


def layer_loss(layer, M_Q, M_K, X, lam=0.0):
    c = _forward(layer, X, M_Q * layer.W_Q, M_K * layer.W_K)[0] - layer_attention(layer, X)
    k = len(X) if X.ndim == 3 else 1
    return np.vdot(c, c) / 2 / k + lam / 2 * (np.vdot(M_Q, M_Q) + np.vdot(M_K, M_K))


def layer_gradient(layer, M_Q, M_K, X, lam=0.0):
    X = X if X.ndim == 3 else X[None]
    F, q, k, slope = _forward(layer, X, M_Q * layer.W_Q, M_K * layer.W_K)
    c = F - layer_attention(layer, X)
    dS = F * (c - np.einsum("...ij,...ij->...i", F, c)[..., None]) * slope
    dq = _turn(layer, np.einsum("...ij,...ja->...ia", dS, k) * layer.scale, back=True)
    dk = np.einsum("...ij,...ia->...ja", dS, q)
    shape = (len(X), layer.kv_heads, -1, *dk.shape[-2:])
    dk = _turn(layer, dk.reshape(shape).sum(axis=2), back=True)
    sides = []
    for W, M, slopes in ((layer.W_Q, M_Q, dq), (layer.W_K, M_K, dk)):
        sides.append(W * np.einsum("kna,knb->ab", X, _joined(slopes)) / len(X) + lam * M)
    return tuple(sides)


def layer_relative_error(dense, pruned, X):
    F, G = (layer_attention(layer, X if X.ndim == 3 else X[None]) for layer in (dense, pruned))
    return ((G - F) ** 2).sum(axis=(0, 2, 3)) / (F**2).sum(axis=(0, 2, 3))
