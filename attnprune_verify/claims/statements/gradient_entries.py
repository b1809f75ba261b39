"""Derivatives entry by entry, each against automatic differentiation of the definition in ball arithmetic."""

from collections.abc import Callable

from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, equal
from attnprune_verify.claims.cases.supply import Arrays, Instances
from attnprune_verify.claims.core import Claim, Kind, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK, FULL, LITERAL

_SECTION = "C Gradient Calculation"
_ANY = Instances("any", small=True, rounds=1)
_FULL = Instances("full", small=True, rounds=1)
_BOTH = "B1(M)_ijab = c(M)_ij f(M)_ij W_ab X_ia X_jb, B2(M)_ijab = -c(M)_ij f(M)_ij sum_k f(M)_ik W_ab X_ia X_kb"
_Entry = Callable[[Quantities, int, int], Lifted]


def _each_entry(q: Quantities, quantity: Callable[[Quantities], Lifted], formula: _Entry) -> list[Relation]:
    """d quantity / dM_ij for all i, j: differentiated definition against the formula."""
    places = [(i, j) for i in range(q.d) for j in range(q.d)]
    return [equal(q.directional(q.unit(i, j), quantity), formula(q, i, j), f"M_{i}{j}") for i, j in places]


def _logits(q: Quantities, i: int, j: int) -> Lifted:
    """W_ij X_{i0,i} X_{*,j} as an (n, n) table, row i0."""
    return (q.X[:, i][:, None] * q.X[:, j][None, :]) * q.W[i, j]


def _swapped(q: Quantities, i: int, j: int) -> Lifted:
    return (q.X[:, j][:, None] * q.X[:, i][None, :]) * q.W[i, j]


def _softmax(q: Quantities, i: int, j: int) -> Lifted:
    moved = _logits(q, i, j)
    return q.F * moved - q.F * (q.F * moved).sum(axis=1)[:, None]


def _softmax_without_correction(q: Quantities, i: int, j: int) -> Lifted:
    return q.F * _logits(q, i, j)


def _B1(q: Quantities, i: int, j: int) -> Lifted:
    return (q.c * q.F * _logits(q, i, j)).sum()


def _B2(q: Quantities, i: int, j: int) -> Lifted:
    moved = _logits(q, i, j)
    return -(q.c * q.F * (q.F * moved).sum(axis=1)[:, None]).sum()


def _B3(q: Quantities, i: int, j: int) -> Lifted:
    return q.lam * q.M[i, j]


def _regulariser(q: Quantities, factor: int) -> list[Relation]:
    """A quadratic's central difference is exact."""
    found = []
    for i in range(len(q.M)):
        for j in range(len(q.M)):
            step = q.unit(i, j)
            up, down = q.M + step, q.M - step
            slope = q.lam * ((up * up).sum() - (down * down).sum()) / 4
            found.append(equal(slope, q.lam * q.M[i, j] * factor, f"M_{i}{j}"))
    return found


def _lemma(
    id_: str,
    title: str,
    formula: str,
    quantity: Callable[[Quantities], Lifted],
    right: _Entry,
    wrong: _Entry,
    wrong_says: str,
    uses: tuple[str, ...],
    *,
    masked: bool = True,
    note: str = "",
) -> Claim:
    return Claim(
        id=id_,
        kind=Kind.LEMMA,
        title=title,
        section=_SECTION,
        reading=ANY_MASK if masked else FULL,
        formula=formula,
        strength=Strength.IDENTITY,
        arithmetic="ball",
        margin=lambda q: _each_entry(q, quantity, right),
        supply=_ANY if masked else _FULL,
        uses=uses,
        wrong=(Wrong(wrong_says, lambda q: _each_entry(q, quantity, wrong)),),
        note=note,
    )


