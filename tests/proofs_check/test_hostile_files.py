"""A hostile file is rejected for a stated reason after bounded work."""

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from proofs_check.checker import blocks, judge_bytes, judge_file, pivots
from proofs_check.checker import questions as q
from proofs_check.checker.reject import Reject

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "proofs_check" / "certificates" / "PL_ineq-refutation-interior-mask.json").read_text()


def tampered(**inputs: Any) -> bytes:
    document = json.loads(TEXT)
    document["inputs"] |= inputs
    return json.dumps(document).encode()


LONG = "7" * 1999
MANY = ",".join(f'"{k:x}":1' for k in range(25_000))
HOSTILE = {
    "many keys, the last one twice": (f'{{{MANY},"z":1,"z":1}}'.encode(), "duplicate key 'z'"),
    "empty": (b"", "not JSON"),
    "not UTF-8": (b"\xff\xfe{}", "not UTF-8"),
    "a list": (b"[]", "must be an object"),
    "null": (b"null", "must be an object"),
    "deep lists": (b"[" * 200_000, "nested deeper"),
    "deep objects": (b'{"a":' * 50_000, "nested deeper"),
    "huge integer": (b'{"schema":' + b"9" * 250_000 + b"}", "at most 12 digits"),
    "float": (b'{"schema":1.5}', "integers or 'p/q'"),
    "exponent": (b'{"schema":1e999999999}', "integers or 'p/q'"),
    "NaN": (b'{"schema":NaN}', "integers or 'p/q'"),
    "Infinity": (b'{"schema":-Infinity}', "integers or 'p/q'"),
    "duplicate key": (TEXT.replace('"kind"', '"schema"').encode(), "duplicate key"),
    "too long": (TEXT.encode() + b" " * 300_000, "at most 300000 bytes"),
    "too many digits": (tampered(beta="1/" + "9" * 2001), "more than 2000 digits"),
    "W as text": (tampered(W="many"), "must be a list"),
    "W as numbers": (tampered(W=[[1, 1], [1, 1]]), "'p/q'"),
    "ragged W": (tampered(W=[["1"], ["1", "1"]]), "2 entries"),
    "null X": (tampered(X=None), "must be a list"),
    "other digits": (tampered(beta="\u0661/1"), "'p/q'"),
    "blank": (tampered(beta=" 1/1"), "'p/q'"),
    "line break": (tampered(beta="1/1\n"), "'p/q'"),
    "long but legal": (tampered(W=[[f"{LONG}/{LONG[:-1]}"] * 2] * 2), "not true"),
    "n as a list": (tampered(n=[2]), "integer"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_rejected_with_its_reason(name: str) -> None:
    content, reason = HOSTILE[name]
    verdict = judge_bytes(content)
    assert not verdict.accepted
    assert reason in verdict.reason
    assert "broke down" not in verdict.reason
    assert len(verdict.reason) < 200


def test_long_pivots_are_compared_not_computed_with() -> None:
    document = json.loads(TEXT)
    document["hypotheses"]["psd_pivots"] = ["1" * 99_999 + "/7", "0/1"]
    assert "psd_pivots" in judge_bytes(json.dumps(document).encode()).reason


def test_a_claim_far_narrower_than_any_need_is_bounded_work() -> None:
    """Deciding whether the number lies in an interval 10^-90000 wide would need 300,000 bits: not attempted."""
    document = json.loads(TEXT)
    low = document["quantities"]["lhs"][0]
    document["quantities"]["lhs"] = [low, low + "0" * 90_000]
    assert not judge_bytes(json.dumps(document).encode()).accepted


def test_precisions_stop() -> None:
    for operations in (10, 10**6, 10**9):
        tried = list(q.precisions([], operations, 100))
        assert tried[0] == q.FIRST_BITS
        assert max(tried) <= q.LAST_BITS
    assert len(list(q.precisions([], 10**9))) == 1


def test_common_denominators_too_long_for_exact_elimination() -> None:
    rows = [[f"1/{10**9 + 7 * (64 * i + j) + 1}" for j in range(64)] for i in range(64)]
    content = tampered(n=64, d=64, X=rows, W=[["1"] * 64] * 64, M=[["1"] * 64] * 64)
    document = json.loads(content)
    document["hypotheses"]["psd_pivots"] = ["1"] * 64
    verdict = judge_bytes(json.dumps(document).encode())
    assert "too long" in verdict.reason


def test_nothing_long_is_multiplied_before_the_length_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long denominator of beta alone makes every entry of X long: X X^T would take half a minute."""
    monkeypatch.setattr(pivots, "mul", lambda p, q: pytest.fail("X X^T was computed"))
    rows = [[Fraction(64 * i + j, 10**9 + i + j) for j in range(64)] for i in range(64)]
    with pytest.raises(Reject, match="too long"):
        pivots.gram_pivots(rows, Fraction(1, 10**1900 + 1))


@pytest.mark.parametrize("path", ["/dev/zero", "/", "/no/such/file"])
def test_odd_paths(path: str) -> None:
    assert not judge_file(Path(path)).accepted


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    command = [sys.executable, "-m", "proofs_check", str(tmp_path / "pipe.json")]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 3
    assert "UNDECIDED pipe.json: not a regular file" in run.stdout


@pytest.mark.parametrize("name", [b"x\xff.json", b"x\nACCEPT y.json", "\u00e9.json".encode()])
def test_a_name_cannot_break_or_forge_a_line(tmp_path: Path, name: bytes) -> None:
    (tmp_path / os.fsdecode(name)).write_bytes(b'{"\\ud800": 1}')
    command = [sys.executable, "-m", "proofs_check", os.fsencode(tmp_path) + b"/" + name]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    assert (run.returncode, run.stderr) == (1, "")
    lines = run.stdout.splitlines()
    assert len(lines) == 2 and lines[0].startswith("REJECT x" if name[:1] == b"x" else "REJECT ")


def stored(name: str, **inputs: Any) -> bytes:
    document = json.loads((ROOT / "proofs_check" / "certificates" / f"{name}.json").read_text())
    document["inputs"] |= inputs
    return json.dumps(document).encode()


EMPTY = {
    "a delta nobody reports": stored("reported_delta-refutation", n=10, delta="99/1"),
    "a lambda nobody uses": stored("supports_theory-refutation-n-128", n=1, d=1, **{"lambda": "1" + "0" * 50}),
    "another model's heads": stored("square_weights-refutation", key_heads=1, query_heads=2),
    "a model of size one": stored("whole_model_ratio-refutation", d=1, key_columns=1, inner=1, layers=1, vocabulary=1),
    "another step": stored("lam_in_unit_interval-refutation-divergent-step", eta="100/1"),
    "another sweep": stored("step_size-refutation", lambda_large="1/1"),
    "a batch of another strength": stored("batch_regulariser-refutation", **{"lambda": "1/3"}),
}


@pytest.mark.parametrize("name", EMPTY)
def test_what_the_paper_reports_cannot_be_chosen(name: str) -> None:
    """Such a certificate is true arithmetic about numbers of its own: it says nothing about the paper."""
    verdict = judge_bytes(EMPTY[name])
    assert not verdict.accepted and "must be what the paper reports" in verdict.reason


def test_a_weight_of_zero_is_outside_the_statement() -> None:
    verdict = judge_bytes(tampered(W=[["0/1", "1/100"], ["1/100", "1/100"]]))
    assert not verdict.accepted and "no zero entry" in verdict.reason


def test_an_instance_that_satisfies_an_inequality_is_called_one() -> None:
    name = "PL_ineq-confirmation-attained"
    verdict = judge_file(ROOT / "proofs_check" / "certificates" / f"{name}.json")
    assert verdict.accepted and verdict.reason.startswith("lem:PL_ineq: instance: ")


def test_many_long_denominators_are_refused_before_they_are_summed() -> None:
    """1,600 distinct denominators of thirty digits: their sum has a common denominator of 150,000 bits."""
    d = 40
    W = [[f"1/{10**29 + 2 * (d * a + b) + 1}" for b in range(d)] for a in range(d)]
    ones = [["1/1"] * d for _ in range(d)]
    verdict = judge_bytes(
        tampered(n=2, d=d, X=[["1/1"] + ["0/1"] * (d - 1), ["0/1", "1/1"] + ["0/1"] * (d - 2)], W=W, M=W)
    )
    assert not verdict.accepted and "too long for exact" in verdict.reason
    assert "too long" not in judge_bytes(tampered(n=2, d=d, X=[["1/1"] * d] * 2, W=ones, M=ones)).reason


@pytest.mark.parametrize("arguments", [["BAD.json", "--help"], ["-h", "BAD.json"], ["--help", "-h"]])
def test_help_beside_files_checks_nothing_and_says_so(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "proofs_check", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "stands alone" in done.stderr and done.stdout == ""


def test_a_long_descent_is_refused_before_it_is_walked() -> None:
    """2,000 steps with n = d = 4 took seven seconds."""
    entries = [["1/2", "1/3", "1/5", "1/7"]] * 4
    descent = stored("mask_stays_in_box-refutation", n=4, d=4, X=entries, W=entries, t=2000, eta="1/1000")
    assert "more work than is allowed" in judge_bytes(descent).reason
    blocks.require_affordable(400, 2, 2)
    with pytest.raises(Reject, match="more work"):
        blocks.require_affordable(400, 8, 8)


def test_a_regulariser_has_short_entries() -> None:
    """512 distinct denominators of 280 digits took ten seconds at 300 kB."""
    long = [[f"1/{10**30 + i}", "1/1"] for i in range(2)]
    assert "at most 20 digits" in judge_bytes(stored("new_loss-confirmation", M_Q=long)).reason
