"""`budget="auto"`: an exact total for any decoder, zeros where they do least damage, by two paths that agree."""

import dataclasses
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pruning torch models needs the extra 'torch'")
transformers = pytest.importorskip("transformers", reason="pruning torch models needs transformers")
pytest.importorskip("safetensors", reason="reading model folders needs the extra 'real'")

from attnprune_verify.algorithms.matrix.allocation import FINE, curve_through, measured_at  # noqa: E402
from attnprune_verify.pretrained import load_pretrained  # noqa: E402
from attnprune_verify.torch import curves, prune_  # noqa: E402
from attnprune_verify.torch.blocks import find_blocks  # noqa: E402
from attnprune_verify.torch.pruning_run import PruningRun  # noqa: E402
from attnprune_verify.whole_model import budgets  # noqa: E402
from attnprune_verify.whole_model.estimate import (  # noqa: E402
    ModelSizes,
    Size,
    judged_tokens,
    run_operations,
    settings_within,
)
from attnprune_verify.whole_model.plan import Plan  # noqa: E402
from tests.pretrained.folders import bert_config, bert_tensors, write_folder  # noqa: E402
from tests.whole_model.decoders import IDS, tiny  # noqa: E402
from tests.whole_model.small import MODEL  # noqa: E402

KNOWN = np.random.default_rng(0).integers(1, 1000, (4, 40))


@pytest.mark.parametrize(("kind", "rho"), [("gpt2", 0.31), ("mixtral", 0.5), ("qwen3", 0.9)])
def test_the_total_is_exact_for_types_without_a_network_of_ours(kind, rho):
    report = prune_(tiny(kind), IDS, rho, hold=[1])
    assert report["zeros"] == math.floor(rho * report["size"])
    shares = [row["zeros"] / row["size"] for row in report["tensors"]]
    assert max(shares) - min(shares) > 0.05
    held = [row["zeros"] / row["size"] for row in report["tensors"] if ".1." in row["name"]]
    assert held and held == pytest.approx([rho] * len(held), abs=0.01)


def test_two_paths_measure_the_same_damage(monkeypatch):
    """torch's passes by hooks, and the network in NumPy: no code in common but SparseGPT."""
    plan = Plan(rho=0.5, budget="auto")
    dense, taken = load_pretrained(MODEL, dtype=np.float32), {}
    ours = budgets.cheap_curves(dense, KNOWN, plan).damage
    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32).eval()
    monkeypatch.setattr(curves, "shares_by", lambda damage, sizes, plan: taken.update(damage) or {})
    ids = [torch.from_numpy(row)[None] for row in KNOWN]
    work = PruningRun(find_blocks(model, ids[0]), plan, ids[0][:, :13])
    work._divide(ids, lambda *_: None)
    by_name = {(index, dense.family.weight_place(index, role).name): curve for (index, role), curve in ours.items()}
    theirs = {(i, f"model.layers.{i}.{name.split()[0]}"): curve for (i, name), curve in taken.items()}
    assert theirs.keys() == by_name.keys() and len(theirs) == 28
    for name, curve in theirs.items():
        assert curve == pytest.approx(by_name[name], rel=0.02), name


def test_an_encoder_is_judged_by_its_output(tmp_path):
    tensors = bert_tensors(np.random.default_rng(0))
    write_folder(tmp_path, bert_config(), tensors)
    model = load_pretrained(tmp_path, dtype=np.float32)
    model = model.with_weights({(1, "O"): 1e-3 * model.block(1).weight("O")})
    ids = np.random.default_rng(0).integers(1, model.family.vocabulary, (4, 8))
    zeros = budgets.zeros_by_map(model, ids, Plan(rho=0.5, budget="auto"))
    sizes = [{role: model.block(i).weight(role).size for role in of} for i, of in enumerate(zeros)]
    assert sum(sum(of.values()) for of in zeros) == sum(sum(of.values()) for of in sizes) // 2
    assert zeros[1]["O"] / sizes[1]["O"] > 0.9


@pytest.mark.parametrize("path", ["torch", "numpy"])
def test_what_matters_little_is_pruned_most(path):
    """The way into one block's values made a thousand times weaker."""
    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    weak = model.model.layers[2].self_attn.v_proj.weight
    weak.data *= 1e-3
    if path == "torch":
        report = prune_(model, [KNOWN], 0.5)
        shares = {row["name"]: row["zeros"] / row["size"] for row in report["tensors"]}
        least = shares["model.layers.2.self_attn.v_proj.weight"]
    else:
        dense = load_pretrained(MODEL, dtype=np.float32).with_weights({(2, "V"): weak.detach().numpy()})
        zeros = budgets.zeros_by_map(dense, KNOWN, Plan(rho=0.5, budget="auto"))
        shares = {(i, r): n / dense.block(i).weight(r).size for i, of in enumerate(zeros) for r, n in of.items()}
        least = shares[2, "V"]
    assert least > max(0.9, max(shares.values()) - 0.001)  # whole weights


@pytest.mark.thorough
def test_damage_with_the_sign_turned_is_noticed(monkeypatch):
    right = curves.curve_through
    monkeypatch.setattr(curves, "curve_through", lambda damage, rho: right(1 / max(damage, 1e-9), rho))
    with pytest.raises(AssertionError):
        test_what_matters_little_is_pruned_most("torch")


@pytest.mark.parametrize(
    ("choices", "budget"),
    [
        ({}, "auto"),
        ({"attention": "dense"}, "auto"),
        ({"rest": "identity-obs"}, "auto"),
        ({"rest": "sparsegpt"}, "matrix"),
        ({"attention": "fisher-obs"}, "matrix"),
        ({"attention": "dense", "rest": "dense"}, "matrix"),
        ({"rho": 1.0}, "matrix"),
        ({"rho": None, "pattern": "2:4"}, "matrix"),
    ],
)
def test_prior_methods_and_patterns_are_left_alone(choices, budget):
    assert dataclasses.replace(Plan(rho=0.3), **choices, budget="auto").budget == budget


def test_judging_takes_half_of_pruning_at_most():
    for d in (64, 512, 4096):
        sizes, tokens = ModelSizes([Size(d, d, 8)] * 20, 20, 8 * d, 0), 8 * 512
        judged = judged_tokens(sizes, tokens)
        assert 64 <= judged <= 1024
        without, with_budgets = (run_operations(sizes, 8, tokens, 0, 0, budgets=budgets) for budgets in (False, True))
        assert judged == 64 or with_budgets <= 1.5 * without


def test_limits_of_time_take_less_and_less_work_and_more_windows_before_longer_ones():
    sizes = ModelSizes([Size(64, 64, 1)] * 28, 28, 2**16, 0)
    settings = settings_within(128, 2048)
    assert settings[0] == (128, 2048, True) and settings[-1] == (8, 256, False)
    work = [run_operations(sizes, k, k * n, 50 * steps, 0, budgets=True) for k, n, steps in settings]
    assert work == sorted(work, reverse=True) and len(set(work)) == len(work)


def test_the_law_is_convex_and_goes_through_what_was_measured():
    for rho in (0.0, 0.3, 0.5, 1.0):
        at = measured_at(rho)
        curve = curve_through(2.0, at)
        assert np.interp(at, FINE, curve) == pytest.approx(2.0, rel=0.1)
        slopes = np.diff([0.0, *curve]) / np.diff([0.0, *FINE])
        assert (np.diff(slopes) > 0).all() and slopes[0] > 0
