"""Tiny model folders written with NumPy alone, in the layout of real ones."""

import json

import numpy as np
from safetensors.numpy import save_file

SIZES = {"d": 8, "inner": 12, "heads": 4, "depth": 2, "vocabulary": 30, "longest": 16}


def bert_config():
    return {
        "model_type": "bert", "hidden_size": 8, "intermediate_size": 12, "num_attention_heads": 4,
        "num_hidden_layers": 2, "vocab_size": 30, "max_position_embeddings": 16, "type_vocab_size": 2,
        "layer_norm_eps": 1e-12, "hidden_act": "gelu",
    }  # fmt: skip


def llama_config():
    return {
        "model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "num_attention_heads": 4,
        "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 30, "max_position_embeddings": 16,
        "rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 100.0,
    }  # fmt: skip


def bert_tensors(rng):
    d, inner = 8, 12
    shapes = {
        "embeddings.word_embeddings.weight": (30, d),
        "embeddings.position_embeddings.weight": (16, d),
        "embeddings.token_type_embeddings.weight": (2, d),
        "embeddings.LayerNorm.weight": (d,),
        "embeddings.LayerNorm.bias": (d,),
    }
    for i in range(2):
        name = f"encoder.layer.{i}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            shapes |= {f"{name}.attention.{part}.weight": (d, d), f"{name}.attention.{part}.bias": (d,)}
        shapes |= {f"{name}.intermediate.dense.weight": (inner, d), f"{name}.intermediate.dense.bias": (inner,)}
        shapes |= {f"{name}.output.dense.weight": (d, inner), f"{name}.output.dense.bias": (d,)}
        for part in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{name}.{part}.weight": (d,), f"{name}.{part}.bias": (d,)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def llama_tensors(rng):
    d, inner = 8, 12
    shapes = {"model.embed_tokens.weight": (30, d), "model.norm.weight": (d,)}
    for i in range(2):
        name = f"model.layers.{i}"
        shapes |= {f"{name}.input_layernorm.weight": (d,), f"{name}.post_attention_layernorm.weight": (d,)}
        shapes |= {f"{name}.self_attn.{part}_proj.weight": (d, d) for part in "qo"}
        shapes |= {f"{name}.self_attn.{part}_proj.weight": (4, d) for part in "kv"}
        shapes |= {f"{name}.mlp.{part}_proj.weight": (inner, d) for part in ("gate", "up")}
        shapes |= {f"{name}.mlp.down_proj.weight": (d, inner)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def write_folder(folder, config, tensors):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, str(folder / "model.safetensors"))
    return folder


def write_sharded(folder, config, tensors, names=("one.safetensors", "two.safetensors")):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    half = len(tensors) // 2
    items = list(tensors.items())
    for name, part in zip(names, (items[:half], items[half:]), strict=True):
        save_file(dict(part), str(folder / name))
    weight_map = {key: names[index >= half] for index, (key, _) in enumerate(items)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder
