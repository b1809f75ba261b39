"""The solvers on arrays of several libraries: one objective, whatever computes it."""

import array_api_strict
import numpy as np
import pytest

from attnprune_verify.algorithms.arrays import on_host
from attnprune_verify.algorithms.matrix import splitting
from attnprune_verify.algorithms.matrix.budget import Pattern, Share
from attnprune_verify.algorithms.matrix.damping import MomentSum
from attnprune_verify.algorithms.matrix.exchange import two_sided_objective
from attnprune_verify.algorithms.matrix.output_obs import OutputOBS, in_blocks, used_metrics
from attnprune_verify.algorithms.matrix.prune import prune_matrix
from attnprune_verify.algorithms.methods import MATRIX_METHODS
from attnprune_verify.algorithms.selection import smallest

OUT, IN, HEADS, WINDOWS = 48, 64, 3, 8


def torch_arrays(dtype):
    torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")
    return lambda array: torch.from_numpy(np.ascontiguousarray(array)).to(getattr(torch, dtype))


LIBRARIES = {
    "torch float64": lambda: torch_arrays("float64"),
    "torch float32": lambda: torch_arrays("float32"),
    "strict": lambda: array_api_strict.asarray,
}


@pytest.fixture(scope="module")
def drawn():
    """Weights, tokens and gradients, both with a falling spectrum."""
    rng = np.random.default_rng(5)
    falling = lambda size: np.linalg.qr(rng.normal(size=(size, size)))[0] * np.arange(1, size + 1) ** -0.7  # noqa: E731
    X = rng.normal(size=(WINDOWS, 80, IN)) @ falling(IN).T + 0.2 * rng.normal(size=IN)
    g = rng.normal(size=(WINDOWS, 80, OUT)) @ falling(OUT).T
    return rng.normal(size=(OUT, IN)), X, g


def moments(drawn, convert):
    weight, X, g = drawn
    inputs, outputs = MomentSum(IN, WINDOWS), MomentSum(OUT, WINDOWS, HEADS)
    for tokens, gradients in zip(X, g, strict=True):
        inputs.add(convert(tokens))
        outputs.add(convert(gradients), convert(np.square(tokens).sum(axis=1)))
    return convert(weight), inputs.finish(), outputs.finish()


def objective(new, drawn):
    """In NumPy's float64, from NumPy's moments."""
    weight, inputs, outputs = moments(drawn, np.asarray)
    H, G = used_metrics(inputs, outputs, OutputOBS())
    return two_sided_objective(*(in_blocks(one, HEADS) for one in (on_host(new).astype(float), weight)), H, G)


@pytest.mark.parametrize("budget", [Share(0.5), Pattern(2, 4)], ids=str)
@pytest.mark.parametrize("library", LIBRARIES)
def test_output_obs_reaches_the_same_objective(library, budget, drawn):
    convert = LIBRARIES[library]()
    expected = prune_matrix("output-obs", *moments(drawn, np.asarray), budget)
    weight, inputs, outputs = moments(drawn, convert)
    got = prune_matrix("output-obs", weight, inputs, outputs, budget)
    assert type(got.weight) is type(weight) and got.weight.dtype == weight.dtype and got.weight.shape == weight.shape
    assert objective(got.weight, drawn) == pytest.approx(objective(expected.weight, drawn), rel=1e-3)
    assert (on_host(got.kept).sum() == expected.kept.sum()) and (on_host(got.weight)[~on_host(got.kept)] == 0).all()


@pytest.mark.parametrize("name", MATRIX_METHODS)
@pytest.mark.parametrize("library", ["torch float64", "strict"])
def test_every_method_computes_what_numpy_does(name, library, drawn):
    """float64 differs by rounding, and by what rounding decides where an iteration is float32."""
    budget = Share(0.4)
    expected = prune_matrix(name, *moments(drawn, np.asarray), budget)
    got = prune_matrix(name, *moments(drawn, LIBRARIES[library]()), budget)
    assert np.mean(on_host(got.kept) != expected.kept) <= 0.002
    assert objective(got.weight, drawn) == pytest.approx(objective(expected.weight, drawn), rel=1e-3)


@pytest.mark.parametrize("library", LIBRARIES)
def test_one_pass_with_both_metrics(library, drawn):
    options = {"solver": "pass", "blocksize": 16, "refit_steps": 3}
    expected = prune_matrix("output-obs", *moments(drawn, np.asarray), Share(0.5), **options)
    got = prune_matrix("output-obs", *moments(drawn, LIBRARIES[library]()), Share(0.5), **options)
    assert objective(got.weight, drawn) == pytest.approx(objective(expected.weight, drawn), rel=1e-3)


@pytest.mark.parametrize("library", LIBRARIES)
def test_ties_go_by_the_lower_index_everywhere(library):
    scores = np.array([[2.0, 1, 1, 1, 3, 1, 0, 5, 1, 1], [1.0, 1, 1, 1, 1, 1, 1, 1, 1, 1]])
    for count in range(1, 10):
        ranks = np.argsort(np.argsort(scores, axis=1, kind="stable"), axis=1, kind="stable")
        assert (on_host(smallest(LIBRARIES[library]()(scores), count)) == (ranks < count)).all()


def test_large_vectors_are_split_where_sorting_splits_them():
    """The threshold from a sample is that of all scores; with ties and where the sample misleads, too."""
    rng = np.random.default_rng(0)
    size = 2**20
    misleading = np.ones(size)
    misleading[:: size // 2**14] = 0.0
    for scores in (rng.random(size), np.round(rng.random(size), 2), misleading, np.sort(rng.random(size))):
        order = np.argsort(scores, kind="stable")
        for count in (1, size // 3, size - 5):
            chosen = smallest(scores, count)
            assert chosen[order[:count]].all() and chosen.sum() == count


def test_annealing_leaves_less_where_curvatures_are_spread(drawn):
    weight, inputs, outputs = moments(drawn, np.asarray)
    H, G = used_metrics(inputs, outputs, OutputOBS(damping=0.003, output_damping=0.01))
    target = in_blocks(weight, HEADS)
    assert splitting._Splitting(target, H, G).middle < splitting._SPREAD
    left = {
        annealed: two_sided_objective(splitting.split(target, H, G, Share(0.5), annealed=annealed).weight, target, H, G)
        for annealed in (False, True)
    }
    assert left[True] < left[False]


@pytest.mark.parametrize(
    ("given", "summed"),
    [("float16", "float32"), ("bfloat16", "float32"), ("float32", "float32"), ("float64", "float64")],
)
def test_moments_of_short_floats_are_summed_in_float32_at_least(given, summed):
    """4096 tokens of size 8 have a sum of squares that float16 does not hold."""
    torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")
    moments = MomentSum(2, 1)
    moments.add(torch.full((4096, 2), 8.0, dtype=getattr(torch, given)))
    H = moments.finish().H
    assert H.dtype == getattr(torch, summed) and np.asarray(H).ravel() == pytest.approx(64.0)
