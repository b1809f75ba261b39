"""The claims' own evaluation of the definitions against the oracles, in floats and in balls."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb

from attnprune_verify.claims import excerpts
from attnprune_verify.claims.cases import eigenvalues as enclosing
from attnprune_verify.claims.cases.batch import problem
from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.eigenvalues import eigenvalues, extreme_eigenvalues, positive_definite, spectral_norm
from attnprune_verify.claims.cases.quantities import Quantities, variance
from attnprune_verify.claims.cases.trajectory import descend
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.model import gradient, hessian_vector_product, loss
from attnprune_verify.oracle import ball
from attnprune_verify.theory.numbers.arithmetic import BALL, EXACT, FLOAT, Undecidable, working_precision

RNG = np.random.default_rng(3)
CASES = [
    Case(
        {
            "X": RNG.standard_normal((n, d)),
            "W": RNG.standard_normal((d, d)),
            "M": RNG.uniform(-0.3, 1.2, (d, d)),
            "lam": 0.3,
            "mask": mask,
        },
        "",
    )
    for n, d, mask in ((3, 2, None), (4, 3, "causal"), (3, 3, np.array([[1, 0, 1], [0, 1, 0], [1, 1, 1]], bool)))
]


@pytest.mark.parametrize("case", CASES)
def test_gradient_loss_and_curvature(case: Case) -> None:
    values = [case[name] for name in ("X", "W", "lam", "mask")]
    q = Quantities(case)
    assert q.L == pytest.approx(loss(case["M"], *values), rel=1e-12)
    np.testing.assert_allclose(q.gradient, gradient(case["M"], *values), rtol=1e-10)
    V = np.arange(q.d**2, dtype=float).reshape(q.d, q.d)
    with_lam = (q.curvature @ V.ravel()).reshape(q.d, q.d) + case["lam"] * V
    np.testing.assert_allclose(with_lam, hessian_vector_product(case["M"], V, *values), rtol=1e-9, atol=1e-12)


def test_what_no_mask_changes_is_computed_once_on_a_whole_descent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work is counted: a softmax a step and sample, one dense one a sample, and one norm of the operator."""
    softmaxes, norms = [], []
    softmax, PiA = Quantities._softmax, Quantities.PiA.compute  # type: ignore[attr-defined]  # of the descriptor
    monkeypatch.setattr(Quantities, "_softmax", lambda q, logits: softmaxes.append(1) or softmax(q, logits))
    monkeypatch.setattr(Quantities.PiA, "compute", lambda q: norms.append(1) or PiA(q))
    whole = problem(Quantities(CASES[1].but(others=np.stack([CASES[1]["X"][::-1]]))))
    points = list(descend(whole, lambda q: 1 / (q.K + 1), steps=5))
    assert len([point.L for point in points]) == 6 and len({id(point.K) for point in points}) == 1
    assert len(softmaxes) == 2 * (6 + 1) and len(norms) == 2
    np.testing.assert_array_equal(points[-1].gradient, whole.at(points[-1].M).gradient)


@pytest.mark.parametrize("case", CASES)
def test_balls_meet_the_oracles_enclosure(case: Case) -> None:
    enclosure = ball.gradient(case["M"], case["X"], case["W"], case["lam"], case["mask"])
    with working_precision():
        ours = Quantities(case, BALL).gradient
        for index in np.ndindex(ours.shape):
            low, high = arb(float(enclosure.lower[index])), arb(float(enclosure.upper[index]))
            assert not ours[index] < low and not ours[index] > high


@pytest.mark.parametrize("case", CASES)
def test_derivatives_agree_between_complex_steps_and_series(case: Case) -> None:
    V = RNG.standard_normal(case["M"].shape)
    floats = Quantities(case).directional(V, lambda q: q.F)
    with working_precision():
        q = Quantities(case, BALL)
        balls = q.directional(q.number(V), lambda m: m.F)
        np.testing.assert_allclose(np.array(balls, dtype=float), floats, rtol=1e-10, atol=1e-14)


def test_K_and_eigenvalues_are_enclosed() -> None:
    with working_precision():
        for case in CASES:
            K = Quantities(case, BALL).K
            assert float(K.rad()) < 1e-10 * float(K)
            assert abs(float(K) - Quantities(case).K) <= 1e-12 * Quantities(case).K
        exact = BALL.lift(np.array([[2.0, 1.0], [1.0, 2.0]]))  # eigenvalues 1 and 3, exactly
        least, largest = extreme_eigenvalues(exact, BALL)
        assert least.contains(1) and largest.contains(3)
        multiple = BALL.lift(np.eye(4) * 5)
        assert spectral_norm(multiple).contains(5)
        rank_one = BALL.lift(np.ones((3, 3)))
        assert spectral_norm(rank_one).contains(3)


