"""A right implementation of the layer functions, written plainly: every wrong one is an edit of a line or two."""

import numpy as np


def softmax(logits, allowed):
    shift = np.max(np.where(allowed, logits, -np.inf), axis=1, keepdims=True)
    weights = np.where(allowed, np.exp(np.where(allowed, logits - shift, 0)), 0)
    F = weights / weights.sum(axis=1, keepdims=True)
    return F


def allowed_of(layer, n):
    if layer.mask is None:
        allowed = np.ones((n, n), dtype=bool)
    elif isinstance(layer.mask, str):
        allowed = np.tri(n, dtype=bool)
    else:
        allowed = np.asarray(layer.mask) == 1
    if layer.window is not None:
        apart = np.subtract.outer(np.arange(n), np.arange(n))
        allowed = allowed & (abs(apart) < layer.window)
    return allowed


def frequencies(rope, m):
    w = rope.theta ** (-2 * np.arange(m // 2) / m)
    if rope.scaling is None:
        return w
    s = rope.scaling
    if s["rope_type"] == "linear":
        return w / s["factor"]
    turns = s["original_max_position_embeddings"] * w / (2 * np.pi)
    kept = (turns - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"])
    kept = np.clip(kept, 0, 1)
    return kept * w + (1 - kept) * w / s["factor"]


def turn(rows, rope, sign=1):
    if rope is None:
        return rows
    n, m = rows.shape
    angles = sign * np.arange(n)[:, None] * frequencies(rope, m)
    first = np.arange(m // 2) if rope.layout == "half" else 2 * np.arange(m // 2)
    second = first + m // 2 if rope.layout == "half" else first + 1
    out = np.empty_like(rows)
    out[:, first] = rows[:, first] * np.cos(angles) - rows[:, second] * np.sin(angles)
    out[:, second] = rows[:, first] * np.sin(angles) + rows[:, second] * np.cos(angles)
    return out


def key_of(layer, h):
    return h // (layer.heads // layer.kv_heads)


def head(layer, h, X, W_Q, W_K):
    m = layer.W_Q.shape[1] // layer.heads
    g = key_of(layer, h)
    q = X @ W_Q[:, h * m : (h + 1) * m]
    k = X @ W_K[:, g * m : (g + 1) * m]
    if layer.b_Q is not None:
        q = q + layer.b_Q[h * m : (h + 1) * m]
    if layer.b_K is not None:
        k = k + layer.b_K[g * m : (g + 1) * m]
    q = turn(q, layer.rope)
    k = turn(k, layer.rope)
    scale = layer.scale
    S = scale * (q @ k.T)
    slope = 1.0
    if layer.softcap is not None:
        t = np.tanh(S / layer.softcap)
        S = layer.softcap * t
        slope = 1 - t * t
    if layer.alibi is not None:
        apart = abs(np.subtract.outer(np.arange(len(X)), np.arange(len(X))))
        S = S - layer.alibi[h] * apart
    F = softmax(S, allowed_of(layer, len(X)))
    return F, q, k, slope


def layer_attention(layer, X):
    if X.ndim == 3:
        return np.stack([layer_attention(layer, x) for x in X])
    return np.stack([head(layer, h, X, layer.W_Q, layer.W_K)[0] for h in range(layer.heads)])


def pruned(layer, M_Q, M_K):
    return M_Q * layer.W_Q, M_K * layer.W_K


def layer_loss(layer, M_Q, M_K, X, lam=0.0):
    if X.ndim == 3:
        each = [layer_loss(layer, M_Q, M_K, x, 0.0) for x in X]
        return np.mean(each) + lam / 2 * ((M_Q * M_Q).sum() + (M_K * M_K).sum())
    A_Q, A_K = pruned(layer, M_Q, M_K)
    total = 0.0
    for h in range(layer.heads):
        F = head(layer, h, X, A_Q, A_K)[0]
        dense = head(layer, h, X, layer.W_Q, layer.W_K)[0]
        total = total + 0.5 * ((F - dense) ** 2).sum()
    regular = 0.5 * lam * ((M_Q * M_Q).sum() + (M_K * M_K).sum())
    return total + regular


def layer_gradient(layer, M_Q, M_K, X, lam=0.0):
    if X.ndim == 3:
        each = [layer_gradient(layer, M_Q, M_K, x, 0.0) for x in X]
        return sum(a for a, _ in each) / len(X) + lam * M_Q, sum(b for _, b in each) / len(X) + lam * M_K
    m = layer.W_Q.shape[1] // layer.heads
    A_Q, A_K = pruned(layer, M_Q, M_K)
    D_Q, D_K = np.zeros_like(A_Q), np.zeros_like(A_K)
    for h in range(layer.heads):
        g = key_of(layer, h)
        F, q, k, slope = head(layer, h, X, A_Q, A_K)
        dense = head(layer, h, X, layer.W_Q, layer.W_K)[0]
        c = F - dense
        p = c * F - (c * F).sum(axis=1, keepdims=True) * F
        p = p * slope
        dq = layer.scale * (p @ k)
        dk = layer.scale * (p.T @ q)
        D_Q[:, h * m : (h + 1) * m] = X.T @ turn(dq, layer.rope, -1)
        D_K[:, g * m : (g + 1) * m] += X.T @ turn(dk, layer.rope, -1)
    G_Q = layer.W_Q * D_Q + lam * M_Q
    G_K = layer.W_K * D_K + lam * M_K
    return G_Q, G_K


def layer_relative_error(dense, pruned, X):
    samples = X if X.ndim == 3 else X[None]
    errors = []
    for h in range(dense.heads):
        F = [head(dense, h, x, dense.W_Q, dense.W_K)[0] for x in samples]
        G = [head(pruned, h, x, pruned.W_Q, pruned.W_K)[0] for x in samples]
        error = sum(((b - a) ** 2).sum() for a, b in zip(F, G, strict=True)) / sum((a**2).sum() for a in F)
        errors.append(error)
    return np.array(errors)
