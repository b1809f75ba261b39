"""Evidence counts only where it says the same. (That the index is current: tests/proofs_check.)"""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from attnprune_verify.claims import evidence
from attnprune_verify.claims.core import Kind, Verdict
from attnprune_verify.claims.evidence import index, weigh
from attnprune_verify.claims.judging.judge import Judgement
from attnprune_verify.claims.registry import claims, find

ROOT = Path(__file__).parents[2]


def test_every_statement_with_evidence_has_a_claim() -> None:
    assert set(index()) <= {claim.id for claim in claims()}


def test_every_file_exists() -> None:
    named = {
        row["file"]
        for entry in index().values()
        for row in [*entry["formal"], *entry["certificates"], *([entry["steps"]] if entry["steps"] else [])]
    }
    assert len(named) > 60
    assert [file for file in sorted(named) if not (ROOT / file).is_file()] == []


def test_evidence_counts_only_for_the_same_verdict_and_reading() -> None:
    full, causal = find("lem:PL_ineq", "full"), find("lem:PL_ineq", "causal")
    assert weigh(Judgement(full, Verdict.REFUTED)).grade == "formal"
    assert weigh(Judgement(causal, Verdict.VACUOUS)).grade == "formal"
    wrong_way = weigh(Judgement(full, Verdict.HOLDS))
    assert wrong_way.grade == "measured"
    assert not any("coq" in file for file in wrong_way.files)
    assert not any("refutation" in file for file in weigh(Judgement(causal, Verdict.VACUOUS)).files)


def test_a_confirmed_instance_does_not_certify_a_universal_statement() -> None:
    claim = find("fix:mask_gd", "any")
    assert weigh(Judgement(claim, Verdict.HOLDS)).grade == "measured"
    existential = find("new:spurious_minima", "n>d")
    assert weigh(Judgement(existential, Verdict.HOLDS)).grade == "certified"


def test_a_confirmed_instance_is_listed_with_its_repair() -> None:
    """It proves nothing about all instances, but a reader of the repair must be able to find and re-check it."""
    for id_ in ("fix:mask_gd", "fix:practical", "fix:attn_prun", "fix:our_convergence", "fix:PL_ineq"):
        for claim in (claim for claim in claims() if claim.id == id_):
            files = weigh(Judgement(claim, Verdict.HOLDS)).files
            assert any("confirmation" in file for file in files), claim.test_id
            refuted = weigh(Judgement(claim, Verdict.REFUTED)).files
            assert not any("confirmation" in file for file in refuted), claim.test_id


def test_every_repair_has_a_formal_proof_or_a_certificate() -> None:
    bare = []
    for claim in (claim for claim in claims() if claim.id.startswith("fix:")):
        files = weigh(Judgement(claim, Verdict.HOLDS)).files
        if not any("/coq/" in file or "/certificates/" in file for file in files):
            bare.append(claim.test_id)
    assert bare == []


def test_what_is_called_a_bound_is_proved_somewhere() -> None:
    """Formally, by certificates of an existence, or by hand; measured sentences and exact examples claim no more."""
    definitions = {"fix:attn_prun", "fix:new_loss", "fix:mask_gd"}
    bare = []
    for claim in claims():
        if not claim.own or claim.conjecture or "measured" in claim.tags or claim.kind is Kind.REMARK:
            continue
        found = weigh(Judgement(claim, Verdict.HOLDS))
        bound = found.parts.get("bound", found.parts.get("whole"))
        if bound not in ("formal", "certified", "by hand") and claim.id not in definitions:
            bare.append(claim.id)
    assert bare == [], (
        f"nothing proves {', '.join(bare)}: write the proof under a heading '### {bare[0]}' in proofs_check/PROOFS.md, "
        "or list a theorem with that id in proofs_check/coq/theorems.json, or add a certificate of it; then run "
        "python -m proofs_check.evidence"
    )


