"""Every method for real layers: exact counts, determinism, corners, and what each one promises."""

import numpy as np
import pytest

from attnprune_verify.algorithms.arguments import pruned_count
from attnprune_verify.algorithms.baselines.sparsegpt import sparsegpt
from attnprune_verify.algorithms.baselines.table import BASELINES
from attnprune_verify.algorithms.layer.heads import join_heads, keep_largest, split_heads
from attnprune_verify.algorithms.layer.prune import prune_layer
from attnprune_verify.algorithms.matrix.budget import PerBlock
from attnprune_verify.algorithms.matrix.damping import damped, shrinkage_damping
from attnprune_verify.algorithms.matrix.two_sided import Pruned, prune_two_sided, refit
from attnprune_verify.algorithms.methods import LAYER_METHODS, PATTERN_METHODS
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.rope import RoPE
from attnprune_verify.model.layer_functions import layer_relative_error
from tests.model.layers import KINDS, random_layer

OWN = [method for method in LAYER_METHODS if method == "magnitude" or method not in BASELINES]
QUICK = {"paper-gd": {"steps": 5}, "ste": {"steps": 5}, "fisher-obs-kl": {"steps": 3}}


def realistic(seed=0, d=24, heads=2, m=6, k=8, n=16, **options):
    """A layer with correlated inputs and moderate logits, and two disjoint draws of tokens."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(d, d)) * np.linspace(1.5, 0.1, d)
    kv_heads = options.get("kv_heads", heads)
    layer = AttentionLayer(
        0.25 * rng.normal(size=(d, heads * m)), 0.25 * rng.normal(size=(d, kv_heads * m)), heads=heads, **options
    )
    return layer, rng.normal(size=(k, n, d)) @ mixing, rng.normal(size=(k, n, d)) @ mixing


@pytest.mark.parametrize("method", OWN)
@pytest.mark.parametrize(("kind", "rho"), [("heads", 0.5), ("groups", 0.31), ("rope half", 0.31)])
def test_exact_counts_and_determinism(method, kind, rho):
    layer, X = random_layer(kind, d=7)
    first, again = (prune_layer(layer, X, rho, method, **QUICK.get(method, {})) for _ in range(2))
    count = pruned_count(rho, 7 * 4)
    assert first.summary["pruned_Q"] == (count,) * layer.heads
    assert first.summary["pruned_K"] == (count,) * layer.kv_heads
    assert (first.layer.W_Q[first.mask_Q == 0] == 0).all() and (first.layer.W_K[first.mask_K == 0] == 0).all()
    assert set(np.unique(first.mask_Q)) <= {0.0, 1.0}
    assert np.count_nonzero(first.layer.W_Q) == first.mask_Q.sum()
    assert (first.layer.W_Q == again.layer.W_Q).all() and (first.layer.W_K == again.layer.W_K).all()
    assert first.layer.b_Q is layer.b_Q or (first.layer.b_Q == layer.b_Q).all()
    if method in ("random", "magnitude", "paper-gd", "fisher-diagonal", "ste"):
        assert (first.layer.W_Q == layer.W_Q * first.mask_Q).all()


@pytest.mark.parametrize("method", PATTERN_METHODS)
@pytest.mark.parametrize("pattern", ["2:4", "1:4", "4:8"])
def test_patterns_run_along_the_inputs_of_every_output(method, pattern):
    kept, group = map(int, pattern.split(":"))
    layer, X, _ = realistic(kv_heads=1)
    first, again = (prune_layer(layer, X, method=method, pattern=pattern) for _ in range(2))
    for mask, weight in ((first.mask_Q, first.layer.W_Q), (first.mask_K, first.layer.W_K)):
        assert (mask.reshape(24 // group, group, -1).sum(axis=1) == kept).all()
        assert ((weight != 0) == (mask == 1)).all()
    assert first.summary["pattern"] == pattern and first.summary["rho"] is None
    assert (first.layer.W_K == again.layer.W_K).all()


def test_output_obs_by_matrix_beats_one_pass_of_its_own():
    """One budget per matrix: the exact total, divided unevenly; splitting lowers what one pass reaches."""
    layer, X, held = realistic(d=24, heads=4, m=6, k=16)
    layer = layer.with_weights(layer.W_Q * np.repeat([0.2, 1, 1, 3], 6), layer.W_K)
    one = prune_layer(layer, X, 0.5, "output-obs", budget="matrix")
    assert sum(one.summary["pruned_Q"]) == 24 * 24 // 2 and len(set(one.summary["pruned_Q"])) > 1
    errors = [
        layer_relative_error(layer, prune_layer(layer, X, 0.6, "output-obs", **options).layer, held).mean()
        for options in ({}, {"solver": "pass"})
    ]
    assert errors[0] < errors[1]


@pytest.mark.parametrize("method", LAYER_METHODS)
@pytest.mark.parametrize("rho", [0.0, 1.0])
def test_nothing_and_everything(method, rho):
    layer, X = random_layer("groups")
    pruned = prune_layer(layer, X, rho, method, **QUICK.get(method, {}))
    assert (pruned.layer.W_Q == (layer.W_Q if rho == 0 else 0)).all()
    assert (pruned.mask_K == 1 - rho).all()


@pytest.mark.parametrize("method", LAYER_METHODS)
@pytest.mark.parametrize("corner", ["one token", "dead input", "saturated", "one head of one feature", "one sample"])
def test_corners(method, corner):
    layer, X, _ = realistic(d=8, n=6)
    if corner == "one token":
        X = X[:1, :1]
    elif corner == "dead input":
        X[..., 3] = 0
    elif corner == "saturated":
        layer = layer.with_weights(300 * layer.W_Q, 300 * layer.W_K)
    elif corner == "one head of one feature":
        layer = AttentionLayer(layer.W_Q[:, :1], layer.W_K[:, :1])
    else:
        X = X[0]
    options = QUICK.get(method, {})
    pruned = prune_layer(layer, X, 0.5, method, **options)
    assert np.isfinite(pruned.layer.W_Q).all() and np.isfinite(pruned.layer.W_K).all()
    error = layer_relative_error(layer, pruned.layer, X)
    assert (error <= 2.0).all()
    if corner == "one token":
        assert (error == 0).all()
    if method in OWN:
        assert set(pruned.summary["pruned_Q"]) == {pruned_count(0.5, 8 * layer.m)}
    if corner == "dead input" and method in ("fisher-diagonal", "ste"):
        assert (pruned.mask_Q[3] == 0).all()


def test_inputs_are_not_modified_and_float32_stays():
    layer, X, _ = realistic()
    small = AttentionLayer(layer.W_Q.astype(np.float32), layer.W_K.astype(np.float32), heads=2)
    tokens = X.astype(np.float32)
    before = tokens.copy()
    pruned = prune_layer(small, tokens, 0.5)
    assert (tokens == before).all()
    assert pruned.layer.W_Q.dtype == pruned.mask_Q.dtype == np.float32
    wide = prune_layer(layer, X, 0.5)
    assert np.mean(wide.mask_Q != pruned.mask_Q) < 0.02


@pytest.mark.parametrize("method", ["wanda", "sparsegpt"])
def test_rivals_keep_their_own_conventions(method):
    layer, X, _ = realistic()
    pruned = prune_layer(layer, X, 0.5, method)
    if method == "wanda":
        assert ((pruned.mask_Q == 0).sum(axis=0) == 12).all()
    else:
        weight, gone = sparsegpt(layer.W_Q.T, X, 0.5)
        assert (pruned.layer.W_Q == weight.T).all() and ((pruned.mask_Q == 0) == gone.T).all()


def test_a_ratio_too_small_for_any_head_still_prunes_in_the_rivals_convention():
    """0.005 of a head's 144 weights is none; SparseGPT counts over all heads, and its kept weights move."""
    layer, X, _ = realistic()
    weight, gone = sparsegpt(layer.W_Q.T, X, 0.005)
    by_rival, by_head = (prune_layer(layer, X, 0.005, method) for method in ("sparsegpt", "fisher-obs"))
    assert gone.any() and (by_rival.layer.W_Q == weight.T).all() and ((by_rival.mask_Q == 0) == gone.T).all()
    assert (by_head.layer.W_Q == layer.W_Q).all()


