"""The Coq development: its index, what every theorem rests on, and its compilation."""

import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.proofs_check.conftest import COQ, make


def _load_checker():
    specification = importlib.util.spec_from_file_location("coq_check_index", COQ / "check_index.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


check = _load_checker()
INDEX = check.load_index(COQ)

# Statements that must have a formal proof, and the half of the development that must hold it.
AXIOM_FREE = [
    "lem:lower_bound_p_row",
    "fix:lower_bound_p_row",
    "lem:lower_bound_p",
    "fix:lower_bound_p",
    "lem:lower_bound_XBX",
    "lem:lower_bound_hadamard",
    "fac:abs_inequality",
    "lem:lower_bound_B_plus_M",
    "lem:bound_c",
    "lem:bound_diag_f",
    "fac:trace_BAB",
    "fac:norm_bound",
    "fix:PL_ineq",
]
OVER_THE_REALS = [
    "thm:mat_view_l",
    "lem:PL_ineq",
    "fix:PL_ineq",
    "new:delta_le_inverse_n",
    "new:ones_witness",
    "new:confinement",
    "thm:convergence",
    "thm:lip_grad_l",
    "fix:lip_grad_l",
    "fix:our_convergence",
]


def _edit(root, name, old, new):
    path = root / name
    text = path.read_text(encoding="utf-8")
    assert text.count(old) >= 1, f"{name} no longer contains {old!r}"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def _edit_index(root, change):
    index = check.load_index(root)
    change(index)
    (root / "theorems.json").write_text(check.dump_index(index), encoding="utf-8")


def test_index_sources_and_assumptions_agree():
    assert check.problems(COQ) == []


def test_untouched_copy_is_accepted(copy):
    assert check.problems(copy) == []


@pytest.mark.parametrize("identifier", AXIOM_FREE)
def test_statement_is_proved_without_axioms(identifier):
    entries = [entry for entry in INDEX if identifier in entry["proves"]]
    assert any(entry["axioms"] == [] and entry["supports"] == "holds" for entry in entries)


@pytest.mark.parametrize("identifier", OVER_THE_REALS)
def test_statement_is_treated_over_the_standard_reals(identifier):
    entries = [entry for entry in INDEX if identifier in entry["proves"]]
    assert any(entry["file"].startswith("analysis/") for entry in entries)


@pytest.mark.parametrize("identifier", ["lem:PL_ineq", "thm:our_convergence"])
def test_printed_statement_is_refuted_without_a_mask_and_vacuous_with_the_causal_one(identifier):
    entries = [entry for entry in INDEX if identifier in entry["proves"]]
    verdicts = {(entry["reading"], entry["supports"]) for entry in entries}
    assert {("full", "refuted"), ("causal", "vacuous")} <= verdicts
    assert all(supports != "holds" for _, supports in verdicts)


LOWER_BOUND = "Theorem lower_bound_p_row n"
CHECK_OF_P = "Definition checked_lower_bound_p : forall R, Statement.lower_bound_p R := @lower_bound_p.\n"
SMUGGLED = {
    "a theorem that is checked against nothing": ("algebra/RowBounds.v", CHECK_OF_P, ""),
    "an assumption in the statements": ("Trusted.v", "Section Model.", "Hypothesis oracle : 0 = 1.\nSection Model."),
    "a name that poses as a section": (
        "analysis/Model.v",
        "Section Model.",
        "Definition Section := 0%nat. Hypothesis oracle : 0 = 1.\nSection Model.",
    ),
    "a notation in the statements": ("Trusted.v", "Section Model.", "Notation R := nat.\nSection Model."),
    "a module without a body": ("analysis/Model.v", "Section Model.", "Declare Module M : T.\nSection Model."),
    "a proof left out": ("algebra/RowBounds.v", "by case/andP: (fd j).\nQed.", "Admitted."),
    "a step left out": ("analysis/Descent.v", "  intro He. set (g := G w).", "  intro He. admit. set (g := G w)."),
    "an axiom": ("algebra/RowBounds.v", LOWER_BOUND, f"Axiom oracle : False.\n{LOWER_BOUND}"),
    "a parameter": ("analysis/Model.v", "Section Model.", "Parameter oracle : 0 = 1.\nSection Model."),
    "a conjecture": ("analysis/Model.v", "Section Model.", "Conjecture oracle : 0 = 1.\nSection Model."),
    "an instance without a body": (
        "analysis/Model.v",
        "Section Model.",
        "Declare Instance oracle : Inhabited.\nSection Model.",
    ),
    "a hypothesis outside sections": (
        "analysis/Model.v",
        "Section Model.",
        "Hypothesis oracle : 0 = 1.\nSection Model.",
    ),
    "an axiom after a string that looks like a comment": (
        "analysis/Model.v",
        "Section Model.",
        'Notation "(*" := 1.\nAxiom oracle : 0 = 1.\nSection Model.',
    ),
    "an axiom after a nested comment": (
        "analysis/Model.v",
        "Section Model.",
        "(* a (* b *) c *) Axiom oracle : 0 = 1.\nSection Model.",
    ),
    "the guard checker switched off": (
        "Trusted.v",
        "Fixpoint rsum",
        "Unset Guard Checking.\nFixpoint rsum",
    ),
    "an inconsistent option": ("_CoqProject", "-arg -w\n", "-arg -type-in-type\n-arg -w\n"),
    "a source that is not compiled": ("_CoqProject", "analysis/Descent.v\n", ""),
    "a theorem renamed in the source": (
        "algebra/RowBounds.v",
        LOWER_BOUND,
        "Theorem lower_bound_p_row_ n",
    ),
    "a theorem turned into a comment": (
        "algebra/AbsInequality.v",
        "Theorem abs_inequality_part1",
        "(* Theorem abs_inequality_part1 *) Theorem abs_inequality_part_one",
    ),
    "a theorem without an entry": (
        "algebra/AbsInequality.v",
        "End AbsInequality.",
        "Theorem stray : True. Proof. by []. Qed.\nEnd AbsInequality.",
    ),
    "a theorem demoted to a lemma": ("algebra/RowBounds.v", LOWER_BOUND, "Lemma lower_bound_p_row n"),
}


@pytest.mark.parametrize("case", sorted(SMUGGLED))
def test_spoiled_source_is_caught_before_compiling(copy, case):
    name, old, new = SMUGGLED[case]
    _edit(copy, name, old, new)
    assert check.problems(copy, sources_only=True) != []


def test_words_in_comments_and_strings_are_harmless(copy):
    _edit(copy, "analysis/Model.v", "Section Model.", '(* Axiom, "Admitted" (* admit *) *)\nSection Model.')
    assert check.problems(copy) == []


def _rename(index):
    index[0]["theorem"] = "no_such_theorem"


def _add_axiom(index):
    index[0]["axioms"] = ["Classical_Prop.classic"]


def _foreign_axiom(index):
    index[-1]["axioms"] = [*index[-1]["axioms"], "AttnPrune.analysis.Model.oracle"]


def _unknown_reading(index):
    index[0]["reading"] = "sliding"


def _unknown_support(index):
    index[0]["supports"] = "probably"


def _no_statement(index):
    index[0]["proves"] = {}


def _bad_statement(index):
    index[0]["proves"] = {"PL_ineq": "whole"}


def _unknown_part(index):
    index[0]["proves"] = {"lem:PL_ineq": "most of it"}


def _extra_key(index):
    index[0]["trust"] = True


def _twice(index):
    index.append(dict(index[0]))


def _missing(index):
    del index[0]


def _wrong_file(index):
    index[0]["file"] = "algebra/PLSharp.v"


@pytest.mark.parametrize(
    "change",
    [
        _rename,
        _add_axiom,
        _foreign_axiom,
        _unknown_reading,
        _unknown_support,
        _no_statement,
        _bad_statement,
        _unknown_part,
        _extra_key,
        _twice,
        _missing,
        _wrong_file,
    ],
)
def test_spoiled_index_is_caught(copy, change):
    _edit_index(copy, change)
    assert check.problems(copy) != []


def test_foreign_axiom_is_caught_even_if_the_index_lists_it(copy):
    def use_oracle(index):
        for entry in index:
            if entry["theorem"] == "PL_corrected_masked":
                entry["axioms"] = ["AttnPrune.algebra.RowBounds.oracle"]

    _edit_index(copy, use_oracle)
    assert any("not an axiom of the standard reals" in problem for problem in check.problems(copy))


COQ_PRINTS = """
== algebra/A.v one
Closed under the global context
== analysis/B.v two
Axioms:
ClassicalDedekindReals.sig_not_dec
  : forall P : Prop,
    {~ ~ P} + {~ P}
Classical_Prop.classic : forall P : Prop, P \\/ ~ P
"""


def test_a_theorem_has_the_sorted_names_of_its_axioms():
    axioms = ["ClassicalDedekindReals.sig_not_dec", "Classical_Prop.classic"]
    assert check.printed_axioms(COQ_PRINTS) == {"algebra/A.v one": [], "analysis/B.v two": axioms}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("P \\/ ~ P", "P"),
        ("Closed under the global context", "Error: no such theorem"),
        ("Classical_Prop.classic :", "RowBounds.oracle :"),
    ],
)
def test_output_of_coq_that_cannot_be_read_or_is_no_standard_axiom_is_refused(old, new):
    assert COQ_PRINTS.count(old) == 1
    with pytest.raises(ValueError, match="Coq's output|not an axiom of the standard reals"):
        check.printed_axioms(COQ_PRINTS.replace(old, new))


