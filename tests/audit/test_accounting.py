"""Outcomes, waivers, and that no check is lost."""

import re
from pathlib import Path

import numpy as np
import pytest

import attnprune_verify as apv
from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.audit.functions.checks import all_checks, selection
from attnprune_verify.audit.functions.run import run_audit
from attnprune_verify.audit.functions.truth.reference import Component
from attnprune_verify.audit.functions.truth.tolerance import compare
from attnprune_verify.audit.kernel import auditor as kernel_auditor
from attnprune_verify.audit.kernel.checks import behaviour
from attnprune_verify.audit.kernel.run import run_kernel_audit
from attnprune_verify.audit.record import Record
from attnprune_verify.audit.result import outcome_of
from attnprune_verify.audit.waivers import load_waivers
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.report.audit_findings import closing_sentence

HERE = Path(__file__).parent / "kernel"

WRONG = "import numpy as np\ndef causal_mask(n):\n    return np.tri(n, k=-1)\n"
RIGHT = "import numpy as np\ndef causal_mask(n):\n    return np.tri(n)\n"


def record(status, required=False):
    return Record("loss:x", "loss", None, "says", required, status, "reason")


@pytest.mark.parametrize(
    ("statuses", "outcome"),
    [
        (["passed"], "passed"),
        (["passed", "not_applicable", "waived"], "passed"),
        (["passed", "inconclusive"], "passed"),
        (["passed", "could_not_run"], "incomplete"),
        (["passed", "failed", "could_not_run"], "failed"),
        (["passed", "could_not_judge"], "incomplete"),
        (["not_applicable"], "incomplete"),
        (["waived"], "incomplete"),
        ([], "incomplete"),
    ],
)
def test_outcome(statuses, outcome):
    records = tuple(record(status) for status in statuses)
    assert outcome_of(records, len(records)) == outcome


def test_a_missing_check_or_an_undecided_required_one_is_incomplete():
    assert outcome_of((record("passed"),), 2) == "incomplete"
    assert outcome_of((record("passed"), record("inconclusive", required=True)), 2) == "incomplete"


def test_ids_are_unique_and_every_function_has_a_required_check():
    checks = all_checks()
    assert len({check.id for check in checks}) == len(checks)
    assert {check.function for check in checks if check.required} == set(FUNCTIONS)
    of_floats = {check.function for check in checks if check.id.endswith(":precision")}
    assert of_floats == set(FUNCTIONS) - {
        "causal_mask",
        "wanda_mask",
        "pruner",
    }  # which compute nothing that is returned
    assert all(check.says and check.id.startswith(f"{check.function}:") for check in checks)


@pytest.fixture
def files(tmp_path):
    def write(source, toml):
        (tmp_path / "subject.py").write_text(source, encoding="utf-8")
        (tmp_path / "deviations.toml").write_text(toml, encoding="utf-8")
        return {
            "target": str(tmp_path / "subject.py"),
            "deviations": tmp_path / "deviations.toml",
            "only": ("causal_mask",),
        }

    return write


@pytest.mark.parametrize("kind", ["waive", "xfail", "skip"])
def test_a_waived_failure_does_not_fail_but_is_never_green_by_itself(files, kind):
    result = run_audit(**files(WRONG, f'[[{kind}]]\ncheck = "causal_mask:*"\nreason = "issue 17"\n'))
    (found,) = result.checks
    assert found.status == "waived" and "issue 17" in found.reason
    assert result.outcome == "incomplete"


def test_a_waiver_that_passes_is_kept_but_an_xfail_is_stale(files):
    assert run_audit(**files(RIGHT, '[[waive]]\ncheck = "causal_mask:values"\nreason = "r"\n')).outcome == "passed"
    with pytest.raises(InvalidInstance, match="must fail"):
        run_audit(**files(RIGHT, '[[xfail]]\ncheck = "causal_mask:values"\nreason = "r"\n'))


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        (
            '[[skip]]\ncheck = "causal_mask:*"\nreason = "r"\n[[xfail]]\ncheck = "causal_mask:*"\nreason = "r"',
            r"every check once; got 'causal_mask:\*' in \[\[skip\]\] and \[\[xfail\]\]",
        ),
        ('[[waive]]\ncheck = "causal_mask:valeus"\nreason = "r"\n', "match none"),
        ('[[waive]]\ncheck = "loss:*"\nreason = "the target has no loss"\n', "match none"),
        ('[[waive]]\ncheck = "*"\n', "a check and a reason"),
        ('[[waive]]\ncheck = "*"\nreason = " "\n', "a check and a reason"),
        ('[[waive]]\ncheck = "*"\nreason = "r"\nsince = 3\n', "a check and a reason"),
        ('[waive]\ncheck = "*"\nreason = "r"\n', r"a list \[\[waive\]\]"),
        ('[[wave]]\ncheck = "*"\nreason = "r"\n', "entries only; got wave"),
        ("waive = 3\n", "a list"),
        ("[[", "be TOML"),
    ],
)
def test_bad_deviations(files, toml, said):
    with pytest.raises(InvalidInstance, match=said):
        run_audit(**files(RIGHT, toml))


