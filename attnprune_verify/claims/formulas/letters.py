"""Letters of printed formulas, and what they stand for, as functions of a case's quantities.

A letter is looked up among the definitions in its own text, the letters of its claim, the values of the case, and the
problem's own letters, in this order.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.formulas.derived_letters import DERIVED, EVERY_PLACE
from attnprune_verify.claims.formulas.noted_letters import NOTED
from attnprune_verify.claims.formulas.walked_letters import WALKED, along_gradient, directional_step, step

Meaning = Callable[[Quantities], Any]
"""What a letter stands for at a case: a number or an array."""
Letters = Mapping[str, Meaning]


def _other(of: Meaning) -> Meaning:
    """The letter's value at the second mask, N of the case."""
    return lambda q: of(q.at(q.N))


def _at_both(name: str, of: Meaning) -> dict[str, Meaning]:
    return {name: of, f"{name}(M)": of, f"{name}(M')": _other(of)}


def _slopes(q: Quantities, of: Meaning) -> Any:
    """The derivative in every entry of M, by automatic differentiation; of a number in the shape of M."""
    found = [np.asarray(q.directional(q.unit(a, b), of)) for a in range(q.d) for b in range(q.d)]
    return np.stack([one.ravel() for one in found]) if found[0].ndim else np.reshape(found, (q.d, q.d))


COMMON: Letters = {
    **_at_both("grad L", lambda q: q.gradient),
    **_at_both("f(M)", lambda q: q.F),
    "f(M')": _other(lambda q: q.F),
    **_at_both("F", lambda q: q.F),
    **_at_both("c", lambda q: q.c),
    **_at_both("p", lambda q: q.p),
    **_at_both("p2", lambda q: q.p2),
    **_at_both("L_attn", lambda q: q.L_attn),
    "L(M)": lambda q: q.L,
    "f": lambda q: q.f,
    "p1": lambda q: q.p1,
    "p'": _other(lambda q: q.p),
    "f'": _other(lambda q: q.F),
    "c'": _other(lambda q: q.c),
    "grad L(N)": _other(lambda q: q.gradient),
    "M'": lambda q: q.N,
    "M_c": lambda q: q.allowed.astype(float),
    "L_reg(M)": lambda q: q.lam * q.square(q.M) / 2,
    "X": lambda q: q.X,
    "x": lambda q: q.X,
    "W": lambda q: q.W,
    "M": lambda q: q.M,
    "n": lambda q: q.n,
    "d": lambda q: q.d,
    "lam": lambda q: q.lam,
    "R": lambda q: q.R,
    "K": lambda q: q.K,
    "Pi A": lambda q: q.PiA,
    "beta": lambda q: q.beta,
    "delta": lambda q: q.delta_allowed,
    "delta_allowed": lambda q: q.delta_allowed,
    "n_e": lambda q: q.n_e,
    "m": lambda q: q.row_sizes,
    "f_min": lambda q: q.f_min,
    "kappa_T": lambda q: q.kappa_T,
    "kappa_+": lambda q: q.kappa_plus,
    "lambda_2": lambda q: q.lambda_2,
    "lambda_2(J_i)": lambda q: q.lambda_2,
    "max|W|": lambda q: q.w_max,
    "min|W|": lambda q: q.w_min,
    "max|X|": lambda q: np.abs(q.X).max(),
    "max|f(M)|": lambda q: np.abs(q.F).max(),
    "max|f(M) X|": lambda q: np.abs(q.F @ q.X).max(),
    "max|c_ij|": lambda q: np.abs(q.c).max(),
    "min_allowed F_ij": lambda q: q.delta_allowed,
    "dF/dM": lambda q: _slopes(q, lambda m: m.F),
    "dL/dM": lambda q: _slopes(q, lambda m: m.L),
    "Hess L_attn(M)": lambda q: q.curvature,
    "Hess L(M)": lambda q: q.curvature + np.eye(q.d**2) * q.lam,
    "u(M)": lambda q: q.ut,
    "alpha(M)": lambda q: q.alphat,
    "alpha": lambda q: q.alpha,
    "C_+": lambda q: (39 + 55 * math.sqrt(33)) / 1152,
    "C_-": lambda q: (55 * math.sqrt(33) - 39) / 1152,
    "e": lambda q: math.e,
    "I": lambda q: np.eye(q.d),
}
"""Letters of the problem, NOTATION.md's; a name and an index, ``c_i`` or ``F(M)_ij``, is a row or an entry."""


def _softmax(q: Quantities) -> Any:
    return q.softmax(q.s)


def _residual(q: Quantities) -> Any:
    return q.softmax(q.s) - q.softmax(q.t)


def _jacobian(q: Quantities) -> Any:
    s = _softmax(q)
    return np.diag(s) - np.outer(s, s)


def _row_of_p(q: Quantities, logits: NDArray[np.float64]) -> Any:
    s = q.softmax(logits)
    c = s - q.softmax(q.t)
    return c * s - s * (c * s).sum()


