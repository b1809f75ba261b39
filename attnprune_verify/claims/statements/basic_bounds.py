"""Bounds on the basic functions: the paper's, which hold, and sharp ones that are attained."""

from collections.abc import Callable, Iterator

import numpy as np

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_most, less
from attnprune_verify.claims.cases.supply import Instances
from attnprune_verify.claims.core import Claim, Kind, Margin, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK, LITERAL, mask_in_box
from attnprune_verify.theory.formulas import sharp

_SECTION = "E Bounds for Basic Functions"
_ANY = Instances("any")
_P_STAR = "8 sqrt(2)/27"


def _flipped(case_scale: float = 40.0, M: float = -1.0, n: int = 2) -> Iterator[Case]:
    """X = I_n and large logits: f is one-hot, and M = -1 makes f(M) one-hot in the next place."""
    W = case_scale * (np.eye(n) - np.roll(np.eye(n), 1, axis=1))
    values = {"X": np.eye(n), "W": W, "M": np.full((n, n), M), "lam": 0.0, "mask": None}
    yield Case(values, f"X = I_{n}, |W| = {case_scale}, M = {M:.3g}")


def _all_flipped() -> Iterator[Case]:
    """Two, three and five rows, and three with a choice in two of them: the bounds grow with n_e as stated."""
    for n in (2, 3, 5):
        yield from _flipped(n=n)
    (case,) = _flipped(n=3)
    yield case.but("X = I_3, two rows with a choice", mask=np.array([[1, 1, 1], [0, 1, 1], [0, 0, 1]], dtype=bool))


def _two_thirds() -> Iterator[Case]:
    """f one-hot, f(M) = (2/3, 1/3) with the larger entry where f is 0: the maximiser of ||p||."""
    yield from _flipped(40.0, -float(np.log(2.0)) / 80.0)


def _centred_tokens() -> Iterator[Case]:
    """Uniform rows; and tokens of mean 0, of which centring takes nothing away."""
    yield from _flipped(1.0, 0.0)
    values = {"X": np.array([[1.0], [-1.0]]), "W": np.ones((1, 1)), "M": np.zeros((1, 1)), "lam": 0.0, "mask": None}
    yield Case(values, "X = (1, -1), M = 0")


def _one_row() -> Iterator[Case]:
    """One row with a choice, of one feature: G is K times a row of p; f(M) = (1/3, 2/3), and rows nearly uniform."""
    mask = np.array([[1, 1], [0, 1]], dtype=bool)
    for w, M in ((40.0, -float(np.log(2.0)) / 40.0), (1e-3, 0.9)):
        values = {"X": np.array([[1.0], [0.0]]), "W": np.array([[w]]), "M": np.array([[M]]), "lam": 0.0, "mask": mask}
        yield Case(values, f"one row, one feature, W = {w}, M = {M:.3g}")


def _diagonal(q: Quantities) -> Lifted:
    """<c_i, f(M)_i>, the diagonal of diag((c o f(M)) 1)."""
    return q.p1.sum(axis=1)


def _root(q: Quantities, value: int) -> Lifted:
    return q.sqrt(q.number(float(value)))


def _parts(q: Quantities, scale: float = 1.0) -> list[Relation]:
    """The ten parts of lem:bound_basic_func."""
    root, R = _root(q, q.n), q.R
    cubes = R * R * R
    direct = q.largest(np.abs(q.F)) * q.w_max * q.largest(np.abs(q.X)) * q.largest(np.abs(q.X))
    mean = q.largest(np.abs(q.F @ q.X)) * q.w_max * q.largest(np.abs(q.X)) * q.largest(np.abs(q.F))
    rows = q.largest([q.norm(row) for row in q.F])
    shrink = q.number(scale)
    return [
        at_most(q.norm(q.F), root * shrink, "Part 1"),
        at_most(q.norm(q.c), root * 2 * shrink, "Part 2"),
        at_most(q.norm(q.p1), root * 2 * shrink, "Part 3"),
        at_most(q.largest(np.abs(q.F)), q.number(1.0) * shrink, "Part 4"),
        at_most(q.w_max, R * shrink, "Part 5"),
        at_most(q.largest(np.abs(q.X)), R * shrink, "Part 6"),
        at_most(rows, q.number(1.0) * shrink, "Part 7"),
        at_most(direct, cubes * shrink, "Part 8"),
        at_most(mean, cubes * shrink, "Part 9"),
        at_most(q.norm(_diagonal(q)), q.number(2.0 * q.n) * shrink, "Part 10"),
    ]


