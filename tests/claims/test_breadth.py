"""No sentence of ours is broader than its check: what each check reaches, and mistakes that only this shows."""

import ast
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnprune_verify.claims import registry
from attnprune_verify.claims.cases.batch import Batch, problem
from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.cases.relation import Relation, at_most, attained, kind_of
from attnprune_verify.claims.cases.trajectory import lowest_loss, minimiser
from attnprune_verify.claims.core import Claim, Hypothesis, Strength, Unmet, Verdict, mutant, relations
from attnprune_verify.claims.formulas.scope import sentence
from attnprune_verify.claims.judging.falsifier import Effort
from attnprune_verify.claims.judging.judge import judge
from attnprune_verify.claims.registry import claims, find
from attnprune_verify.claims.statements import best_mask, descent, promises, pruning_problem
from attnprune_verify.instance.problem import Instance
from attnprune_verify.model import gradient, loss
from attnprune_verify.theory.best_mask import certified_best_mask
from attnprune_verify.theory.constants import constant_balls, constants
from attnprune_verify.theory.guarantees import guarantees, path_floor
from attnprune_verify.theory.numbers.arithmetic import BALL, FLOAT, working_precision
from attnprune_verify.theory.quantities.operator_norm import DENSE_LIMIT

NONE = Effort(limits=0, examples=0, starts=0, evaluations=0)


def seen(id_: str, reading: str = "any") -> list[Case]:
    """The cases on which a claim is judged and that meet its hypotheses."""
    claim, kept = find(id_, reading), list[Case]()

    def watched(q: Quantities) -> Any:
        found = claim.margin(q)
        kept.append(q.case)
        return found

    judge(replace(claim, margin=watched), NONE)
    return kept


def batches(case: Case) -> bool:
    return len(case.get("others", ())) > 0


def weights_of_zero(case: Case) -> bool:
    return bool((np.asarray(case["W"]) == 0).any())


def row_without_choice(case: Case) -> bool:
    return isinstance(case["mask"], np.ndarray) and bool((case["mask"].sum(axis=1) == 1).any())


def more_tokens(case: Case) -> bool:
    return len(case["X"]) > len(case["W"])


MASKS = [weights_of_zero, row_without_choice, more_tokens]


@pytest.mark.parametrize(
    ("id_", "wanted"),
    [
        ("new:linear_convergence", [batches, *MASKS]),
        ("new:path_floor", [batches, *MASKS]),
        ("new:guarantees", [batches, *MASKS]),
        ("fix:mask_gd", [batches, *MASKS]),
        ("new:confinement_sharp", MASKS),
        ("new:segment_step", MASKS),
        ("new:stopping_rule", MASKS),
        ("new:certified_constants", MASKS),
        ("new:local_curvature", MASKS),
        ("new:K_rank_one", MASKS),
    ],
)
def test_a_check_reaches_what_its_sentence_names(id_: str, wanted: list[Callable[[Case], bool]]) -> None:
    cases = seen(id_)
    for one in wanted:
        assert any(one(case) for case in cases), one.__name__


def test_all_steps_are_checked_by_one_step_from_any_mask_and_by_long_walks() -> None:
    cases = seen("new:confinement_sharp")
    assert max(int(case.get("steps", 8)) for case in cases) >= 300
    assert max(int(case.get("steps", 4)) for case in seen("new:stopping_rule")) >= 60
    # far from where a descent from M = 1 ever is
    assert max(float(np.linalg.norm(case["M"])) / len(case["M"]) for case in cases) > 1.5


def test_heads_and_kernels_are_of_every_kind() -> None:
    heads = {case["heads"] for case in seen("new:pair_descent", "heads")}
    assert heads >= {1, 2, 3, 4}
    assert {case["heads"] for case in seen("new:pair_PL", "heads")} >= {1, 2}
    assert any(isinstance(case["mask"], np.ndarray) for case in seen("new:pair_lipschitz", "heads"))
    kernels = [case["kernel"] for case in seen("new:heavy_ball_diverges")]
    assert any(u.any() for u in kernels) and not all(u.any() for u in kernels)


