"""Prior methods against their papers' formulas, written out."""

from fractions import Fraction

import numpy as np
import pytest

from attnprune_verify.algorithms.matrix.budget import Pattern, Share
from attnprune_verify.algorithms.matrix.damping import second_moments
from attnprune_verify.algorithms.matrix.output_obs import usable_metric
from attnprune_verify.algorithms.matrix.owl import outlier_share, owl_ratios
from attnprune_verify.algorithms.matrix.prune import prune_matrix
from attnprune_verify.algorithms.matrix.two_sided import prune_two_sided, refit
from tests.algorithms.test_matrix_methods import least, problem


def alps_by_hand(weight, X, zeros, penalty=0.1):
    """ALPS, Algorithm 1 with the program's schedule: (in, out) layout, one W-, D- and V-step after the other."""
    H = X.reshape(-1, X.shape[-1]).T @ X.reshape(-1, X.shape[-1])
    H += 0.01 * np.mean(np.diag(H)) * np.eye(len(H))
    units = np.sqrt(np.diag(H))
    H, W0 = H / np.outer(units, units), weight.T * units[:, None]
    keep = lambda B: np.where(np.argsort(np.argsort(np.abs(B).ravel(), kind="stable")).reshape(B.shape) < zeros, 0, B)  # noqa: E731
    D, V, before, started = keep(W0), np.zeros_like(W0), keep(W0) != 0, False
    for i in range(1, 301):
        W = np.linalg.solve(H + penalty * np.eye(len(H)), H @ W0 - V + penalty * D)
        D = keep(W + V / penalty)
        V = V + penalty * (W - D)
        if i % 3 == 0:
            changed, kept = ((D != 0) != before).sum(), (D != 0).sum()
            before = D != 0
            if changed / kept > 0.1:
                penalty, started = penalty * 1.3, True
            elif changed / kept > 0.005:
                penalty, started = penalty * 1.2, True
            elif changed > 0 and started:
                penalty *= 1.1
            elif changed > 0:
                penalty, D, V = penalty / 5, keep(W0), np.zeros_like(W0)
            elif started:
                break
            else:
                penalty /= 5
            if i >= 30 and changed / kept < 0.0003:
                break
    return (keep(W) != 0).T


@pytest.mark.parametrize("seed", range(3))
def test_alps_finds_the_support_of_its_algorithm(seed):
    weight, X, _ = problem(seed, out=16, into=24, n=40)
    got = prune_matrix("alps", weight, second_moments(X), None, Share(0.5), refit_steps=400)
    assert (got.kept == alps_by_hand(weight, X, 192)).all()
    H = second_moments(X).H
    H = H + 0.01 * np.mean(np.diag(H)) * np.eye(24)
    D = got.weight - weight
    rows = zip(weight, got.kept, strict=True)
    best = sum(least(row[None], kept[None], H, np.eye(1)) for row, kept in rows)
    assert np.vdot(D @ H, D) / 2 == pytest.approx(best)


@pytest.mark.parametrize("budget", [Share(0.5), Pattern(2, 4)])
def test_l_admm_step_by_step(budget):
    """arXiv 2401.02938, Algorithm 2: norms into the weight, 20 steps of penalty 1, zeros growing over the first 15."""
    weight, X, _ = problem(out=6, into=12)
    tokens = X.reshape(-1, 12)
    XX = tokens.T @ tokens
    norm = np.sqrt(np.diag(XX)) + 1e-8 * np.sqrt(len(tokens))
    XX = XX / np.outer(norm, norm)
    XX += 0.1 * np.mean(np.diag(XX)) * np.eye(12)
    W0 = (weight * norm).T
    W, U = W0.copy(), np.zeros_like(W0)
    for t in range(1, 21):
        if t <= 15:
            score, zeros = np.abs(W + U), int(36 * (1 - (1 - t / 15) ** 3) + 1e-9)
            if isinstance(budget, Pattern):
                groups = np.argsort(np.argsort(score.T.reshape(6, 3, 4), axis=2), axis=2).reshape(6, 12).T
                score = np.where(groups < 2, score, np.inf)
            mask = np.ones(72, dtype=bool)
            mask[np.argsort(score.ravel(), kind="stable")[:zeros]] = False
            mask = mask.reshape(12, 6)
        Z = mask * (W + U)
        U = U + (W - Z)
        W = np.linalg.inv(XX + np.eye(12)) @ (XX @ W0 + Z - U)
    got = prune_matrix("l-admm", weight, second_moments(X), None, budget)
    assert (got.kept == mask.T).all() and got.weight == pytest.approx(((W + U) * mask).T / norm, rel=1e-6, abs=1e-9)


