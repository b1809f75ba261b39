"""Letters of the statements about derivatives and about functions of their own, from the definitions."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.model import attention

Meaning: TypeAlias = Callable[[Quantities], Any]
_Array = NDArray[np.float64]


def slopes(q: Quantities, of: Meaning) -> _Array:
    """Return the derivative of every entry in every entry of M, whose two indices come first."""
    found = [[np.asarray(q.directional(q.unit(a, b), of)) for b in range(q.d)] for a in range(q.d)]
    return np.asarray(found, dtype=float)


def _by_entry(of: Meaning) -> Meaning:
    """The derivative whose two indices come last."""
    return lambda q: np.moveaxis(slopes(q, of), (0, 1), (-2, -1))


def _one_by_one(q: Quantities) -> Any:
    """C1: c_ij f_ij W_ab x_ia x_jb, indices in the order i, j, a, b."""
    return np.einsum("ij,ab,ia,jb->ijab", q.c * q.F, q.W, q.X, q.X)


def _less_the_mean(q: Quantities) -> Any:
    """C2: -c_ij f_ij sum_k f_ik W_ab x_ia x_kb."""
    return -np.einsum("ij,ik,ab,ia,kb->ijab", q.c * q.F, q.F, q.W, q.X, q.X)


def _moved_product(q: Quantities) -> Any:
    """The derivative of M o X in each entry of M: a linear function's central difference is exact."""
    M, X = np.asarray(q.M, dtype=float), np.asarray(q.X, dtype=float)
    units = np.eye(M.size).reshape(*M.shape, *M.shape)
    return ((M + units) * X - (M - units) * X) / 2


def _of_quadratic(at: str) -> Meaning:
    """The derivative of A X B + X o X as a matrix, rows and columns in the order of rows."""
    return lambda q: np.kron(q.A, q.B.T) + np.diag(2 * q.case[at].ravel())


def _of_rows(of: Callable[[_Array, _Array], float]) -> Meaning:
    """A number of each row with a choice, from its allowed weights and residuals."""
    return lambda q: [
        of(s[seen], c[seen]) for s, c, seen, m in zip(q.F, q.c, q.allowed, q.row_sizes, strict=True) if m > 1
    ]


_ROWS: Mapping[str, Meaning] = {
    "range i": lambda q: range(q.n_e),
    "t": _of_rows(lambda s, c: np.sort(s)[-1]),
    "t'": _of_rows(lambda s, c: np.sort(s)[-2]),
    "s": _of_rows(lambda s, c: s.min()),
    "u": _of_rows(lambda s, c: (c - c @ s).max()),
    "v": _of_rows(lambda s, c: (c @ s - c).max()),
}
EVERY_PLACE: Mapping[str, Meaning] = {"range j": lambda q: range(q.n), "range k": lambda q: range(q.n)}
_MASKED: Mapping[str, Meaning] = {"d(u(M) o M_c)_ij/dM_ab": _by_entry(lambda m: m.ut * m.allowed.astype(float))}
_INVERSE: Mapping[str, Meaning] = {"d(1/alpha(M))_i/dM_ab": _by_entry(lambda m: 1 / m.alphat)}
_MOVES: Mapping[str, Meaning] = {
    **EVERY_PLACE,
    "d(X (M o W) X^T)_ij/dM_ab": _by_entry(lambda m: m.logits),
    "du(M)_ij/dM_ab": _by_entry(lambda m: m.ut),
    "dalpha(M)_i/dM_ab": _by_entry(lambda m: m.alphat),
    "df(M)_ij/dM_ab": _by_entry(lambda m: m.F),
    "dc(M)_ij/dM_ab": _by_entry(lambda m: m.c),
}
_PRODUCTS: Mapping[str, Meaning] = {**EVERY_PLACE, "C1(M)": _one_by_one, "C2(M)": _less_the_mean}
_UNITS: Mapping[str, Meaning] = {"e": lambda q: np.eye(len(q.M))}


def _widest(tokens: Callable[[Quantities], _Array], weights: str) -> Meaning:
    """The largest ||X diag(W e_c)|| over the columns c of a weight."""
    return lambda q: max(np.linalg.norm(tokens(q) * column, 2) for column in q.case[weights].T)


def _centred(q: Quantities) -> _Array:
    """X_0: the tokens less their mean; as they are where keys are rotated."""
    X = np.asarray(q.case["X"], dtype=float)
    return X if q.case.get("turns") else X - X.mean(axis=0)


