"""Verdict of thm:our_convergence on an instance: whether it applies, whether it is vacuous, and our guarantees."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from flint import arb

from attnprune_verify.instance.problem import Instance
from attnprune_verify.theory.assumptions import assumptions, show
from attnprune_verify.theory.constants import constant_balls
from attnprune_verify.theory.formulas import paper, sharp
from attnprune_verify.theory.guarantees import Guarantee, guarantees
from attnprune_verify.theory.numbers.balls import log10, nearest, precise

__all__ = ["HYPOTHESES", "Guarantee", "TheoremVerdict", "theorem"]

_HOPELESS = 1e15  # steps; chosen: at 10^6 a second some thirty years
HYPOTHESES = ("beta", "delta", "W-nonzero", "M-in-box", "lam-in-unit-interval")
"""Ids of the assumptions that lem:PL_ineq makes, and the theorem through its proof."""


@dataclass(frozen=True)
class TheoremVerdict:
    """The verdict on thm:our_convergence for one instance.

    Attributes
    ----------
    applies : bool
        True if all hypotheses hold, including those of lem:PL_ineq, on which the proof rests.
    vacuous : bool
        True if it guarantees nothing: it cannot apply, or M = 1 (nothing pruned) already satisfies it, or its bound
        exceeds the largest possible value of L_attn / n^2, or it needs more than 1e15 steps.
    reasons : tuple of str
        One sentence each, with the numbers.
    numbers, log10 : Mapping
        xi, eps, bound = (xi + eps) / 2, largest = the largest possible L_attn / n^2, T and the left side at M = 1.
    guarantees : tuple of Guarantee
        Guarantees proved instead for gradient descent from M = 1.
    """

    applies: bool
    vacuous: bool
    reasons: tuple[str, ...]
    numbers: Mapping[str, float] = field(default_factory=dict)
    log10: Mapping[str, float] = field(default_factory=dict)
    guarantees: tuple[Guarantee, ...] = ()


@precise
def theorem(
    instance: Instance,
    eps: float | None = None,
    eta: float | None = None,
    *,
    beta: float | None = None,
    delta: float | None = None,
) -> TheoremVerdict:
    """Judge thm:our_convergence on `instance`; parameters as `constants.constants`.

    The theorem promises, for some t < T, L_attn(M^t) / n^2 + lam^2 ||M^t||_F^2 / (mu n^2) <= (xi + eps) / 2.

    Examples
    --------
    >>> import numpy as np
    >>> verdict = theorem(Instance(np.eye(2), np.ones((2, 2)), lam=0.1))
    >>> verdict.applies, verdict.vacuous
    (True, True)
    >>> verdict.reasons[0]
    'M = 1, nothing pruned, already satisfies it: its left side there is 0.01 <= (xi + eps)/2 = 0.854.'
    """
    balls = constant_balls(instance, eps, eta, beta=beta, delta=delta)
    judged = {item.id: item for item in assumptions(instance, beta, delta)}
    failed = [judged[name].reason for name in HYPOTHESES if not judged[name].holds]
    if instance.k is not None and instance.k > 1:
        failed.append(f"the theorem is about a single X; this is a batch of {instance.k} samples.")
    applies = not failed
    reasons = [f"It does not apply: {reason}" for reason in failed]

    n, d = instance.n, instance.d
    mu, xi = balls["mu_paper"], balls["xi_paper"]
    active = int((instance.allowed.sum(axis=1) > 1).sum())
    largest, bound = sharp.largest_residual(active, n), paper.goal(xi, balls["eps"])
    at_ones = paper.at_ones(n, d, instance.lam, mu) if mu > 0 else arb.nan()
    empty = []
    if mu > 0:
        if at_ones <= bound:
            empty.append(
                f"M = 1, nothing pruned, already satisfies it: its left side there is {show(at_ones)} <= "
                f"(xi + eps)/2 = {show(bound)}."
            )
        if bound >= largest:
            empty.append(
                f"Its bound (xi + eps)/2 = {show(bound)} is {_multiple(bound, largest)} the largest possible value "
                f"{show(largest)} of L_attn/n^2."
            )
        if balls["T_paper"] > _HOPELESS:
            empty.append(f"It asks for T = {show(balls['T_paper'])} steps of size {show(balls['eta_paper'])}.")
    elif instance.lam <= nearest(balls["vacuity_threshold"]):
        empty.append(
            f"mu = 0, so xi and T are infinite; for every mu > 0, M = 1 would satisfy it, since lam = "
            f"{instance.lam:.3g} <= 6 sqrt(n) max|W| ||X||_F^2 / d = {show(balls['vacuity_threshold'])}."
        )
    numbers = {
        "xi": xi,
        "eps": balls["eps"],
        "bound": bound,
        "largest": largest,
        "T": balls["T_paper"],
        "at_ones": at_ones,
    }
    return TheoremVerdict(
        applies=applies,
        vacuous=bool(empty) or not applies,
        reasons=tuple(reasons + empty),
        numbers={name: nearest(ball) for name, ball in numbers.items()},
        log10={name: log10(ball) for name, ball in numbers.items() if ball > 0 and ball.is_finite()},
        guarantees=guarantees(instance, eps),
    )


def _multiple(bound: arb, largest: arb) -> str:
    if largest == 0:
        return "above"
    return f"{show(bound / largest)} times"
