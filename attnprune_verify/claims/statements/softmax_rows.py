"""One softmax row beyond its Jacobian: a move of the logits, its next derivatives, and two conjectured suprema."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.eigenvalues import extreme_eigenvalues
from attnprune_verify.claims.cases.lipschitz_pairs import one_feature, second_mask
from attnprune_verify.claims.cases.quantities import Lifted, Quantities, variance
from attnprune_verify.claims.cases.relation import Relation, at_least, at_most
from attnprune_verify.claims.cases.supply import Arrays, Instances
from attnprune_verify.claims.core import Claim, Kind, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK, LITERAL, some_choice
from attnprune_verify.theory.formulas import newton

_SECTION = "F Lipschitz of Gradient"
_TOKENS = (2, 3, 4, 5, 6)  # chosen: the lengths of rows that were searched
_SEARCHED = f"found by search with {_TOKENS[0]} to {_TOKENS[-1]} tokens, not proved"
_THIRD = 0.57141  # the largest found by search, rounded up


def _row_moves(q: Quantities, weights: float = 1.0, jacobian: float = 1.0) -> list[Relation]:
    """e^-r s_j <= s'_j <= e^r s_j and J' <= e^r J for each row with a choice; the factors weaken the exponents."""
    moved = q.at(q.N)
    step = q.X @ ((q.N - q.M) * q.W) @ q.X.T
    found = []
    ranges = q.number(np.zeros(q.n))
    forms: dict[str, list[Lifted]] = {name: [] for name in (*_FORMS, "Var_s(v)", "Var_s'(v)", "r_v")}
    for i in np.flatnonzero(q.row_sizes >= 2):
        S = q.allowed[i]
        before, after, u = q.F[i, S], moved.F[i, S], step[i, S]
        r = q.largest(u) - q.smallest(u)
        shrink = q.exp(-r * q.number(weights))
        for old, new in zip(before, after, strict=True):
            found += [
                at_most(new * shrink, old, f"row {i}: weight from above"),
                at_most(old * shrink, new, f"row {i}: weight from below"),
            ]
        shrink, ranges[i] = q.exp(-r * q.number(jacobian)), r
        for v in (q.v[S], u):
            for name, number in (("Var_s(v)", variance(before, v)), ("Var_s'(v)", variance(after, v)), ("r_v", r)):
                forms[name].append(number)
            found += [
                at_most(variance(after, v) * shrink, variance(before, v), f"row {i}: Jacobian from above"),
                at_most(variance(before, v) * shrink, variance(after, v), f"row {i}: Jacobian from below"),
            ]
        for one, other, side in ((before, after, "above"), (after, before, "below")):
            found.append(_as_forms(q, one, other, shrink, f"row {i}: form from {side}"))
            forms[_FORMS[side == "below"]].append(found[-1].lhs - 1)
    q.note({**forms, "r": ranges})
    return found


_FORMS = "lambda_min(J(s) - e^{-r} J(s'))", "lambda_min(J(s') - e^{-r} J(s))"


def _as_forms(q: Quantities, one: Lifted, other: Lifted, shrink: Lifted, part: str) -> Relation:
    """J(one) - e^-r J(other) + 11^T has no eigenvalue below 0; 1 is added to both sides, for the rounding."""
    gap = np.diag(one - shrink * other) - np.outer(one, one) + shrink * np.outer(other, other)
    least, _ = extreme_eigenvalues(gap + q.number(np.ones(gap.shape)), q.arithmetic)
    return at_least(least + q.number(1.0), q.number(1.0), part, offset=q.number(1.0))


def _move_and_direction(rng: Generator, case: Case) -> dict[str, Any]:
    return second_mask(rng, case) | {"v": rng.standard_normal(len(case["X"]))}


def _nearly_one_hot() -> Iterator[Case]:
    """Two tokens, u = (r, 0) with almost all mass where u = 0; only the first row has a choice."""
    mask = np.array([[1, 1], [0, 1]], dtype=bool)
    yield one_feature(20.0, -1.0, 0.05).but("sigma_1 = e^-20, r = 1", mask=mask, v=np.array([1.0, 0.0]))


def _two_largest(q: Quantities, second: bool = True) -> Relation:
    """lambda_max(J) <= s1 (1 - s1 + s2), 1 added to both sides for the rounding."""
    s = q.softmax(q.s)
    if len(s) < 2:
        return at_least(q.number(0.0), q.number(0.0))
    top = int(np.argmax([float(one) for one in s]))
    first, rest = s[top], q.largest(np.delete(s, top))
    bound = first * (1 - first + (rest if second else 0))
    _, most = extreme_eigenvalues(np.diag(s) - np.outer(s, s), q.arithmetic)
    return at_most(most + 1, bound + 1, offset=q.number(1.0))


def _one_row_of_two() -> Iterator[Case]:
    yield Case({"s": np.array([1.0, 0.0])}, "two tokens")


def _derivatives(q: Quantities) -> tuple[Lifted, Lifted, Lifted, Lifted]:
    """softmax(s + t v) and its first three derivatives at t = 0, from the cumulants of v."""
    s = q.softmax(q.s)
    e = q.v - (s * q.v).sum()
    variance, third = (s * e * e).sum(), (s * e * e * e).sum()
    return s, s * e, s * (e * e - variance), s * (e * e * e - e * variance * 3 - third)


def _second(q: Quantities, factor: float = 1.0) -> Relation:
    _, _, bend, _ = _derivatives(q)
    return at_most(q.norm(bend), q.sqrt(q.number(6.0)) / 9 * q.square(q.v) * q.number(factor))


def _jerk(q: Quantities, factor: float = 1.0) -> Relation:
    *_, jerk = _derivatives(q)
    return at_most(q.norm(jerk), q.square(q.v) * q.norm(q.v) / 2 * q.number(factor))


def _third(q: Quantities, constant: float = _THIRD) -> Relation:
    s, speed, bend, jerk = _derivatives(q)
    value = (speed * bend).sum() * 3 + ((s - q.softmax(q.t)) * jerk).sum()
    return at_most(abs(value), q.square(q.v) * q.norm(q.v) * q.number(constant))


def _proved(q: Quantities, second: float = 1.0, third: float = 1.0, loss: float = 1.0) -> list[Relation]:
    """Both derivatives of softmax, and the third of the row's loss with the actual residual."""
    s, speed, bend, jerk = _derivatives(q)
    c, v = s - q.softmax(q.t), q.norm(q.v)
    value = (speed * bend).sum() * 3 + (c * jerk).sum()
    return [
        at_most(q.norm(bend), q.of(newton.second_derivative, v) * q.number(second), "second derivative"),
        at_most(q.norm(jerk), q.of(newton.third_derivative, v) * q.number(third), "third derivative"),
        at_most(abs(value), q.of(newton.third_derivative_row, q.norm(c), v) * q.number(loss), "loss of the row"),
    ]


