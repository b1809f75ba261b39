"""Named families of instances: the paper's set-up, benign ones, and the corners where code and theorems break.

Every family takes a random generator and keyword sizes, and returns an `Instance`; the same generator state gives
the same instance.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.problem import Instance

Matrix = NDArray[np.float64]


def paper_synthetic(
    rng: Generator,
    n: int = 128,
    d: int = 64,
    k: int | None = None,
    rank: int = 4,
    lam: float = 0.04,
    shared: bool = False,
) -> Instance:
    """The synthetic set-up of Section 6.1: W_Q and W_K are Gaussian matrices cut to rank `rank` by their SVD.

    The text leaves open whether W_Q and W_K come from one Gaussian matrix or from two: `shared` chooses. The mask is
    causal (def:attn_prun_causal); X is Gaussian, (n, d) or, with `k`, (k, n, d).

    Examples
    --------
    >>> paper_synthetic(np.random.default_rng(0), n=6, d=5)
    Instance(n=6, d=5, k=None, mask='causal', lam=0.04, dtype=float64)
    """
    _positive(n=n, d=d, k=1 if k is None else k, rank=rank)
    W_Q = _cut_to_rank(rng.standard_normal((d, d)), rank)
    W_K = W_Q if shared else _cut_to_rank(rng.standard_normal((d, d)), rank)
    X = rng.standard_normal((n, d) if k is None else (k, n, d))
    return Instance(X, W_Q=W_Q, W_K=W_K, mask="causal", lam=lam)


def benign(rng: Generator, n: int = 4, d: int = 6, scale: float = 1.0, lam: float = 0.01, mask: Any = None) -> Instance:
    """Small weights and n <= d: every assumption of the theorem holds (without a mask) and nothing rounds badly.

    `scale` is roughly the largest logit at M = 1.
    """
    _positive(n=n, d=d)
    X = rng.standard_normal((n, d))
    W = rng.uniform(0.1, 1.0, (d, d)) * rng.choice([-1.0, 1.0], (d, d))
    W *= scale / max(float(np.abs(X @ W @ X.T).max()), np.finfo(float).tiny)
    return Instance(X, W, M=rng.uniform(0.1, 0.9, (d, d)), mask=mask, lam=lam)


def orthonormal_constant(rng: Generator, n: int = 4, d: int = 6, size: float = 0.1, lam: float = 0.0) -> Instance:
    """X with orthonormal rows and |W| constant: beta = 1, and lem:PL_ineq fails (Gaussian draws never show it)."""
    _positive(n=n, d=d)
    if n > d:
        raise InvalidInstance(f"n orthonormal rows need n <= d; got n = {n}, d = {d}")
    X = np.linalg.qr(rng.standard_normal((d, n)))[0].T
    W = size * rng.choice([-1.0, 1.0], (d, d))
    return Instance(X, W, M=rng.uniform(0.0, 1.0, (d, d)), lam=lam)


def saturated(rng: Generator, n: int = 6, d: int = 4, scale: float = 1000.0, lam: float = 0.01) -> Instance:
    """Logits up to `scale`: rows of the softmax are one-hot to many digits, and exp without a shift overflows."""
    return _with_logits(rng, n, d, scale, lam)


def more_tokens_than_features(rng: Generator, n: int = 7, d: int = 3, lam: float = 0.01) -> Instance:
    """n > d: X X^T is singular, so beta = 0 exactly and the theorem's first assumption cannot hold."""
    return _with_logits(rng, n, d, 3.0, lam)


def repeated_tokens(rng: Generator, n: int = 5, d: int = 6, lam: float = 0.01) -> Instance:
    """Two equal tokens: X X^T is singular although n <= d, and float eigenvalues near 0 cannot show this."""
    instance = _with_logits(rng, max(n, 2), d, 2.0, lam)
    X = instance.X.copy()
    X[-1] = X[0]
    return Instance(X, instance.W, M=instance.M, lam=lam)


