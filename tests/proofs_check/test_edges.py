"""Questions of the checker on both sides of their edges, exactly: domains, and what is added twice."""

import json
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path

import pytest

from proofs_check.checker.reject import GaveUp, Reject
from proofs_check.checker.statements import best_mask, returned_mask, stationary_point
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


@pytest.mark.parametrize("name", ["map_sq", "row_sq"])
def test_squared_norms_of_a_stationary_point_have_positive_ends(name: str) -> None:
    document = json.loads((CERTIFICATES / "stationary_point-two-tokens-range.json").read_text("utf-8"))
    document["quantities"][name][0] = "0"
    with pytest.raises(Reject, match="must be > 0"):
        stationary_point.check(document)


@pytest.mark.parametrize(
    ("share", "said"), [("1/10", "accepted"), ("99/1000", "must lie"), ("1/1", "accepted"), ("1001/1000", "must lie")]
)
def test_a_share_of_the_best_mask_lies_between_a_tenth_and_1(
    share: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is accepted goes on to its leaves, which are not read."""
    document = json.loads((CERTIFICATES / "best_mask-four-features.json").read_text("utf-8"))
    document["inputs"]["share"] = share

    def unread(*_: object) -> None:
        raise GaveUp("accepted")

    monkeypatch.setattr(best_mask, "read_leaves", unread)
    with pytest.raises((GaveUp, Reject), match=said):
        best_mask.check(document)


ROOTS = """
let () =
  List.iter (fun bits ->
      Real.bits := bits;
      for k = 1 to 400 do
        let x = { Real.m = Z.of_int k; e = -3 } in
        let square upwards = let r = Real.root ~upwards x in Real.times r r in
        assert (Real.order (square false) x <= 0 && Real.order x (square true) <= 0)
      done)
    [ 8; 24; 64 ];
  print_string "roots"
"""


@pytest.mark.skipif(shutil.which("ocamlfind") is None, reason="the second checker needs OCaml")
def test_roots_of_the_second_checker_are_rounded_outwards(tmp_path: Path) -> None:
    """The square of the lower root is not above the number, that of the upper one not below."""
    sources = ["refuse.ml", "exact.ml", "real.ml"]
    for name in sources:
        shutil.copy(CERTIFICATES.parent / "second" / name, tmp_path)
    (tmp_path / "roots.ml").write_text(ROOTS, encoding="utf-8")
    command = [
        "ocamlfind",
        "ocamlc",
        "-w",
        "-a",
        "-package",
        "zarith,unix",
        "-linkpkg",
        *sources,
        "roots.ml",
        "-o",
        "roots",
    ]
    subprocess.run([*command, "-o", "roots"], cwd=tmp_path, check=True, capture_output=True)
    assert subprocess.run([tmp_path / "roots"], capture_output=True, text=True, check=True).stdout == "roots"
