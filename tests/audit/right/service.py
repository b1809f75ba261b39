"""Methods of an object; to be audited as service.py:client."""

import numpy as np


class Client:
    """Keeps what it is asked for last."""

    def __init__(self):
        self.last = None

    def attention(self, X, W, mask=None):
        allowed = np.ones(2 * X.shape[-2:-1], bool) if mask is None else np.array(mask, bool)
        logits = X @ W @ np.swapaxes(X, -1, -2)
        logits[..., ~allowed] = -np.inf
        logits -= logits.max(-1, keepdims=True)
        np.exp(logits, out=logits)
        self.last = logits / logits.sum(-1, keepdims=True)
        return self.last

    def loss_and_gradient(self, M, X, W, lam=0.0, mask=None):
        k = X.shape[0] if X.ndim == 3 else 1
        F = self.attention(X, M * W, mask)
        c = F - self.attention(X, W, mask)
        p = F * c
        p -= p.sum(-1, keepdims=True) * F
        Y = np.swapaxes(X, -1, -2) @ p @ X
        Y = Y.mean(0) if X.ndim == 3 else Y
        return (c**2).sum() / 2 / k + lam / 2 * np.vdot(M, M), W * Y + lam * M


client = Client()