def _row_hessian(q: Quantities) -> Any:
    J, s = _jacobian(q), _softmax(q)
    g = J @ _residual(q)
    return J @ J + np.diag(g) - np.outer(s, g) - np.outer(g, s)


def _along(q: Quantities) -> tuple[Any, Any, Any]:
    """The first three derivatives of softmax(s + t v) at t = 0."""
    s = _softmax(q)
    e = q.v - (s * q.v).sum()
    variance, third = (s * e * e).sum(), (s * e**3).sum()
    return s * e, s * (e * e - variance), s * (e**3 - 3 * e * variance - third)


def _central(q: Quantities, power: int) -> Any:
    """The central moment of v under the softmax row."""
    s = _softmax(q)
    return (s * (q.v - (s * q.v).sum()) ** power).sum()


def _third_of_loss(q: Quantities) -> Any:
    speed, bend, jerk = _along(q)
    return 3 * (speed * bend).sum() + (_residual(q) * jerk).sum()


def _largest(place: int) -> Meaning:
    return lambda q: ([*sorted(_softmax(q), reverse=True), 0.0])[place]


def _shifted(q: Quantities) -> Any:
    """C C^T + beta I."""
    return q.C @ q.C.T + np.eye(len(q.C)) * q.level


def _across_ones(tokens: NDArray[np.float64]) -> Any:
    """The least ||tokens^T v||^2 over unit vectors v with sum 0."""
    size = len(tokens)
    basis = np.linalg.svd(np.ones((1, size)))[2][1:]
    return np.linalg.eigvalsh(basis @ tokens @ tokens.T @ basis.T)[0]


def _least_singular(tokens: NDArray[np.float64]) -> float:
    """The least of as many singular values as there are tokens: eigenvalues of X X^T would lose half of the digits."""
    tokens = np.asarray(tokens, dtype=float)
    return float(np.linalg.svd(tokens)[1].min(initial=np.inf)) if len(tokens) <= tokens.shape[1] else 0.0


def _choosing(q: Quantities) -> Any:
    return q.row_sizes >= 2


def _slope_of_square(q: Quantities) -> Any:
    """The central difference of lam ||M||^2/2 in each entry, exact for a quadratic."""
    M, lam = np.asarray(q.M, dtype=float), float(q.lam)
    units = np.eye(M.size).reshape(-1, *M.shape)
    return np.reshape([lam * (((M + E) ** 2).sum() - ((M - E) ** 2).sum()) / 4 for E in units], M.shape)


_SPECTRAL: Letters = {"||": lambda q: "_2"}
_TOKENS: Letters = {"n": lambda q: q.case["tokens"], "lam": lambda q: q.case["strength"]}
_LEVEL: Letters = {"beta": lambda q: q.level}
_GRAM: Letters = {**_LEVEL, "lambda_min(X X^T)": lambda q: _least_singular(q.X) ** 2}
_STOCHASTIC: Letters = {
    "range i": lambda q: range(len(q.case["f"])),
    "delta": lambda q: min(q.case["f"].ravel()),
    "min_allowed f": lambda q: min(q.case["f"][q.case["allowed"]]),
    "M_c": lambda q: q.case["allowed"],
    "n": lambda q: len(q.case["B"]),
    "B 1": lambda q: q.case["B"].sum(axis=1),
}
"""B 1 is summed in fractions: floats would not be 0."""
_ROW: Letters = {"s": _softmax, "f": lambda q: q.softmax(q.t)}

