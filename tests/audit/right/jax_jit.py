"""jax, compiled: value and gradient of the literal loss, forward-over-reverse for the product."""

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402


def _attention(X, W, mask):
    logits = X @ W @ jnp.swapaxes(X, -1, -2)
    return jax.nn.softmax(logits if mask is None else jnp.where(mask, logits, -jnp.inf), axis=-1)


@jax.jit
def _loss(M, X, W, lam, mask):
    c = _attention(X, M * W, mask) - _attention(X, W, mask)
    k = X.shape[0] if X.ndim == 3 else 1
    return 0.5 * jnp.sum(c**2) / k + 0.5 * lam * jnp.sum(M**2)


_value_and_gradient = jax.jit(jax.value_and_grad(_loss))
_product = jax.jit(lambda M, V, *rest: jax.jvp(lambda at: jax.grad(_loss)(at, *rest), (M,), (V,))[1])


def _typed(lam, mask):
    return float(lam), None if mask is None else mask == 1  # a Python number keeps the type of the arrays


def loss(M, X, W, lam=0.0, mask=None):
    lam, mask = _typed(lam, mask)
    return _loss(M, X, W, lam, mask)


def loss_and_gradient(M, X, W, lam=0.0, mask=None):
    lam, mask = _typed(lam, mask)
    return _value_and_gradient(M, X, W, lam, mask)


def gradient(M, X, W, lam=0.0, mask=None):
    return loss_and_gradient(M, X, W, lam, mask)[1]


def hessian_vector_product(M, V, X, W, lam=0.0, mask=None):
    lam, mask = _typed(lam, mask)
    return _product(M, V, X, W, lam, mask)
