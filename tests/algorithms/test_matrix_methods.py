"""Every method for one linear map: exact counts, the baselines against their own programs, OBS against brute force."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from attnprune_verify.algorithms.arguments import pruned_count
from attnprune_verify.algorithms.baselines.magnitude import magnitude_mask
from attnprune_verify.algorithms.baselines.sparsegpt import sparsegpt
from attnprune_verify.algorithms.baselines.wanda import wanda_mask
from attnprune_verify.algorithms.matrix.budget import Pattern, Share, as_pattern
from attnprune_verify.algorithms.matrix.damping import MomentSum, damped, second_moments
from attnprune_verify.algorithms.matrix.exchange import best_exchange, exchange, two_sided_objective
from attnprune_verify.algorithms.matrix.output_obs import OutputOBS, usable_metric, used_metrics
from attnprune_verify.algorithms.matrix.prune import prune_matrix
from attnprune_verify.algorithms.matrix.two_sided import prune_two_sided, refit
from attnprune_verify.algorithms.methods import MATRIX_METHODS
from attnprune_verify.errors import InvalidInstance

BUDGETS = {
    "0.3": Share(0.3),
    "0.5": Share(0.5),
    "47 zeros": Share(Fraction(47, 96)),
    "2:4": Pattern(2, 4),
    "1:3": Pattern(1, 3),
}


def problem(seed=0, out=8, into=12, k=8, n=20, blocks=2):
    """A weight, correlated inputs and an output metric of two heads."""
    rng = np.random.default_rng(seed)
    mixing = lambda size: rng.normal(size=(size, size)) * np.linspace(1.5, 0.2, size)  # noqa: E731
    X, g = rng.normal(size=(k, n, into)) @ mixing(into), rng.normal(size=(k, n, out)) @ mixing(out)
    outputs = MomentSum(out, k, blocks)
    for tokens, gradients in zip(X, g, strict=True):
        outputs.add(gradients, np.square(tokens).sum(axis=1))
    return rng.normal(size=(out, into)), X, outputs.finish()


def zeros(budget, size):
    return (
        size // budget.group * (budget.group - budget.kept)
        if isinstance(budget, Pattern)
        else pruned_count(budget.rho, size)
    )


@pytest.mark.parametrize("name", [name for name in MATRIX_METHODS if name != "wanda" and "sparsegpt" not in name])
@pytest.mark.parametrize("budget", BUDGETS)
def test_exact_counts(name, budget):
    weight, X, outputs = problem()
    result = prune_matrix(name, weight, second_moments(X), outputs, BUDGETS[budget])
    assert (~result.kept).sum() == zeros(BUDGETS[budget], weight.size)
    assert (result.weight[~result.kept] == 0).all() and (result.weight[result.kept] != 0).all()
    if isinstance(pattern := BUDGETS[budget], Pattern):
        assert (result.kept.reshape(8, -1, pattern.group).sum(axis=2) == pattern.kept).all()


@pytest.mark.parametrize("pattern", [None, Pattern(2, 4), Pattern(1, 4)])
def test_baselines_from_moments_are_the_originals(pattern):
    weight, X, _ = problem()
    X[..., 3] = 0  # a dead input
    inputs, budget = second_moments(X), pattern or Share(0.4)
    groups = {"prune_n": pattern.group - pattern.kept, "prune_m": pattern.group} if pattern else {}
    new, pruned = sparsegpt(weight, X, 0.4, blocksize=8, **groups)
    got = prune_matrix("sparsegpt", weight, inputs, None, budget, blocksize=8)
    assert (got.kept == ~pruned).all() and got.weight == pytest.approx(new, rel=1e-9, abs=1e-12)
    assert (prune_matrix("wanda", weight, inputs, None, budget).kept == ~wanda_mask(weight, X, 0.4, **groups)).all()
    if pattern is None:
        assert (prune_matrix("magnitude", weight, inputs, None, budget).kept == ~magnitude_mask(weight, 0.4)).all()


def test_moments_do_not_depend_on_how_tokens_arrive():
    """Sums over windows are the plain product, weights and blocks included; the damping has its printed formula."""
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(3, 10, 6)), rng.random((3, 10))
    sums = MomentSum(6, sequences=3, blocks=2)
    for tokens, weight in zip(X, weights, strict=True):
        sums.add(tokens, weight)
    flat, all_weights = X.reshape(30, 2, 3), weights.ravel()
    assert sums.finish().H == pytest.approx(np.einsum("tbi,t,tbj->bij", flat, all_weights, flat) / 30)
    draws = [part.T @ part for tokens in X for part in (tokens[:3], tokens[3:6], tokens[6:9])]  # 9 >= 8 pieces
    mean = sum(draws) / 9
    noise = sum(np.square(draw - mean).sum() for draw in draws) / (9 * 8)
    share = noise / np.square(mean - np.trace(mean) / 6 * np.eye(6)).sum()
    assert second_moments(X).damping == pytest.approx(min(1.0, max(0.01, share / (1 - share))))


def least(target, kept, H, G):
    """The least tr(G D H D^T) / 2 over weights on `kept`, by the normal equations; (out, in) layout."""
    metric = np.kron(G, H)
    K, D = kept.ravel(), -target.ravel().copy()
    rest = np.where(K, 0.0, D)
    D[K] = -np.linalg.solve(metric[np.ix_(K, K)], (metric @ rest)[K])
    return D @ metric @ D / 2


def test_one_pruned_weight_is_the_cheapest_and_costs_its_score():
    weight, X, outputs = problem(out=3, into=4, blocks=1)
    inputs = second_moments(X)
    result = prune_matrix("output-obs", weight, inputs, outputs, Share(Fraction(1, 12)), blocksize=4, refit_steps=60)
    H, G = inputs.H + 0.3 * inputs.damping * np.trace(inputs.H) / 4 * np.eye(4), usable_metric(outputs)[0]
    D = result.weight - weight
    costs = [least(weight, np.arange(12).reshape(3, 4) != i, H, G) for i in range(12)]
    assert np.vdot(D, G @ D @ H) / 2 == pytest.approx(min(costs), rel=1e-9)
    assert int(np.argmin(costs)) == int(np.flatnonzero(~result.kept)[0])


@pytest.mark.parametrize(("tokens", "share"), [(19, 1.0), (20, 0.3)])
def test_all_of_the_prescribed_damping_is_taken_below_five_tokens_a_feature(tokens: int, share: float) -> None:
    inputs = second_moments(np.random.default_rng(0).standard_normal((1, tokens, 4)))
    H, _ = used_metrics(inputs, None, OutputOBS())
    np.testing.assert_allclose(H, damped(inputs.H, share * inputs.damping))
    assert inputs.damping > 0.02


def test_a_head_on_which_more_depends_keeps_more():
    weight, X, outputs = problem(blocks=2)
    loud = outputs._replace(H=outputs.H * np.array([1.0, 100.0])[:, None, None])
    kept = prune_matrix("output-obs", weight, second_moments(X), loud, Share(0.5), output_damping=0.01).kept
    assert kept[4:].sum() > 1.5 * kept[:4].sum()


@pytest.mark.parametrize("metric", ["two heads", "identity"])
def test_exchanges_end_where_none_helps(metric):
    """By recomputation and, on a small problem, by trying every exchange with all other weights as they are."""
    weight, X, outputs = problem(seed=3, into=8)
    pattern, inputs = Pattern(2, 4), second_moments(X)
    H = inputs.H + 0.05 * np.trace(inputs.H) / 8 * np.eye(8)
    G = usable_metric(outputs) if metric == "two heads" else None
    target = weight.reshape(2 if G is not None else 1, -1, 8).swapaxes(1, 2)
    start = refit(prune_two_sided(target, H, G, pattern, 8), target, H, G, 20)
    end = exchange(start, target, H, G, pattern, 100)
    before, after = (two_sided_objective(one.weight, target, H, G) for one in (start, end))
    assert best_exchange(start, target, H, G, pattern) > 0 and best_exchange(end, target, H, G, pattern) <= 1e-7
    assert after < before and (end.kept.reshape(len(target), 2, 4, -1).sum(axis=2) == 2).all()
    assert (end.weight[~end.kept] == 0).all()
    for block in range(len(target)):
        for c in range(target.shape[2]):
            for group in (0, 4):
                for support in combinations(range(4), 2):
                    kept = np.zeros(4, dtype=bool)
                    kept[list(support)] = True
                    if (kept != end.kept[block, group : group + 4, c]).any():
                        assert _by_hand(end.weight, target, H, G, (block, group, c), kept) >= after * (1 - 2e-7)


def _by_hand(weight, target, H, G, where, kept):
    """The objective with one output's group on another support, its weights by least squares on the objective."""
    block, group, c = where
    trial = weight.copy()
    trial[block, group : group + 4, c] = 0.0

    def at(values):
        trial[block, group + np.flatnonzero(kept), c] = values
        return two_sided_objective(trial, target, H, G)

    base, unit = at(np.zeros(2)), np.eye(2)
    curvature = np.array([[at(a + b) - at(a) - at(b) + base for b in unit] for a in unit])
    slope = np.array([at(a) - base for a in unit]) - np.diag(curvature) / 2
    return at(-np.linalg.solve(curvature, slope))


BAD = {
    "pattern text": (lambda: as_pattern("2of4", 8), 'pattern must be "N:M"'),
    "pattern order": (lambda: as_pattern("5:4", 8), "0 <= N <= M"),
    "pattern width": (lambda: as_pattern("2:4", 10), "multiple of M; got 10 and 2:4"),
    "method": (lambda: _prune("obs"), "method must be one of magnitude"),
    "option": (lambda: _prune("output-obs", probes=3), "options of method 'output-obs' are damping"),
    "damping": (lambda: _prune("output-obs", damping=-1), "damping must be finite and >= 0"),
    "size": (
        lambda: prune_matrix("wanda", np.ones((2, 3)), second_moments(np.ones((1, 2, 4))), None, Share(0.5)),
        "inputs' moments must be",
    ),
    "singular": (
        lambda: _prune("output-obs", damping=0.0),
        "inputs. second moments must be positive definite after damping; damping = 0.0",
    ),
}


def _prune(method, **options):
    weight, X, outputs = problem(k=1, n=2)
    return prune_matrix(method, weight, second_moments(X), outputs, Share(0.5), **options)


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    call, message = BAD[case]
    with pytest.raises(InvalidInstance, match=message):
        call()
