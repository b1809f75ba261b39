"""The paper's constants exactly as printed: L, mu, xi (both scales) and T.

Arguments are floats or balls, results are balls: T = 1e447 or mu = 1e-400 are ordinary numbers here, and
`balls.nearest` and `balls.log10` bring them out.
"""

from __future__ import annotations

from flint import arb

from attnprune_verify.theory.balls import Number, precise

__all__ = ["iterations", "lipschitz", "mu", "over", "vacuity_threshold", "xi_lemma", "xi_theorem"]


@precise
def lipschitz(n: int, d: int, R: Number, lam: Number) -> arb:
    """L = lam + 30 d n^{7/2} R^6, with R >= max(1, ||X||_F, ||W||_F) (thm:lip_grad_l, asp:bound_parameters).

    True and loose: 1e4 to 1e9 times the largest curvature on small instances (`sharp.lipschitz` is the sharp form).

    Examples
    --------
    >>> float(lipschitz(1, 2, 1.0, 0.5))
    60.5
    """
    return lam + 30 * d * arb(n).sqrt() ** 7 * arb(R) ** 6


@precise
def mu(min_W: Number, beta: Number, delta: Number) -> arb:
    """mu = 2 min|W| beta delta (lem:PL_ineq, thm:our_convergence). Wrong: every factor needs a square (`sharp.mu`).

    Examples
    --------
    >>> float(mu(1.0, 1.0, 0.5))
    1.0
    """
    return 2 * arb(min_W) * beta * delta


@precise
def xi_lemma(n: int, d: int, max_W: Number, norm_X: Number, lam: Number, mu: Number) -> arb:
    """xi = 12 sqrt(n) max|W| ||X||_F^2 lam d / mu, the scale of lem:PL_ineq.

    inf where mu = 0 < lam; nan where both are 0 (the paper divides 0 by 0).

    Examples
    --------
    >>> float(xi_lemma(4, 2, 1.0, 1.0, 1.0, 2.0))
    24.0
    """
    return over(12 * arb(n).sqrt() * arb(max_W) * arb(norm_X) ** 2 * lam * d, mu)


@precise
def xi_theorem(n: int, d: int, max_W: Number, norm_X: Number, lam: Number, mu: Number) -> arb:
    """xi = 12 n^{-3/2} max|W| ||X||_F^2 lam d / mu, the scale of thm:our_convergence: `xi_lemma` / n^2.

    Examples
    --------
    >>> float(xi_theorem(4, 2, 1.0, 1.0, 1.0, 2.0))
    1.5
    """
    return xi_lemma(n, d, max_W, norm_X, lam, mu) / n**2


@precise
def iterations(start_loss: Number, eta: Number, mu: Number, eps: Number, n: int) -> arb:
    """T = 4 L(M^(0)) / (eta mu eps n^2) (thm:our_convergence).

    With M^(0) = 1 and eta = 1/L it is 2 lam d^2 L / (mu eps n^2): increasing in lam, against the paper's remark that
    a small lam means a longer run. inf where mu = 0, nan where the loss is 0 as well.

    Examples
    --------
    >>> float(iterations(1.0, 0.5, 2.0, 0.5, 2))
    2.0
    """
    return over(4 * arb(start_loss), arb(eta) * mu * eps * n**2)


@precise
def vacuity_threshold(n: int, d: int, max_W: Number, norm_X: Number) -> arb:
    """lam below which M = 1, nothing pruned, already satisfies the theorem: 6 sqrt(n) max|W| ||X||_F^2 / d.

    At M = 1 the left side of thm:our_convergence is lam^2 d^2 / (mu n^2), the right side at least xi / 2; mu cancels.

    Examples
    --------
    >>> float(vacuity_threshold(4, 2, 1.0, 1.0))
    6.0
    """
    return 6 * arb(n).sqrt() * arb(max_W) * arb(norm_X) ** 2 / d


def over(numerator: arb, denominator: Number) -> arb:
    """numerator / denominator with x/0 = inf for x > 0 and 0/0 = nan."""
    if arb(denominator) == 0:
        return arb.pos_inf() if numerator > 0 else arb.nan()
    return numerator / denominator
