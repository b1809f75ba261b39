"""Statements as sentences: quantifier, hypotheses and formula, from the supply, the hypotheses and what is read back.

A claim has no words of its own but where it was measured: what a reader sees is rendered here. Its title names it,
without numbers, quantifiers and conditions.
"""

import re
from itertools import groupby

import numpy as np

from attnprune_verify.claims.cases.supply import Arrays, Fixed, Instances, Supply
from attnprune_verify.claims.core import Claim, Strength
from attnprune_verify.claims.formulas.letters import letters_of

_MASKS = {
    "full": "no attention mask",
    "causal": "the causal attention mask",
    "any": "any attention mask without an empty row",
    "given": "any attention mask that leaves each token itself",
}
_SECOND = ("N", "M'")
"""The second mask of a case, and how most formulas print it."""


def sentence(claim: Claim) -> str:
    """Return the statement as one sentence; of a measured one the words that it was given.

    Examples
    --------
    >>> from attnprune_verify.claims.registry import find
    >>> print(sentence(find("new:bound_p", "any")))
    For every X in R^{n x d}, W and M in R^{d x d}, lam >= 0 and any attention mask without an empty row: ||p||_F <= 3 sqrt(n).
    """  # noqa: E501  # a sentence is one line
    if claim.says:
        return claim.says
    squeezed = "".join(claim.formula.split())
    unprinted = [name for name in hypotheses(claim) if "".join(name.split()) not in squeezed]
    met = f", if {_listed(unprinted)}" if unprinted else ""
    guessed = "Conjectured, not proved, for" if claim.conjecture else "For"
    sharp = ", a bound that is met or approached" if claim.strength is Strength.TIGHT else ""
    return f"{guessed} {quantifier(claim)}{met}: {claim.formula}{sharp}."


def quantifier(claim: Claim) -> str:
    """Return for which cases the statement is meant: those that its supply draws.

    Examples
    --------
    >>> from attnprune_verify.claims.registry import find
    >>> quantifier(find("fac:F_norm_A_plus_B", "literal"))
    'every X and Y in R^{n x d}'
    >>> quantifier(find("new:PL_ineq_sharp", "full"))
    'one instance at least, the one that is computed'
    """
    if "measured" in claim.tags:
        return "the measured readings of the set-up, listed under the numbers"
    if "existential" in claim.tags:
        return "one instance at least, the one that is computed"
    supply = claim.supply
    if isinstance(supply, Instances):
        return f"every {_listed(_of_instances(supply, claim.formula))}"
    if isinstance(supply, Arrays) and (drawn := _of_arrays(supply, claim)):
        return f"every {_listed(drawn)}"
    return "the cases that the statement names" if isinstance(supply, Fixed) else "every case that the supply draws"


def hypotheses(claim: Claim) -> list[str]:
    """Return the names of the hypotheses, which every case is checked to meet before it counts.

    Those that only limit what is checked are `limits`.

    Examples
    --------
    >>> from attnprune_verify.claims.registry import find
    >>> hypotheses(find("new:gradient_norm", "any"))
    ['lam > 0']
    """
    return [hypothesis.name for hypothesis in claim.hypotheses if not hypothesis.limit]


def limits(claim: Claim) -> list[str]:
    """Return the names of the limits of the check, which are no part of the statement.

    Examples
    --------
    >>> from attnprune_verify.claims.registry import find
    >>> limits(find("new:certified_mask_gap", "any"))
    ['d^2 <= 9']
    """
    return [hypothesis.name for hypothesis in claim.hypotheses if hypothesis.limit]


def _of_instances(supply: Instances, formula: str) -> list[str]:
    """Return the parts of "every X, W, M, lam and mask" that this supply draws."""
    names = _names(supply)
    square = ["W"] if supply.in_box else ["W", "M"]
    square += [name for name in _SECOND if "N" in names and _stands_in(name, formula)]
    found = ["X in R^{n x d}", f"{_listed(square)} in R^{{d x d}}"]
    found += ["M in [0,1]^{dxd}"] * supply.in_box
    found += [name for name in sorted(names - {*_SECOND}) if _stands_in(name, formula)]
    lam = "lam >= 0" if supply.lam is None else f"lam = {supply.lam:g}"
    return [*found, lam, _MASKS[supply.mask]]


def _of_arrays(supply: Arrays, claim: Claim) -> list[str]:
    """Return the drawn arrays that the formula prints, those of one shape together, then what is made of them.

    Where s and f stand for softmax rows, their logits s and t are what is drawn.
    """
    letters = letters_of(claim.id)
    rows = [name for name in ("s", "f") if "s" in supply.shapes and name in letters and _stands_in(name, claim.formula)]
    found = [f"softmax row{'s' * (len(rows) > 1)} {_listed(rows)}"] if rows else []
    drawn = [
        (shape, name)
        for name, shape in supply.shapes.items()
        if name not in letters and _stands_in(name, claim.formula)
    ]
    for shape, same in groupby(drawn, key=lambda one: one[0]):
        size = f"^{{{' x '.join(shape)}}}" if len(shape) > 1 else f"^{shape}" * bool(shape)
        found.append(f"{_listed([name for _, name in same])} in R{size}")
    made = _names(supply) - supply.shapes.keys() - letters.keys()
    return found + sorted(name for name in made if _stands_in(name, claim.formula))


def _stands_in(name: str, formula: str) -> bool:
    return bool(re.search(rf"(?<![\w']){re.escape(name)}(?![A-Za-z0-9'])", formula))


def _names(supply: Supply) -> frozenset[str]:
    """Return the names that the supply adds to its own."""
    case = next(iter(supply.families(np.random.default_rng(0))))
    own = ("X", "W", "M", "lam", "mask") if isinstance(supply, Instances) else ()
    return frozenset(case.values) - {*own}


def _listed(parts: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1]))) if parts else ""
