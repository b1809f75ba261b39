"""Algorithm 1: every reading against its printed lines, guarantees of the guaranteed steps, resuming, divergence."""

import math
from itertools import product

import numpy as np
import pytest

from attnprune_verify.algorithms import descent, steps
from attnprune_verify.algorithms.chaos import chaos
from attnprune_verify.algorithms.descent import prune_mask_gd
from attnprune_verify.algorithms.readings import READINGS, as_reading
from attnprune_verify.algorithms.rounding import binary_mask
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance import families
from attnprune_verify.model import relative_error
from attnprune_verify.model.objective import Objective
from attnprune_verify.oracle import loops
from attnprune_verify.oracle.inputs import fused


def small(seed: int = 0, k: int | None = 3, n: int = 4, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d) if k is None else (k, n, d)), rng.normal(size=(d, d))


# ------------------------------------------------------------ the printed lines, index by index


def attention_gradient(M: np.ndarray, X: np.ndarray, W: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """sum over i, j, l of the chain rule for one sample, with nothing shared with the package."""
    n, d = X.shape

    def rows(weight: np.ndarray) -> list[list[float]]:
        out = []
        for i in range(n):
            logits = [sum(X[i, a] * weight[a, b] * X[j, b] for a in range(d) for b in range(d)) for j in range(n)]
            u = [math.exp(logit) if may else 0.0 for logit, may in zip(logits, allowed[i], strict=True)]
            out.append([value / sum(u) for value in u])
        return out

    f, pruned = rows(W), rows(M * W)
    total = np.zeros((d, d))
    for i in range(n):
        c = [pruned[i][j] - f[i][j] for j in range(n)]
        mean = sum(c[j] * pruned[i][j] for j in range(n))
        for j in range(n):
            p = pruned[i][j] * (c[j] - mean)
            for a in range(d):
                for b in range(d):
                    total[a, b] += W[a, b] * X[i, a] * p * X[j, b]
    return total


def printed_run(X, W, lam, allowed, steps, eta, weight, inside, beta, form, project):  # type: ignore[no-untyped-def]
    """M <- M - (eta/k)(sum + weight M), or with the regulariser outside of 1/k; momentum in three forms."""
    M, v, k = np.ones_like(W), np.zeros_like(W), len(X)
    for _ in range(steps):
        total = sum(attention_gradient(M, sample, W, allowed) for sample in X)
        g = (total + weight * M) / k if inside else total / k + weight * M
        v = beta * v + ((1 - beta) if form == "ema" else 1) * g
        M = M - eta * (g + beta * v if form == "nesterov" else v)
        if project:
            M = np.minimum(np.maximum(M, 0), 1)
    return M


PRINTED = {  # strength of the regulariser, whether inside 1/k, eta: as functions of lam and n
    "literal-direct": (lambda lam, n: lam, True, lambda lam, n: 0.1 / lam),
    "literal-tilde": (lambda lam, n: n * lam, True, lambda lam, n: 0.1 / lam),
    "literal-norm": (lambda lam, n: n * lam, True, lambda lam, n: 0.1 / (n * lam)),
    "mean-direct": (lambda lam, n: lam, False, lambda lam, n: 0.1 / lam),
    "mean-tilde": (lambda lam, n: n * lam, False, lambda lam, n: 0.1 / lam),
    "mean-norm": (lambda lam, n: n * lam, False, lambda lam, n: 0.1 / (n * lam)),
    "theorem": (lambda lam, n: lam, False, None),
    "theorem-sharp": (lambda lam, n: lam, False, None),
}
MOMENTUM = [(0.0, "heavy-ball"), (0.9, "heavy-ball"), (0.9, "ema"), (0.9, "nesterov")]


def test_every_reading_is_compared_with_its_printed_lines() -> None:
    assert PRINTED.keys() == READINGS.keys()


@pytest.mark.parametrize("project", [False, True], ids=["free", "projected"])
@pytest.mark.parametrize("momentum", MOMENTUM, ids=str)
@pytest.mark.parametrize("reading", PRINTED)
def test_first_steps_follow_the_printed_lines(reading: str, momentum: tuple[float, str], project: bool) -> None:
    X, W = small()
    beta, form = momentum
    weight, inside, step = PRINTED[reading]
    lam, eta = 0.3, 0.2 if step is None else step(0.3, X.shape[1])
    for mask in (None, "causal"):
        allowed = np.ones((4, 4)) if mask is None else np.tri(4)
        expected = printed_run(X, W, lam, allowed, 3, eta, weight(lam, 4), inside, beta, form, project)
        result = prune_mask_gd(
            X, W, 0.5, lam, mask=mask, eta=eta if step is None else None, steps=3, momentum=beta, reading=reading,
            momentum_form=form, project=project,
        )  # fmt: skip
        np.testing.assert_allclose(result.M, expected, atol=1e-12 * max(1, np.abs(expected).max()))
        np.testing.assert_array_equal(result.mask, binary_mask(expected, 0.5))


@pytest.mark.parametrize("reading", PRINTED)
def test_first_steps_follow_the_loop_oracle(reading: str) -> None:
    X, W = small(seed=4, k=2)
    weight, inside, step = PRINTED[reading]
    lam, eta = 0.3, 0.2 if step is None else step(0.3, X.shape[1])
    strength = weight(lam, 4) / (len(X) if inside else 1)  # of the regulariser in the averaged loss
    M, v = np.ones_like(W), np.zeros_like(W)
    for _ in range(3):
        v = 0.9 * v + loops.gradient(fused(M, X, W, strength, "causal"))[0]
        M = M - eta * v
    fixed = eta if step is None else None
    result = prune_mask_gd(X, W, 0.5, lam, mask="causal", eta=fixed, steps=3, momentum=0.9, reading=reading)
    np.testing.assert_allclose(result.M, M, atol=1e-12 * max(1, np.abs(M).max()))
    assert result.trace.loss[-1] == pytest.approx(loops.loss(fused(M, X, W, strength, "causal")), rel=1e-12)


@pytest.mark.parametrize("wrong", [name for name in PRINTED if name != "literal-tilde"])
def test_readings_differ(wrong: str) -> None:
    """The comparison above can tell readings apart: no two of them agree on this instance."""
    X, W = small()
    other = prune_mask_gd(X, W, 0.5, 0.3, steps=3, reading=wrong).M
    assert np.abs(other - prune_mask_gd(X, W, 0.5, 0.3, steps=3, reading="literal-tilde").M).max() > 1e-3


def test_norm_is_direct_at_n_times_lam() -> None:
    X, W = small(n=8, d=4)
    norm = prune_mask_gd(X, W, 0.5, 0.25, steps=30, reading="literal-norm", momentum=0.9)
    direct = prune_mask_gd(X, W, 0.5, 0.25 * 8, steps=30, reading="literal-direct", momentum=0.9)
    np.testing.assert_array_equal(norm.M, direct.M)


# ------------------------------------------------------------ steps with a guarantee


def projected_operator(objective: Objective, allowed: np.ndarray) -> np.ndarray:
    """Pi A as a dense matrix, by definition; the samples stacked and scaled so that squares average."""
    d = len(objective.W)
    columns = []
    for a, b in product(range(d), range(d)):
        blocks = []
        for X in objective.X:
            change = objective.W[a, b] * np.outer(X[:, a], X[:, b])
            for row, may in zip(change, allowed.astype(bool), strict=True):
                row[~may] = 0
                row[may] -= row[may].mean()
            blocks.append(change.ravel())
        columns.append(np.concatenate(blocks) / math.sqrt(objective.k))
    return np.array(columns).T


GIVEN = np.array([[1, 0, 0, 0, 0], [1, 1, 0, 0, 1], [0, 1, 1, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1]])
MASKS = {"full": None, "causal": "causal", "given": GIVEN}


@pytest.mark.parametrize("name", MASKS)
def test_logit_motion_is_the_norm_of_the_projected_operator(name: str) -> None:
    X, W = small(n=5, d=4)
    objective = Objective(X, W, 0.1, MASKS[name])
    allowed = {"full": np.ones((5, 5)), "causal": np.tri(5), "given": GIVEN}[name]
    operator = projected_operator(objective, allowed)
    for seed in range(5):
        V = np.random.default_rng(seed).normal(size=W.shape)
        expected = float(np.sum((operator @ V.ravel()) ** 2))
        assert steps.logit_motion(objective, V) == pytest.approx(expected, rel=1e-12)
    largest = np.linalg.norm(operator, 2) ** 2
    assert steps.smoothness(objective) >= 0.1 + steps.LARGEST_CURVATURE * largest
    assert steps.smoothness(objective) <= 0.1 + 20 * steps.LARGEST_CURVATURE * largest  # not a useless bound


CORNERS = {name: family for name, family in families.FAMILIES.items() if name != "paper_synthetic"}


def descends(result: descent.Descent) -> None:
    """L(M_t) - L(M_t+1) >= eta_t ||g_t||^2 / 2 up to rounding of the loss."""
    loss, trace = result.trace.loss, result.trace
    promised = trace.step * trace.gradient_norm[:-1] ** 2 / 2
    assert (loss[:-1] - loss[1:] >= promised * (1 - 1e-6) - 1e-13 * loss[0]).all()
    assert trace.ascents == 0


@pytest.mark.parametrize("reading", ["theorem", "theorem-sharp"])
@pytest.mark.parametrize("name", CORNERS)
def test_guaranteed_steps_descend_by_what_they_promise(name: str, reading: str) -> None:
    for seed in range(3):
        problem = CORNERS[name](np.random.default_rng(seed))
        for lam in (0.0, 1e-3, 1.0):
            arguments = (problem.X, problem.W, 0.5, lam)
            result = prune_mask_gd(*arguments, mask=problem.mask, reading=reading, steps=15)
            descends(result)
            size = len(problem.W) * (1 + 1e-9)
            assert (result.trace.mask_norm <= size).all()  # confinement: ||M_t||_F <= ||M_0||_F = d
            far = np.random.default_rng(seed).normal(size=problem.W.shape)
            descends(prune_mask_gd(*arguments, mask=problem.mask, reading=reading, steps=15, initial=3 * far))


@pytest.mark.parametrize("form", ["heavy-ball", "ema"])
@pytest.mark.parametrize("name", CORNERS)
def test_guaranteed_steps_along_momentum_never_ascend(name: str, form: str) -> None:
    problem = CORNERS[name](np.random.default_rng(1))
    start = np.random.default_rng(2).normal(size=problem.W.shape)
    result = prune_mask_gd(
        problem.X, problem.W, 0.5, 0.01, mask=problem.mask, momentum=0.9, momentum_form=form, steps=40, initial=start
    )  # fmt: skip
    assert result.trace.ascents == 0


def test_the_curvature_constant_is_attained_and_never_exceeded() -> None:
    """Two tokens, one feature, a large weight: the second derivative comes within 1e-6 of lam + C_+ motion(1)."""
    X, W, one = np.array([[1.0], [0.0]]), np.array([[20.0]]), np.ones((1, 1))
    objective = Objective(X, W, 0.25)
    bound = 0.25 + steps.LARGEST_CURVATURE * steps.logit_motion(objective, one)
    coarse = np.linspace(-0.5, 0.5, 1001)
    best = coarse[np.argmax([objective.hessian_vector_product([[m]], one)[0, 0] for m in coarse])]
    fine = best + np.linspace(-1e-3, 1e-3, 401)
    second = [objective.hessian_vector_product([[m]], one)[0, 0] for m in np.concatenate([coarse, fine])]
    assert max(second) <= bound
    assert max(second) >= bound * (1 - 1e-6)


@pytest.mark.parametrize("name", CORNERS)
def test_curvature_stays_below_the_bound(name: str) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        problem = CORNERS[name](rng)
        objective = Objective(problem.X, problem.W, 0.01, problem.mask)
        M, V = rng.normal(size=(2, *problem.W.shape)) * 10.0 ** rng.uniform(-3, 1)
        curvature = float(np.vdot(V, objective.hessian_vector_product(M, V)))
        directional = 0.01 * float(np.vdot(V, V)) + steps.LARGEST_CURVATURE * steps.logit_motion(objective, V)
        assert curvature <= directional * (1 + 1e-9)
        assert directional <= steps.smoothness(objective) * float(np.vdot(V, V)) * (1 + 1e-9)


# ------------------------------------------------------------ resuming, divergence, standing still


@pytest.mark.parametrize("reading", ["theorem", "theorem-sharp", "literal-norm"])
def test_a_resumed_run_is_the_longer_run_to_the_last_bit(reading: str) -> None:
    X, W = small(n=8, d=5)
    options = {"mask": "causal", "momentum": 0.9, "reading": reading}
    whole = prune_mask_gd(X, W, 0.4, 0.1, steps=30, **options)  # type: ignore[arg-type]
    half = prune_mask_gd(X, W, 0.4, 0.1, steps=11, **options)  # type: ignore[arg-type]
    rest = prune_mask_gd(X, W, 0.4, 0.1, steps=19, resume=half, **options)  # type: ignore[arg-type]
    np.testing.assert_array_equal(rest.M, whole.M)
    np.testing.assert_array_equal(rest.mask, whole.mask)
    for name in ("loss", "gradient_norm", "mask_norm", "least", "greatest", "outside", "step"):
        np.testing.assert_array_equal(getattr(rest.trace, name), getattr(whole.trace, name))
    assert rest.steps == 30 and half.steps == 11  # the earlier result is left as it was


def test_resuming_something_else_is_refused() -> None:
    X, W = small(n=8, d=5)
    half = prune_mask_gd(X, W, 0.4, 0.1, steps=3)
    with pytest.raises(InvalidInstance, match="settings.*lam"):
        prune_mask_gd(X, W, 0.4, 0.2, resume=half)
    with pytest.raises(InvalidInstance, match="data"):
        prune_mask_gd(X + 0.01, W, 0.4, 0.1, resume=half)
    with pytest.raises(InvalidInstance, match="data"):
        prune_mask_gd(X[..., :4], W[:4, :4], 0.4, 0.1, resume=half)


def test_divergence_is_detected_and_said() -> None:
    problem = families.paper_synthetic(np.random.default_rng(0), k=4, n=64, d=16)
    result = prune_mask_gd(problem.X, problem.W, 0.5, 0.04, mask="causal", reading="mean-tilde", momentum=0.9)
    assert result.status == "diverged" and "diverged in step" in result.message and "||M||_F" in result.message
    assert np.isfinite(result.M).all() and result.mask.sum() == 128
    assert np.isfinite(result.trace.loss).all() and len(result.trace.loss) == len(result.trace.step) + 1
    with pytest.raises(InvalidInstance, match="diverged"):
        prune_mask_gd(
            problem.X, problem.W, 0.5, 0.04, mask="causal", reading="mean-tilde", momentum=0.9, resume=result
        )  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_eta_beyond_all_bounds_diverges_without_a_warning(dtype: type) -> None:
    X, W = (array.astype(dtype) for array in small())
    result = prune_mask_gd(X, W, 0.5, 1.0, eta=1e30, steps=50)
    assert result.status == "diverged" and np.isfinite(result.M).all()


def test_without_a_regulariser_nothing_ever_moves() -> None:
    result = prune_mask_gd(*small(), 0.5, 0.0, eta=1.0)
    assert result.status == "stationary" and result.steps == 0 and (result.M == 1).all()
    np.testing.assert_array_equal(result.mask.ravel(), [0] * 4 + [1] * 5)  # ties: lowest index first


def test_the_trace_says_where_the_run_went() -> None:
    X, W = small(n=8, d=5)
    result = prune_mask_gd(X, W, 0.4, 0.1, steps=7, eta=3.0, mask="causal")
    trace, objective = result.trace, Objective(X, W, 0.1, "causal")
    loss, gradient = objective.loss_and_gradient(result.M)
    assert trace.loss[-1] == loss and trace.gradient_norm[-1] == np.linalg.norm(gradient)
    assert trace.mask_norm[0] == 5 and trace.mask_norm[-1] == np.linalg.norm(result.M)
    assert trace.least[-1] == result.M.min() and trace.greatest[-1] == result.M.max()
    assert trace.outside[-1] == np.count_nonzero((result.M < 0) | (result.M > 1))
    assert trace.outside[0] == 0 and (trace.step == 3.0).all() and trace.ascents > 0


def test_no_steps_keep_everything_equal() -> None:
    result = prune_mask_gd(*small(), 0.5, 0.1, steps=0)
    assert result.steps == 0 and len(result.trace.loss) == 1 and result.mask.sum() == 5


def test_progress_is_told_of_every_step() -> None:
    seen: list[tuple[int, int]] = []
    prune_mask_gd(*small(), 0.5, 0.1, steps=4, progress=lambda *now: seen.append(now))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


# ------------------------------------------------------------ dtype, purity, bad input


def test_float32_in_float32_out() -> None:
    X, W = small()
    assert prune_mask_gd(X.astype("f4"), W.astype("f4"), 0.5, 0.1, steps=3).M.dtype == np.float32
    assert prune_mask_gd(X.astype("f4"), W, 0.5, 0.1, steps=3).M.dtype == np.float64


@pytest.mark.parametrize("name", CORNERS)
def test_guaranteed_steps_never_ascend_in_float32(name: str) -> None:
    problem = CORNERS[name](np.random.default_rng(0))
    X, W = problem.X.astype(np.float32), problem.W.astype(np.float32)
    far = np.random.default_rng(0).normal(size=W.shape).astype(np.float32)
    for reading in ("theorem", "theorem-sharp"):
        result = prune_mask_gd(X, W, 0.5, 0.01, mask=problem.mask, steps=60, reading=reading, initial=far)
        assert result.M.dtype == np.float32 and result.trace.ascents == 0


def test_inputs_are_not_modified_and_results_repeat() -> None:
    X, W = small()
    start = np.full((3, 3), 0.5)
    copies = X.copy(), W.copy(), start.copy()
    first = prune_mask_gd(X, W, 0.5, 0.1, steps=5, initial=start, momentum=0.9)
    second = prune_mask_gd(X, W, 0.5, 0.1, steps=5, initial=start, momentum=0.9)
    np.testing.assert_array_equal(first.M, second.M)
    for array, copy in zip((X, W, start), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


BAD = [
    ({"rho": 1.5}, "rho must be in"),
    ({"rho": float("nan")}, "rho must be in"),
    ({"lam": -1.0}, "lam must be"),
    ({"lam": float("nan")}, "lam must be"),
    ({"lam": 0.0, "reading": "literal-direct"}, "lam must be > 0 for eta = 0.1/lam"),
    ({"lam": 0.0, "reading": "mean-norm"}, "lam must be > 0"),
    ({"eta": 0.0}, "eta must be"),
    ({"eta": -1.0}, "eta must be"),
    ({"eta": float("inf")}, "eta must be"),
    ({"steps": -1}, "steps must be"),
    ({"steps": 2.5}, "steps must be"),
    ({"momentum": 1.0}, "momentum must be"),
    ({"resume": {"M": np.eye(3)}}, "resume must be the result of an earlier run; got dict"),
    ({"momentum": -0.1}, "momentum must be"),
    ({"momentum_form": "adam"}, "momentum_form must be"),
    ({"momentum_form": "nesterov", "momentum": 0.9}, "nesterov"),
    ({"reading": "paper"}, "reading must be one of"),
    ({"X": np.ones((0, 3))}, "empty"),
    ({"X": np.ones((0, 4, 3))}, "empty"),
    ({"X": np.full((4, 3), np.nan)}, "X must be finite"),
    ({"W": np.ones((3, 2))}, "shapes"),
    ({"mask": np.zeros((4, 4))}, "mask"),
    ({"initial": np.ones((2, 2))}, "initial"),
]


@pytest.mark.parametrize("change,message", BAD, ids=lambda value: value if isinstance(value, str) else "")
def test_bad_input_is_refused_before_any_work(change, message, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    def worked(*_: object) -> None:
        raise AssertionError("work was done")

    monkeypatch.setattr(Objective, "loss_and_gradient", worked)
    arguments = {"X": np.ones((4, 3)), "W": np.eye(3), "rho": 0.5, "lam": 0.1, **change}
    with pytest.raises(InvalidInstance, match=message) as caught:
        prune_mask_gd(**arguments)
    assert "\n" not in str(caught.value)


def test_as_reading_passes_readings_through() -> None:
    assert as_reading(READINGS["theorem"]) is READINGS["theorem"]


# ------------------------------------------------------------ chaos


def test_chaos_is_zero_where_the_descent_is_calm_and_large_where_it_is_not() -> None:
    problem = families.paper_synthetic(np.random.default_rng(0), k=4, n=32, d=16)
    options = {"mask": "causal", "momentum": 0.9}
    calm = chaos(problem.X, problem.W, 0.5, 4.0, reading="literal-norm", **options)
    wild = chaos(problem.X, problem.W, 0.5, 0.04, reading="literal-tilde", **options)
    assert calm.flipped == 0
    assert wild.flipped > 0.2 and wild.flipped_float32 > 0.2
    assert relative_error(wild.masks[0], problem.X, problem.W, "causal") > 0.1


def test_at_a_prompt_a_descent_is_one_line():
    found = prune_mask_gd(np.eye(3), np.ones((3, 3)), 0.5, 0.04, steps=4)
    assert repr(found).startswith("<descent of 3 x 3: completed 4 steps") and repr(found).endswith("4 of 9 pruned>")
    assert "\n" not in repr(found)
