"""What every baseline obeys: a new one in the list is judged by these without another line."""

import numpy as np
import pytest

import attnprune_verify
from attnprune_verify.algorithms.baselines.table import BASELINES, prune_by
from attnprune_verify.algorithms.methods import LAYER_METHODS
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.experiments.synthetic.rivals import RIVALS

every_baseline = pytest.mark.parametrize("name", BASELINES)


def draw(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2, 40, 24)) * rng.uniform(0.2, 3, 24)
    X[..., 5] = 0
    return rng.normal(size=(6, 24)), X


@every_baseline
def test_a_baseline_is_to_be_had_everywhere(name: str) -> None:
    program = BASELINES[name]
    assert getattr(attnprune_verify, program.__name__) is program
    assert name in LAYER_METHODS and {name, f"{name}-fused"} <= RIVALS.keys()


@every_baseline
@pytest.mark.parametrize("rho", [0.25, 0.5, 0.75])
def test_the_share_is_pruned_and_pruned_is_zero(name: str, rho: float) -> None:
    """To one entry a row, or one in all: where a method counts is its own convention."""
    weight, X = draw()
    new, pruned = prune_by(name, weight, X, rho)
    assert pruned.dtype == bool and pruned.shape == new.shape == weight.shape
    assert abs(int(pruned.sum()) - rho * weight.size) <= 1 and not new[pruned].any() and new[~pruned].all()


@every_baseline
def test_nothing_and_everything(name: str) -> None:
    weight, X = draw()
    kept, none = prune_by(name, weight, X, 0.0)
    gone, every = prune_by(name, weight, X, 1.0)
    assert not none.any() and np.array_equal(kept, weight) and every.all() and not gone.any()


@every_baseline
def test_equal_calls_are_equal_and_change_no_input(name: str) -> None:
    weight, X = draw()
    before = weight.copy(), X.copy()
    first, second = prune_by(name, weight, X, 0.5), prune_by(name, weight, X, 0.5)
    assert all(np.array_equal(*pair) for pair in zip(first, second, strict=True))
    assert np.array_equal(weight, before[0]) and np.array_equal(X, before[1])


@every_baseline
def test_a_common_factor_of_the_weight_changes_no_choice(name: str) -> None:
    weight, X = draw()
    new, pruned = prune_by(name, weight, X, 0.5)
    scaled, again = prune_by(name, -8 * weight, X, 0.5)
    assert np.array_equal(pruned, again) and np.array_equal(scaled, -8 * new)


@every_baseline
def test_outputs_may_be_taken_in_any_order(name: str) -> None:
    weight, X = draw()
    order = np.random.default_rng(1).permutation(len(weight))
    new, pruned = prune_by(name, weight, X, 0.5)
    other, again = prune_by(name, weight[order], X, 0.5)
    np.testing.assert_array_equal(again, pruned[order])
    np.testing.assert_allclose(other, new[order], rtol=1e-12)


@every_baseline
def test_float32_stays(name: str) -> None:
    weight, X = (part.astype(np.float32) for part in draw())
    assert prune_by(name, weight, X, 0.5)[0].dtype == np.float32


@every_baseline
@pytest.mark.parametrize(
    "change, message",
    [
        ({"rho": 1.5}, "rho must be in"),
        ({"rho": float("nan")}, "rho must be in"),
        ({"rho": "0.5"}, "rho must be a real number"),
        ({"weight": np.full((6, 24), np.nan)}, "weight must be finite"),
        ({"weight": np.ones((0, 24))}, "weight must not be empty"),
        ({"weight": np.ones((6, 24), dtype=complex)}, "weight must hold real numbers"),
    ],
    ids=str,
)
def test_bad_input_is_one_clear_error(name: str, change: dict, message: str) -> None:
    weight, X = draw()
    with pytest.raises(InvalidInstance, match=message) as caught:
        prune_by(name, **({"weight": weight, "X": X, "rho": 0.5} | change))
    assert "\n" not in str(caught.value)
