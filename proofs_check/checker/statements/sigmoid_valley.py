"""The least value over all real tau of h(tau) = (sigma(tau) - sigma(tau_0))^2 + weight tau^2, enclosed."""

from fractions import Fraction

from proofs_check.checker.exponential import exponential
from proofs_check.checker.fields import Bounds
from proofs_check.checker.interval import Number, lower, square, upper
from proofs_check.checker.reject import GaveUp, Reject

_BITS = 128  # chosen: as `FIRST_BITS`; a cell that is not decided is halved, not computed again
_MOST_CELLS = 2_000  # chosen: the committed certificates need 57


def sigma(tau: Fraction) -> Number:
    """1 / (1 + exp(-tau))."""
    return 1 / (1 + exponential(-tau, _BITS))


def require_valley(tau_0: Fraction, weight: Fraction, tau: Fraction, claimed: Bounds) -> None:
    """claimed[0] <= h everywhere, cell by cell (sigma is increasing); h(tau) <= claimed[1]."""
    if max(abs(tau_0), abs(tau)) > 1000 or weight <= 0 or claimed[0] <= 0:
        raise Reject("the valley needs |tau| <= 1000, a positive weight and a positive lower end of lhs")
    if 4 * claimed[0] > 1:  # h(0) <= 1/4: so large a number would also take long to surround
        raise Reject("not true: lhs is below the least value of h, which is at most h(0) <= 1/4")
    target = sigma(tau_0)
    value = upper(square(sigma(tau) - target) + weight * tau**2)
    if value > claimed[1]:
        raise Reject("not true: h(tau) is below the upper end of lhs")
    reach = Fraction(1)
    while weight * reach**2 < claimed[0]:  # outside [-reach, reach] the second term alone is enough
        reach *= 2
    cells, seen = [(-reach, reach)], 0
    while cells:
        low, high = cells.pop()
        seen += 1
        if seen > _MOST_CELLS:
            raise GaveUp("undecided: lhs is too close to the least value of h, or above it")
        if _least_on(low, high, target, weight) < claimed[0]:
            middle = (low + high) / 2
            cells += [(low, middle), (middle, high)]


def _least_on(low: Fraction, high: Fraction, target: Number, weight: Fraction) -> Fraction:
    """A number below h on [low, high]."""
    below, above = lower(sigma(low) - target), upper(sigma(high) - target)
    gap = below if below > 0 else -above if above < 0 else Fraction(0)
    nearest = low if low > 0 else high if high < 0 else Fraction(0)
    return gap**2 + weight * nearest**2
