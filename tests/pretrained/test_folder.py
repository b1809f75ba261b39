"""Model folders are read without trust: every kind of damage is one clear line, and intact ones give finite numbers."""

import json
import struct

import numpy as np
import pytest

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.model.layer_functions import layer_attention
from attnprune_verify.pretrained import load_pretrained

safetensors = pytest.importorskip("safetensors", reason="reading model folders needs the extra 'real'")

from tests.pretrained.folders import (  # noqa: E402  # after the skip
    bert_config,
    bert_tensors,
    llama_config,
    llama_tensors,
    write_folder,
    write_sharded,
)

FAMILIES = {"bert": (bert_config, bert_tensors), "llama": (llama_config, llama_tensors)}
IDS = np.random.default_rng(0).integers(0, 30, (3, 9))


@pytest.fixture(params=FAMILIES)
def family(request):
    config, tensors = FAMILIES[request.param]
    return config(), tensors(np.random.default_rng(1))


def test_layers_and_hidden_states(tmp_path, family):
    config, tensors = family
    model = load_pretrained(write_folder(tmp_path / "model", config, tensors))
    llama = config["model_type"] == "llama"
    assert len(model.layers) == 2 and model.layers[0].heads == 4
    assert model.layers[0].kv_heads == (2 if llama else 4)
    assert model.layers[0].mask == ("causal" if llama else None)
    prefix = "model.layers.1.self_attn.q_proj" if llama else "encoder.layer.1.attention.self.query"
    assert (model.layers[1].W_Q == tensors[f"{prefix}.weight"].T).all()
    inputs = model.attention_inputs(IDS)
    assert [X.shape for X in inputs] == [(3, 9, 8)] * 2
    assert layer_attention(model.layers[0], inputs[0]).shape == (3, 4, 9, 9)
    assert np.isfinite(model.output(IDS)).all()


def test_a_batch_is_its_sequences_and_later_tokens_do_not_matter_when_causal(tmp_path, family):
    config, tensors = family
    model = load_pretrained(write_folder(tmp_path / "model", config, tensors))
    one = np.concatenate([model.output(ids) for ids in IDS])
    np.testing.assert_allclose(model.output(IDS), one, atol=1e-12)
    changed = IDS.copy()
    changed[:, -1] = (changed[:, -1] + 1) % 30
    same = np.allclose(model.output(changed)[:, :-1], model.output(IDS)[:, :-1])
    assert same == (config["model_type"] == "llama")


def test_pruned_layers_take_their_place(tmp_path, family):
    model = load_pretrained(write_folder(tmp_path / "model", *family))
    zero = [layer.with_weights(0 * layer.W_Q, 0 * layer.W_K) for layer in model.layers]
    assert np.abs(model.with_layers(zero).output(IDS) - model.output(IDS)).max() > 1e-3
    np.testing.assert_array_equal(model.with_layers(model.layers).output(IDS), model.output(IDS))
    with pytest.raises(InvalidInstance, match="the model has 2 layers; got 1"):
        model.with_layers(zero[:1])


def test_shards_prefixes_and_dtypes_do_not_matter(tmp_path, family):
    config, tensors = family
    whole = load_pretrained(write_folder(tmp_path / "whole", config, tensors)).output(IDS)
    cut = load_pretrained(write_sharded(tmp_path / "cut", config, tensors)).output(IDS)
    np.testing.assert_array_equal(cut, whole)
    prefix = "model." if config["model_type"] == "llama" else ""
    renamed = {name.removeprefix(prefix) if prefix else "bert." + name: value for name, value in tensors.items()}
    np.testing.assert_array_equal(load_pretrained(write_folder(tmp_path / "other", config, renamed)).output(IDS), whole)
    half = {name: value.astype(np.float16) for name, value in tensors.items()}
    exact = {name: value.astype(np.float64) for name, value in half.items()}
    np.testing.assert_array_equal(
        load_pretrained(write_folder(tmp_path / "half", config, half)).output(IDS),
        load_pretrained(write_folder(tmp_path / "double", config, exact)).output(IDS),
    )
    small = load_pretrained(tmp_path / "whole", dtype=np.float32)
    assert small.output(IDS).dtype == np.float32
    np.testing.assert_allclose(small.output(IDS), whole, atol=2e-4)


