"""The carried index is the one proofs_check computes, and evidence counts only where it says the same."""

import json
from collections import Counter
from dataclasses import replace
from importlib import resources
from pathlib import Path

from attnprune_verify.claims.core import Kind, Statement
from attnprune_verify.claims.evidence import index, weigh
from attnprune_verify.claims.judge import Verdict
from attnprune_verify.claims.registry import claims, find

ROOT = Path(__file__).parents[2]


def test_the_carried_index_is_current() -> None:
    carried = (resources.files("attnprune_verify.claims") / "evidence_index.json").read_bytes()
    computed = (ROOT / "proofs_check" / "evidence.json").read_bytes()
    assert carried == computed, "copy proofs_check/evidence.json to attnprune_verify/claims/evidence_index.json"


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
    assert weigh(Verdict(full, Statement.REFUTED)).grade == "formal"
    assert weigh(Verdict(causal, Statement.VACUOUS)).grade == "formal"
    wrong_way = weigh(Verdict(full, Statement.HOLDS))
    assert wrong_way.grade == "measured"
    assert not any("coq" in file for file in wrong_way.files)
    assert not any("refutation" in file for file in weigh(Verdict(causal, Statement.VACUOUS)).files)


def test_a_confirmed_instance_does_not_certify_a_universal_statement() -> None:
    claim = find("fix:mask_gd", "any")
    assert weigh(Verdict(claim, Statement.HOLDS)).grade == "measured"
    existential = find("new:spurious_minima", "n>d")
    assert weigh(Verdict(existential, Statement.HOLDS)).grade == "certified"


def test_a_confirmed_instance_is_listed_with_its_repair() -> None:
    """It proves nothing about all instances, but a reader of the repair must be able to find and re-check it."""
    for id_ in ("fix:mask_gd", "fix:practical", "fix:attn_prun", "fix:our_convergence", "fix:PL_ineq"):
        for claim in (claim for claim in claims() if claim.id == id_):
            files = weigh(Verdict(claim, Statement.HOLDS)).files
            assert any("confirmation" in file for file in files), claim.test_id
            refuted = weigh(Verdict(claim, Statement.REFUTED)).files
            assert not any("confirmation" in file for file in refuted), claim.test_id


def test_every_repair_has_a_formal_proof_or_a_certificate() -> None:
    bare = []
    for claim in (claim for claim in claims() if claim.id.startswith("fix:")):
        files = weigh(Verdict(claim, Statement.HOLDS)).files
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
        evidence = weigh(Verdict(claim, Statement.HOLDS))
        proved = evidence.grade in ("formal", "certified") or "proofs_check/PROOFS.md" in evidence.files
        if not proved and claim.id not in definitions:
            bare.append(claim.test_id)
    assert bare == []


def test_a_proof_by_hand_raises_no_grade() -> None:
    claim = find("new:ray_monotone", "any")
    evidence = weigh(Verdict(claim, Statement.HOLDS))
    assert evidence.files == ("proofs_check/PROOFS.md",) and evidence.grade == "measured"
    assert weigh(Verdict(claim, Statement.REFUTED)).files == ()


def test_one_mask_refutes_a_statement_about_every_mask() -> None:
    evidence = weigh(Verdict(find("exp:any_attention_mask", "given"), Statement.REFUTED))
    assert evidence.grade == "certified"
    assert "proofs_check/certificates/practical-refutation-causal.json" in evidence.files


def test_a_proof_for_one_mask_does_not_cover_all() -> None:
    claim = find("new:delta_le_inverse_n", "any")
    only_causal = replace(claim, id="new:nothing")
    assert weigh(Verdict(only_causal, Statement.HOLDS)).grade == "measured"
    verdicts = Counter(entry["proof"] for entry in index().values())
    assert verdicts["sound"] >= 20 and verdicts["gap"] >= 5 and verdicts["wrong"] >= 2
    assert json.dumps(index())
