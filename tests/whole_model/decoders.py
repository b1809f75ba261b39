"""Tiny random models of many types of transformers, and what pruning must leave of each."""

import math

import numpy as np
import torch
import transformers

COMMON = {
    "vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
ROUTED = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "n_group": 2, "topk_group": 1}
LATENT = {
    "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8,
    "v_head_dim": 8,
}  # fmt: skip
HEADS = {"head_dim": 8}

WANTED = {
    "llama": {},
    "mistral": {},
    "qwen2": {},
    "qwen3": HEADS,
    "qwen3_moe": HEADS | EXPERTS,
    "mixtral": {"num_local_experts": 4},
    "gemma": HEADS,
    "gemma2": HEADS | {"query_pre_attn_scalar": 8, "sliding_window": 8},
    "gemma3_text": HEADS
    | {"query_pre_attn_scalar": 8, "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]},
    "phi": {},
    "phi3": {},
    "olmo": {},
    "olmo2": {},
    "gpt2": GPT,
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "gpt_neox": {},
    "stablelm": {},
    "cohere": {},
    "granite": {},
    "smollm3": {},
    "starcoder2": {},
    "exaone4": {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]},
    "ministral": HEADS,
    "ernie4_5": HEADS,
    "gpt_oss": HEADS | {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8},
    "deepseek_v3": LATENT | ROUTED | {"first_k_dense_replace": 1, "n_shared_experts": 1},
}
OTHERS = {
    "bloom": {"n_head": 4, "n_layer": 2},
    "falcon": {},
    "mpt": {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64, "expansion_ratio": 2},
    "codegen": GPT | {"rotary_dim": 4, "n_ctx": 64},
    "gptj": GPT | {"rotary_dim": 4},
    "gpt_neo": {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 8},
    "gpt_bigcode": GPT | {"n_inner": 48},
    "openai-gpt": GPT,
    "phimoe": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "olmoe": EXPERTS,
    "nemotron": {},
    "glm": HEADS,
    "glm4": HEADS,
    "helium": HEADS,
    "qwen2_moe": EXPERTS | {"shared_expert_intermediate_size": 40, "decoder_sparse_step": 1},
    "hunyuan_v1_dense": HEADS,
    "hunyuan_v1_moe": HEADS | {"num_experts": 4, "moe_topk": 2},
    "granitemoe": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "jetmoe": {"num_local_experts": 4, "kv_channels": 8},
    "cohere2": {"sliding_window": 8},
    "dbrx": {
        "d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64,
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 1e4},
        "ffn_config": {"ffn_hidden_size": 48, "moe_num_experts": 4, "moe_top_k": 2, "hidden_size": 32},
    },
    "persimmon": {},
    "seed_oss": HEADS,
    "apertus": {},
    "olmo3": {"sliding_window": 8},
    "llama4_text": HEADS
    | {"intermediate_size_mlp": 48, "num_local_experts": 4, "interleave_moe_layer_step": 1, "attention_chunk_size": 16},
    "qwen3_next": HEADS
    | EXPERTS
    | {
        "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
        "shared_expert_intermediate_size": 24, "layer_types": ["linear_attention", "full_attention"],
    },
    "minimax": HEADS | {"num_local_experts": 4, "block_size": 16},
    "mamba": {"state_size": 8},
    "bitnet": {},
}  # fmt: skip
REFUSED = {
    "xlm-roberta": "'xlm-roberta' looks at later ones",
    "gemma3n_text": "model.layers of 'gemma3n_text' does not",
    "bart": "encoder_attn.k_proj.weight .Linear. does not",
}
"""Types that are refused, and what by."""
TYPES = WANTED | OTHERS
UNUSUAL = {
    "gemma3n_text": HEADS
    | {
        "num_hidden_layers": 4, "num_kv_shared_layers": 2, "laurel_rank": 4, "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": 97, "altup_num_inputs": 2, "activation_sparsity_pattern": [0.0] * 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    },
    "xlm-roberta": {},
    "bart": {"d_model": 32, "decoder_layers": 2, "encoder_layers": 2, "decoder_ffn_dim": 48, "encoder_ffn_dim": 48},
}  # fmt: skip
IDS = torch.from_numpy(np.random.default_rng(0).integers(3, 97, (4, 24)))


def tiny(kind, seed=0, **changes):
    """A model of this type with random weights."""
    torch.manual_seed(seed)
    mapping = transformers.models.auto.configuration_auto.CONFIG_MAPPING
    config = mapping[kind](**(COMMON | (TYPES | UNUSUAL)[kind] | changes))
    return transformers.AutoModelForCausalLM.from_config(config).float().eval()


def bytes_of(model):
    """Every tensor of a model."""
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def judge(before, after, report, rho, *, divided=False):
    """Raise unless every pruned tensor has floor(rho size) zeros a matrix and everything else is as before.

    Where budgets divided the zeros among matrices their sum is floor(rho size) of all.
    """
    rows = {row["name"]: row for row in report["tensors"]}
    assert rows
    for name, tensor in after.items():
        if name not in rows:
            assert torch.equal(tensor, before[name]), name
            continue
        matrices = tensor.flatten(0, -3) if tensor.dim() > 2 else tensor[None]
        for matrix in matrices:
            assert divided or int((matrix == 0).sum()) == math.floor(rho * matrix.numel()), name
        assert rows[name]["zeros"] == int((tensor == 0).sum()) and rows[name]["size"] == tensor.numel()
    assert not divided or report["zeros"] == math.floor(rho * report["size"])


def reloaded(model, folder):
    """The model as transformers reads it from the folder it writes it to."""
    model.save_pretrained(folder)
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto")


def damage(dense, pruned, ids):
    """Mean squared change of the states after the last block, relative to their size."""
    states = []
    for model in (dense, pruned):
        with torch.no_grad():
            found = model(input_ids=ids, use_cache=False, output_hidden_states=True).hidden_states
        states.append(found)
    return float(sum((a - b).square().sum() / a.square().sum() for a, b in zip(*states, strict=True)))
