"""What the formal theorems say: pinned as Coq prints it, and mechanical weakenings of it, which must be noticed."""

import re
import shutil
import subprocess

import pytest

from proofs_check.coq import check_index, mutants, pinned, sources
from tests.proofs_check.conftest import COQ

SOURCE = sources.code(COQ, "Trusted.v")
NAMES = pinned.declared(SOURCE)
PINNED = pinned.read_pins(COQ)
THEOREMS = check_index.keys_of(check_index.load_index(COQ))
MAIN = "Analysis.Statement.our_convergence_full_refuted"


def test_trusted_is_short_and_proves_nothing():
    text = (COQ / "Trusted.v").read_text(encoding="utf-8")
    two_halves, rounding = text.split("\nModule Rounding.\n")
    assert two_halves.count("\n") <= 800 and rounding.count("\n") <= 255
    assert max(map(len, text.splitlines())) <= 120
    assert not re.search(r"\b(Proof|Qed|Theorem|Lemma|Axiom)\b", SOURCE)


def test_every_statement_has_its_theorem_and_every_theorem_its_statement():
    stated = sorted(name for name in NAMES if ".Statement." in name)
    assert stated == sorted(pinned.statement_of(file, theorem) for file, theorem in THEOREMS)
    assert pinned.types_problems(PINNED, NAMES, THEOREMS) == []


def test_what_is_missing_or_superfluous_is_caught():
    def problems(change):
        spoiled = dict(PINNED)
        change(spoiled)
        return pinned.types_problems(spoiled, NAMES, THEOREMS)

    assert problems(lambda pins: pins.pop("Analysis.nsq"))
    assert problems(lambda pins: pins.update({"Analysis.oracle": "0" * 64}))
    assert pinned.types_problems(PINNED, NAMES, THEOREMS[1:])
    assert pinned.types_problems(PINNED, [name for name in NAMES if name != MAIN], THEOREMS)


def test_a_hash_changes_with_every_definition_the_statement_rests_on():
    rests = pinned.rests_on(PINNED, MAIN)
    assert {"Analysis.our_convergence", "Analysis.xi_theorem", "Analysis.rsum", "Analysis.gd", MAIN} <= set(rests)
    before = pinned.type_hash(PINNED, MAIN)
    for name in rests:
        changed = "0" * 64 + PINNED[name][64:]
        assert pinned.type_hash(PINNED | {name: changed}, MAIN) != before
    assert pinned.type_hash(PINNED | {"Analysis.C_plus": "0" * 64}, MAIN) == before


COQ_PRINTS = """
== Analysis.one
Trusted.Analysis.one = fun x => x
     : R -> R

Arguments Trusted.Analysis.one _
== Analysis.Statement.two
Trusted.Analysis.Statement.two = forall x, Trusted.Analysis.one x = x /\\ Trusted.Analysis.other x
     : Prop
== analysis/File.v two
File.checked_two
     : Trusted.Analysis.Statement.two
"""


def test_a_pin_is_the_hash_of_what_coq_prints_and_what_that_mentions(tmp_path):
    pins = pinned.pins(pinned.blocks(COQ_PRINTS))
    one, two = pins["Analysis.one"], pins["Analysis.Statement.two"]
    assert one.split()[1:] == ["Analysis.one"]
    assert two.split()[1:] == ["Analysis.Statement.two", "Analysis.one"]
    assert len(pins) == 2  # nothing of a theorem's check
    for old, new in (("fun x => x", "fun x => 0"), ("R -> R", "R -> N"), ("one _", "one [_]")):
        changed = pinned.pins(pinned.blocks(COQ_PRINTS.replace(old, new)))
        assert {title for title in pins if pins[title] != changed[title]} == {"Analysis.one"}
        before, after = (pinned.type_hash(each, "Analysis.Statement.two") for each in (pins, changed))
        assert before != after
    (tmp_path / "types.txt").write_text(pinned.pins_text(pins))
    assert pinned.read_pins(tmp_path) == pins


