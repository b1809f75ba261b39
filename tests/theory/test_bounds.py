"""Both inequalities and the theorem on instances where the verdict is known."""

import math

import numpy as np
import pytest

from attnprune_verify.instance import families
from attnprune_verify.instance.problem import Instance
from attnprune_verify.model import Objective, attention, gradient, loss
from attnprune_verify.theory import bounds
from attnprune_verify.theory.bounds import evaluate_bounds
from attnprune_verify.theory.constants import constants
from attnprune_verify.theory.formulas import sharp
from attnprune_verify.theory.guarantees import path_floor
from attnprune_verify.theory.quantities import evaluation
from attnprune_verify.theory.quantities.evaluation import Route, attention_part, gradient_change
from attnprune_verify.theory.quantities.operator_norm import norm_bounds
from attnprune_verify.theory.theorem import theorem

SIGNS = np.array([[1.0, -1.0], [-1.0, 1.0]])


def statuses(instance):
    return {bound.id: bound.status for bound in evaluate_bounds(instance)}


def test_the_counterexample_of_two_orthonormal_tokens():
    found = {b.id: b for b in evaluate_bounds(Instance(np.eye(2), 0.1 * SIGNS, M=np.zeros((2, 2))))}
    assert found["lem:PL_ineq"].status == "violated"
    assert found["lem:PL_ineq"].lhs == pytest.approx(2.483e-5, rel=1e-3)
    assert found["lem:PL_ineq"].rhs == pytest.approx(4.967e-4, rel=1e-3)
    assert found["fix:PL_ineq"].status == "holds" and "attained" in found["fix:PL_ineq"].note
    assert found["thm:lip_grad_l"].status == found["fix:lip_grad_l"].status == "holds"


@pytest.mark.parametrize("s", [1e-1, 1e-3, 1e-9, 1e-40])
def test_violated_at_every_scale_also_with_a_regulariser(s):
    found = statuses(Instance(np.eye(2), s * SIGNS, M=np.full((2, 2), 0.5), lam=1e-5 * s**2))
    assert found == {
        "thm:lip_grad_l": "holds",
        "lem:PL_ineq": "violated",
        "fix:lip_grad_l": "holds",
        "fix:PL_ineq": "holds",
    }


def test_hypotheses_that_fail_make_the_paper_s_lemma_not_applicable():
    W, M = 0.1 * SIGNS, np.zeros((2, 2))
    for instance in (
        Instance(np.eye(2), W, M=M, mask="causal"),
        Instance(np.eye(2), W, M=M - 0.5),
        Instance(np.eye(2), W, M=M, lam=2.0),
        Instance(np.ones((3, 2)), W, M=M),
        Instance(np.eye(2), np.eye(2), M=M),
        Instance(np.stack([np.eye(2)] * 2), W, M=M),
    ):
        found = {b.id: b for b in evaluate_bounds(instance)}
        assert found["lem:PL_ineq"].status == "not_applicable" and math.isnan(found["lem:PL_ineq"].rhs)
        assert found["lem:PL_ineq"].note and found["fix:PL_ineq"].status == "holds"


def test_a_single_allowed_position_per_row_is_no_contradiction_of_the_causal_lemma():
    assert statuses(Instance(np.eye(1), [[2.0]], mask="causal", M=[[0.5]]))["lem:PL_ineq"] == "holds"


@pytest.mark.parametrize("name", sorted(set(families.FAMILIES) - {"paper_synthetic"}))
def test_repaired_bounds_hold_on_every_family(name):
    rng = np.random.default_rng(0)
    for trial in range(3):
        instance = families.FAMILIES[name](rng)
        M = (None, rng.uniform(0, 1, instance.W.shape), 3 * rng.standard_normal(instance.W.shape))[trial]
        found = statuses(instance if M is None else instance.with_M(M))
        assert found["fix:PL_ineq"] == found["fix:lip_grad_l"] == found["thm:lip_grad_l"] == "holds"


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_scales_beyond_doubles_are_decided(scale):
    rng = np.random.default_rng(1)
    instance = Instance(rng.standard_normal((3, 3)) * scale, rng.standard_normal((3, 3)), M=rng.random((3, 3)), lam=0.5)
    found = statuses(instance)
    assert found["fix:lip_grad_l"] == found["fix:PL_ineq"] == "holds"