def test_rows_have_as_many_tokens_as_is_said() -> None:
    sizes = {len(case["s"]) for case in seen("new:row_third_derivative", "literal")}
    words = re.search(r"(\d) to (\d) tokens", find("new:row_third_derivative", "literal").note)
    assert words and (min(sizes), max(sizes)) == tuple(map(int, words.groups()))


@pytest.mark.parametrize("arithmetic", [FLOAT, BALL])
def test_a_batch_is_the_mean_of_its_samples(arithmetic: Any) -> None:
    rng = np.random.default_rng(0)
    X, W, M = rng.standard_normal((3, 4, 3)), rng.standard_normal((3, 3)), rng.uniform(0, 1, (3, 3))
    case = Case({"X": X[0], "others": X[1:], "W": W, "M": M, "lam": 0.1, "mask": "causal"}, "batch")
    with working_precision():
        q = problem(Quantities(case, arithmetic))
        known, moved = constants(Instance(X, W, M=M, mask="causal", lam=0.1)), q.at(q.M * 2)
        assert isinstance(q, Batch) and q.k == 3
        assert float(q.L) == pytest.approx(loss(M, X, W, 0.1, "causal"))
        assert np.allclose(moved.gradient.astype(float), gradient(2 * M, X, W, 0.1, "causal"))
        assert float(q.square(q.c)) == pytest.approx(2 * float(q.L_attn))
        assert (float(q.K), float(q.f_min)) == pytest.approx((known.K, known.dense_floor))


def without(*parts: str) -> Callable[[Claim], Claim]:
    """The claim as it is checked along descents alone."""

    def narrowed(claim: Claim) -> Claim:
        margin = claim.margin
        rest = Hypothesis("another part is computed")

        def kept(q: Quantities) -> list[Relation]:
            found = [one for one in relations(margin, q) if kind_of(one.part) not in parts]
            if not found:
                raise Unmet(rest.name)
            return found

        return replace(claim, margin=kept, hypotheses=(*claim.hypotheses, rest))

    return narrowed


def on(kept: Callable[[Case], bool]) -> Callable[[Claim], Claim]:
    """The claim as it is checked on some cases alone."""

    def narrowed(claim: Claim) -> Claim:
        return replace(claim, hypotheses=(*claim.hypotheses, Hypothesis("kept", lambda q: kept(q.case))))

    return narrowed


FROM_REST, FROM_ONES = without("energy"), without("from any M")
ALONE, ONE_HEAD = on(lambda case: not batches(case)), on(lambda case: case["heads"] == 1)
WIDER = [
    ("new:confinement_sharp", "any", "0.3 in place of C_+", FROM_ONES),
    ("new:confinement_sharp", "any", "T^{1.36} in place of T", on(lambda case: case.get("steps", 8) <= 8)),
    ("new:heavy_ball", "any", "0.3 in place of C_+", FROM_REST),
    ("new:linear_convergence", "any", "k left out of the threshold", ALONE),
    ("new:guarantees", "any", "the first sample's numbers", ALONE),
    ("fix:mask_gd", "any", "the regulariser divided by k", ALONE),
    ("new:path_floor", "any", "k left out", ALONE),
    ("new:pair_lipschitz", "heads", "k of the first head", ONE_HEAD),
    ("new:pair_descent", "heads", "k of the first head", ONE_HEAD),
    ("new:pair_no_PL", "heads", "the error of the first head", ONE_HEAD),
    ("new:pair_PL", "heads", "t of the head with the longest keys", ONE_HEAD),
    ("new:certified_constants", "any", "within 1 % for every d", on(lambda case: len(case["W"]) <= DENSE_LIMIT)),
    ("new:kappa_masked", "any", "the strongest row in place of the weakest", on(lambda case: case["mask"] is None)),
]


