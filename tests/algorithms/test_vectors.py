"""The baselines equal the original programs (SparseGPT 147d2159, Wanda 8e8fc87b, in float32) on the stored vectors."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnprune_verify.algorithms.arrays import inverse_factor
from attnprune_verify.algorithms.baselines.sparsegpt import sparsegpt, sparsegpt_report
from attnprune_verify.algorithms.baselines.wanda import wanda_report

FOLDER = Path(__file__).parent / "vectors"
NAMES = sorted(path.stem for path in FOLDER.glob("*.npz"))
assert len(NAMES) == 7


def stored(name: str) -> dict[str, Any]:
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as file:
        return {"name": name, **file}


@pytest.fixture(params=NAMES)
def vector(request: pytest.FixtureRequest) -> dict[str, Any]:
    result = stored(request.param)
    if "X" not in result:  # the inputs are those of the unstructured vector
        result |= {array: stored("64x64_s05")[array] for array in ("W", "X")}
    return result


def setting(vector: dict[str, Any]) -> dict[str, int]:
    return {"prune_n": int(vector["prune_n"]), "prune_m": int(vector["prune_m"])}


def test_wanda_mask_is_the_originals_but_for_declared_ties(vector: dict[str, Any]) -> None:
    report = wanda_report(vector["W"], vector["X"], float(vector["sparsity"]), **setting(vector))
    differs = report.pruned != vector["wanda_mask_pruned"]
    assert not (differs & ~report.undecided).any()
    assert differs.sum() == 0  # on these seven even the ties agree


def test_sparsegpt_is_the_originals(vector: dict[str, Any]) -> None:
    report = sparsegpt_report(vector["W"], vector["X"], float(vector["sparsity"]), **setting(vector))
    hard = "rank8" in vector["name"]
    reference = vector["sparsegpt_W"]
    np.testing.assert_array_equal(report.weight == 0, reference == 0)
    assert np.abs(report.weight - reference).max() <= (5e-5 if hard else 2e-6) * np.abs(reference).max()
    assert report.error == pytest.approx(float(vector["sparsegpt_error"]), rel=1e-5 if hard else 1e-6)
    assert report.weight.dtype == np.float32


def test_sparsegpt_reports_the_damping_of_the_stored_hessian(vector: dict[str, Any]) -> None:
    report = sparsegpt_report(vector["W"], vector["X"], float(vector["sparsity"]), **setting(vector))
    diagonal = vector["sparsegpt_diagonal"].astype(float)
    diagonal[diagonal == 0] = 1
    assert report.damping == pytest.approx(0.01 * diagonal.mean(), rel=1e-6)


def test_undecided_entries_are_few_unless_scores_tie(vector: dict[str, Any]) -> None:
    report = sparsegpt_report(vector["W"], vector["X"], float(vector["sparsity"]), **setting(vector))
    wanda = wanda_report(vector["W"], vector["X"], float(vector["sparsity"]), **setting(vector))
    if "ties" in vector["name"]:
        assert wanda.undecided.any()
    else:
        assert report.undecided.mean() < (5e-3 if "rank8" in vector["name"] else 1e-3)
        assert wanda.undecided.mean() < 1e-3


def one_fewer(rho: float, size: int) -> int:
    return int(rho * size) - 1


def no_update(hessian: Any) -> Any:
    """The right scores, and nothing to repair."""
    return np.diag(np.diag(inverse_factor(hessian)))


module = import_module("attnprune_verify.algorithms.baselines.sparsegpt")  # the package names its function so, too

MISTAKES = {
    "threshold-off-by-one": lambda patch: patch.setattr(module, "pruned_count", one_fewer),
    "factor-not-inverted": lambda patch: patch.setattr(module, "_inverse_cholesky", lambda h: np.linalg.cholesky(h).T),
    "lower-factor-of-inverse": lambda patch: patch.setattr(
        module, "_inverse_cholesky", lambda h: np.linalg.inv(np.linalg.cholesky(h)).T
    ),
    "no-update": lambda patch: patch.setattr(module, "_inverse_cholesky", no_update),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_vectors_catch(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    vector = stored("64x64_s05")
    with monkeypatch.context() as patch:
        MISTAKES[mistake](patch)
        new, _ = sparsegpt(vector["W"], vector["X"], 0.5)
    reference = vector["sparsegpt_W"]
    assert np.abs(new - reference).max() > 2e-6 * np.abs(reference).max()


def test_the_vectors_catch_the_wrong_axis() -> None:
    vector = stored("64x64_s05")
    assert (wanda_report(vector["W"].T, vector["X"], 0.5).pruned.T != vector["wanda_mask_pruned"]).any()