@pytest.mark.parametrize("blocksize", [8, 24])
def test_identity_metric_is_sparsegpt_head_by_head(blocksize):
    """SparseGPT prunes one more per block than int(rho * size); rho is chosen here so that both mean the same count."""
    layer, X, _ = realistic(seed=3)
    size = blocksize * 6
    count = size // 2 + 1
    options = {"output_metric": "identity", "sequential": False, "refit_steps": 0, "blocksize": blocksize}
    pruned = prune_layer(layer, X, count / size, "fisher-obs", damping=0.02, **options)
    for head in range(2):
        for W, new, mask in (
            (layer.W_Q, pruned.layer.W_Q, pruned.mask_Q),
            (layer.W_K, pruned.layer.W_K, pruned.mask_K),
        ):
            block = slice(6 * head, 6 * head + 6)
            weight, gone = sparsegpt(W[:, block].T, X, 0.5, blocksize=blocksize, percdamp=0.02)
            assert ((mask[:, block] == 0) == gone.T).all()
            np.testing.assert_allclose(new[:, block], weight.T, atol=1e-13 * np.abs(weight).max())


def random_metrics(d=7, m=5, heads=2, seed=0):
    rng = np.random.default_rng(seed)
    H = np.cov(rng.normal(size=(d, 3 * d)))
    G = np.array([np.cov(rng.normal(size=(m, 3 * m))) for _ in range(heads)])
    return rng.normal(size=(heads, d, m)), H, G


