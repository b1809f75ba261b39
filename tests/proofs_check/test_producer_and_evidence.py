"""The producer regenerates every certificate byte for byte; the committed index is what the command computes."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import pytest

from proofs_check import evidence
from proofs_check.producer import best_mask, mask_gap
from proofs_check.producer.collection import PARTS
from proofs_check.producer.document import written

ROOT = Path(__file__).resolve().parents[2]
CERTIFICATES = ROOT / "proofs_check" / "certificates"
SEARCHES = (best_mask, mask_gap)
OF_SEARCHES = [f"{part.__name__.rpartition('.')[2]}-{name}.json" for part in SEARCHES for name, _ in part.cases()]


def regenerated(parts: Iterable[ModuleType]) -> set[str]:
    made = {f"{name}.json": written(document) for part in parts for name, document in part.documents()}
    assert [name for name in made if made[name] != (CERTIFICATES / name).read_bytes()] == []
    return made.keys()


def test_certificates_are_regenerated_byte_for_byte() -> None:
    """All but those of masks, whose searches take most of the time."""
    made = regenerated(part for part in PARTS if part not in SEARCHES)
    assert {path.name for path in CERTIFICATES.iterdir()} - made == set(OF_SEARCHES)
    assert max(path.stat().st_size for path in CERTIFICATES.iterdir()) <= 300_000


@pytest.mark.thorough(share=1)  # no other stage of CI makes them anew
def test_certificates_of_searches_are_regenerated_byte_for_byte() -> None:
    assert regenerated(SEARCHES) == set(OF_SEARCHES)


@pytest.mark.thorough  # CI runs the same as a step of its own, `python -m proofs_check.evidence --check`
def test_committed_index_is_the_computed_one() -> None:
    assert evidence.INDEX.read_bytes() == evidence.written(), "run python -m proofs_check.evidence"


def index() -> dict:
    return json.loads(evidence.INDEX.read_text())["statements"]


def test_index_points_at_files_with_these_hashes() -> None:
    for statement in index().values():
        for row in statement["certificates"]:
            assert hashlib.sha256((ROOT / row["file"]).read_bytes()).hexdigest() == row["sha256"]
        for row in statement["formal"]:
            assert (ROOT / row["file"]).is_file()
        if statement["steps"]:
            assert (ROOT / statement["steps"]["file"]).is_file()


REFUTED = """
lem:PL_ineq lem:PL_ineq_informal thm:our_convergence thm:our_convergence:informal rem:practical alg:mask_gd
eq:new_loss fac:calculus def:attn_prun exp:smaller_lam_takes_longer exp:step_size exp:gradient_bounded
exp:momentum exp:reported_delta exp:lam_in_unit_interval exp:supports_theory exp:exp_is_computable
exp:batch_regulariser exp:square_weights exp:whole_model_ratio exp:full_rank_tokens exp:any_attention_mask
exp:exact_proportion exp:near_optimal_mask exp:mask_stays_in_box
""".split()


def test_every_refuted_statement_has_a_certificate_and_the_repaired_ones_a_confirmation() -> None:
    found = index()
    for statement in REFUTED:
        rows = found[statement]["certificates"]
        assert any(row["kind"] == "refutation" and row["concerns"] == "statement" for row in rows), statement
    for statement in ("fix:PL_ineq", "fix:our_convergence", "fix:mask_gd", "fix:practical", "fix:attn_prun"):
        assert any(row["kind"] == "confirmation" for row in found[statement]["certificates"]), statement


def test_verdicts_on_proofs() -> None:
    found = {name: statement["proof"] for name, statement in index().items()}
    assert found["lem:PL_ineq"] == found["thm:our_convergence"] == found["lem:PL_ineq_informal"] == "wrong"
    assert {name for name in found if found[name] == "gap"} == {
        "lem:grad_rec", "lem:bound_basic_func", "lem:bound_grad_f", "lem:lip_f", "lem:lip_c", "thm:lip_grad_l",
        "thm:lip_grad_l_informal", "lem:lower_bound_B_plus_M", "lem:lower_bound_XBX", "lem:lower_bound_XBX_informal",
        "fac:mean_value", "lem:lip_diag_f",
    }  # fmt: skip
    assert found["thm:mat_view_l"] == found["lem:bound_c"] == "sound"
    assert found["thm:convergence"] == found["fix:PL_ineq"] == "none"