def test_an_unreadable_file_is_one_line(tmp_path):
    for path in (tmp_path, tmp_path / "missing.toml"):
        with pytest.raises(InvalidInstance, match="be readable"):
            load_waivers(path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInstance, match="be TOML"):
        load_waivers(tmp_path / "binary.toml")


def test_skip_does_not_call(files, tmp_path):
    marker = tmp_path / "called"
    source = RIGHT.replace("    return", f"    open({str(marker)!r}, 'w').close()\n    return")
    run_audit(**files(source, '[[skip]]\ncheck = "causal_mask:*"\nreason = "slow"\n'))
    assert not marker.exists()


@pytest.mark.parametrize("error", [IndexError, KeyError, RuntimeError, AssertionError])
@pytest.mark.parametrize(
    ("broken", "audit", "target"),
    [
        (f"{selection.__name__}.judge_zeros", run_audit, "magnitude_mask:values"),
        (f"{behaviour.__name__}._gap", run_kernel_audit, "attention:repeated"),
        (f"{kernel_auditor.__name__}.KernelAuditor._explained", run_kernel_audit, "attention:shape"),
    ],
)
def test_an_error_of_a_judge_is_ours_and_not_the_targets(monkeypatch, error, broken, audit, target):
    monkeypatch.setattr(broken, _raises(error))
    result = audit(f"{HERE / 'wrong' / 'textbook.py'}" if audit is run_kernel_audit else apv, only=target)
    (record,) = [one for one in result.checks if one.status != "not_applicable"]
    if "_explained" in broken:
        assert record.status == "passed" and "attnprune-verify itself failed" in record.words
        return
    assert record.status == "could_not_judge" and "attnprune-verify itself failed" in record.reason
    assert (result.outcome, result.exit_code) == ("incomplete", 3) and "nobody foresaw" in record.reason
    assert "1 broke attnprune-verify itself" in closing_sentence(result)


def test_a_right_loss_that_rounds_another_way_where_the_truth_is_zero(tmp_path):
    """A loss by blocks of rows is not exactly 0 at M = 1, and a sentence about it divided by a resolution of 0."""
    zero = Component(np.array(0.0), np.array(0.0), np.array(1e-15))
    assert compare(np.array(1e-16), zero, 0.0, 2.0**-53, 5).verdict == "passed"
    assert compare(np.array(1e-14), zero, 0.0, 2.0**-53, 5).verdict == "failed"


def test_the_same_seed_gives_the_same_report(tmp_path):
    path = tmp_path / "subject.py"
    path.write_text(WRONG, encoding="utf-8")
    one, two = (run_audit(str(path), seed=3, only=("causal_mask",)).as_dict() for _ in range(2))
    assert one == two


def _raises(error):
    def raising(*_, **__):
        raise error("nobody foresaw this output")

    return raising


SEARCHED = {
    "wanda_mask(weight, X, rho, **_): return weight > 0": "wanda._wrong_choices smaller.smallest",
    "magnitude_mask(weight, rho): return weight > 0": "selection._wrong_choices",
    "sparsegpt(weight, X, rho, **_): return 2 * weight": """sparsegpt_mistakes._candidates ..namer.Namer._memory_of
        ..auditor.as_code ..probes.coarser_sparsegpt ..probes.layers ..probes._shown_precision""",
    "prune_mask_gd(X, W, *_, **__): return type('', (), {'M': W, 'mask': W > 0})": "descent_mistakes._programs",
    "loss(M, X, W, *_): return abs(M).sum() ** 1.1": """..namer.diagnose ..namer.judge ..namer.needed smaller.judge
        ..namer.by_experiment ..namer.FailingCase.passes ..naming.mechanisms.judge ..namer.Namer.on_smaller
        ..namer.Namer.settled""",
}
LONG = pytest.mark.thorough(share=1 / 4)


@pytest.mark.parametrize(
    ("place", "source"),
    [
        pytest.param(place, source, id=place, marks=() if place.endswith(("choices", "s._programs")) else LONG)
        for source, places in SEARCHED.items()
        for place in places.split()
    ],
)
def test_an_error_of_ours_is_told_and_changes_no_verdict(monkeypatch, tmp_path, place, source):
    """A wrong program passed as incomplete where a search raised; experiments and probes swallowed our errors."""
    path, error = tmp_path / "subject.py", (IndexError, ZeroDivisionError, KeyError, MemoryError)[len(place) % 4]
    path.write_text(f"def {source}\n", encoding="utf-8")
    monkeypatch.setattr(f"attnprune_verify.audit.functions.checks.{place}".replace("checks...", ""), _raises(error))
    wrong, right = (run_audit(one, only=source.partition("(")[0], quick=True) for one in (str(path), apv))
    assert (wrong.exit_code, right.exit_code) == ((3, 3) if "probes" in place else (1, 0))
    assert not [one for one in wrong.checks if one.status == "could_not_run"]
    ours = re.compile(
        f"attnprune-verify itself failed, not the target, while it .*: {error.__name__}: '?nobody foresaw"
    )
    assert any(ours.match(one.words.rpartition("; ")[2] or one.reason) for one in wrong.checks)
