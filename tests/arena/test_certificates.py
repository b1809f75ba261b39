"""Class K: certificates that are true and prove nothing, and what the exit code of the checkers reports of them."""

import subprocess
import sys
from pathlib import Path

import pytest

from proofs_check import both
from proofs_check.__main__ import CERTIFICATES
from proofs_check.checker import judge_bytes
from proofs_check.corpus import of_empty_instances
from proofs_check.corpus.parts import invalid
from tests.arena.catalogue import attack

ROOT = Path(__file__).resolve().parents[2]
TRAPS = {trap.name: trap for trap in of_empty_instances.traps()}


@pytest.fixture(scope="module")
def program() -> Path:
    if missing := both.missing_tool():
        pytest.skip(f"the second checker cannot be built: no {missing}")
    return both.build()


def refused_by_both(program: Path, *names: str) -> None:
    with both.SecondChecker(program) as second:
        for name in names:
            verdicts = judge_bytes(TRAPS[name].content), second.judge(TRAPS[name].content)
            assert [verdict.word for verdict in verdicts] == ["REJECT", "REJECT"], name


@attack("K", "alg:mask_gd is refuted at rho = 0, at rho = 1 or for a single entry",
        stopped_by="proofs_check.checker.statements.thresholding:check_printed", quick=True)  # fmt: skip
def test_thresholds(program: Path) -> None:
    refused_by_both(program, "threshold-at-rho-0", "threshold-at-rho-1", "threshold-of-one-entry")


@attack("K", "alg:mask_gd is refuted only at the ratios 0 and 1 of a longer list",
        stopped_by="proofs_check.checker.statements.thresholding:check_printed")  # fmt: skip
def test_thresholds_hidden_in_a_list(program: Path) -> None:
    refused_by_both(program, "threshold-at-rho-0-and-1", "threshold-wrong-at-the-ends-alone")


@attack("K", "def:attn_prun is refuted where everything is to be pruned, or a mask has one entry",
        stopped_by="proofs_check.checker.statements.misprints:_nothing_pruned")  # fmt: skip
def test_problem(program: Path) -> None:
    refused_by_both(program, "problem-that-prunes-everything", "problem-of-one-feature")


@attack("K", "exp of a logit overflows where there is one token, or all tokens are equal",
        stopped_by="proofs_check.checker.statements.comparison:require_movable")  # fmt: skip
def test_overflow(program: Path) -> None:
    refused_by_both(program, "overflow-of-one-token", "overflow-of-equal-tokens")


@attack("K", "rem:practical (beta) is refuted by tokens that are 0, equal or parallel",
        stopped_by="proofs_check.checker.statements.practical:rank_modulo")  # fmt: skip
def test_beta(program: Path) -> None:
    refused_by_both(program, "remark-beta-of-tokens-0", "remark-beta-of-equal-tokens", "remark-beta-of-parallel-tokens")


@attack("K", "rem:practical (delta) is refuted where no mask changes the attention",
        stopped_by="proofs_check.checker.statements.comparison:require_movable")  # fmt: skip
def test_delta(program: Path) -> None:
    refused_by_both(program, "remark-delta-of-tokens-0", "remark-delta-of-equal-tokens", "remark-delta-without-weights")


def test_exit_code_tells_undecided_from_rejected(program: Path, tmp_path: Path) -> None:
    """An exponential beyond the limit cannot be judged; a document without the keys of a certificate is rejected."""
    files = {
        "undecided": invalid()["floor-needs-a-huge-exponential.json"],
        "rejected": b"{}",
        "accepted": (CERTIFICATES / "practical-confirmation-causal.json").read_bytes(),
    }
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_bytes(content)
    for command in ([sys.executable, "-m", "proofs_check"], [str(program)]):
        for names, code in ((["accepted"], 0), (["accepted", "undecided"], 3), (["undecided", "rejected"], 1)):
            run = subprocess.run([*command, *(str(tmp_path / f"{name}.json") for name in names)], cwd=ROOT,
                                 capture_output=True, text=True, check=False)  # fmt: skip
            assert run.returncode == code, (command, names, run.stdout)