@pytest.fixture
def printed(copy):
    """Return what Coq would print of axioms and checks, as it is known without Coq; definitions are left out."""
    index = check.load_index(copy)
    axioms, checks = "", ""
    for entry in index:
        file, theorem = entry["file"], entry["theorem"]
        types = "".join(f"{name} : {check.STANDARD_AXIOMS[name]}\n" for name in entry["axioms"])
        axioms += f"== {file} {theorem}\n" + (f"Axioms:\n{types}" if types else "Closed under the global context\n")
        statement = check.pinned.CHECKED[file.partition("/")[0]].format(theorem)
        checks += f"== {file} {theorem}\n{Path(file).stem}.checked_{theorem}\n     : {statement}\n"
    (copy / "assumptions.out").write_text(axioms)
    (copy / "types.out").write_text(checks)
    (copy / "types.txt").write_text("")
    return copy


@pytest.mark.parametrize(
    ("file", "old", "new", "reason"),
    [
        ("theorems.json", '"axioms": []', '"axioms": ["Classical_Prop.classic"]', "the index says axioms"),
        ("theorems.json", '"Classical_Prop.classic", ', "", "the index says axioms"),
        (
            "assumptions.out",
            "== algebra/Frobenius.v F_norm_A_plus_B\nClosed under the global context\n",
            "",
            "says axioms",
        ),
        (
            "types.out",
            ".Statement.our_convergence_corrected\n",
            ".Statement.C_plus_value\n",
            "must print .*C_plus_value",
        ),
        (
            "types.out",
            "Trusted.Analysis.Statement.our_conv",
            "MainTheorem.Trusted.Analysis.Statement.our_conv",
            "must print",
        ),
        ("types.txt", "", "Analysis.nsq = 0\n", "types.txt is not what Coq prints"),
    ],
)
def test_what_coq_prints_must_be_what_is_pinned(printed, file, old, new, reason):
    assert check.printed_problems(printed) == []
    text = (printed / file).read_text()
    assert old in text
    (printed / file).write_text(text.replace(old, new, 1))
    assert any(re.search(reason, problem) for problem in check.printed_problems(printed))


