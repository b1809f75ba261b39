"""The paper's constants exactly as printed: L, mu, xi (both scales) and T, and when M = 1 satisfies the theorem.

Every formula takes the arithmetic as an argument. In balls, the default, T = 1e447 or mu = 1e-400 are ordinary numbers;
`balls.nearest` and `balls.log10` bring them out.
"""

from attnprune_verify.theory.formulas.formula import formula
from attnprune_verify.theory.numbers.arithmetic import BALL, Arithmetic, Number


@formula("lam + 30 d n^{7/2} R^6", "thm:lip_grad_l", "thm:lip_grad_l_informal")
def lipschitz(n: Number, d: Number, R: Number, lam: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """L with R >= max(1, ||X||_F, ||W||_F) (thm:lip_grad_l, asp:bound_parameters).

    True and loose: it exceeds `sharp.lipschitz` at least 97 d n^{7/2} times where the attention decides
    (new:L_against_paper).

    Examples
    --------
    >>> float(lipschitz(1, 2, 1.0, 0.5))
    60.5
    """
    return lam + 30 * d * arithmetic.sqrt(n) ** 7 * R**6


@formula("2 d n R^3", "lem:lip_f", "lem:lip_c")
def lipschitz_attention(n: Number, d: Number, R: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """The Lipschitz constant of F(M), and so of c (`sharp.lipschitz_attention` is the sharp form).

    Examples
    --------
    >>> float(lipschitz_attention(3, 2, 2.0))
    96.0
    """
    return 2 * d * n * R**3


@formula("2 min|W| beta delta", "lem:PL_ineq", "lem:PL_ineq_informal", "thm:our_convergence", min_W="min|W|")
def mu(min_W: Number, beta: Number, delta: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """mu of lem:PL_ineq and thm:our_convergence. Wrong: every factor needs a square (`sharp.mu`).

    Examples
    --------
    >>> float(mu(1.0, 1.0, 0.5))
    1.0
    """
    return 2 * min_W * beta * delta


@formula("6 sqrt(n) max|W| ||X||_F^2 lam d", "fix:PL_ineq", max_W="max|W|", norm_X="||X||_F")
def cross_term(
    n: Number, d: Number, max_W: Number, norm_X: Number, lam: Number, *, arithmetic: Arithmetic = BALL
) -> Number:
    """mu xi / 2, the loss of the PL inequality to the regulariser: mu cancels.

    2 lam ||G||_F ||M||_F with ||G||_F <= 3 sqrt(n) max|W| ||X||_F^2 and ||M||_F <= d.

    Examples
    --------
    >>> float(cross_term(4, 2, 1.0, 1.0, 1.0))
    24.0
    """
    return 6 * arithmetic.sqrt(n) * max_W * norm_X * norm_X * lam * d


@formula("12 sqrt(n) max|W| ||X||_F^2 lam d / mu", "lem:PL_ineq", max_W="max|W|", norm_X="||X||_F")
def xi_lemma(
    n: Number, d: Number, max_W: Number, norm_X: Number, lam: Number, mu: Number, *, arithmetic: Arithmetic = BALL
) -> Number:
    """xi in the scale of lem:PL_ineq: inf where mu = 0 < lam; nan where both are 0 (the paper divides 0 by 0).

    Examples
    --------
    >>> float(xi_lemma(4, 2, 1.0, 1.0, 1.0, 2.0))
    24.0
    """
    return arithmetic.over(2 * cross_term(n, d, max_W, norm_X, lam, arithmetic=arithmetic), mu)


@formula(
    "12 n^{-3/2} max|W| ||X||_F^2 lam d / mu",
    "thm:our_convergence",
    "fix:our_convergence",
    max_W="max|W|",
    norm_X="||X||_F",
)
def xi_theorem(
    n: Number, d: Number, max_W: Number, norm_X: Number, lam: Number, mu: Number, *, arithmetic: Arithmetic = BALL
) -> Number:
    """xi in the scale of thm:our_convergence: `xi_lemma` / n^2.

    Examples
    --------
    >>> float(xi_theorem(4, 2, 1.0, 1.0, 1.0, 2.0))
    1.5
    """
    return xi_lemma(n, d, max_W, norm_X, lam, mu, arithmetic=arithmetic) / n**2


@formula(
    "4 L(M_0) / (eta mu eps n^2)",
    "thm:our_convergence",
    "fix:our_convergence",
    "new:our_convergence_sharp",
    start_loss="L(M_0)",
)
def iterations(
    start_loss: Number, eta: Number, mu: Number, eps: Number, n: Number, *, arithmetic: Arithmetic = BALL
) -> Number:
    """T of thm:our_convergence; the formula is symmetric in T and eps, so it also gives the eps that T steps reach.

    With M_0 = 1 and eta = 1/L it is 2 lam d^2 L / (mu eps n^2): increasing in lam, against the paper's remark that a
    small lam means a longer run. inf where mu = 0, nan where the loss is 0 as well.

    Examples
    --------
    >>> float(iterations(1.0, 0.5, 2.0, 0.5, 2))
    2.0
    """
    return arithmetic.over(4 * start_loss, eta * mu * eps * n**2)


@formula("(xi + eps)/2", "thm:our_convergence", "fix:our_convergence", "new:our_convergence_sharp")
def goal(xi: Number, eps: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """Bound that thm:our_convergence and its repairs promise for the least L_attn/n^2 + lam^2 ||M_t||_F^2 / (mu n^2).

    Examples
    --------
    >>> float(goal(1.0, 0.5))
    0.75
    """
    return (xi + eps) / 2


@formula("lam^2 d^2/(mu n^2)", "new:ones_witness", "new:ones_witness_sharp")
def at_ones(n: Number, d: Number, lam: Number, mu: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """The left side of thm:our_convergence at M = 1, where nothing is pruned and L_attn = 0.

    Examples
    --------
    >>> float(at_ones(2, 4, 0.5, 1.0))
    1.0
    """
    return arithmetic.over(lam * lam * d * d, mu * n * n)


@formula("6 sqrt(n) max|W| ||X||_F^2 / d", "new:ones_witness", max_W="max|W|", norm_X="||X||_F")
def vacuity_threshold(n: Number, d: Number, max_W: Number, norm_X: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """lam up to which M = 1, nothing pruned, already satisfies the theorem: `at_ones` <= xi / 2, where mu cancels.

    Examples
    --------
    >>> float(vacuity_threshold(4, 2, 1.0, 1.0))
    6.0
    """
    return 6 * arithmetic.sqrt(n) * max_W * norm_X * norm_X / d