def test_one_pruned_weight_is_the_optimal_brain_surgeon():
    """Pruning a single weight of the first row moves everything as the exact restricted least squares does."""
    W, H, G = random_metrics()
    W[:, 0, 2] = 1e-6  # certainly the cheapest
    pruned = prune_two_sided(W, H, G, PerBlock(1 / 35), blocksize=7)
    assert not pruned.kept[:, 0, 2].any() and (~pruned.kept).sum() == 2
    for head in range(2):
        inverse = np.kron(np.linalg.inv(H), np.linalg.inv(G[head]))
        exact = W[head].ravel() - W[head].ravel()[2] / inverse[2, 2] * inverse[2]
        np.testing.assert_allclose(pruned.weight[head].ravel(), exact, atol=1e-12)


def test_refit_reaches_restricted_least_squares():
    W, H, G = random_metrics(seed=1)
    kept = keep_largest(np.random.default_rng(2).random(W.shape), 0.5)
    found = refit(Pruned(W * kept, kept), W, H, G, 200)
    assert (found.weight[~kept] == 0).all()
    for head in range(2):
        T, mask = np.kron(H, G[head]), kept[head].ravel()
        exact = np.zeros(35)
        exact[mask] = np.linalg.solve(T[np.ix_(mask, mask)], (T @ W[head].ravel())[mask])
        np.testing.assert_allclose(found.weight[head].ravel(), exact, atol=1e-10)


def test_refit_does_not_amplify_rounding_errors():
    """Real tokens share a large mean: one eigenvalue of H far above the rest, which plain conjugate gradients find
    again and again in rounding errors."""
    rng = np.random.default_rng(0)
    d, m = 96, 16
    X = rng.normal(size=(4 * d, d)) * np.geomspace(3.0, 0.1, d) + 20 * rng.normal(size=d)
    G = np.array([np.cov(rng.normal(size=(m, 3 * m)) * np.geomspace(1.0, 0.01, 3 * m))]) + 0.01 * np.eye(m)
    W = rng.normal(size=(1, d, m))
    H = damped(X.T @ X / len(X), 0.01)
    start = prune_two_sided(W, H, G, PerBlock(0.5), 32)
    noise = rng.normal(size=H.shape)
    first, other = (refit(start, W, metric, G, 30).weight for metric in (H, H * (1 + 1e-14 * (noise + noise.T))))
    assert np.abs(first - other).max() < 1e-9 * np.abs(W).max()