@pytest.mark.parametrize(
    ("id_", "reading", "says", "narrow"), WIDER, ids=lambda one: one if isinstance(one, str) else ""
)
def test_a_wider_check_refutes_what_the_narrow_one_lets_through(
    id_: str, reading: str, says: str, narrow: Callable[[Claim], Claim], one_witness: None
) -> None:
    """Starts other than M = 1, hundreds of steps, batches, heads, sizes, masks: each with a formula false there."""
    claim = find(id_, reading)
    changed = mutant(claim, next(wrong for wrong in claim.wrong if wrong.says == says))
    changed = replace(changed, strength=Strength.UPPER)  # whether a narrow check attains the bound is not asked
    assert judge(narrow(changed), NONE).statement is Verdict.HOLDS
    assert judge(changed, NONE).statement is Verdict.REFUTED


def test_one_sample_of_a_batch_may_move_further_than_the_mean() -> None:
    """Left out of the floor, k is not missed on single samples; the claim's own cases refute it."""
    claim = find("new:path_floor", "any")
    without = next(wrong for wrong in claim.wrong if wrong.says == "k left out")
    alone = [case for case in seen("new:path_floor") if not batches(case)]
    changed = replace(claim, margin=without.margin, printed=False)
    assert judge(changed, cases=alone).statement is Verdict.HOLDS
    assert judge(changed, cases=promises._one_sample_pays()).statement is Verdict.REFUTED


def test_the_smallest_entries_are_pruned_not_just_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    def largest(M: Any, rho: float) -> Any:
        return 1 - binary(-np.asarray(M), 1 - rho) if rho not in (0, 1) else binary(M, rho)

    def last_of_equals(M: Any, rho: float) -> Any:
        return binary(np.asarray(M)[::-1, ::-1], rho)[::-1, ::-1]

    binary = pruning_problem.binary_mask
    for wrong in (largest, last_of_equals):
        monkeypatch.setattr(pruning_problem, "binary_mask", wrong)
        assert judge(find("fix:attn_prun", "literal")).statement is Verdict.REFUTED
    monkeypatch.setattr(pruning_problem, "binary_mask", binary)
    monkeypatch.setattr(descent, "binary_mask", last_of_equals)
    assert judge(find("fix:mask_gd", "any")).statement is Verdict.REFUTED


def test_where_rounding_is_felt_the_best_loss_is_not_reached_in_relative_terms() -> None:
    """As it was printed: (1 - 4e-9) min L <= bound; false, on losses near the square of the search's rounding."""
    broken = 0
    with working_precision():
        for case in best_mask._tiny_losses():
            q = Quantities(case, BALL)
            least = q.smallest([q.at(q.number(mask)).L_attn for mask in best_mask._all_masks(q)])
            found = certified_best_mask(Instance(case["X"], case["W"], mask=case["mask"]), case["zeros"])
            broken += bool(least * q.number(1 - 4e-9) > q.number(found.bound))
            assert not found.optimal or found.bound >= (1 - 4e-9) * float(least)
    assert broken


@pytest.mark.parametrize("lam", [0.3, 1e-3, 2.0, 0.7, 1e-45, 0.1])
def test_a_promise_holds_with_its_numbers_as_they_are_rounded(lam: float) -> None:
    """One token, so L = (lam/2) ||M||^2: the gradient at M = 1 is lam d, and the promises are equalities."""
    entries = {one.id: one.numbers for one in guarantees(Instance(np.ones((1, 3)), np.ones((3, 3)), lam=lam))}
    exact, descent_of, strong = Fraction(lam), entries["gradient-norm"], entries["strong-convexity"]
    assert Fraction(descent_of["gradient"]) ** 2 * Fraction(descent_of["T"]) >= (3 * exact) ** 2
    assert Fraction(descent_of["gradient"]) >= 3 * exact / 100
    assert Fraction(entries["confinement"]["loss"]) >= exact * 9 / 2
    assert Fraction(strong["modulus"]) <= exact and strong["rate"] <= 1 and strong["threshold"] >= 0


