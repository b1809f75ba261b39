"""Counts by formula are those of the tensors themselves."""

import json
from math import prod

import pytest

pytest.importorskip("safetensors", reason="reading model folders needs the extra 'real'")

from safetensors import safe_open  # noqa: E402  # after the skip

from attnprune_verify.pretrained.counts import LLAMA_3_2_1B, parameter_counts  # noqa: E402
from tests.whole_model.small import MODEL  # noqa: E402

PLACES = {"Q": "q_proj", "K": "k_proj", "V": "v_proj", "O": "o_proj", "gate": "gate_proj", "up": "up_proj"}
PLACES |= {"down": "down_proj", "norms": "norm", "embedding": "embed_tokens", "head": "lm_head"}


def test_the_counts_are_those_of_the_files():
    found = dict.fromkeys(PLACES, 0)
    with safe_open(MODEL / "model.safetensors", "numpy") as tensors:
        for name in tensors.keys():  # noqa: SIM118  # no mapping
            (place,) = (place for place, part in PLACES.items() if part in name)
            found[place] += prod(tensors.get_slice(name).get_shape())
    counts = parameter_counts(json.loads((MODEL / "config.json").read_text()))
    assert counts == found and counts["K"] < counts["Q"]


def test_a_head_of_its_own_and_a_default_head_size():
    untied = parameter_counts(
        {key: value for key, value in LLAMA_3_2_1B.items() if key not in ("tie_word_embeddings", "head_dim")}
    )
    assert untied["head"] == untied["embedding"] and untied["Q"] == 16 * 2048 * 2048


def test_transformers_counts_the_same():
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA_3_2_1B))
    assert sum(parameter.numel() for parameter in model.parameters()) == sum(parameter_counts(LLAMA_3_2_1B).values())
