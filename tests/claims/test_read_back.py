"""Printed formulas are what is computed: read back on every case, for every part; and every change is noticed."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from attnprune_verify.claims.core import Claim
from attnprune_verify.claims.formulas.latex import in_latex
from attnprune_verify.claims.formulas.notation import Unreadable
from attnprune_verify.claims.formulas.unread import UNREAD
from attnprune_verify.claims.registry import claims, find
from tests.claims.read_back import differences, unlike_hypotheses

FORMAL = [claim for claim in claims() if "measured" not in claim.tags]
VACUOUS = (
    "thm:our_convergence",
    "lem:PL_ineq_informal",
    "lem:lower_bound_p_informal",
    "lem:lower_bound_p",
    "lem:PL_ineq",
)
"""No case meets their hypotheses under the causal reading: there the formula is that of the other reading."""
READ = [
    claim
    for claim in FORMAL
    if claim.test_id not in UNREAD and not (claim.id in VACUOUS and claim.reading.name == "causal")
]
MOST = 16  # what is left, each with its reason; the number may only fall
_OTHER = {"<=": "<", "<": "<=", ">=": ">", ">": ">=", "=": "<="}
BLIND = {
    "def:PL-literal": 1, "new:L_against_paper-any": 1,
    "new:certified_constants-any": 1,
    "new:PL_ineq_paper_mu_allowed-causal": 1, "new:convex_near_dense-any": 1, "new:heavy_ball-any": 1,
    "new:no_common_floor-full": 2, "new:our_convergence_from_ones-full": 1,
    "new:pair_descent-heads": 3, "new:segment_step-any": 1,
}  # fmt: skip
"""Changes that no case tells, so that only `tests.repinned` notices them: a maximum with 1 where no case is between 1
and 2; a sign before a number that is 0; ``<=`` for ``=`` where an instance is named, or the reverse where no case is on
the edge; a sign that the cases without momentum hide; numbers below the least float; a power of n = 1 on the edge; a
bound from below that is as near as another; open ends of a step and of a loss that no case reaches."""
_SLOW = {"exp:full_rank_tokens-rank", "exp:full_rank_tokens-theorem"}
"""Their instances have 128 tokens."""


def read(claim: Claim) -> list[str]:
    """Return the differences; a formula that nothing can be compared with differs as a whole."""
    try:
        return [*differences(claim), *unlike_hypotheses(claim)]
    except (Unreadable, LookupError, AttributeError, TypeError, ValueError, ArithmeticError) as error:
        return [f"{type(error).__name__}: {error}"]


@pytest.mark.parametrize("claim", READ, ids=lambda claim: claim.test_id)
def test_a_formula_is_what_is_computed(claim: Claim) -> None:
    assert read(claim) == []


def test_the_list_only_shrinks() -> None:
    assert {claim.test_id for claim in FORMAL} >= UNREAD
    assert len(UNREAD) <= MOST, "a new claim's formula is read back: give its letters in claims/formulas/letters.py"


@pytest.mark.parametrize("id_", VACUOUS)
def test_a_vacuous_reading_prints_the_formula_of_the_other(id_: str) -> None:
    assert find(id_, "causal").formula == find(id_, "full").formula


def numbers(text: str) -> list[str]:
    return re.findall(r"(?<![a-zA-Z_])\d+(?:\.\d+)?", text)


@pytest.mark.parametrize("claim", READ, ids=lambda claim: claim.test_id)
def test_latex_has_the_same_numbers_and_relations(claim: Claim) -> None:
    drawn = in_latex(claim.formula, claim.id)
    assert drawn is not None
    assert numbers(re.sub(r"\\nabla\^2|\\mathrm\{\w+\}|_\{?\w+\}?", "", drawn)) == numbers(claim.formula)
    said = {r"\le": "<=", r"\ge": ">="}
    found = [said.get(one, one) for one in re.findall(r"\\le(?![a-z])|\\ge(?![a-z])|[<>=]", drawn)]
    assert found == re.findall(r"(?<= )(?:<=|>=|<|>|=)(?= )", claim.formula)


def changes(text: str) -> Iterator[str]:
    """Yield the formula with one number, one relation or one sign changed."""
    for match in re.finditer(r"(?<![\w.^{])\d+(?![\w.])|(?<= )(?:<=|>=|<|>|=|\+|-)(?= )", text):
        found = match.group()
        other = str(int(found) + 1) if found.isdigit() else _OTHER.get(found, "-" if found == "+" else "+")
        yield text[: match.start()] + other + text[match.end() :]


def blind(claim: Claim) -> list[str]:
    """Return the changes of a formula that reading it back does not notice."""
    return [text for text in changes(claim.formula) if read(replace(claim, formula=text)) == []]


@pytest.mark.parametrize(
    "id_",
    [
        "fix:bound_basic_func-any",
        "exp:gradient_bounded-box",
        "lem:lower_bound_hadamard-literal",
        "new:descent_lemma-any",
    ],
)
def test_a_changed_formula_is_noticed(id_: str) -> None:
    assert blind(find(*id_.rsplit("-", 1))) == []


@pytest.mark.thorough
@pytest.mark.parametrize("claim", [one for one in READ if one.test_id not in _SLOW], ids=lambda claim: claim.test_id)
def test_every_change_is_noticed(claim: Claim) -> None:
    assert len(blind(claim)) == BLIND.get(claim.test_id, 0)