@pytest.mark.parametrize("lam", [1e-5, 3e-4])
def test_a_rate_and_a_floor_are_rounded_down(lam: float) -> None:
    instance = Instance(np.eye(2), np.array([[0.3, -0.1], [0.2, 0.7]]), lam=lam)
    found = {one.id: one.numbers for one in guarantees(instance)}
    with working_precision():
        balls = constant_balls(instance)
        assert BALL.lift(found["linear-convergence"]["rate"]) <= BALL.lift(lam) / balls["L_sharp"]
        assert BALL.lift(found["repaired-theorem"]["delta"]) <= path_floor(instance)
        assert BALL.lift(found["strong-convexity"]["threshold"]) >= balls["convexity_threshold"]


@pytest.mark.parametrize("n", [3, 6, 8, 11])
def test_the_threshold_of_linear_convergence_is_certified(n: int) -> None:
    """Uniform dense rows, f_min = 1/n, of which float64 may find a little more."""
    X = np.tile(np.random.default_rng(5).standard_normal(3), (n, 1))
    found = constant_balls(Instance(X, np.ones((3, 3)), lam=1e-9))["linear_rate_threshold"]
    with working_precision():
        assert found < BALL.lift(1) / n**2 / 45


def test_a_minimum_is_enclosed_where_the_gradient_is_negligible() -> None:
    case = Case({"X": np.eye(2), "W": np.eye(2), "M": np.ones((2, 2)), "lam": 0.5, "mask": None}, "")
    q = Quantities(case)
    near = q.at(minimiser(case))
    lowest, certain = lowest_loss(near, 0.4, near.L)
    assert certain and lowest <= near.L
    assert lowest_loss(q.at(q.M * 2), 0.4, near.L)[1] is False


def test_what_rounding_leaves_of_two_equal_sides_attains_nothing() -> None:
    assert attained(at_most(1 + 4.2e-15, 1 + 1e-16, offset=1.0)) is None
    assert attained(at_most(1.25, 1.5, offset=1.0)) == 0.5


def own() -> list[Claim]:
    return [claim for claim in claims() if claim.own and "measured" not in claim.tags]


def test_a_ratio_is_at_most_one_where_a_bound_holds() -> None:
    """It was 42 for the descent lemma: noise over noise."""
    for id_ in ("new:descent_lemma", "new:segment_step", "new:certified_stationary_point"):
        best = judge(find(id_, "any")).best
        assert best and max(best.values()) <= 1 + 1e-6, (id_, best)


NUMBERS = re.compile(r"(?<![-\w])\d+\.\d+|\d+ %")


@cache
def strings() -> dict[str, list[str]]:
    """By claim: every string constant of the file that makes it; what is formatted into a sentence is in none."""
    found: dict[str, list[str]] = {}
    for name in registry._MODULES:
        module = import_module(f"attnprune_verify.claims.statements.{name}")
        tree = ast.walk(ast.parse(Path(str(module.__file__)).read_text("utf-8")))
        constants = [node.value for node in tree if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        found |= dict.fromkeys((claim.test_id for claim in module.CLAIMS), constants)
    return found


@pytest.mark.parametrize("claim", own(), ids=lambda claim: claim.test_id)
def test_a_decimal_number_in_a_sentence_is_computed_and_not_typed(claim: Claim) -> None:
    said = sentence(claim)
    typed = [text for text in strings()[claim.test_id] if len(text) > 1 and text in said]
    for number in NUMBERS.findall(said):
        assert not any(number in text for text in typed), number


def test_a_typed_number_would_be_seen() -> None:
    says = sentence(find("new:lip_diag_f", "any"))
    assert NUMBERS.findall(says) == ["0.50788"]
    assert not any("0.50788" in text for text in strings()["new:lip_diag_f-any"])
