"""Budgets between the maps: the total is exact, and who has more to lose keeps more."""

import numpy as np
import pytest

pytest.importorskip("safetensors", reason="reading model folders needs the extra 'real'")

from attnprune_verify.algorithms.arguments import pruned_count  # noqa: E402  # after the skips
from attnprune_verify.pretrained import load_pretrained  # noqa: E402
from attnprune_verify.whole_model import budgets  # noqa: E402
from attnprune_verify.whole_model.budgets import zeros_by_map  # noqa: E402
from attnprune_verify.whole_model.plan import Plan  # noqa: E402
from tests.whole_model.small import MODEL  # noqa: E402

IDS = np.random.default_rng(0).integers(1, 1000, (2, 24))


@pytest.fixture(scope="module")
def small():
    return load_pretrained(MODEL, dtype=np.float32)


def _sizes(model, plan):
    return [
        {role: model.block(i).weight(role).size for role in plan.maps_of(i, model.block(i))} for i in range(model.depth)
    ]


@pytest.mark.parametrize("rho", [0.0, 0.03, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("hold", [(), (0, 1)])
def test_owl_prunes_as_much_in_all_as_one_ratio_would(small, rho, hold):
    plan = Plan("output-obs", "wanda", rho, budget="owl", hold=hold)
    zeros, sizes = zeros_by_map(small, IDS, plan), _sizes(small, plan)
    both = [(block[role], size) for block, of in zip(zeros, sizes, strict=True) for role, size in of.items()]
    assert all(0 <= count <= size for count, size in both)
    if len(hold) < small.depth:
        assert sum(count for count, _ in both) == pruned_count(rho, sum(size for _, size in both))
    for index in hold:
        assert zeros[index] == {role: pruned_count(rho, size) for role, size in sizes[index].items()}


def test_owl_spares_the_block_with_the_outliers(small):
    """One weight in two hundred of the second block's values made large."""
    weight = small.block(1).weight("V").copy()
    weight.ravel()[::200] *= 50
    plan = Plan("dense", "wanda", 0.5, budget="owl")
    zeros = zeros_by_map(small.with_weights({(1, "V"): weight}), IDS, plan)
    shares = [sum(of.values()) / sum(size.values()) for of, size in zip(zeros, _sizes(small, plan), strict=True)]
    assert min(shares) == shares[1] and max(shares) - min(shares) == pytest.approx(0.16, abs=1e-3)  # twice OWL's 0.08


def test_owl_with_the_sign_turned_is_noticed(small, monkeypatch):
    right = budgets.owl_ratios
    monkeypatch.setattr(
        budgets, "owl_ratios", lambda shares, rho: {k: 2 * rho - v for k, v in right(shares, rho).items()}
    )
    with pytest.raises(AssertionError):
        test_owl_spares_the_block_with_the_outliers(small)
