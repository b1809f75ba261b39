"""Every condition is printed and checked, and missed where it is dropped."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.cases.supply import Fixed
from attnprune_verify.claims.core import Claim, Hypothesis, Unmet
from attnprune_verify.claims.formulas.letters import letters_of
from attnprune_verify.claims.formulas.notation import Unreadable
from attnprune_verify.claims.formulas.read_back import Link, Printed, Scope
from attnprune_verify.claims.judging.judge import judge
from attnprune_verify.claims.judging.trial import try_case
from attnprune_verify.claims.registry import find
from attnprune_verify.claims.run import run_claims
from attnprune_verify.theory.numbers.arithmetic import FLOAT
from tests.claims.outside import outside
from tests.claims.read_back import _COSTLY, _holds, _says, cases, printed_of, text_of, unlike_hypotheses
from tests.claims.test_read_back import READ

_FAR_OFF = 1e-5  # chosen: a thousand times what derivatives lose; a condition that matters is missed by far
OURS = [one for one in READ if one.own and "existential" not in one.tags and not isinstance(one.supply, Fixed)]
SEED, SIZE = 34, 10
ALWAYS = "every softmax weight is above 0, so that each case meets it; kept beside beta and min|W|"
_ENDS = "without it there is no first step, or backtracking need not end"
_PROOF = "the proof asks for it; no case is known beyond it"
NOT_MISSED = {
    **{(id_, name): ALWAYS for id_ in ("fix:PL_ineq", "fix:our_convergence", "new:PL_global", "new:PL_additive_free")
       for name in ("0 < delta", "delta > 0 over allowed positions")},
    ("new:causal_floor", "n >= 2"): "the reading says it as well",
    ("new:our_convergence_from_ones", "d <= times"): _PROOF,
    ("new:our_convergence_from_ones", "d <= 19 n^{5/2}"): _PROOF,
    ("new:linear_convergence", "0 < lam <= threshold"): "the check makes lam a part of the threshold",
    ("new:heavy_ball", "theta < 1"): "0 < eta < 2 (1 - theta)/L implies it",
    **{("new:armijo_step", name): _ENDS for name in ("0 < eta_0", "0 < alpha", "alpha < 1", "0 < beta")},
    ("new:segment_step", "t <= eta"): "L_seg is generous: beyond the step the curvature stays below it",
    **{("new:pair_lipschitz", name): "lam enters both sides alike, and the constant is generous"
       for name in ("0 <= lam", "lam >= 0")},
    ("fix:our_convergence", "eta <= divide"): "the guarantee is generous: no longer step is known that breaks it",
    ("new:stopping_rule", "lam > 0"): "where lam = 0 descent rests at M = 1, so that no step pays",
    **{("new:kappa_masked", name): "its hypothesis decides from ranks whether an eigenvalue is 0; there the bound is 0"
       for name in ("0 < lambda_min", "0 < min_i beta_i", "lambda_min(X_L X_L^T) > 0 and min_i beta_i > 0")},
    ("new:path_floor", "0 < eta"): "the floor is generous: no case is known that climbs below it",
}  # fmt: skip
"""Conditions whose absence no case tells, each with its reason; the list may only shrink."""


def test_no_condition_is_excused_twice_over() -> None:
    assert len(NOT_MISSED) <= 26, "draw a case outside the condition in tests/claims/outside.py"


@pytest.mark.parametrize("claim", OURS, ids=lambda claim: claim.test_id)
def test_the_printed_conditions_are_the_hypotheses(claim: Claim) -> None:
    assert unlike_hypotheses(claim) == []


def false_as_printed(claim: Claim, text: Printed | None = None) -> list[str]:
    """Return the cases, inside and outside, that meet the printed conditions and violate what is printed."""
    known, text = cases(claim), printed_of(claim) if text is None else text
    found = []
    for case in chain.from_iterable((case, *outside(case, text_of(claim))) for case in known[:_COSTLY]):
        with np.errstate(all="ignore"):
            q = Quantities(case, FLOAT)
            try:
                _says(claim, q)
                scope = Scope(q, letters_of(claim.id), text.definitions)
                if all(_holds(one, scope, exactly=True) for one in text.conditions):
                    found += [case.origin] * any(_violated(one, scope) for one in text.links)
            except (Unreadable, AttributeError, TypeError, ValueError, LookupError, OverflowError):
                continue  # no case of the statement: a letter has no value there
    return found


def _violated(link: Link, scope: Scope) -> bool:
    """Report whether a printed relation is false at a case by more than rounding, or divides by 0."""
    try:
        pairs = link.values(scope)
    except ZeroDivisionError:
        return True
    scale = max((max(abs(a), abs(b)) for a, b in pairs), default=0.0)
    far = _FAR_OFF * scale
    if link.relation == "=":
        return any(math.isnan(a - b) or abs(a - b) > far for a, b in pairs)
    return any(math.isnan(a - b) or a - b > max(far, _FAR_OFF) for a, b in pairs)


def skips_without_a_name(claim: Claim) -> bool:
    """Report whether some case is skipped for a condition that the claim does not print."""
    rng = np.random.default_rng(0)
    tried = (try_case(claim, case, FLOAT) for case in (*cases(claim), *claim.supply.families(rng)))
    return any("not printed" in one.problem or "without a hypothesis" in one.problem for one in tried)


def missed(claim: Claim, text: Printed) -> bool:
    """Report whether the claim with this text is seen to lack a condition."""
    try:
        return bool(unlike_hypotheses(claim, text) or false_as_printed(claim, text)) or skips_without_a_name(claim)
    except (LookupError, ValueError, ArithmeticError):
        return True  # outside of its conditions there is nothing to compute


def dropped(claim: Claim) -> Iterator[tuple[str, Claim, Printed]]:
    """Yield each condition's text with what is left of the claim and its text without it."""
    text = printed_of(claim)
    for place, one in enumerate(text.conditions):
        rest = text.conditions[:place] + text.conditions[place + 1 :]
        sides = [side.text or side.kind for side in (one.small, one.large)]
        yield f" {one.relation} ".join(sides), claim, text._replace(conditions=rest)
    for one in claim.hypotheses:
        if not one.limit:
            yield one.name, replace(claim, hypotheses=tuple(h for h in claim.hypotheses if h is not one)), text


