"""Methods of an object whose parameters come in another order, by keyword."""

import numpy as np


class Pruner:
    def attention(self, *, X, W, mask=None):
        z = X @ W @ X.T
        z = z if mask is None else np.where(mask, z, -np.inf)
        e = np.exp(z - z.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    def factored_loss(self, X, W_Q, W_K, M_Q, M_K, *, lam=0.0, mask=None):
        pruned = self.attention(X=X, W=(M_Q * W_Q) @ (M_K * W_K).T, mask=mask)
        gap = pruned - self.attention(X=X, W=W_Q @ W_K.T, mask=mask)
        return 0.5 * (gap**2).sum() + 0.5 * lam * ((M_Q**2).sum() + (M_K**2).sum())


pruner = Pruner()
