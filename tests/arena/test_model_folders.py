"""Class E: model folders that would take the machine or give the numbers of another model, on both paths.

With torch and transformers every folder is opened by them, else by the networks in NumPy; what is refused by the one
is refused by the other, in one line.
"""

import importlib.util
import json
import struct

import numpy as np
import pytest

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.pruning import prune_model
from attnprune_verify.state import child
from tests.arena.catalogue import attack
from tests.arena.small import write_model
from tests.pretrained.folders import llama_tensors

FOLDER = "attnprune_verify.pretrained.folder:ModelFolder"
OPENED = "attnprune_verify.torch.opened:open_folder"
CHILD = "attnprune_verify.state.child:in_child"
TORCH = importlib.util.find_spec("torch") is not None and importlib.util.find_spec("transformers") is not None
PATHS = ["numpy", pytest.param("cpu", marks=pytest.mark.skipif(not TORCH, reason="needs torch and transformers"))]


def config(**changes):
    def spoil(folder):
        file = folder / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return spoil


def config_text(old, new):
    def spoil(folder):
        text = (folder / "config.json").read_text()
        assert old in text
        (folder / "config.json").write_text(text.replace(old, new))

    return spoil


def header(change):
    """Every (name, entry) of the header of the safetensors file is replaced by what `change` makes of it."""

    def spoil(folder):
        raw = (folder / "model.safetensors").read_bytes()
        end = 8 + struct.unpack("<Q", raw[:8])[0]
        text = json.dumps(dict(change(name, entry) for name, entry in json.loads(raw[8:end]).items())).encode()
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + raw[end:])

    return spoil


def of_queries(**changes):
    return header(lambda name, entry: (name, entry | changes if "q_proj" in name else entry))


def tensors(change):
    def spoil(folder):
        from safetensors.numpy import save_file

        made = change(llama_tensors(np.random.default_rng(0)))
        save_file({name: np.ascontiguousarray(value) for name, value in made.items()}, folder / "model.safetensors")

    return spoil


def tokenizer(**changes):
    def spoil(folder):
        file = folder / "tokenizer.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return spoil


def replacing(pattern, content, times):
    step = {"type": "Replace", "pattern": pattern, "content": content}
    return tokenizer(normalizer={"type": "Sequence", "normalizers": [step] * times})


def refused(folder, text, path, message):
    """The folder is refused in one printable line, and nothing is left of the run."""
    with pytest.raises(InvalidInstance, match=message) as caught:
        prune_model(folder, folder.parent / "out", 0.5, calibration=text, k=2, n=8, device=path)
    assert str(caught.value).isprintable()
    assert {one.name for one in folder.parent.iterdir()} == {"model", "text.txt"}


def spoiled(tmp_path, spoil):
    folder, text = write_model(tmp_path / "model")
    spoil(folder)
    return folder, text


ENDLESS = {
    "ten million layers": (config(num_hidden_layers=10**7), "tensors for its 10000000 num_hidden_layers"),
    "a billion layers in a part": (config(text_config={"num_hidden_layers": 10**9}), "tensors for its 1000000000"),
    "a trillion tokens": (config(vocab_size=2**40), "must open the model|must have shape"),
    "more features than memory": (config(hidden_size=2**60), "must open the model|must have shape"),
}


@attack("E", "config.json gives layers, tokens or features without end", stopped_by=FOLDER, quick=True)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("case", ENDLESS)
def test_networks_without_end(tmp_path, case, path):
    spoil, message = ENDLESS[case]
    refused(*spoiled(tmp_path, spoil), path, message)


ANOTHER = {
    "fewer layers": (config(num_hidden_layers=1), "model holds a tensor '.*layers.1"),
    "more layers": (config(num_hidden_layers=3), "must hold a tensor '.*layers.2"),
    "a tensor more": (
        tensors(lambda held: held | {"model.layers.0.self_attn.q_norm.weight": np.ones(2, np.float32)}),
        "model holds a tensor '.*q_norm",
    ),
    "keys and values transposed": (
        tensors(lambda held: {k: v.T if "k_proj" in k or "v_proj" in k else v for k, v in held.items()}),
        r"must have shape \(4, 8\)",
    ),
    "queries cut": (
        tensors(lambda held: {k: v[:4] if "q_proj" in k else v for k, v in held.items()}), r"must have shape \(8, 8\)"
    ),
    "a head tied to other numbers": (
        tensors(lambda held: held | {"lm_head.weight": np.ones((30, 8), np.float32)}), "lm_head.weight' differs from"
    ),
    "queries of integers": (of_queries(dtype="I32"), "must be one of F64, F32, F16, BF16; got I32"),
    "queries twice as high in half the bits": (of_queries(dtype="BF16", shape=[16, 8]), r"must have shape \(8, 8\)"),
    "half the bits alone": (of_queries(dtype="BF16"), "must be an intact safetensors file"),
    "weights of an adapter": (lambda folder: (folder / "adapter_config.json").write_text("{}"), "not adapters"),
}  # fmt: skip


