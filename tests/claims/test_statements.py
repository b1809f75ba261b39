"""What is printed of a statement is rendered from what is checked; titles state nothing."""

import re
from collections.abc import Iterator
from itertools import chain, islice

import numpy as np
import pytest

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.cases.supply import Instances
from attnprune_verify.claims.core import Claim, Hypothesis, Strength
from attnprune_verify.claims.formulas.scope import sentence
from attnprune_verify.claims.hypotheses import beta_positive, lam_in_unit_interval, mask_in_box, mask_norm
from attnprune_verify.claims.registry import claims, find
from attnprune_verify.theory.numbers.arithmetic import FLOAT
from tests.claims.outside import around
from tests.claims.read_back import cases, holds_as_printed

FORMAL = [claim for claim in claims() if "measured" not in claim.tags]
_CASES = 16  # chosen: families with a single token are among them; each is moved to ten places about the edges
WORDS = re.compile(
    r"(?<![A-Za-z_])[0-9]|[<>=^|]|\b(?:every|each|all|any|some|no|none|never|always|only|whatever|either|exists|both|zero|two|three|half"
    r"|twice|double|quarter|least|most|exactly|less|more|than|above|below|larger|smaller|largest|smallest"
    r"|if|when|whenever|while|where|wherever|unless|until|given|provided|under|needs|requires)\b",
    re.IGNORECASE,
)
"""Numbers, relations, quantifiers and conditions: these are rendered, and no title has them."""
SPELLED = {
    r"min \|W\|": "min|W|",
    r"(\w+) in \[0,1\]\^\{dxd\}": r"0 <= \1_ij <= 1",
    r"(\w+) in \[0,1\]": r"0 <= \1 <= 1",
}
"""How hypotheses are named where the notation has another way."""
UNREAD = {
    "n > d without a mask, or a row with d + 2 allowed positions": "no relation: a choice of two, one about the mask",
    "eps > 0": "eps is the case's own, given beside its arrays",
    "0 < lam <= threshold": "the threshold is the margin's, from constants of the whole instance",
    "eta lam > 2 (1 + theta)": "certain in balls, with an enclosure of eta that is a trajectory's own",
    "lambda_min(X_L X_L^T) > 0 and min_i beta_i > 0": "X_L is empty where no row has a choice",
}
"""Hypotheses whose names are not read back, with the reason."""


def test_only_what_is_measured_has_words_of_its_own() -> None:
    """Its numbers come from the plan of its experiment, and it has no formula of quantities."""
    assert [claim.test_id for claim in FORMAL if claim.says] == []


@pytest.mark.parametrize("claim", FORMAL, ids=lambda claim: claim.test_id)
def test_a_title_has_no_number_quantifier_or_condition(claim: Claim) -> None:
    assert not WORDS.search(claim.title), claim.title


@pytest.mark.parametrize(
    "title", ["Bound by 3", "PL inequality for every M", "Convex where lam is large", "p at most c"]
)
def test_a_title_that_states_something_is_refused(title: str) -> None:
    assert WORDS.search(title)


def drawn(supply: Instances) -> Iterator[Case]:
    return islice(supply.families(np.random.default_rng(0)), 24)  # chosen: each family and mask is among them


def test_the_mask_that_is_printed_is_the_mask_that_is_drawn() -> None:
    supplies = {}
    for claim in FORMAL:
        if isinstance(claim.supply, Instances):
            assert claim.reading.mask in (None, claim.supply.mask), claim.test_id
            supplies[claim.supply.mask, claim.supply.lam] = claim.supply
    kinds = {"full": {"NoneType"}, "causal": {"str"}, "given": {"ndarray"}, "any": {"NoneType", "str", "ndarray"}}
    for (mask, lam), supply in supplies.items():
        assert {type(case["mask"]).__name__ for case in drawn(supply)} == kinds[mask]
        assert all(case["lam"] >= 0 if lam is None else case["lam"] == lam for case in drawn(supply))


def hypotheses() -> Iterator[tuple[Claim, Hypothesis]]:
    """Yield those that have a predicate; margins decide the others on the way, and test_conditions drops them."""
    on_the_way = Hypothesis("").holds
    for claim in FORMAL:
        found = (one for one in claim.hypotheses if one.name not in UNREAD and one.holds is not on_the_way)
        yield from ((claim, one) for one in found)


def printed(name: str) -> str:
    for pattern, formula in SPELLED.items():
        name = re.sub(pattern, formula, name)
    return name


def unlike(claim: Claim, hypothesis: Hypothesis, name: str) -> tuple[list[str], set[bool]]:
    """Return cases, inside and outside, on which the hypothesis is not what `name` prints, and the answers seen."""
    known = cases(claim)[:_CASES]
    formula, _, places = printed(name).partition(" over ")
    letters = {"delta": lambda q: q.delta} if places == "all positions" and "X" in known[0] else {}
    found, answers = [], set()
    for case in chain(known, chain.from_iterable(around(case) for case in known if "M" in case)):
        with np.errstate(all="ignore"):
            q = Quantities(case, FLOAT)
            answer = hypothesis.holds(q)
            answers.add(answer)
            if answer != holds_as_printed(formula, claim, q, letters):
                found.append(case.origin)
    return found, answers


@pytest.mark.parametrize(
    ("claim", "hypothesis"), [*hypotheses()], ids=lambda one: one.test_id if isinstance(one, Claim) else one.name
)
def test_a_hypothesis_is_what_its_name_prints(claim: Claim, hypothesis: Hypothesis) -> None:
    assert unlike(claim, hypothesis, hypothesis.name)[0] == []


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (beta_positive("any"), "beta >= 0"),
        (mask_in_box("any"), "0 < M_ij <= 1"),
        (mask_norm(), "||M||_F < d"),
        (mask_norm(), "||M||_F <= 2 d"),
        (lam_in_unit_interval("any"), "0 < lam <= 1"),
        (lam_in_unit_interval("any"), "0 <= lam < 1"),
    ],
    ids=lambda one: one if isinstance(one, str) else one.name,
)
def test_a_hypothesis_printed_otherwise_is_noticed(made: Hypothesis, name: str) -> None:
    assert unlike(find("fix:PL_ineq", "any"), made, name)[0] != []


def test_a_sentence_has_every_part() -> None:
    claim = find("fix:PL_ineq", "any")
    text = sentence(claim)
    assert text.startswith("For every X in R^{n x d}, W and M in R^{d x d}, lam >= 0 and any attention mask without")
    squeezed = "".join(text.split())
    assert all("".join(one.name.split()) in squeezed for one in claim.hypotheses) and claim.formula in text
    assert text.endswith("met or approached.") and claim.strength is Strength.TIGHT
    assert "for one instance at least" in sentence(find("new:PL_ineq_sharp", "full")).lower()
    assert sentence(find("new:row_third_derivative", "literal")).startswith("Conjectured, not proved, for every")
    assert "M in [0,1]^{dxd}, lam >= 0 and the causal attention mask" in sentence(find("lem:PL_ineq", "causal"))