def test_two_sided_beats_one_sided_in_its_own_metric():
    W, H, G = random_metrics(d=12, m=8, heads=20, seed=3)
    flat = np.broadcast_to(np.eye(8), G.shape)

    def cost(weight):
        return np.einsum("hpc,pq,hqe,hce->h", weight - W, H, weight - W, G)

    two, one = (prune_two_sided(W, H, metric, PerBlock(0.5), 12) for metric in (G, flat))
    assert cost(two.weight).mean() < 0.8 * cost(one.weight).mean()
    # Given its mask, the pass is not the optimum; the refit is, and gains.
    assert (cost(refit(two, W, H, G, 100).weight) < cost(two.weight)).all()


def test_damping_is_the_shrinkage_formula():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9, 5, 4)) * [3.0, 1.0, 1.0, 0.3]
    moments = np.array([x.T @ x for x in X])
    H = moments.mean(axis=0)
    share = ((moments - H) ** 2).sum() / (9 * 8) / ((H - np.trace(H) / 4 * np.eye(4)) ** 2).sum()
    assert shrinkage_damping(X) == pytest.approx(share / (1 - share), rel=1e-12)
    assert shrinkage_damping(10 * X) == pytest.approx(shrinkage_damping(X), rel=1e-12)
    np.testing.assert_allclose(np.diag(damped(np.diag([1.0, 3.0]), 0.5)), [2.0, 4.0])


@pytest.mark.parametrize(
    "options",
    [{}, {"kv_heads": 1}, {"mask": "causal"}, {"kv_heads": 1, "mask": "causal", "rope": RoPE(100.0)}],
    ids=str,
)
def test_held_out_order_of_the_methods(options):
    """What the methods are for: on fresh tokens the attention-aware ones beat SparseGPT, random masks lose to all."""
    held, runs = {}, (0, 1, 2)
    for seed in runs:
        layer, X, fresh = realistic(seed, **options)
        for method in ("random", "sparsegpt", "fisher-diagonal", "fisher-obs", "fisher-obs-kl"):
            error = layer_relative_error(layer, prune_layer(layer, X, 0.5, method).layer, fresh).mean()
            held[method] = held.get(method, 0.0) + error / len(runs)
    gain = 0.95 if "rope" in options else 0.8  # rotations leave less structure in the outputs of a random layer
    assert held["fisher-obs"] < gain * held["sparsegpt"]
    assert held["fisher-obs-kl"] < gain * held["sparsegpt"]
    assert held["fisher-diagonal"] < 0.5 * held["random"]


def test_a_threshold_over_the_layer_is_exact_per_matrix_only():
    layer, X, _ = realistic(5)
    layer = layer.with_weights(layer.W_Q * np.repeat([1.0, 4.0], 6), layer.W_K)
    pruned = prune_layer(layer, X, 0.5, "fisher-diagonal", threshold="layer")
    assert sum(pruned.summary["pruned_Q"]) == 144 and pruned.summary["pruned_Q"][0] != 72


def test_the_squared_metric_prunes_too():
    layer, X, _ = realistic(5)
    squared, fisher = (prune_layer(layer, X, 0.5, output_metric=name) for name in ("squared", "fisher"))
    assert (squared.mask_Q != fisher.mask_Q).any()
    assert np.mean(squared.summary["in_sample_error"]) < 1.5 * np.mean(fisher.summary["in_sample_error"])


def test_sweeps_and_refit_pay_in_sample():
    layer, X, _ = realistic(5)
    errors = [
        np.mean(prune_layer(layer, X, 0.3, **options).summary["in_sample_error"])
        for options in ({"refit_steps": 0, "sequential": False}, {"sequential": False}, {}, {"sweeps": 2})
    ]
    assert errors == sorted(errors, reverse=True)


def test_polish_and_swaps_lower_the_divergence_and_keep_the_count():
    layer, X, _ = realistic(6)
    errors = []
    for options in ({"steps": 0}, {"steps": 15}, {"steps": 15, "swap_rounds": 2, "swap_share": 0.05}):
        pruned = prune_layer(layer, X, 0.6, "fisher-obs-kl", ridge=1.0, **options)
        assert set(pruned.summary["pruned_Q"] + pruned.summary["pruned_K"]) == {pruned_count(0.6, 24 * 6)}
        errors.append(np.mean(pruned.summary["in_sample_error"]))
    assert errors[1] < errors[0] and errors[2] < errors[0]


