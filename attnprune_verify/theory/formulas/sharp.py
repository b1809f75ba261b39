"""The repaired and sharp constants beside the paper's. Only a proved bound is called a bound.

Notation: A : M -> X (M * W) X^T, Pi centres each row over its allowed positions, K = ||Pi A||; sigma a row of F(M),
f the same row of F(1), c = sigma - f, J = diag(sigma) - sigma sigma^T, G the gradient of the attention term. Every
formula takes the arithmetic as an argument; in balls by default.
"""

from collections import Counter
from collections.abc import Iterable

from attnprune_verify.theory.formulas.formula import formula
from attnprune_verify.theory.numbers.arithmetic import BALL, Arithmetic, Number


@formula("(39 + 55 sqrt(33))/1152", "new:row_hessian", "fix:lip_grad_l")
def C_plus(*, arithmetic: Arithmetic = BALL) -> Number:
    """Largest curvature of a row: H <= C_+ I for phi(s) = 1/2 ||softmax(s) - f||^2; 0.30812, sharp.

    C_+ = 2 max_p 2 p^2 (1-p) (2-3p). Proof: the Hessian H is affine in f, so its largest eigenvalue is convex in f and
    attained at a vertex f = e_k; H is a signed graph Laplacian and Gershgorin's discs reduce the claim to polynomial
    inequalities in at most three variables. Attained in the limit by two tokens, v = (1, -1)/sqrt(2),
    p = (15 - sqrt 33)/24.

    Examples
    --------
    >>> round(float(C_plus()), 6)
    0.308117
    """
    return (39 + 55 * arithmetic.sqrt(arithmetic.lift(33))) / 1152


@formula("(55 sqrt(33) - 39)/1152", "new:row_hessian_lower")
def C_minus(*, arithmetic: Arithmetic = BALL) -> Number:
    """Largest negative curvature of a row: H >= -C_- I; 0.24041, sharp (proof and extremal case as for C_+).

    Examples
    --------
    >>> round(float(C_minus()), 6)
    0.240409
    """
    return (55 * arithmetic.sqrt(arithmetic.lift(33)) - 39) / 1152


@formula("8 sqrt(2)/27", "new:bound_p_sharp", "new:attention_gradient_sharp")
def P_star(*, arithmetic: Arithmetic = BALL) -> Number:
    """The largest norm of one row of p = J c; 0.41903, attained at sigma = (2/3, 1/3), f = e_2.

    Examples
    --------
    >>> round(float(P_star()), 6)
    0.419026
    """
    return 8 * arithmetic.sqrt(arithmetic.lift(2)) / 27


