"""Wrong implementations, each an edit of a line or two of `base.py`: what is wrong, in which function, its name.

Written without a look at the formulas the audit compares with (`attnprune_verify.audit.mistakes`): here it is source
text that changes, there steps of a formula.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

BASE = Path(__file__).with_name("base.py")


@dataclass(frozen=True)
class Wrong:
    """`function` becomes wrong by replacing texts of the base; `names` are the diagnoses that would be right.

    An empty `names` means that nobody has a name for this mistake.
    """

    id: str
    function: str
    names: tuple[str, ...]
    edits: tuple[tuple[str, str], ...]

    def source(self) -> str:
        text = BASE.read_text(encoding="utf-8")
        for old, new in self.edits:
            if old not in text:
                raise LookupError(f"{self.id}: the base has no {old!r}")
            text = text.replace(old, new)
        return text


def wrong(id: str, function: str, names: str, *edits: tuple[str, str]) -> Wrong:
    return Wrong(id, function, tuple(names.split()), edits)


RIGHT_LOGITS = "    logits = X @ W @ X.T\n    return softmax(logits, mask)\n\n\ndef residual"
P = "    p = c * F - r * F"
SOFTMAX = "    F = weights / weights.sum(axis=1, keepdims=True)"
SHIFTED = "np.exp(np.where(allowed, logits - shift, 0))"
ALLOWED = "np.ones(logits.shape, dtype=bool) if mask is None else np.asarray(mask) == 1"
REGULAR = "    G = G + lam * M"
XPX = "    XpX = X.T @ p @ X"
G = "    return G\n"

OBJECTIVE = (
    # p
    wrong("p2 left out", "gradient", "missing-softmax-correction", (P, "    p = c * F")),
    wrong("p2 left out, both returned", "loss_and_gradient", "missing-softmax-correction", (P, "    p = c * F")),
    wrong("p with F(1)", "gradient", "correction-uses-dense-softmax", (P, "    p = c * dense - (c * dense).sum(axis=1, keepdims=True) * dense")),
    wrong("row sum with F(1)", "gradient", "correction-uses-dense-softmax", ("    r = (c * F).sum(axis=1, keepdims=True)\n    p", "    r = (c * dense).sum(axis=1, keepdims=True)\n    p")),
    wrong("p2 added", "gradient", "correction-sign", (P, "    p = c * F + r * F")),
    wrong("p2 along columns", "gradient", "correction-wrong-axis", ("    r = (c * F).sum(axis=1, keepdims=True)\n    p", "    r = (c * F).sum(axis=0, keepdims=True)\n    p")),
    wrong("p transposed", "gradient", "transposed-p", (XPX, "    XpX = X.T @ p.T @ X")),
    wrong("p transposed only if n > d", "gradient", "transposed-p", (XPX, "    XpX = X.T @ (p.T if X.shape[0] > X.shape[1] else p) @ X")),
    wrong("p not multiplied by F", "gradient", "missing-softmax-correction", (P, "    p = c")),
    # W and M around it
    wrong("no W in front", "gradient", "missing-hadamard-W", ("    G = W * XpX", "    G = XpX")),
    wrong("M W in front", "gradient", "hadamard-uses-masked-W", ("    G = W * XpX", "    G = M * W * XpX")),
    wrong("gradient transposed", "gradient", "gradient-transposed", (G, "    return G.T\n")),
    wrong("gradient transposed unless symmetric", "gradient", "gradient-transposed", (G, "    return G if np.allclose(W, W.T) else (W * XpX).T + lam * M\n")),
    wrong("gradient negative", "gradient", "gradient-sign", ("    G = W * XpX", "    G = -W * XpX")),
    wrong("gradient all negative", "gradient", "gradient-sign", (G, "    return -G\n")),
    wrong("gradient doubled", "gradient", "gradient-scale", ("    G = W * XpX", "    G = 2 * W * XpX")),
    wrong("gradient over n", "gradient", "gradient-scale", ("    G = W * XpX", "    G = W * XpX / len(X)")),
    wrong("gradient off by a thousandth", "gradient", "gradient-scale", ("    G = W * XpX", "    G = 1.001 * W * XpX")),
    wrong("gradient off by a millionth", "gradient", "gradient-scale", ("    G = W * XpX", "    G = (1 + 1e-6) * W * XpX")),
    wrong("regulariser forgotten", "gradient", "missing-regularizer", (REGULAR, "    G = G")),
    wrong("regulariser halved", "gradient", "regularizer-scale", (REGULAR, "    G = G + lam / 2 * M")),
    wrong("regulariser over d", "gradient", "regularizer-scale", (REGULAR, "    G = G + lam / len(W) * M")),
    wrong("regulariser of the norm", "gradient", "regularizer-not-squared", (REGULAR, "    G = G + lam * M / np.sqrt((M * M).sum())")),
    wrong("regulariser clipped above lam = 1", "gradient", "regularizer-scale", (REGULAR, "    G = G + min(lam, 1.0) * M")),
    wrong("regulariser lost for lam > 100", "gradient", "missing-regularizer", (REGULAR, "    G = G + (lam if lam <= 100 else 0) * M")),
    wrong("no p2 and no regulariser", "gradient", "missing-softmax-correction missing-regularizer", (P, "    p = c * F"), (REGULAR, "    G = G")),
    wrong("no W and p transposed", "gradient", "missing-hadamard-W transposed-p", (XPX, "    XpX = X.T @ p.T @ X"), ("    G = W * XpX", "    G = XpX")),
    # softmax and mask
    wrong("mask ignored", "gradient", "mask-ignored", (ALLOWED, "np.ones(logits.shape, dtype=bool)")),
    wrong("mask ignored in the loss", "loss", "mask-ignored", (ALLOWED, "np.ones(logits.shape, dtype=bool)")),
    wrong("mask ignored in the target", "loss", "mask-ignored", ("    dense = dense_attention(X, W, mask)\n    c", "    dense = dense_attention(X, W, None)\n    c")),
    wrong("mask after softmax", "attention", "mask-after-softmax", (SOFTMAX, "    F = np.exp(logits - logits.max(axis=1, keepdims=True))\n    F = allowed * F / F.sum(axis=1, keepdims=True)")),
    wrong("mask multiplies logits", "loss", "mask-multiplies-logits", (SOFTMAX, "    F = np.exp(logits * allowed)\n    F = F / F.sum(axis=1, keepdims=True)")),
    wrong("mask strict", "attention", "mask-strict", (ALLOWED, "np.ones(logits.shape, dtype=bool) if mask is None else (np.asarray(mask) == 1) & ~np.eye(len(logits), dtype=bool)")),
    wrong("always causal", "gradient", "mask-always-causal", (ALLOWED, "np.tri(len(logits), dtype=bool)")),
    wrong("any mask read as causal", "loss", "mask-always-causal", (ALLOWED, "np.ones(logits.shape, dtype=bool) if mask is None else np.tri(len(logits), dtype=bool)")),
    wrong("mask transposed", "attention", "mask-transposed", (ALLOWED, "np.ones(logits.shape, dtype=bool) if mask is None else np.asarray(mask).T == 1")),
    wrong("mask leaks", "attention", "mask-leaks", (SOFTMAX, "    F = np.exp(np.where(allowed, logits, -10.0))\n    F = F / F.sum(axis=1, keepdims=True)")),
    wrong("softmax over columns", "attention", "wrong-softmax-axis", (SOFTMAX, "    F = weights / weights.sum(axis=0, keepdims=True)"), ("shift = np.max(np.where(allowed, logits, -np.inf), axis=1, keepdims=True)", "shift = np.max(np.where(allowed, logits, -np.inf), axis=0, keepdims=True)")),
    wrong("softmax over columns, gradient", "gradient", "wrong-softmax-axis", (SOFTMAX, "    F = weights / weights.sum(axis=0, keepdims=True)"), ("shift = np.max(np.where(allowed, logits, -np.inf), axis=1, keepdims=True)", "shift = np.max(np.where(allowed, logits, -np.inf), axis=0, keepdims=True)")),
    wrong("scaled by 1/sqrt(d)", "attention", "logit-scale", (RIGHT_LOGITS, RIGHT_LOGITS.replace("X.T\n", "X.T / np.sqrt(len(W))\n"))),
    wrong("scaled by 1/sqrt(d), loss", "loss", "logit-scale", (SOFTMAX, SOFTMAX), ("    shift =", "    logits = logits / np.sqrt(4)\n    shift =")),
    wrong("not shifted", "attention", "unstable-exp", (SHIFTED, "np.exp(np.where(allowed, logits, 0))")),
    wrong("not shifted, gradient", "gradient", "unstable-exp", (SHIFTED, "np.exp(np.where(allowed, logits, 0))")),
    wrong("shifted by the forbidden too", "attention", "unstable-exp", ("shift = np.max(np.where(allowed, logits, -np.inf), axis=1, keepdims=True)", "shift = logits.max(axis=1, keepdims=True)")),
    wrong("epsilon in the denominator", "attention", "denominator-epsilon", (SOFTMAX, "    F = weights / (weights.sum(axis=1, keepdims=True) + 1e-8)")),
    wrong("epsilon in the denominator, gradient", "gradient", "denominator-epsilon", (SOFTMAX, "    F = weights / (weights.sum(axis=1, keepdims=True) + 1e-9)")),
    wrong("epsilon in the denominator, loss", "loss", "denominator-epsilon", (SOFTMAX, "    F = weights / (weights.sum(axis=1, keepdims=True) + 1e-6)")),
    wrong("float32 inside", "gradient", "low-precision", ("    XpX = X.T", "    p = p.astype(np.float32)\n    XpX = X.T")),
    wrong("float32 softmax", "attention", "low-precision", ("    shift =", "    logits = logits.astype(np.float32)\n    shift =")),
    wrong("float32 loss", "loss", "low-precision", ("    misfit = 0.5 * (c * c).sum()", "    misfit = 0.5 * float((c * c).sum(dtype=np.float32))")),
    wrong("float16 gradient", "gradient", "low-precision", (G, "    return G.astype(np.float16)\n")),
    # target and M
    wrong("target pruned too", "loss", "dense-target-uses-M", ("    dense = dense_attention(X, W, mask)\n    c", "    dense = dense_attention(X, M * W, mask)\n    c")),
    wrong("target pruned too, gradient", "gradient", "dense-target-uses-M", ("    dense = dense_attention(X, W, mask)\n    c", "    dense = dense_attention(X, M * W, mask)\n    c")),
    wrong("no target", "loss", "missing-dense-target", ("    c = F - dense", "    c = F")),
    wrong("M clipped", "gradient", "clips-or-rounds-M", ("    F = attention(X, M * W, mask)\n    dense = dense_attention(X, W, mask)", "    F = attention(X, np.clip(M, 0, 1) * W, mask)\n    dense = dense_attention(X, W, mask)")),
    wrong("M clipped in the loss", "loss", "clips-or-rounds-M", ("    F = attention(X, M * W, mask)\n    dense = dense_attention(X, W, mask)", "    F = attention(X, np.clip(M, 0, 1) * W, mask)\n    dense = dense_attention(X, W, mask)")),
    wrong("M rounded", "loss", "clips-or-rounds-M", ("    F = attention(X, M * W, mask)\n    dense = dense_attention(X, W, mask)", "    F = attention(X, np.round(M) * W, mask)\n    dense = dense_attention(X, W, mask)")),
    wrong("1 - M", "loss", "keeps-instead-of-prunes", ("    F = attention(X, M * W, mask)\n    dense = dense_attention(X, W, mask)", "    F = attention(X, (1 - M) * W, mask)\n    dense = dense_attention(X, W, mask)")),
    wrong("M @ W", "loss", "matmul-for-hadamard", ("    F = attention(X, M * W, mask)\n    dense = dense_attention(X, W, mask)", "    F = attention(X, M @ W, mask)\n    dense = dense_attention(X, W, mask)")),
    # loss
    wrong("loss without 1/2", "loss", "loss-scale", ("    misfit = 0.5 * (c * c).sum()", "    misfit = (c * c).sum()")),
    wrong("loss a mean", "loss", "loss-scale", ("    misfit = 0.5 * (c * c).sum()", "    misfit = (c * c).mean()")),
    wrong("loss a mean over rows", "loss", "loss-scale", ("    misfit = 0.5 * (c * c).sum()", "    misfit = 0.5 * (c * c).sum() / len(X)")),
    wrong("loss not squared", "loss", "loss-not-squared", ("    misfit = 0.5 * (c * c).sum()", "    misfit = np.sqrt((c * c).sum())")),
    wrong("loss without regulariser", "loss", "missing-regularizer", ("    regular = 0.5 * lam * (M * M).sum()", "    regular = 0.0")),
    wrong("loss with lam", "loss", "regularizer-scale", ("    regular = 0.5 * lam * (M * M).sum()", "    regular = lam * (M * M).sum()")),
    wrong("loss with the norm", "loss", "regularizer-not-squared", ("    regular = 0.5 * lam * (M * M).sum()", "    regular = 0.5 * lam * np.sqrt((M * M).sum())")),
    wrong("loss off by a thousandth", "loss", "loss-scale", ("    misfit = 0.5 * (c * c).sum()", "    misfit = 0.5005 * (c * c).sum()")),
    wrong("factors of both", "loss", "loss-scale regularizer-scale", ("    misfit = 0.5 * (c * c).sum()", "    misfit = (c * c).sum()"), ("    regular = 0.5 * lam * (M * M).sum()", "    regular = 0.25 * lam * (M * M).sum()")),
    wrong("batch summed", "loss", "batch-not-averaged", ("        return np.mean([loss(M, x", "        return np.sum([loss(M, x")),
    wrong("batch summed, gradient", "gradient", "batch-not-averaged", (" / len(X) + lam * M\n    F", " + lam * M\n    F")),
    wrong("regulariser averaged over the batch", "gradient", "regularizer-scale", (" / len(X) + lam * M\n    F", " / len(X) + lam / len(X) * M\n    F")),
    # behaviour
    wrong("changes M", "gradient", "mutates-input", (REGULAR, REGULAR + "\n    M *= 1.5")),
    wrong("changes W", "loss", "mutates-input", ("    F = attention(X, M * W, mask)\n    dense = dense_attention(X, W, mask)", "    dense = dense_attention(X, W, mask)\n    W *= M\n    F = attention(X, W, mask)")),
    wrong("random", "gradient", "nondeterministic", (G, "    return G + 1e-7 * np.random.rand(*G.shape)\n")),
    wrong("stale cache", "gradient", "", ("    dense = dense_attention(X, W, mask)\n    c", "    dense = CACHE.setdefault(F.shape, dense_attention(X, W, mask))\n    c"), ("def causal_mask", "CACHE = {}\n\n\ndef causal_mask")),
    wrong("flat", "gradient", "wrong-shape", (G, "    return G.ravel()\n")),
    wrong("a list of one", "loss", "wrong-shape", ("    return misfit + regular", "    return np.array([misfit + regular])")),
    wrong("parts exchanged", "loss_and_gradient", "wrong-shape", ("    return loss(M, X, W, lam, mask), gradient(M, X, W, lam, mask)", "    return gradient(M, X, W, lam, mask), loss(M, X, W, lam, mask)")),
    # second order
    wrong("one entry off", "gradient", "", (G, "    G[-1, 0] *= 1.0001\n    return G\n")),
    wrong("wrong for n = 1", "gradient", "missing-regularizer", (REGULAR, "    if len(X) == 1:\n        return G\n" + REGULAR)),
    wrong("wrong for d = 1", "loss", "missing-regularizer", ("    return misfit + regular", "    return misfit + regular if M.size > 1 else misfit")),
    wrong("wrong beyond 128 tokens", "gradient", "", (XPX, "    p = p.copy()\n    p[128:] = 0\n" + XPX)),
    wrong("wrong beyond 64 features", "gradient", "", (XPX, XPX + "\n    XpX[64:] = 0")),
    wrong("wrong in float32", "gradient", "gradient-scale", ("    G = W * XpX", "    G = W * XpX * (1.01 if W.dtype == np.float32 else 1)")),
    wrong("small values flushed", "gradient", "", ("    G = W * XpX", "    G = np.where(np.abs(W * XpX) < 1e-8, 0, W * XpX)")),
    wrong("weights below 0 lose their sign", "gradient", "", ("    G = W * XpX", "    G = np.abs(W) * XpX")),
    wrong("columns nobody sees", "attention", "", (ALLOWED, "np.ones(logits.shape, dtype=bool) if mask is None else (np.asarray(mask) == 1) | (np.asarray(mask).sum(axis=1, keepdims=True) == 1)")),
    wrong("inconsistent pair", "loss_and_gradient", "gradient-scale", ("    return loss(M, X, W, lam, mask), gradient(M, X, W, lam, mask)", "    return loss(M, X, W, lam, mask), 2 * gradient(M, X, W, lam, mask) - lam * M")),
)

DERIVED = (
    wrong("Gauss-Newton", "hessian_vector_product", "curvature-term-missing", ("    dp = dF * F + c * dF - s * F - r * dF", "    dp = dF * F - (dF * F).sum(axis=1, keepdims=True) * F")),
    wrong("r dF forgotten", "hessian_vector_product", "curvature-term-missing", ("    dp = dF * F + c * dF - s * F - r * dF", "    dp = dF * F + c * dF - s * F")),
    wrong("W forgotten in V * W", "hessian_vector_product", "missing-hadamard-W", ("    dz = X @ (V * W) @ X.T", "    dz = X @ V @ X.T")),
    wrong("W forgotten in front", "hessian_vector_product", "missing-hadamard-W", ("    H = W * (X.T @ dp @ X)", "    H = X.T @ dp @ X")),
    wrong("lam V forgotten", "hessian_vector_product", "missing-regularizer", ("    H = H + lam * V", "    H = H")),
    wrong("lam M for lam V", "hessian_vector_product", "regularizer-scale", ("    H = H + lam * V", "    H = H + lam * M")),
    wrong("finite differences", "hessian_vector_product", "low-precision", ("    F, dense, c = residual(M, X, W, mask)\n    dz", "    return (gradient(M + 1e-6 * V, X, W, lam, mask) - gradient(M - 1e-6 * V, X, W, lam, mask)) / 2e-6\n    dz")),
    wrong("product halved", "hessian_vector_product", "gradient-scale", ("    H = W * (X.T @ dp @ X)", "    H = 0.5 * W * (X.T @ dp @ X)")),
    wrong("ratio of norms", "relative_error", "loss-not-squared", ("    ratio = (c * c).sum() / (dense * dense).sum()", "    ratio = np.sqrt((c * c).sum() / (dense * dense).sum())")),
    wrong("relative to F(M)", "relative_error", "dense-target-uses-M", ("    ratio = (c * c).sum() / (dense * dense).sum()", "    ratio = (c * c).sum() / (F * F).sum()")),
    wrong("not relative", "relative_error", "loss-scale", ("    ratio = (c * c).sum() / (dense * dense).sum()", "    ratio = (c * c).sum()")),
    wrong("pair: Y not transposed", "factored_gradient", "transposed-p", ("    G_K = W_K * (Y.T @", "    G_K = W_K * (Y @")),
    wrong("pair: partner unpruned", "factored_gradient", "unmasked-partner", ("(Y @ (M_K * W_K))", "(Y @ W_K)"), ("(Y.T @ (M_Q * W_Q))", "(Y.T @ W_Q)")),
    wrong("pair: no p2", "factored_gradient", "missing-softmax-correction", (P, "    p = c * F")),
    wrong("pair: regulariser of one", "factored_loss", "missing-regularizer", ("    squares = (M_Q * M_Q).sum() + (M_K * M_K).sum()", "    squares = (M_Q * M_Q).sum()")),
    wrong("pair: regulariser as printed", "factored_loss", "regularizer-scale", ("0.5 * lam * squares", "0.5 * squares")),
    wrong("pair: mask ignored", "factored_loss", "mask-ignored", (ALLOWED, "np.ones(logits.shape, dtype=bool)")),
    wrong("causal mask strict", "causal_mask", "mask-strict", ("    return np.tri(n)", "    return np.tri(n, k=-1)")),
    wrong("causal mask upper", "causal_mask", "mask-transposed", ("    return np.tri(n)", "    return np.tri(n).T")),
)  # fmt: skip

COUNT = "    count = int(np.floor(rho * M.size))\n"
MAGNITUDE = "    count = int(np.floor(rho * weight.size))\n"
WANDA = "    count = int(scores.shape[1] * rho)\n"
GPT = "            scores = (W[:, a:b] / scale[a:b]) ** 2\n            index"
MASKS = (
    wrong("keeps the smallest", "binary_mask", "keeps-instead-of-prunes", ("np.where(gone, 0.0, 1.0)", "np.where(gone, 1.0, 0.0)")),
    wrong("prunes the largest", "binary_mask", "keeps-instead-of-prunes", ("    gone = smallest(M, count)", "    gone = smallest(-M, count)")),
    wrong("one too many", "binary_mask", "threshold-off-by-one", (COUNT, "    count = min(int(np.floor(rho * M.size)) + 1, M.size)\n")),
    wrong("rounds up", "binary_mask", "threshold-off-by-one", (COUNT, "    count = int(np.ceil(rho * M.size))\n")),
    wrong("rounds to nearest", "binary_mask", "threshold-off-by-one", (COUNT, "    count = round(rho * M.size)\n")),
    wrong("all ties go", "binary_mask", "ties-dropped", ("    gone = smallest(M, count)", "    gone = M <= np.sort(M, axis=None)[count - 1] if count else np.zeros(M.shape, bool)")),
    wrong("no tie goes", "binary_mask", "ties-dropped", ("    gone = smallest(M, count)", "    gone = M < np.sort(M, axis=None)[count] if count < M.size else np.ones(M.shape, bool)")),
    wrong("last ties go", "binary_mask", "ties-dropped", ('np.argsort(values.ravel(), kind="stable")', "np.lexsort((-np.arange(values.size), values.ravel()))")),
    wrong("quicksort ties", "binary_mask", "ties-dropped", ('np.argsort(values.ravel(), kind="stable")', "np.argpartition(values.ravel(), min(count, values.size - 1))")),
    wrong("by magnitude", "binary_mask", "absolute-values", ("    gone = smallest(M, count)", "    gone = smallest(np.abs(M), count)")),
    wrong("as printed", "binary_mask", "threshold-off-by-one", ("    gone = smallest(M, count)", "    gone = M <= np.sort(M, axis=None)[min(count, M.size - 1)]")),
    wrong("per row", "binary_mask", "baseline-global-threshold", ("    gone = smallest(M, count)", "    gone = np.stack([smallest(row, int(rho * len(row))) for row in M])")),
    wrong("rho = 1 keeps one", "binary_mask", "threshold-off-by-one", (COUNT, "    count = min(int(np.floor(rho * M.size)), M.size - 1)\n")),
    wrong("magnitude without abs", "magnitude_mask", "absolute-values", ("smallest(np.abs(weight), count)", "smallest(weight, count)")),
    wrong("magnitude kept", "magnitude_mask", "keeps-instead-of-prunes", ("smallest(np.abs(weight), count)", "~smallest(np.abs(weight), count)")),
    wrong("magnitude per row", "magnitude_mask", "baseline-global-threshold", ("smallest(np.abs(weight), count)", "np.stack([smallest(np.abs(row), int(rho * len(row))) for row in weight])")),
    wrong("Wanda by columns", "wanda_mask", "baseline-axis", ("    return np.stack([smallest(row, count) for row in scores])", "    return np.stack([smallest(column, int(len(scores) * rho)) for column in scores.T], axis=1)")),
    wrong("Wanda global", "wanda_mask", "baseline-global-threshold", ("    return np.stack([smallest(row, count) for row in scores])", "    return smallest(scores, int(scores.size * rho))")),
    wrong("Wanda without X", "wanda_mask", "baseline-ignores-activations", ("np.abs(weight) * norms", "np.abs(weight) * np.ones_like(norms)")),
    wrong("Wanda squared norms", "wanda_mask", "baseline-score", ("np.abs(weight) * norms", "np.abs(weight) * norms**2")),
    wrong("Wanda kept", "wanda_mask", "keeps-instead-of-prunes", ("    return np.stack([smallest(row, count) for row in scores])", "    return ~np.stack([smallest(row, count) for row in scores])")),
    wrong("Wanda one more", "wanda_mask", "threshold-off-by-one", (WANDA, "    count = min(int(scores.shape[1] * rho) + 1, scores.shape[1])\n")),
    wrong("Wanda all ties", "wanda_mask", "ties-dropped", ("    return np.stack([smallest(row, count) for row in scores])", "    return scores <= np.sort(scores, axis=1)[:, [count - 1]] if count else np.zeros(scores.shape, bool)")),
    wrong("Wanda keeps N of M", "wanda_mask", "group-convention", ("        return groups_of(scores, prune_n, prune_m)", "        return groups_of(scores, prune_m - prune_n, prune_m)")),
    wrong("Wanda ignores N:M", "wanda_mask", "group-convention", ("        return groups_of(scores, prune_n, prune_m)", "        pass")),
    wrong("SparseGPT without update", "sparsegpt", "baseline-no-update", ("            W[:, j + 1 :] -= np.outer(error, U[j, j + 1 :])", "            pass")),
    wrong("SparseGPT diagonal not squared", "sparsegpt", "baseline-score", (GPT, "            scores = W[:, a:b] ** 2 / scale[a:b]\n            index")),
    wrong("SparseGPT exact count", "sparsegpt", "threshold-off-by-one", ("index = int(scores.size * rho)", "index = max(int(scores.size * rho) - 1, 0)")),
    wrong("SparseGPT undamped", "sparsegpt", "baseline-damping", ("    H = H + percdamp * np.mean", "    H = H + 1e-12 * np.mean")),
    wrong("SparseGPT damped before the dead", "sparsegpt", "baseline-damping", ("    H[dead, dead] = 1\n    W[:, dead] = 0\n    H = H + percdamp * np.mean(np.diag(H)) * np.eye(len(H))", "    H = H + percdamp * np.mean(np.diag(H)) * np.eye(len(H))\n    H[dead, dead] = 1\n    W[:, dead] = 0")),
    wrong("SparseGPT per token", "sparsegpt", "baseline-dead-inputs", ("2 / len(X) * tokens", "2 / len(tokens) * tokens")),
    wrong("SparseGPT dead weights kept", "sparsegpt", "baseline-dead-inputs", ("    W[:, dead] = 0\n", "")),
    wrong("SparseGPT per row", "sparsegpt", "baseline-global-threshold", ("            gone[:, a:b] = scores <= np.sort(scores, axis=None)[index] if rho < 1 else True", "            gone[:, a:b] = scores <= np.sort(scores, axis=1)[:, [int(scores.shape[1] * rho)]] if rho < 1 else True")),
    wrong("SparseGPT keeps", "sparsegpt", "keeps-instead-of-prunes", ("            gone[:, a:b] = scores <=", "            gone[:, a:b] = scores >")),
    wrong("SparseGPT keeps N of M", "sparsegpt", "group-convention", ("groups_of(scores, prune_n, prune_m)\n            error", "groups_of(scores, prune_m - prune_n, prune_m)\n            error")),
    wrong("SparseGPT without blocks", "sparsegpt", "baseline-global-threshold", ("    for a in range(0, W.shape[1], blocksize):", "    blocksize = W.shape[1]\n    for a in range(0, W.shape[1], blocksize):")),
    wrong("descent clipped", "prune_mask_gd", "clips-or-rounds-M", ("        M = M - step * v", "        M = np.clip(M - step * v, 0, 1)")),
    wrong("descent ascends", "prune_mask_gd", "gradient-sign", ("        M = M - step * v", "        M = M + step * v")),
    wrong("descent with hidden momentum", "prune_mask_gd", "hidden-momentum", ("        v = momentum * v + g", "        v = 0.9 * v + g")),
    wrong("descent from 0", "prune_mask_gd", "initial-mask", ("    M, v, trace = np.ones_like(W)", "    M, v, trace = np.zeros_like(W)")),
    wrong("descent one step short", "prune_mask_gd", "ignores-steps", ("    for _ in range(steps):", "    for _ in range(steps - 1):")),
    wrong("descent ignores eta", "prune_mask_gd", "ignores-step", ("        step = eta if eta is not None else guaranteed_step", "        step = 0.1 if eta is not None else guaranteed_step")),
    wrong("descent ignores the mask", "prune_mask_gd", "mask-ignored", ("        g = gradient(M, X, W, lam, mask)", "        g = gradient(M, X, W, lam, None)")),
    wrong("descent without p2", "prune_mask_gd", "missing-softmax-correction", (P, "    p = c * F")),
    wrong("descent without W", "prune_mask_gd", "missing-hadamard-W", ("    G = W * XpX", "    G = XpX")),
    wrong("descent keeps", "prune_mask_gd", "keeps-instead-of-prunes", ("    return Result(binary_mask(M, rho), M, trace)", "    return Result(1 - binary_mask(M, rho), M, trace)")),
    wrong("descent as printed", "prune_mask_gd", "threshold-off-by-one ties-dropped", ("    return Result(binary_mask(M, rho), M, trace)", "    i = min(int(rho * M.size), M.size - 1)\n    return Result((np.sort(M, axis=None)[i] < M) * 1.0, M, trace)")),
)  # fmt: skip

WRONG: tuple[Wrong, ...] = (*OBJECTIVE, *DERIVED, *MASKS)
