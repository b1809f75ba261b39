"""The fused functions as a class: keys in tiles, an online softmax, a dense target kept by content."""

import numpy as np

TILE = 16


class Tiled:
    def __init__(self):
        self.kept = {}

    def _tiles(self, n):
        return [slice(a, min(a + TILE, n)) for a in range(0, n, TILE)]

    def attention(self, X, W, mask=None):
        X = np.asarray(X)
        if X.ndim == 3:
            return np.stack([self.attention(x, W, mask) for x in X])
        n = len(X)
        queries = X @ W
        top = np.full((n, 1), -np.inf)
        total = np.zeros((n, 1))
        F = np.zeros((n, n))
        for tile in self._tiles(n):
            s = queries @ X[tile].T
            if mask is not None:
                s = np.where(np.asarray(mask)[:, tile] == 1, s, -np.inf)
            new = np.maximum(top, s.max(axis=1, keepdims=True))
            shift = np.where(np.isfinite(new), new, 0)
            old = np.exp(top - shift)
            part = np.exp(s - shift)
            F *= old
            F[:, tile] = part
            total = total * old + part.sum(axis=1, keepdims=True)
            top = new
        return F / total

    def _dense(self, X, W, mask):
        key = (X.shape, X.tobytes(), W.tobytes(), None if mask is None else np.asarray(mask).tobytes())
        if key not in self.kept:
            self.kept = {key: self.attention(X, W, mask)}
        return self.kept[key]

    def _each(self, one, X):
        samples = X if X.ndim == 3 else X[None]
        parts = [one(x) for x in samples]
        return sum(parts) / len(parts)

    def loss(self, M, X, W, lam=0.0, mask=None):
        def one(x):
            return 0.5 * np.linalg.norm(self.attention(x, M * W, mask) - self._dense(x, W, mask)) ** 2

        return self._each(one, X) + lam / 2 * np.linalg.norm(M) ** 2

    def gradient(self, M, X, W, lam=0.0, mask=None):
        def one(x):
            F = self.attention(x, M * W, mask)
            c = F - self._dense(x, W, mask)
            Y = np.zeros_like(W)
            for rows in self._tiles(len(x)):
                inner = np.einsum("ij,ij->i", c[rows], F[rows])
                p = (c[rows] - inner[:, None]) * F[rows]
                Y += x[rows].T @ p @ x
            return W * Y

        return self._each(one, X) + lam * M

    def relative_error(self, M, X, W, mask=None):
        def one(x):
            dense = self._dense(x, W, mask)
            return np.linalg.norm(self.attention(x, M * W, mask) - dense) ** 2 / np.linalg.norm(dense) ** 2

        return self._each(one, X)


tiled = Tiled()