@pytest.mark.parametrize(
    "wrong", ["mu without squares", "mu with 4 for 2", "no cross term", "C_+ / 2", "K of the transpose"]
)
def test_wrong_repairs_would_be_violated(wrong, monkeypatch):
    rng = np.random.default_rng(2)
    attacked = [Instance(np.eye(n), 0.1 * rng.choice([-1.0, 1.0], (n, n)), M=np.zeros((n, n))) for n in (2, 3)]
    attacked += [Instance(np.array([[1.0], [0.0]]), [[12.0]], M=[[m]]) for m in (0.05, 0.08, 0.95)]
    attacked += [Instance(np.eye(2), 3 * SIGNS, M=m * np.ones((2, 2)), lam=0.7) for m in (0.2, -0.2)]
    attacked += [
        Instance([[10.0, 0.0], [10.0, 1.0]], 0.1 * np.array([[0.1, 1.0], [0.1, 0.1]]))
    ]  # centring is one-sided
    if wrong == "mu without squares":
        monkeypatch.setattr(sharp, "mu", lambda w, b, f: 2 * w * b * f)
    elif wrong == "mu with 4 for 2":
        monkeypatch.setattr(sharp, "mu", lambda w, b, f, mu=sharp.mu: 2 * mu(w, b, f))
    elif wrong == "no cross term":
        monkeypatch.setattr(sharp, "inner_product_floor", lambda counts: sharp.C_plus() * 0)
        attacked += [Instance([[3.0]] * 2 + [[-3.0]], [[1.0]], M=[[m]], lam=0.9) for m in np.linspace(-0.5, 0.9, 15)]
    elif wrong == "C_+ / 2":
        monkeypatch.setattr(sharp, "lipschitz", lambda K, lam: lam + sharp.C_plus() / 2 * K**2)
    else:
        monkeypatch.setattr(bounds, "logit_norm", lambda instance: norm_bounds(Instance(instance.X, instance.W.T)))
    found = [statuses(instance) for instance in attacked]
    assert any("violated" in (one["fix:PL_ineq"], one["fix:lip_grad_l"]) for one in found)


def test_the_routes_enclose_one_another(monkeypatch):
    rng = np.random.default_rng(3)
    for mask, k in ((None, 1), ("causal", 2)):
        X, W = rng.standard_normal((k, 6, 4)), rng.standard_normal((4, 4))
        M, other = rng.random((2, 4, 4))
        values = {}
        for kind in (Route.BALLS, Route.RUNNING, Route.CRUDE):
            instance = Instance(X, W, M=M, mask=mask, lam=0.3)
            monkeypatch.setattr(evaluation, "route", lambda instance, kind=kind: kind)
            at = attention_part(instance, 128)
            change = gradient_change(instance, M, other, 128)
            values[kind] = (at.c_squares, at.gradient_squares, at.product, at.floor, change.whole, change.attention)
        for tight, loose, crude in zip(
            *(values[kind] for kind in (Route.BALLS, Route.RUNNING, Route.CRUDE)), strict=True
        ):
            assert loose.overlaps(tight) and crude.overlaps(tight)
            assert crude.rel_accuracy_bits() > 15 and tight.rel_accuracy_bits() > 45
        G = gradient(M, X, W, 0.0, mask)
        assert float(values[Route.BALLS][1]) == pytest.approx(float(np.sum(G * G)), rel=1e-9)
        assert float(values[Route.BALLS][0]) == pytest.approx(2 * loss(M, X, W, 0.0, mask), rel=1e-9)
        assert float(values[Route.BALLS][2]) == pytest.approx(float(np.vdot(G, M)), rel=1e-7)


def test_batches_can_cancel_so_the_stacked_tokens_count():
    """Two samples whose gradients nearly cancel: each one's own PL constant is no bound for their mean."""
    X = np.stack([np.eye(2), np.eye(2)[::-1]])
    instance = Instance(X, 0.1 * np.array([[1.0, -1.0], [1.0, -1.0]]), M=np.zeros((2, 2)))
    found = {b.id: b for b in evaluate_bounds(instance)}
    assert found["fix:PL_ineq"].status == "holds"
    rng = np.random.default_rng(4)
    for _ in range(10):
        X = np.linalg.qr(rng.standard_normal((6, 6)))[0][:4].reshape(2, 2, 6)
        batch = Instance(X, rng.choice([-1.0, 1.0], (6, 6)), M=np.zeros((6, 6)))
        assert statuses(batch)["fix:PL_ineq"] == "holds"


# --- the theorem --------------------------------------------------------------------------------------------------


def test_where_the_theorem_applies_and_is_empty():
    verdict = theorem(Instance(np.eye(2), np.ones((2, 2)), lam=0.1))
    assert verdict.applies and verdict.vacuous and "M = 1" in verdict.reasons[0]
    assert verdict.numbers["at_ones"] <= verdict.numbers["bound"]
    above = theorem(Instance(np.eye(4), 0.01 * np.ones((4, 4)), lam=0.5))  # lam beyond the threshold for M = 1
    assert above.applies and above.vacuous and not any("M = 1" in reason for reason in above.reasons)
    assert above.numbers["bound"] > above.numbers["largest"] == pytest.approx(1 / 4)


def test_where_the_theorem_says_something():
    verdict = theorem(Instance(np.eye(2), np.ones((2, 2)), M=np.zeros((2, 2)), lam=0.0), eps=0.01)
    assert verdict.applies and verdict.numbers["bound"] == pytest.approx(0.005)
    assert verdict.numbers["largest"] == 0.5
    assert verdict.vacuous and "M = 1" in verdict.reasons[0]  # but M = 1 is optimal at lam = 0


