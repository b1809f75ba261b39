"""The candidates that might make the optimisation pay, and the judge who says whether they do."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from attnprune_verify.algorithms.baselines.magnitude import magnitude_mask
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.experiments.beyond import candidates
from attnprune_verify.experiments.beyond import run as beyond
from attnprune_verify.experiments.beyond.candidates import CANDIDATES, curvature
from attnprune_verify.experiments.beyond.report import beyond_summary, pays
from attnprune_verify.experiments.beyond.run import BeyondPlan, run_beyond
from attnprune_verify.experiments.paired import Truth, verdicts
from attnprune_verify.experiments.synthetic.data import Cell, SyntheticProblem, draw
from attnprune_verify.model.objective import Objective

TINY = BeyondPlan(("shared",), (4,), (1 / 32,), seeds=2, n=12, d=6)


@pytest.fixture(scope="module")
def small() -> SyntheticProblem:
    return draw(Cell("independent", 0, 4, 16, 6, scale=0.05))


@pytest.mark.parametrize("name", CANDIDATES)
def test_candidates_prune_what_they_must(name: str, small: SyntheticProblem) -> None:
    weight = CANDIDATES[name](small, 0.5)
    assert weight.shape == small.W.shape and np.isfinite(weight).all()
    if name == "tuned-pair":
        return  # a product of two pruned matrices
    assert np.count_nonzero(weight == 0) == 18
    if name != "tuned-fused":
        np.testing.assert_array_equal(weight[weight != 0], small.W[weight != 0])


def test_swaps_lower_the_exact_loss() -> None:
    problem = draw(Cell("independent", 0, 8, 16, 16, scale=0.05))
    objective = Objective(problem.X, problem.W, 0.0, "causal")
    start = 1.0 - magnitude_mask(problem.W, 0.5)
    swapped = (CANDIDATES["swaps"](problem, 0.5) != 0).astype(float)
    assert objective.loss(swapped) < 0.8 * objective.loss(start)


def test_curvature_is_the_diagonal_of_the_hessian_where_nothing_is_pruned(small: SyntheticProblem) -> None:
    objective = Objective(small.X, small.W, 0.0, "causal")
    basis = np.eye(36).reshape(36, 6, 6)
    diagonal = [np.vdot(unit, objective.hessian_vector_product(np.ones((6, 6)), unit)) for unit in basis]
    np.testing.assert_allclose(curvature(small, small.W).ravel(), diagonal, rtol=1e-8)


def rows(**errors: list[float]) -> list[dict[str, object]]:
    return [
        {"method": name.replace("_", "-"), "rho": 0.5, "seed": seed, "out_mean": value, "in_mean": value, "k": 4}
        for name, values in errors.items()
        for seed, value in enumerate(values)
    ]


def test_paying_means_below_all_three() -> None:
    rivals = {"wanda": [0.9, 0.8, 0.7], "sparsegpt": [0.7, 0.6, 0.5], "magnitude_fused": [0.5, 0.4, 0.31]}

    def truth(*new: float, **others: list[float]) -> Truth:
        return verdicts([pays(rows(new=[*new], **others), "new", 0.5, k=4)])[0]

    assert truth(0.3, 0.2, 0.1, **rivals) is True
    assert truth(0.6, 0.5, 0.4, **rivals) is False
    assert truth(0.1, 0.6, 0.2, **rivals) is None
    assert truth(0.1, 0.1, 0.1) is None  # nobody to beat was measured
    assert verdicts([pays(rows(**rivals), "new", 0.5, k=4)]) == [None]


def test_runs_are_kept_and_summed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run_beyond(TINY, tmp_path)
    text = beyond_summary(TINY, found)
    assert all(name in text for name in (*CANDIDATES, "magnitude-fused", "2 seeds"))

    def forbidden(_: object) -> None:
        raise AssertionError("a finished run was repeated")

    monkeypatch.setattr(beyond, "perform", forbidden)
    assert run_beyond(TINY, tmp_path) == found


@pytest.mark.parametrize(
    "change,message",
    [
        ({"ks": (1,)}, "k must be"),
        ({"rhos": (2.0,)}, "rho"),
        ({"scales": (0.0,)}, "scale"),
        ({"seeds": 0}, "seeds"),
        ({"candidates": ("magic",)}, "candidates must be one of"),
        ({"weights": ()}, "at least one of weights"),
    ],
)
def test_bad_plans(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInstance, match=message):
        replace(TINY, **change)  # type: ignore[arg-type]


@pytest.mark.thorough
def test_tuning_the_kept_pair_pays_in_the_papers_setting_with_64_samples() -> None:
    plan = BeyondPlan(("independent",), (64,), (1.0,), seeds=3, candidates=("tuned-pair", "algorithm"))
    measured = run_beyond(plan)
    regime = {"weights": "independent", "k": 64, "scale": 1.0}
    family = [pays(measured, name, 0.5, **regime) for name in plan.candidates]
    assert verdicts(family) == [True, False]


def test_lam_is_chosen_on_samples_that_no_descent_saw(small: SyntheticProblem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three quarters are fitted, the last is judged, and the mask with the least error there is taken."""
    seen: dict[str, list[np.ndarray]] = {"fitted": [], "judged": []}

    class Judged:
        def __init__(self, X: np.ndarray, *_: object) -> None:
            seen["judged"].append(X)

        def relative_error(self, mask: np.ndarray) -> float:
            return float(abs(mask[0, 0] - 3))

    def descended(problem: SyntheticProblem, rho: float, *, factor: float, X: np.ndarray) -> SimpleNamespace:
        seen["fitted"].append(X)
        return SimpleNamespace(mask=np.full(problem.W.shape, float(len(seen["fitted"]))))

    monkeypatch.setattr(candidates, "Objective", Judged)
    monkeypatch.setattr(candidates, "_descend", descended)
    weight = candidates.held_out_lambda(small, 0.5)
    np.testing.assert_array_equal(weight, 3 * small.W)
    assert len(seen["fitted"]) == 5
    for X in seen["fitted"]:
        np.testing.assert_array_equal(np.concatenate([X, *seen["judged"]]), small.X)
    assert len(seen["judged"][0]) == len(small.X) // 4