def test_beta_is_only_claimed_where_it_is_certain() -> None:
    tall = Case({"X": np.ones((3, 2)), "W": np.eye(2), "M": np.eye(2), "lam": 0.0, "mask": None}, "")
    assert Quantities(tall).beta == 0.0
    for case in CASES[2:]:
        beta = Quantities(case).beta
        least = np.linalg.eigvalsh(case["X"] @ case["X"].T)[0]
        assert 0 < beta < least <= beta * 1.01
        with working_precision():
            assert float(Quantities(case, BALL).beta) == beta


def test_exact_arithmetic_refuses_what_it_cannot_do() -> None:
    q = Quantities(CASES[0], EXACT)
    with pytest.raises(Undecidable):
        _ = q.F
    assert EXACT.sqrt(EXACT.lift(2.25)) == 1.5
    with pytest.raises(Undecidable):
        EXACT.sqrt(EXACT.lift(2))
    assert FLOAT.log(1.0) == 0.0


def test_variance_in_floats_and_in_balls_with_entries_that_agree() -> None:
    s, v = np.array([0.5, 0.25, 0.25]), np.array([2.0, 2.0, -1.0])
    assert variance(s, v) == s @ v**2 - (s @ v) ** 2 == 1.6875
    found = variance(BALL.lift(s), BALL.lift(v))
    assert found.contains(arb(1.6875)) and found.rad() < 1e-10


def test_an_excerpt_of_the_paper_is_as_it_was_taken(monkeypatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    taken = Path(excerpts.__file__).parent / "excerpts.json"
    document = json.loads(taken.read_text("utf-8"))
    carried = json.loads((taken.parent / "evidence_index.json").read_text("utf-8"))
    assert document["paper_sha256"] == carried["paper_sha256"]
    (tmp_path / "excerpts.json").write_text(taken.read_text("utf-8").replace("sec:exp:real", "sec:exp:other"))
    monkeypatch.setattr(excerpts.resources, "files", lambda name: tmp_path)
    with pytest.raises(InvalidInstance, match="was changed since"):
        excerpts.excerpt("exp:baselines_reference")


@pytest.mark.parametrize("arithmetic", [FLOAT, EXACT, BALL])
@pytest.mark.parametrize(
    ("rows", "least"),
    [
        ([[1, 2], [2, 1]], -1.0),
        ([[2, 1], [1, 2]], 1.0),
        ([[4, 2, 0], [2, 4, 2], [0, 2, 4]], 4 - 8**0.5),
        ([[1, 1, 0], [1, 1, 1], [0, 1, 1]], 1 - 2**0.5),
    ],
)
def test_pivots_say_whether_a_matrix_less_a_shift_is_positive_definite(
    arithmetic: Any, rows: Any, least: float
) -> None:
    """Just below the least eigenvalue it is, just above it is not."""
    gram = arithmetic.lift(np.array(rows, dtype=float))
    with working_precision():
        assert positive_definite(gram, arithmetic.lift(least - 1e-6))
        assert not positive_definite(gram, arithmetic.lift(least + 1e-6))


@pytest.mark.parametrize("turn", [0.0, 0.02])
@pytest.mark.parametrize("size", [0.9, 1.0, 1.1])
def test_eigenvalues_are_enclosed_whatever_the_vectors(
    size: float, turn: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing rests on the vectors but the width: turned, too long and too short ones enclose the same numbers."""
    S = np.random.default_rng(0).standard_normal((3, 3))
    S = S + S.T
    values, vectors = np.linalg.eigh(S)
    around = np.array([[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]])
    monkeypatch.setattr(enclosing, "_near_eigenvectors", lambda symmetric: BALL.lift(size * vectors @ around))
    with working_precision():
        found = enclosing.eigenvalues(BALL.lift(S))
        assert all((one + arb(0, 1e-14)).contains(arb(value)) for one, value in zip(found, values[::-1], strict=True))


def test_eigenvalues_of_wide_balls_hold_every_matrix_in_them() -> None:
    """The largest of 1 +- 0.9 and 1.2 +- 0.01 is 1.9 as well as 1.21: order by midpoints alone would miss it."""
    with working_precision():
        wide = np.diag([arb(1, 0.9), arb(1.2, 0.01)]) + BALL.lift(np.zeros((2, 2)))
        largest, least = enclosing.eigenvalues(wide)
        for first in (0.11, 1.0, 1.89):
            assert largest.contains(arb(max(first, 1.2))) and least.contains(arb(min(first, 1.2)))


@pytest.mark.parametrize(
    "diagonal",
    [("1", "1.00000000000000000086736173798840354720596224069595336914"), ("1e-350", "1e-330", "1")],
    ids=["equal as floats", "0 as floats"],
)
def test_eigenvalues_are_enclosed_in_their_order_though_floats_cannot_tell_them_apart(diagonal):
    with working_precision():
        entries = [arb(one) for one in diagonal]
        matrix = np.array(
            [[entries[i] if i == j else arb(0) for j in range(len(entries))] for i in range(len(entries))]
        )
        found = eigenvalues(matrix)
        assert all(ball.contains(entry) for ball, entry in zip(found, reversed(entries), strict=True))
