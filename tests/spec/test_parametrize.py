"""`parametrize_with_checks` in someone's own suite: one test a check, chosen by -k; known failures with reasons."""

import subprocess
import sys

import pytest

import attnprune_verify.audit.functions.auditor
import attnprune_verify.audit.kernel.auditor  # noqa: F401  # NumPy cannot be loaded again by a run in this process
from attnprune_verify.audit.functions.checks import chosen_checks
from attnprune_verify.spec import decorator, parametrize_with_checks
from tests.spec.test_executable_spec import LEAN

pytest_plugins = ["pytester"]

SUBJECT = """
import numpy as np

def causal_mask(n):
    return np.tri(n, k=-1)

def wanda_mask(weight, X, rho, *, prune_n=0, prune_m=0):
    import attnprune_verify as apv
    return apv.wanda_mask(weight, X, rho, prune_n=prune_n, prune_m=prune_m)
"""
OF_MASK, OF_WANDA = (len(chosen_checks((name,))) for name in ("causal_mask", "wanda_mask"))
ALL = OF_MASK + OF_WANDA
SUITE = """
import subject
from attnprune_verify.spec import parametrize_with_checks

@parametrize_with_checks({target}, {options})
def test_contract(check):
    check()
"""


@pytest.fixture
def suite(pytester, monkeypatch):
    pytester.makepyfile(subject=SUBJECT)
    monkeypatch.syspath_prepend(pytester.path)

    def run(*options, target='"subject"', keywords="", **others):
        sys.modules.pop("subject", None)
        pytester.makepyfile(test_suite=SUITE.format(target=target, options=keywords))
        return pytester.runpytest_inprocess("-p", "no:xdist", *LEAN, *options, **others)

    return run


def test_one_test_a_check_with_its_name(suite):
    result = suite("-v")
    result.assert_outcomes(passed=ALL - 1, failed=1)
    result.stdout.fnmatch_lines(["*test_contract?causal_mask:values? FAILED*", "*mask-strict*"])
    assert "binary_mask" not in result.stdout.str()  # which the target has not


@pytest.mark.parametrize("target", ["subject", "subject.wanda_mask", '{"wanda_mask": subject.wanda_mask}'])
def test_live_objects_and_k(suite, target):
    result = suite("-v", "-k", "wanda_mask and untouched", target=target)
    result.assert_outcomes(passed=1, deselected=(ALL if target == "subject" else OF_WANDA) - 1)


def test_a_check_alone_is_asked_something_first(suite):
    """What looks at all calls has some to look at; without them it could not run."""
    for name in ("inputs-untouched", "results-kept"):
        suite("-k", name).assert_outcomes(passed=1, deselected=ALL - 1)


def test_known_failures(suite):
    known = suite("-rs", keywords='expected_failed_checks={"causal_mask:*": "issue 3"}')
    known.assert_outcomes(passed=ALL - 1, skipped=1)
    known.stdout.fnmatch_lines(["*waived: issue 3 (failed:*"])
    passes = suite(keywords='expected_failed_checks={"wanda_mask:ties": "issue 4"}', target='"subject"')
    passes.assert_outcomes(passed=ALL - 2, failed=2)
    passes.stdout.fnmatch_lines(["*'wanda_mask:ties' says it must fail*"])
    suite(keywords='expected_failed_checks={"loss:*": "none such"}').stdout.fnmatch_lines(["*match none*"])


def test_only_and_a_missing_target(suite):
    suite(keywords='only=("wanda_mask:values",), dtype="float32"').assert_outcomes(passed=1)
    missing = suite(target='"subject_that_is_not"')
    missing.assert_outcomes(errors=1)
    missing.stdout.fnmatch_lines(["*must be importable*"])


def test_a_kernel(suite, pytester):
    pytester.makepyfile(
        test_kernel=(
            "import numpy as np\n"
            "from attnprune_verify.spec import parametrize_with_kernel_checks\n\n"
            "def attention(q, k, v):\n"
            "    return np.zeros(v.shape, v.dtype)\n\n"
            "@parametrize_with_kernel_checks(attention, expected_failed_checks={'attention:shape': 'a wrong guess'})\n"
            "def test_kernel(check):\n"
            "    check()\n"
        )
    )
    result = suite("test_kernel.py", "-k", "attention:shape or attention:values:plain")
    assert result.ret == 1 and result.parseoutcomes()["failed"] >= 1


def test_the_process_ends_with_the_run(suite):
    suite("-k", "ties")
    assert decorator._open == []


def test_the_decorator_itself(tmp_path):
    path = tmp_path / "subject.py"
    path.write_text(SUBJECT, encoding="utf-8")
    mark = parametrize_with_checks(str(path), only=("causal_mask",))
    (parameter,) = mark.args[1]
    (check,) = parameter.values
    assert parameter.id == check.__name__ == "causal_mask:values" and repr(check) == "<check causal_mask:values>"
    with pytest.raises(pytest.fail.Exception, match="mask-strict"):
        check()
    decorator.close_all()


def test_the_plugin_stays_light():
    program = (
        "import sys, attnprune_verify.spec.plugin; print([m for m in ('numpy', 'flint', 'scipy') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"
