"""Record of a step, and its status from a list of cases."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

HOLDS, FAILS, NOT_CHECKED = "holds", "fails", "not_checked"
Case = tuple[Callable[[], str], bool]


@dataclass(frozen=True)
class Step:
    """One displayed step of the paper: its place, its text, its status,
    and the exact instance that refutes it, if one does.
    """

    label: str
    says: str
    status: str
    witness: str


def step(label: str, says: str, cases: Iterable[tuple[Any, bool]]) -> Step:
    """Holds if it holds on every case; fails with the first case where it does not. No case at all is not a check."""
    count = 0
    for witness, true in cases:
        if not true:
            return Step(label, says, FAILS, str(witness))
        count += 1
    return (
        Step(label, says, HOLDS, f"{count} exact instances") if count else Step(label, says, NOT_CHECKED, "no instance")
    )


def on(instances: Iterable[Any], test: Callable[[Any], bool]) -> Iterator[tuple[Any, bool]]:
    """A test on each instance, the instance being its own witness."""
    return ((instance, test(instance)) for instance in instances)