CLAIMS: tuple[Claim, ...] = (
    _lemma(
        "lem:grad_one_row_mat",
        "Gradient of a row of the logits",
        "d(X (M o W) X^T)_ij/dM_ab = W_ab X_ia X_jb",
        lambda q: q.logits,
        _logits,
        _swapped,
        "i1 and j1 swapped",
        ("fac:indexing", "fac:calculus", "fac:algebra", "lem:mask_hadamard"),
        masked=False,
        note="brackets missing in the first displayed step",
    ),
    _lemma(
        "lem:grad_exp_func",
        "Gradient of a row of u",
        "du(M)_ij/dM_ab = u(M)_ij W_ab X_ia X_jb",
        lambda q: q.ut,
        lambda q, i, j: q.ut * _logits(q, i, j),
        lambda q, i, j: q.u * _logits(q, i, j),
        "u of the dense weight",
        ("def:exp_func", "lem:grad_one_row_mat", "fac:calculus"),
        masked=False,
        note="an underbrace gives X^T the shape d x 1; it is d x n",
    ),
    _lemma(
        "lem:grad_sum",
        "Gradient of the row sums",
        "dalpha(M)_i/dM_ab = sum_j u(M)_ij (M_c)_ij W_ab X_ia X_jb",
        lambda q: q.alphat,
        lambda q, i, j: (q.ut * q.number(q.allowed.astype(float)) * _logits(q, i, j)).sum(axis=1),
        lambda q, i, j: (q.ut * _logits(q, i, j)).sum(axis=1) + q.number(q.allowed.astype(float)).sum(axis=1),
        "the mask forgotten and added",
        ("def:sum_func", "lem:grad_exp_func", "fac:calculus", "fac:algebra"),
    ),
    _lemma(
        "lem:grad_soft_prob",
        "Gradient of the softmax probabilities",
        "df(M)_ij/dM_ab = f(M)_ij W_ab X_ia X_jb - f(M)_ij sum_k f(M)_ik W_ab X_ia X_kb",
        lambda q: q.F,
        _softmax,
        _softmax_without_correction,
        "the softmax correction left out",
        ("def:soft_prob_func", "lem:grad_sum", "lem:grad_exp_func", "fac:calculus"),
    ),
    _lemma(
        "lem:grad_one_unit",
        "Gradient of c",
        "dc(M)_ij/dM_ab = df(M)_ij/dM_ab",
        lambda q: q.c,
        _softmax,
        lambda q, i, j: -_softmax(q, i, j),
        "the sign flipped",
        ("def:one_unit_loss", "lem:grad_soft_prob"),
    ),
    _lemma(
        "lem:grad_rec",
        "Gradient of the reconstruction error",
        f"dL_attn/dM_ab = sum_ij (B1(M)_ijab + B2(M)_ijab), {_BOTH}",
        lambda q: q.L_attn,
        lambda q, i, j: _B1(q, i, j) + _B2(q, i, j),
        lambda q, i, j: _B1(q, i, j),
        "B2 left out",
        ("def:rec_err", "lem:grad_one_unit", "fac:calculus"),
        note="i0, j0 are both quantified and summed over; one displayed line of the proof drops the double sum",
    ),
    Claim(
        id="lem:grad_reg",
        kind=Kind.LEMMA,
        title="Gradient of the regulariser",
        section=_SECTION,
        reading=LITERAL,
        formula="dL_reg/dM = lam M",
        strength=Strength.IDENTITY,
        arithmetic="exact",
        margin=lambda q: _regulariser(q, 1),
        supply=Arrays({"M": "dd", "lam": ""}),
        uses=("def:reg_term", "fac:calculus"),
        wrong=(Wrong("2 lam M", lambda q: _regulariser(q, 2)),),
    ),
    _lemma(
        "lem:grad_loss_func",
        "Gradient of the loss, entry by entry",
        f"dL/dM_ab = sum_ij (B1(M)_ijab + B2(M)_ijab) + B3(M)_ab, {_BOTH}, B3(M)_ab = lam M_ab",
        lambda q: q.L_attn + q.lam * (q.M * q.M).sum() / 2,
        lambda q, i, j: _B1(q, i, j) + _B2(q, i, j) + _B3(q, i, j),
        lambda q, i, j: _B1(q, i, j) + _B2(q, i, j) + _B3(q, i, j) * 2,
        "B3 doubled",
        ("def:loss_func", "lem:grad_rec", "lem:grad_reg"),
    ),
)
