"""Claims of a user's own file hold only where their words are what is computed, and the judge can refute them."""

import pytest
from click.testing import CliRunner

from attnprune_verify.claims.core import Verdict
from attnprune_verify.claims.judging.own import claims_of
from attnprune_verify.claims.run import run_own_claims
from attnprune_verify.cli.claims import command
from attnprune_verify.errors import InvalidInstance

LONG = pytest.mark.thorough
MINE = """
from dataclasses import replace
from attnprune_verify.claims.cases.relation import at_most
from attnprune_verify.claims.core import Wrong
from attnprune_verify.claims.statements._template import CLAIMS as template

def bound(q, factor):
    return at_most(q.norm(q.c), q.sqrt(q.number(float(q.n))) * q.number(factor))

mine = replace(template[0], id="new:mine", formula="||c||_F <= 2^{1/2} sqrt(n)", margin=lambda q: bound(q, 2**0.5),
               wrong=(Wrong("a half", lambda q: bound(q, 0.5)),))
CLAIMS = (mine,)
"""


@pytest.mark.parametrize(
    ("change", "verdict", "reason"),
    [
        pytest.param("", Verdict.HOLDS, "no violation", marks=LONG),
        pytest.param(
            "formula='||c||_F <= sqrt(n)/2', margin=lambda q: bound(q, 0.5)",
            Verdict.REFUTED,
            "witness",
            marks=LONG,
        ),
        ("formula='||c||_F <= 0'", Verdict.OPEN, "not what is computed"),
        pytest.param(
            "formula='||c||_F <= 2 sqrt(n)'",
            Verdict.OPEN,
            "not what is computed",
            marks=LONG,
        ),
        pytest.param(
            "formula='||c||_F >= 2^{1/2} sqrt(n)'",
            Verdict.OPEN,
            "not what is computed",
            marks=LONG,
        ),
        pytest.param("formula='||zeta||_F <= sqrt(n)'", Verdict.OPEN, "cannot be read back", marks=LONG),
        ("uses=('lem:none',)", Verdict.OPEN, "uses must name known statements; lem:none"),
        ("wrong=()", Verdict.OPEN, "wrong must have"),
        pytest.param(
            "wrong=(Wrong('true', lambda q: bound(q, 2.0)),)",
            Verdict.OPEN,
            "not refuted: true",
            marks=LONG,
        ),
    ],
)
def test_what_a_verdict_on_a_claim_of_ones_own_rests_on(change, verdict, reason, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(MINE + f"CLAIMS = (replace(mine, {change}),)\n", encoding="utf-8")
    (record,) = run_own_claims(str(path)).records
    assert record.statement is verdict and reason in record.note
    found = CliRunner().invoke(command, [str(path)], standalone_mode=False)
    assert found.return_value == {Verdict.HOLDS: 0, Verdict.REFUTED: 1}.get(verdict, found.return_value)
    assert " ".join(reason.split()) in " ".join(found.output.split())


@pytest.mark.parametrize(
    "text", ["", "CLAIMS = 3", "CLAIMS = (1,)", "1/0", "CLAIMS = ()", MINE + "CLAIMS = (mine, mine)"]
)
def test_a_file_without_claims_is_refused(text, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInstance, match=r"FILE must|another id"):
        claims_of(path)
    with pytest.raises(InvalidInstance, match="FILE must be a Python file"):
        claims_of(tmp_path / "none.py")
