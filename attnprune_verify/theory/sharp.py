"""The repaired and sharp constants beside the paper's. Only what is proved is called a bound.

Notation: A : M -> X (M * W) X^T, Pi centres each row over its allowed positions, K = ||Pi A||; sigma a row of F(M),
f the same row of F(1), c = sigma - f, J = diag(sigma) - sigma sigma^T. Arguments are floats or balls, results balls.
"""

from __future__ import annotations

from collections.abc import Iterable

from flint import arb

from attnprune_verify.theory.balls import Number, precise, precision
from attnprune_verify.theory.paper import over

__all__ = [
    "C_MINUS",
    "C_PLUS",
    "P_STAR",
    "convexity_threshold",
    "inner_product_floor",
    "linear_rate_threshold",
    "lipschitz",
    "lipschitz_attention",
    "lower_curvature",
    "mu",
    "mu_by_operator",
    "xi_confined",
    "xi_global",
]

with precision(256):
    C_PLUS = (39 + 55 * arb(33).sqrt()) / 1152
    """Largest curvature of a row: H <= C_+ I for phi(s) = 1/2 ||softmax(s) - f||^2; 0.30812, sharp.

    C_+ = 2 max_p 2 p^2 (1-p) (2-3p). Proof: the Hessian H is affine in f, so its largest eigenvalue is convex in f and
    attained at a vertex f = e_k; H is a signed graph Laplacian and Gershgorin's discs reduce the claim to polynomial
    inequalities in at most three variables. Attained in the limit by two tokens, v = (1, -1)/sqrt(2),
    p = (15 - sqrt 33)/24.
    """
    C_MINUS = (55 * arb(33).sqrt() - 39) / 1152
    """Largest negative curvature of a row: H >= -C_- I; 0.24041, sharp (proof and extremal case as for C_+)."""
    P_STAR = 8 * arb(2).sqrt() / 27
    """max ||p_i|| of one row of p = J c; 0.41903, attained at sigma = (2/3, 1/3), f = e_2."""


@precise
def lipschitz(K: Number, lam: Number) -> arb:
    """L_sharp = lam + C_+ K^2: grad L is L_sharp-Lipschitz on all of R^{d x d} (fix:lip_grad_l).

    Hess L = lam I + sum_i (Pi A)_i^T H_i (Pi A)_i with H_i <= C_+ I. Upper bound, with any upper bound of K; sharp
    in the limit for d = 1, n = 2, X = (1, 0)^T, W -> infinity.

    Examples
    --------
    >>> round(float(lipschitz(2.0, 0.0)), 6)
    1.232469
    """
    return lam + C_PLUS * arb(K) ** 2


@precise
def lower_curvature(K: Number, lam: Number) -> arb:
    """lam - C_- K^2 <= lambda_min(Hess L(M)) for every M; sharp in the same limit as `lipschitz`.

    Examples
    --------
    >>> round(float(lower_curvature(1.0, 0.0)), 6)
    -0.240409
    """
    return lam - C_MINUS * arb(K) ** 2


@precise
def convexity_threshold(K: Number) -> arb:
    """For lam above C_- K^2, L is (lam - C_- K^2)-strongly convex on R^{d x d}.

    Gradient descent with eta <= 1/L_sharp then converges to the only minimiser at rate (1 - eta (lam - C_- K^2))^t.

    Examples
    --------
    >>> round(float(convexity_threshold(1.0)), 6)
    0.240409
    """
    return C_MINUS * arb(K) ** 2


@precise
def lipschitz_attention(K: Number) -> arb:
    """||F(M) - F(M')||_F <= (K/2) ||M - M'||_F; the paper (lem:lip_f) has 2 d n R^3.

    v^T J v = Var_sigma(v) <= (max v - min v)^2 / 4 <= ||v||^2 / 2, so ||J|| <= 1/2, and dF = J Pi A row by row.
    Tight: equality in the derivative for d = 1, n = 2, X = (1, 0)^T at M = 0.

    Examples
    --------
    >>> float(lipschitz_attention(3.0))
    1.5
    """
    return arb(K) / 2


