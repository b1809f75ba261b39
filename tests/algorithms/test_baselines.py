"""Laws of the baselines, and independent twins written from the definitions."""

import numpy as np
import pytest

from attnprune_verify.algorithms.baselines.magnitude import magnitude_mask, random_mask
from attnprune_verify.algorithms.baselines.sparsegpt import sparsegpt, sparsegpt_report
from attnprune_verify.algorithms.baselines.wanda import wanda_mask, wanda_report
from attnprune_verify.errors import InvalidInstance

SHAPES = [(5, 7, 1, 9), (8, 12, 3, 6), (3, 4, 2, 5)]  # out, in, sequences, tokens


def draw(rows: int, columns: int, sequences: int, tokens: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, columns)), rng.normal(size=(sequences, tokens, columns)) * rng.uniform(
        0.2, 3, columns
    )


# ---------------------------------------------------------------- Wanda, index by index


def wanda_by_hand(weight: np.ndarray, X: np.ndarray, rho: float, n: int, m: int) -> np.ndarray:
    rows, columns = weight.shape
    power = [
        sum(X[s, t, j] ** 2 for s in range(X.shape[0]) for t in range(X.shape[1])) / X.shape[0] for j in range(columns)
    ]
    mask = np.zeros((rows, columns), dtype=bool)
    for i in range(rows):
        groups = [range(g, g + m) for g in range(0, columns, m)] if m else [range(columns)]
        for group in groups:
            order = sorted(group, key=lambda j: (abs(weight[i, j]) * power[j] ** 0.5, j))
            for j in order[: n if m else int(columns * rho)]:
                mask[i, j] = True
    return mask


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rho", [0.0, 0.3, 0.5, 0.99, 1.0])
def test_wanda_equals_its_definition(shape: tuple[int, ...], rho: float) -> None:
    weight, X = draw(*shape)
    np.testing.assert_array_equal(wanda_mask(weight, X, rho), wanda_by_hand(weight, X, rho, 0, 0))


@pytest.mark.parametrize("n", range(5))
def test_wanda_prunes_n_of_every_m_inputs(n: int) -> None:
    weight, X = draw(6, 12, 2, 5)
    mask = wanda_mask(weight, X, 0.9, prune_n=n, prune_m=4)
    np.testing.assert_array_equal(mask, wanda_by_hand(weight, X, 0.0, n, 4))
    assert (mask.reshape(6, 3, 4).sum(axis=2) == n).all()


def test_wanda_ignores_a_common_factor_even_where_squares_leave_float64() -> None:
    weight, X = draw(6, 12, 2, 5)
    expected = wanda_mask(weight, X, 0.5)
    for factor in (1e-200, 1e200, 3.7):
        np.testing.assert_array_equal(wanda_mask(weight, factor * X, 0.5), expected)
        np.testing.assert_array_equal(wanda_mask(factor * weight, X, 0.5), expected)


def test_wanda_prunes_dead_inputs_first_and_ties_by_lower_index() -> None:
    X = np.ones((4, 5))
    X[:, 3] = 0
    report = wanda_report(np.ones((1, 5)), X, 0.4)
    np.testing.assert_array_equal(report.pruned, [[True, False, False, True, False]])
    np.testing.assert_array_equal(report.undecided, [[True, True, True, False, True]])


# ------------------------------------------------- SparseGPT, from the optimal-brain-surgeon definition


def surgeon(weight: np.ndarray, X: np.ndarray, rho: float, n: int, m: int, block: int, percdamp: float) -> np.ndarray:
    """No Cholesky factor: the inverse of the trailing Hessian gives each column's score and its update.

    Removing column j from the unprocessed set F = {j, ...}: score w_j^2 / G_jj, update w_F -= (w_j - q_j) G_j / G_jj
    with G = (H_FF)^-1. G_jj = u_jj^2 and G_j / G_jj = u_j / u_jj for the factor U of H^-1.
    """
    weight, columns = weight.copy(), weight.shape[1]
    H = 2 / X.shape[0] * np.einsum("sti,stj->ij", X, X)
    dead = np.diag(H) == 0
    H[dead, dead] = 1
    weight[:, dead] = 0
    H += percdamp * np.trace(H) / columns * np.eye(columns)
    trailing = [np.linalg.inv(H[j:, j:]) for j in range(columns)]
    for start in range(0, columns, block):
        stop = min(start + block, columns)
        # The score of column j inside a block uses the factor's diagonal, so each column's own trailing inverse.
        diagonal = np.array([trailing[j][0, 0] for j in range(start, stop)])
        frozen = weight[:, start:stop] ** 2 / diagonal
        pruned = frozen <= np.sort(frozen, axis=None)[int(frozen.size * rho)] if not m else np.zeros(frozen.shape, bool)
        for j in range(start, stop):
            if m and (j - start) % m == 0:
                scores = weight[:, j : j + m] ** 2 / diagonal[j - start : j - start + m]
                for row in range(len(weight)):
                    pruned[row, j - start + np.argsort(scores[row], kind="stable")[:n]] = True
            removed = np.where(pruned[:, j - start], weight[:, j], 0.0)
            weight[:, j:] -= np.outer(removed / trailing[j][0, 0], trailing[j][0])
            weight[pruned[:, j - start], j] = 0
    return weight


