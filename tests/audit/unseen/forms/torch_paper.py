"""The fused functions in torch: one loss, its derivatives by automatic differentiation, twice for the product."""

import torch

FRAMEWORK = "torch"


class Misfit(torch.nn.Module):
    def __init__(self, X, W, mask):
        super().__init__()
        self.X, self.W = (torch.as_tensor(a) for a in (X, W))
        n = self.X.shape[-2]
        self.allowed = torch.ones(n, n, dtype=torch.bool) if mask is None else torch.as_tensor(mask) == 1

    def weights(self, A):
        s = self.X @ A @ self.X.transpose(-1, -2)
        return torch.softmax(s.masked_fill(~self.allowed, -torch.inf), dim=-1)

    def forward(self, M, lam):
        c = self.weights(M * self.W) - self.weights(self.W)
        misfit = 0.5 * (c * c).sum(dim=(-1, -2)).mean()
        return misfit + 0.5 * lam * (M * M).sum()


def leaf(M):
    return torch.tensor(M, requires_grad=True)


def attention(X, W, mask=None):
    model = Misfit(X, W, mask)
    return model.weights(model.W)


def loss(M, X, W, lam=0.0, mask=None):
    return Misfit(X, W, mask)(torch.as_tensor(M), lam)


def gradient(M, X, W, lam=0.0, mask=None):
    at = leaf(M)
    return torch.autograd.grad(Misfit(X, W, mask)(at, lam), at)[0]


def hessian_vector_product(M, V, X, W, lam=0.0, mask=None):
    at = leaf(M)
    (g,) = torch.autograd.grad(Misfit(X, W, mask)(at, lam), at, create_graph=True)
    return torch.autograd.grad((g * torch.as_tensor(V)).sum(), at)[0]
