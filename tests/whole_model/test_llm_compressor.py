"""The modifier prunes as `prune_` does, with the windows that calibration sends through the model."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pruning torch models needs the extra 'torch'")
transformers = pytest.importorskip("transformers", reason="pruning torch models needs transformers")
llmcompressor = pytest.importorskip("llmcompressor", reason="the modifier needs llmcompressor")

from attnprune_verify.errors import InvalidInstance  # noqa: E402  # after the skips
from attnprune_verify.llm_compressor import AttnPruneModifier  # noqa: E402
from attnprune_verify.torch import prune_  # noqa: E402
from tests.whole_model.small import MODEL  # noqa: E402

IDS = torch.from_numpy(np.random.default_rng(0).integers(1, 1000, (4, 40)))


@pytest.fixture(scope="module")
def small():
    return transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)


def batches(*, padded=False):
    """The windows one by one; with padding behind them, masked."""
    rows = []
    for window in IDS:
        ids, mask = window, torch.ones(len(window), dtype=torch.int64)
        if padded:
            ids, mask = (torch.cat([part, torch.zeros(8, dtype=torch.int64)]) for part in (ids, mask))
        rows.append({"input_ids": ids, "attention_mask": mask})
    return torch.utils.data.DataLoader(rows, batch_size=1)


@pytest.mark.parametrize("padded", [False, True])
def test_the_same_weights_as_by_hand(small, padded):
    by_hand, model = copy.deepcopy(small), copy.deepcopy(small)
    prune_(by_hand, [IDS], attention="sparsegpt", rest="wanda", pattern="2:4")
    modifier = AttnPruneModifier(pattern="2:4", attention="sparsegpt", rest="wanda")
    llmcompressor.oneshot(model=model, dataset=batches(padded=padded), recipe=[modifier], pipeline="basic")
    for name, parameter in by_hand.named_parameters():
        torch.testing.assert_close(model.get_parameter(name), parameter, rtol=1e-5, atol=1e-6)
    weight = model.model.layers[1].self_attn.q_proj.weight
    assert int((weight.reshape(len(weight), -1, 4) != 0).sum(-1).max()) == 2


def test_a_calibration_that_never_calls_the_model_is_refused(small):
    modifier = AttnPruneModifier(rho=0.5)
    modifier.on_calibration_start(type("State", (), {"model": copy.deepcopy(small)})(), None)
    with pytest.raises(InvalidInstance, match="pipeline='basic'"):
        modifier.on_calibration_end(None, None)
