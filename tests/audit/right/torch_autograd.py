"""torch differentiates the literal loss; results still require grad."""

import torch


def _attention(X, W, mask):
    logits = torch.einsum("...ia,ab,...jb->...ij", X, W, X)
    if mask is not None:
        logits = torch.where(mask.bool(), logits, torch.tensor(float("-inf"), dtype=logits.dtype))
    return torch.nn.functional.softmax(logits, dim=-1)


def _loss(M, X, W, lam, mask):
    difference = _attention(X, M * W, mask) - _attention(X, W, mask).detach()
    k = X.shape[0] if X.ndim == 3 else 1
    return 0.5 * (difference**2).sum() / k + 0.5 * lam * (M**2).sum()


def _as(mask, *arrays):
    return [torch.tensor(array, requires_grad=index == 0) for index, array in enumerate(arrays)], (
        None if mask is None else torch.tensor(mask)
    )


def loss(M, X, W, lam=0.0, mask=None):
    (M, X, W), mask = _as(mask, M, X, W)
    return _loss(M, X, W, lam, mask)


def gradient(M, X, W, lam=0.0, mask=None):
    (M, X, W), mask = _as(mask, M, X, W)
    return torch.autograd.grad(_loss(M, X, W, lam, mask), M)[0]


def hessian_vector_product(M, V, X, W, lam=0.0, mask=None):
    (M, V, X, W), mask = _as(mask, M, V, X, W)
    (slope,) = torch.autograd.grad(_loss(M, X, W, lam, mask), M, create_graph=True)
    return torch.autograd.grad((slope * V).sum(), M)[0]


def factored_loss(M_Q, M_K, X, W_Q, W_K, lam=0.0, mask=None):
    (M_Q, M_K, X, W_Q, W_K), mask = _as(mask, M_Q, M_K, X, W_Q, W_K)
    return _factored(M_Q, M_K, X, W_Q, W_K, lam, mask)


def _factored(M_Q, M_K, X, W_Q, W_K, lam, mask):
    difference = _attention(X, (M_Q * W_Q) @ (M_K * W_K).T, mask) - _attention(X, W_Q @ W_K.T, mask)
    k = X.shape[0] if X.ndim == 3 else 1
    return 0.5 * (difference**2).sum() / k + 0.5 * lam * ((M_Q**2).sum() + (M_K**2).sum())


def factored_gradient(M_Q, M_K, X, W_Q, W_K, lam=0.0, mask=None):
    (M_Q, M_K, X, W_Q, W_K), mask = _as(mask, M_Q, M_K, X, W_Q, W_K)
    M_K.requires_grad_(True)
    return torch.autograd.grad(_factored(M_Q, M_K, X, W_Q, W_K, lam, mask), (M_Q, M_K))
