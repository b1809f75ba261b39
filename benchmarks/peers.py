"""Other ways to the same loss and gradient, each with F(1) known: what `against_the_limit.py` compares with.

A peer is None where its package is not installed.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = [
    "Run",
    "autograd_run",
    "jax_runs",
    "numba_run",
    "torch_layer_run",
    "torch_runs",
    "typed_in",
    "typed_in_layer",
]

Run = Callable[[], Any]


def typed_in(M: Any, X: Any, W: Any, f: Any, allowed: Any) -> Any:
    """The formula as anyone would type it into NumPy."""
    logits = X @ (M * W) @ X.T
    if allowed is not None:
        logits = np.where(allowed, logits, -np.inf)
    F = np.exp(logits - logits.max(axis=1, keepdims=True))
    F /= F.sum(axis=1, keepdims=True)
    c = F - f
    p = c * F - (c * F).sum(axis=1, keepdims=True) * F
    return 0.5 * (c**2).sum() + 0.05 * (M**2).sum(), W * (X.T @ p @ X) + 0.1 * M


def autograd_run(M: Any, X: Any, W: Any, f: Any, allowed: Any) -> Run:
    """HIPS autograd."""
    import autograd.numpy as anp
    from autograd import value_and_grad

    def loss(M: Any) -> Any:
        logits = anp.dot(anp.dot(X, M * W), X.T)
        if allowed is not None:
            logits = anp.where(allowed, logits, -anp.inf)
        E = anp.exp(logits - anp.max(logits, axis=1, keepdims=True))
        F = E / anp.sum(E, axis=1, keepdims=True)
        return 0.5 * anp.sum((F - f) ** 2) + 0.05 * anp.sum(M**2)

    both = value_and_grad(loss)
    return lambda: both(M)


def torch_runs(M: Any, X: Any, W: Any, f: Any, allowed: Any) -> dict[str, Run]:
    """Automatic differentiation, the closed form, and the four full matrix products alone."""
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)
    m, x, w, dense = (torch.from_numpy(np.ascontiguousarray(a)) for a in (M, X, W, f))
    hidden = None if allowed is None else torch.from_numpy(~allowed)

    def softmax(point: Any) -> Any:
        logits = x @ (point * w) @ x.T
        return torch.softmax(logits if hidden is None else logits.masked_fill(hidden, -torch.inf), dim=1)

    def differentiated() -> Any:
        point = m.clone().requires_grad_(True)
        (0.5 * ((softmax(point) - dense) ** 2).sum() + 0.05 * (point**2).sum()).backward()
        return point.grad

    def closed() -> Any:
        with torch.no_grad():
            F = softmax(m)
            c = F - dense
            p = F * (c - (c * F).sum(dim=1, keepdim=True))
            return 0.5 * (c**2).sum() + 0.05 * (m**2).sum(), w * (x.T @ (p @ x)) + 0.1 * m

    p = torch.from_numpy(np.ascontiguousarray(f))
    products = [lambda: x @ w @ x.T, lambda: x.T @ (p @ x)]
    return {
        "torch": differentiated,
        "torch, closed": closed,
        "torch, products": lambda: [product() for product in products],
    }


def jax_runs(M: Any, X: Any, W: Any, f: Any, allowed: Any) -> dict[str, Run]:
    """The same, compiled."""
    try:
        import jax
    except ImportError:
        return {}
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    m, x, w, dense = (jnp.asarray(a) for a in (M, X, W, f))
    seen = None if allowed is None else jnp.asarray(allowed)

    def softmax(point: Any) -> Any:
        logits = x @ (point * w) @ x.T
        return jax.nn.softmax(logits if seen is None else jnp.where(seen, logits, -jnp.inf), axis=1)

    def loss(point: Any) -> Any:
        return 0.5 * ((softmax(point) - dense) ** 2).sum() + 0.05 * (point**2).sum()

    def closed(point: Any) -> Any:
        F = softmax(point)
        c = F - dense
        p = F * (c - (c * F).sum(axis=1, keepdims=True))
        return 0.5 * (c**2).sum() + 0.05 * (point**2).sum(), w * (x.T @ (p @ x)) + 0.1 * point

    both, formula = jax.jit(jax.value_and_grad(loss)), jax.jit(closed)
    products = jax.jit(lambda point: (x @ (point * w) @ x.T, x.T @ (dense @ (x * point[0, 0]))))  # nothing known ahead
    return {
        "jax": lambda: jax.block_until_ready(both(m)),
        "jax, closed": lambda: jax.block_until_ready(formula(m)),
        "jax, products": lambda: jax.block_until_ready(products(m)),
    }


def numba_run(M: Any, X: Any, W: Any, f: Any, allowed: Any) -> dict[str, Run]:
    """Products by BLAS, the rows between them in one compiled loop."""
    try:
        import numba
    except ImportError:
        return {}

    @numba.njit(fastmath=True)  # type: ignore[untyped-decorator]
    def rows(S: Any, f: Any, causal: Any) -> Any:
        total = 0.0
        for i in range(S.shape[0]):
            last = i + 1 if causal else S.shape[1]
            highest = S[i, :last].max()
            whole = dot = 0.0
            for j in range(last):
                S[i, j] = np.exp(S[i, j] - highest)
                whole += S[i, j]
            for j in range(last):
                S[i, j] /= whole
                c = S[i, j] - f[i, j]
                total += c * c
                dot += c * S[i, j]
            for j in range(last):
                S[i, j] *= S[i, j] - f[i, j] - dot
            for j in range(last, S.shape[1]):
                S[i, j] = 0.0
        return total

    def run() -> Any:
        S = X @ (M * W) @ X.T
        total = rows(S, f, allowed is not None)
        return 0.5 * total + 0.05 * (M**2).sum(), W * (X.T @ (S @ X)) + 0.1 * M

    return {"numba rows": run}


def typed_in_layer(M: Any, X: Any, W: Any, f: Any, heads: int, kv_heads: int, scale: float) -> Run:
    """A causal layer without positions, head by head; M, W are pairs, f is (heads, n, n)."""
    m, group = W[0].shape[1] // heads, heads // kv_heads
    allowed = np.tri(X.shape[0], dtype=bool)

    def run() -> Any:
        q, k = X @ (M[0] * W[0]), X @ (M[1] * W[1])
        dq, dk = np.zeros_like(q), np.zeros_like(k)
        total = 0.0
        for h in range(heads):
            of_q, of_k = slice(h * m, (h + 1) * m), slice(h // group * m, (h // group + 1) * m)
            logits = np.where(allowed, scale * (q[:, of_q] @ k[:, of_k].T), -np.inf)
            F = np.exp(logits - logits.max(axis=1, keepdims=True))
            F /= F.sum(axis=1, keepdims=True)
            c = F - f[h]
            p = c * F - (c * F).sum(axis=1, keepdims=True) * F
            total += (c**2).sum()
            dq[:, of_q] = scale * (p @ k[:, of_k])
            dk[:, of_k] += scale * (p.T @ q[:, of_q])
        return 0.5 * total, W[0] * (X.T @ dq), W[1] * (X.T @ dk)

    return run


def torch_layer_run(M: Any, X: Any, W: Any, f: Any, heads: int, kv_heads: int, scale: float) -> dict[str, Run]:
    """Automatic differentiation of the same by torch, all heads at once."""
    try:
        import torch
    except ImportError:
        return {}
    x, dense, *others = (torch.from_numpy(np.ascontiguousarray(a)) for a in (X, f, *M, *W))
    hidden = torch.ones(len(X), len(X), dtype=torch.bool).triu(1)

    def run() -> Any:
        points = [other.clone().requires_grad_(True) for other in others[:2]]
        q, k = (x @ (point * w) for point, w in zip(points, others[2:], strict=True))
        q = q.reshape(len(x), heads, -1).transpose(0, 1)
        k = k.reshape(len(x), kv_heads, -1).transpose(0, 1).repeat_interleave(heads // kv_heads, dim=0)
        F = torch.softmax((scale * q @ k.transpose(1, 2)).masked_fill(hidden, -torch.inf), dim=2)
        (0.5 * ((F - dense) ** 2).sum()).backward()
        return [point.grad for point in points]

    return {"torch": run}
