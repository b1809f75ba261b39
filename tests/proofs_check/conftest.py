"""The Coq development in a directory that may be spoiled: the sources, or compiled."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

COQ = Path(__file__).resolve().parents[2] / "proofs_check" / "coq"
PINNED = ("_CoqProject", "types.txt", "theorems.json")


def make(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
    return subprocess.run(
        ["make", "-C", str(root), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The sources, without anything compiled."""
    target = tmp_path / "coq"
    shutil.copytree(COQ, target, ignore=shutil.ignore_patterns("*.vo*", "*.glob", ".*", "Makefile.coq*", "*.out"))
    return target


@pytest.fixture
def compiled(copy: Path) -> Path:
    """The development compiled from clean: here, or before in a folder that the environment names."""
    before = os.environ.get("ATTNPRUNE_COMPILED_PROOFS")
    if before:
        for path in [*(copy / name for name in PINNED), *copy.rglob("*.v")]:
            assert (Path(before) / path.relative_to(copy)).read_bytes() == path.read_bytes(), path.name
        shutil.rmtree(copy)
        shutil.copytree(before, copy)
    else:
        outcome = make(copy)
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return copy
