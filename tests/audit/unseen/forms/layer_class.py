"""The layer functions as a class that prepares positions once, all heads and samples at a time."""

import numpy as np


class Heads:
    def __init__(self, layer, n):
        self.layer, self.m = layer, layer.W_Q.shape[1] // layer.heads
        self.group = layer.heads // layer.kv_heads
        i, j = np.arange(n)[:, None], np.arange(n)
        self.apart = abs(i - j)
        self.allowed = np.ones((n, n), bool)
        if isinstance(layer.mask, str):
            self.allowed = j <= i
        elif layer.mask is not None:
            self.allowed = np.asarray(layer.mask) == 1
        if layer.window is not None:
            self.allowed = self.allowed & (self.apart < layer.window)
        if layer.rope is not None:
            self.cos, self.sin = self._angles(n)

    def _angles(self, n):
        rope, m = self.layer.rope, self.m
        w = rope.theta ** (-np.arange(0, m, 2) / m)
        s = rope.scaling
        if s is not None and s["rope_type"] == "linear":
            w = w / s["factor"]
        elif s is not None:
            turns = s["original_max_position_embeddings"] * w / (2 * np.pi)
            low, high = s["low_freq_factor"], s["high_freq_factor"]
            kept = np.clip((turns - low) / (high - low), 0, 1)
            w = kept * w + (1 - kept) * w / s["factor"]
        angles = np.outer(np.arange(n), w)
        return np.cos(angles), np.sin(angles)

    def turn(self, rows, sign=1):
        if self.layer.rope is None:
            return rows
        half = self.layer.rope.layout == "half"
        pairs = (
            rows.reshape(*rows.shape[:-1], 2, -1)
            if half
            else np.swapaxes(rows.reshape(*rows.shape[:-1], -1, 2), -1, -2)
        )
        a, b = pairs[..., 0, :], pairs[..., 1, :]
        turned = np.stack([a * self.cos - sign * b * self.sin, sign * a * self.sin + b * self.cos], axis=-2)
        return (turned if half else np.swapaxes(turned, -1, -2)).reshape(rows.shape)

    def project(self, X, W, b, heads):
        rows = X @ W if b is None else X @ W + b
        return self.turn(np.swapaxes(rows.reshape(*X.shape[:-1], heads, self.m), -2, -3))

    def scores(self, X, W_Q, W_K):
        layer = self.layer
        q = self.project(X, W_Q, layer.b_Q, layer.heads)
        k = np.repeat(self.project(X, W_K, layer.b_K, layer.kv_heads), self.group, axis=-3)
        s = layer.scale * (q @ np.swapaxes(k, -1, -2))
        bend = 1.0
        if layer.softcap is not None:
            t = np.tanh(s / layer.softcap)
            s, bend = layer.softcap * t, 1 - t * t
        if layer.alibi is not None:
            s = s - np.asarray(layer.alibi)[:, None, None] * self.apart
        return s, q, k, bend

    def weights(self, X, W_Q, W_K):
        s, q, k, bend = self.scores(X, W_Q, W_K)
        s = np.where(self.allowed, s, -np.inf)
        e = np.exp(s - s.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True), q, k, bend


def layer_attention(layer, X):
    return Heads(layer, X.shape[-2]).weights(X, layer.W_Q, layer.W_K)[0]


def layer_loss(layer, M_Q, M_K, X, lam=0.0):
    heads = Heads(layer, X.shape[-2])
    c = heads.weights(X, M_Q * layer.W_Q, M_K * layer.W_K)[0] - heads.weights(X, layer.W_Q, layer.W_K)[0]
    return 0.5 * (c**2).sum(axis=(-1, -2, -3)).mean() + lam / 2 * ((M_Q**2).sum() + (M_K**2).sum())


def layer_gradient(layer, M_Q, M_K, X, lam=0.0):
    heads, X = Heads(layer, X.shape[-2]), X if X.ndim == 3 else X[None]
    F, q, k, bend = heads.weights(X, M_Q * layer.W_Q, M_K * layer.W_K)
    c = F - heads.weights(X, layer.W_Q, layer.W_K)[0]
    ds = layer.scale * bend * F * (c - (c * F).sum(axis=-1, keepdims=True))
    dq, dk = ds @ k, np.swapaxes(ds, -1, -2) @ q
    dk = dk.reshape(len(X), layer.kv_heads, heads.group, *dk.shape[2:]).sum(axis=2)
    dq, dk = (np.swapaxes(heads.turn(one, -1), 1, 2).reshape(*X.shape[:2], -1) for one in (dq, dk))
    D_Q, D_K = (np.einsum("bid,bie->de", X, one) / len(X) for one in (dq, dk))
    return layer.W_Q * D_Q + lam * M_Q, layer.W_K * D_K + lam * M_K