EVERY = [(claim, *one) for claim in OURS for one in dropped(claim) if (claim.id, one[0]) not in NOT_MISSED]
CHOSEN = [EVERY[place] for place in sorted(np.random.default_rng(SEED).choice(len(EVERY), SIZE, replace=False))]


def named(value: object) -> str | None:
    return value.test_id if isinstance(value, Claim) else value if isinstance(value, str) else ""


@pytest.mark.parametrize(("claim", "condition", "rest", "text"), CHOSEN, ids=named)
def test_a_dropped_condition_is_missed(claim: Claim, condition: str, rest: Claim, text: Printed) -> None:
    assert missed(rest, text)


@pytest.mark.thorough
@pytest.mark.parametrize(("claim", "condition", "rest", "text"), EVERY, ids=named)
def test_every_dropped_condition_is_missed(claim: Claim, condition: str, rest: Claim, text: Printed) -> None:
    assert missed(rest, text)


@pytest.mark.thorough
@pytest.mark.parametrize("claim", OURS, ids=lambda claim: claim.test_id)
def test_the_sentence_is_true_inside_and_outside_of_its_conditions(claim: Claim) -> None:
    assert claim.id in _ROUNDED or false_as_printed(claim) == []


_ROUNDED = {"new:beta_needs_n_le_d"}
"""Whose determinant of integers is 0, but for the rounding of float64."""


@pytest.mark.parametrize("id_", ["new:segment_step", "new:stopping_rule", "new:path_floor"])
def test_a_sentence_that_lost_its_conditions_is_false(id_: str) -> None:
    """These were printed so: no `if`, and a long step refutes them."""
    claim = find(id_, "any")
    assert false_as_printed(claim, printed_of(claim)) == []
    without = printed_of(claim)._replace(conditions=())
    stripped = without._replace(links=tuple(link._replace(own=()) for link in without.links))
    assert false_as_printed(claim, stripped)


@pytest.mark.parametrize(
    "id_",
    ["new:confinement-any", "new:confinement_sharp-any", "exp:gradient_bounded-box", "rem:practical-full",
     "fix:our_convergence-any"],
)  # fmt: skip
def test_a_formula_cut_before_its_if_is_false(id_: str) -> None:
    claim = find(*id_.rsplit("-", 1))
    assert false_as_printed(claim) == []
    assert false_as_printed(replace(claim, formula=claim.formula.partition(" if ")[0].rstrip(",")))


def test_a_case_skipped_without_a_printed_hypothesis_is_undecided() -> None:
    claim = find("new:bound_p", "any")

    def silent(q: object) -> list[object]:
        return []

    def unnamed(q: object) -> list[object]:
        raise Unmet("lam > 0")

    for margin in (silent, unnamed):
        found = judge(replace(claim, margin=margin))
        assert found.statement.value == "open" and found.met == 0
    hypotheses = (Hypothesis("lam > 0"),)
    assert judge(replace(claim, margin=unnamed, hypotheses=hypotheses)).statement.value == "vacuous"


def test_what_limits_a_check_is_listed_apart() -> None:
    (record,) = run_claims(ids=["new:best_mask"]).records
    assert record.as_dict()["checked_where"] == ["d^2 <= 9"] and record.as_dict()["hypotheses"] == []