CASES = [(0.5, 0, 0), (0.3, 0, 0), (0.05, 0, 0), (0.99, 0, 0), (0.0, 2, 4), (0.0, 1, 4), (0.0, 4, 8), (0.0, 4, 4)]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("block", [128, 16, 8])
def test_sparsegpt_equals_the_surgeon(case: tuple[float, int, int], block: int) -> None:
    rho, n, m = case
    weight, X = draw(6, 24, 2, 40, seed=block)
    new, pruned = sparsegpt(weight, X, rho, prune_n=n, prune_m=m, blocksize=block)
    expected = surgeon(weight, X, rho, n, m, block, 0.01)
    np.testing.assert_allclose(new, expected, atol=1e-11)
    np.testing.assert_array_equal(pruned, expected == 0)


def test_sparsegpt_on_inputs_that_float32_cannot_hold() -> None:
    weight, X = draw(5, 8, 2, 12)
    report, plain = sparsegpt_report(weight, 1e60 * X, 0.5), sparsegpt_report(weight, X, 0.5)
    np.testing.assert_array_equal(report.pruned, plain.pruned)
    np.testing.assert_allclose(report.weight, plain.weight, atol=1e-12)
    assert report.float32_stray == 1.0


def test_sparsegpt_equals_the_surgeon_with_dead_inputs_and_few_tokens() -> None:
    weight, X = draw(9, 40, 1, 10, seed=3)  # fewer tokens than inputs: only the damping makes H definite
    X[..., [2, 17]] = 0
    new, _ = sparsegpt(weight, X, 0.5, blocksize=32, percdamp=0.1)
    np.testing.assert_allclose(new, surgeon(weight, X, 0.5, 0, 0, 32, 0.1), atol=1e-10)


@pytest.mark.parametrize("case", [*CASES, (1.0, 0, 0)], ids=str)
def test_sparsegpt_certificates(case: tuple[float, int, int]) -> None:
    """Delta U^-1 vanishes on kept entries, and the printed error is 1/2 tr(Delta H Delta^T)."""
    rho, n, m = case
    weight, X = draw(10, 32, 2, 80, seed=1)
    report = sparsegpt_report(weight, X, rho, prune_n=n, prune_m=m, blocksize=16)
    H = X.reshape(-1, 32).T @ X.reshape(-1, 32) + report.damping * np.eye(32)  # 2 / N = 1
    U = np.linalg.cholesky(np.linalg.inv(H)).T
    delta = report.weight - weight
    E = -delta @ np.linalg.inv(U)
    assert np.abs(E[~report.pruned]).max(initial=0) < 1e-10 * np.abs(E).max()
    assert report.error == pytest.approx(0.5 * np.trace(delta @ H @ delta.T), rel=1e-10)
    assert report.condition == pytest.approx(np.linalg.cond(H), rel=1e-8)


