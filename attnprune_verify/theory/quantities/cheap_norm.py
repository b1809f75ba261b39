"""Upper bounds of K that need no d^2 x d^2 matrix: the rank-one bound and the row-by-row bound."""

import numpy as np
from flint import arb

from attnprune_verify.instance.validate import Array
from attnprune_verify.theory.numbers.spectral import UNIT_ROUNDOFF, dot_error, largest_eigenvalue, spectral_norm
from attnprune_verify.theory.quantities.logit_map import LogitMap

_ROW_WORK = 512**4  # k d^4: d Cholesky decompositions of d x d matrices
_BOTH_SIDES_WORK = 128**4
_POWER_STEPS = 30  # chosen: the start of a certificate, which holds after any number


def cheap_norm_bound(logits: LogitMap) -> arb:
    """The smallest affordable upper bound of K of the scaled map; over a batch, from the samples' mean square."""
    best = rank_one_square(logits)
    work = logits.k * logits.d**4
    if work <= _ROW_WORK:
        best = min(best, row_square(logits.X, logits.Y, logits.W))
    if work <= _BOTH_SIDES_WORK:
        best = min(best, row_square(logits.Y, logits.X, logits.W.T))
    return arb(best).sqrt()


def rank_one_square(logits: LogitMap) -> float:
    """K^2 <= ||X diag(a)||^2 ||X_c diag(b)||^2 for |W_ij| <= a_i b_j, the best of a few pairs.

    M * W = diag(a) (M * Theta) diag(b) with |Theta| <= 1.
    """
    return min(
        _mean_square([_scaled_norm(x, a) * _scaled_norm(y, b) for x, y in zip(logits.X, logits.Y, strict=True)])
        for a, b in _majorants(np.abs(logits.W))
    )


def row_square(X: Array, Y: Array, W: Array) -> float:
    """K^2 <= ||X diag(a)||^2 with a_r = ||X_c diag(W_r)||_2, W_r the r-th row of W; never above (row maxima, 1).

    ||X (M * W) X_c^T||_F = ||X diag(a) [(M_r * W_r) X_c^T / a_r]_r||_F <= ||X diag(a)||_2 (sum_r ||M_r||^2)^{1/2}.
    By columns: the same with X and X_c exchanged and W transposed.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.eye(2)[np.newaxis]
    >>> bool(1.0 <= row_square(X, X, np.eye(2)) <= 1.05)
    True
    """
    return _mean_square([_scaled_norm(x, _row_norms(y, W)) for x, y in zip(X, Y, strict=True)])


def _mean_square(norms: list[float]) -> float:
    return float(np.mean(np.square(norms))) * (1 + dot_error(len(norms) + 8))


def _row_norms(tokens: Array, W: Array) -> Array:
    """||tokens diag(W_r)||_2 from above for every row: power iteration on all rows at once, a Cholesky for each."""
    gram = tokens.T @ tokens
    gram = (gram + gram.T) / 2
    blur = 2 * dot_error(len(tokens)) * float(np.einsum("ia,ia->", tokens, tokens))
    V = np.random.default_rng(0).standard_normal(W.shape)
    estimates = np.zeros(len(W))
    for _ in range(_POWER_STEPS):
        V /= np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-300)
        image = W * ((W * V) @ gram)
        estimates = np.einsum("rb,rb->r", V, image)
        V = image
    norms = np.zeros(len(W))
    for r, (w, estimate) in enumerate(zip(W, estimates, strict=True)):
        if not w.any():
            continue
        S = w[:, None] * gram * w
        error = float(np.abs(w).max()) ** 2 * blur + 4 * UNIT_ROUNDOFF * float(np.linalg.norm(S))
        square, _ = largest_eigenvalue((S + S.T) / 2, error, estimate=float(estimate), slack=0.01 * float(estimate))
        norms[r] = np.sqrt(max(square, 0.0)) * (1 + 4 * UNIT_ROUNDOFF)
    return norms * (1 + 8 * UNIT_ROUNDOFF)  # the entries of tokens are differences rounded once


def _scaled_norm(tokens: Array, scale: Array) -> float:
    """||tokens diag(scale)||_2 from above; the entries are products and differences rounded once each."""
    B = tokens * scale
    return (spectral_norm(B) + 4 * UNIT_ROUNDOFF * float(np.linalg.norm(B))) * (1 + 4 * UNIT_ROUNDOFF)


def _majorants(size: Array) -> list[tuple[Array, Array]]:
    """Pairs with size_ij <= a_i b_j: row maxima, column maxima, and balanced ones by alternating division."""
    rows, columns = size.max(axis=1), size.max(axis=0)
    pairs = [(rows, np.ones_like(columns)), (np.ones_like(rows), columns)]
    for a in (np.sqrt(rows), np.linalg.norm(size, axis=1)):
        b = _partner(size, a)
        a = _partner(size.T, b)
        pairs.append((a, _partner(size, a)))
    return pairs


def _partner(size: Array, a: Array) -> Array:
    """The smallest b with size_ij <= a_i b_j, rounded up; rows with a_i = 0 are rows of zeros."""
    positive = a > 0
    quotients: Array = (size[positive] / a[positive, None]).max(axis=0)
    return quotients * (1 + 4 * UNIT_ROUNDOFF)
