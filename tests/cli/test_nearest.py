"""A misspelt name is refused with the nearest one: methods, their options, readings, choices, names in files."""

import numpy as np
import pytest

import attnprune_verify as apv
from attnprune_verify.cli.main import main

EYE = np.eye(2)
REST = ("--out", "o", "--rho", "0.5", "--calibration", "it.txt")


def _misspelt_in_a_file(folder):
    np.savez(folder / "instance.npz", X=EYE, W=EYE, lamb=0.1)
    apv.load_instance(folder / "instance.npz")


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda _: apv.prune_layer(apv.AttentionLayer(EYE, EYE), EYE, 0.5, "fisher-osb"), "fisher-obs"),
        (lambda _: apv.prune_layer(apv.AttentionLayer(EYE, EYE), EYE, 0.5, "fisher-obs", dampng=1), "damping"),
        (lambda _: apv.prune_mask_gd(EYE, EYE, 0.5, 0.1, reading="theorm"), "theorem"),
        (lambda _: apv.AttentionLayer(EYE, EYE, rope=apv.RoPE(layout="halves")), "half"),
        (_misspelt_in_a_file, "lam"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest(call, meant, tmp_path):
    with pytest.raises(apv.InvalidInput, match=rf"; did you mean {meant}( or [\w-]+)*\?$"):
        call(tmp_path)


def test_what_resembles_nothing_gets_no_hint():
    with pytest.raises(apv.InvalidInput, match="got 'x'$"):
        apv.RoPE(layout="x")


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["prune", "it.npz", "--rho", "0.5", "--reading", "litral-direct"], "literal-direct"),
        (["audit-kernel", "it.py", "--mode", "bitwis"], "bitwise"),
        (["chek"], "check"),
        (["prune-model", "x", "--nsamples", "8"], "--k"),
        (["prune-model", "x", "--method", "wanda"], "--attention"),
        (["prune-model", "x", "--device", "gpu"], "cuda"),
    ],
)
def test_a_command_does_the_same_in_one_line(arguments, meant, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert f"did you mean {meant}" in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["check", "it.npz", "--rho", "half"], "--rho must be a number; got 'half'"),
        (["check", "it.npz", "--format", "xml"], "--format must be one of text, json; got 'xml'"),
        (["check", "--layer", "x"], "--layer must be a whole number; got 'x'"),
        (["audit", "it.py", "--limit", "-3"], "--limit must be in the range x>0; got -3.0"),
        (["campaign", "--instances", "10"], "STATEMENT must be given"),
        (["prune-model", "x"], "--out must be given"),
        (
            ["prune", ".", "--rho", "1"],
            "an instance must be a readable .npz file; got a model's folder, for prune-model",
        ),
        (["check", "--form", "json"], "an option must be one that --help lists; got '--form'; did you mean"),
        (["campaign", "lem:PL_ineq", "--instances", "0"], "--instances must be a whole number >= 1"),
        (["audit", "it.py", "--only"], "--only must be followed by its value"),
        (["check", ".", "--layer", "0", "--text", "it.txt"], "config.json must be valid JSON; Expecting property name"),
    ],
)
def test_a_command_states_the_rule_and_then_the_value(arguments, says, capsys, tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text("{")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(f"Error: {says}") and error.count("\n") == 1
