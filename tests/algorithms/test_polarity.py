"""Two ways to write a pruning mask, and none that keeps the wrong half in silence."""

import pickle

import numpy as np
import pytest

import attnprune_verify as apv

RNG = np.random.default_rng(0)
W, X = RNG.standard_normal((4, 6)), RNG.standard_normal((9, 6))
PRUNED = [
    pytest.param(lambda: apv.magnitude_mask(W, 0.5), id="magnitude_mask"),
    pytest.param(lambda: apv.wanda_mask(W, X, 0.5), id="wanda_mask"),
    pytest.param(lambda: apv.sparsegpt(W, X, 0.5)[1], id="sparsegpt"),
]


@pytest.mark.parametrize("made", PRUNED)
def test_what_is_pruned_cannot_be_multiplied_by(made):
    mask = made()
    refused = [
        lambda: W * mask,
        lambda: mask * W,
        lambda: mask * 2,
        lambda: np.multiply(W, mask),
        lambda: W.copy().__imul__(mask),
    ]
    for product in refused:
        with pytest.raises(apv.InvalidInstance, match=r"use mask\.kept"):
            product()


@pytest.mark.parametrize("made", PRUNED)
def test_kept_is_the_mask_of_the_other_functions(made):
    mask = made()
    assert mask.dtype == bool and mask.any() and not mask.all()
    np.testing.assert_array_equal(mask.kept, np.where(mask, 0, 1))
    np.testing.assert_array_equal((W * mask.kept)[mask], 0)
    np.testing.assert_array_equal((W * mask.kept)[~mask], W[~mask])


def test_it_is_a_bool_array_otherwise():
    mask = apv.magnitude_mask(W, 0.5)
    assert type(~mask) is np.ndarray and (~mask == (mask.kept == 1)).all()
    assert int(mask.sum()) == 12 and mask.mean() == 0.5 and (mask | ~mask).all() and not (mask * ~mask).any()
    np.testing.assert_array_equal(np.where(mask, 0, W), W * mask.kept)
    np.testing.assert_array_equal(1 - mask, mask.kept)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(mask)), mask)
    out = mask.copy()
    np.logical_not(mask, out=out)
    assert (out == ~mask).all()


def test_keeping_the_largest_agrees_with_binary_mask():
    np.testing.assert_array_equal(apv.magnitude_mask(W, 0.5).kept, apv.binary_mask(np.abs(W), 0.5))
