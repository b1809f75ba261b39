"""autograd on the loss as it is written, for gradient and Hessian-vector product."""

import autograd.numpy as np
from autograd import grad


def _attention(X, W, mask):
    logits = np.dot(np.dot(X, W), X.T)
    if mask is not None:
        logits = np.where(mask == 1, logits, -np.inf)
    weights = np.exp(logits - np.max(logits, axis=1, keepdims=True))
    return weights / np.sum(weights, axis=1, keepdims=True)


def loss(M, X, W, lam=0.0, mask=None):
    return 0.5 * np.sum((_attention(X, M * W, mask) - _attention(X, W, mask)) ** 2) + 0.5 * lam * np.sum(M**2)


gradient = grad(loss)


def hessian_vector_product(M, V, X, W, lam=0.0, mask=None):
    return grad(lambda at: np.sum(gradient(at, X, W, lam, mask) * V))(M)
