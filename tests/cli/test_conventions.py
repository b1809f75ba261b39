"""What every command does the same way: suggestions, completion, progress in a log, no blanks at line ends."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from attnprune_verify.cli.main import _COMMANDS, main
from attnprune_verify.cli.terminal import progress
from attnprune_verify.cli.terminal.output import interrupted
from attnprune_verify.cli.terminal.progress import progress_bar, stages
from attnprune_verify.instance.npz import save_instance
from attnprune_verify.instance.problem import Instance

SMALL = Instance(np.array([[1.0, 0.5], [-0.5, 1.0], [0.25, 0.75]]), np.array([[0.5, -0.25], [1.0, 0.75]]), lam=0.04)


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return end.value.code, captured.out, captured.err


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["chek"], "did you mean check"),
        (["prune_model"], "did you mean prune-model"),
        (["experiment", "laier"], "did you mean layer"),
        (["xyzzy"], "there are audit-kernel, kernel-vectors"),
        (["check", "--formt", "json"], "--format"),
    ],
)
def test_a_slip_is_answered_with_what_was_meant(capsys, arguments, hint):
    code, out, err = run(capsys, *arguments)
    assert code == 2 and out == "" and hint in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        (["audit", "--contract", "--list"], "--contract takes no --list"),
        (["audit", "--contract", "--dtype", "float32", "--seed", "0"], "--contract takes no --dtype and no --seed"),
        (["audit", "--contract", "--only", "loss"], "--contract takes no --only"),
        (["audit", "--list", "--format", "json"], "--list takes no --format"),
        (["campaign", "fix:lip_f", "--index", "3", "--instances", "1e5"], "--index takes no --instances"),
        (["campaign", "fix:lip_f", "--index", "3", "--jobs", "2", "--out", "x"],
         "--index takes no --out and no --jobs"),
        (["plot", "taylor", "--out", "x.svg", "--claim", "lem:PL_ineq"], "taylor takes no --claim"),
        (["plot", "constants", "--out", "x.svg", "--rho", "0.5", "--steps", "100"],
         "constants takes no --rho and no --steps"),
        (["plot", "slack", "--out", "x.svg", "--method", "wanda"], "slack takes no --method"),
        (["plot", "heads", "--out", "x.svg", "--lam", "0.1"], "heads takes no --lam"),
        (["plot", "heatmaps", "--out", "x.svg", "--reading", "theorem", "--reading", "literal-direct"],
         "heatmaps takes one --reading; got 2"),
    ],
)  # fmt: skip
def test_what_would_be_ignored_is_refused(capsys, tmp_path, monkeypatch, arguments, refused):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert (code, out, err) == (2, "", f"Error: {refused}\n") and not list(tmp_path.iterdir())


@pytest.mark.parametrize("start", ["-m attnprune_verify", "console script"])
def test_an_interrupt_while_the_program_is_being_loaded_ends_it_quietly(tmp_path, start):
    """It comes in the first import from outside the standard library."""
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n")
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, function = project["scripts"]["attnprune-verify"].partition(":")
    script = ["-c", f"import sys; from {module} import {function}; sys.exit({function}())"]
    arguments = script if start == "console script" else start.split()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, *arguments, "check"], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def completed(words, place):
    """What bash is given for the word at `place`."""
    environment = {**os.environ, "COMP_WORDS": " ".join(words), "COMP_CWORD": str(place)}
    environment["_ATTNPRUNE_VERIFY_COMPLETE"] = "bash_complete"
    program = [sys.executable, "-m", "attnprune_verify"]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_the_shell_completes_commands_options_and_values():
    assert completed(["attnprune-verify", "sh"], 1) == ["show"]
    assert completed(["attnprune-verify", "experiment", "l"], 2) == ["layer"]
    assert completed(["attnprune-verify", "claims", "--verdict", "re"], 3) == ["refuted"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_that_help_names_is_there(capsys, monkeypatch, shell):
    assert "_ATTNPRUNE_VERIFY_COMPLETE=bash_source attnprune-verify" in run(capsys, "--help")[1]
    monkeypatch.setenv("_ATTNPRUNE_VERIFY_COMPLETE", f"{shell}_source")
    code, out, _ = run(capsys)
    assert code == 0 and "attnprune_verify" in out and "COMP_WORDS" in out


def test_a_log_gets_a_line_now_and_then(capsys, monkeypatch):
    """`every` is made so short that a line comes before the test goes on, however slow the machine is."""
    monkeypatch.setattr(progress, "EVERY", 1e-3)
    with progress_bar("runs") as tell:
        tell(0, 8)
        tell(2, 8)
        seen = ""
        while "2 of 8" not in seen:  # no estimate below a second
            seen += capsys.readouterr().err
    assert seen.splitlines()[0].startswith("runs: ")


def test_a_log_is_told_at_which_stage_a_check_is(capsys, monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 1e-3)
    with stages() as tell:
        seen = ""
        while "reading: at work for 0 s" not in seen:
            seen += capsys.readouterr().err
        tell("ball at M = 1")
        while "ball at M = 1: at work for 0 s" not in seen:
            seen += capsys.readouterr().err
    capsys.readouterr()
    with stages(show=False) as silent:
        assert silent is None
    assert capsys.readouterr().err == ""


def test_what_ends_soon_or_is_quiet_says_nothing(capsys):
    with progress_bar("runs") as tell:
        tell(1, 2)
    with progress_bar("runs", show=False) as silent:
        assert silent is None
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", [["experiment", "layer"], ["experiment", "perplexity"], ["prune-model"]])
def test_help_lists_the_methods(capsys, command):
    from attnprune_verify.algorithms.methods import LAYER_METHODS

    words = run(capsys, *command, "--help")[1].replace(",", " ").split()
    assert set(LAYER_METHODS) <= set(words)


LEAVES = [[one] for one in _COMMANDS if one != "experiment"]
LEAVES += [["experiment", one] for one in ("synthetic", "layer", "perplexity", "assumptions", "beyond")]


@pytest.mark.parametrize("command", LEAVES, ids=" ".join)
def test_help_has_an_example_and_fits(capsys, command):
    code, out, _ = run(capsys, *command, "--help")
    assert code == 0 and "Example" in out and f"attnprune-verify {' '.join(command)}" in out
    assert not [line for line in out.splitlines() if line != line.rstrip()]
    examples = out.partition("Example:")[2].partition("\n\n")[0].splitlines()
    assert all("attnprune-verify" in line for line in examples if line), "an example that was folded"
    assert "[default: (" not in out


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "small.npz"],
        ["audit", "--list"],
        ["audit", "--contract"],
        ["claims", "lem:mat_view_b3"],
        ["experiment", "synthetic", "--weights", "shared", "--lam", "0.25", "--fixed-lam", "0.25", "--n", "8",
         "--fixed-n", "8", "--rho", "0.5", "--k", "2", "--seeds", "2", "--d", "6", "--steps", "5", "--jobs", "1",
         "--no-plots"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)  # fmt: skip
def test_no_line_of_a_pipe_ends_in_blanks(capsys, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_instance(tmp_path / "small.npz", SMALL)
    _, out, _ = run(capsys, *arguments)
    assert out and not [line for line in out.splitlines() if line != line.rstrip()]


@pytest.mark.parametrize("kept", [None, "folder", "folder/file", "file"])
def test_an_interrupted_command_says_what_is_there(tmp_path, capsys, kept):
    if kept in ("folder", "folder/file"):
        (tmp_path / "folder").mkdir()
    if kept and kept != "folder":
        (tmp_path / kept).write_text("rows", encoding="utf-8")
    place = tmp_path / (kept or "none").partition("/")[0]
    assert interrupted(place) == 130
    assert (str(place) in capsys.readouterr().err) == (kept in ("folder/file", "file"))
