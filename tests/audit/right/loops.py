"""Index by index in pure Python; results are nested lists and floats."""

from math import exp


def causal_mask(n):
    return [[1 if i >= j else 0 for j in range(n)] for i in range(n)]


def attention(X, W, mask=None):
    n, d = len(X), len(W)
    F = []
    for i in range(n):
        half = [sum(X[i][a] * W[a][b] for a in range(d)) for b in range(d)]
        places = [j for j in range(n) if mask is None or mask[i][j]]
        logits = {j: sum(half[b] * X[j][b] for b in range(d)) for j in places}
        top = max(logits.values())
        weights = {j: exp(z - top) for j, z in logits.items()}
        total = sum(weights.values())
        F.append([weights[j] / total if j in weights else 0.0 for j in range(n)])
    return F


def _pair(M, X, W, mask):
    X, W, M = X.astype(float).tolist(), W.astype(float).tolist(), M.astype(float).tolist()
    d = range(len(W))
    return attention(X, [[M[a][b] * W[a][b] for b in d] for a in d], mask), attention(X, W, mask), M, X, W


def loss(M, X, W, lam=0.0, mask=None):
    F, dense, M, X, W = _pair(M, X, W, mask)
    misfit = sum((F[i][j] - dense[i][j]) ** 2 for i in range(len(X)) for j in range(len(X)))
    return misfit / 2 + lam / 2 * sum(entry**2 for row in M for entry in row)


def gradient(M, X, W, lam=0.0, mask=None):
    F, dense, M, X, W = _pair(M, X, W, mask)
    n, d = range(len(X)), range(len(W))
    G = [[lam * M[a][b] for b in d] for a in d]
    for i in n:
        c = [F[i][j] - dense[i][j] for j in n]
        r = sum(c[j] * F[i][j] for j in n)
        for j in n:
            p = (c[j] - r) * F[i][j]
            for a in d:
                for b in d:
                    G[a][b] += W[a][b] * X[i][a] * p * X[j][b]
    return G


def binary_mask(M, rho):
    flat = M.ravel().tolist()
    gone = set(sorted(range(len(flat)), key=lambda i: (flat[i], i))[: int(rho * len(flat))])
    width = M.shape[1]
    return [[0 if a * width + b in gone else 1 for b in range(width)] for a in range(M.shape[0])]