def test_one_theorem_does_not_lift_a_whole_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a bound that is said to be attained each half has its own grade; of ten parts nine are not the whole."""
    tight = weigh(Judgement(find("fix:lip_product", "literal"), Verdict.HOLDS))
    assert tight.parts == {"bound": "formal", "sharp": "measured"} and tight.grade == "measured"
    ten = find("lem:bound_basic_func", "any")
    assert weigh(Judgement(ten, Verdict.HOLDS)).grade == "formal"
    rows = index()["lem:bound_basic_func"]
    fewer = {
        "lem:bound_basic_func": rows | {"formal": [row for row in rows["formal"] if row["part"] != "part 7 of 10"]}
    }
    monkeypatch.setattr(evidence, "index", lambda: fewer)
    assert weigh(Judgement(ten, Verdict.HOLDS)).grade == "measured"
    step = {"lem:bound_basic_func": rows | {"formal": [row | {"part": "step"} for row in rows["formal"]]}}
    monkeypatch.setattr(evidence, "index", lambda: step)
    assert weigh(Judgement(ten, Verdict.HOLDS)).grade == "measured"


def test_an_attained_bound_certifies_that_part_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that ended shows that its bound is reached; a bound for all masks of half the loss does not."""
    claim = find("new:best_mask", "any")
    found = weigh(Judgement(claim, Verdict.HOLDS))
    assert found.parts == {"bound": "by hand", "sharp": "certified"} and found.grade == "measured"
    entry = index()["new:best_mask"]
    half = [row for row in entry["certificates"] if row["part"] == "whole"]
    assert [row["file"].rsplit("/", 1)[1] for row in half] == ["best_mask-five-features-half.json"]
    monkeypatch.setattr(evidence, "index", lambda: {"new:best_mask": entry | {"certificates": half}})
    assert weigh(Judgement(claim, Verdict.HOLDS)).parts == {"bound": "by hand", "sharp": "by hand"}


def test_a_certificate_that_says_less_than_the_sentence_raises_no_grade(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tokens whose logits overflow say nothing of data drawn by the recipe, where the claim's own witness does."""
    claim = find("exp:exp_is_computable", "causal")
    entry = index()[claim.id]
    assert {row["part"] for row in entry["certificates"]} == {"less"}
    found = weigh(Judgement(claim, Verdict.REFUTED))
    assert found.grade == "measured" and any("exp_is_computable" in file for file in found.files)
    assert weigh(Judgement(claim, Verdict.REFUTED, certified=True)).grade == "certified"
    whole = [row | {"part": "whole"} for row in entry["certificates"]]
    monkeypatch.setattr(evidence, "index", lambda: {claim.id: entry | {"certificates": whole}})
    assert weigh(Judgement(claim, Verdict.REFUTED)).grade == "certified"


def test_certificates_stand_under_the_statement_that_they_decide() -> None:
    """Ties for the exact proportion, from 0 and from 1; the size of the bound under the statement about it."""
    stems = {
        name: [row["file"].rsplit("/", 1)[1].removesuffix(".json") for row in index()[name]["certificates"]]
        for name in ("exp:exact_proportion", "exp:vacuous_guarantee", "exp:supports_theory")
    }
    assert stems["exp:exact_proportion"] == ["mask_gd-refutation-constant-1", "mask_gd-refutation-constant"]
    assert stems["exp:vacuous_guarantee"] == [f"supports_theory-refutation-n-{n}" for n in (128, 256, 400, 512)]
    assert stems["exp:supports_theory"] == ["practical-refutation-beta", "practical-refutation-causal"]


def test_theorems_are_shown_with_their_type_and_its_hash() -> None:
    (theorem,) = weigh(Judgement(find("thm:lip_grad_l", "any"), Verdict.HOLDS)).theorems
    assert theorem["type"].startswith("forall n d X W Mc R0 lam, valid_mask n Mc -> bounded n d X W R0 -> 0 <= lam ->")
    assert len(theorem["type_sha256"]) == 64 and theorem["part"] == "whole"


def test_a_proof_by_hand_raises_no_grade() -> None:
    claim = find("new:ray_monotone", "any")
    found = weigh(Judgement(claim, Verdict.HOLDS))
    assert found.files == ("proofs_check/PROOFS.md",) and found.grade == "measured"
    assert weigh(Judgement(claim, Verdict.REFUTED)).files == ()


def test_one_mask_refutes_a_statement_about_every_mask() -> None:
    found = weigh(Judgement(find("exp:any_attention_mask", "given"), Verdict.REFUTED))
    assert found.grade == "certified"
    assert "proofs_check/certificates/practical-refutation-causal.json" in found.files


def test_a_proof_for_one_mask_does_not_cover_all() -> None:
    claim = find("new:delta_le_inverse_n", "any")
    only_causal = replace(claim, id="new:nothing")
    assert weigh(Judgement(only_causal, Verdict.HOLDS)).grade == "measured"
    judgements = Counter(entry["proof"] for entry in index().values())
    assert judgements["sound"] >= 20 and judgements["gap"] >= 5 and judgements["wrong"] >= 2
    assert json.dumps(index())


def test_what_is_certified_has_a_file_that_a_stranger_can_check() -> None:
    """A reference between two sections is compared here, exactly; no file holds the comparison."""
    assert (
        weigh(Judgement(find("exp:baselines_reference", "literal"), Verdict.ILL_POSED, certified=True)).grade == "exact"
    )
    for claim in claims():
        for verdict in (Verdict.REFUTED, Verdict.HOLDS):
            found = weigh(Judgement(claim, verdict, certified=True))
            assert found.grade != "certified" or found.files, claim.test_id
