"""``attnprune-verify experiment``."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attnprune_verify.cli.main import main
from attnprune_verify.experiments.runs import computing
from attnprune_verify.state.journal import Journal

SMALL = (
    "--weights", "shared", "--lam", "0.25", "--fixed-lam", "0.25", "--n", "8", "--fixed-n", "8", "--rho", "0.5",
    "--k", "2", "--seeds", "2", "--d", "6", "--steps", "5", "--jobs", "1", "--no-plots",
)  # fmt: skip


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in ("experiment", *arguments)])
    return int(caught.value.code or 0)


def test_it_writes_the_table_and_says_what_agrees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("synthetic", "--out", tmp_path, *SMALL) == 0
    printed = capsys.readouterr()
    assert "Error at rho = 0.5" in printed.out and "Written: " in printed.err
    assert {path.name for path in tmp_path.iterdir()} == {"results.csv", "results.json", "runs.jsonl", "written.json"}


def test_json_is_strict_and_alone_on_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("synthetic", "--out", tmp_path, *SMALL, "--format", "json") == 0
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert document == json.loads((tmp_path / "results.json").read_text())


@pytest.mark.parametrize(
    "arguments",
    [
        ("--rho", "1.5"), ("--k", "0"), ("--n", "0"), ("--lam", "0"), ("--lam", "nan"), ("--reading", "paper"),
        ("--seeds", "0"), ("--jobs", "0"), ("--weights", "equal"), ("--scale", "0"), ("--momentum", "1"),
        ("--fixed-n", "0"), ("--d", "0"),
    ],
)  # fmt: skip
def test_bad_arguments_before_any_work(
    tmp_path: Path, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "never"
    assert run("synthetic", "--out", out, *arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith("Error: ") and printed.err.count("\n") == 1
    assert not out.exists()


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (("--help",), ("synthetic", "--help")):
        assert run(*arguments) == 0
        assert "Example:" in capsys.readouterr().out


def test_an_interruption_keeps_what_was_done_and_says_how_to_go_on(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "attnprune_verify.cli.main", "experiment", "synthetic", "--out", str(tmp_path)]
    long = ["--n", "64", "--fixed-n", "64", "--k", "8", "--seeds", "3", "--jobs", "1"]
    process = subprocess.Popen(
        command + long,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell gives its background jobs SIGINT ignored, and Python leaves it so; then there is nothing to test.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    journal = tmp_path / "runs.jsonl"
    while not (journal.exists() and journal.stat().st_size):
        assert process.poll() is None, "it ended before its first run was kept"
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130 and out == ""
    kept = len(Journal(journal, computing()).finished)
    assert kept >= 1 and "finished work is kept in" in err and "the same command resumes from there" in err
    assert "Traceback" not in err


def test_missing_extras_are_said_and_do_without(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from attnprune_verify.experiments import runs

    monkeypatch.setattr(runs, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    options = [option for option in SMALL if option != "--no-plots"]
    options[options.index("--jobs") + 1] = "2"
    assert run("synthetic", "--out", tmp_path, *options) == 0
    noted = capsys.readouterr().err
    assert "attnprune-verify[parallel]'" in noted and "attnprune-verify[plot]'" in noted
    assert not list(tmp_path.glob("*.png")) and (tmp_path / "results.csv").exists()


def test_beyond_prints_its_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--k", "4", "--n", "8", "--d", "6", "--seeds", "2", "--scale", "0.03125", "--jobs", "1")
    assert run("beyond", "--out", tmp_path, *options, "--candidate", "tuned-pair") == 0
    printed = capsys.readouterr().out
    assert printed.count("tuned-pair") == 2 and "magnitude-fused" in printed and "held-out" in printed
    assert run("beyond", "--out", tmp_path, "--candidate", "magic") == 2
    assert capsys.readouterr().err.startswith("Error: candidates must be one of")
