"""Every wrong implementation is failed, and by its name where it has one."""

import importlib.util
import lzma
from pathlib import Path

import numpy as np
import pytest

from attnprune_verify.audit.functions.auditor import Auditor
from attnprune_verify.audit.functions.naming.diagnosis import diagnose
from attnprune_verify.audit.functions.naming.fitting import Observation
from attnprune_verify.audit.functions.truth.reference import parameters
from attnprune_verify.audit.functions.truth.samples_for import asked_samples
from attnprune_verify.audit.functions.truth.tolerance import judge
from attnprune_verify.audit.mistakes import SENTENCES

_spec = importlib.util.spec_from_file_location("kill_matrix", Path(__file__).with_name("kill_matrix.py"))
kill_matrix = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(kill_matrix)
WRONG = kill_matrix.catalogue().WRONG

# The ids that the outside world relies on.
CONTRACT = (
    "missing-softmax-correction correction-uses-dense-softmax transposed-p missing-hadamard-W "
    "missing-regularizer regularizer-scale regularizer-not-squared loss-scale gradient-scale gradient-sign "
    "gradient-transposed mask-ignored mask-after-softmax mask-multiplies-logits mask-always-causal "
    "wrong-softmax-axis logit-scale unstable-exp denominator-epsilon low-precision mutates-input "
    "nondeterministic wrong-shape dense-target-uses-M clips-or-rounds-M keeps-instead-of-prunes "
    "threshold-off-by-one ties-dropped baseline-axis baseline-global-threshold baseline-ignores-activations "
    "baseline-no-update unknown "
).split()

# Those of them that single instances show and formulas explain, and where.
FORMULAS = (
    "correction-uses-dense-softmax transposed-p missing-hadamard-W regularizer-scale regularizer-not-squared "
    "loss-scale gradient-scale gradient-sign gradient-transposed mask-ignored mask-after-softmax "
    "mask-multiplies-logits mask-always-causal wrong-softmax-axis logit-scale missing-regularizer "
    "dense-target-uses-M "
).split()
REGIMES = ("full", "causal", "given-mask")


def representative(id):
    """The first wrong implementation with this name; those without a name stand for `unknown`."""
    return next(
        wrong for wrong in WRONG if (wrong.names[:1] == (id,) if id != "unknown" else wrong.id == "one entry off")
    )


def test_the_catalogue_is_large_and_says_what_it_means():
    assert len(WRONG) >= 60
    assert len({wrong.id for wrong in WRONG}) == len(WRONG)
    assert {name for wrong in WRONG for name in wrong.names} <= set(SENTENCES)
    for wrong in WRONG:
        assert compile(wrong.source(), wrong.id, "exec")


def test_every_contract_id_has_a_sentence():
    assert set(CONTRACT) <= set(SENTENCES)


def results(function, sample):
    """Return the results of a wrong function on a sample, as arrays."""
    found = function(*parameters(function.__name__, sample))
    return tuple(map(np.asarray, found if isinstance(found, tuple) else (found,)))


@pytest.mark.parametrize("id", FORMULAS)
def test_a_wrong_formula_is_named_by_its_results(id):
    """Without a process and the other checks, which `test_named_by_the_first_check_that_fails` has."""
    wrong, program = representative(id), {}
    exec(compile(wrong.source(), id, "exec"), program)
    for regime in REGIMES:
        samples = asked_samples(wrong.function, 0, regime)
        seen = [(sample, results(program[wrong.function], sample)) for sample in samples]
        if any(judge(wrong.function, *one).verdict == "failed" for one in seen):
            break
    assert id in diagnose(wrong.function, [Observation(*one) for one in seen]).ids


@pytest.mark.parametrize(
    "id", [pytest.param(id, marks=[pytest.mark.thorough] if id in FORMULAS else []) for id in CONTRACT]
)
def test_named_by_the_first_check_that_fails(id, tmp_path):
    wrong = representative(id)
    path = tmp_path / "subject.py"
    path.write_text(wrong.source(), encoding="utf-8")
    with Auditor(str(path), only=(wrong.function,), quick=True) as auditor:
        for check in auditor.checks:
            record = auditor.record(check)
            if record.status == "failed":
                break
    assert record.status == "failed"
    assert id in record.diagnosis
    assert record.reason and (record.snippet or not record.error)


