"""``attnprune-verify check`` as its users meet it."""

import json
import math
import os
import pty
import re
import subprocess
import sys
from importlib.resources import files

import jsonschema
import numpy as np
import pytest

from attnprune_verify import check as checking
from attnprune_verify.check import run_check
from attnprune_verify.cli.main import main
from attnprune_verify.instance.families import FAMILIES
from attnprune_verify.instance.npz import save_instance
from attnprune_verify.instance.problem import Instance
from attnprune_verify.oracle.verdict import ORACLES

SCHEMA = json.loads(files("attnprune_verify.report").joinpath("schemas/check.schema.json").read_text(encoding="utf-8"))
COUNTEREXAMPLE = Instance(np.eye(2), 0.1 * np.array([[1, -1], [-1, 1]]), M=np.zeros((2, 2)))


@pytest.fixture
def cli(capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return end.value.code, captured.out, captured.err

    return run


def as_json(text):
    def refuse(name):
        raise AssertionError(f"{name} is not strict JSON")

    report = json.loads(text, parse_constant=refuse)
    jsonschema.validate(report, SCHEMA)
    return report


@pytest.fixture
def saved(tmp_path):
    def save(instance):
        path = tmp_path / "instance.npz"
        save_instance(path, instance)
        return path

    return save


@pytest.fixture
def run_once(monkeypatch):
    """The second report of a test shows the result of the first run."""
    results = []

    def once(instance, **options):
        if not results:
            results.append(run_check(instance, **options))
        return results[0]

    monkeypatch.setattr("attnprune_verify.check.run_check", once)


@pytest.mark.usefixtures("run_once")
def test_default_instance_is_the_papers_and_its_failed_assumptions_come_first(cli):
    """JSON and text list the instance and the failed assumptions."""
    code, out, _ = cli("check", "--format", "json")
    report = as_json(out)
    assert code == 0 and report["outcome"] == "passed"
    assert report["instance"] == {"n": 128, "d": 64, "k": None, "mask": "causal", "lam": 0.04}
    flags = {a["id"]: a["holds"] for a in report["assumptions"]}
    assert list(flags)[:2] == ["beta", "delta"]
    assert not flags["beta"] and not flags["delta"] and flags["delta-allowed"] and flags["W-nonzero"]
    allowed = {a["id"]: a for a in report["assumptions"]}["delta-allowed"]
    assert allowed["log10"] < -300 and math.isfinite(allowed["log10"])
    assert [v["oracle"] for v in report["gradient"]] == [oracle.name for oracle in ORACLES]
    assert {"autodiff", "taylor-slope", "multiprecision", "ball"} <= {oracle.name for oracle in ORACLES}
    assert {v["status"] for v in report["gradient"]} == {"passed"}
    assert report["theorem"]["applies"] is False
    statuses = {b["id"]: b["status"] for b in report["bounds"]}
    assert statuses["lem:PL_ineq"] == "not_applicable" and statuses["fix:lip_grad_l"] == "holds"

    code, out, err = cli("check")
    assert code == 0 and err == ""
    lines = [line for line in out.splitlines() if line.strip()]
    assert "n = 128, d = 64" in lines[0] and "causal" in lines[0] and "lam = 0.04" in lines[0]
    assert "fail" in lines[1] and "beta" in lines[1] and "delta" in lines[1] and "delta-allowed" not in lines[1]
    assert lines[-1].endswith("Outcome: passed.")


def test_the_papers_pl_bound_is_violated_and_the_corrected_one_holds(cli, saved):
    code, out, _ = cli("check", saved(COUNTEREXAMPLE), "--format", "json")
    report = as_json(out)
    bounds = {b["id"]: b for b in report["bounds"]}
    assert code == 0
    assert bounds["lem:PL_ineq"]["status"] == "violated" and bounds["lem:PL_ineq"]["lhs"] < bounds["lem:PL_ineq"]["rhs"]
    assert bounds["fix:PL_ineq"]["status"] == "holds" and bounds["thm:lip_grad_l"]["status"] == "holds"


@pytest.mark.parametrize("given", [True, False], ids=["M given", "no M"])
def test_what_costs_too_much_says_how_much_effort_it_needs_and_that_is_enough(cli, saved, given):
    """Without M the smaller part of the effort goes to M = 1, which is what the advice has to reckon with."""
    rng = np.random.default_rng(3)
    M = rng.uniform(0.1, 0.9, (6, 6)) if given else None
    path = saved(Instance(rng.standard_normal((9, 6)), 0.3 * rng.standard_normal((6, 6)), M=M))
    code, text, _ = cli("check", path, "--effort", "5e-4" if given else "1.5e-3")
    (wanted,) = re.findall(r"--effort (\S+) lets them run", " ".join(text.split()))
    assert code == 3 and "(multiprecision, ball)" in text and "not run: nominally" in text
    report = as_json(cli("check", path, "--effort", wanted, "--format", "json")[1])
    assert report["outcome"] == "passed" and float(wanted) < 1
    code, out, _ = cli("check", path, "--effort", float(wanted) / 1.3, "--format", "json")
    left = {one["oracle"]: one["note"] for one in as_json(out)["gradient"] if one["status"] == "inconclusive"}
    assert code == 3 and f"an effort of {wanted} is enough" in left["multiprecision"]


@pytest.mark.parametrize("effort", ["0", "-1", "nan", "inf"])
def test_no_effort_is_refused(cli, effort):
    code, out, err = cli("check", "--effort", effort)
    assert code == 2 and out == "" and "effort must be finite and > 0" in err


def test_strict_turns_a_failed_assumption_into_a_failure(cli, saved):
    path = saved(FAMILIES["more_tokens_than_features"](np.random.default_rng(0)))
    assert cli("check", path)[0] == 0
    code, out, _ = cli("check", path, "--strict", "--format", "json")
    assert code == 1 and as_json(out)["outcome"] == "failed"


@pytest.mark.usefixtures("run_once")
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_every_family_passes_as_text_and_in_strict_json(cli, saved, name):
    sizes = {"n": 10, "d": 6} if name == "paper_synthetic" else {}
    path = saved(FAMILIES[name](np.random.default_rng(1), **sizes))
    code, out, err = cli("check", path)
    assert code in (0, 3) and err == "" and "Outcome:" in out.splitlines()[-1] and "Traceback" not in out
    code, out, _ = cli("check", path, "--format", "json")
    report = as_json(out)
    assert {v["status"] for v in report["gradient"]} <= {"passed", "inconclusive"}
    assert code == {"passed": 0, "incomplete": 3}[report["outcome"]]
    assert {b["status"] for b in report["bounds"] if b["id"].startswith("fix:")} <= {
        "holds",
        "not_applicable",
        "undecided",
    }


def test_a_batch_and_a_float32_pair(cli, saved):
    rng = np.random.default_rng(2)
    batch = Instance(rng.standard_normal((3, 4, 6)), 0.1 * rng.standard_normal((6, 6)), mask="causal", lam=0.1)
    assert as_json(cli("check", saved(batch), "--format", "json")[1])["instance"]["k"] == 3
    X, W_Q, W_K = (rng.standard_normal(shape).astype("f4") for shape in ((4, 6), (6, 2), (6, 2)))
    code, out, _ = cli("check", saved(Instance(X, W_Q=W_Q, W_K=W_K)), "--format", "json")
    assert code == 0 and as_json(out)["outcome"] == "passed"  # float32 data, judged at full power


def test_impossible_beta_and_delta_are_flagged(cli, saved):
    path = saved(FAMILIES["benign"](np.random.default_rng(0)))
    code, out, _ = cli("check", path, "--beta", "1e9", "--delta", "0.9", "--format", "json")
    flags = {a["id"]: a for a in as_json(out)["assumptions"]}
    assert code == 0 and not flags["beta"]["holds"] and not flags["delta"]["holds"]
    assert "impossible" in flags["delta"]["reason"] and "1/4" in flags["delta"]["reason"]


def test_quiet_is_one_sentence(cli, saved):
    code, out, err = cli("check", saved(COUNTEREXAMPLE), "--quiet")
    assert code == 0 and err == "" and out.count("\n") == 1 and out.endswith("Outcome: passed.\n")


@pytest.mark.parametrize(
    ("wrong", "status"),
    [(lambda g: -g, "failed"), (lambda g: g * 1.001, "failed"), (lambda g: g * float("nan"), "failed")],
)
def test_a_wrong_gradient_fails_with_exit_code_1(cli, saved, monkeypatch, wrong, status):
    true = checking.gradient
    monkeypatch.setattr(checking, "gradient", lambda *arguments: tuple(map(wrong, true(*arguments))))
    code, out, _ = cli("check", saved(FAMILIES["benign"](np.random.default_rng(0))), "--format", "json")
    report = as_json(out)
    assert code == 1 and report["outcome"] == "failed"
    assert {v["status"] for v in report["gradient"]} == {status}
    assert "refuted" in cli("check", saved(FAMILIES["benign"](np.random.default_rng(0))))[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "missing.npz"], "readable .npz file"),
        (["check", "."], "got the folder"),
        (["check", "--format", "yaml"], "--format must be one of text, json; got 'yaml'"),
        (["check", "--beta", "big"], "--beta must be a number; got 'big'"),
        (["check", "--beta", "nan"], "beta"),
        (["check", "--delta", "1e-500"], "must be 0 or from 4.94e-324 to 1.8e+308 in size; got '1e-500'"),
        (["check", "--beta", "-1e400"], "must be 0 or from 4.94e-324 to 1.8e+308 in size; got '-1e400'"),
        (["check", "--unknown"], "an option must be one that --help lists; got '--unknown'"),
        (["check", "a.npz", "b.npz"], "unexpected extra argument"),
        (["chekc"], "No such command 'chekc'"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(cli, arguments, message):
    code, out, err = cli(*arguments)
    assert code == 2 and out == "" and message in err
    assert err.startswith("Error: ") and err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--help"], ["check", "--help"], ["--version"]])
def test_help(cli, arguments):
    code, out, _ = cli(*arguments)
    assert code == 0 and ("xample:" in out or re.fullmatch(r"attnprune-verify \d+\.\d+\.\d+\n", out))


def test_as_a_program_without_a_terminal(tmp_path):
    """Plain bytes out, no colour codes, nothing on stderr, from any directory."""
    save_instance(tmp_path / "i.npz", COUNTEREXAMPLE)
    result = subprocess.run(
        [sys.executable, "-m", "attnprune_verify", "check", "i.npz"],
        capture_output=True,
        cwd=tmp_path,
        env={"PYTHONIOENCODING": "ascii", "PATH": ""},
    )
    assert result.returncode == 0 and result.stderr == b"" and b"\x1b" not in result.stdout


@pytest.fixture
def pipe_without_reader():
    reading, writing = os.pipe()
    os.close(reading)
    return writing


AN_ASSUMPTION_FAILS = Instance(np.eye(2), np.ones((2, 2)), lam=2.0)


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(("strict", "code"), [((), 0), (("--strict",), 1)])
def test_a_reader_that_goes_away_is_no_failure(saved, monkeypatch, pipe_without_reader, form, strict, code):
    """`| true` closes the stream early: exit code 1 would mean a refuted gradient, and a failure stays a failure."""
    path = str(saved(AN_ASSUMPTION_FAILS))
    with open(pipe_without_reader, "w") as stdout, pytest.raises(SystemExit) as end:  # closing it writes what is left
        monkeypatch.setattr(sys, "stdout", stdout)
        main(["check", path, "--format", form, *strict])
    assert end.value.code == code


def test_a_process_whose_reader_goes_away_ends_as_any_other(saved, pipe_without_reader):
    program = [sys.executable, "-m", "attnprune_verify", "check", saved(AN_ASSUMPTION_FAILS), "--strict"]
    result = subprocess.run(program, stdout=pipe_without_reader, stderr=subprocess.PIPE)
    os.close(pipe_without_reader)
    assert result.returncode == 1 and result.stderr == b""


@pytest.mark.parametrize(
    ("command", "code", "printed"),
    [(("claims", "--help"), 0, b"Judge every"), (("audit", "café.py"), 1, b"mask-strict")],
)
def test_a_terminal_that_lacks_letters_ends_nothing(tmp_path, command, code, printed):
    source = "import numpy as np\n\ndef causal_mask(n):\n    return np.tri(n, k=-1)\n"
    (tmp_path / "café.py").write_text(source, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "attnprune_verify", *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
    )
    assert result.returncode == code and result.stderr == b"" and printed in result.stdout


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("closed", [("stdout",), ("stderr",), ("stdout", "stderr")], ids=" and ".join)
def test_closed_streams_are_no_failure(saved, monkeypatch, closed, form):
    """Python starts with None in the place of a stream that is closed."""
    for name in closed:
        monkeypatch.setattr(sys, name, None)
    with pytest.raises(SystemExit) as end:
        main(["check", str(saved(COUNTEREXAMPLE)), "--format", form])
    assert end.value.code == 0
    for name in closed:
        getattr(sys, name).close()


def test_a_process_with_closed_streams_ends_as_any_other(saved):
    command = '"$0" -m attnprune_verify check "$1" >&- 2>&-'
    result = subprocess.run(["sh", "-c", command, sys.executable, saved(COUNTEREXAMPLE)], capture_output=True)
    assert result.returncode == 0 and result.stderr == b""


def test_a_narrow_terminal_cuts_no_number(tmp_path):
    """Cut to 40 columns, an error of 1.41e-17 once read 1.41e-1."""
    save_instance(tmp_path / "i.npz", COUNTEREXAMPLE)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "attnprune_verify", "check", "i.npz"],
        cwd=tmp_path,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": "40", "TERM": "xterm"},
    )
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:  # how a terminal says that its program has ended
        pass
    os.close(ours)
    assert process.wait() == 0
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())
    for oracle in ORACLES:
        assert re.search(rf"{oracle.name} +passed +\S+ +\S+  \S", text), text
    assert "so X X^T >= beta I holds" in " ".join(text.split())


def test_a_number_of_endless_exponent_leaves_room_for_the_reasons(cli, saved):
    """delta = 1e-(10^300), written out, once pushed what holds and why off the page."""
    code, out, _ = cli("check", saved(Instance(np.vander([1.0, 2.0, 3.0]), np.full((3, 3), 1e298) * np.eye(3))))
    assert code == 3 and max(map(len, out.splitlines())) <= 120
    assert "delta-allowed         holds" in out and "positive as every softmax weight" in " ".join(out.split())


def test_strict_and_quiet_name_what_failed(cli, saved):
    X, W = np.array([[1.0, 0.5], [-0.5, 1.0]]), np.array([[0.5, -0.25], [1.0, 0.75]])
    code, out, _ = cli("check", saved(Instance(X, W, mask="causal", lam=0.04)), "--strict", "--quiet")
    assert code == 1 and out.count("\n") == 1 and "Outcome: failed, under --strict by delta." in out
