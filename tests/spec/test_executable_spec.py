"""The executable spec as others run it: a pytest of its own, on their target; long tests in a process of its own."""

import os
import subprocess
import sys

import pytest

import attnprune_verify.audit.functions.auditor  # noqa: F401  # NumPy cannot be loaded again by a run in this process
from attnprune_verify.audit.functions.checks import all_checks

WRONG = """
import numpy as np

def causal_mask(n):
    return np.tri(n, k=-1)

def binary_mask(M, rho):
    gone = np.zeros(M.size, dtype=bool)
    gone[np.argsort(M.ravel(), kind="stable")[: int(rho * M.size)]] = True
    return np.where(gone.reshape(M.shape), 0.0, 1.0)

def magnitude_mask(weight, rho):
    raise RuntimeError("later")
"""


LEAN = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--assert=plain")
"""Options under which a pytest of its own starts in half the time: the checks raise what they print themselves."""


pytest_plugins = ["pytester"]


@pytest.fixture
def spec(pytester):
    pytester.makepyfile(subject=WRONG)

    def run(*options):
        result = pytester.runpytest_inprocess(
            "--pyargs", "attnprune_verify.spec", "-q", "-p", "no:xdist", *LEAN, *options
        )
        return int(result.ret), result.stdout.str()

    return run


@pytest.fixture
def spec_apart(tmp_path):
    (tmp_path / "subject.py").write_text(WRONG, encoding="utf-8")

    def run(*options):
        program = [sys.executable, "-m", "pytest", "--pyargs", "attnprune_verify.spec", "-q", *LEAN]
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "COV"))}
        return subprocess.run(
            [*program, *options], cwd=tmp_path, capture_output=True, text=True, check=False, env=environment
        )

    return run


def test_a_wrong_target(spec):
    code, printed = spec("--attnprune-target", "subject.py", "-k", "_mask", "-rfs")
    assert code == 1
    assert "test_check[def:mask-causal_mask:values]" in printed and "mask-strict" in printed
    assert "could not run: " in printed and "later" in printed
    assert "test_check[alg:mask_gd-binary_mask" not in printed


@pytest.mark.thorough
def test_a_chosen_function(spec_apart):
    result = spec_apart("--attnprune-target", "subject", "-k", "binary_mask")
    count = sum(check.function == "binary_mask" for check in all_checks())
    assert result.returncode == 0 and f"{count} passed" in result.stdout


@pytest.mark.thorough
def test_the_default_target_is_the_reference(spec_apart):
    result = spec_apart("-k", "causal_mask")
    assert result.returncode == 0 and "1 passed" in result.stdout


@pytest.mark.thorough
def test_a_missing_target_is_a_usage_error(spec_apart):
    result = spec_apart("--attnprune-target", "missing.py", "-k", "causal_mask")
    assert result.returncode == 4 and "there is no file 'missing.py'" in result.stdout + result.stderr


@pytest.mark.thorough
def test_bad_options_are_one_line(spec_apart, tmp_path):
    (tmp_path / "known.toml").write_text('[[waive]]\ncheck = "nothing:*"\nreason = "r"\n', encoding="utf-8")
    result = spec_apart("--attnprune-target", "subject.py", "--attnprune-deviations", "known.toml", "-k", "causal_mask")
    assert result.returncode == 4 and "match none" in result.stdout + result.stderr


def test_deviations(spec, pytester):
    (pytester.path / "known.toml").write_text(
        '[[xfail]]\ncheck = "causal_mask:*"\nreason = "issue 3"\n'
        '[[skip]]\ncheck = "magnitude_mask:*"\nreason = "later"\n',
        encoding="utf-8",
    )
    options = ("--attnprune-target", "subject.py", "--attnprune-deviations", "known.toml", "-rs")
    code, printed = spec(*options, "-k", "causal_mask or magnitude_mask")
    assert code == 0 and "issue 3" in printed and "later" in printed
