"""One weight for all heads by einsum; windows, caps and slopes are refused."""

import numpy as np


def layer_attention(layer, X):
    if layer.window is not None or layer.softcap is not None or layer.alibi is not None or layer.rope is not None:
        raise NotImplementedError("only the plain layer")
    m, group = layer.W_Q.shape[1] // layer.heads, layer.heads // layer.kv_heads
    queries = X @ layer.W_Q + (0 if layer.b_Q is None else layer.b_Q)
    keys = X @ layer.W_K + (0 if layer.b_K is None else layer.b_K)
    queries = queries.reshape(*X.shape[:-1], layer.kv_heads, group, m)
    keys = keys.reshape(*X.shape[:-1], layer.kv_heads, m)
    s = layer.scale * np.einsum("...igrm,...jgm->...grij", queries, keys)
    s = s.reshape(*X.shape[:-2], layer.heads, X.shape[-2], X.shape[-2])
    if layer.mask is not None:
        seen = np.tri(X.shape[-2]) if isinstance(layer.mask, str) else layer.mask
        s = np.where(np.asarray(seen) == 1, s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)
