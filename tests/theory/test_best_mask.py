"""Branch and bound over 0/1 masks against all masks one by one, node bounds against all masks below, and refusals."""

from itertools import combinations

import numpy as np
import pytest
from flint import arb

import attnprune_verify as apv
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.problem import Instance
from attnprune_verify.oracle.ball_forms import attention_term
from attnprune_verify.oracle.inputs import fused
from attnprune_verify.theory import best_mask
from attnprune_verify.theory.best_mask import _posed, certified_best_mask, loss_below
from attnprune_verify.theory.numbers.balls import precision


def drawn(seed: int, n: int, d: int, scale: float = 1.0, mask: str | None = None) -> Instance:
    rng = np.random.default_rng(seed)
    return Instance(rng.standard_normal((n, d)), scale * rng.standard_normal((d, d)), mask=mask)


def masks(size: int, zeros: int) -> np.ndarray:
    places = np.array(list(combinations(range(size), zeros)), dtype=int).reshape(-1, zeros)
    found = np.ones((len(places), size))
    np.put_along_axis(found, places, 0.0, axis=1)
    return found


def all_losses(instance: Instance, zeros: int) -> tuple[np.ndarray, np.ndarray]:
    """Every mask and its L_attn by the library's objective, which the search does not use."""
    objective = apv.Objective(instance.X, instance.W, 0.0, instance.mask)
    every = masks(instance.W.size, zeros)
    return every, np.array([objective.loss(mask.reshape(instance.W.shape)) for mask in every])


@pytest.mark.parametrize(
    ("instance", "zeros"),
    [
        (drawn(0, 3, 2), 1),
        (drawn(1, 4, 3, 2.0), 4),
        (drawn(2, 4, 3, 0.1, "causal"), 7),
        (drawn(3, 5, 4, 1.0, "causal"), 4),
        (drawn(4, 3, 4, 0.5), 12),
    ],
    ids=["d = 2", "d = 3", "d = 3, causal", "d = 4, causal", "d = 4"],
)
def test_the_bound_is_the_least_of_all(instance: Instance, zeros: int) -> None:
    every, losses = all_losses(instance, zeros)
    worst = every[int(np.argmax(losses))].reshape(instance.W.shape)
    found = certified_best_mask(instance, zeros, worst)
    assert found.optimal and found.nodes < 2 * len(every) + 4 * instance.W.size
    assert found.bound <= losses.min() * (1 + 1e-12) and found.bound >= losses.min() * (1 - 3e-9)
    assert int((found.mask == 0).sum()) == zeros and found.loss == pytest.approx(losses.min(), rel=1e-9)
    assert found.gap == pytest.approx(losses.max() - losses.min(), rel=1e-6)
    assert found.given_loss == pytest.approx(losses.max(), rel=1e-9)