def _jacobian(q: Quantities) -> Lifted:
    """||dF/dM||_F: the derivative of every entry of F in every entry of M, by automatic differentiation."""
    total = q.number(0.0)
    for i in range(q.d):
        for j in range(q.d):
            total = total + q.square(q.directional(q.unit(i, j), lambda m: m.F))
    return q.sqrt(total)


def _by_entries(q: Quantities) -> Lifted:
    """(sum W_ab^2 ||X_a||^2 ||X_b||^2)^{1/2} over columns a, b of X."""
    columns = (q.X * q.X).sum(axis=0)
    return q.sqrt((q.W * q.W * columns[:, None] * columns[None, :]).sum())


def _jacobian_bounds(q: Quantities, half: float = 0.5) -> list[Relation]:
    norm = q.norm(q.PiA)
    return [
        at_most(_jacobian(q), norm * q.number(half), "||dF||_F <= ||Pi A||_F / 2"),
        at_most(norm, _by_entries(q), "||Pi A||_F <= (sum W^2 ||X_a||^2 ||X_b||^2)^{1/2}"),
    ]


def _p_limit(q: Quantities) -> Lifted:
    return q.of(sharp.P_star) * _root(q, q.n_e)


def _inner(q: Quantities, low: float = 0.25) -> list[Relation]:
    """-(m-1)/(4m) <= <c_i, f(M)_i> <= 1 for every row."""
    found = []
    for i in range(q.n):
        m, value = int(q.row_sizes[i]), (q.c[i] * q.F[i]).sum()
        found.append(at_most(-value, q.number(low * (m - 1) / m), f"row {i}, lower"))
        found.append(at_most(value, q.number(1.0), f"row {i}, upper"))
    return found


def _smallest_inner() -> Iterator[Case]:
    """f = e_1, f(M) = (3/4, 1/4): <c, f(M)> = -1/8 = -(m-1)/(4m) at m = 2."""
    yield from _flipped(40.0, float(np.log(3.0)) / 80.0)


