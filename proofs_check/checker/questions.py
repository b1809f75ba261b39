"""Deciding statements about enclosures: each question is answered yes, no, or not at this precision."""

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction

from proofs_check.checker.fields import Bounds
from proofs_check.checker.interval import Undecided
from proofs_check.checker.reject import GaveUp, Reject

Answer = bool | None
Question = tuple[str, Answer]

FIRST_BITS = 128  # chosen: more than twice the 53 bits of a double
LAST_BITS = 1 << 14  # chosen: four times the precision of any committed certificate
_WORK = 6e8  # bit operations, roughly, of all the precisions tried together


def contains(claimed: Bounds, own: Bounds) -> Answer:
    """Does the claimed enclosure hold the number? Own bounds inside: yes. Disjoint: no.

    Otherwise compute more precisely.
    """
    if claimed[0] <= own[0] and own[1] <= claimed[1]:
        return True
    if own[1] < claimed[0] or claimed[1] < own[0]:
        return False
    return None


def less(left: Bounds, right: Bounds) -> Answer:
    if left[1] < right[0]:
        return True
    if left[0] >= right[1]:
        return False
    return None


def at_least(left: Bounds, right: Bounds) -> Answer:
    answer = less(left, right)
    return None if answer is None else not answer


def precisions(claimed: Iterable[Bounds], operations: int, exponentials: int = 0) -> Iterator[int]:
    """Precisions to try, doubling while the work is bounded: from 128 bits,
    or where the narrowest claimed enclosure could be met.

    A false claim is mostly refuted at the first precision, so that one is always tried.
    """
    widths = [high - low for low, high in claimed if high > low]
    narrow = max((w.denominator.bit_length() - w.numerator.bit_length() for w in widths), default=0)
    bits, spent = FIRST_BITS, 0.0
    while bits <= LAST_BITS:
        spent += operations * (bits + 256) ** 1.25 / 16 + exponentials * (bits + 256) ** 2 / 16
        if spent > _WORK and bits > FIRST_BITS:
            return
        yield bits
        bits *= 2
        while 2 * bits < min(narrow, LAST_BITS):
            bits *= 2


def decide(ladder: Iterable[int], ask: Callable[[int], list[Question]]) -> None:
    """Return when every question is answered yes at some precision; Reject at the first no, GaveUp when the
    precisions run out.
    """
    waiting, bits = "nothing could be computed", 0
    for bits in ladder:
        try:
            questions = ask(bits)
        except Undecided as undecided:
            waiting = str(undecided)
            continue
        for says, answer in questions:
            if answer is False:
                raise Reject(f"not true: {says}")
        undecided_questions = [says for says, answer in questions if answer is None]
        if not undecided_questions:
            return
        waiting = undecided_questions[0]
    raise GaveUp(f"undecided at {bits} bits: {waiting}")


def exact(number: Fraction | int) -> Bounds:
    return Fraction(number), Fraction(number)
