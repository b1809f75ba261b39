"""The hypotheses of the statements, as predicates in any arithmetic: True only where they certainly hold."""

from attnprune_verify.theory.formulas.formula import formula
from attnprune_verify.theory.numbers.arithmetic import BALL, Arithmetic, Number

_PL = ("lem:PL_ineq", "fix:PL_ineq")


@formula("beta > 0", *_PL)
def beta_positive(beta: Number, *, arithmetic: Arithmetic = BALL) -> bool:
    """X X^T >= beta I for some beta > 0: beta is a factor of mu.

    Examples
    --------
    >>> beta_positive(1e-300), beta_positive(0.0)
    (True, False)
    """
    return bool(beta > 0)


@formula("delta > 0", *_PL)
def delta_positive(delta: Number, *, arithmetic: Arithmetic = BALL) -> bool:
    """F(M)_ij >= delta > 0, over all positions as printed, over the allowed ones in the repairs.

    Examples
    --------
    >>> delta_positive(1e-300), delta_positive(0.0)
    (True, False)
    """
    return bool(delta > 0)


@formula("min|W| > 0", *_PL, min_W="min|W|")
def weights_nonzero(min_W: Number, *, arithmetic: Arithmetic = BALL) -> bool:
    """Condition that no weight is 0: min|W| is a factor of mu.

    Examples
    --------
    >>> weights_nonzero(1e-300), weights_nonzero(0.0)
    (True, False)
    """
    return bool(min_W > 0)


@formula("0 <= M_ij <= 1", "lem:PL_ineq", "lem:M_bounds", entry="M_ij")
def in_box(entry: Number, *, arithmetic: Arithmetic = BALL) -> bool:
    """M in [0, 1]^{d x d}, entry by entry; gradient descent leaves it.

    Examples
    --------
    >>> in_box(0.0), in_box(1.0), in_box(-1e-300)
    (True, True, False)
    """
    return bool(entry >= 0 and entry <= 1)


@formula("||M||_F <= d", "fix:PL_ineq", norm_M="||M||_F")
def in_ball(norm_M: Number, d: Number, *, arithmetic: Arithmetic = BALL) -> bool:
    """Return True where ||M||_F <= d: the repaired cross term needs it, and descent from M = 1 preserves it.

    Examples
    --------
    >>> in_ball(2.0, 2), in_ball(2.5, 2)
    (True, False)
    """
    return bool(norm_M <= d)


@formula("0 <= lam <= 1", "lem:PL_ineq")
def lam_in_unit_interval(lam: Number, *, arithmetic: Arithmetic = BALL) -> bool:
    """Return True where 0 <= lam <= 1, the hypothesis of lem:PL_ineq.

    Examples
    --------
    >>> lam_in_unit_interval(1.0), lam_in_unit_interval(5.12)
    (True, False)
    """
    return bool(lam >= 0 and lam <= 1)
