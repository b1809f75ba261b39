"""A plain layer through one fused weight a head; what has no fused weight is refused, as real code refuses it."""

import numpy as np


def _fused(layer, W_Q, W_K):
    extras = {name: getattr(layer, name) for name in ("b_Q", "b_K", "rope", "window", "softcap", "alibi")}
    given = [name for name, value in extras.items() if value is not None]
    if given or layer.heads != layer.kv_heads:
        raise NotImplementedError(f"no {', '.join(given) or 'groups'}")
    m = W_Q.shape[1] // layer.heads
    return [W_Q[:, a : a + m] @ W_K[:, a : a + m].T * layer.scale for a in range(0, W_Q.shape[1], m)]


def _softmax(layer, A):
    if layer.mask is not None:
        A = np.where(np.tri(A.shape[-1]) if isinstance(layer.mask, str) else layer.mask, A, -np.inf)
    A = A - np.max(A, axis=-1, keepdims=True)
    return np.exp(A - np.log(np.exp(A).sum(axis=-1, keepdims=True)))


def _attention(layer, X, weights):
    return np.stack([_softmax(layer, X @ A @ X.swapaxes(-1, -2)) for A in weights], axis=-3)


def layer_attention(layer, X):
    return _attention(layer, X, _fused(layer, layer.W_Q, layer.W_K))


def layer_loss(layer, M_Q, M_K, X, lam=0.0):
    if X.ndim == 3:
        raise ValueError("one sequence at a time")
    c = _attention(layer, X, _fused(layer, M_Q * layer.W_Q, M_K * layer.W_K)) - layer_attention(layer, X)
    return 0.5 * (c**2).sum() + 0.5 * lam * ((M_Q**2).sum() + (M_K**2).sum())