OF_CLAIM: Mapping[str, Letters] = {
    "lem:PL_ineq": {"delta": lambda q: q.delta},
    "lem:PL_ineq_informal": {"delta": lambda q: q.delta},
    "lem:lower_bound_B_plus_M": {"R": lambda q: q.norm(q.B), "d": lambda q: len(q.B)},
    "eq:convergence:add_squre": {"R": lambda q: q.norm(q.B), "d": lambda q: len(q.B)},
    "fix:lower_bound_B_plus_M": {"d": lambda q: len(q.B)},
    "fac:trace_BAB": {**_LEVEL, "A": _shifted},
    "lem:lower_bound_XBX": _GRAM,
    "lem:lower_bound_XBX_informal": _GRAM,
    "lem:lower_bound_hadamard": {"range i": lambda q: range(len(q.B))},
    **dict.fromkeys(
        ("lem:lower_bound_p", "lem:lower_bound_p_informal", "lem:lower_bound_p_row", "fix:lower_bound_p",
         "fix:lower_bound_p_row"),
        _STOCHASTIC,
    ),
    "fac:indexing": {"range i": lambda q: range(len(q.U)), "range j": lambda q: range(q.V.shape[1])},
    "fac:combine": {"range j": lambda q: range(len(q.u))},
    "fac:norm_bound": {"u": lambda q: q.case["u"]},
    "lem:bound_grad_f": {"d vec f(M) / d vec M": COMMON["dF/dM"]},
    "eq:lip_diag_1": _SPECTRAL,
    "eq:lip_diag_2": _SPECTRAL,
    "eq:lip_l_1": {"f": lambda q: q.F},
    "rem:practical": EVERY_PLACE,
    "exp:any_attention_mask": EVERY_PLACE,
    "new:causal_floor": EVERY_PLACE,
    "new:no_common_floor": EVERY_PLACE,
    "exp:batch_regulariser": {"lam": lambda q: q.case["strength"]},
    "exp:divergent_step": _TOKENS,
    "exp:lam_in_unit_interval": _TOKENS,
    "exp:reported_delta": _TOKENS,
    "new:softmax_jacobian": _ROW,
    "new:softmax_lipschitz": {"softmax(s)": _softmax, "softmax(s + v)": lambda q: q.softmax(q.s + q.v)},
    "new:row_hessian_five_quarters": {
        "p_i(s)": lambda q: _row_of_p(q, q.s), "p_i(s + v)": lambda q: _row_of_p(q, q.s + q.v),
    },
    "new:jacobian_two_largest": {"s": _softmax, "s1": _largest(0), "s2": _largest(1)},
    "new:softmax_second_derivative": {
        "s": _softmax, "Var_s(v)": lambda q: q.v @ _jacobian(q) @ q.v,
    },
    "new:softmax_third_derivative": {
        "s": _softmax,
        "E_s Z^2": lambda q: _central(q, 2),
        "E_s Z^3": lambda q: _central(q, 3),
    },
    "new:row_third_derivative": {"d^3/dt^3 1/2 ||softmax(s + t v) - f||^2": _third_of_loss},
    "new:row_third_bound": {
        "d^2 softmax": lambda q: _along(q)[1],
        "d^3 softmax": lambda q: _along(q)[2],
        "d^3 1/2 ||softmax - f||^2": _third_of_loss,
        "v": lambda q: q.norm(q.v),
        "s": lambda q: q.norm(_residual(q)),
    },
    "new:row_hessian": _ROW,
    "new:row_hessian_lower": _ROW,
    "new:curvature_domination": {
        **_ROW,
        "H": _row_hessian,
        "lambda_2(J)": lambda q: np.linalg.eigvalsh(_jacobian(q))[1],
        "range j": lambda q: range(len(q.s)),
    },
    "new:L_against_paper": {
        "L_paper": lambda q: q.lam + 30 * q.d * q.n**3.5 * q.R**6,
        "L_sharp": lambda q: q.lam + COMMON["C_+"](q) * q.K**2,
    },
    "new:kappa_centred": {"beta_c": lambda q: _across_ones(q.X)},
    "new:kappa_masked": {
        "X_L": lambda q: q.X[_choosing(q)],
        "min_i beta_i": lambda q: min(_across_ones(q.X[row]) for row in q.allowed[_choosing(q)]),
    },
    "new:descent_lemma": {
        "g": lambda q: q.gradient,
        "eta": lambda q: step(q, q.lam + 1.25 * q.K**2),
        "L(M - eta g)": lambda q: q.at(q.M - q.gradient * step(q, q.lam + 1.25 * q.K**2)).L,
    },
    "new:directional_step": {
        "g": lambda q: q.gradient,
        "Pi A g": along_gradient,
        "L(M - eta g)": lambda q: q.at(q.M - q.gradient * directional_step(q)).L,
    },
    "lem:grad_reg": {"dL_reg/dM": _slope_of_square},
    **WALKED,
    "new:ray_monotone": {
        "d/dtau L_attn(tau 1)": lambda q: q.at(np.ones((q.d, q.d)) * float(q.case["tau"])).G.sum(),
    },
    "new:ones_witness": {
        "lam": lambda q: 6 * q.n**0.5 * q.w_max * q.square(q.X) / q.d * float(q.case["share"]),
        "mu": lambda q: q.case.get("mu", 1.0),
    },
    "new:delta_le_inverse_n": {
        "min_j F(M)": lambda q: [min(row[seen]) for row, seen in zip(q.F, q.allowed, strict=True)],
    },
}  # fmt: skip
"""By claim: letters that stand for something else than usual, for a case's own values, or for a whole expression.

``||`` chooses the norm of a bare ``||A||``; ``range i`` what an index runs over.
"""


def letters_of(claim_id: str) -> Letters:
    """Return the letters of one claim."""
    return {**OF_CLAIM.get(claim_id, {}), **DERIVED.get(claim_id, {})}


def names_of(claim_id: str) -> list[str]:
    """Return the letters that the reader of a claim's formula must be given: those that are no word."""
    given = (*COMMON, *letters_of(claim_id), *NOTED.get(claim_id, ()))
    return [name for name in given if not name.isalpha() and name != "||" and not name.startswith("range ")]
