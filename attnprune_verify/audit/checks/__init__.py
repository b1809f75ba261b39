"""The checks, by what they ask; `all_checks` puts them in order."""

from __future__ import annotations

from collections.abc import Iterator

from attnprune_verify.audit.checks.descent import descent_checks
from attnprune_verify.audit.checks.identities import identity_checks
from attnprune_verify.audit.checks.rounding import rounding_checks
from attnprune_verify.audit.checks.sparsegpt import sparsegpt_checks
from attnprune_verify.audit.checks.structure import structure_checks
from attnprune_verify.audit.checks.values import values_checks
from attnprune_verify.audit.checks.wanda import wanda_checks
from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.audit.record import Check
from attnprune_verify.audit.reference import VALUED

__all__ = ["all_checks"]


def all_checks() -> tuple[Check, ...]:
    """Every check of every function, in the order of the contract; the same list for every target."""
    return tuple(check for name in FUNCTIONS for check in _checks_of(name))


def _checks_of(name: str) -> Iterator[Check]:
    if name in VALUED:
        yield from structure_checks(name)
        yield from values_checks(name)
        yield from identity_checks(name)
    elif name == "prune_mask_gd":
        yield from descent_checks()
    elif name == "wanda_mask":
        yield from wanda_checks()
    elif name.startswith("sparsegpt"):
        yield from sparsegpt_checks(name)
    else:
        yield from rounding_checks(name)
