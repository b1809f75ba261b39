"""``attnprune-verify prune``."""

from pathlib import Path

import numpy as np
import pytest

from attnprune_verify.algorithms.descent import prune_mask_gd
from attnprune_verify.cli.main import main
from attnprune_verify.instance.npz import save_instance
from attnprune_verify.instance.problem import Instance


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path / "instance.npz"
    save_instance(path, Instance(rng.normal(size=(3, 8, 6)), 0.4 * rng.normal(size=(6, 6)), mask="causal", lam=0.1))
    return path


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in ("prune", *arguments)])
    return int(caught.value.code or 0)


def test_it_writes_the_librarys_mask(instance: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "mask.npz"
    options = ("--reading", "literal-norm", "--momentum", "0.9", "--steps", "20")
    assert run(instance, "--rho", "0.3", *options, "--out", out) == 0
    with np.load(instance) as file:
        X, W = file["X"], file["W"]
    expected = prune_mask_gd(X, W, 0.3, 0.1, mask="causal", reading="literal-norm", momentum=0.9, steps=20)
    with np.load(out) as file:
        np.testing.assert_array_equal(file["mask"], expected.mask)
        np.testing.assert_array_equal(file["M"], expected.M)
        np.testing.assert_array_equal(file["loss"], expected.trace.loss)
    printed = capsys.readouterr()
    assert "pruned       10 of 36" in printed.out and "smallest |W|" in printed.out
    assert printed.err == ""
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_quiet_prints_nothing(instance: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(instance, "--rho", "0.5", "--quiet") == 0
    assert capsys.readouterr() == ("", "")


def test_divergence_is_a_failure_that_says_so(instance: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(instance, "--rho", "0.5", "--lam", "5", "--eta", "10", "--quiet") == 1
    assert "diverged in step" in capsys.readouterr().err


def test_a_mask_of_ties_is_refused(instance: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(instance, "--rho", "0.5", "--lam", "0", "--out", tmp_path / "m.npz") == 2
    assert "order of ties" in capsys.readouterr().err and not (tmp_path / "m.npz").exists()
    assert run(instance, "--rho", "0", "--lam", "0") == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("--rho", "1.5"), ("--rho", "nan"), ("--rho", "half"), (), ("--rho", "0.5", "--lam", "-1"),
        ("--rho", "0.5", "--steps", "-1"), ("--rho", "0.5", "--reading", "paper"), ("--rho", "0.5", "--eta", "0"),
        ("--rho", "0.5", "--lam", "0", "--reading", "literal-direct"), ("--rho", "0.5", "--momentum", "1"),
    ],
)  # fmt: skip
def test_bad_arguments(instance: Path, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(instance, *arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith("Error: ") and printed.err.count("\n") == 1


def test_a_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "none.npz", "--rho", "0.5") == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_folder_that_does_not_exist(instance: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(instance, "--rho", "0.5", "--quiet", "--out", tmp_path / "none" / "mask.npz") == 2
    assert capsys.readouterr().err.count("\n") == 1
