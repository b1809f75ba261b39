"""Both sides of the guarantees' relations, written out again: every term of a promise is there, with its power."""

import numpy as np
import pytest

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.cases.relation import Relation, kind_of
from attnprune_verify.claims.statements import guarantees, promises
from attnprune_verify.model import loss

N, D, LAM = 3, 2, 0.07
X, W = np.array([[1.0, 0.0], [0.5, 1.0], [1.0, -1.0]]), np.array([[1.0, -1.5], [0.5, 2.0]])
M = np.array([[[0.2, 0.9], [-0.4, 0.3]], [[0.7, 0.1], [0.5, -0.2]]])
ETA, MU, XI = 0.3, 0.2, 0.05


def at(mask: np.ndarray) -> Quantities:
    return Quantities(Case({"X": X, "W": W, "M": mask, "lam": LAM, "mask": "causal"}, ""))


def attention_loss(mask: np.ndarray) -> float:
    return float(loss(mask, X, W, 0.0, "causal"))


def sides(relations: list[Relation]) -> dict[str, list[tuple[str, float, float]]]:
    found: dict[str, list[tuple[str, float, float]]] = {}
    for kind, lhs, rhs, part, _ in relations:
        found.setdefault(kind_of(part), []).append((kind, float(lhs), float(rhs)))
    return found


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_the_guarantee_of_the_repaired_theorem(share: float) -> None:
    """min_t L_attn(M_t)/n^2 + lam^2 ||M_t||^2/(mu n^2) <= (xi + eps)/2 with the eps that T = 2 steps reach."""
    ((kind, lhs, rhs),) = sides(guarantees._guaranteed(at(M[0]), ETA, [at(one) for one in M], MU, XI, share))[""]
    values = [attention_loss(one) / N**2 + LAM**2 * np.sum(one**2) / (MU * N**2) for one in M]
    assert (kind, lhs) == ("<=", pytest.approx(min(values))) and min(map(attention_loss, M)) > 1e-2
    assert rhs == pytest.approx((XI + share * 2 * LAM * D**2 / (ETA * MU * 2 * N**2)) / 2)


def test_the_promises_of_the_repaired_theorem_as_check_prints_them() -> None:
    """delta below every F(M_t); the promise after one step and after two, times mu; and the left side at M = 1."""
    numbers = {"mu": MU, "xi": XI, "delta": 0.01, "T": 40.0, "at_ones": 1.5}
    points = [at(one) for one in (*M, np.ones((D, D)))]
    found = sides(promises._repaired(points[0], points, numbers))
    lowest = min(float(np.min(point.F[np.tri(N, dtype=bool)])) for point in points)
    assert found["delta"] == [(">=", pytest.approx(lowest), 0.01)]
    sizes = [MU * attention_loss(one) + LAM**2 * np.sum(one**2) for one in M]
    goals = [(XI + 0.02 / N * 40.0 / t) * MU * N**2 / 2 for t in (1, 2)]
    assert found["repaired-theorem"] == [
        ("<=", pytest.approx(min(sizes[:t])), pytest.approx(goal)) for t, goal in zip((1, 2), goals, strict=True)
    ]
    assert found["at M = 1"] == [(">=", pytest.approx(1.5 * MU * N**2), pytest.approx(LAM**2 * D**2))]
    assert promises._repaired(points[0], points, None) == []


def test_the_floor_of_practical_is_that_of_every_pair_of_tokens() -> None:
    found = sides(guarantees._floor(at(M[0])))[""]
    rows = [(i, j) for i in range(N) for j in range(i + 1)]
    assert len(found) == len(rows)
    for (kind, lhs, rhs), (i, j) in zip(found, rows, strict=True):
        pulls = [np.linalg.norm(W * np.outer(X[i], X[k] - X[j])) for k in range(i + 1)]
        assert (kind, lhs) == (">=", pytest.approx(float(at(M[0]).F[i, j])))
        assert rhs == pytest.approx(1 / np.sum(np.exp(D * np.array(pulls))))
