"""Questions of the checker on both sides of their edges, exactly: domains, and what is added twice."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from proofs_check.checker.reject import GaveUp, Reject
from proofs_check.checker.statements import returned_mask
from proofs_check.checker.statements.spurious_minimum import _require_domain

CERTIFICATES = Path(__file__).resolve().parents[2] / "proofs_check" / "certificates"
TINY = Fraction(1, 10**30)


def accepted(M: list[list[Fraction]], radius: Fraction, domain: str) -> bool:
    try:
        _require_domain(M, radius, domain, len(M))
    except Reject:
        return False
    return True


@pytest.mark.parametrize(("more", "inside"), [(-TINY, True), (Fraction(0), False), (TINY, False)])
def test_a_ball_around_the_centre_lies_inside_the_ball_of_radius_d(more: Fraction, inside: bool) -> None:
    """||m|| + r < d: 6/5, 8/5 is of length 2, and so is the diagonal of a 2 x 2 mask of ones."""
    radius = Fraction(1, 7)
    length = 2 - radius + more
    assert accepted([[length * Fraction(3, 5), length * Fraction(4, 5)], [Fraction(0)] * 2], radius, "ball") is inside


@pytest.mark.parametrize("place", [(0, 0), (1, 0), (1, 1)])
@pytest.mark.parametrize("below", [True, False])
@pytest.mark.parametrize(("more", "inside"), [(TINY, True), (Fraction(0), False), (-TINY, False)])
def test_a_ball_lies_inside_the_open_box(place: tuple[int, int], below: bool, more: Fraction, inside: bool) -> None:
    radius = Fraction(1, 7)
    M = [[Fraction(1, 2)] * 2 for _ in range(2)]
    M[place[0]][place[1]] = radius + more if below else 1 - radius - more
    assert accepted(M, radius, "box") is inside


@pytest.mark.parametrize(("share", "accepts"), [(Fraction(2, 5), True), (Fraction(3, 5), False)])
def test_a_gap_loses_the_drift_at_both_of_its_ends(
    share: Fraction, accepts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drift of two fifths of the gap leaves a fifth of it, one of three fifths leaves nothing certain."""
    document = json.loads((CERTIFICATES / "returned_mask-lambda-1e-1.json").read_text("utf-8"))
    gap = Fraction(1, 100)
    document["quantities"]["gap"] = [str(-3 * gap), str(3 * gap)]
    point = [[gap * Fraction(entry) for entry in row] for row in document["inputs"]["M"]]
    monkeypatch.setattr(returned_mask, "_walk", lambda *_: (point, share * gap))
    if accepts:
        assert returned_mask.check(document).startswith("instance")
    else:
        with pytest.raises(GaveUp, match="gap"):
            returned_mask.check(document)
