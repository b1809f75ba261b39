"""The sharp constants under attack, and attained where they are called sharp."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import lambertw, softmax

from attnprune_verify.instance.problem import Instance
from attnprune_verify.model import Objective, attention, gradient, hessian_vector_product, loss
from attnprune_verify.theory.constants import constants
from attnprune_verify.theory.formulas import rates, sharp
from attnprune_verify.theory.quantities.curvature import local_curvature, row_constants
from attnprune_verify.theory.quantities.kappa import kappa_plus, kappa_zero_sum, row_eigenvalue
from attnprune_verify.theory.quantities.logit_map import LogitMap
from attnprune_verify.theory.quantities.operator_norm import norm_bounds

C_PLUS, C_MINUS, P_STAR = (float(ball) for ball in (sharp.C_plus(), sharp.C_minus(), sharp.P_star()))


def row_hessian(sigma, f):
    """Hessian of 1/2 ||softmax(s) - f||^2 from the definition: J^T J plus the residual times second derivatives."""
    c, J = sigma - f, np.diag(sigma) - np.outer(sigma, sigma)
    g = J @ c
    return J @ J + np.diag(g) - np.outer(sigma, g) - np.outer(g, sigma)


def hessian(instance, M):
    """lam I + sum_i A_i^T H_i A_i, with A_i the (linear) map from M to the logits of row i."""
    W, d, samples = instance.W, instance.d, instance.samples
    total = instance.lam * np.eye(d * d)
    for X in samples:
        for x, sigma, f in zip(X, attention(X, M * W, instance.mask), attention(X, W, instance.mask), strict=True):
            logits = np.einsum("a,ab,jb->jab", x, W, X).reshape(instance.n, d * d)
            total = total + logits.T @ row_hessian(sigma, f) @ logits / len(samples)
    return total


def test_the_hessian_of_these_tests_is_the_one_of_the_model():
    rng = np.random.default_rng(0)
    for mask in (None, "causal"):
        instance = Instance(rng.standard_normal((2, 4, 3)), rng.standard_normal((3, 3)), mask=mask, lam=0.1)
        M = rng.standard_normal((3, 3))
        columns = [
            hessian_vector_product(M, unit.reshape(3, 3), instance.X, instance.W, instance.lam, instance.mask).ravel()
            for unit in np.eye(9)
        ]
        assert np.allclose(hessian(instance, M), columns, rtol=0, atol=1e-13 * np.abs(columns).max())


def largest_curvature(instance, starts, rng):
    """The largest and the smallest Hessian eigenvalue found by random search and Nelder-Mead over M."""
    best = [-np.inf, np.inf]
    for index, scale in enumerate(np.geomspace(0.3, 10, starts)):
        M = scale * rng.standard_normal(instance.W.shape) / np.abs(instance.W) ** (index % 2)
        for side, pick in ((0, -1), (1, 0)):

            def value(m, side=side, pick=pick):
                return (-1) ** (side + 1) * np.linalg.eigvalsh(hessian(instance, m.reshape(instance.W.shape)))[pick]

            found = minimize(value, M.ravel(), method="Nelder-Mead", options={"maxiter": 100})
            best[side] = max(best[0], -found.fun) if side == 0 else min(best[1], found.fun)
    return best


def test_closed_forms_of_the_constants():
    p = np.linspace(0, 1, 2_000_001)
    curve = 4 * p**2 * (1 - p) * (2 - 3 * p)
    assert pytest.approx(curve.max(), abs=1e-11) == C_PLUS and pytest.approx(-curve.min(), abs=1e-11) == C_MINUS
    assert P_STAR == pytest.approx(8 * math.sqrt(2) / 27, rel=1e-15)


@pytest.mark.parametrize("m", [2, 3, 5])
def test_row_curvature_stays_inside_and_reaches_the_constants(m):
    rng = np.random.default_rng(m)

    def extreme(sign):
        def value(s):
            values = np.linalg.eigvalsh(row_hessian(softmax(s), np.eye(m)[0]))  # vertices suffice: H is affine in f
            return -values[-1] if sign > 0 else values[0]

        return max(
            -minimize(value, 4 * rng.standard_normal(m), method="Nelder-Mead", options={"maxiter": 4000}).fun
            for _ in range(8)
        )

    for sign, constant in ((1, C_PLUS), (-1, C_MINUS)):
        reached = extreme(sign)
        assert reached <= constant * (1 + 1e-12)
        assert reached >= constant * (1 - 1e-3)  # no smaller constant would do
    for _ in range(300):
        sigma, f = softmax(4 * rng.standard_normal((2, m)), axis=1)
        values = np.linalg.eigvalsh(row_hessian(sigma, f))
        assert -C_MINUS - 1e-12 <= values[0] and values[-1] <= C_PLUS + 1e-12
        (up,), (down,) = row_constants(sigma[None], f[None])
        assert values[-1] <= up + 1e-13 and -values[0] <= down + 1e-13
        assert up <= C_PLUS * (1 + 1e-12) and down <= C_MINUS * (1 + 1e-12)


def test_p_star_is_the_largest_row_of_p():
    rng = np.random.default_rng(0)

    def value(s):
        sigma = softmax(s)
        c = sigma - np.eye(3)[1]
        return -np.linalg.norm(sigma * (c - c @ sigma))

    reached = max(
        -minimize(value, 3 * rng.standard_normal(3), method="Nelder-Mead", options={"maxiter": 3000}).fun
        for _ in range(8)
    )
    assert P_STAR * (1 - 1e-6) < reached <= P_STAR * (1 + 1e-12)


@pytest.mark.parametrize("w", [5.0, 20.0])
def test_L_sharp_is_attained_in_the_limit_of_two_tokens(w):
    instance = Instance(np.array([[1.0], [0.0]]), np.array([[w]]))
    K = float(norm_bounds(instance).upper)
    assert pytest.approx(w / math.sqrt(2), rel=1e-9) == K
    grid = np.linspace(-1, 2, 1201)
    curvature = [float(hessian_vector_product([[m]], [[1.0]], instance.X, instance.W)[0, 0]) for m in grid]
    low, high = min(curvature) / K**2, max(curvature) / K**2
    assert -C_MINUS <= low < -C_MINUS * 0.98 and C_PLUS * 0.98 < high <= C_PLUS


@pytest.mark.parametrize(
    "n, d, mask, size", [(2, 2, None, 1.0), (3, 2, None, 1.0), (4, 2, "causal", 1.0), (3, 3, "causal", 0.5)]
)
def test_L_sharp_bounds_the_largest_curvature_found_within_three(n, d, mask, size):
    rng = np.random.default_rng(10 * n + d)
    instance = Instance(rng.standard_normal((n, d)), size * rng.standard_normal((d, d)), mask=mask)
    high, low = largest_curvature(instance, 3, rng)
    found = constants(instance)
    assert found.L_sharp / 3 < high <= found.L_sharp and found.curvature_lower <= low
    assert found.L_paper > 1e3 * high
    assert 1.25 * found.K**2 > 3 * high  # the older constant 5/4 would not be within three


def test_lipschitz_constant_of_the_attention_is_attained():
    w, h = 3.0, 1e-5
    X, W = np.array([[1.0], [0.0]]), np.array([[w]])
    change = np.linalg.norm(attention(X, h * W) - attention(X, -h * W)) / (2 * h)
    half = constants(Instance(X, W)).lipschitz_F
    assert change <= half and change == pytest.approx(half, rel=1e-8)
    rng = np.random.default_rng(0)
    for _ in range(50):
        X, W = rng.standard_normal((4, 3)), rng.standard_normal((3, 3))
        M, N = rng.standard_normal((2, 3, 3)) * rng.choice([0.01, 1, 5])
        moved = np.linalg.norm(attention(X, M * W, "causal") - attention(X, N * W, "causal"))
        assert moved <= constants(Instance(X, W, mask="causal")).lipschitz_F * np.linalg.norm(M - N)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_corrected_pl_is_attained_where_the_paper_s_fails(n):
    """X = I, |W| = 1, F uniform at M = 0: ||grad||^2 / ||c||^2 = 1/n^2 exactly; 1/4 for two tokens."""
    rng = np.random.default_rng(n)
    W = rng.choice([-1.0, 1.0], (n, n))
    W[0] = 1.0
    W[1, 0] = -W[1, 1]
    M = np.zeros((n, n))
    ratio = np.sum(gradient(M, np.eye(n), W) ** 2) / (2 * loss(M, np.eye(n), W))
    found = constants(Instance(np.eye(n), W, M=M))
    assert ratio == pytest.approx(1 / n**2, rel=1e-12)
    assert found.mu_corrected / 2 == pytest.approx(ratio, rel=1e-12) and found.mu_paper / 2 > ratio * 1.4
    assert found.mu_operator / 2 == pytest.approx(ratio, rel=1e-9)


def test_corrected_pl_survives_the_attack_that_kills_the_paper_s():
    """Constant |W| on orthonormal tokens, then local optimisation of the slack ||grad||^2 / ((mu/2) ||c||^2)."""
    rng = np.random.default_rng(1)
    killed, worst = 0, np.inf
    for trial in range(12):
        n = 2 + trial % 3
        X = np.linalg.qr(rng.standard_normal((n + trial % 2, n + trial % 2)))[0][:n]
        W = 10.0 ** rng.uniform(-2, 0) * rng.choice([-1.0, 1.0], (X.shape[1],) * 2)

        def ratios(m, X=X, W=W):
            M = m.reshape(W.shape)
            c = 2 * loss(M, X, W)
            F = attention(X, M * W)
            squares = np.sum(gradient(M, X, W) ** 2)
            size = np.abs(W).min()
            return squares / max(c, 1e-300) / (size * F.min()) ** 2, squares / max(c, 1e-300) / (size * F.min())

        start = rng.uniform(0, 0.9, W.size)
        found = minimize(lambda m: ratios(m)[0], start, method="Nelder-Mead", options={"maxiter": 100})
        corrected, _ = ratios(found.x)
        worst, killed = min(worst, corrected), killed + (ratios(start)[1] < 1)  # the start is inside the box
        assert corrected >= 1 - 1e-9
    assert worst < 3  # the attack comes close to equality, so a mu larger by 3 would be caught
    assert killed == 12


@pytest.mark.parametrize("m", [2, 3, 10, 100])
def test_inner_product_floor_row_by_row(m):
    bound = -float(sharp.inner_product_floor([m]))
    assert bound == pytest.approx(float(lambertw((m - 1) / math.e).real), rel=1e-14)
    rng = np.random.default_rng(m)
    t = np.abs(rng.standard_normal((2000, m - 1))) * rng.uniform(0, 8, (2000, 1))
    t[: m + 1] = np.linspace(0.1, 6, m + 1)[:, None]
    mean = (t * np.exp(-t)).sum(axis=1) / (1 + np.exp(-t).sum(axis=1))
    assert mean.max() <= bound
    level = bound + 1  # attained: all other tokens at distance v + 1
    assert (m - 1) * level * math.exp(-level) / (1 + (m - 1) * math.exp(-level)) == pytest.approx(bound, rel=1e-12)


def test_inner_product_with_the_gradient_is_bounded_below():
    rng = np.random.default_rng(2)
    lowest = 0.0
    for trial in range(300):
        n, d = rng.integers(1, 7, 2)
        X, W = rng.standard_normal((n, d)) * 2, rng.standard_normal((d, d)) * rng.choice([0.3, 1, 4])
        M = rng.standard_normal((d, d)) * rng.choice([0.3, 1, 10])
        mask = (None, "causal")[trial % 2]
        product = float(np.vdot(gradient(M, X, W, 0.0, mask), M))
        floor = constants(Instance(X, W, mask=mask)).inner_product_floor
        assert product >= floor - 1e-12
        lowest = min(lowest, product / min(floor, -1e-300))
    assert floor <= 0


def test_kappa_matches_the_dense_operator_and_beats_min_W_beta():
    rng = np.random.default_rng(3)
    for n, d, mask in ((2, 3, None), (3, 4, "causal"), (5, 4, "causal"), (4, 4, None), (5, 4, None)):
        instance = Instance(rng.standard_normal((n, d)), rng.standard_normal((d, d)), mask=mask)
        allowed, basis = instance.allowed, []
        for i in range(n):
            positions = np.flatnonzero(allowed[i])
            centred = np.eye(len(positions)) - 1 / len(positions)
            for vector in np.linalg.svd(centred)[0][:, : len(positions) - 1].T:
                p = np.zeros((n, n))
                p[i, positions] = vector
                basis.append((instance.W * (instance.X.T @ p @ instance.X)).ravel())
        values = np.linalg.svd(np.array(basis), compute_uv=False)
        truth = values[-1] if len(basis) <= d * d else 0.0
        found = float(kappa_zero_sum(instance))
        assert truth * (1 - 1e-6) - 1e-9 <= found <= truth * (1 + 1e-12)
        least = np.linalg.eigvalsh(instance.X @ instance.X.T)[0]
        assert found >= np.abs(instance.W).min() * least * (1 - 1e-9) - 1e-12
        assert float(kappa_plus(instance)) == pytest.approx(values[values > 1e-9][-1], rel=1e-6)
    # n = d + 1 tokens under a causal mask: beta = 0, and still a PL constant
    assert constants(Instance(rng.standard_normal((5, 4)), np.ones((4, 4)), mask="causal")).mu_operator > 0


def test_least_row_eigenvalue():
    rng = np.random.default_rng(4)
    for m in (2, 3, 6):
        F = softmax(2 * rng.standard_normal((4, m)), axis=1)
        truth = min(np.linalg.eigvalsh(np.diag(s) - np.outer(s, s))[1] for s in F)
        assert F.min() <= truth + 1e-15
        assert truth - 1e-10 < row_eigenvalue(F, np.ones(F.shape, dtype=bool)) <= truth + 1e-15
    hidden = np.array([[0.5, 0.5, 0.0]])  # an allowed weight that underflowed counts: lambda_2 = 0
    assert row_eigenvalue(hidden, np.ones((1, 3), dtype=bool)) <= 1e-12
    assert row_eigenvalue(hidden, hidden > 0) > 0.49


def test_pl_near_the_dense_attention_survives_more_tokens_than_features():
    rng = np.random.default_rng(5)
    used = 0
    for trial in range(60):
        n, d = (4, 2) if trial % 2 else (3, 2)
        instance = Instance(
            rng.standard_normal((n, d)), 0.5 * rng.standard_normal((d, d)), mask=(None, "causal")[trial % 2]
        )
        M = 1 + 10.0 ** rng.uniform(-4, -0.5) * rng.standard_normal((d, d))
        dense = attention(instance.X, instance.W, instance.mask)
        c = attention(instance.X, M * instance.W, instance.mask) - dense
        floor = dense[1:][instance.allowed[1:]].min() if instance.mask else dense.min()
        near = rates.near_dense(floor, np.abs(c).max())
        rate = float(rates.pl_near_dense(kappa_plus(instance), floor, np.abs(c).max())) if near else 0.0
        used += rate > 0
        assert np.linalg.norm(gradient(M, instance.X, instance.W, 0.0, instance.mask)) >= rate * np.linalg.norm(c) * (
            1 - 1e-8
        )
    assert used > 30
    # a spurious minimum far from F(1): no global constant exists there, and this one claims none
    X = np.array([[-2.0, -1], [1, 3], [-2, -2], [2, 0]])
    W = np.array([[-3.0, 3], [2, -3]])
    M = np.array([[0.1159488534, 0.2368410716], [-0.3210097236, 0.2168730488]])
    c = attention(X, M * W) - attention(X, W)
    assert np.linalg.norm(gradient(M, X, W)) < 1e-8 < np.linalg.norm(c)
    assert not rates.near_dense(attention(X, W).min(), np.abs(c).max())


@pytest.mark.parametrize("mask", [None, "causal"])
def test_local_curvature_encloses_the_hessian(mask):
    rng = np.random.default_rng(6)
    tighter = 0
    for size in (0.0, 0.05, 0.3, 1.0, 3.0):
        instance = Instance(rng.standard_normal((2, 4, 3)), rng.standard_normal((3, 3)), mask=mask, lam=0.1)
        M = 1 + size * rng.standard_normal((3, 3))
        values = np.linalg.eigvalsh(hessian(instance, M))
        at, everywhere = local_curvature(instance, M), constants(instance)
        assert float(at.lower) - 1e-9 <= values[0] and values[-1] <= float(at.upper) + 1e-9
        assert float(at.upper) <= everywhere.L_sharp * (1 + 1e-9)
        assert float(at.lower) >= everywhere.curvature_lower * (1 + 1e-9) - 1e-9
        tighter += float(at.upper) < 0.99 * everywhere.L_sharp
    assert tighter >= 2


def test_confinement_and_convergence_along_gradient_descent():
    rng = np.random.default_rng(8)
    for mask, small in ((None, True), ("causal", True), (None, False)):
        X, W = rng.standard_normal((3, 3)), rng.standard_normal((3, 3))
        threshold = constants(Instance(X, W, mask=mask)).linear_rate_threshold
        instance = Instance(X, W, mask=mask, lam=threshold if small else 0.2)
        objective, found = Objective(X, W, instance.lam, mask), constants(instance)
        M, losses, norms = np.ones((3, 3)), [], []
        for _ in range(300):
            value, g = objective.loss_and_gradient(M)
            losses.append(value)
            norms.append(float(np.vdot(g, g)))
            assert np.linalg.norm(M) <= 3 * (1 + 1e-12)
            assert 2 * (value - instance.lam / 2 * np.vdot(M, M)) <= instance.lam * (9 - np.vdot(M, M)) + 1e-12
            M = M - g / found.L_sharp
        assert (np.diff(losses) <= 1e-15).all()
        for T in (1, 10, 300):
            assert min(norms[:T]) <= instance.lam * 9 * found.L_sharp / T * (1 + 1e-9)
        if small:

            def flat(m, objective=objective):
                value, g = objective.loss_and_gradient(m.reshape(3, 3))
                return value, g.ravel()

            best = minimize(flat, M.ravel(), jac=True, method="BFGS", options={"gtol": 1e-13}).fun
            rate = 1 - instance.lam / found.L_sharp
            for t, value in enumerate(losses):
                assert value - best <= rate**t * instance.lam * 9 / 2 + 1e-12


def test_strong_convexity_above_its_threshold():
    rng = np.random.default_rng(9)
    X, W = rng.standard_normal((3, 2)), rng.standard_normal((2, 2))
    threshold = constants(Instance(X, W)).convexity_threshold
    instance = Instance(X, W, lam=1.01 * threshold)
    assert constants(instance).curvature_lower > 0
    for _ in range(50):
        assert np.linalg.eigvalsh(hessian(instance, 3 * rng.standard_normal((2, 2))))[0] > 0


def test_centring_on_fewer_tokens_leaves_less():
    """Why the unmasked rank-one bound also bounds every masked operator."""
    rng = np.random.default_rng(10)
    X, W = rng.standard_normal((5, 3)), rng.standard_normal((3, 3))
    N = rng.standard_normal((3, 3))
    full = np.linalg.norm(LogitMap(Instance(X, W)).apply(N))
    assert np.linalg.norm(LogitMap(Instance(X, W, mask="causal")).apply(N)) <= full
