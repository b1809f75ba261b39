"""Weights that are zero before stay zero, and count among those that are pruned, in any order of methods."""

import numpy as np
import pytest

pytest.importorskip("safetensors", reason="writing model folders needs the extra 'real'")

from attnprune_verify.algorithms.matrix.budget import Pattern, Share
from attnprune_verify.algorithms.matrix.damping import second_moments
from attnprune_verify.algorithms.matrix.prune import prune_matrix
from attnprune_verify.algorithms.methods import MATRIX_METHODS
from attnprune_verify.cli.main import main
from attnprune_verify.pretrained.folder import ModelFolder
from attnprune_verify.pruning import prune_model
from attnprune_verify.whole_model.budgets import at_least
from tests.arena.small import write_model
from tests.arena.test_model_folders import PATHS

ORDERS = [
    ({"rho": 0.7, "attention": "wanda", "rest": "wanda"}, {"rho": 0.5}),
    ({"pattern": "2:4"}, {"rho": 0.5, "budget": "matrix"}),
    ({"rho": 0.3, "attention": "magnitude", "rest": "magnitude"}, {"pattern": "2:4"}),
    ({"rho": 0.3}, {"rho": 0.5, "attention": "sparsegpt", "rest": "sparsegpt"}),
    ({"rho": 0.7, "attention": "magnitude", "rest": "magnitude"}, {"rho": 0.5, "attention": "wanda", "rest": "wanda"}),
    ({"rho": 0.7, "attention": "wanda", "rest": "wanda"}, {"rho": 0.5, "attention": "sparsegpt", "rest": "sparsegpt"}),
]


def zeros_of(folder):
    model = ModelFolder(folder)
    tensors = model.tensors(np.float32)
    return {name: tensors(name) == 0 for name in model.places if name.endswith("_proj.weight")}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("order", range(len(ORDERS)))
def test_a_second_pruning_fills_no_zero(tmp_path, order, path):
    folder, text = write_model(tmp_path / "model")
    first, second = ORDERS[order]
    common = {"calibration": text, "k": 2, "n": 8, "device": path}
    before = prune_model(folder, tmp_path / "first", **first, **common)
    report = prune_model(tmp_path / "first", tmp_path / "second", **second, **common)
    was, now = zeros_of(tmp_path / "first"), zeros_of(tmp_path / "second")
    assert report["zeros_before"] == before["zeros"] == sum(int(mask.sum()) for mask in was.values())
    assert not any((mask & ~now[name]).any() for name, mask in was.items())
    assert report["zeros"] == sum(int(mask.sum()) for mask in now.values())
    if "pattern" in second:
        groups = {name: mask.reshape(len(mask), -1, 4).sum(axis=2) for name, mask in now.items()}
        had = {name: mask.reshape(len(mask), -1, 4).sum(axis=2) for name, mask in was.items()}
        for name, count in groups.items():
            np.testing.assert_array_equal(count, np.maximum(had[name], 2))
    elif second.get("attention") == "wanda":  # half of each row, or what is there
        assert report["zeros"] == sum(np.maximum(mask.sum(axis=1), mask.shape[1] // 2).sum() for mask in was.values())
    elif first.get("rho") == 0.7 or second.get("attention") != "sparsegpt":  # whose blocks have a zero more
        assert report["zeros"] == max(report["size"] // 2, before["zeros"])


@pytest.mark.parametrize("path", PATHS)
def test_zeros_move_where_they_may(tmp_path, path):
    folder, text = write_model(tmp_path / "model")
    common = {"calibration": text, "k": 2, "n": 8, "device": path}
    prune_model(folder, tmp_path / "first", 0.7, **common)
    filled = prune_model(tmp_path / "first", tmp_path / "second", 0.5, keep_zeros=False, **common)
    assert filled["zeros"] == filled["size"] // 2 < filled["zeros_before"]


def test_the_command_prints_how_many_stay(tmp_path, capsys):
    folder, text = write_model(tmp_path / "model")
    for source, out, rho in (("model", "first", "0.7"), ("first", "second", "0.5")):
        words = ["prune-model", str(tmp_path / source), "--out", str(tmp_path / out), "--rho", rho, "--k", "2"]
        with pytest.raises(SystemExit) as ended:
            main([*words, "--n", "8", "--calibration", str(text), "--device", "numpy", "--budget", "matrix"])
        assert ended.value.code == 0
    before = zeros_of(folder.with_name("first"))
    assert (
        f"{sum(int(mask.sum()) for mask in before.values())} weights were 0 before: they stay 0"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize("budget", [Share(0.5), Pattern(2, 4)], ids=str)
@pytest.mark.parametrize("method", sorted(MATRIX_METHODS))
def test_every_method_keeps_zeros(method, budget):
    rng = np.random.default_rng(0)
    weight, X = rng.normal(size=(6, 8)), rng.normal(size=(3, 20, 8))
    X[:, :, 5] = 0  # a dead input: its weights go first where no zero is there before them
    weight[rng.random(weight.shape) < 0.3] = 0
    zeros = weight == 0
    pruned = prune_matrix(method, weight, second_moments(X), None, budget, keep_zeros=True)
    assert not pruned.weight[zeros].any() and not pruned.kept[zeros].any()
    gone = ~pruned.kept
    if isinstance(budget, Pattern):
        had = zeros.reshape(6, 2, 4).sum(axis=2)
        np.testing.assert_array_equal(gone.reshape(6, 2, 4).sum(axis=2), np.maximum(had, 2))
    elif method == "wanda":
        np.testing.assert_array_equal(gone.sum(axis=1), np.maximum(zeros.sum(axis=1), 4))
    else:
        assert gone.sum() == 24 + (method.startswith("sparsegpt"))
    full = np.where(gone, 0.0, weight)
    again = prune_matrix(method, full, second_moments(X), None, budget, keep_zeros=True)
    assert not again.weight[gone].any()


def test_counts_are_raised_to_the_zeros_that_are_there():
    rng = np.random.default_rng(0)
    for _ in range(200):
        zeros, present = rng.integers(0, 20, 5).tolist(), rng.integers(0, 20, 5).tolist()
        found = at_least(zeros, present)
        assert all(count >= least for count, least in zip(found, present, strict=True))
        assert sum(found) == max(sum(zeros), sum(present))


@pytest.mark.parametrize("order", range(len(ORDERS)))
def test_a_second_pruning_in_memory_fills_no_zero(tmp_path, order):
    torch = pytest.importorskip("torch", reason="pruning torch models needs the extra 'torch'")
    transformers = pytest.importorskip("transformers", reason="pruning torch models needs transformers")
    from attnprune_verify.torch import prune_

    folder, _ = write_model(tmp_path / "model")
    model, ids = transformers.AutoModelForCausalLM.from_pretrained(folder), torch.arange(16).reshape(2, 8)
    before = prune_(model, ids, **ORDERS[order][0])
    was = {row["name"]: model.get_parameter(row["name"]) == 0 for row in before["tensors"]}
    report = prune_(model, ids, **ORDERS[order][1])
    assert report["zeros_before"] == before["zeros"] and report["warnings"] == []
    assert all(bool((model.get_parameter(name)[zeros] == 0).all()) for name, zeros in was.items())
