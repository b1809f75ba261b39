"""The committed certificates judge the checker, too: a checker with a mistake in it rejects some of them."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from proofs_check.checker import attention, blocks, dual, judge_file, leaves
from proofs_check.checker.statements import (
    best_mask,
    pl_inequality,
    returned_mask,
    sharp_bounds,
    sigmoid_valley,
    stationary_point,
)

CERTIFICATES = Path(__file__).resolve().parents[2] / "proofs_check" / "certificates"


def quotient_without_second_term(u: dual.Dual, v: dual.Dual) -> dual.Dual:
    inverse = 1 / v.value
    return dual.Dual(u.value * inverse, [p * inverse for p in u.slopes])


def exp_slightly_wrong(original: Callable[..., Any]) -> Callable[..., Any]:
    """A constant factor would cancel in the softmax."""
    return lambda number, bits: original(number * (1 + Fraction(1, 10**6)), bits)


def without_beta(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda X, beta: original(X, Fraction(0))


def mask_ignored(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda z, mask: original(z, [[True] * len(row) for row in mask])


def first_power(instance: Any, mu: str) -> Fraction:
    return min(abs(entry) for row in instance.W for entry in row) * instance.beta * instance.delta


def mass_held_fixed(pairs: Any, mass: dual.Dual) -> dual.Dual:
    return dual.squared_distance(pairs, dual.Dual(mass.value, [Fraction(0)] * len(mass.slopes)))


def turned_round(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, leaf: original(self, leaf)[::-1]


def unit(size: int) -> list[list[Fraction]]:
    return [[Fraction(int(p == q)) for q in range(size)] for p in range(size)]


derivatives = stationary_point._derivatives


MISTAKES: dict[str, tuple[Any, str, Any, str]] = {
    "quotient rule": (dual.Dual, "__truediv__", quotient_without_second_term, "bound_grad_f-*"),
    "quotient rule in the loss": (attention, "squared_distance", mass_held_fixed, "PL_ineq-*"),
    "exp": (dual, "exponential", exp_slightly_wrong(dual.exponential), "PL_ineq-*"),
    "beta": (pl_inequality, "gram_pivots", without_beta(pl_inequality.gram_pivots), "PL_ineq-*"),
    "mask": (pl_inequality, "relative", mask_ignored(pl_inequality.relative), "PL_ineq-*"),
    "mu": (pl_inequality, "half_mu", first_power, "PL_ineq-*"),
    "gradient": (
        pl_inequality,
        "gradient",
        lambda slope, W, M, lam: attention.gradient(slope, W, M, Fraction(0)),
        "PL_ineq-*",
    ),
    "sizes of classes": (blocks.Blocks, "fused", lambda self, M: attention.hadamard(M, self.W), "our_convergence-*"),
    "sigmoid": (sigmoid_valley, "sigma", lambda tau: Fraction(1, 2) + tau / 4, "our_convergence-*-ones"),
    "rows without a choice": (sharp_bounds, "_choices", lambda instance, bits=0: Fraction(instance.n), "bound_c-*"),
    "the logits' slopes": (sharp_bounds, "_pull", lambda instance, i: [Fraction(1)] * instance.d, "bound_grad_f-*"),
    "change of c o F": (
        sharp_bounds.BoundInstance,
        "dense",
        lambda self, bits: self.weights("M", bits),
        "lip_f_circ_c-*",
    ),
    "open coefficients turned round": (
        leaves.Difference,
        "extremes",
        turned_round(leaves.Difference.extremes),
        "best_mask-four-features",
    ),
    "distance from f": (best_mask, "_larger", lambda one, other: one, "best_mask-four-features"),
    "lengths in the range": (stationary_point.Space, "metric", lambda self, bits: unit(len(self.basis)), "*-range"),
    "tokens not centred": (stationary_point, "_centred", lambda row, allowed: row, "stationary_point-four-tokens"),
    "gradient in place of its form": (
        stationary_point,
        "inverse_form",
        lambda H, g: attention.norm_sq([g]),
        "stationary_point-*",
    ),
    "lambda twice in the Hessian": (
        stationary_point,
        "_derivatives",
        lambda rows, P, centre, lam: derivatives(rows, P, centre, 2 * lam),
        "stationary_point-*",
    ),
    "a descent that stays": (returned_mask.b, "descend", lambda M, grad, eta: M, "returned_mask-lambda-1e-0"),
    "the norm of the map": (returned_mask, "C_PLUS", 4 * returned_mask.C_PLUS, "returned_mask-lambda-1e-0"),
    "step downhill": (blocks, "descend", lambda M, grad, eta: M, "mask_stays_in_box-*"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_checker_rejects_honest_certificates(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, attribute, mistake, pattern = MISTAKES[name]
    files = sorted(CERTIFICATES.glob(f"{pattern}.json"))
    assert files and all(judge_file(file).accepted for file in files)
    monkeypatch.setattr(place, attribute, mistake)
    assert not all(judge_file(file).accepted for file in files)