def _bound(
    id_: str,
    title: str,
    formula: str,
    margin: Margin,
    wrong: tuple[Wrong, ...],
    *,
    repairs: str | None = None,
    attains: Callable[[], Iterator[Case]] | None = None,
    uses: tuple[str, ...] = ("def:soft_prob_func",),
    source: str = "new",
    section: str = _SECTION,
) -> Claim:
    return Claim(
        id=id_,
        kind=Kind.LEMMA,
        title=title,
        section=section,
        reading=ANY_MASK,
        formula=formula,
        strength=Strength.TIGHT if attains else Strength.UPPER,
        margin=margin,
        supply=_ANY,
        uses=uses,
        wrong=wrong,
        attains=attains,
        repairs=repairs,
        source=source,
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="asp:bound_parameters",
        kind=Kind.DEFINITION,
        title="Bounded parameters",
        section=_SECTION,
        reading=LITERAL,
        formula="1 < R, ||X||_F <= R, ||W||_F <= R",
        strength=Strength.UPPER,
        margin=lambda q: [less(q.number(1.0), q.R), at_most(q.norm(q.X), q.R), at_most(q.norm(q.W), q.R)],
        supply=_ANY,
        wrong=(Wrong("R is at most sqrt(d), a constant in n", lambda q: at_most(q.norm(q.X), _root(q, q.d))),),
        tags=frozenset({"tautology"}),
        note="says nothing by itself, as such an R always exists; 'some fixed constant' hides that it grows like"
        " ||X||_F, about sqrt(nd) on Gaussian tokens",
    ),
    Claim(
        id="lem:M_bounds",
        kind=Kind.LEMMA,
        title="Bounds for M and M_c",
        section=_SECTION,
        reading=LITERAL,
        formula="0 <= M_ij <= 1 implies ||M||_F <= d; ||M_c||_F <= n",
        strength=Strength.UPPER,
        margin=lambda q: [
            at_most(q.square(q.M), q.number(float(q.d**2)), "M"),
            at_most(q.number(float(q.allowed.sum())), q.number(float(q.n**2)), "M_c"),
        ],
        supply=Instances("causal", in_box=True, free=("M",)),
        hypotheses=(mask_in_box("causal"),),
        uses=("def:mask",),
        wrong=(Wrong("||M||_F^2 <= d", lambda q: at_most(q.square(q.M), q.number(float(q.d)))),),
        note="the half about M_c counts n(n + 1)/2 entries and says no more;"
        " gradient descent leaves the box; there ||M||_F <= d still holds (new:confinement)",
    ),
    Claim(
        id="lem:bound_basic_func",
        kind=Kind.LEMMA,
        title="Bounds for basic functions",
        section=_SECTION,
        reading=ANY_MASK,
        formula="||f(M)||_F <= sqrt(n), ||c||_F <= 2 sqrt(n), ||c o f(M)||_F <= 2 sqrt(n), max|f(M)| <= 1, max|W| <= R,"
        " max|X| <= R, max_i ||f(M)_i|| <= 1, max|f(M)| max|W| max|X|^2 <= R^3,"
        " max|f(M) X| max|W| max|X| max|f(M)| <= R^3, ||diag((c o f(M)) 1)||_F <= 2 n",
        strength=Strength.UPPER,
        margin=_parts,
        supply=_ANY,
        uses=("asp:bound_parameters", "def:one_unit_loss", "def:soft_prob_func", "fac:algebra", "fac:norm_bound"),
        wrong=(Wrong("all ten bounds halved", lambda q: _parts(q, 0.5)),),
        repaired_by="fix:bound_basic_func",
        note="the proof of Part 1 has f <= f^2 reversed; Parts 2, 3, 10 are loose by sqrt 2, 2 and 2 sqrt n",
    ),
    _bound(
        "fix:bound_basic_func",
        "Bounds for basic functions, sharp",
        "||c||_F <= sqrt(2 n_e), ||c o f(M)||_F <= sqrt(n_e), ||diag((c o f(M)) 1)||_F <= sqrt(n_e)",
        lambda q: [
            at_most(q.norm(q.c), _root(q, 2 * q.n_e), "c"),
            at_most(q.norm(q.p1), _root(q, q.n_e), "c o f(M)"),
            at_most(q.norm(_diagonal(q)), _root(q, q.n_e), "diagonal"),
        ],
        (
            Wrong("||c||_F <= 1.4 sqrt(n_e)", lambda q: at_most(q.norm(q.c), _root(q, q.n_e) * q.number(1.4))),
            Wrong("||c o f(M)||_F <= 0.9 sqrt(n_e)", lambda q: at_most(q.norm(q.p1), _root(q, q.n_e) * q.number(0.9))),
            Wrong("n_e + 2 in place of 2 n_e", lambda q: at_most(q.norm(q.c), _root(q, q.n_e + 2 if q.n_e > 1 else 2))),
        ),
        repairs="lem:bound_basic_func",
        attains=_all_flipped,
    ),
    _bound(
        "new:residual_inner_product",
        "Range of a row of c against f(M)",
        "-(m_i - 1)/(4 m_i) <= <c_i, f(M)_i> <= 1",
        _inner,
        (Wrong("lower end -0.24 (m-1)/m", lambda q: _inner(q, 0.24)),),
        attains=_smallest_inner,
        uses=("def:one_unit_loss",),
    ),
    _bound(
        "new:bound_p_sharp",
        "Size of p, sharp",
        f"||p||_F <= min({_P_STAR} sqrt(n_e), ||c||_F / 2)",
        lambda q: [
            at_most(q.norm(q.p), _p_limit(q), "absolute"),
            at_most(q.norm(q.p), q.norm(q.c) / 2, "relative to c"),
        ],
        (
            Wrong("0.41 sqrt(n_e)", lambda q: at_most(q.norm(q.p), _root(q, q.n_e) * q.number(0.41))),
            Wrong("||p|| <= 0.45 ||c||", lambda q: at_most(q.norm(q.p), q.norm(q.c) * q.number(0.45))),
        ),
        attains=_two_thirds,
        uses=("def:p",),
    ),
    _bound(
        "new:attention_gradient_sharp",
        "The attention part of the gradient is bounded",
        f"||W o (X^T p X)||_F <= K min({_P_STAR} sqrt(n_e), ||c||_F / 2)",
        lambda q: [
            at_most(q.norm(q.G), q.K * _p_limit(q), "absolute"),
            at_most(q.norm(q.G), q.K * q.norm(q.c) / 2, "relative to c"),
        ],
        (
            Wrong("0.49 K ||c||", lambda q: at_most(q.norm(q.G), q.K * q.norm(q.c) * q.number(0.49))),
            Wrong("0.41 K sqrt(n_e)", lambda q: at_most(q.norm(q.G), q.K * _root(q, q.n_e) * q.number(0.41))),
        ),
        attains=_one_row,
        uses=("new:bound_p_sharp", "thm:mat_view_l"),
    ),
    Claim(
        id="lem:bound_grad_f",
        kind=Kind.LEMMA,
        title="Bound for the gradient of f(M)",
        section=_SECTION,
        reading=ANY_MASK,
        formula="||d vec f(M) / d vec M||_F <= 2 d n R^3",
        strength=Strength.UPPER,
        margin=lambda q: at_most(_jacobian(q), q.R * q.R * q.R * (2 * q.d * q.n)),
        supply=Instances("any", rounds=1),
        uses=("lem:bound_basic_func", "lem:grad_soft_prob"),
        wrong=(Wrong("without R^3, 2 d n / 100", lambda q: at_most(_jacobian(q), q.number(0.02 * q.d * q.n))),),
        repaired_by="fix:bound_grad_f",
        note="the displayed norm lacks the square, and mixes indices and f with f(M)",
    ),
    _bound(
        "fix:bound_grad_f",
        "Bound for the gradient of f(M), by the logits",
        "||dF/dM||_F <= ||Pi A||_F / 2 <= 1/2 (sum_ab W_ab^2 ||(X^T)_a||^2 ||(X^T)_b||^2)^{1/2}",
        _jacobian_bounds,
        (Wrong("0.49 ||Pi A||_F", lambda q: _jacobian_bounds(q, 0.49)),),
        repairs="lem:bound_grad_f",
        attains=_centred_tokens,
        uses=("lem:grad_soft_prob",),
    ),
    Claim(
        id="lem:bound_c",
        kind=Kind.LEMMA,
        title="Bound for c",
        section="G Convergence of Gradient Descent",
        reading=ANY_MASK,
        formula="||c(M)||_F <= 2 sqrt(n)",
        strength=Strength.UPPER,
        margin=lambda q: at_most(q.norm(q.c), _root(q, q.n) * 2),
        supply=_ANY,
        uses=("def:one_unit_loss",),
        wrong=(Wrong("||c||_F <= sqrt(n)", lambda q: at_most(q.norm(q.c), _root(q, q.n))),),
        attains=_flipped,
        repaired_by="fix:bound_c",
    ),
    _bound(
        "fix:bound_c",
        "Bound for c, sharp",
        "||c(M)||_F <= sqrt(2 n_e), so that L_attn/n^2 <= n_e/n^2",
        lambda q: at_most(q.L_attn / q.n**2, q.of(sharp.largest_residual, q.n_e, q.n)),
        (Wrong("1.4 sqrt(n_e)", lambda q: at_most(q.norm(q.c), _root(q, q.n_e) * q.number(1.4))),),
        repairs="lem:bound_c",
        attains=_all_flipped,
        uses=("def:one_unit_loss",),
        section="G Convergence of Gradient Descent",
    ),
    Claim(
        id="lem:bound_diag_f",
        kind=Kind.LEMMA,
        title="Bound for the correction term",
        section="G Convergence of Gradient Descent",
        reading=ANY_MASK,
        formula="||diag((c o f(M)) 1) f(M)||_F <= sqrt(n)",
        strength=Strength.TIGHT,
        margin=lambda q: at_most(q.norm(q.p2), _root(q, q.n)),
        supply=_ANY,
        uses=("def:one_unit_loss", "def:soft_prob_func"),
        wrong=(Wrong("0.9 sqrt(n)", lambda q: at_most(q.norm(q.p2), _root(q, q.n) * q.number(0.9))),),
        attains=_flipped,
    ),
)
