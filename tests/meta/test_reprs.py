"""What a result shows of itself at the prompt: one line with what matters, not its arrays."""

import re
from pathlib import Path

import numpy as np
import pytest

import attnprune_verify as apv

X = np.random.default_rng(0).standard_normal((6, 8))
W = 0.2 * np.random.default_rng(1).standard_normal((8, 8))
LAYER = apv.AttentionLayer(W, W[:, :4], heads=2, kv_heads=1)
SMALL = Path(__file__).parents[1] / "data" / "small_llama"


def model():
    pytest.importorskip("safetensors", reason="reading model folders needs the extra 'real'")
    return apv.load_pretrained(SMALL)


SHOWN = {
    "check": (
        lambda: apv.run_check(apv.Instance(X, W, lam=1.5)),
        r"<check of Instance\(n=6, d=8, .*\): passed; assumptions that fail: lam-in-unit-interval>",
    ),
    "claims": (
        lambda: apv.run_claims(ids=["lem:mat_view_b3", "lem:mat_view_b2"]),
        "<claims: passed; 2 statements: 2 holds>",
    ),
    "layer": (
        lambda: apv.prune_layer(LAYER, X, 0.5, method="magnitude"),
        r"<AttentionLayer\(d=8, .*\) by magnitude: 48 of 96 weights are 0>",
    ),
    "sparsegpt": (lambda: apv.sparsegpt_report(W, X, 0.0), r"<sparsegpt of 8 x 8: 0 of 64 pruned, error 0>"),
    "campaign": (
        lambda: apv.run_campaign(["fix:lip_f"], 20, sizes="n=2,d=2"),
        "<campaign of 20 instances against fix:lip_f: passed>",
    ),
    "objective": (
        lambda: apv.Objective(X, W, 0.5, "causal"),
        "<objective of W (8, 8): n=6, d=8, k=1, mask='causal', lam=0.5, dtype=float64>",
    ),
    "objective of a layer": (
        lambda: apv.Objective(LAYER, np.stack([X, X])),
        "<objective of W_Q (8, 8), W_K (8, 4): n=6, d=8, k=2, mask=None, lam=0.0, dtype=float64>",
    ),
    "model": (model, "<Llama: 4 blocks, width 64, vocabulary 1024, at most 256 tokens>"),
    "exchanged": (
        lambda: model().with_weights({(0, "V"): np.zeros((32, 64))}),
        "<Llama: 4 blocks, width 64, vocabulary 1024, at most 256 tokens; exchanged: 1 weight>",
    ),
    "exchanged layers": (
        lambda: model().with_layers(model().layers),
        "<Llama: 4 blocks, width 64, vocabulary 1024, at most 256 tokens; exchanged: 4 layers>",
    ),
    "block": (lambda: model().block(0), r"<block of AttentionLayer\(d=64, .*\) with V, O, gate, up, down>"),
}


@pytest.mark.parametrize("kind", SHOWN)
def test_results_are_shown_in_one_line(kind):
    make, wanted = SHOWN[kind]
    shown = repr(make())
    exact = wanted if "\\" in wanted else re.escape(wanted)
    assert re.fullmatch(exact, shown), shown
    assert "\n" not in shown and len(shown) < 240


def test_experiments_show_their_size():
    plan = apv.SyntheticPlan(
        ns=(4,), rhos=(0.5,), lams=(0.25,), fixed_lams=(0.25,), fixed_n=4, d=6, steps=2, seeds=((2, 1),)
    )
    results = apv.run_synthetic(plan)
    assert repr(results) == f"<synthetic experiment: {len(results.rows)} rows>"
