"""Fisher metrics of the softmax, seen from the weights (derived in docs/fisher_obs.md).

To second order KL(F || F~) = 1/2 sum_i dS_i J_i dS_i^T with J_i = diag(f_i) - f_i^T f_i and dS_i the change of row i of
the logits (where scores are modified by u, diag(u') J_i diag(u') takes J_i's place). A change dA_Q of one head moves
them by dS_ij = scale x_i dA_Q (k_j R_{j-i}^T)^T, a change dA_K by
dS_ij = scale (q_i R_{j-i}) (x_j dA_K)^T, so both second derivatives are sums of Kronecker products

    T_Q = scale^2 sum_i x_i x_i^T (x) C_i,   C_i = R_i^T Kr^T J_i Kr R_i    (Kr: rotated keys, R_i: token i's rotation)
    T_K = scale^2 sum_h sum_i [ sum_j f_ij x_j x_j^T (x) u_ij u_ij^T - v_i v_i^T ]
          u_ij = R_j^T R_i q_i,   v_i = sum_j f_ij x_j (x) u_ij                        (sum over the heads of a group)

The output metrics here are their exact partial traces over the inputs; `fisher_diagonal` has their exact diagonals.
"""

import numpy as np

from attnprune_verify.algorithms.layer.calibration import Calibration
from attnprune_verify.algorithms.layer.fisher_rope import (
    rope_key_diagonal,
    rope_key_metric,
    rope_query_diagonal,
    rope_query_metric,
)
from attnprune_verify.instance.validate import Array


def query_metric(data: Calibration, keys: Array) -> Array:
    """G_Q = scale^2 sum_i |x_i|^2 C_i for the given keys and the dense F; (heads, m, m)."""
    scale = data.layer.scale**2
    if data.layer.rope is None:
        return scale * centred_products(data, keys, keys)
    return scale * data.per_head(rope_query_metric(data, keys))


def key_metric(data: Calibration, queries: Array, weights: Array) -> Array:
    """G_K, the partial trace of T_K, for the given (scaled) queries and the dense F; (kv_heads, m, m).

    Without RoPE it is scale^2 sum_i t_i q_i q_i^T with t_i = tr(X^T J_i X) of `row_weights`.
    """
    if data.layer.rope is None:
        metric = np.einsum("bia,bic->bac", queries * weights[..., np.newaxis], queries, optimize=True)
    else:
        metric = rope_key_metric(data, queries)
    return data.per_group(data.per_head(metric))


def query_metric_size(data: Calibration, keys: Array) -> float:
    """Size of the terms that `centred_products` of the keys subtracts; its rounding errors are relative to this."""
    return float(data.size.sum() * np.square(keys).sum(axis=2).max())


def key_metric_size(data: Calibration, queries: Array) -> float:
    """Size of the terms in sums over t_i q_i q_i^T; t_i is a difference, too."""
    return float(data.size.max() * np.square(queries).sum())


def row_weights(data: Calibration) -> Array:
    """t_i = tr(X^T J_i X) = sum_j f_ij |x_j|^2 - |sum_j f_ij x_j|^2; (k*heads, n)."""
    k, heads, n, d = data.k, data.layer.heads, data.n, data.X.shape[2]
    gram = data.X @ data.X.swapaxes(1, 2) if n <= d else None
    weights = np.empty((k * heads, n))
    for block, _, first, second in data.attention():
        per_sample = first.reshape(k, heads, *first.shape[1:])
        if gram is not None:
            quadratic = np.einsum(
                "khij,khij->khi", per_sample @ gram[:, np.newaxis, block.columns, block.columns], per_sample
            )
        else:
            means = per_sample @ data.X[:, np.newaxis, block.columns]
            quadratic = np.einsum("khia,khia->khi", means, means)
        squares = np.einsum("khij,kj->khi", second.reshape(per_sample.shape), data.size[:, block.columns])
        weights[:, block.rows] = (squares - quadratic).reshape(k * heads, -1)
    return np.maximum(weights, 0.0)  # a variance; rounding may leave it below 0


