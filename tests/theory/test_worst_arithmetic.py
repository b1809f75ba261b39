"""Bounds in arithmetic that errs as much as its model allows, and on problems whose exact answer is known.

`Worst` multiplies matrices with an error of nearly gamma_k |A| |B| in every entry, all of one sign: what a sum of k
products may lose in some order. A bound holds for it too, or does not pay for its sums.
"""

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from attnprune_verify.instance.problem import Instance
from attnprune_verify.instance.rope import RoPE
from attnprune_verify.theory.numbers import spectral
from attnprune_verify.theory.quantities import attention_floor, cheap_norm, evaluation
from attnprune_verify.theory.quantities.logit_map import LogitMap
from attnprune_verify.theory.quantities.rotated import RotatedMap

U = 2.0**-53
LONG = 40_000  # terms of a sum: its error is far above the 2^13 u that every certified eigenvalue has to spare


class Worst(np.ndarray):
    """An array whose products of matrices are off by 0.98 k u |A| |B|, upwards or downwards."""

    sign = 1.0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **more: Any) -> Any:
        plain = [np.asarray(one).view(np.ndarray) for one in inputs]
        found = getattr(ufunc, method)(*plain, **more)
        if ufunc is np.matmul:
            found = found + Worst.sign * 0.98 * plain[0].shape[-1] * U * np.matmul(*map(np.abs, plain))
        if out is not None:
            out[0][...] = found
            return out[0]
        return found.view(Worst) if isinstance(found, np.ndarray) else found


def worst(array: NDArray[np.float64], sign: float, monkeypatch: pytest.MonkeyPatch) -> Worst:
    monkeypatch.setattr(Worst, "sign", sign)
    return np.asarray(array, dtype=float).view(Worst)


ROWS = [(1.0, 0.75), (0.5, -0.5), (0.75, 0.0)]


@pytest.mark.parametrize("row", ROWS)
def test_a_spectral_norm_pays_for_its_gram_matrix(row: tuple[float, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A row many times: the norm is sqrt(n) that of the row."""
    B = np.tile(row, (LONG, 1))
    for one in (B, B.T):
        found = spectral.spectral_norm(worst(one, -1.0, monkeypatch))
        assert mpmath.mpf(found) ** 2 >= LONG * (mpmath.mpf(row[0]) ** 2 + mpmath.mpf(row[1]) ** 2)


@pytest.mark.parametrize("row", ROWS)
def test_the_norms_of_rows_pay_for_the_gram_matrix(row: tuple[float, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    W = np.array([[1.0, 0.5], [-0.25, 1.0]])
    found = cheap_norm._row_norms(worst(np.tile(row, (LONG, 1)), -1.0, monkeypatch), W)
    for norm, weights in zip(found.tolist(), W.tolist(), strict=True):
        assert mpmath.mpf(norm) ** 2 >= LONG * sum((mpmath.mpf(w) * x) ** 2 for w, x in zip(weights, row, strict=True))


@pytest.mark.parametrize("seed", range(2))
def test_no_product_bound_of_rotated_tokens_is_below_what_angles_may_lose(seed: int) -> None:
    """One feature at 4000 places, every entry smaller by what an angle of n turns may be off, 8 n u."""
    rng = np.random.default_rng(seed)
    n = 4000
    X, Q, V = rng.uniform(0.5, 1.0, (1, n, 1)), *rng.standard_normal((2, 1, 2))
    head = RotatedMap(X, Q, V, RoPE(100.0), np.tri(n, dtype=bool))
    stack = head._turned(head.X[0], head.U).reshape(n, -1)
    with mpmath.workdps(40):
        columns = [[mpmath.mpf(x) for x in column] for column in stack.T.tolist()]
        squares = mpmath.matrix([[mpmath.fdot(a, b) for b in columns] for a in columns])
        top = mpmath.sqrt(max(mpmath.eigsy(squares, eigvals_only=True)))
        assert head._norm(stack * (1 - 8 * n * U)) >= top


@pytest.mark.parametrize("n", [3, 7, 50, 300])
def test_equal_weights_are_within_the_radius(n: int) -> None:
    """W = 0: ln F = -ln n, of which a double is some digits."""
    floor = attention_floor.attention_floor(Instance(np.ones((n, 1)), np.zeros((1, 1))))
    with mpmath.workdps(40):
        assert 0 < abs(mpmath.mpf(floor.log_allowed) + mpmath.log(n)) <= floor.radius < 1e-11


@pytest.mark.parametrize("seed", range(30))
def test_every_cheap_bound_is_above_the_norm(seed: int) -> None:
    """Weights and tokens whose rows and columns differ by powers of ten: each way to bound K has its own."""
    rng = np.random.default_rng(seed)
    d, n = 4, 5
    scales = 10.0 ** rng.uniform(-2, 2, (3, d))
    W = rng.standard_normal((d, d)) * scales[0][:, None] * scales[1] * (rng.random((d, d)) < 0.6)
    W[0, 1] = scales[0, 0]
    logits = LogitMap(Instance(rng.standard_normal((n, d)) * scales[2], W, mask="causal" if seed % 2 else None))
    units = np.eye(d * d).reshape(-1, d, d)
    square = np.linalg.norm(np.stack([logits.apply(unit)[0].ravel() for unit in units]), 2) ** 2
    ways = {
        "rank one": cheap_norm.rank_one_square(logits),
        "by rows": cheap_norm.row_square(logits.X, logits.Y, logits.W),
        "all": float(cheap_norm.cheap_norm_bound(logits)) ** 2,
    }
    assert all(way >= square * (1 - 1e-12) for way in ways.values()), (ways, square)
    columns = cheap_norm.row_square(logits.Y, logits.X, logits.W.T)
    assert ways["all"] == pytest.approx(min(ways["rank one"], ways["by rows"], columns), rel=1e-12)


def test_an_error_of_weights_is_that_of_the_longest_token_and_of_both_masks() -> None:
    """More tokens lose no less, and a small mask less than the mask of ones, which is computed as well."""
    rng = np.random.default_rng(0)
    X, W = 1e3 * rng.standard_normal((1, 3)), 1e-3 * rng.standard_normal((3, 3))
    alone, among = Instance(X, W), Instance(np.vstack([X, np.zeros((30, 3))]), W)
    ones, zeros = np.ones((3, 3)), np.zeros((3, 3))
    assert evaluation.weight_error(among, ones) >= evaluation.weight_error(alone, ones)
    rho = evaluation.weight_error(among, ones)
    assert evaluation.weight_error(among, zeros) < rho / 100
    residual, gradient = evaluation._crude_errors(among, zeros)
    assert residual >= 2 * rho * math.sqrt(among.n)
    longest = np.abs(W).max() * float((X**2).sum())
    assert gradient >= 8 * rho * longest * math.sqrt(among.n)
