"""The named families are what their names say, and reproducible."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance import families
from attnprune_verify.instance.problem import Instance
from attnprune_verify.strategies import family_instances, instances


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.mark.parametrize("name", sorted(families.FAMILIES))
def test_reproducible(name):
    first, second, other = (families.FAMILIES[name](np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.X, second.X)
    np.testing.assert_array_equal(first.W, second.W)
    assert not np.array_equal(first.X, other.X) or not np.array_equal(first.W, other.W)


def test_paper_synthetic_has_rank_four_weights(rng):
    separate, shared = families.paper_synthetic(rng), families.paper_synthetic(rng, shared=True, k=2)
    for instance in (separate, shared):
        assert np.linalg.matrix_rank(instance.W_Q) == np.linalg.matrix_rank(instance.W_K) == 4
        assert instance.mask == "causal" and instance.lam == 0.04 and instance.d == 64
    assert not np.allclose(separate.W_Q, separate.W_K) and np.array_equal(shared.W_Q, shared.W_K)
    # The four largest of 64 singular values of a Gaussian matrix lie just below 2 sqrt(64).
    assert 13.5 < np.linalg.svd(separate.W_Q, compute_uv=False)[0] < 18


def test_sizes_of_logits(rng):
    def largest(instance):
        return np.abs(instance.X @ instance.W @ instance.X.T).max()

    assert largest(families.benign(rng, scale=0.1)) == pytest.approx(0.1)
    assert largest(families.saturated(rng, scale=1000.0)) == pytest.approx(1000.0)


def test_geometry(rng):
    orthonormal = families.orthonormal_constant(rng)
    np.testing.assert_allclose(orthonormal.X @ orthonormal.X.T, np.eye(4), atol=1e-14)
    assert np.unique(np.abs(orthonormal.W)).size == 1
    repeated = families.repeated_tokens(rng)
    np.testing.assert_array_equal(repeated.X[0], repeated.X[-1])
    assert (families.zero_weights(rng).W == 0).any()
    assert families.one_token(rng).n == 1 and families.one_feature(rng).d == 1
    wide = families.more_tokens_than_features(rng)
    assert wide.n > wide.d
    assert np.linalg.svd(families.near_singular(rng).X, compute_uv=False)[-1] == pytest.approx(1e-9, rel=1e-5)


def test_masks(rng):
    block = families.block_mask(rng, n=6, blocks=3).allowed
    assert block.sum() == 12 and (block == block.T).all()
    band = families.banded_mask(rng, n=5, d=5, width=1).allowed
    assert band.sum() == 9 and not np.triu(band, 1).any()


@pytest.mark.parametrize("sizes", [dict(n=0), dict(d=-1), dict(n=2.5), dict(n=7, d=3)])
def test_impossible_sizes(rng, sizes):
    with pytest.raises(InvalidInstance):
        families.orthonormal_constant(rng, **sizes)


@given(st.data())
@settings(max_examples=30)
def test_strategies_give_valid_instances(data):
    assert data.draw(instances(max_n=3, max_d=2)).n <= 3
    assert isinstance(data.draw(family_instances()), Instance)
    assert isinstance(data.draw(st.from_type(Instance)), Instance)
