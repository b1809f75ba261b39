"""`prune_` on tiny random models of many types: blocks, maps and their roles are found by structure."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="pruning torch models needs the extra 'torch'")
transformers = pytest.importorskip("transformers", reason="pruning torch models needs transformers")

from attnprune_verify.errors import InvalidInstance  # noqa: E402  # after the skips
from attnprune_verify.torch import prune_  # noqa: E402
from attnprune_verify.torch.moments import InputMoments  # noqa: E402
from tests.whole_model.decoders import (  # noqa: E402
    IDS,
    REFUSED,
    TYPES,
    bytes_of,
    damage,
    judge,
    reloaded,
    tiny,
)

QUICK = ("qwen3_moe", "gpt2", "gpt_oss")
"""Chosen: norms of queries and keys with experts fused by the library, a transposed fused map, biased experts."""


def pruned(dense, method="auto", **choices):
    model = copy.deepcopy(dense)
    report = prune_(
        model, IDS, **({"rho": 0.5, "budget": "matrix", "reconstruct": 0} | choices), attention=method, rest=method
    )
    return model, report


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.thorough) for kind in TYPES]
)
def test_exact_zeros_and_nothing_else_also_when_read_again(kind, tmp_path):
    dense = tiny(kind)
    before = bytes_of(dense)
    model, report = pruned(dense)
    after = bytes_of(model)
    judge(before, after, report, 0.5)
    again = bytes_of(reloaded(model, tmp_path))
    assert again.keys() == after.keys()
    assert all(torch.equal(again[name], after[name]) for name in after)
    ours, theirs = (
        damage(dense, model, IDS),
        [damage(dense, pruned(dense, m)[0], IDS) for m in ("sparsegpt", "magnitude")],
    )
    assert 0 < ours < min(theirs)


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_chain_of_blocks_is_refused_by_name(kind):
    dense = tiny(kind)
    before = bytes_of(dense)
    with pytest.raises(InvalidInstance, match=REFUSED[kind]):
        prune_(dense, IDS, 0.5)
    assert all(torch.equal(tensor, before[name]) for name, tensor in bytes_of(dense).items())


def test_a_wrong_pairing_of_maps_and_moments_shows(monkeypatch):
    """Maps that are given another map's moments of the same size: the order of the methods does not survive it."""
    dense = tiny("llama", intermediate_size=32)
    right = damage(dense, pruned(dense)[0], IDS)
    finish = InputMoments.finish

    def of_another(self, factor):
        others = [other for other in self._sources if self._sources[other] != self._sources[factor]]
        return finish(self, others[0])

    monkeypatch.setattr(InputMoments, "finish", of_another)
    wrong = damage(dense, pruned(dense)[0], IDS)
    monkeypatch.undo()
    assert right < damage(dense, pruned(dense, "sparsegpt")[0], IDS) < wrong