def test_the_text_of_a_statement_is_that_of_trusted():
    text = (COQ / "Trusted.v").read_text(encoding="utf-8")
    assert pinned.statement_text(text, "Analysis.Statement.ones_attention_loss_zero") == (
        "forall n d X W Mc, Lattn n d X W Mc ones = 0"
    )
    for file, theorem in THEOREMS:
        assert pinned.statement_text(text, pinned.statement_of(file, theorem))


def test_mutants_are_many_of_every_kind_and_none_is_the_sentence_itself():
    found = list(mutants.mutants(SOURCE))
    kinds = {one.kind for one in found}
    assert len(found) > 2000
    assert {"drop a hypothesis", "add False ->", "change a constant", "change an inequality", "swap n and d"} <= kinds
    assert {"shadow ~ x", "shadow x <= y", "shadow normF", "conclude True", "another mu"} <= kinds
    same = {one.name: one.text for one in mutants.sentences(SOURCE)}
    assert sorted(same) == sorted(NAMES)
    assert all(one.text != same[one.name] for one in found)
    weakened = {name for name in NAMES if ".Statement." in name and not name.startswith("Rounding.")}
    assert {one.name for one in found} >= weakened - {"Analysis.Statement.row_constant_C_plus"}


def test_the_choice_of_mutants_is_that_of_the_seed():
    found = list(mutants.mutants(SOURCE))
    assert mutants.choose(found, 10, "a") == mutants.choose(found, 10, "a") != mutants.choose(found, 10, "b")


# ---- with Coq at hand -------------------------------------------------------------------

needs_coq = pytest.mark.skipif(shutil.which("coqtop") is None, reason="coqtop is not installed")


@needs_coq
@pytest.mark.thorough
def test_weakened_statements_are_caught(compiled):
    outcomes = mutants.run(compiled, mutants.choose(list(mutants.mutants(SOURCE)), 420, "thorough"))
    unchanged = [one for one in outcomes if one.mutant.kind == "none"]
    assert len(unchanged) > 100
    assert [one.mutant.name for one in unchanged if one.caught or not one.compiles] == []
    weakened = [one for one in outcomes if one.mutant.kind != "none" and one.compiles]
    survivors = [(one.mutant.name, one.mutant.kind) for one in weakened if not one.caught]
    assert len(weakened) >= 300
    assert len(survivors) * 20 <= len(weakened)
    # what is left is equivalent: a notation shadowed in another scope than the one the sentence reads it in
    assert [(name, kind) for name, kind in survivors if not kind.startswith("shadow x")] == []


IN_PROOF_FILES = {
    "an impossible hypothesis of the main theorem": (
        "analysis/MainTheorem.v",
        [
            ("our_convergence_corrected : 0 < eps ->", "our_convergence_corrected : 0 = 1 -> 0 < eps ->"),
            ("intros Heps HN.\n  assert (N : 0 < INR n)", "intros _ Heps HN.\n  assert (N : 0 < INR n)"),
        ],
    ),
    "a hypothesis that no radius meets": (
        "algebra/BPlusM.v",
        [
            (
                "part2 d (B M : 'M[R]_d) (lam r : R) :\n  0 <= lam",
                "part2 d (B M : 'M[R]_d) (lam r : R) :\n  r < 0 -> 0 <= lam",
            ),
            ("move=> l0 M01 Br; rewrite ler_subl_addr", "move=> _ l0 M01 Br; rewrite ler_subl_addr"),
        ],
    ),
}


@needs_coq
@pytest.mark.thorough
@pytest.mark.parametrize("case", sorted(IN_PROOF_FILES))
def test_a_theorem_weakened_in_its_own_file_does_not_compile(compiled, case):
    """The weaker theorem is proved; what fails is the check against Trusted.v at the end of the file."""
    name, edits = IN_PROOF_FILES[case]
    path = compiled / name
    text = path.read_text(encoding="utf-8")
    for old, new in edits:
        assert text.count(old) >= 1, old
        text = text.replace(old, new, 1)
    path.write_text(text, encoding="utf-8")
    command = ["coqc", "-R", str(compiled), "AttnPrune", "-w", "none", str(path)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode != 0
    line = int(re.search(r"line (\d+)", outcome.stderr).group(1))
    assert "as Trusted.v states them" in "\n".join(text.splitlines()[:line])