_WIDTHS: Mapping[str, Meaning] = {
    "max_c ||X diag(W_Q e_c)||": _widest(lambda q: np.asarray(q.case["X"], dtype=float), "W_Q"),
    "max_c ||X_0 diag(W_K e_c)||": _widest(_centred, "W_K"),
}
_LOGITS: Mapping[str, Meaning] = {"range j": lambda q: range(len(q.x))}
_FACTORS: Mapping[str, Meaning] = {
    "f(x)": lambda q: q.P,
    "f(y)": lambda q: q.Q,
    "||x - y||": lambda q: 1.0,
    "n": lambda q: len(q.P),
    "range i": lambda q: range(len(q.P)),
}

DERIVED: Mapping[str, Mapping[str, Meaning]] = {
    **dict.fromkeys(
        ("lem:grad_one_row_mat", "lem:grad_exp_func", "lem:grad_sum", "lem:grad_soft_prob", "lem:grad_one_unit"), _MOVES
    ),
    "eq:grad_prob": {**_MOVES, **_MASKED, **_INVERSE},
    "eq:grad_proB_1(M)": {**_MOVES, **_INVERSE},
    "eq:grad_proB_2(M)": {**_MOVES, **_MASKED},
    "eq:mat_mask": {**_UNITS, "d(M o W)^T/dM_ab": lambda q: slopes(q, lambda m: (m.M * m.W).T)},
    "eq:mat_total": {
        "d(X (M o W) X^T)/dM_ab": lambda q: slopes(q, lambda m: m.logits),
        "d(X (M o W)^T X^T)/dM_ab": lambda q: slopes(q, lambda m: m.X @ (m.M * m.W).T @ m.X.T),
        "d(M o W)^T/dM_ab": lambda q: slopes(q, lambda m: (m.M * m.W).T),
    },
    **dict.fromkeys(("eq:one_unit_c1", "eq:one_init_c2", "lem:mat_view_b1", "lem:mat_view_b2"), _PRODUCTS),
    "lem:mat_view_b3": {"C3(M)": lambda q: q.lam * q.M},
    "lem:grad_rec": {"dL_attn/dM": lambda q: slopes(q, lambda m: m.L_attn)},
    "lem:mask_hadamard": {
        **_UNITS,
        "d(M o X)/dM_ij": _moved_product,
        "range i": lambda q: range(len(q.M)),
        "range j": lambda q: range(len(q.M)),
    },
    "def:exp_func": {"u": lambda q: q.u},
    "def:soft_prob_func": {**EVERY_PLACE, "u": lambda q: q.u},
    "def:attn_matrix": {"Softmax(X W X^T)": lambda q: attention(q.case["X"], q.case["W"])},
    "fac:mean_value": {
        "dg(X)": _of_quadratic("X"),
        "dg(Y)": _of_quadratic("Y"),
        "R": lambda q: max(q.norm(_of_quadratic("X")(q)), q.norm(_of_quadratic("Y")(q))),
    },
    "fac:lip_product": _FACTORS,
    "fix:lip_product": _FACTORS,
    "new:fused_mask_rank": {"range a": lambda q: range(len(q.noted.get("C", ())))},
    **dict.fromkeys(("new:pair_lipschitz", "new:pair_descent"), _WIDTHS),
    **dict.fromkeys(
        ("new:rounding_sum", "new:online_softmax", "new:rounding_output", "new:rounding_gradient"), _LOGITS
    ),
    "new:weighted_curvature": _ROWS,
    "new:strongly_convex_descent": {"lam": lambda q: 0.2405 * q.K**2 * (1 + q.case["part"])},
    "new:segment_step": {"g": lambda q: q.gradient, "range i": lambda q: range(len(q.noted["r"]))},
    "new:softmax_move": {"range i": lambda q: np.flatnonzero(q.row_sizes > 1)},
    "exp:whole_model_ratio": {"range i": lambda q: range(len(q.noted["s"]))},
    "fac:algebra": {
        "e": lambda q: np.eye(len(q.X)),
        "h": lambda q: np.eye(q.X.shape[1]),
        "range j": lambda q: range(q.X.shape[1]),
        "range k": lambda q: range(len(q.u)),
    },
    "def:PL": {"range i": lambda q: range(len(q.a))},
    "eq:mean_thm": {"range i": lambda q: range(len(q.a))},
}  # fmt: skip
"""By claim: derivatives by automatic differentiation, and functions of which a case has the values."""
