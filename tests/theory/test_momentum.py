"""Heavy ball as the library runs it: its energy falls, its loss need not, and where it diverges off the range."""

import numpy as np
import pytest

import attnprune_verify as apv
from attnprune_verify.instance.problem import Instance
from attnprune_verify.theory.constants import constants
from attnprune_verify.theory.formulas import momentum

THETA = 0.9


def walk(instance: Instance, eta: float, steps: int) -> list[np.ndarray]:
    """M_0 = 1 and what `prune_mask_gd` reaches after 1, 2, ... steps."""
    found = [np.ones_like(instance.W)]
    for t in range(1, steps + 1):
        found.append(
            apv.prune_mask_gd(
                instance.X, instance.W, 0.5, instance.lam, mask=instance.mask, eta=eta, steps=t, momentum=THETA
            ).M
        )
    return found


def energies(instance: Instance, eta: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    points = walk(instance, eta, steps)
    losses = np.array([apv.loss(M, instance.X, instance.W, instance.lam, instance.mask) for M in points])
    moves = np.array([0.0, *(np.sum((b - a) ** 2) for a, b in zip(points, points[1:], strict=False))])
    return losses, losses + float(momentum.energy_weight(THETA, eta)) * moves


def drawn(seed: int, lam: float, n: int = 3, d: int = 3) -> Instance:
    rng = np.random.default_rng(seed)
    return Instance(rng.standard_normal((n, d)), rng.standard_normal((d, d)), lam=lam)


@pytest.mark.parametrize("seed", range(4))
def test_the_energy_of_the_library_s_descent_falls(seed: int) -> None:
    instance = drawn(seed, 0.3)
    L = constants(instance)["L_sharp"]
    eta = 0.99 * float(momentum.longest_step(THETA, L))
    losses, energy = energies(instance, eta, 25)
    assert (np.diff(energy) <= 1e-14).all() and losses.max() <= 0.3 * 9 / 2 * (1 + 1e-12)


def test_the_loss_alone_need_not_fall() -> None:
    """One token is a quadratic: the ball rolls through the minimum and climbs."""
    losses, energy = energies(Instance([[1.0, 2.0]], np.ones((2, 2)), lam=1.0), 0.19, 25)
    assert (np.diff(losses) > 1e-3).any() and (np.diff(energy) <= 1e-14).all()


def test_a_step_beyond_the_longest_can_raise_the_energy() -> None:
    """lam = 1, one token; from M with the last move -eta M/(1 - theta), which the next repeats."""
    M = np.array([[1.0, -2.0], [0.5, 1.0]])
    for share, falls in ((0.98, True), (1.02, False)):
        eta = share * float(momentum.longest_step(THETA, 1.0))
        before = -eta * M / (1 - THETA)
        after = THETA * before - eta * M
        np.testing.assert_allclose(after, before, rtol=1e-12)
        weight = float(momentum.energy_weight(THETA, eta))
        change = (np.sum((M + after) ** 2) - np.sum(M**2)) / 2 + weight * (np.sum(after**2) - np.sum(before**2))
        assert bool(change < 0) is falls
        lost = -float(momentum.energy_loss(THETA, eta, 1.0)) * np.sum(after**2)
        assert change == pytest.approx(lost, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("factor", [1.05, 2.0])
def test_divergence_off_the_range(factor: float) -> None:
    """Two tokens with three features: seven of nine directions are unseen by attention."""
    instance = drawn(5, 0.5, n=2)
    eta = factor * 2 * (1 + THETA) / 0.5
    assert momentum.diverges(THETA, eta, 0.5)
    rows = [(instance.W * x[:, None] * (y - instance.X.mean(axis=0))).ravel() for x in instance.X for y in instance.X]
    _, values, directions = np.linalg.svd(np.array(rows))
    unseen = directions[int((values > 1e-10).sum()) :]
    assert len(unseen) == 7
    sizes = [np.linalg.norm(unseen @ M.ravel()) for M in walk(instance, eta, 6)]
    r = float(momentum.growth(eta * 0.5 - 2 * (1 + THETA), THETA))
    assert r > 1 and sizes[0] > 0.5
    for t, size in enumerate(sizes):
        assert size >= r**t * sizes[0] * (1 - 1e-9)
    assert sizes[-1] <= (eta * 0.5 + 2 * THETA) ** 6 * sizes[0]


def test_the_paper_s_step_diverges_with_its_momentum_too() -> None:
    """lam = 0.04, eta = 0.1/lam, n = 128: on the loss that is not divided by n, lam is 128 times as large."""
    assert momentum.diverges(THETA, 0.1 / 0.04, 128 * 0.04)
    assert not momentum.diverges(THETA, 0.1 / 0.04, 0.04)