def zero_weights(rng: Generator, n: int = 4, d: int = 5, lam: float = 0.01) -> Instance:
    """Some W_ij = 0: mu = 0 in the paper's and in the corrected PL inequality."""
    instance = _with_logits(rng, n, d, 2.0, lam)
    W = instance.W.copy()
    W[rng.random((d, d)) < 0.3] = 0.0
    W[0, 0] = 0.0
    return Instance(instance.X, W, M=instance.M, lam=lam)


def one_token(rng: Generator, d: int = 4, lam: float = 0.5) -> Instance:
    """n = 1: attention is constantly 1, so the attention gradient is exactly 0 whatever M is."""
    return _with_logits(rng, 1, d, 2.0, lam)


def one_feature(rng: Generator, n: int = 5, lam: float = 0.01) -> Instance:
    """d = 1: M is a single number, and M = 1 is the only stationary point of the attention loss."""
    return _with_logits(rng, n, 1, 3.0, lam)


def near_singular(rng: Generator, n: int = 4, d: int = 6, smallest: float = 1e-9, lam: float = 0.01) -> Instance:
    """X with one singular value `smallest`: beta is about its square, below the noise of float eigenvalues."""
    _positive(n=n, d=d)
    if n > d:
        raise InvalidInstance(f"a near-singular X of full row rank needs n <= d; got n = {n}, d = {d}")
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    V = np.linalg.qr(rng.standard_normal((d, n)))[0]
    values = np.ones(n)
    values[-1] = smallest
    W = rng.uniform(0.1, 1.0, (d, d)) * rng.choice([-1.0, 1.0], (d, d))
    return Instance((U * values) @ V.T, W, M=rng.uniform(0.0, 1.0, (d, d)), lam=lam)


def block_mask(rng: Generator, n: int = 6, d: int = 6, blocks: int = 2, lam: float = 0.01) -> Instance:
    """Attention inside diagonal blocks only, the paper's example of a general mask ("e.g. block-wise")."""
    block = np.arange(n) * max(blocks, 1) // n
    return _with_logits(rng, n, d, 2.0, lam, mask=block[:, None] == block[None, :])


def banded_mask(rng: Generator, n: int = 7, d: int = 7, width: int = 2, lam: float = 0.01) -> Instance:
    """A causal window: position i attends to i - width, ..., i."""
    distance = np.arange(n)[:, None] - np.arange(n)[None, :]
    return _with_logits(rng, n, d, 2.0, lam, mask=(distance >= 0) & (distance <= width))


FAMILIES: dict[str, Callable[..., Instance]] = {
    family.__name__: family
    for family in (
        paper_synthetic,
        benign,
        orthonormal_constant,
        saturated,
        more_tokens_than_features,
        repeated_tokens,
        zero_weights,
        one_token,
        one_feature,
        near_singular,
        block_mask,
        banded_mask,
    )
}


def _with_logits(rng: Generator, n: int, d: int, largest: float, lam: float, mask: Any = None) -> Instance:
    """Gaussian X and W, W scaled so that the largest logit at M = 1 is `largest`; M is off-centre and non-symmetric."""
    _positive(n=n, d=d)
    X = rng.standard_normal((n, d))
    W = rng.standard_normal((d, d))
    W *= largest / max(float(np.abs(X @ W @ X.T).max()), np.finfo(float).tiny)
    return Instance(X, W, M=rng.uniform(-0.2, 1.3, (d, d)), mask=mask, lam=lam)


def _cut_to_rank(G: Matrix, rank: int) -> Matrix:
    U, S, Vt = np.linalg.svd(G)
    S[rank:] = 0.0
    cut: Matrix = (U * S) @ Vt
    return cut


def _positive(**sizes: int) -> None:
    wrong = {name: size for name, size in sizes.items() if not (isinstance(size, (int, np.integer)) and size >= 1)}
    if wrong:
        raise InvalidInstance(
            "sizes must be integers >= 1; got " + ", ".join(f"{name} = {size!r}" for name, size in wrong.items())
        )
