"""No letter of ours is left unsaid: those beyond the problem's own are explained where a statement is shown."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from attnprune_verify.claims.core import Claim
from attnprune_verify.claims.registry import claims, find
from attnprune_verify.claims.run import run_claims
from attnprune_verify.claims.symbols import SYMBOLS, said, symbols_of
from attnprune_verify.report.show_text import page_of

OWN = [claim for claim in claims() if claim.own and "measured" not in claim.tags]
SPECIAL = re.compile(r"(?<![A-Za-z_`{*:])(?:kappa_\w+|kappa_\+|beta_\w+|lambda_2|C_[+-]|n_e|f_min|m_i|W0|J|K|G)(?!\w)")


@pytest.mark.parametrize("claim", OWN, ids=lambda claim: claim.test_id)
def test_every_constant_is_explained_or_defined_in_the_sentence(claim: Claim) -> None:
    text, known = f"{claim.says} {claim.formula}", symbols_of(claim)
    for name in set(SPECIAL.findall(text)) - set(known):
        assert said(name, text), name


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
