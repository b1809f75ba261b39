"""The paper's sentences are quoted word by word, and what it does not say is not counted as one of them."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from attnprune_verify.claims import excerpts, prior
from attnprune_verify.claims.core import Strength
from attnprune_verify.claims.excerpts import quotation
from attnprune_verify.claims.formulas.scope import sentence
from attnprune_verify.claims.judging.falsifier import Effort
from attnprune_verify.claims.judging.judge import judge_safely
from attnprune_verify.claims.registry import claims
from attnprune_verify.claims.run import assemble
from attnprune_verify.report.claims_text import closing_sentence
from attnprune_verify.report.show_text import page_of

LINES = Path(__file__).with_name("paper_lines.tex")
TEXT = [claim for claim in claims() if claim.id.startswith("exp:")]
CONSEQUENCES = {
    "exp:mask_stays_in_box", "exp:momentum", "exp:divergent_step", "exp:lam_in_unit_interval", "exp:exp_is_computable",
    "exp:batch_regulariser", "exp:vacuous_guarantee", "exp:table1-sparsegpt-attention-beats-wanda-attention",
    "exp:table1-wanda-everywhere-beats-sparsegpt",
}  # fmt: skip


def lines() -> dict[int, str]:
    found = re.findall(r"^% line (\d+)\n(.*)$", LINES.read_text(encoding="utf-8"), re.MULTILINE)
    return {int(number): text for number, text in found}


def test_each_quotation_stands_in_the_line_it_names() -> None:
    known = lines()
    for id_ in sorted({claim.id for claim in TEXT} - CONSEQUENCES):
        quoted = quotation(id_)
        assert quoted is not None and quoted.text in known[quoted.line], id_
        assert 20 <= len(quoted.text) <= 260  # a sentence or the part of it that is judged
    assert {claim.id for claim in TEXT if claim.group == "consequence"} == CONSEQUENCES
    assert {*excerpts._quotations()} == {claim.id for claim in TEXT} - CONSEQUENCES


@pytest.mark.skipif("ATTNPRUNE_PAPER" not in os.environ, reason="the paper's LaTeX is not carried")
def test_the_lines_are_the_papers() -> None:
    paper = Path(os.environ["ATTNPRUNE_PAPER"]).read_text(encoding="utf-8").split("\n")
    assert lines() == {number: paper[number - 1] for number in lines()}


def test_what_is_judged_is_a_sentence_and_what_was_found_stands_apart() -> None:
    for claim in TEXT:
        assert sentence(claim).endswith(".") and not re.search(
            r"\bfalse\b|but |not covered|, so that exp", sentence(claim)
        ), claim.id
        assert not claim.finding.endswith(".")


def test_a_page_has_the_papers_words_then_what_is_judged_then_what_was_found() -> None:
    (claim,) = [one for one in TEXT if one.id == "exp:exact_proportion"]
    (record,) = assemble([judge_safely(claim)]).records
    text = "\n".join("".join(span[0] for span in block["spans"]) for block in page_of(record, (), kept=False))
    wanted = ("the paper's words", quotation(claim.id).text, claim.formula, claim.finding)  # type: ignore[union-attr]  # texts of the paper are quoted
    places = [text.index(words) for words in wanted]
    assert places == sorted(places) and "line 360" not in text.partition("judged")[2]


def test_a_page_has_hypotheses_quantifier_coq_sentence_and_what_is_known() -> None:
    (claim,) = [one for one in claims() if one.id == "new:gradient_norm"]
    (record,) = assemble([judge_safely(claim)]).records
    text = "\n".join("".join(span[0] for span in block["spans"]) for block in page_of(record, (), kept=False))
    for words in (
        "lam > 0",
        "every X in R^{n x d}, W and M in R^{d x d}",
        "any attention mask without an empty row",
        "theorem gradient_norm in Coq",
        "forall n d X W Mc lam C K",
    ):
        assert words in text
    assert "instance of known: Y. Nesterov" in text
    row = record.as_dict()
    assert row["hypotheses"] == ["lam > 0"] and row["prior"]["status"] == "instance of known" and row["group"] == "own"


def test_a_consequence_is_counted_apart() -> None:
    by_id = {claim.id: claim for claim in TEXT if claim.strength is not Strength.TIGHT}
    found = assemble([judge_safely(by_id["exp:xi_vanishes"]), judge_safely(by_id["exp:batch_regulariser"])])
    assert closing_sentence(found).startswith(
        "1 of 1 sentences of its text hold; 0 of 1 consequences drawn from it hold. exp:xi_vanishes (literal) holds; "
    )


def test_what_is_known_is_said_of_statements_that_exist() -> None:
    ours = {claim.id for claim in claims() if claim.own}
    assert {*prior.PRIOR} <= ours
    for entry in prior.PRIOR.values():
        assert entry.status in prior.STATUS and entry.reference
        assert entry.searched is None or re.fullmatch(r"\d{4}-\d\d-\d\d", entry.searched)
    assert json.dumps(prior.prior_of(next(claim for claim in claims() if claim.own)))


@pytest.mark.parametrize("slack", [-1e-12, 0.0, 1e-12])
def test_only_a_slack_below_0_is_explained_by_rounding(slack: float) -> None:
    (claim,) = [one for one in claims() if one.id == "new:bound_p"]
    (record,) = assemble([judge_safely(claim, Effort(0, 0, 0, 0))]).records
    record.judgement.nearest = replace(record.judgement.shown, slack=slack)  # type: ignore[type-var]
    text = "\n".join("".join(span[0] for span in block["spans"]) for block in page_of(record, (), kept=False))
    assert f"slack {slack:.3g}" in text and ("below 0 by the rounding" in text) is (slack < 0)