def _two_tokens() -> Iterator[Case]:
    """Two tokens, opposite step, f at a vertex: the maximisers of both, as found by search."""
    for place in ((1 - 3**-0.5) / 2, 0.3637357):
        s = np.array([np.log(place / (1 - place)), 0.0])
        yield Case({"s": s, "t": np.array([40.0, 0.0]), "v": np.array([1.0, -1.0])}, f"p = {place:.6f}")


def _and_equal_tokens() -> Iterator[Case]:
    yield from _two_tokens()
    yield Case({"s": np.zeros(2), "t": np.zeros(2), "v": np.array([1.0, -1.0])}, "two equal tokens")


def _softer(rng: Generator, case: Case) -> Case:
    """Shrink the logits to where the derivatives live."""
    return case.but(s=case["s"] / 2)


_ROWS = Arrays({"s": "m", "t": "m", "v": "m"}, make=_softer, free=("s", "t", "v"), sizes=_TOKENS, rounds=30)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="new:jacobian_two_largest",
        kind=Kind.LEMMA,
        title="The softmax Jacobian by its weights",
        section=_SECTION,
        reading=LITERAL,
        formula="lambda_max(J) <= s1 (1 - s1 + s2), J = diag(s) - s s^T",
        strength=Strength.TIGHT,
        margin=_two_largest,
        supply=Arrays({"s": "m"}, sizes=_TOKENS, free=("s",), rounds=24),
        uses=("new:softmax_jacobian",),
        attains=_one_row_of_two,
        wrong=(Wrong("s1 (1 - s1)", lambda q: _two_largest(q, second=False)),),
        source="new",
    ),
    Claim(
        id="new:softmax_move",
        kind=Kind.LEMMA,
        title="Softmax and its Jacobian as the logits move",
        section=_SECTION,
        reading=ANY_MASK,
        formula="e^{-r_i} f(M')_ij <= f(M)_ij, e^{-r_i} f(M)_ij <= f(M')_ij, e^{-r_v} Var_s'(v) <= Var_s(v), e^{-r_v}"
        " Var_s(v) <= Var_s'(v), lambda_min(J(s) - e^{-r} J(s')) >= 0, lambda_min(J(s') - e^{-r} J(s)) >= 0, r_i ="
        " max_j (X ((M' - M) o W) X^T)_ij - min_j (X ((M' - M) o W) X^T)_ij if n_e >= 1",
        strength=Strength.TIGHT,
        loose=frozenset({"row: form from above", "row: form from below"}),  # all directions; u and v pin the constant
        margin=_row_moves,
        supply=Instances("any", extra=_move_and_direction, free=("M", "N", "W", "v")),
        uses=("def:soft_prob_func",),
        attains=_nearly_one_hot,
        hypotheses=(some_choice(),),
        wrong=(
            Wrong("weights within e^{0.99 r}", lambda q: _row_moves(q, weights=0.99)),
            Wrong("the Jacobian within e^{0.99 r}", lambda q: _row_moves(q, jacobian=0.99)),
        ),
        source="new",
    ),
    Claim(
        id="new:row_third_bound",
        kind=Kind.LEMMA,
        title="Second and third derivatives of a row, proved",
        section=_SECTION,
        reading=LITERAL,
        formula="||d^2 softmax|| <= (2/5) v^2, ||d^3 softmax|| <= (51/100) v^3, |d^3 1/2 ||softmax - f||^2| <="
        " (3/5 + (51/100) s) v^3",
        strength=Strength.UPPER,
        margin=_proved,
        supply=_ROWS,
        uses=("new:softmax_jacobian",),
        attains=_and_equal_tokens,
        wrong=(
            Wrong("two thirds of 2/5", lambda q: _proved(q, second=0.66)),
            Wrong("0.98 of 51/100", lambda q: _proved(q, third=0.98)),
            Wrong("half of the row's", lambda q: _proved(q, loss=0.5)),
        ),
        source="new",
        note="v is the norm of the direction, s that of softmax - f; for rows of any number of tokens",
    ),
    Claim(
        id="new:softmax_second_derivative",
        kind=Kind.LEMMA,
        title="Second derivative of softmax, sharp",
        section=_SECTION,
        reading=LITERAL,
        formula="||s o ((v - <s, v>)^2 - Var_s(v))|| <= (sqrt 6/9) ||v||^2",
        strength=Strength.TIGHT,
        margin=_second,
        supply=_ROWS,
        uses=("new:softmax_jacobian",),
        attains=_two_tokens,
        wrong=(Wrong("0.99 of it", lambda q: _second(q, 0.99)),),
        source="new",
        note="a third cumulant of any number of tokens; the norm of such a form is attained where all"
        " its directions agree",
    ),
    Claim(
        id="new:softmax_third_derivative",
        kind=Kind.LEMMA,
        title="Third derivative of softmax, sharp",
        section=_SECTION,
        reading=LITERAL,
        formula="||s o (Z^3 - 3 V Z - E_s Z^3)|| <= (1/2) ||v||^3, Z = v - <s, v>, V = E_s Z^2",
        strength=Strength.TIGHT,
        margin=_jerk,
        supply=_ROWS,
        uses=("new:softmax_jacobian",),
        attains=_and_equal_tokens,
        wrong=(Wrong("0.99 of it", lambda q: _jerk(q, 0.99)),),
        source="new",
        note="a fourth cumulant, of any number of tokens",
    ),
    Claim(
        id="new:row_third_derivative",
        kind=Kind.LEMMA,
        title="Third derivative of a row's loss (conjecture)",
        section=_SECTION,
        reading=LITERAL,
        formula=f"|d^3/dt^3 1/2 ||softmax(s + t v) - f||^2| <= {_THIRD} ||v||^3",
        strength=Strength.UPPER,
        margin=_third,
        supply=_ROWS,
        uses=("new:row_hessian",),
        attains=_two_tokens,
        wrong=(Wrong("0.566", lambda q: _third(q, 0.566)),),
        conjecture=True,
        source="new: numerical",
        note=f"{_SEARCHED}; it is 3 <D1, D2> + <softmax - f, D3>; each factor has a sharp bound, but they are not"
        " attained together",
    ),
)
