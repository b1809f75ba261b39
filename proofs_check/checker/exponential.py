"""exp, enclosed: Taylor series with a proven remainder, on an argument halved until it is small.

For t = a / 2^bits put y = t / 2^r with |y| < 2^-8 (smaller at high precision), held exactly. Then exp |y| is the
sum of the first N terms plus a remainder between 0 and twice the last term, as the tail is below a geometric series
of ratio 1/2. exp(t) is that, or its inverse for negative t, squared r times. Every operation rounds outwards.
"""

from fractions import Fraction
from math import isqrt

from proofs_check.checker.interval import Interval, Number, Undecided, enclose
from proofs_check.checker.reject import GaveUp

_GUARD = 16  # bits; chosen: exp(1) is then enclosed to one unit in the last place at 128 to 16,384 bits
LARGEST_ARGUMENT = 20_000  # chosen: exp of it has 28,854 bits


def exponential(number: Number, bits: int) -> Number:
    """exp(x); exactly 1 at an exact 0."""
    if not isinstance(number, Interval):
        if number == 0:
            return Fraction(1)
        if number > LARGEST_ARGUMENT:
            raise GaveUp(f"an exponential of more than {LARGEST_ARGUMENT} is needed")
        number = enclose(number, bits)
    elif number.hi > LARGEST_ARGUMENT << number.bits:
        raise Undecided("an argument of exp is enclosed too widely")
    low, _ = _exp_of_dyadic(number.lo, number.bits)
    _, high = _exp_of_dyadic(number.hi, number.bits)
    return Interval(low, high, number.bits)


def _exp_of_dyadic(a: int, bits: int) -> tuple[int, int]:
    """Bounds of exp(a / 2^bits) in units of 2^-bits."""
    if -a > (bits + 2) << bits:  # exp(t) < 2^t < 2^-bits for t < -bits
        return 0, 1
    halvings = max(0, abs(a).bit_length() - bits + max(8, isqrt(bits)))
    scale = bits + halvings + _GUARD
    low, high = _series(abs(a) << _GUARD, scale)
    if a < 0:
        one = 1 << (2 * scale)
        low, high = one // high, -(-one // low)
    for _ in range(halvings):
        low, high = (low * low) >> scale, -((-high * high) >> scale)
    shift = scale - bits
    return low >> shift, -(-high >> shift)


def _series(y: int, scale: int) -> tuple[int, int]:
    """Bounds of exp(y / 2^scale) for 0 <= y / 2^scale < 2^-8."""
    low = high = term_low = term_high = 1 << scale
    k = 0
    while term_high > 1:
        k += 1
        term_low = ((term_low * y) >> scale) // k
        term_high = 1 + ((term_high * y) >> scale) // k  # floor(floor(x) / k) = floor(x / k), so this is above x / k
        low += term_low
        high += term_high
    return low, high + 2 * term_high