@pytest.mark.parametrize("corner", ["one token", "saturated", "zero"])
def test_swaps_leave_heads_alone_that_have_no_curvature(corner):
    layer, X, _ = realistic(d=8, n=6)
    if corner == "one token":
        X = X[:1, :1]
    else:
        gain = 300 if corner == "saturated" else 0
        layer = layer.with_weights(gain * layer.W_Q, gain * layer.W_K)
    start, swapped = (
        prune_layer(layer, X, 0.5, "fisher-obs-kl", ridge=1.0, steps=3, swap_rounds=rounds) for rounds in (0, 2)
    )
    for before, after in ((start.layer.W_Q, swapped.layer.W_Q), (start.layer.W_K, swapped.layer.W_K)):
        assert np.abs(after).max() <= 2 * np.abs(before).max()
    assert swapped.summary["pruned_Q"] == start.summary["pruned_Q"]


@pytest.mark.parametrize("seed", range(4))
def test_sweeps_do_not_follow_rounding_errors(seed):
    """All tokens alike: the softmax is uniform whatever the weights, and what is left of its metric is rounding."""
    layer, X, _ = realistic(seed, kv_heads=1)
    for pruned in (prune_layer(layer, 0 * X + X[0, 0], 0.5, sweeps=sweeps).layer for sweeps in (0, 1, 2)):
        assert np.abs(pruned.W_Q).max() < 2 * np.abs(layer.W_Q).max()
        assert np.abs(pruned.W_K).max() < 2 * np.abs(layer.W_K).max()


def test_the_ridge_is_chosen_on_the_calibration_sequences_alone():
    layer, X, _ = realistic(6)
    chosen = prune_layer(layer, X, 0.6, "fisher-obs-kl", steps=10)
    ridge = chosen.summary["options"]["ridge"]
    assert ridge in (10.0, 30.0, 100.0, np.inf)
    assert (prune_layer(layer, X, 0.6, "fisher-obs-kl", steps=10, ridge=ridge).layer.W_Q == chosen.layer.W_Q).all()
    errors = {}
    for candidate in (10.0, 30.0, 100.0, np.inf):
        half = prune_layer(layer, X[::2], 0.6, "fisher-obs-kl", steps=10, ridge=candidate)
        errors[candidate] = layer_relative_error(layer, half.layer, X[1::2]).mean()
    assert ridge == min(errors, key=errors.get)
    stay = prune_layer(layer, X, 0.6, "fisher-obs-kl", ridge=np.inf)
    assert (stay.layer.W_K == prune_layer(layer, X, 0.6, sweeps=1).layer.W_K).all()
    assert prune_layer(layer, X[0], 0.6, "fisher-obs-kl", steps=2).summary["options"]["ridge"] == 30.0


def test_learnt_masks_improve_on_where_they_start():
    layer, X, _ = realistic(7)
    start, learnt = (prune_layer(layer, X, 0.5, "ste", steps=steps) for steps in (0, 60))
    diagonal = prune_layer(layer, X, 0.5, "fisher-diagonal")
    assert (start.mask_Q == diagonal.mask_Q).all()
    assert np.mean(learnt.summary["in_sample_error"]) < 0.8 * np.mean(start.summary["in_sample_error"])


def test_the_paper_s_descent_keeps_what_the_hessian_of_the_ones_favours():
    """Small steps: M - 1 decays uniformly, then follows the Hessian applied to the all-ones direction, a signed one."""
    from attnprune_verify.model.layer_functions import layer_hessian_vector_product

    layer, X, _ = realistic(8)
    ones = np.ones_like(layer.W_Q), np.ones_like(layer.W_K)
    along_Q, _ = layer_hessian_vector_product(layer, *ones, *ones, X)
    pruned = prune_layer(layer, X, 0.5, "paper-gd", steps=3, step_size=1e-3, momentum=0.0)
    expected = join_heads(keep_largest(split_heads(along_Q, 2), 0.5))
    assert np.mean(pruned.mask_Q == expected) > 0.98
    assert 0.2 < np.mean(along_Q < 0) < 0.8