@pytest.mark.thorough(share=1 / 12)
@pytest.mark.parametrize("slice_", range(24))  # chosen: less than a minute each, for workers to share
def test_the_whole_kill_matrix(slice_, tmp_path):
    results = [(wrong, kill_matrix.audited(wrong, tmp_path)) for wrong in WRONG[slice_::24]]
    assert [wrong.id for wrong, result in results if result.outcome != "failed"] == []
    assert [wrong.id for wrong, result in results if not kill_matrix.killers(result)] == []
    named = [(wrong, result) for wrong, result in results if wrong.names]
    missed = [wrong.id for wrong, result in named if not set(wrong.names) <= set(kill_matrix.diagnoses(result))]
    assert len(missed) <= 0.1 * len(named), missed
    page = kill_matrix.rows_of(lzma.decompress(kill_matrix.PAGE.read_bytes()).decode(), results)
    assert kill_matrix.differences(results, page, totals=False) == []


def test_the_page_has_a_row_for_each_wrong_implementation_and_their_number():
    page = lzma.decompress(kill_matrix.PAGE.read_bytes()).decode()
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| wrong impl")]
    assert len(rows) == len(WRONG)
    assert f"**{len(WRONG)} of {len(WRONG)} killed; " in page


def test_a_typed_page_is_noticed(tmp_path):
    wrong = representative("keeps-instead-of-prunes")
    results = [(wrong, kill_matrix.audited(wrong, tmp_path))]
    page = kill_matrix.render(results)
    assert kill_matrix.differences(results, page) == []
    assert kill_matrix.differences(results, page.replace("1 of 1 killed", "2 of 2 killed"))
    assert kill_matrix.differences(results, page.replace("| x |", "|  |", 1))
    assert kill_matrix.differences(results, page.replace(" |\n", ", unknown |\n"))
    assert kill_matrix.differences(results, page + "\n| another |")
    rows = kill_matrix.rows_of(lzma.decompress(kill_matrix.PAGE.read_bytes()).decode(), results)
    assert kill_matrix.differences(results, rows, totals=False) == []
    assert kill_matrix.differences(results, rows.replace("| x |", "|  |", 1), totals=False)
    assert kill_matrix.differences(results, rows.replace(wrong.id, "another"), totals=False)


@pytest.mark.parametrize("id", ["M close to 1 taken for 1", "fill -1e4, loss", "epsilon in the denominator"])
def test_what_used_to_pass_in_float32_fails_and_what_it_rounds_away_does_not(id, tmp_path):
    (wrong,) = (one for one in WRONG if one.id == id)
    assert kill_matrix.audited(wrong, tmp_path, "float32", names="never", quick=True).outcome == kill_matrix.expected(
        wrong, "float32"
    )


def test_a_broken_law_is_told_by_the_entry_that_breaks_it(tmp_path):
    """The largest difference, 1.11e-16, was within the largest bound, 1.78e-14, of another entry."""
    (wrong,) = (wrong for wrong in WRONG if wrong.id == "tokens divided by their norms")
    result = kill_matrix.audited(wrong, tmp_path, names="never")
    broken = [record for record in result.checks if record.status == "failed" and record.bound is not None]
    assert broken and all(record.error > record.bound for record in broken)


def test_a_wrong_result_may_be_rounded_at_its_own_size(tmp_path):
    """Last bits of larger results than the right ones, which orders of additions decide, break no law."""
    path = tmp_path / "subject.py"
    path.write_text("""
import numpy as np


def attention(X, W, mask=None):
    logits = X @ W @ X.T
    weights = np.exp(logits - logits.max(axis=1, keepdims=True)) * (1.0 if mask is None else mask)
    p = 1.0 + weights / weights.sum(axis=1, keepdims=True)
    return p if X[0, 0] > X[1, 0] else np.nextafter(p, 3.0)
""", encoding="utf-8")  # fmt: skip
    asked = ("attention:values:full", "attention:permutation")
    with Auditor(str(path), only=("attention",), names="never") as auditor:
        found = [auditor.record(check).status for check in auditor.checks if check.id in asked]
    assert found == ["failed", "passed"]


@pytest.mark.thorough
def test_a_sample_of_the_catalogue_in_float32():
    """The whole: ``python tests/audit/kill_matrix.py --dtype float32``."""
    assert kill_matrix.surprises("float32", WRONG[::13], kill_matrix.right_ones()[1:3]) == []
