"""The fast code against the plain formulas, in any number of threads, at sizes with many blocks and chunks."""

import numpy as np
import pytest

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.mask import Causal, Window
from attnprune_verify.instance.rope import RoPE
from attnprune_verify.model import kernel, plain, threads, tiles
from attnprune_verify.model.functions import attention_matrices
from attnprune_verify.model.maps import Fused, Heads
from attnprune_verify.model.objective import Objective
from attnprune_verify.oracle import running_error
from attnprune_verify.oracle.inputs import fused

BANDED = np.abs(np.subtract.outer(np.arange(300), np.arange(300))) < 40
FUSED = {
    "one chunk": ((9, 4), None, 1.0),
    "full": ((300, 5), None, 1.0),
    "causal": ((300, 5), "causal", 1.0),
    "banded": ((300, 5), BANDED, 1.0),
    "window": ((300, 5), Causal() & Window(70), 1.0),
    "rows within a unit": ((520, 3), None, 1.0),
    "batch": ((40, 70, 4), "causal", 1.0),
    "large batch": ((5, 300, 4), None, 1.0),
    "shifted": ((300, 5), "causal", 40.0),
    "no shift by the largest row only": ((700, 2), Causal() & Window(9), 3.0),
}


def fused_problem(name, dtype=np.float64):
    shape, mask, size = FUSED[name]
    rng = np.random.default_rng(5)
    d = shape[-1]
    X, W, M, V = (rng.standard_normal(each).astype(dtype) for each in (shape, (d, d), (d, d), (d, d)))
    return Fused.at_the_door(X, (size * W).astype(dtype), mask)[0], [M], [V]


HEADS = {
    "groups": dict(heads=4, kv_heads=2, rope=RoPE(100.0), mask="causal"),
    "cap": dict(heads=2, softcap=1.5, window=60),
    "slopes": dict(heads=2, alibi=[0.5, 0.1], mask="causal"),
}


def heads_problem(name, k=2, n=150):
    rng = np.random.default_rng(6)
    options = HEADS[name]
    m, heads, kv_heads = 4, options["heads"], options.get("kv_heads", options["heads"])
    shapes = [(6, heads * m), (6, kv_heads * m)]
    W_Q, W_K, *matrices = (rng.standard_normal(shape) for shape in shapes * 3)
    layer = AttentionLayer(W_Q, W_K, *(0.3 * rng.standard_normal(shape[1]) for shape in shapes), **options)
    return Heads.at_the_door(layer, rng.standard_normal((k, n, 6)))[0], matrices[:2], matrices[2:]


PROBLEMS = [pytest.param(fused_problem, name, id=name) for name in FUSED]
PROBLEMS += [pytest.param(heads_problem, name, id=name) for name in HEADS]
THREADED = [(fused_problem, "causal"), (fused_problem, "batch"), (heads_problem, "groups")]