@pytest.mark.parametrize("mask, lam", [("causal", 0.1), (None, 5.12)])
def test_where_it_does_not_apply(mask, lam):
    verdict = theorem(Instance(np.eye(2), np.ones((2, 2)), lam=lam, mask=mask))
    assert not verdict.applies and verdict.vacuous and verdict.reasons[0].startswith("It does not apply")
    assert {item.id for item in verdict.guarantees} == {
        "confinement", "gradient-norm", "repaired-theorem", "linear-convergence", "strong-convexity",
    }  # fmt: skip


def test_too_many_steps_are_a_reason():
    verdict = theorem(Instance(np.eye(2), 100 * np.eye(2) + 1.0, lam=0.5))
    assert any("steps" in reason for reason in verdict.reasons) and verdict.log10["T"] > 15


def test_guarantees_switch_with_lam():
    applies = {}
    for lam in (0.0, 1e-4, 0.1, 1.0):
        items = theorem(Instance(np.eye(2), np.ones((2, 2)), lam=lam)).guarantees
        applies[lam] = {item.id: item.applies for item in items}
    assert [applies[lam]["linear-convergence"] for lam in applies] == [False, True, False, False]
    assert [applies[lam]["strong-convexity"] for lam in applies] == [False, False, False, True]  # K = 1: C_- = 0.2404


def test_floor_along_the_path_is_below_every_iterate():
    rng = np.random.default_rng(5)
    for lam in (1e-4, 0.05, 2.0):
        instance = Instance(rng.standard_normal((3, 4)), rng.standard_normal((4, 4)), lam=lam, mask="causal")
        objective, M = Objective(instance.X, instance.W, lam, "causal"), np.ones((4, 4))
        floor = float(path_floor(instance))
        assert floor > 0
        for _ in range(100):
            assert attention(instance.X, M * instance.W, "causal")[instance.allowed].min() >= floor
            M = M - objective.loss_and_gradient(M)[1] / constants(instance).L_sharp


@pytest.mark.parametrize("name", sorted(families.FAMILIES))
def test_every_family_has_a_verdict(name):
    verdict = theorem(families.FAMILIES[name](np.random.default_rng(6)))
    assert verdict.reasons and verdict.vacuous
    assert all(math.isfinite(value) for value in verdict.log10.values())


def test_equal_tokens_make_the_attention_independent_of_the_mask():
    found = {b.id: b for b in evaluate_bounds(Instance(np.ones((4, 3)), np.ones((3, 3)), M=np.zeros((3, 3)), lam=0.25))}
    assert found["fix:lip_grad_l"].status == "holds" and found["fix:lip_grad_l"].lhs == 0.25
    assert found["fix:PL_ineq"].status == "holds"


def test_extreme_numbers_give_verdicts_and_never_errors():
    """Zeros, float32, magnitudes from 1e-300 to 1e140 in one matrix, any lam; warnings are errors here."""
    rng = np.random.default_rng(11)
    undecided = 0
    for _ in range(120):
        n, d = rng.integers(1, 5, 2)

        def matrix(*shape):
            kinds = (
                np.zeros(shape),
                rng.standard_normal(shape) * 10.0 ** rng.uniform(-300, 100),
                rng.standard_normal(shape) * 10.0 ** rng.uniform(-100, 100, shape),
                rng.integers(-1, 2, shape).astype(float),
                rng.standard_normal(shape).astype(np.float32),
            )
            return kinds[rng.integers(len(kinds))]

        X, W, M = matrix(n, d), matrix(d, d), matrix(d, d)
        lam = float(rng.choice([0, 1e-320, 1e-5, 1, 1e10, 1e300]))
        try:
            instance = Instance(
                X, W, M=M if rng.random() < 0.6 else None, mask=(None, "causal")[rng.integers(2)], lam=lam
            )
        except ValueError:
            continue
        assert all(math.isfinite(value) for value in constants(instance).log10.values())
        assert all(math.isfinite(value) for value in theorem(instance).log10.values())
        found = statuses(instance)
        assert "violated" not in (found["fix:PL_ineq"], found["fix:lip_grad_l"], found["thm:lip_grad_l"])
        undecided += "undecided" in found.values()
    assert undecided <= 2  # logits beyond 1e100, whose weights no precision separates from 0


def test_sides_beyond_the_floats_are_told_by_their_size():
    """0 against 0, violated, would be no verdict a reader can follow."""
    tiny = Instance(np.eye(2), 1e-200 * np.array([[1, -1], [-1, 1]]), M=np.zeros((2, 2)))
    found = {bound.id: bound for bound in evaluate_bounds(tiny)}
    printed = found["lem:PL_ineq"]
    assert printed.status == "violated" and printed.lhs == printed.rhs == 0.0
    assert "left 10^-800" in printed.note and "right 10^-600" in printed.note
    ordinary = Instance(np.eye(2), 0.1 * np.array([[1, -1], [-1, 1]]), M=np.zeros((2, 2)))
    assert not any("10^" in bound.note for bound in evaluate_bounds(ordinary))
