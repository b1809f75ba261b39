"""The counterexample that is shown is short, and it is one."""

from dataclasses import replace

import numpy as np
import pytest

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.relation import at_most
from attnprune_verify.claims.cases.supply import Instances
from attnprune_verify.claims.hypotheses import Hypothesis
from attnprune_verify.claims.judging.judge import judge
from attnprune_verify.claims.judging.rounded import rounded
from attnprune_verify.claims.judging.trial import certain
from attnprune_verify.claims.registry import find
from attnprune_verify.claims.statements._template import CLAIMS

ODD = Case(
    {"X": np.array([[1.2345, 0.4321]]), "W": np.full((2, 2), 0.777), "M": np.full((2, 2), 0.1234), "mask": None}, "odd"
)
SMALL = replace(
    CLAIMS[0], hypotheses=(), supply=Instances("any"), margin=lambda q: at_most(q.square(q.X), 1.5 + 0 * q.M.sum())
)


@pytest.mark.parametrize("id_", ["lem:PL_ineq", "lem:PL_ineq_informal"])
def test_the_lemmas_counterexample_can_be_followed_by_hand(id_: str) -> None:
    found = judge(find(id_, "full"))
    assert found.smallest is not None and found.witness is not None
    assert all(len(str(abs(x))) <= 4 for name in "XWM" for x in found.smallest.case[name].ravel().tolist())
    assert not found.smallest.case["M"].any()
    again = certain(find(id_, "full"), found.smallest.case)
    assert again.failed is None and again.certain is False


def test_what_decides_keeps_its_digits_and_the_rest_does_not() -> None:
    """||X||^2 = 1.71 > 1.5: 0, the identity and (1, 0) violate nothing, (1.2, 0.4) does."""
    trial = certain(SMALL, ODD)
    short = rounded(SMALL, trial)
    assert trial.certain is False and short.certain is False
    assert short.case["X"].tolist() == [[1.2, 0.4]] and not short.case["M"].any() and not short.case["W"].any()


def test_hypotheses_are_kept_and_nothing_is_moved_that_is_not_free() -> None:
    positive = Hypothesis("M > 0", lambda q: bool((q.M > 0).all()), lambda rng: ())
    fixed = replace(SMALL, hypotheses=(positive,), supply=Instances("any", free=("M", "X")))
    short = rounded(fixed, certain(fixed, ODD))
    assert short.case["M"].tolist() == [[0.1, 0.1], [0.1, 0.1]] and short.case["W"] is ODD["W"]