def test_the_table_has_a_row_for_every_theorem():
    index = check.load_index(COQ)
    head, _, *rows = check.table(index).splitlines()
    assert head.startswith("| theorem | statement") and len(rows) == len(index)
    norm = "\\|\\|X\\|\\|"
    cells = [
        "`norm_bound_entry`",
        "fac:norm_bound (part 7 of 10)",
        "any",
        f"\\|X_ij\\| <= {norm}",
        "algebra/Frobenius.v",
    ]
    assert f"| {' | '.join(cells)} | none |" in rows


def test_index_file_is_canonical_json():
    text = (COQ / "theorems.json").read_text(encoding="utf-8")
    assert text == check.dump_index(json.loads(text))


def test_checker_as_a_command(copy):
    def run(*arguments):
        return subprocess.run(
            ["python3", "-I", str(copy / "check_index.py"), *arguments],
            capture_output=True,
            text=True,
            check=False,
        )

    assert run().returncode == 0
    _edit(copy, "algebra/RowBounds.v", LOWER_BOUND, f"Axiom oracle : False.\n{LOWER_BOUND}")
    failed = run()
    assert failed.returncode == 1
    assert "Axiom is not allowed" in failed.stderr
    assert "Traceback" not in failed.stderr


# ---- with Coq at hand -------------------------------------------------------------------

needs_coq = pytest.mark.skipif(
    shutil.which("coqc") is None,
    reason="coqc is not installed, so the formal proofs were not re-checked here (proofs_check/coq/README.md)",
)


@needs_coq
@pytest.mark.thorough
def test_compiles_from_clean_and_notices_what_only_coq_can_see(compiled, tmp_path):
    """One compilation from the sources, then two edits on top of it."""
    copy = compiled
    sources = check.source_files(copy)
    assert sources
    assert all((copy / name).with_suffix(".vo").is_file() for name in sources)
    assert check.printed_problems(copy) == []

    # excluded middle in a proof of algebra/: it compiles, but the assumptions differ
    classical = tmp_path / "classical"
    shutil.copytree(copy, classical)
    _edit(
        classical,
        "algebra/PLSharp.v",
        "move=> n0 s0 F; have n1",
        "move=> n0 s0 F; case: (Coq.Logic.Classical_Prop.classic True) => [_|[]] //; have n1",
    )
    _edit(classical, "algebra/PLSharp.v", "From mathcomp", "Require Coq.Logic.Classical_Prop.\nFrom mathcomp")
    outcome = make(classical)
    assert outcome.returncode != 0
    assert re.search(
        r"^algebra/PLSharp\.v \w+: .*Coq prints \['Classical_Prop\.classic'\]", outcome.stderr, re.MULTILINE
    )

    # the attained constant without its square, which is what the paper lost
    unsquared = tmp_path / "unsquared"
    shutil.copytree(copy, unsquared)
    _edit(unsquared, "algebra/PLSharp.v", "(1 * 1 * n%:R^-1) ^+ 2", "(1 * 1 * n%:R^-1)")
    assert make(unsquared, "compile").returncode != 0
