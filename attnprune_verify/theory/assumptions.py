"""Verdicts on the paper's assumptions on an instance, each with its number and what the number means."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from attnprune_verify.instance.problem import Instance
from attnprune_verify.theory.formulas import conditions, sharp
from attnprune_verify.theory.numbers.balls import frobenius, log10, nearest, precision
from attnprune_verify.theory.quantities.gram import is_positive_semidefinite
from attnprune_verify.theory.quantities.measure import Measurements, measure
from attnprune_verify.values import as_number


@dataclass(frozen=True)
class Assumption:
    """One assumption on one instance.

    Attributes
    ----------
    id : str
        beta, delta, delta-allowed, W-nonzero, M-in-box, M-norm, lam-in-unit-interval or R.
    holds : bool
    value : float
        The number the assumption is about; may over- or underflow.
    log10 : float
        Its decimal logarithm, finite for every positive value; -inf for 0, nan for a negative value.
    reason : str
        One sentence: the reason, and the consequence for thm:our_convergence.
    """

    id: str
    holds: bool
    value: float
    log10: float
    reason: str

    def as_dict(self) -> dict[str, object]:
        """Return the attributes as plain data."""
        return dict(vars(self))


def assumptions(instance: Instance, beta: float | None = None, delta: float | None = None) -> tuple[Assumption, ...]:
    """The assumptions of thm:our_convergence, lem:PL_ineq and asp:bound_parameters on `instance`.

    beta = lambda_min(X X^T) has an exact sign and delta = min F(M) is exactly 0 as soon as the mask forbids a
    position; M is 1 where the instance has none. Over a batch every flag is that of the worst sample.

    Parameters
    ----------
    instance : Instance
    beta, delta : float, optional
        Values to judge instead of the best ones: impossible for any instance (delta > 1/n, beta > ||X||_F^2 / n),
        not true of this one (above lambda_min, above the smallest weight), or not positive.

    Returns
    -------
    tuple of Assumption

    Raises
    ------
    InvalidInstance
        If `beta` or `delta` is not a finite number.

    Examples
    --------
    >>> import numpy as np
    >>> found = assumptions(Instance(np.eye(2), np.eye(2), mask="causal"))
    >>> [(item.id, item.holds) for item in found[:4]]
    [('beta', True), ('delta', False), ('delta-allowed', True), ('W-nonzero', False)]
    """
    given_beta = None if beta is None else as_number("beta", beta)
    given_delta = None if delta is None else as_number("delta", delta)
    found = measure(instance)
    with precision():
        return (
            _own_beta(found) if given_beta is None else _given_beta(instance, found, given_beta),
            _own_delta(instance, found) if given_delta is None else _given_delta(instance, found, given_delta, True),
            _own_allowed(found) if given_delta is None else _given_delta(instance, found, given_delta, False),
            _weights(instance, found),
            _box(instance),
            _norm(instance, found),
            _unit_interval(instance),
            _radius(found),
        )


def _judged(identity: str, holds: bool, ball: arb, reason: str) -> Assumption:
    logarithm = -math.inf if ball == 0 else log10(ball)
    return Assumption(identity, holds, nearest(ball), logarithm, reason)


def show(ball: arb) -> str:
    """Return a number in three digits, also beyond the range of doubles."""
    if ball == 0:
        return "0"
    power = log10(ball)
    if -300 < power < 300:
        return f"{nearest(ball):.3g}"
    return f"10^{power:.1f}" if abs(power) < 1e15 else f"10^({power:.3g})"


def _own_beta(found: Measurements) -> Assumption:
    beta = found.beta
    if beta.positive:
        return _judged(
            "beta", True, beta.value, f"lambda_min(X X^T) = {show(beta.value)} > 0, so X X^T >= beta I holds."
        )
    reason = f"{beta.reason}: lambda_min = 0 exactly, so beta = mu = 0 and the theorem promises nothing."
    return _judged("beta", False, beta.value, reason)


def _given_beta(instance: Instance, found: Measurements, beta: float) -> Assumption:
    ball = arb(beta)
    mean = min((frobenius(sample) ** 2 / instance.n for sample in instance.samples), key=nearest)
    if beta <= 0:
        reason = f"beta = {beta!r} is not positive, so mu is not either and the theorem promises nothing."
    elif beta > nearest(mean) * (1 + 2.0**-50):
        reason = f"beta = {beta!r} is impossible: lambda_min(X X^T) <= ||X||_F^2 / n = {show(mean)} for every X."
    elif not all(is_positive_semidefinite(sample, beta) for sample in instance.samples):
        why = "" if found.beta.positive else f" ({found.beta.reason})"
        true = show(found.beta.value)
        reason = (
            f"beta = {beta!r} is too large for this X: lambda_min(X X^T) = {true}{why}, so X X^T >= beta I is false."
        )
    else:
        true = show(found.beta.value)
        return _judged("beta", True, ball, f"X X^T >= {beta!r} I holds: lambda_min(X X^T) = {true}.")
    return _judged("beta", False, ball, reason)


def _own_delta(instance: Instance, found: Measurements) -> Assumption:
    floor = found.floor
    if floor.masked:
        forbidden = int((~instance.allowed).sum())
        mask = "the causal mask" if instance.mask_kind == "causal" else "the mask"
        reason = (
            f"{mask} forbids {forbidden} of {instance.n**2} positions, where F(M) is exactly 0: no delta > 0 exists, "
            f"so the theorem's hypothesis cannot be met for any M."
        )
        return _judged("delta", False, floor.everywhere, reason)
    value = show(floor.allowed)
    return _judged("delta", True, floor.allowed, f"every position is allowed and min F(M) = {value} > 0 at this M.")


def _own_allowed(found: Measurements) -> Assumption:
    value = found.floor.allowed
    reason = (
        f"min F(M) over the allowed positions = {show(value)}, positive as every softmax weight is; "
        f"the repaired bounds need only this."
    )
    return _judged("delta-allowed", True, value, reason)


def _given_delta(instance: Instance, found: Measurements, delta: float, everywhere: bool) -> Assumption:
    identity, where = ("delta", "") if everywhere else ("delta-allowed", " over the allowed positions")
    ball, floor = arb(delta), found.floor
    widest = instance.n if everywhere else int(instance.allowed.sum(axis=1).max())
    if delta <= 0:
        reason = f"delta = {delta!r} is not positive, so mu is not either and the theorem promises nothing."
    elif delta > nearest(sharp.largest_delta(widest)):
        reason = (
            f"delta = {delta!r} is impossible: a row of {widest} weights that sum to 1 has one of at most "
            f"1/{widest} = {1 / widest:.6g}."
        )
    elif everywhere and floor.masked:
        reason = f"delta = {delta!r} is too large: the mask forbids positions, where F(M) is exactly 0."
    elif math.log(delta) > floor.log_allowed + floor.radius:
        reason = f"delta = {delta!r} is too large for this M: min F(M){where} = {show(floor.allowed)}."
    else:
        return _judged(identity, True, ball, f"min F(M){where} = {show(floor.allowed)} is at least {delta!r}.")
    return _judged(identity, False, ball, reason)


def _weights(instance: Instance, found: Measurements) -> Assumption:
    fused = " of the fused W_Q W_K^T, as rounded," if instance.W_Q is not None else ""
    zeros = int((instance.W == 0).sum())
    if zeros:
        reason = f"{zeros} of {instance.W.size} weights{fused} are 0: min|W| = 0 makes mu = 0, and xi divides by mu."
        return _judged("W-nonzero", False, found.min_W, reason)
    reason = f"min|W|{fused} is {show(found.min_W)} > 0, a factor of mu."
    return _judged("W-nonzero", True, found.min_W, reason)


def _box(instance: Instance) -> Assumption:
    M = instance.M_or_ones
    low, high = float(M.min()), float(M.max())
    if conditions.in_box(low) and conditions.in_box(high):
        span = f"every entry of M is {low:.6g}" if low == high else f"the entries of M lie in [{low:.6g}, {high:.6g}]"
        reason = f"{span}; gradient descent may still leave [0, 1]."
        return _judged("M-in-box", True, arb(0), reason)
    outside = int(((M < 0) | (M > 1)).sum())
    reason = (
        f"{outside} of {M.size} entries of M lie outside [0, 1] (they range over [{low:.6g}, {high:.6g}]), where "
        f"lem:PL_ineq says nothing; the repaired bounds need no box."
    )
    return _judged("M-in-box", False, arb(max(-low, high - 1)), reason)


def _norm(instance: Instance, found: Measurements) -> Assumption:
    d, norm = instance.d, found.norm_M
    if conditions.in_ball(norm, d):
        holds = True
    elif norm > d:
        holds = False
    else:  # as for M = 1 up to rounding: decide in rationals
        entries = np.asarray(instance.M_or_ones, dtype=np.float64).ravel().tolist()
        holds = sum((Fraction(x) ** 2 for x in entries), Fraction(0)) <= d * d
    if holds:
        reason = f"||M||_F = {show(norm)} <= d = {d}, which gradient descent from M = 1 keeps."
    else:
        reason = f"||M||_F = {show(norm)} > d = {d}: the paper's cross term uses ||M||_F <= d and is void."
    return _judged("M-norm", holds, norm, reason)


def _unit_interval(instance: Instance) -> Assumption:
    lam = instance.lam
    if conditions.lam_in_unit_interval(lam):
        reason = f"lam = {lam!r} lies in [0, 1], as lem:PL_ineq assumes."
        return _judged("lam-in-unit-interval", True, arb(lam), reason)
    reason = f"lam = {lam!r} lies outside [0, 1], so lem:PL_ineq and the theorem do not speak about it."
    return _judged("lam-in-unit-interval", False, arb(lam), reason)


def _radius(found: Measurements) -> Assumption:
    reason = f"R = max(1, ||X||_F, ||W||_F) = {show(found.radius)} is finite, as always; it enters L as R^6."
    return _judged("R", True, found.radius, reason)