@precise
def mu(min_W: Number, beta: Number, delta: Number) -> arb:
    """mu = 2 (min|W| beta delta)^2 with delta over the allowed positions (fix:PL_ineq).

    ||grad L_attn||_F = ||W * (X^T p X)||_F >= min|W| beta ||p||_F and ||p||_F >= delta ||c||_F, hence
    ||grad L_attn||_F^2 >= (mu / 2) ||c||_F^2. Tight: attained for X = I, |W| = 1 and uniform F.

    Examples
    --------
    >>> float(mu(1.0, 1.0, 0.5))
    0.5
    """
    return 2 * (arb(min_W) * beta * delta) ** 2


@precise
def mu_by_operator(kappa: Number, eigenvalue: Number) -> arb:
    """mu = 2 (kappa_T min_i lambda_2(J_i))^2, at least `mu`: positive also for some beta = 0.

    kappa_T is the least singular value of (Pi A)^* on zero-sum rows, lambda_2(J_i) >= min_j sigma_j the least
    eigenvalue of J_i orthogonal to 1; rows with one allowed position contribute c = 0 and are left out.

    Examples
    --------
    >>> float(mu_by_operator(0.5, 0.5))
    0.125
    """
    return 2 * (arb(kappa) * eigenvalue) ** 2


@precise
def xi_confined(n: int, d: int, K: Number, lam: Number, mu: Number) -> arb:
    """xi = K lam^{3/2} d^2 / (n^2 mu), in the theorem's scale, for gradient descent from M^(0) = 1.

    On the descent path ||M||^2 + ||c||^2 / lam <= d^2, so ||c|| ||M|| <= sqrt(lam) d^2 / 2, and ||grad L_attn|| <=
    K ||c|| / 2; the cross term 2 lam ||grad L_attn|| ||M|| is then at most K lam^{3/2} d^2 / 2. inf or nan for mu = 0.

    Examples
    --------
    >>> float(xi_confined(2, 2, 1.0, 1.0, 0.5))
    2.0
    """
    return over(arb(K) * arb(lam) * arb(lam).sqrt() * d**2, mu) / n**2


@precise
def inner_product_floor(row_counts: Iterable[int]) -> arb:
    """<grad L_attn(M), M> >= -sum_i W0((m_i - 1)/e) for every real M; m_i allowed positions in row i.

    <grad L_attn, M> = sum_i Cov_sigma(c_i, z_i), z = X (M * W) X^T. Cov(sigma, z) >= 0, and Cov(f, z) <= E[t] with
    t = max z - z >= 0. With v e^v = (m-1)/e every non-maximal entry has e^{-t} (t - v) <= e^{-v-1}, so
    sum e^{-t} (t - v) <= (m-1) e^{-v-1} = v, which is E[t] <= v. Returns the (negative) right side.

    Examples
    --------
    >>> round(float(inner_product_floor([2])), 4)
    -0.2785
    """
    counts: dict[int, int] = {}
    for m in row_counts:
        counts[m] = counts.get(m, 0) + 1
    total = arb(0)
    for m, rows in counts.items():
        total += rows * (arb(m - 1) / arb(1).exp()).lambertw()
    return -total


@precise
def xi_global(lam: Number, floor: Number, mu: Number) -> arb:
    """xi = -4 lam floor / mu in the lemma's scale, with `floor` = `inner_product_floor`: valid for every real M.

    ||grad L||^2 = ||grad L_attn||^2 + lam^2 ||M||^2 + 2 lam <grad L_attn, M>: no box, no norm of X, no max|W|.

    Examples
    --------
    >>> float(xi_global(1.0, -0.5, 2.0))
    1.0
    """
    return over(-4 * arb(lam) * floor, mu)


@precise
def linear_rate_threshold(d: int, dense_floor: Number, k: int = 1) -> arb:
    """lam up to which gradient descent from M = 1 converges linearly to the minimiser: (f_min / (sqrt(5) d))^2 / k.

    For 0 < sqrt(lam) d <= f_min / sqrt(5), f_min the smallest allowed entry of F(1) in rows with two or more, the set
    ||c||_F <= f_min / sqrt(5) is convex, contains the sublevel set of M = 1, and L_attn is convex on it, so
    L(M^t) - L* <= (1 - eta lam)^t lam d^2 / 2 for eta <= 1/L_sharp. No assumption on rank, beta or W. Over a batch of k
    the mean of ||c||^2 is at most lam d^2, so a single sample's at most k times that.

    Examples
    --------
    >>> round(float(linear_rate_threshold(1, 0.5)), 9)
    0.05
    """
    return (arb(dense_floor) / d) ** 2 / (5 * k)
