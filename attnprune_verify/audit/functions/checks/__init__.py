"""The checks by subject; `all_checks` puts them in order."""

from __future__ import annotations

from collections.abc import Iterator

from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.audit.functions.checks.descent import descent_checks
from attnprune_verify.audit.functions.checks.identities import identity_checks
from attnprune_verify.audit.functions.checks.inputs import input_checks, keeping_checks
from attnprune_verify.audit.functions.checks.pruner import pruner_checks
from attnprune_verify.audit.functions.checks.scale import scale_checks
from attnprune_verify.audit.functions.checks.selection import selection_checks
from attnprune_verify.audit.functions.checks.sparsegpt import sparsegpt_checks
from attnprune_verify.audit.functions.checks.structure import structure_checks
from attnprune_verify.audit.functions.checks.values import values_checks
from attnprune_verify.audit.functions.checks.wanda import wanda_checks
from attnprune_verify.audit.functions.truth.reference import ENCLOSED
from attnprune_verify.audit.record import Check, chosen

__all__ = ["all_checks", "chosen_checks"]


def all_checks() -> tuple[Check, ...]:
    """Every check of every function, in the order of the contract; the same list for every target."""
    return tuple(check for name in FUNCTIONS for check in _checks_of(name))


def chosen_checks(only: tuple[str, ...]) -> tuple[Check, ...]:
    """The checks whose function or id matches one of the patterns; without patterns all.

    Raises
    ------
    InvalidInstance
        If a pattern matches nothing.

    Examples
    --------
    >>> [check.id for check in chosen_checks(("causal_mask",))]
    ['causal_mask:values']
    """
    return chosen(all_checks(), only)


def _checks_of(name: str) -> Iterator[Check]:
    if name in ENCLOSED:
        yield from structure_checks(name)
        yield from values_checks(name)
        yield from input_checks(name)
        yield from identity_checks(name)
        yield from scale_checks(name)
        yield from keeping_checks(name)
    elif name == "prune_mask_gd":
        yield from descent_checks()
    elif name.startswith("wanda"):
        yield from wanda_checks(name)
    elif name == "pruner":
        yield from pruner_checks(name)
    elif name.startswith("sparsegpt"):
        yield from sparsegpt_checks(name)
    else:
        yield from selection_checks(name)
