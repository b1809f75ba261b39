"""No guarantee of descent is already met where descent begins: then it would promise nothing.

Every descent of the claims takes its steps through `moving`. While they stand still, every iterate is the start; what
still holds then held before a step. A statement that some iterate is good has to fail so, in a case that meets its
hypotheses; one about every iterate ("every step") is met by the start as a matter of course, and is not asked.
"""

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.cases.relation import Relation, at_most
from attnprune_verify.claims.cases.trajectory import descend, moving, sharp_L, standing_still, step_below
from attnprune_verify.claims.core import Claim
from attnprune_verify.claims.judging.judge import ROUNDING
from attnprune_verify.claims.judging.trial import try_case
from attnprune_verify.claims.registry import claims, find
from attnprune_verify.theory.numbers.arithmetic import FLOAT, working_precision

COQ = Path(__file__).resolve().parents[2] / "proofs_check" / "coq"
_FEW = 12
"""Cases after which a statement that took no step counts as one that is not about a descent."""


def cases(claim: Claim) -> Iterable[Case]:
    rng = np.random.default_rng(0)
    families = (claim.supply.complete(case, rng) for case in claim.supply.families(rng))
    return chain(families, (claim.supply.complete(case, rng) for case in (claim.attains() if claim.attains else ())))


def of_descent(claim: Claim) -> bool:
    """Return True where its margin takes steps."""
    module = sys.modules[claim.margin.__module__]
    if claim.id.startswith("exp:") or not {"descend", "moving"} & set(vars(module)):
        return False
    for case, _ in zip(cases(claim), range(_FEW), strict=False):
        with working_precision(), standing_still() as kept:
            try_case(claim, case, FLOAT)
        if kept:
            return True
    return False


def says_more_than_its_start(claim: Claim) -> bool:
    """Return True where the conclusion fails at the start, in a case that meets the hypotheses."""
    for case in cases(claim):
        with working_precision():
            if try_case(claim, case, FLOAT).failed is not None:
                continue
            with standing_still():
                before = try_case(claim, case, FLOAT)
        if before.relation is not None and before.slack < -ROUNDING:
            return True
    return False


GUARANTEES = [claim for claim in claims() if of_descent(claim) and "every step" not in claim.tags]


@pytest.mark.parametrize("claim", GUARANTEES, ids=lambda claim: claim.test_id)
def test_no_guarantee_is_met_where_descent_begins(claim: Claim) -> None:
    assert says_more_than_its_start(claim), f"{claim.id} is met at the start whatever descent does: it promises nothing"


def _empty(q: Quantities) -> list[Relation]:
    """Some iterate with ||grad|| <= lam d and (kappa_T l)^2 L_attn <= 2 lam^2 d^2: M = 1 is one."""
    points = list(descend(q, step_below(q, 1.0), min(40, int(np.ceil(float(sharp_L(q) / q.lam))))))
    bound = q.kappa_T * q.smallest([point.lambda_2 for point in points])
    limit = q.lam * q.lam * q.d**2
    close = [point for point in points if q.square(point.gradient) <= limit * (1 + 1e-12)]
    least = q.smallest([point.L_attn for point in close])
    return [
        at_most(q.smallest([q.square(point.gradient) for point in points]), limit, "gradient"),
        at_most(bound * bound * least, 2 * limit, "attention error"),
    ]


def test_an_empty_guarantee_is_caught() -> None:
    """What stood here before: true, with a formal proof, and met by M = 1 without a hypothesis."""
    claim = find("new:stationarity", "any")
    assert says_more_than_its_start(claim)
    assert not says_more_than_its_start(replace(claim, margin=_empty))


def test_every_theorem_about_some_iterate_is_asked() -> None:
    """What a proposition of Trusted.v with `exists t, (t < T)` proves is among those asked, or the paper's."""
    trusted = (COQ / "Trusted.v").read_text(encoding="utf-8")
    asked, own = {claim.id for claim in GUARANTEES}, {claim.id for claim in claims() if claim.own}
    about = []
    for entry in json.loads((COQ / "theorems.json").read_text(encoding="utf-8")):
        statement = trusted.partition(f"Definition {entry['theorem']} :=")[2].partition("\nDefinition ")[0]
        if "exists t, (t < T)" in statement:
            about.append(entry["theorem"])
            proved = {name for name, part in entry["proves"].items() if part != "step"} & own
            assert proved <= asked, f"{entry['theorem']}: {proved - asked}"
    assert {"stationarity", "gradient_norm", "our_convergence_corrected", "smallest_gradient"} <= {*about}


def test_every_formula_about_the_first_iterates_takes_steps() -> None:
    promised = {claim.id for claim in claims() if claim.own and ("t<T" in claim.formula or "t < T" in claim.formula)}
    assert len(promised) >= 9 and promised <= {claim.id for claim in GUARANTEES}


def test_descents_move_again_afterwards() -> None:
    with standing_still() as kept:
        assert moving(0.5) == 0.0 and len(kept) == 1
    assert moving(0.5) == 0.5 and len(kept) == 1
