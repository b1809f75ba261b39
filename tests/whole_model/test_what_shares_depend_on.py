"""Shares between maps: which windows are fitted and which are judged, and random numbers that no two blocks share."""

import numpy as np
import pytest

pytest.importorskip("safetensors", reason="reading model folders needs the extra 'real'")

from attnprune_verify.pretrained import load_pretrained  # noqa: E402  # after the skips
from attnprune_verify.whole_model import blockwise, budgets  # noqa: E402
from attnprune_verify.whole_model.plan import Plan  # noqa: E402
from tests.whole_model.small import MODEL  # noqa: E402

IDS = np.random.default_rng(0).integers(1, 1000, (2, 8))
PLAN = Plan("wanda", "dense", 0.5, budget="measured")


@pytest.fixture(scope="module")
def small():
    return load_pretrained(MODEL, dtype=np.float32)


def damage(model, ids, monkeypatch):
    monkeypatch.setattr(budgets, "GRID", (0.5,))
    return np.array(list(budgets.measured_curves(model, ids, PLAN).damage.values()))


def test_curves_are_fitted_on_one_half_and_judged_on_the_other(small, monkeypatch):
    """Both windows make a difference, and so does exchanging which one fits."""
    plain = damage(small, IDS, monkeypatch)
    other = np.random.default_rng(1).integers(1, 1000, IDS.shape)
    for ids in (np.stack([other[0], IDS[1]]), np.stack([IDS[0], other[1]]), IDS[::-1]):
        assert not np.allclose(damage(small, ids, monkeypatch), plain, rtol=1e-3)


def test_no_two_blocks_and_no_two_seeds_draw_the_same_numbers(small, monkeypatch):
    """Every generator that pruning a block makes is of a seed of its own; the same block and seed make the same."""
    drawn, make = [], np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda seed: drawn.append(seed) or make(seed))

    def seeds(index, seed):
        drawn.clear()
        hidden = list(small.family.embed(IDS[:1]))
        blockwise.prune_block(small.block(0), hidden, Plan("output-obs", "wanda", 0.5, seed=seed), index)
        assert drawn
        return set(drawn)

    places = [(0, 0), (1, 0), (0, 1), (1, 1)]
    found = [seeds(*place) for place in places]
    assert all(one.isdisjoint(other) for at, one in enumerate(found) for other in found[:at])
    assert seeds(1, 1) == found[3]