@attack("D", "the tensors of a model folder are not those of the network in its config.json", stopped_by=OPENED,
        quick=True)  # fmt: skip
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("case", ANOTHER)
def test_weights_of_another_model(tmp_path, case, path):
    spoil, message = ANOTHER[case]
    refused(*spoiled(tmp_path, spoil), path, message)


VALUES = {
    "an infinite rotation": (config_text('"rope_theta": 100.0', '"rope_theta": 1e999'), "rope_theta must be finite"),
    "a rotation below 1": (config(rope_theta=0.5), "rope_theta must be finite and > 1; got 0.5"),
    "an infinite size": (config_text("1e-05", "1e999"), "rms_norm_eps as a finite number"),
    "a negative eps": (config(rms_norm_eps=-1.0), "must be finite|finite number > 0"),
    "kinds of rotation": (config(rope_scaling={"rope_type": ["linear"], "factor": 2.0}), "rope_type"),
    "an unknown rotation": (config(rope_scaling={"rope_type": "spiral", "factor": 2.0}), "one of default, linear"),
    "an unknown rotation of new files": (config(rope_parameters={"rope_type": "spiral"}), "one of default, linear"),
    "an escape in a name": (config(**{"\x1b[2Jkey": 1}), r"printable; got '\\x1b"),
    "an escape deeper": (config(parts=[{"\x1b]0;owned\x07": 1}]), r"printable; got '\\x1b"),
    "an escape in a tensor's name": (
        header(lambda name, entry: ("\x1b[31m" * ("q_proj" in name) + name, entry)), r"printable; .* '\\x1b"
    ),
    "no heads": (config(num_attention_heads=0), "num_attention_heads|must open the model"),
    "layers as a word": (config(num_hidden_layers="2"), "num_hidden_layers"),
    "a function of another module": (config(hidden_act="os.system"), "hidden_act|must open the model"),
    "types": (config(model_type=["llama"]), "model_type|must open the model"),
    "a kernel from elsewhere": (config(attn_implementation="somebody/kernel"), None),
}  # fmt: skip


@attack("H", "config.json or a header holds values, types or letters that no model has", stopped_by=FOLDER,
        quick=True)  # fmt: skip
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("case", VALUES)
def test_values_that_no_model_has(tmp_path, case, path):
    spoil, message = VALUES[case]
    if message is None and path == "numpy":
        pytest.skip("the networks in NumPy have one implementation")
    refused(*spoiled(tmp_path, spoil), path, message or "must name no code from elsewhere")


TOKENIZERS = {
    "a pattern that never ends": replacing({"Regex": "^(([a-z ])+.)+[A-Z]([a-z ])+$"}, "", 1),
    "a hundredfold six times": replacing({"Regex": "."}, "a" * 100, 6),
    "twofold sixty times": replacing({"String": "a"}, "aa", 60),
    "nothing but brackets": lambda folder: (folder / "tokenizer.json").write_text("[" * 10**5),
    "no file of a tokenizer": tokenizer(model={"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 5}),
}  # fmt: skip


@attack("E", "a tokenizer never ends, grows without end, or aborts its library", stopped_by=CHILD, quick=True)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("case", TOKENIZERS)
def test_tokenizers_without_end(tmp_path, monkeypatch, capfd, case, path):
    monkeypatch.setattr(child, "_ROOM", 1 << 26)
    monkeypatch.setattr(child, "_SECONDS", 2)
    refused(*spoiled(tmp_path, TOKENIZERS[case]), path, "^tokenizer.json must (encode the text|be a tokenizer file); ")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("path", PATHS)
def test_intact_folders_are_pruned(tmp_path, path):
    """What must go on working: a head that is tied and stored, buffers that old files hold."""
    keep = tensors(
        lambda held: (
            held
            | {"lm_head.weight": held["model.embed_tokens.weight"]}
            | {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(1, np.float32)}
        )
    )
    folder, text = spoiled(tmp_path, keep)
    report = prune_model(
        folder, tmp_path / "out", 0.5, calibration=text, k=2, n=8, device=path, attention="wanda", rest="wanda"
    )
    assert report["zeros"] * 2 == report["size"]