def test_the_search_finds_what_a_bad_start_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def worst(problem, ones, size):  # type: ignore[no-untyped-def]
        every = masks(size, size - ones)
        values = loss_below(problem, every, ones)
        place = int(np.argmax(values))
        return every[place], float(values[place])

    monkeypatch.setattr(best_mask, "_start", worst)
    for seed in range(6):
        instance = drawn(seed, 4, 3)
        losses = all_losses(instance, 5)[1]
        found = certified_best_mask(instance, 5)
        assert found.optimal and found.loss == pytest.approx(losses.min(), rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_a_node_s_bound_is_below_every_mask_below_it(seed: int) -> None:
    instance = drawn(seed, 4, 3, (0.2, 1.0, 3.0, 30.0)[seed], None if seed % 2 else "causal")
    problem, rng = _posed(instance), np.random.default_rng(seed)
    every, losses = all_losses(instance, 4)
    ordered = every[:, problem.order]
    for t in range(10):
        for _ in range(5):
            prefix = ordered[int(rng.integers(len(ordered)))][:t]
            below = losses[(ordered[:, :t] == prefix).all(axis=1)]
            (bound,) = loss_below(problem, prefix[None], 5)
            assert bound <= below.min()
            if t == 9:
                assert bound == pytest.approx(below.min(), rel=1e-9, abs=1e-22)


def test_the_enclosures_are_the_best_there_are() -> None:
    """At the root: l_ij and u_ij from the extremes of each logit difference over all masks, one by one."""
    instance = drawn(7, 3, 3)
    every, z = masks(9, 4), []
    for mask in every:
        z.append(instance.X @ (mask.reshape(3, 3) * instance.W) @ instance.X.T)
    gaps = np.array(z)[:, :, None, :] - np.array(z)[:, :, :, None]  # [mask, i, j, k] = z_ik - z_ij
    low, high = 1 / np.exp(gaps.max(axis=0)).sum(axis=2), 1 / np.exp(gaps.min(axis=0)).sum(axis=2)
    f = apv.attention(instance.X, instance.W)
    expected = np.square(np.maximum(np.maximum(low - f, f - high), 0)).sum() / 2
    for t in range(5):  # with some entries fixed it says more than nothing
        (bound,) = loss_below(_posed(instance), np.ones((1, t)), 5)
        assert t or bound == pytest.approx(expected, rel=1e-9, abs=1e-20)
    assert bound > 0


def test_a_search_that_is_stopped_has_a_bound_all_the_same() -> None:
    instance = drawn(3, 5, 4, 1.0, "causal")
    full = certified_best_mask(instance, 8)
    stopped = certified_best_mask(instance, 8, most_nodes=20)
    assert not stopped.optimal and stopped.bound <= full.bound and stopped.nodes < full.nodes
    assert stopped.loss >= full.bound


def test_huge_logits_give_no_false_bound() -> None:
    instance = drawn(5, 3, 2, 1e4)
    found = certified_best_mask(instance, 2)
    assert 0 <= found.bound <= all_losses(instance, 2)[1].min() * (1 + 1e-9) + 1e-300


@pytest.mark.parametrize("zeros", [0, 4])
def test_one_mask_alone(zeros: int) -> None:
    found = certified_best_mask(drawn(0, 3, 2), zeros)
    assert found.optimal and found.mask.sum() == 4 - zeros
    assert found.loss < 1e-30 if zeros == 0 else found.loss > 0


def test_the_mask_that_descent_returns_and_the_best() -> None:
    """At d = 4 and half of the entries: what alg:mask_gd loses, certified; magnitude loses more."""
    instance = drawn(11, 6, 4, 0.5, "causal")
    zeros = 8
    descent = apv.prune_mask_gd(instance.X, instance.W, 0.5, 1e-3, mask="causal", steps=300).mask
    found = certified_best_mask(instance, zeros, descent)
    assert found.optimal and found.given_loss is not None
    assert 0 <= found.given_loss - found.loss <= found.gap * (1 + 1e-9)


@pytest.mark.parametrize(
    ("instance", "zeros", "given", "why"),
    [
        (Instance(np.ones((2, 2, 2)), np.eye(2)), 1, None, "one sample"),
        (Instance(np.ones((2, 9)), np.ones((9, 9))), 1, None, "d <= 8"),
        (drawn(0, 3, 2), 5, None, "between 0 and"),
        (drawn(0, 3, 2), 2, [[1, 1], [1, 0]], "with 2 zeros"),
        (drawn(0, 3, 2), 2, [[0.5, 1], [1, 0]], "of 0 and 1"),
    ],
)
def test_refusals(instance: Instance, zeros: int, given, why: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidInstance, match=why):
        certified_best_mask(instance, zeros, given)


def test_wherever_a_search_is_stopped_its_bound_is_below_every_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least of what is still open counts, not the greatest; a poor start must not make up for that."""
    for seed in range(2):
        instance = drawn(seed, 4, 3)
        every, losses = all_losses(instance, 4)
        poor = every[int(np.argmax(losses))]
        start = lambda problem, ones, size: (poor[problem.order], float(losses.max()))  # noqa: B023, E731
        monkeypatch.setattr(best_mask, "_start", start)
        bounds = [certified_best_mask(instance, 4, most_nodes=most).bound for most in (1, 10, 30, 60, 100, 150)]
        assert max(bounds) <= losses.min() * (1 + 1e-12) and bounds == sorted(bounds)


def test_a_loss_and_a_bound_are_the_safe_ends_of_the_same_enclosure() -> None:
    for seed in range(4):
        instance = drawn(seed, 3, 2, 2.0)
        found = certified_best_mask(instance, 2)
        with precision(400):
            truth = attention_term(fused(found.mask, instance.samples[0], instance.W, 0.0, instance.mask))
            assert arb(found.bound) < truth < arb(found.loss)


def first_row_loss(X: np.ndarray, W: np.ndarray, mask: np.ndarray) -> arb:
    """1/2 ||F_1 - f_1||^2 in balls, where all tokens but the first are equal."""
    rest, x = len(X) - 1, [arb(float(value)) for value in X[0]]
    gaps = [arb(float(one)) - arb(float(other)) for one, other in zip(X[0], X[1], strict=True)]
    rows = []
    for kept in (mask, np.ones_like(mask)):
        terms = [arb(kept[a, b] * W[a, b]) * x[a] * gaps[b] for a in range(len(W)) for b in range(len(W))]
        others = (-sum(terms, arb(0))).exp()
        rows.append((1 / (1 + rest * others), others / (1 + rest * others)))
    (F, G), (f, g) = rows
    return ((F - f) ** 2 + rest * (G - g) ** 2) / 2


def test_logits_that_cancel_bound_no_mask_by_their_rounding() -> None:
    """Two weights of 1e9 leave 6 but for a rounding; 400 positions that the dense attention shares pay little."""
    too_high = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        big, left = 1e9 * (1 + rng.random()), 6 + rng.random()
        X = np.tile(np.array([rng.random(), 0.5 * rng.random()]), (400, 1))
        X[0] = 1.0
        W = np.array([[big, left - big], [-left / 2, -left / 2]]) / (X[0] - X[1])
        mask = np.array([[1.0, 1.0], [0.0, 0.0]])
        problem = _posed(Instance(X, W, mask=np.vstack([np.ones(400), np.eye(400)[1:]])))
        fixed = mask.ravel()[problem.order][None]
        with precision(400):
            truth = first_row_loss(X, W, mask)
            assert truth > 0.01 and arb(float(loss_below(problem, fixed, 2)[0])) <= truth
            too_high += bool(arb(float(loss_below(problem._replace(slip=0.0), fixed, 2)[0])) > truth)
    assert too_high > 1, "without the rounding's share it is above the loss of that very mask"
