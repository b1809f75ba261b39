"""ln, enclosed: x = 2^k m with 1/2 <= m < 1 gives ln x = k ln 2 - 2 artanh w, w = (1 - m)/(1 + m) in (0, 1/3].

artanh w = w + w^3/3 + w^5/5 + ...; after a term t the rest is below t/9 (1 + 1/9 + ...) = t/8, as w^2 <= 1/9. ln 2 is
2 artanh 1/3. Every operation rounds outwards.
"""

from proofs_check.checker.interval import Interval, Number, Undecided, enclose
from proofs_check.checker.reject import Reject

_GUARD = 32  # bits; chosen: ln(2/3) is then enclosed to three units in the last place at 128 to 4,096 bits


def logarithm(number: Number, bits: int) -> Interval:
    """ln(x) of a positive number."""
    if not isinstance(number, Interval):
        if number <= 0:
            raise Reject("the logarithm of a number that is not positive is needed")
        number = enclose(number, bits)
    if number.lo <= 0:
        raise Undecided("an argument of ln is not certainly positive")
    low, _ = _of_dyadic(number.lo, number.bits)
    _, high = _of_dyadic(number.hi, number.bits)
    return Interval(low, high, number.bits)


def _of_dyadic(a: int, bits: int) -> tuple[int, int]:
    """Bounds of ln(a / 2^bits), a > 0, in units of 2^-bits."""
    k, scale = a.bit_length() - bits, bits + _GUARD
    whole = 1 << a.bit_length()
    low, high = _artanh(whole - a, whole + a, scale)
    low_two, high_two = _artanh(1, 3, scale)
    ends = (k * low_two, k * high_two)
    return 2 * (min(ends) - high) >> _GUARD, -(-2 * (max(ends) - low) >> _GUARD)


def _artanh(top: int, bottom: int, scale: int) -> tuple[int, int]:
    """Bounds of artanh(top / bottom), 0 < top / bottom <= 1/3, in units of 2^-scale."""
    low, high = (top << scale) // bottom, -((-top << scale) // bottom)
    sum_low, sum_high, power_low, power_high, k = low, high, low, high, 1
    squares = top * top, bottom * bottom
    while power_high > 1:
        k += 2
        power_low = power_low * squares[0] // squares[1]
        power_high = -(-power_high * squares[0] // squares[1])
        sum_low += power_low // k
        sum_high += -(-power_high // k)
    return sum_low, sum_high + power_high
