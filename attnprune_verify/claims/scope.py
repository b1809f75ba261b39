"""Of what a statement speaks: its quantifier and its hypotheses, in words that a page shows."""

from __future__ import annotations

from attnprune_verify.claims.core import Claim
from attnprune_verify.claims.supply import Fixed

__all__ = ["hypotheses", "quantifier"]


def quantifier(claim: Claim) -> str:
    """Return for which cases the statement is meant.

    Examples
    --------
    >>> from attnprune_verify.claims.registry import find
    >>> quantifier(find("new:PL_sharp", "any"))
    'every case that the reading allows'
    >>> quantifier(find("new:gradient_norm", "any"))
    'every case that the reading allows and that meets the hypotheses'
    """
    if "measured" in claim.tags:
        return "the measured readings of the set-up, listed under the numbers"
    if "existential" in claim.tags:
        return "one instance at least, the one that is computed"
    if isinstance(claim.supply, Fixed):
        return "the cases that the statement names"
    met = " and that meets the hypotheses" if claim.hypotheses else ""
    return f"every case that the reading allows{met}"


def hypotheses(claim: Claim) -> list[str]:
    """Return the names of the hypotheses, which every case is checked to meet before it counts.

    Examples
    --------
    >>> from attnprune_verify.claims.registry import find
    >>> hypotheses(find("new:gradient_norm", "any"))
    ['lam > 0']
    """
    return [hypothesis.name for hypothesis in claim.hypotheses]
