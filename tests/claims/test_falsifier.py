"""Random draws alone are worthless; families, guidance and optimisation are not."""

import zlib
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.cases.relation import at_most
from attnprune_verify.claims.cases.supply import Arrays, Instances
from attnprune_verify.claims.core import Strength, Verdict
from attnprune_verify.claims.judging import judge as judge_module
from attnprune_verify.claims.judging.falsifier import Effort
from attnprune_verify.claims.judging.judge import judge
from attnprune_verify.claims.judging.trial import certain, try_case
from attnprune_verify.claims.registry import find
from attnprune_verify.claims.statements._template import CLAIMS
from attnprune_verify.instance.families import orthonormal_constant
from attnprune_verify.instance.problem import Instance
from attnprune_verify.theory.constants import constants
from attnprune_verify.theory.numbers.arithmetic import FLOAT


def gaussian(count: int) -> list[Case]:
    rng = np.random.default_rng(0)
    return [
        Case(
            {
                "X": rng.standard_normal((4, 6)),
                "W": rng.standard_normal((6, 6)),
                "M": rng.uniform(0, 1, (6, 6)),
                "lam": 0.0,
                "mask": None,
            },
            "Gaussian",
        )
        for _ in range(count)
    ]


def constant_size(count: int) -> list[Case]:
    made = []
    for seed in range(count):
        instance = orthonormal_constant(np.random.default_rng(seed), n=4, d=6, size=0.1)
        values = {"X": instance.X, "W": instance.W, "M": instance.M, "lam": 0.0, "mask": None}
        made.append(Case(values, f"seed {seed}"))
    return made


def test_gaussian_draws_never_show_that_the_PL_lemma_is_false() -> None:
    paper, repaired = find("lem:PL_ineq", "full"), find("fix:PL_ineq", "any")
    assert judge(paper, cases=gaussian(400)).statement is Verdict.HOLDS  # and yet it is false:
    assert judge(paper, cases=constant_size(40)).statement is Verdict.REFUTED
    survived = judge(replace(repaired, strength=Strength.LOWER), cases=[*gaussian(100), *constant_size(100)])
    assert survived.statement is Verdict.HOLDS and survived.met >= 150


def test_the_corrected_PL_survives_the_attack_that_kills_the_papers() -> None:
    paper, repaired = find("lem:PL_ineq", "full"), find("fix:PL_ineq", "any")
    killer = judge(paper).witness
    assert killer is not None
    survivor = judge(replace(repaired, strength=Strength.LOWER), cases=[killer.case])
    assert survivor.statement is Verdict.HOLDS and survivor.met == 1


@pytest.mark.parametrize("effort", [Effort(0, 200, 0, 0), Effort(0, 0, 3, 400)], ids=["guided", "optimised"])
def test_each_attack_alone_finds_what_families_do_not(effort: Effort) -> None:
    """||v|| <= 20 holds on every family case; only moving v breaks it."""
    supply = Arrays({"v": "m"}, sizes=(3,), free=("v",), rounds=4)
    claim = replace(
        CLAIMS[0], margin=lambda q: at_most(q.norm(q.v), q.number(11.0)), supply=supply, hypotheses=(), attains=None
    )
    assert judge(claim, Effort(0, 0, 0, 0)).statement is Verdict.HOLDS
    assert judge(claim, effort).statement is Verdict.REFUTED


def test_what_is_refuted_is_not_confirmed_over_and_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ball arithmetic on every family and every step of the optimiser would take most of the time of all tests."""
    seen: list[Case] = []

    def counted(claim, case):  # type: ignore[no-untyped-def]
        seen.append(case)
        return certain(claim, case)

    monkeypatch.setattr(judge_module, "certain", counted)
    supply = Arrays({"v": "m"}, sizes=(3,), free=("v",), rounds=24)
    claim = replace(CLAIMS[0], margin=lambda q: at_most(q.norm(q.v), q.number(0.1)), supply=supply, hypotheses=())
    assert judge(claim, Effort(3, 30, 3, 400)).statement is Verdict.REFUTED
    assert len(seen) == 4


def test_limits_are_tried() -> None:
    """A bound on ||W|| that holds on every family; the limit W x 30 breaks it."""
    supply = Instances("full", small=True, free=())
    claim = replace(CLAIMS[0], supply=supply, margin=lambda q: at_most(q.norm(q.W), q.number(1e6)))
    largest = max(float(trial.relation.lhs) for trial in _trials(claim))
    claim = replace(claim, margin=lambda q: at_most(q.norm(q.W), q.number(2.0 * largest)))
    assert judge(claim, Effort(0, 0, 0, 0)).statement is Verdict.HOLDS
    assert judge(claim, Effort(3, 0, 0, 0)).statement is Verdict.REFUTED


def _trials(claim):  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(zlib.crc32(claim.test_id.encode()))
    return [try_case(claim, case, FLOAT) for case in claim.supply.families(rng)]


SIZES = [(2, 2, None), (3, 2, None), (3, 2, "causal"), pytest.param(4, 3, None, marks=pytest.mark.thorough)]


@pytest.mark.parametrize(("n", "d", "mask"), SIZES)
def test_L_sharp_against_the_largest_curvature_found(n: int, d: int, mask: str | None) -> None:
    """Search over M for the largest curvature: never above L_sharp, and L_sharp within 3 times of it."""
    rng = np.random.default_rng(n + 10 * d)
    X, W, lam = rng.standard_normal((n, d)), rng.standard_normal((d, d)), 0.01

    def curvature(vector: np.ndarray) -> float:
        case = Case({"X": X, "W": W, "M": vector.reshape(d, d), "lam": lam, "mask": mask}, "")
        return float(np.linalg.eigvalsh(Quantities(case).curvature)[-1])

    found = constants(Instance(X, W, mask=mask, lam=lam))
    best = 0.0
    for size in (0.3, 1.0, 3.0, 0.3, 1.0, 3.0):
        start = size * rng.standard_normal(d * d)
        result = minimize(lambda v: -curvature(v), start, method="L-BFGS-B", options={"maxfun": 30 * (d * d + 1)})
        best = max(best, -float(result.fun))
    assert best + lam <= found.L_sharp
    assert found.L_sharp <= 3 * (best + lam)
    assert found.L_paper >= 1e4 * (best + lam)
