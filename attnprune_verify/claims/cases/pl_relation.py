"""lem:PL_ineq's inequality, which the lemma and the theorem that follows from it are both judged by."""

from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.cases.relation import Relation, at_least
from attnprune_verify.theory.formulas import paper


def pl_inequality(q: Quantities, half_mu: object) -> Relation:
    """||grad L||^2 >= (mu/2)(||c||^2 + 2 lam^2/mu ||M||^2 - xi), multiplied out so that mu = 0 needs no division."""
    cross = q.of(paper.cross_term, q.n, q.d, q.w_max, q.norm(q.X), q.lam)
    return at_least(q.square(q.gradient), half_mu * q.square(q.c) + q.lam * q.lam * q.square(q.M) - cross)


def as_printed(q: Quantities) -> Relation:
    """With mu = 2 min|W| beta delta, delta over all positions."""
    return pl_inequality(q, q.of(paper.mu, q.w_min, q.beta, q.delta) / 2)