def norm_distance(ours, theirs):
    return max(np.abs(a - b).max() / np.abs(b).max() for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("keep_dense", [True, False])
@pytest.mark.parametrize(("make", "name"), PROBLEMS)
def test_the_fast_code_computes_the_plain_formulas(make, name, keep_dense):
    problem, masks, directions = make(name)
    objective = Objective.of(problem, 0.3, keep_dense=keep_dense)
    value, gradients = objective.loss_and_gradient_at(masks)
    expected = plain.loss(problem, masks, 0.3)
    assert value == objective.loss_at(masks) == pytest.approx(expected, rel=1e-12)
    assert norm_distance(gradients, plain.gradient(problem, masks, 0.3)) < 1e-11
    products = objective.hessian_operator_at(masks, keep_rows=keep_dense)(directions)
    assert norm_distance(products, plain.hessian_vector_product(problem, masks, directions, 0.3)) < 1e-10
    at = plain.point(problem, masks)
    error, size = objective.errors_at(masks)
    np.testing.assert_allclose(error.ravel(), np.square(at.c).sum(axis=(1, 2)), rtol=1e-10)
    np.testing.assert_allclose(size.ravel(), np.square(at.F - at.c).sum(axis=(1, 2)), rtol=1e-12)
    F = attention_matrices(problem)
    np.testing.assert_allclose(F, at.F - at.c, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(value, objective.loss_and_gradient_at(masks)[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["one chunk", "full", "causal", "banded"])
def test_within_the_running_error_bound(name, dtype):
    problem, (M,), (V,) = fused_problem(name, dtype)
    (W,) = problem.weights.values()
    mask = problem.visible.allowed(problem.n)
    unit = np.finfo(dtype).eps / 2
    posed = fused(M.astype(float), problem.X[0].astype(float), W.astype(float), 0.3, mask)
    wide = Fused(problem.X.astype(float), W.astype(float), problem.visible)
    value, (gradient,) = Objective.of(problem, 0.3).loss_and_gradient_at([M])
    assert gradient.dtype == dtype
    truth = plain.gradient(wide, [M.astype(float)], 0.3)[0]
    narrow, slack = (running_error.gradient_error(posed, u)[0] for u in (unit, 2.0**-53))
    assert (np.abs(gradient - truth) <= narrow + slack).all()
    off = abs(value - plain.loss(wide, [M.astype(float)], 0.3))
    assert off <= running_error.loss_error(posed, unit) + running_error.loss_error(posed, 2.0**-53)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize(
    ("make", "name"), [(fused_problem, "causal"), (fused_problem, "batch"), (heads_problem, "groups")]
)
def test_threads_do_not_change_a_bit(make, name, count, monkeypatch):
    monkeypatch.setattr(threads, "WORTH", 0.0)
    monkeypatch.setattr(threads, "_SLAB", 64)
    problem, masks, directions = make(name)

    def everything():
        objective = Objective.of(problem, 0.3)
        value, gradients = objective.loss_and_gradient_at(masks)
        product = objective.hessian_operator_at(masks)(directions)
        fresh = objective.hessian_operator_at(masks, keep_rows=False)(directions)
        return [np.array(value), *gradients, *product, *fresh, *objective.errors_at(masks)]

    monkeypatch.setenv("ATTNPRUNE_THREADS", "1")
    alone = everything()
    monkeypatch.setenv("ATTNPRUNE_THREADS", str(count))
    for one, other in zip(alone, everything(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("text", ["0", "two", "-1", "1.5", "\u0663"])
def test_a_wrong_number_of_threads_is_refused(text, monkeypatch):
    monkeypatch.setenv("ATTNPRUNE_THREADS", text)
    with pytest.raises(InvalidInstance, match="ATTNPRUNE_THREADS must be an integer >= 1"):
        threads.crew_for(1e12)


def test_an_error_in_a_thread_arrives(monkeypatch):
    monkeypatch.setattr(threads, "WORTH", 0.0)
    monkeypatch.setenv("ATTNPRUNE_THREADS", "2")
    X = np.full((40, 2), 1e200)
    with pytest.raises(InvalidInstance, match="logits must be finite"):
        Objective(X, np.eye(2))


def test_norms_are_never_too_small():
    rng = np.random.default_rng(7)
    for dtype in (np.float32, np.float64):
        V = rng.standard_normal((3, 20, 4)).astype(dtype)
        true = np.sqrt(np.square(V.astype(np.longdouble)).sum(axis=-1).max())
        for limit in (0.0, 1.0, 1e9):
            assert kernel.norm_within(V, limit) >= true * (1 - 1e-6)
    assert kernel.norm_within(np.full((2, 2), 1e200), np.inf) == np.inf


def test_rows_are_shifted_only_where_norms_say_so():
    for size, shifted in ((0.1, False), (1e3, True)):
        X = size * np.ones((30, 2))
        assert kernel.logits_of(X[None], X[None], None, ()).shift is shifted


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("count", "n"), [(1, 1), (1, 700), (9, 70), (3, 300)])
def test_chunks_cover_every_row_once(count, n, dtype):
    for visible in (None, Causal()):
        problem = Fused.at_the_door(np.zeros((count, n, 1), dtype), np.zeros((1, 1), dtype), visible)[0]
        layout = tiles.layout_of(problem.visible, count, n, problem.dtype, one_by_one=False)
        seen = np.zeros((count, n, n), int)
        space = tiles.Workspace(layout.units, problem.dtype)
        for unit in layout.units:
            for chunk in space.tile(unit).chunks:
                part = seen[unit.queries][..., unit.block.columns][chunk.at]
                part += chunk.place.forbidden is None
                if chunk.tail is not None:
                    part += 1
                    part[..., -chunk.allowed.shape[1] :] += chunk.allowed.astype(int) - 1
        np.testing.assert_array_equal(seen, np.broadcast_to(problem.visible.allowed(n), seen.shape))
