"""Tuning the kept weights of a pruned pair."""

from __future__ import annotations

import numpy as np
import pytest

from attnprune_verify.algorithms import refit
from attnprune_verify.algorithms.baselines.magnitude import magnitude_mask
from attnprune_verify.algorithms.refit import refit_pair
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.model import attention, factored_loss


def problem(k: int = 8, n: int = 12, d: int = 6) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    X, W_Q, W_K = rng.normal(size=(k, n, d)), 0.6 * rng.normal(size=(d, d)), 0.6 * rng.normal(size=(d, d))
    return X, W_Q, W_K, ~magnitude_mask(W_Q, 0.5), ~magnitude_mask(W_K, 0.5)


def test_pruned_entries_stay_zero_and_the_judged_samples_gain() -> None:
    X, W_Q, W_K, kept_Q, kept_K = problem()
    tuned = refit_pair(X, W_Q, W_K, kept_Q, kept_K, mask="causal", steps=60)
    assert not tuned.W_Q[~kept_Q].any() and not tuned.W_K[~kept_K].any()
    assert np.count_nonzero(tuned.W_Q) == kept_Q.sum()
    # The loss on the last quarter, recomputed from the weights that came back.
    judged = X[-2:]
    dense = attention(judged, W_Q @ W_K.T, "causal")
    loss = 0.5 * np.sum((attention(judged, tuned.W_Q @ tuned.W_K.T, "causal") - dense) ** 2) / 2
    at = tuned.validation[tuned.validation[:, 0] == tuned.steps, 1][0]
    assert loss == pytest.approx(at, rel=1e-9)
    assert at == tuned.validation[:, 1].min() < 0.7 * tuned.validation[0, 1]


def test_the_judged_samples_are_not_tuned_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    original = refit.factored_gradient

    def watched(M_Q, M_K, X, *rest):  # type: ignore[no-untyped-def]
        seen.append(np.array(X))
        return original(M_Q, M_K, X, *rest)

    monkeypatch.setattr(refit, "factored_gradient", watched)
    X, *rest = problem()
    refit_pair(X, *rest, steps=3, validation=0.5)
    assert all(np.array_equal(samples, X[:4]) for samples in seen) and len(seen) == 3


def test_it_falls_back_to_the_start_when_tuning_hurts() -> None:
    X, W_Q, W_K, kept_Q, kept_K = problem()
    tuned = refit_pair(X, W_Q, W_K, kept_Q, kept_K, steps=10, rate=50.0)
    assert tuned.steps == 0
    np.testing.assert_array_equal(tuned.W_Q, kept_Q * W_Q)


def test_nothing_pruned_is_left_alone() -> None:
    X, W_Q, W_K, *_ = problem()
    ones = np.ones_like(W_Q)
    tuned = refit_pair(X, W_Q, W_K, ones, ones, steps=10)
    assert tuned.steps == 0 and tuned.validation[0, 1] == 0
    np.testing.assert_array_equal(tuned.W_K, W_K)


def test_it_repeats_and_leaves_its_inputs_alone() -> None:
    inputs = problem()
    copies = [array.copy() for array in inputs]
    first, second = refit_pair(*inputs, steps=10), refit_pair(*inputs, steps=10)
    np.testing.assert_array_equal(first.W_Q, second.W_Q)
    for array, copy in zip(inputs, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_float32_stays() -> None:
    tuned = refit_pair(*(array.astype(np.float32) for array in problem()), steps=5)
    assert tuned.W_Q.dtype == np.float32 and np.isfinite(tuned.W_Q).all()


def test_rectangular_pairs() -> None:
    X, W_Q, W_K, kept_Q, kept_K = (array[..., :3] if array.ndim == 2 else array for array in problem())
    tuned = refit_pair(X, W_Q, W_K, kept_Q, kept_K, steps=30)
    start = factored_loss(kept_Q, kept_K, X, W_Q, W_K)
    ones = np.divide(tuned.W_Q, W_Q), np.divide(tuned.W_K, W_K)
    assert factored_loss(*ones, X, W_Q, W_K) < start


@pytest.mark.parametrize(
    "change,message",
    [
        ({"X": np.ones((12, 6))}, "at least two samples"),
        ({"X": np.ones((1, 12, 6))}, "at least two samples"),
        ({"X": np.full((2, 12, 6), np.nan)}, "finite"),
        ({"kept_Q": np.full((6, 6), 0.5)}, "kept_Q must hold only 0 and 1; got 0.5"),
        ({"kept_K": np.ones((6, 5))}, "kept_K has m = 5"),
        ({"steps": -1}, "steps"),
        ({"rate": 0.0}, "rate"),
        ({"validation": 0.0}, "validation"),
        ({"validation": 1.0}, "validation"),
    ],
)
def test_bad_input(change: dict[str, object], message: str) -> None:
    names = ("X", "W_Q", "W_K", "kept_Q", "kept_K")
    arguments = dict(zip(names, problem(), strict=True)) | change
    with pytest.raises(InvalidInstance, match=message):
        refit_pair(**arguments)  # type: ignore[arg-type]