def test_brain_floats(tmp_path):
    """BF16, which NumPy does not have: the upper half of a float32."""
    tensors = {name: _brain(value) for name, value in llama_tensors(np.random.default_rng(1)).items()}
    folder = write_folder(tmp_path / "model", llama_config(), tensors)
    whole = load_pretrained(folder).output(IDS)
    header, body, offset = {}, b"", 0
    for name, value in tensors.items():
        raw = (value.view(np.uint32) >> 16).astype(np.uint16).tobytes()
        header[name] = {"dtype": "BF16", "shape": list(value.shape), "data_offsets": [offset, offset + len(raw)]}
        body, offset = body + raw, offset + len(raw)
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)
    np.testing.assert_array_equal(load_pretrained(folder).output(IDS), whole)


def _brain(value):
    return ((value.view(np.uint32) >> 16) << 16).astype(np.uint32).view(np.float32)


def test_both_ways_of_writing_the_rotation(tmp_path):
    scaling = {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8,
    }  # fmt: skip
    tensors = llama_tensors(np.random.default_rng(1))
    old = llama_config() | {"rope_scaling": scaling}
    new = llama_config() | {"rope_parameters": scaling | {"rope_theta": 100.0}, "rope_theta": 7.0}
    plain = load_pretrained(write_folder(tmp_path / "plain", llama_config(), tensors)).output(IDS)
    first = load_pretrained(write_folder(tmp_path / "old", old, tensors)).output(IDS)
    np.testing.assert_array_equal(first, load_pretrained(write_folder(tmp_path / "new", new, tensors)).output(IDS))
    assert np.abs(first - plain).max() > 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rope_theta": 1.0}, "^rope_theta must be finite and > 1; got 1"),
        ({"rope_scaling": {"rope_type": "linear"}}, "^rope_scaling of type linear needs factor; missing factor"),
        ({"rope_parameters": {"rope_type": "linear"}}, "^rope_parameters of type linear needs factor; missing factor"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "^rope_type of rope_parameters must be one of"),
    ],
)
def test_a_bad_rotation_is_named_as_the_file_names_it(tmp_path, change, message):
    folder = write_folder(tmp_path / "model", llama_config() | change, llama_tensors(np.random.default_rng(1)))
    with pytest.raises(InvalidInstance, match=message):
        load_pretrained(folder)


def test_rope_parameters_without_a_type_are_the_default(tmp_path):
    tensors = llama_tensors(np.random.default_rng(1))
    theta = {"rope_theta": 50.0}
    bare, typed = (
        load_pretrained(write_folder(tmp_path / name, llama_config() | {"rope_parameters": parameters}, tensors))
        for name, parameters in (("bare", theta), ("typed", theta | {"rope_type": "default"}))
    )
    np.testing.assert_array_equal(bare.output(IDS), typed.output(IDS))


def _without(name):
    def damage(folder, config, tensors):
        write_folder(folder, config, {key: value for key, value in tensors.items() if name not in key})

    return damage


def _config(**changes):
    def damage(folder, config, tensors):
        write_folder(folder, config | changes, tensors)

    return damage


def _bytes(name, content):
    def damage(folder, config, tensors):
        write_folder(folder, config, tensors)
        (folder / name).write_bytes(content)

    return damage


def _index(weight_map):
    def damage(folder, config, tensors):
        write_sharded(folder, config, tensors)
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))

    return damage


def _cut(folder, config, tensors):
    write_folder(folder, config, tensors)
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def _not_finite(folder, config, tensors):
    write_folder(folder, config, {name: value * np.float32(np.nan) for name, value in tensors.items()})


def _wrong_shape(folder, config, tensors):
    write_folder(folder, config, {name: value[..., :-1].copy() for name, value in tensors.items()})