@formula("1/m", "new:delta_le_inverse_n")
def largest_delta(m: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """A row of m weights that sum to 1 has one of at most 1/m, so delta is at most that; attained by uniform rows.

    Examples
    --------
    >>> float(largest_delta(4))
    0.25
    """
    return 1 / m


@formula("n_e/n^2", "fix:bound_c")
def largest_residual(n_e: Number, n: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """The largest possible L_attn / n^2: ||c_i||^2 <= 2 in each of the n_e rows that have a choice.

    Examples
    --------
    >>> float(largest_residual(3, 4))
    0.1875
    """
    return n_e / (n * n)


@formula("lam + C_+ K^2", "fix:lip_grad_l", "new:curvature_range")
def lipschitz(K: Number, lam: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """L_sharp: grad L is L_sharp-Lipschitz on all of R^{d x d} (fix:lip_grad_l).

    Hess L = lam I + sum_i (Pi A)_i^T H_i (Pi A)_i with H_i <= C_+ I. Upper bound, with any upper bound of K; sharp
    in the limit for d = 1, n = 2, X = (1, 0)^T, W -> infinity.

    Examples
    --------
    >>> round(float(lipschitz(2.0, 0.0)), 6)
    1.232469
    """
    return lam + C_plus(arithmetic=arithmetic) * K * K


@formula("lam - C_- K^2", "new:curvature_range", "new:strong_convexity")
def lower_curvature(K: Number, lam: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """A lower bound of every eigenvalue of Hess L(M), for every M; sharp in the same limit as `lipschitz`.

    Examples
    --------
    >>> round(float(lower_curvature(1.0, 0.0)), 6)
    -0.240409
    """
    return lam - convexity_threshold(K, arithmetic=arithmetic)


@formula("C_- K^2", "new:strong_convexity")
def convexity_threshold(K: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """The lam above which L is (lam - C_- K^2)-strongly convex on R^{d x d}.

    Examples
    --------
    >>> round(float(convexity_threshold(1.0)), 6)
    0.240409
    """
    return C_minus(arithmetic=arithmetic) * K * K


@formula("K/2", "fix:lip_f", "fix:lip_c")
def lipschitz_attention(K: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """||F(M) - F(M')||_F <= (K/2) ||M - M'||_F; the paper (lem:lip_f) has 2 d n R^3.

    v^T J v = Var_sigma(v) <= (max v - min v)^2 / 4 <= ||v||^2 / 2, so ||J|| <= 1/2, and dF = J Pi A row by row.
    Tight: equality in the derivative for d = 1, n = 2, X = (1, 0)^T at M = 0.

    Examples
    --------
    >>> float(lipschitz_attention(3.0))
    1.5
    """
    return K / 2


@formula("2 (min|W| beta delta)^2", "fix:PL_ineq", "fix:our_convergence", "new:PL_global", min_W="min|W|")
def mu(min_W: Number, beta: Number, delta: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """mu with the squares, delta over the allowed positions (fix:PL_ineq).

    ||G||_F = ||W * (X^T p X)||_F >= min|W| beta ||p||_F and ||p||_F >= delta ||c||_F, hence ||G||_F^2 >= (mu/2)
    ||c||_F^2. Tight: attained for X = I, |W| = 1 and uniform F.

    Examples
    --------
    >>> float(mu(1.0, 1.0, 0.5))
    0.5
    """
    root = min_W * beta * delta
    return 2 * root * root


@formula("2 (kappa_T l)^2", "new:our_convergence_sharp", "new:PL_sharp", kappa="kappa_T", eigenvalue="l")
def mu_by_operator(kappa: Number, eigenvalue: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """mu by the operator's own constants, at least `mu`: positive also for some beta = 0.

    kappa_T is the least singular value of (Pi A)^* on zero-sum rows, l = min_i lambda_2(J_i) >= min_j sigma_j the least
    eigenvalue of J_i orthogonal to 1; rows with one allowed position contribute c = 0 and are left out.

    Examples
    --------
    >>> float(mu_by_operator(0.5, 0.5))
    0.125
    """
    root = kappa * eigenvalue
    return 2 * root * root


@formula("K lam^{3/2} d^2/(n^2 mu)", "new:our_convergence_sharp", "new:ones_witness_sharp")
def xi_confined(n: Number, d: Number, K: Number, lam: Number, mu: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """xi, in the theorem's scale, for gradient descent from M_0 = 1; inf or nan for mu = 0.

    On the descent path ||M||^2 + ||c||^2 / lam <= d^2, so ||c|| ||M|| <= sqrt(lam) d^2 / 2, and ||G|| <= K ||c|| / 2;
    the cross term 2 lam ||G|| ||M|| is then at most K lam^{3/2} d^2 / 2.

    Examples
    --------
    >>> float(xi_confined(2, 2, 1.0, 1.0, 0.5))
    2.0
    """
    return arithmetic.over(K * lam * arithmetic.sqrt(lam) * d * d, n * n * mu)


@formula("W0((m_i - 1)/e)", "new:gradient_inner_product", "new:PL_global", m="m_i")
def inner_product_row(m: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """Largest decrease of <G, M> by a row with m allowed positions: <G, M> >= -sum_i W0((m_i - 1)/e) for all real M.

    <G, M> = sum_i Cov_sigma(c_i, z_i), z = X (M * W) X^T. Cov(sigma, z) >= 0, and Cov(f, z) <= E[t] with
    t = max z - z >= 0. With v e^v = (m-1)/e every non-maximal entry has e^{-t} (t - v) <= e^{-v-1}, so
    sum e^{-t} (t - v) <= (m-1) e^{-v-1} = v, which is E[t] <= v.

    Examples
    --------
    >>> round(float(inner_product_row(2)), 4)
    0.2785
    """
    return arithmetic.lambertw((m - 1) / arithmetic.exp(arithmetic.lift(1)))


def inner_product_floor(row_counts: Iterable[int], *, arithmetic: Arithmetic = BALL) -> Number:
    """-sum_i W0((m_i - 1)/e), a lower bound of <G, M>: `inner_product_row` of every row.

    Examples
    --------
    >>> round(float(inner_product_floor([2, 1])), 4)
    -0.2785
    """
    with arithmetic.precision():
        total = arithmetic.lift(0)
        for m, rows in Counter(row_counts).items():
            total = total - inner_product_row(m, arithmetic=arithmetic) * rows
        return total


@formula("2 lam sum_i W0((m_i - 1)/e)", "new:PL_global", limit="sum_i W0((m_i - 1)/e)")
def cross_global(lam: Number, limit: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """mu xi / 2, the loss of the PL inequality to the regulariser, for every real M: the least of 2 lam <G, M>.

    Examples
    --------
    >>> float(cross_global(0.5, 2.0))
    2.0
    """
    return 2 * lam * limit


@formula("4 lam sum_i W0((m_i - 1)/e)/mu", "new:PL_global", limit="sum_i W0((m_i - 1)/e)")
def xi_global(lam: Number, limit: Number, mu: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """xi in the lemma's scale, valid for every real M; `limit` is minus the `inner_product_floor`.

    ||grad L||^2 = ||G||^2 + lam^2 ||M||^2 + 2 lam <G, M>: no box, no norm of X, no max|W|.

    Examples
    --------
    >>> float(xi_global(1.0, 0.5, 2.0))
    1.0
    """
    return arithmetic.over(2 * cross_global(lam, limit, arithmetic=arithmetic), mu)
