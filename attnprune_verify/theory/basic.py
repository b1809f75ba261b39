"""The paper's basic norm bounds (lem:bound_basic_func and its neighbours) beside the best possible ones."""

from __future__ import annotations

from dataclasses import dataclass

from flint import arb

from attnprune_verify.instance.problem import Instance
from attnprune_verify.theory import sharp
from attnprune_verify.theory.balls import precision
from attnprune_verify.theory.measure import logit_norm, measure

__all__ = ["BasicBound", "basic_bounds"]


@dataclass(frozen=True)
class BasicBound:
    """An upper bound valid for every real M: the paper's (None where it has none) and ours.

    `tight` says that ours is attained, or approached, by some instance of these sizes.
    """

    quantity: str
    label: str
    paper: arb | None
    ours: arb
    tight: bool


def basic_bounds(instance: Instance) -> tuple[BasicBound, ...]:
    """Norms over all M, the paper's bound and ours; n_e counts the rows with two or more allowed positions.

    A row with one allowed position has c = 0. ||c_i|| <= sqrt(2), attained by c = e_1 - e_2; ||c_i * F_i|| <= 1,
    |<c_i, F_i>| <= 1 and ||p_i|| <= P_*. The gradient is (Pi A)^* p; F, c, p have Lipschitz constants K/2, K/2, C_+ K.

    Examples
    --------
    >>> import numpy as np
    >>> for bound in basic_bounds(Instance(np.eye(2), np.eye(2)))[1:3]:
    ...     print(bound.quantity, round(float(bound.paper), 3), round(float(bound.ours), 3))
    ||c|| 2.828 2.0
    ||c * F|| 2.828 1.414
    """
    with precision():
        n, d = instance.n, instance.d
        found, K = measure(instance), arb(logit_norm(instance).upper.upper())
        R = found.radius
        root, active = arb(n).sqrt(), arb(int((instance.allowed.sum(axis=1) > 1).sum())).sqrt()
        two = arb(2).sqrt()
        gradient = 3 * root * found.max_W * found.norm_X**2
        return (
            BasicBound("||F||", "lem:bound_basic_func", root, root, True),
            BasicBound("||c||", "lem:bound_c", 2 * root, two * active, True),
            BasicBound("||c * F||", "lem:bound_basic_func", 2 * root, active, True),
            BasicBound("||diag((c * F) 1)||", "lem:bound_basic_func", 2 * arb(n), active, True),
            BasicBound("||diag((c * F) 1) F||", "lem:bound_diag_f", root, active, True),
            BasicBound("||p||", "lem:PL_ineq", 3 * root, sharp.P_STAR * active, True),
            BasicBound("||grad L_attn||", "lem:PL_ineq", gradient, K * sharp.P_STAR * active, False),
            BasicBound("Lip(F)", "lem:lip_f", 2 * d * n * R**3, K / 2, True),
            BasicBound("Lip(c)", "lem:lip_c", 2 * d * n * R**3, K / 2, True),
            BasicBound("Lip(c * F)", "lem:lip_f_circ_c", 6 * d * root**3 * R**3, K / 2, n >= 3),
            BasicBound("Lip(p)", "new", None, sharp.C_PLUS * K, True),
        )