@pytest.mark.parametrize("kind", list(KINDS))
def test_summary_reports_the_error_that_is_there(kind):
    layer, X = random_layer(kind, d=8)
    pruned = prune_layer(layer, X, 0.4)
    np.testing.assert_allclose(pruned.summary["in_sample_error"], layer_relative_error(layer, pruned.layer, X))
    assert 0.01 <= pruned.summary["options"]["damping"] <= 1.0


BAD = {
    "method": ({"method": "obs"}, "method must be one of random, magnitude"),
    "method's type": ({"method": ["magnitude"]}, r"method must be one of .*; got \['magnitude'\]"),
    "option": ({"dampening": 0.1}, "options of method 'fisher-obs' are damping.*got 'dampening'"),
    "no options": ({"method": "magnitude", "seed": 1}, "method 'magnitude' has no options; got 'seed'"),
    "rho": ({"rho": 1.5}, r"rho must be in \[0, 1\]"),
    "damping": ({"damping": -1.0}, "damping must be finite and >= 0"),
    "singular": ({"damping": 0.0, "dead": True}, "must be positive definite after damping"),
    "blocksize": ({"blocksize": 0}, "blocksize must be an integer >= 1"),
    "sweeps": ({"sweeps": 1, "sequential": False}, "sweeps must be 0 unless"),
    "multiplier": ({"multiplier_ridge": 0.0}, "multiplier_ridge must be finite and > 0"),
    "sequential": ({"sequential": "no"}, "sequential must be True or False; got 'no'"),
    "metric": ({"output_metric": "hessian"}, "output_metric must be one of"),
    "squared": ({"output_metric": "squared", "rope": True}, "for a layer with RoPE; got 'squared'"),
    "threshold": ({"method": "fisher-diagonal", "threshold": "matrix"}, "threshold must be head or layer"),
    "seed": ({"method": "random", "seed": -1}, "seed must be"),
    "momentum": ({"method": "paper-gd", "momentum": 1.0}, r"momentum must be in \[0, 1\)"),
    "reading": ({"method": "paper-gd", "reading": "text"}, "reading must be one of literal"),
    "diverges": ({"method": "paper-gd", "step_size": 1e300, "steps": 4}, r"step_size = 1e\+300 it diverged in step 1"),
    "ridge": ({"method": "fisher-obs-kl", "ridge": -1}, "ridge must be"),
    "swap share": ({"method": "fisher-obs-kl", "swap_share": 2}, r"swap_share must be in \[0, 1\]; got 2"),
    "sparsegpt at once": ({"method": "sparsegpt", "blocksize": 0, "zero": True}, "blocksize must be an integer >= 1"),
    "zero tokens": ({"zero": True}, r"X\^T X must be finite and not zero"),
    "huge tokens": ({"huge": True}, r"logits must be finite|X\^T X must"),
    "neither": ({"rho": None}, "exactly one of rho and pattern must be given; got None and None"),
    "both": ({"pattern": "2:4"}, "exactly one of rho and pattern must be given"),
    "no pattern": (
        {"rho": None, "method": "ste", "pattern": "2:4"},
        "a method with a pattern must be one of magnitude",
    ),
    "narrow pattern": ({"rho": None, "method": "wanda", "pattern": "2:5"}, "number of inputs must be a multiple of M"),
    "layer budget": ({"method": "output-obs", "budget": "layer"}, "budget must be head or matrix"),
    "width": ({"narrow": True}, "X has d = 23 where W_Q has d = 24"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    options, message = BAD[case]
    options = dict(options)
    layer, X, _ = realistic(rope=RoPE() if options.pop("rope", False) else None)
    rho = options.pop("rho", 0.5)
    if options.pop("dead", False):
        X[..., 0] = 0
    if options.pop("zero", False):
        X = 0 * X
    if options.pop("huge", False):
        X = 1e200 * X
    if options.pop("narrow", False):
        X = X[..., :-1]
    with pytest.raises(InvalidInstance, match=message):
        prune_layer(layer, X, rho, **options)
