"""Confirmations of the repaired bounds, on instances close to where they are attained."""

from collections.abc import Iterator
from typing import Any

from flint import arb

from proofs_check.producer import balls as b
from proofs_check.producer.document import Document, certificate
from proofs_check.producer.notation import Matrix, Q, ball, balls, enclosure, table, word

BITS = 256  # bits; chosen: twice the checkers' first precision


def documents() -> Iterator[tuple[str, Document]]:
    with b.precision(BITS):
        yield "bound_c-confirmation", _opposite_rows("fix:bound_c")
        yield "bound_basic_func-confirmation", _opposite_rows("fix:bound_basic_func")
        yield "bound_grad_f-confirmation", _nearly_uniform()
        yield "lip_f_circ_c-confirmation", _halved()
    yield "new_loss-confirmation", _regulariser()


def _document(statement: str, X: Matrix, W: Matrix, mask: Any, more: dict[str, Matrix], lhs: arb, rhs: Any) -> Any:
    inputs = {"n": len(X), "d": len(W), "X": table(X), "W": table(W), "mask": mask}
    named = mask if isinstance(mask, str) else "full" if mask is None else "given"
    return certificate(
        statement,
        "confirmation",
        {"mask": named},
        inputs | {name: table(matrix) for name, matrix in more.items()},
        {},
        {"lhs": enclosure(lhs), "rhs": [word(rhs), word(rhs)]},
        "lhs<=rhs",
        BITS,
    )


def _opposite_rows(statement: str) -> Document:
    """M = -1 turns the logits round: one-hot rows become other one-hot rows. The first row has no choice."""
    X, minus = b.identity(3), [[Q(-1)] * 3] * 3
    W = [[Q(w) for w in row] for row in ((20, -20, 20), (20, -20, 5), (20, -20, 0))]
    mask = b.causal(3)
    F, f = (b.attention(balls(X), E, mask) for E in (b.hadamard(balls(minus), balls(W)), balls(W)))
    c = b.residual(F, f)
    if statement == "fix:bound_c":
        return _document(statement, X, W, "causal", {"M": minus}, b.norm_sq(c), Q(4))
    products = b.hadamard(c, F)
    sides = [b.norm_sq(c) / 2, b.norm_sq(products), sum((sum(row, arb(0)) ** 2 for row in products), arb(0))]
    largest = max(sides, key=lambda side: float(side.mid()))
    return _document(statement, X, W, "causal", {"M": minus}, largest, Q(2))


def _nearly_uniform() -> Document:
    """X = I_2, M = 1/10: the softmax Jacobian nearly halves. dF_ij/dM_ab = F_ij (X_jb - F_i X_b) X_ia W_ab."""
    X, W, M = b.identity(2), [[Q(1), Q(-1)], [Q(-2), Q(2)]], [[Q(1, 10)] * 2] * 2
    x, w = balls(X), balls(W)
    F = b.attention(x, b.hadamard(balls(M), w), b.full(2))
    mean = b.product(F, x)
    norm = arb(0)
    for i in range(2):
        for j in range(2):
            for a in range(2):
                for q in range(2):
                    norm += (F[i][j] * (x[j][q] - mean[i][q]) * x[i][a] * w[a][q]) ** 2
    # Pi A: row i of X = I moves by W_ib (e_b - 1/2), of squared length W_ib^2/2: (1 + 1 + 4 + 4)/2 in all
    return _document("fix:bound_grad_f", X, W, None, {"M": M}, norm, Q(5, 4))


def _halved() -> Document:
    """The first row alone has a choice; f = e_3 and F = (1/2, 1/2, 0), moved along e_1 - e_2 in the logits."""
    X = [[Q(1), Q(0)], [Q(-1), Q(0)], [Q(0), Q(1)]]
    W = [[Q(60), Q(100)], [Q(0), Q(0)]]
    M = [[Q(0), Q(-1)], [Q(0), Q(0)]]
    N = [[Q(1, 10**6), Q(-1)], [Q(0), Q(0)]]
    V = [[Q(1), Q(0)], [Q(0), Q(0)]]
    mask = [[True, True, True], [False, True, False], [False, False, True]]
    f = b.attention(balls(X), balls(W), mask)
    ends = []
    for E in (M, N):
        F = b.attention(balls(X), b.hadamard(balls(E), balls(W)), mask)
        ends.append(b.hadamard(b.residual(F, f), F))
    # X (V o W) X^T has the first row (60, -60, 0), of mean 0: ||Pi A V||^2 = 7200, ||V|| = 1, ||M - N|| = 1e-6
    words = [[str(int(keep)) for keep in row] for row in mask]
    change = b.norm_sq(b.residual(*ends))
    if not change > ball(Q(1799, 10**12)):
        raise ArithmeticError("the instance is not close to where the bound is attained")
    return _document("fix:lip_f_circ_c", X, W, words, {"M": M, "N": N, "V": V}, change, Q(7200, 4 * 10**12))


def _regulariser() -> Document:
    """lambda/2 (||M_Q||^2 + ||M_K||^2) is the regulariser of def:reg_term, once for each mask."""
    first, second = [[Q(1), Q(1, 2)], [Q(0), Q(1)]], [[Q(1, 3), Q(1)], [Q(1), Q(1)]]
    both = [word(Q(1, 40) * sum(x * x for M in (first, second) for row in M for x in row))] * 2
    inputs = {"d": 2, "m": 2, "M_Q": table(first), "M_K": table(second), "lambda": "1/20"}
    quantities = {"lhs": both, "rhs": both}
    return certificate("fix:new_loss", "confirmation", {"of": "the regulariser"}, inputs, {}, quantities, "lhs==rhs")