def test_sparsegpt_keeps_the_originals_counts() -> None:
    weight, X = draw(96, 256, 1, 300)
    assert sparsegpt(weight, X, 0.5)[1].sum() == 2 * (96 * 128 // 2 + 1)
    assert sparsegpt(weight, X, 1e-9)[1].sum() == 2  # one in each block
    assert sparsegpt(weight, X, np.nextafter(1.0, 0.0))[1].all()


def test_only_with_dead_inputs_does_the_scale_of_the_hessian_matter() -> None:
    weight, X = draw(16, 32, 1, 64)
    same = sparsegpt(weight, X, 0.5)[0], sparsegpt(weight, 1e-2 * X, 0.5)[0]
    np.testing.assert_allclose(*same, atol=1e-12)
    X[..., [3, 9]] = 0
    other = sparsegpt(weight, X, 0.5)[0], sparsegpt(weight, 1e-2 * X, 0.5)[0]
    assert np.abs(other[0] - other[1]).max() > 1e-3


# ---------------------------------------------------------------- magnitude and random


@pytest.mark.parametrize("rho", np.linspace(0, 1, 23))
def test_magnitude_prunes_exactly_the_smallest(rho: float) -> None:
    weight = np.random.default_rng(0).integers(-3, 4, (7, 9)).astype(float)
    mask = magnitude_mask(weight, rho)
    assert mask.sum() == int(rho * 63)
    if 0 < mask.sum() < 63:
        assert np.abs(weight[mask]).max() <= np.abs(weight[~mask]).min()


def test_random_mask_is_exact_and_deterministic() -> None:
    first = random_mask((7, 9), 0.3, np.random.default_rng(5))
    assert first.sum() == 18
    np.testing.assert_array_equal(first, random_mask((7, 9), 0.3, np.random.default_rng(5)))


# ---------------------------------------------------------------- shared: dtype, purity, bad input


def test_float32_stays_and_float64_wins() -> None:
    weight, X = draw(6, 24, 2, 40)
    single, inputs = weight.astype(np.float32), X.astype(np.float32)
    assert sparsegpt(single, inputs, 0.5)[0].dtype == np.float32
    assert sparsegpt(weight, inputs, 0.5)[0].dtype == np.float64
    assert sparsegpt(single, X, 0.5)[0].dtype == np.float64


GOOD = draw(4, 8, 1, 20)
BAD = [
    ({"rho": 1.5}, "rho must be in"),
    ({"rho": -1e-9}, "rho must be in"),
    ({"rho": float("nan")}, "rho must be in"),
    ({"rho": "0.5"}, "rho must be a real number"),
    ({"rho": None}, "rho must be a real number"),
    ({"prune_n": 3, "prune_m": 2}, "prune_n"),
    ({"prune_n": 2}, "prune_n"),
    ({"prune_n": -1, "prune_m": 2}, "prune_n"),
    ({"prune_n": 1.5, "prune_m": 2}, "prune_n"),
    ({"prune_n": 1, "prune_m": 3}, "multiple"),
    ({"weight": np.ones((4, 7))}, "in = 8"),
    ({"weight": np.full((4, 8), np.nan)}, "finite"),
    ({"X": np.full((20, 8), np.inf)}, "finite"),
    ({"X": np.ones((0, 8))}, "empty"),
    ({"X": np.ones((0, 3, 8))}, "empty"),
    ({"X": np.ones(8)}, "dimensions"),
    ({"weight": np.ones((4, 8), dtype=complex)}, "real"),
]


@pytest.mark.parametrize("program", [sparsegpt, sparsegpt_report, wanda_mask, wanda_report])
@pytest.mark.parametrize("change,message", BAD, ids=lambda value: value if isinstance(value, str) else "")
def test_bad_input_is_one_clear_error(program, change, message) -> None:  # type: ignore[no-untyped-def]
    arguments = {"weight": GOOD[0], "X": GOOD[1], "rho": 0.5, **change}
    with pytest.raises(InvalidInstance, match=message) as caught:
        program(**arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "options,message",
    [
        ({"blocksize": 0}, "blocksize"),
        ({"blocksize": 6, "prune_n": 2, "prune_m": 4}, "blocksize must be a multiple"),
        ({"percdamp": -0.1}, "percdamp"),
        ({"percdamp": float("inf")}, "percdamp"),
    ],
)
def test_sparsegpt_refuses(options: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidInstance, match=message):
        sparsegpt(*GOOD, 0.5, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_singular_hessian_is_refused_before_cholesky_makes_noise_of_it(dtype: type) -> None:
    rng = np.random.default_rng(7)
    weight = rng.normal(size=(8, 64)).astype(dtype)
    X = (rng.normal(size=(2, 128, 8)) @ rng.normal(size=(8, 64))).astype(dtype)  # rank 8
    with pytest.raises(InvalidInstance, match="positive definite"):
        sparsegpt(weight, X, 0.5, percdamp=0.0)
    assert sparsegpt_report(weight, X, 0.5).condition < 1e5


def test_an_overflowing_hessian_is_refused() -> None:
    with pytest.raises(InvalidInstance, match="float64"):
        sparsegpt(GOOD[0], 1e200 * GOOD[1], 0.5)
