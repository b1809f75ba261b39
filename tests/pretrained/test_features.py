"""What a configuration asks for and this package does not compute is refused by name, before anything is computed."""

import json

import numpy as np
import pytest

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.pretrained import load_pretrained

pytest.importorskip("safetensors", reason="reading model folders needs the extra 'real'")

from tests.pretrained.folders import (  # noqa: E402  # after the skip
    bert_config,
    bert_tensors,
    llama_config,
    llama_tensors,
    write_folder,
)

YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4}
LLAMA_CHANGES = [
    {"attn_logit_softcapping": 50.0},
    {"final_logit_softcapping": 30.0},
    {"query_pre_attn_scalar": 256},
    {"use_qk_norm": True},
    {"qk_layernorm": True},
    {"clip_qkv": 8.0},
    {"num_experts": 8, "num_experts_per_tok": 2},
    {"num_local_experts": 8},
    {"moe_intermediate_size": 64},
    {"partial_rotary_factor": 0.5},
    {"rotary_pct": 0.25},
    {"attention_multiplier": 0.1},
    {"residual_multiplier": 0.2},
    {"embedding_multiplier": 12.0},
    {"logits_scaling": 8.0},
    {"logit_scale": 0.0625},
    {"alibi": True},
    {"sliding_window": 4},
    {"layer_types": ["full_attention", "linear_attention"]},
    {"no_rope_layers": [1, 0]},
    {"attention_chunk_size": 8},
    {"quantization_config": {"quant_method": "gptq"}},
    {"auto_map": {"AutoModelForCausalLM": "modeling.Special"}},
    {"hidden_act": "relu2"},
    {"rope_scaling": YARN},
    {"rope_parameters": YARN},
    {"rope_parameters": {"rope_type": "longrope", "short_factor": [1.0], "rope_theta": 1e4}},
    {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}},
    {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
    {"rope_scaling": {"rope_type": "linear", "factor": 2.0, "attention_factor": 1.2}},
    {"model_type": "qwen3"},
    {"model_type": "mixtral"},
    {"model_type": "gemma2"},
]


def _name_of(change):
    name, value = next(iter(change.items()))
    inner = [key for key in value if key in ("attention_factor", "partial_rotary_factor")] if name[:4] == "rope" else []
    return inner[0] if inner else "rope_type" if name[:4] == "rope" else name


@pytest.mark.parametrize("change", LLAMA_CHANGES, ids=json.dumps)
def test_refused_by_name(tmp_path, change):
    folder = write_folder(tmp_path / "model", llama_config() | change, llama_tensors(np.random.default_rng(0)))
    with pytest.raises(InvalidInstance, match=_name_of(change)):
        load_pretrained(folder)


@pytest.mark.parametrize("name", ["layers.0.self_attn.q_norm.weight", "layers.1.mlp.experts.0.up_proj.weight"])
def test_a_tensor_that_would_not_be_used_is_refused_by_name(tmp_path, name):
    tensors = llama_tensors(np.random.default_rng(0)) | {f"model.{name}": np.ones(2, np.float32)}
    with pytest.raises(InvalidInstance, match=f"{name}.* not computed"):
        load_pretrained(write_folder(tmp_path / "model", llama_config(), tensors))


@pytest.mark.parametrize(
    "change", [{"position_embedding_type": "relative_key"}, {"is_decoder": True}, {"add_cross_attention": True}]
)
def test_an_encoder_that_is_computed_otherwise(tmp_path, change):
    folder = write_folder(tmp_path / "model", bert_config() | change, bert_tensors(np.random.default_rng(0)))
    with pytest.raises(InvalidInstance, match=next(iter(change))):
        load_pretrained(folder)


def test_features_that_are_switched_off_are_no_reason(tmp_path):
    off = {"clip_qkv": None, "use_qk_norm": False, "num_experts": 0, "rope_scaling": None, "eos_token_id": [1, 2]}
    folder = write_folder(tmp_path / "model", llama_config() | off, llama_tensors(np.random.default_rng(0)))
    assert load_pretrained(folder).depth == 2


def test_an_encoder_and_a_bare_network_predict_nothing(tmp_path):
    rng, ids = np.random.default_rng(0), [[1, 2, 3]]
    with pytest.raises(InvalidInstance, match="an encoder .* has no logits"):
        load_pretrained(write_folder(tmp_path / "bert", bert_config(), bert_tensors(rng))).perplexity(ids)
    bare = load_pretrained(write_folder(tmp_path / "bare", llama_config(), llama_tensors(rng)))
    with pytest.raises(InvalidInstance, match="lm_head.weight"):
        bare.logits(ids)


def test_a_tied_head_must_not_contradict_the_embeddings(tmp_path):
    tensors, config = llama_tensors(np.random.default_rng(0)), llama_config() | {"tie_word_embeddings": True}
    embeddings, ids = tensors["model.embed_tokens.weight"], [[1, 2, 3]]
    plain = load_pretrained(write_folder(tmp_path / "tied", config, tensors)).logits(ids)
    same = write_folder(tmp_path / "same", config, tensors | {"lm_head.weight": embeddings})
    np.testing.assert_array_equal(load_pretrained(same).logits(ids), plain)
    other = write_folder(tmp_path / "other", config, tensors | {"lm_head.weight": 2 * embeddings})
    with pytest.raises(InvalidInstance, match="tie_word_embeddings is true, but"):
        load_pretrained(other).logits(ids)
    untied = write_folder(
        tmp_path / "untied", config | {"tie_word_embeddings": False}, tensors | {"lm_head.weight": 2 * embeddings}
    )
    np.testing.assert_allclose(load_pretrained(untied).logits(ids), 2 * plain)
