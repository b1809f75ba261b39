"""All statements of the paper are there, names exist, and nothing rests on itself."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from attnprune_verify.claims import registry, statements
from attnprune_verify.claims.registry import LABELS, PAPER_ORDER, check, claims, find
from attnprune_verify.claims.statements._template import CLAIMS

HERE = Path(__file__).parent
TEMPLATE = replace(CLAIMS[0], uses=())


def test_every_label_of_the_paper_has_a_claim() -> None:
    everything = (HERE.parent / "meta" / "paper_labels.txt").read_text().split()  # grep '\label' over the whole paper
    printed = [label for label in everything if label.partition(":")[0] not in ("fig", "line", "sec", "tab")]
    assert len(printed) == 76
    assert LABELS == {*printed}
    ids = {claim.id for claim in claims()}
    assert {*printed, "rem:practical", "def:PL", "lem:M_bounds"} <= ids
    assert sum(name.startswith("exp:") for name in ids) >= 17


def test_every_file_of_claims_is_in_the_registry() -> None:
    files = {path.stem for path in Path(statements.__file__).parent.glob("[!_]*.py")}
    assert files == set(registry._MODULES), "name the file in _MODULES of attnprune_verify/claims/registry.py"


def test_the_papers_order_is_kept() -> None:
    place = {label: index for index, label in enumerate(PAPER_ORDER)}
    printed = [place[claim.id] for claim in claims() if claim.id in place]
    assert printed == sorted(printed)


FIRST_OF_ITS_SECTION = {
    "def:attn_matrix": "1 Introduction",
    "alg:mask_gd": "3 Preliminary",
    "thm:our_convergence": "4 Main Results",
    "def:PL": "5 Technique Overview",
    "eq:new_loss": "6 Experiment",
    "fac:indexing": "B Preliminary: facts",
    "def:exp_func": "C Gradient Calculation",
    "def:p": "D Matrix Form",
    "asp:bound_parameters": "E Bounds for Basic Functions",
    "fac:mean_value": "F Lipschitz of Gradient",
    "fac:abs_inequality": "G Convergence of Gradient Descent",
}


def test_every_statement_stands_in_the_section_that_prints_it() -> None:
    place, section = {}, ""
    for label in PAPER_ORDER:
        section = FIRST_OF_ITS_SECTION.get(label, section)
        place[label] = section
    wrong = {claim.id: claim.section for claim in claims() if place.get(claim.id, claim.section) != claim.section}
    assert wrong == {}


def test_no_name_of_a_function_slipped_into_a_sentence() -> None:
    """What a reader sees is mathematics: `_F` for the Frobenius norm, not `F_of` of the code beside it."""
    shown = [f"{claim.title} {claim.says} {claim.formula} {claim.note} {claim.reading.says}" for claim in claims()]
    assert [text for text in shown if re.search(r"_of\b|lambda q|\bq\.\w", text)] == []


def test_keys_are_unique_and_every_repair_is_mutual_knowledge() -> None:
    keys = [claim.key for claim in claims()]
    assert len(keys) == len(set(keys))
    ids = {claim.id for claim in claims()}
    for claim in claims():
        assert claim.repaired_by is None or claim.repaired_by in ids
        assert claim.repairs is None or claim.repairs in ids
        assert not claim.id.startswith("fix:") or claim.repairs is not None, f"{claim.id} repairs nothing"
    repaired = {(claim.id, claim.repaired_by) for claim in claims()}
    repairs = {(str(claim.repairs), claim.id) for claim in claims() if claim.id.startswith("fix:")}
    assert repairs <= repaired, f"repairs that the repaired statement does not name: {repairs - repaired}"


def test_a_name_that_does_not_exist_fails() -> None:
    with pytest.raises(ValueError, match="new:template uses statements that do not exist: lem:nowhere"):
        check([replace(TEMPLATE, uses=("lem:nowhere",))])
    with pytest.raises(ValueError, match="do not exist: fix:nowhere"):
        check([replace(TEMPLATE, repaired_by="fix:nowhere")])


def test_a_circle_fails() -> None:
    first, second = replace(TEMPLATE, id="new:a", uses=("new:b",)), replace(TEMPLATE, id="new:b", uses=("new:a",))
    with pytest.raises(ValueError, match="circle; got new:"):
        check([first, second])


def test_a_doubled_key_fails() -> None:
    with pytest.raises(ValueError, match="must be unique"):
        check([TEMPLATE, TEMPLATE])


def test_find() -> None:
    assert find("lem:PL_ineq", "causal").reading.mask == "causal"
    with pytest.raises(KeyError, match="no claim 'lem:PL_ineq' with reading 'sideways'"):
        find("lem:PL_ineq", "sideways")