def test_surgeon_removes_one_weight_as_obs_does():
    """The least cost and the full update of one weight, by the normal equations of the whole Kronecker product."""
    weight, X, outputs = problem(out=3, into=4, blocks=1)
    inputs = second_moments(X)
    got = prune_matrix("kfac-obs", weight, inputs, outputs, Share(Fraction(1, 12)), shots=1)
    A, G = inputs.H + 0.01 * np.trace(inputs.H) / 4 * np.eye(4), usable_metric(outputs, 0.01)[0]
    D = got.weight - weight
    costs = [least(weight, np.arange(12).reshape(3, 4) != i, A, G) for i in range(12)]
    assert int(np.argmin(costs)) == int(np.flatnonzero(~got.kept)[0])
    assert np.vdot(D, G @ D @ A) / 2 == pytest.approx(min(costs), rel=1e-9)


def test_surgeon_without_outputs_solves_every_row():
    weight, X, _ = problem()
    inputs = second_moments(X)
    got = prune_matrix("kfac-obs", weight, inputs, None, Share(0.5), shots=1)
    A = inputs.H + 0.01 * np.trace(inputs.H) / 12 * np.eye(12)
    for row, new, kept in zip(weight, got.weight, got.kept, strict=True):
        assert (new - row) @ A @ (new - row) / 2 == pytest.approx(least(row[None], kept[None], A, np.eye(1)))


def test_identity_is_sparsegpts_pass_with_a_refit():
    weight, X, outputs = problem()
    inputs = second_moments(X)
    got = prune_matrix("identity-obs", weight, inputs, None, Share(0.5), solver="pass", blocksize=12)
    H = inputs.H + 0.3 * inputs.damping * np.trace(inputs.H) / 12 * np.eye(12)
    target = weight.T[np.newaxis]
    expected = refit(prune_two_sided(target, H, None, Share(0.5), 12), target, H, None, 10)
    assert got.weight == pytest.approx(expected.weight[0].T, rel=1e-12, abs=1e-14)
    damped = prune_matrix("sparsegpt-damped", weight, inputs, None, Share(0.5))
    original = prune_matrix("sparsegpt", weight, inputs, None, Share(0.5), percdamp=0.3 * inputs.damping)
    assert (damped.weight == original.weight).all()


def test_output_only_does_not_look_at_directions_of_the_inputs():
    weight, X, outputs = problem()
    inputs = second_moments(X)
    turned = inputs._replace(H=np.trace(inputs.H) / 12 * np.eye(12))
    first, second = (prune_matrix("output-only-obs", weight, one, outputs, Share(0.5)) for one in (inputs, turned))
    assert (first.weight == second.weight).all()


def test_owl_is_its_formula():
    """arXiv 2310.05175: D = share of |W| ||X|| above M times their mean; densities are spread by D over 2 lambda."""
    weight, X, _ = problem()
    inputs = second_moments(X)
    scores = np.abs(weight) * np.sqrt(np.square(X.reshape(-1, 12)).mean(axis=0))
    assert outlier_share([(weight, inputs)], 2.0) == np.mean(scores > 2 * scores.mean())
    D = np.array([0.02, 0.05, 0.03])
    scaled = (D - D.min()) / (D.max() - D.min()) * 0.16
    ratios = owl_ratios(dict(enumerate(D)), 0.7)
    assert [1 - ratios[i] for i in range(3)] == pytest.approx(scaled - scaled.mean() + 0.3)
    assert owl_ratios({"a": 0.1, "b": 0.1}, 0.6) == {"a": 0.6, "b": 0.6}
