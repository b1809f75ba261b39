"""Each question of the second checker is needed: switched off, some trap of the corpus notices."""

import pytest

from proofs_check import both
from tests.proofs_check.ocaml_questions import Numbered

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(both.missing_tool() is not None, reason=f"needs {both.missing_tool()}"),
]
UNNOTICED = {
    "bounds.ml: the floor is positive": "true of every finite instance",
    "convergence.ml: the proven Lipschitz constant is at most the paper's": "true of every R above both norms",
    'convergence.ml: if s.n <> 2 then reject "this refutation is for n = 2";':
        "no trap gets so far: with another n the pivots are refused",
    "convergence.ml: ||M_s||_F <= d for every s <= t": "true of every descent with eta below 1/K (new:confinement)",
    'exact.ml: if Q.sign b = 0 then reject "a division by 0 is needed";':
        "no trap gets so far: every divisor of a statement is asked for before",
    'gap.ml: if Q.sign (Real.upper x) <= 0 then reject "the logarithm of a number that is not positive is needed";':
        "of positive inputs alone",
    'json.ml: if String.length text > most_bytes then reject "a certificate is at most %d bytes" most_bytes;':
        "test_second_checker.py; a trap would be larger than all others",
    'real.ml: if Q.sign (upper x) < 0 then reject "the square root of a negative number is needed";':
        "roots of sums of squares alone are taken",
    "remark.ml: lhs>rhs": "true of positive inputs",
    "spurious.ml: lhs>rhs": "no trap gets so far: the gradient of such an instance is refused",
    'thresholds.ml: if not (Array.for_all holds wanted) then reject "not true at some ratio";':
        "true of every stable order",
}  # fmt: skip
"""Questions that no trap needs, and why."""


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Numbered:
    return Numbered(tmp_path_factory.mktemp("numbered") / "second")


def test_the_questions_are_found(numbered: Numbered) -> None:
    assert len(numbered.questions) > 120


def test_numbers_change_no_answer(numbered: Numbered) -> None:
    files = numbered.traps[::10]
    with both.SecondChecker(both.build()) as plain:
        assert numbered.reasons(files) == {file.stem: plain.judge(file.read_bytes()).reason for file in files}


def test_each_question_is_noticed(numbered: Numbered) -> None:
    assert {*numbered.unnoticed()} == UNNOTICED.keys()
