"""No letter of ours is left unsaid: those beyond the problem's own are explained where a statement is shown."""

import re
from dataclasses import replace

import pytest

from attnprune_verify.claims.core import Claim
from attnprune_verify.claims.formulas.letters import letters_of
from attnprune_verify.claims.formulas.noted_letters import NOTED
from attnprune_verify.claims.formulas.symbols import OWN as ALONE
from attnprune_verify.claims.formulas.symbols import SYMBOLS, said, symbols_of
from attnprune_verify.claims.formulas.unread import UNREAD
from attnprune_verify.claims.registry import claims, find
from attnprune_verify.claims.run import run_claims
from attnprune_verify.report.show_text import page_of

OWN = [claim for claim in claims() if claim.own and "measured" not in claim.tags]
_ALIKE = {"g", "T", "K", "R", "f"}
"""Letters that claims compute for themselves and that mean the same."""
SPECIAL = re.compile(r"(?<![A-Za-z_`{*:])(?:kappa_\w+|kappa_\+|beta_\w+|lambda_2|C_[+-]|n_e|f_min|m_i|W0|J|K|G)(?!\w)")


@pytest.mark.parametrize("claim", OWN, ids=lambda claim: claim.test_id)
def test_every_constant_is_explained_or_defined_in_the_sentence(claim: Claim) -> None:
    text, known = f"{claim.says} {claim.formula}", symbols_of(claim)
    for name in set(SPECIAL.findall(text)) - set(known):
        assert said(name, text), name


_WORDS = set(
    """sqrt exp log min max sum prod diag tr rank floor ceil det lambda_min
    lambda_max if and wherever for all over at that is so some every softmax
    implies in the unit box whose entries add up to weights on support of
    repeated zeros layers d dt dtau Var dM 1e5""".split()
)
_PROBLEM = {"n", "d", "X", "W", "M", "lam", "L", "F", "T"}
_ATOM = re.compile(r"(?<![_A-Za-z])(?:(?:min|max)\|W(?:_Q)?\||[A-Za-z]+\d?'*(?:_[A-Za-z0-9+-]+)?)")


def unexplained(claim: Claim) -> list[str]:
    """Return the letters of a formula that neither the formula nor its own `where` explains."""
    known = symbols_of(claim)
    text = re.sub(r"Pi A|\d+e\d+|(?:min|max)\|(?:c_ij|f|X)[^|]*\|", " ", claim.formula)
    bare = {re.split(r"[_(]", name)[0] for name in known}
    found = []
    for atom in dict.fromkeys(_ATOM.findall(text)):
        letter = atom.split("_")[0]
        if {atom, letter} & (_WORDS | _PROBLEM | known.keys() | bare) or letter.rstrip("'") in known:
            continue
        index = len(atom) == 1 and re.search(rf"_\{{?[a-z,]*{atom}", text)
        if not (index or said(atom, claim.formula) or said(letter, claim.formula)):
            found.append(atom)
    return found


@pytest.mark.parametrize("claim", [one for one in OWN if one.test_id not in UNREAD], ids=lambda claim: claim.test_id)
def test_every_letter_is_explained_where_the_statement_is_shown(claim: Claim) -> None:
    assert unexplained(claim) == []


def test_a_letter_that_its_own_where_lacks_is_seen() -> None:
    claim = find("new:segment_step", "any")
    assert unexplained(replace(claim, formula=claim.formula.replace("V_i", "Q_i"))) == ["Q_i"]
    assert "e_j" in unexplained(replace(find("new:rounding_output", "standard model"), id="new:segment_step"))


@pytest.mark.parametrize("claim", OWN, ids=lambda claim: claim.test_id)
def test_a_letter_of_its_own_is_not_explained_by_what_it_means_elsewhere(claim: Claim) -> None:
    """A letter that the claim reads in its own way, or that its margin notes, has its own words where it has any."""
    read = {*letters_of(claim.id), *NOTED.get(claim.id, ())}
    shared = {name for name in symbols_of(claim) if name not in ALONE.get(claim.id, {}) and len(name) == 1}
    assert not shared & read - _ALIKE, shared & read


def test_a_symbol_is_not_explained_twice_and_prose_is_no_symbol() -> None:
    assert "kappa_T" in symbols_of(find("new:PL_constants", "any"))  # "kappa_T is at least" defines nothing
    assert "K" in symbols_of(find("fix:lip_f", "any")) and "J" not in symbols_of(find("new:row_hessian", "literal"))
    assert "R" not in symbols_of(replace(find("new:strong_convexity", "any"), says="on all of R^{dxd}"))
    assert symbols_of(find("lem:PL_ineq", "full")) == {}


def test_they_are_shown() -> None:
    (record,) = run_claims(ids=["new:PL_constants"]).records
    page = " ".join(str(text) for block in page_of(record, (), kept=False) for text, _ in block["spans"])
    assert f"kappa_T is {SYMBOLS['kappa_T']}" in page
    assert record.as_dict()["symbols"]["kappa_T"] == SYMBOLS["kappa_T"]
