"""Prior work on repaired and new statements: known as it is, as an instance of something known, or not found.

Typed by hand, because no program can know it. A statement that is not listed was not searched for, which is said: it
may well be known. The date is that of the last search, and is missing where a textbook needs none.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from attnprune_verify.claims.core import Claim

STATUS = ("known", "instance of known", "not found", "not searched")


class Prior(NamedTuple):
    """Result of a search of the literature: one of `STATUS`, the place, and the date of the search."""

    status: str
    reference: str = ""
    searched: str | None = None


_DAY = "2026-11-23"
_HALF = "P. Nair, Softmax is 1/2-Lipschitz, arXiv:2510.23012: the constant 1/2 in every l_p norm"
_NORM = "N. Yudin and others, arXiv:2507.07814: the spectral norm of the softmax Jacobian by the row's weights"
_SELF = (
    "quasi-self-concordance of log-sum-exp (F. Bach, Self-concordant analysis for logistic regression, 2010;"
    " T. Sun and Q. Tran-Dinh, arXiv:1703.04599)"
)
_DESCENT = "Y. Nesterov, Introductory Lectures on Convex Optimization, section 1.2.3: the descent lemma"
_ARMIJO = "J. Nocedal and S. Wright, Numerical Optimization, section 3.2: backtracking and sufficient decrease"
_BALL = "S. Zavriev and F. Kostyuk, Heavy-ball method in nonconvex optimization problems, 1993: the energy"
_CONVEX = "Y. Nesterov, Introductory Lectures on Convex Optimization, section 2.1.5: the linear rate"
_LEVEL = "a sublevel set of a coercive function is bounded, and descent does not leave it (any text on optimisation)"
_PROXY = "S. Frei and Q. Gu, arXiv:2106.13792: the proxy PL inequality and its Theorem 3.1"
_BANACH = "S. Banach, Studia Mathematica 7, 1938: the norm of a symmetric multilinear form is on its diagonal"
_LINEAR = "elementary linear algebra"

PRIOR: Mapping[str, Prior] = {
    "new:softmax_jacobian": Prior("known", _HALF, _DAY),
    "new:softmax_lipschitz": Prior("known", _HALF, _DAY),
    "fix:lip_f": Prior("instance of known", f"{_HALF}; here times the norm of the logit map", _DAY),
    "fix:lip_c": Prior("instance of known", f"{_HALF}; here times the norm of the logit map", _DAY),
    "fix:bound_grad_f": Prior("instance of known", f"{_HALF}; here times the norm of the logit map", _DAY),
    "new:p_norm_half_c": Prior("instance of known", _HALF, _DAY),
    "new:jacobian_two_largest": Prior("instance of known", _NORM, _DAY),
    "new:local_curvature": Prior("instance of known", f"{_NORM}; here in the loss's second derivative", _DAY),
    "new:softmax_second_derivative": Prior(
        "instance of known",
        f"{_BANACH}; with the largest third central moment on an interval; the constant itself was not found",
        _DAY,
    ),
    "new:softmax_third_derivative": Prior(
        "instance of known",
        f"{_BANACH}; with the largest fourth cumulant on an interval; the constant itself was not found",
        _DAY,
    ),
    "new:certified_refit": Prior("instance of known", f"{_SELF}; here as a bound from the slope on a support"),
    "new:softmax_move": Prior("instance of known", _SELF, _DAY),
    "new:descent_lemma": Prior("known", _DESCENT),
    "new:directional_step": Prior("instance of known", _DESCENT),
    "new:armijo_step": Prior("known", _ARMIJO),
    "new:stopping_rule": Prior("instance of known", _DESCENT),
    "new:gradient_norm": Prior("instance of known", _DESCENT),
    "new:stationarity": Prior("instance of known", f"{_DESCENT}; with new:PL_sharp at the iterate it gives"),
    "new:confinement": Prior("instance of known", _LEVEL),
    "new:confinement_sharp": Prior("instance of known", _LEVEL),
    "new:pair_descent": Prior("instance of known", _LEVEL),
    "new:heavy_ball": Prior("instance of known", _BALL),
    "new:heavy_ball_diverges": Prior(
        "instance of known", "B. Polyak, 1964: the roots of the heavy ball's recursion on a quadratic"
    ),
    "new:strongly_convex_descent": Prior("instance of known", _CONVEX),
    "new:linear_convergence": Prior("instance of known", f"{_CONVEX}; the set where it holds is ours"),
    "fix:our_convergence": Prior("instance of known", f"{_PROXY}; its constants are repaired here"),
    "new:our_convergence_sharp": Prior("instance of known", f"{_PROXY}; the constants are ours"),
    "fix:lip_product": Prior("known", "telescoping a product of bounded Lipschitz factors (any text on analysis)"),
    "new:beta_needs_n_le_d": Prior("known", _LINEAR),
    "new:delta_le_inverse_n": Prior("known", "the least of n numbers is at most their mean"),
    "new:kappa_vanishes": Prior("known", _LINEAR),
    "fix:calculus": Prior("known", "rules of differentiation (any text on analysis)"),
    "new:batch": Prior("known", "a batch as one block-diagonal problem, used wherever sequences are packed"),
}
"""By statement; those of ours that are missing were not searched for."""


def prior_of(claim: Claim) -> dict[str, Any] | None:
    """Return the entry of a statement of ours as JSON has it; None for the paper's.

    Examples
    --------
    >>> from attnprune_verify.claims.registry import find
    >>> prior_of(find("new:softmax_jacobian", "literal"))["status"]
    'known'
    >>> prior_of(find("lem:lip_f", "any")) is None
    True
    """
    if not claim.own:
        return None
    return PRIOR.get(claim.id, Prior("not searched"))._asdict()


def known_or_new(claim: Claim) -> list[str]:
    """Return the lines of a page about it."""
    entry = prior_of(claim)
    if entry is None:
        return []
    searched = f" (searched {entry['searched']})" if entry["searched"] else ""
    return [f"{entry['status']}{': ' * bool(entry['reference'])}{entry['reference']}{searched}"]