def centred_products(data: Calibration, left: Array, right: Array) -> Array:
    """sum_i |x_i|^2 left^T J_i right for keys in rotated coordinates; (heads, m, m)."""
    size = data.for_heads(data.size)
    total = np.zeros((len(left), left.shape[2], right.shape[2]))
    mass = np.zeros(size.shape)
    for block, _, first, second in data.attention():
        weight = size[:, block.rows]
        mass[:, block.columns] += np.einsum("bi,bij->bj", weight, second)
        means, other = first @ left[:, block.columns], first @ right[:, block.columns]
        total -= (means * weight[..., np.newaxis]).swapaxes(1, 2) @ other
    total += (left * mass[..., np.newaxis]).swapaxes(1, 2) @ right
    return data.per_head(total)


def fisher_diagonal(data: Calibration) -> tuple[Array, Array]:
    """The exact diagonals of T_Q and T_K: second derivatives of the KL in single weights.

    ::

        h_Q[p, c] = scale^2 sum_i x_ip^2 (C_i)_cc
        h_K[p, c] = scale^2 sum_h sum_i q_ic^2 (X^T J_i X)_pp          (without RoPE)

    Returns
    -------
    (heads, d, m) array, (kv_heads, d, m) array
    """
    data_squared = data.X**2
    k, heads = data.k, data.layer.heads
    if data.layer.rope is not None:
        of_Q, of_K = rope_query_diagonal(data), rope_key_diagonal(data)
    else:
        spread = np.empty_like(data.keys)
        of_K = np.zeros((k * heads, data.X.shape[2], data.keys.shape[2]))
        for block, _, first, second in data.attention():
            means = first @ data.keys[:, block.columns]
            spread[:, block.rows] = second @ data.keys[:, block.columns] ** 2 - means**2
            linear, square = (weight.reshape(k, heads, *weight.shape[1:]) for weight in (first, second))
            tokens = data.X[:, np.newaxis, block.columns]
            token_spread = square @ tokens**2 - (linear @ tokens) ** 2
            of_K += (
                token_spread.reshape(k * heads, *token_spread.shape[2:]).swapaxes(1, 2)
                @ data.queries[:, block.rows] ** 2
            )
        of_Q = np.einsum("kip,khic->khpc", data_squared, spread.reshape(k, heads, data.n, -1), optimize=True)
        of_Q = of_Q.reshape(k * heads, *of_Q.shape[2:])
    h_Q = data.layer.scale**2 * data.per_head(of_Q)
    return np.maximum(h_Q, 0.0), np.maximum(data.per_group(data.per_head(of_K)), 0.0)


def squared_query_metric(data: Calibration, keys: Array) -> Array:
    """scale^2 sum_i |x_i|^2 K^T J_i^2 K; (heads, m, m): the squared attention error's metric, without RoPE.

    1/2 ||F~ - F||_F^2 = 1/2 sum_i dS_i J_i^2 dS_i^T to second order, and J_i z = f_i * (z - <f_i, z>).
    """
    size = data.for_heads(data.size)
    total = np.zeros((len(keys), keys.shape[2], keys.shape[2]))
    for block, F, first, _ in data.attention():
        weight = size[:, block.rows, np.newaxis]
        seen = keys[:, block.columns]
        means, other = first @ seen, (F * first) @ seen
        total += (seen * (weight * first**2).sum(axis=1)[..., np.newaxis]).swapaxes(1, 2) @ seen
        mixed = (weight * means).swapaxes(1, 2) @ other
        total -= mixed + mixed.swapaxes(1, 2)
        total += (weight * (F**2).sum(axis=2, keepdims=True) * means).swapaxes(1, 2) @ means
    return data.layer.scale**2 * data.per_head(total)


def squared_row_weights(data: Calibration) -> Array:
    """tr(X^T J_i^2 X) = sum_j f_ij^2 |x_j - sum_l f_il x_l|^2; (k*heads, n)."""
    weights = np.empty((data.k * data.layer.heads, data.n))
    tokens = data.for_heads(data.X)
    for block, F, first, _ in data.attention():
        seen = tokens[:, block.columns]
        means, other = first @ seen, (F * first) @ seen
        squares = np.einsum("bij,bj->bi", first**2, np.einsum("bja,bja->bj", seen, seen))
        cross = np.einsum("bia,bia->bi", means, other)
        last = np.einsum("bia,bia->bi", means, means) * (F**2).sum(axis=2)
        weights[:, block.rows] = squares - 2 * cross + last
    return np.maximum(weights, 0.0)
