"""The replayed steps come out as recorded, and a wrong formula would not pass them."""

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

from proofs_check.steps import exact
from proofs_check.steps.instance import StepInstance, instance
from proofs_check.steps.record import FAILS, HOLDS, NOT_CHECKED, step
from proofs_check.steps.table import PROOFS, replay

ROOT = Path(__file__).resolve().parents[2]
Q = Fraction


@pytest.mark.parametrize("slug", PROOFS)
def test_steps_come_out_as_recorded(slug: str) -> None:
    label, steps, as_recorded = replay(slug)
    assert as_recorded
    assert steps and re.sub("[^a-z0-9]", "_", label.lower()) == slug
    assert len({found.label for found in steps}) == len(steps)
    assert all(found.status in (HOLDS, FAILS) for found in steps)
    assert all(found.witness for found in steps if found.status == FAILS)


def test_every_proof_file_is_in_the_table() -> None:
    helpers = {"__init__", "__main__", "record", "exact", "instance", "symbols", "table", "by_hand"}
    files = {path.stem for path in (ROOT / "proofs_check" / "steps").glob("*.py")} - helpers
    assert files == set(PROOFS)


def test_the_known_failures_are_found_with_their_instances() -> None:
    slugs = ("lem_bound_basic_func", "lem_lower_bound_b_plus_m", "lem_pl_ineq", "thm_our_convergence")
    failing = {found.label: found for slug in slugs for found in replay(slug)[1] if found.status == FAILS}
    assert "F_ij = 1/2 > 1/4" in failing["part 1, reason"].witness
    assert "radicand -6" in failing["part 2, 1"].witness
    assert "1/57600 < 1/720" in failing["second display, conclusion"].witness
    assert "certificates/our_convergence-refutation-from-zeros.json" in failing["conclusion"].witness


def test_no_case_is_not_a_check() -> None:
    assert step("a", "b", []).status == NOT_CHECKED
    assert step("a", "b", [("first", True), ("second", False), ("third", False)]).witness == "second"


WRONG = {
    "transposed p": ("p", property(lambda x: exact.transpose(exact.minus(x.p1, x.p2))), "thm_mat_view_l"),
    "p without p_2": ("p", property(lambda x: x.p1), "lem_lower_bound_p"),
    "p_2 with the dense softmax": (
        "p2",
        property(lambda x: exact.times(exact.diag(exact.row_sums(x.p1)), x.f)),
        "lem_mat_view_b2",
    ),
    "B_2 with the wrong sign": (
        "B2",
        lambda x, i, j, a, b: x.c[i][j] * x.F[i][j] * exact.dot(x.F[i], x.k(i, a, b)),
        "lem_grad_rec",
    ),
    "c with the wrong sign": ("c", property(lambda x: exact.minus(x.f, x.F)), "lem_grad_one_unit"),
    "softmax over columns": (
        "F",
        property(lambda x: exact.transpose([[e / sum(r) for e in r] for r in exact.transpose(x.u_tilde)])),
        "lem_grad_soft_prob",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_formula_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attribute, formula, slug = WRONG[name]
    monkeypatch.setattr(StepInstance, attribute, formula)
    assert not replay(slug)[2]


def test_root_comparison_is_exact() -> None:
    assert exact.root_at_most_sum(Q(9), Q(1), Q(4))  # 3 <= 1 + 2, attained
    assert not exact.root_at_most_sum(Q(9) + Q(1, 10**30), Q(1), Q(4))


def test_semidefiniteness_is_exact() -> None:
    assert exact.semidefinite([[Q(1), Q(1)], [Q(1), Q(1)]])
    assert not exact.semidefinite([[Q(1), Q(1)], [Q(1), Q(1) - Q(1, 10**30)]])
    assert not exact.semidefinite([[Q(0), Q(1)], [Q(1), Q(5)]])


def test_the_quotient_rule_agrees_with_a_difference_quotient() -> None:
    """dF against (F(u + h du) - F(u)) / h, whose error is proportional to h."""
    x = instance(3, 3, 2, "causal")
    for i in range(3):
        kept = [a * b for a, b in zip(x.u_tilde[i], x.Mc[i], strict=True)]
        errors = []
        for h in (Q(1, 10**6), Q(1, 10**7)):
            moved = [a * (1 + h * k) for a, k in zip(kept, x.k(i, 0, 1), strict=True)]
            quotient = [(m / sum(moved) - f) / h for m, f in zip(moved, x.F[i], strict=True)]
            errors.append(max(abs(p - q) for p, q in zip(quotient, x.dF(i, 0, 1), strict=True)))
        assert errors[0] < Q(1, 10**4)
        assert errors[0] == 0 or 9 < errors[0] / errors[1] < 11


def test_gaps_read_by_hand_are_gaps_of_proofs_whose_steps_hold() -> None:
    """They are of replayed proofs, are said in the index, and nothing with one is called sound."""
    from proofs_check.evidence import INDEX
    from proofs_check.steps.by_hand import BY_HAND

    statements = json.loads(INDEX.read_text("utf-8"))["statements"]
    for label, gaps in BY_HAND.items():
        assert statements[label]["proof"] == "gap"
        said = " ".join(one["says"] for one in statements[label]["steps"]["failing"])
        assert all(f"{says} (read by hand)" in said for _, says in gaps)