DAMAGES = {
    "no config": (lambda folder, *_: folder.mkdir(), "must hold config.json"),
    "config is no JSON": (_bytes("config.json", b"{"), "config.json must be valid JSON"),
    "config is binary": (_bytes("config.json", b"\xff\xfe"), "config.json must be valid JSON"),
    "config is a list": (_bytes("config.json", b"[]"), "must hold a JSON object"),
    "config too deep": (_bytes("config.json", b"[" * 100000), "config.json must be valid JSON"),
    "other family": (_config(model_type="gpt2"), "model_type must be one of bert, llama"),
    "no size": (_config(hidden_size=None), "hidden_size as an integer >= 1"),
    "zero heads": (_config(num_attention_heads=0), "num_attention_heads as an integer >= 1"),
    "fractional depth": (_config(num_hidden_layers=1.5), "num_hidden_layers as an integer >= 1"),
    "too deep": (_config(num_hidden_layers=3), "must hold a tensor"),
    "activation": (_config(hidden_act="tanhshrink"), "hidden_act must be one of"),
    "missing tensor": (_without("norm.weight"), "must hold a tensor"),
    "truncated": (_cut, "must be an intact safetensors file"),
    "empty file": (_bytes("model.safetensors", b""), "must be an intact safetensors file"),
    "absurd header": (_bytes("model.safetensors", struct.pack("<Q", 2**62) + b"{}"), "must be an intact safetensors"),
    "not finite": (_not_finite, "must be finite"),
    "wrong shape": (_wrong_shape, "must have shape .* by config.json"),
    "index leads out": (_index({"a": "../../outside.safetensors"}), "only \\*.safetensors files beside it"),
    "index is absolute": (_index({"a": "/outside.safetensors"}), "only \\*.safetensors files beside it"),
    "index with backslash": (_index({"a": "..\\outside.safetensors"}), "only \\*.safetensors files beside it"),
    "index to another kind": (_index({"a": "config.json"}), "only \\*.safetensors files beside it"),
    "index to nothing": (_index({"a": "gone.safetensors"}), "names 'gone.safetensors', which is not in"),
    "empty index": (_index({}), "non-empty object weight_map"),
    "index is a list": (_index([1]), "non-empty object weight_map"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_folders(tmp_path, family, damage):
    spoil, message = DAMAGES[damage]
    if damage == "missing tensor" and family[0]["model_type"] == "bert":
        spoil = _without("LayerNorm.weight")
    folder = tmp_path / "model"
    spoil(folder, *family)
    with pytest.raises(InvalidInstance, match=message) as caught:
        load_pretrained(folder).output(IDS)
    assert "\n" not in str(caught.value)


def test_no_folder_and_no_weights(tmp_path):
    with pytest.raises(InvalidInstance, match="a model must be a folder"):
        load_pretrained(tmp_path / "nowhere")
    (tmp_path / "config.json").write_text(json.dumps(bert_config()))
    with pytest.raises(InvalidInstance, match="must hold model.safetensors or"):
        load_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([[0, 30]], "ids must be in 0..29; got 0 to 30"),
        ([[-1]], "ids must be in 0..29"),
        ([[0.5]], "ids must be a non-empty"),
        ([], "ids must be a non-empty"),
        ([[0] * 17], "at most 16 tokens; got 17"),
    ],
)
def test_bad_ids(tmp_path, family, ids, message):
    model = load_pretrained(write_folder(tmp_path / "model", *family))
    with pytest.raises(InvalidInstance, match=message):
        model.output(ids)


def test_a_damaged_tokenizer(tmp_path, family):
    pytest.importorskip("tokenizers", reason="reading tokenizers needs the extra 'real'")
    folder = write_folder(tmp_path / "model", *family)
    assert load_pretrained(folder).tokenizer is None
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(InvalidInstance, match="tokenizer.json must be a tokenizer file"):
        load_pretrained(folder)


def test_a_config_without_the_epsilon_of_its_norms_has_the_usual_one(tmp_path):
    """10^-6 as in transformers; tokens so small that another one is seen."""
    tensors = llama_tensors(np.random.default_rng(1))
    tensors["model.embed_tokens.weight"] *= np.float32(1e-3)

    def states(name, **epsilon):
        config = {key: value for key, value in llama_config().items() if key != "rms_norm_eps"} | epsilon
        return load_pretrained(write_folder(tmp_path / name, config, tensors)).output(IDS)

    np.testing.assert_array_equal(states("none"), states("stated", rms_norm_eps=1e-6))
    assert abs(states("none") - states("other", rms_norm_eps=1.01e-6)).max() > 1e-6
