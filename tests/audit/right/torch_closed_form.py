"""The closed form in torch; tensors are returned."""

import torch


def _tensors(*arrays):
    return [None if array is None else torch.as_tensor(array) for array in arrays]


def attention(X, W, mask=None):
    X, W, mask = _tensors(X, W, mask)
    logits = X @ W @ X.mT
    if mask is not None:
        logits = logits.masked_fill(mask == 0, float("-inf"))
    return torch.softmax(logits, dim=-1)


def loss_and_gradient(M, X, W, lam=0.0, mask=None):
    M, X, W = _tensors(M, X, W)
    k = X.shape[0] if X.ndim == 3 else 1
    F = attention(X, M * W, mask)
    c = F - attention(X, W, mask)
    p = c * F - (c * F).sum(-1, keepdim=True) * F
    Y = X.mT @ p @ X
    Y = Y.mean(0) if X.ndim == 3 else Y
    return 0.5 * c.square().sum() / k + 0.5 * lam * M.square().sum(), W * Y + lam * M


def loss(M, X, W, lam=0.0, mask=None):
    return loss_and_gradient(M, X, W, lam, mask)[0]


def gradient(M, X, W, lam=0.0, mask=None):
    return loss_and_gradient(M, X, W, lam, mask)[1]


def binary_mask(M, rho):
    flat = torch.as_tensor(M).flatten()
    mask = torch.ones_like(flat)
    mask[torch.sort(flat, stable=True).indices[: int(rho * flat.numel())]] = 0
    return mask.reshape(M.shape)


def wanda_mask(weight, X, rho, *, prune_n=0, prune_m=0):
    weight, X = _tensors(weight, X)
    scores = weight.abs() * X.reshape(-1, X.shape[-1]).norm(dim=0)
    mask = torch.zeros_like(weight, dtype=torch.bool)
    if prune_m:
        for start in range(0, weight.shape[1], prune_m):
            chosen = torch.topk(scores[:, start : start + prune_m], prune_n, dim=1, largest=False).indices
            mask.scatter_(1, start + chosen, True)
        return mask
    order = torch.sort(scores, dim=1, stable=True).indices[:, : int(weight.shape[1] * rho)]
    return mask.scatter_(1, order, True)
