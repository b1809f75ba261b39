"""A first token that outweighs all others is noticed where calibration windows lack it, and only there."""

import json
import warnings

import numpy as np
import pytest

pytest.importorskip("safetensors", reason="writing model folders needs the extra 'real'")
from safetensors.numpy import save_file

from attnprune_verify.cli.main import main
from attnprune_verify.pruning import prune_model
from attnprune_verify.whole_model.sinks import first_share, sink_lost
from tests.arena.small import write_model
from tests.arena.test_model_folders import PATHS
from tests.pretrained.folders import llama_tensors

SINK = 29  # an id that no word of the texts has


def with_sink(tmp_path, scale):
    """A model whose document token has an embedding `scale` times as large as the others."""
    folder, text = write_model(tmp_path / "model")
    tensors = llama_tensors(np.random.default_rng(0))
    tensors["model.embed_tokens.weight"][SINK] *= scale
    save_file(tensors, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"bos_token_id": SINK}))
    return {"folder": folder, "calibration": text, "k": 3, "n": 16, "attention": "wanda", "rest": "wanda"}


@pytest.mark.parametrize("path", PATHS)
def test_windows_without_the_sink(tmp_path, path):
    with pytest.warns(UserWarning, match=r"token 29, .* has 9\d\.\d% .* 3 of 3 calibration windows begin without it"):
        report = prune_model(**with_sink(tmp_path, 300.0), out=tmp_path / "out", rho=0.5, device=path)
    (told,) = report["warnings"]
    assert json.loads((tmp_path / "out" / "pruning.json").read_text())["warnings"] == [told]


@pytest.mark.parametrize("path", PATHS)
def test_models_without_a_sink(tmp_path, path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        report = prune_model(**with_sink(tmp_path, 1.0), out=tmp_path / "out", rho=0.5, device=path)
    assert report["warnings"] == []


def test_the_command_prints_the_warning(tmp_path, capsys):
    given = with_sink(tmp_path, 300.0)
    words = ["prune-model", given["folder"], "--out", tmp_path / "out", "--rho", "0.5", "--calibration",
             given["calibration"], "--k", "3", "--n", "16", "--attention", "wanda", "--rest", "wanda",
             "--device", "numpy"]  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        main(list(map(str, words)))
    assert ended.value.code == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Warning: ")]
    assert "token 29" in line and "%" in line


@pytest.mark.parametrize("token", [None, True, "29", [29], -1, 30, 7])
def test_what_is_no_lost_sink(token):
    """No token, no id of the vocabulary, or windows that all begin with it."""
    windows = [np.array([7, 1, 2]), np.array([7, 3, 4])]
    assert sink_lost(token, windows, 30, lambda ids: float(ids[0] != 7)) == []


def test_windows_with_a_sink_of_their_own():
    """Where any first token is the sink, none is lost."""
    assert sink_lost(29, [np.array([7, 1, 2])], 30, lambda _: 0.98) == []


def test_the_share_is_the_largest_over_the_blocks():
    assert first_share([np.ones((2, 3)), np.array([[3.0, 0], [0, 1.0]]), np.zeros((2, 2))]) == 0.9
