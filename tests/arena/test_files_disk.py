"""Class G: kills and full disks at random moments of every resumable command; the same bytes after resuming."""

import json
import os
import random
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from attnprune_verify.cli.main import main
from attnprune_verify.files import PART, whole_file
from attnprune_verify.state.keeper import Keeper
from tests.arena.catalogue import attack
from tests.arena.small import campaign_words, contents, experiment_words, forked, prune_words, write_model

MOMENTS = 20
EXITS = {0, 1, 2, 3, 130, 143}
KILLED = -9

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes")


class Command:
    """A resumable command: its words, where it works, and what of its result must be the same."""

    def __init__(self, name, home):
        self.name, self.home, self.said = name, home, home.parent / "said.txt"
        if name == "prune-model":
            self.source, self.text = write_model(home.parent / "model")
        self.words = {
            "prune-model": lambda: prune_words(self.source, self.text, home / "out"),
            "campaign": lambda: campaign_words(home / "out"),
            "experiment": lambda: experiment_words(home / "out"),
        }[name]()

    def run(self, **limits):
        code = forked(self.words, self.said, **limits)
        assert code in EXITS or (code == KILLED and "kill_after" in limits), (code, self.said.read_text())
        if code in (2, 3):
            assert len(self.said.read_text().splitlines()) == 1, self.said.read_text()
        return code

    def result(self):
        if self.name == "prune-model":
            assert not (self.home / "out.partial").exists()
            return contents(self.home / "out")
        if self.name == "experiment":
            return {name: (self.home / "out" / name).read_bytes() for name in ("results.csv", "results.json")}
        report = json.loads(self.said.read_text())
        return [report[name] for name in sorted(report) if name not in ("instances_per_second", "resumed")]

    def clean(self):
        for name in ("out", "out.partial"):
            shutil.rmtree(self.home / name, ignore_errors=True)

    def finished(self):
        """Run to the end, in its own empty home; the result and the seconds it took."""
        with pytest.raises(SystemExit):  # here, so that forked processes need not import and look up everything anew
            main(self.words)
        self.clean()
        began = time.monotonic()
        assert self.run() == 0, self.said.read_text()
        seconds, found = time.monotonic() - began, self.result()
        self.clean()
        return found, seconds


@pytest.fixture(params=["prune-model", "campaign", "experiment"])
def command(request, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("three years of work")
    return Command(request.param, tmp_path / "home")


@attack("G", "kill -9 at 20 random moments, again and again until the command ends",
        stopped_by="attnprune_verify.files:whole_file")  # fmt: skip
def test_killed_at_random_moments(command):
    whole, seconds = command.finished()
    rng, killed, started = random.Random(0), 0, False
    for _ in range(4 * MOMENTS):
        if not started:
            command.clean()
        started = command.run(kill_after=rng.uniform(0.0, seconds)) == KILLED
        killed += started
        if killed == MOMENTS:
            break
    assert killed == MOMENTS and command.run() == 0 and command.result() == whole
    assert (command.home / "thesis.tex").read_text() == "three years of work"


def filled(command, whole, limited):
    """Run into `limited(rng)` over and over, then without it: the same result."""
    rng, failed = random.Random(1), 0
    for _ in range(MOMENTS):
        command.clean()
        with limited(rng) as limits:
            failed += command.run(**limits) != 0
        assert (command.home / "thesis.tex").read_text() == "three years of work"
        assert command.run() == 0 and command.result() == whole, command.said.read_text()
    assert failed >= MOMENTS / 4


class Limit:
    """No file may have more than so many bytes: what a full disk does to a program, on any system and for any user."""

    def __init__(self, size):
        self.size = size

    def __enter__(self):
        return {"file_limit": self.size}

    def __exit__(self, *_):
        return None


@attack("G", "20 files in a row cannot be written to their end", stopped_by="attnprune_verify.files:whole_file")
def test_files_that_cannot_grow(command):
    whole, _ = command.finished()
    largest = {"prune-model": 12_000, "campaign": 1_500, "experiment": 30_000}[command.name]
    filled(command, whole, lambda rng: Limit(rng.randrange(1, largest)))


class FullDisk:
    """A file system in memory of so many KiB, which grows when the disk is no longer full."""

    def __init__(self, home, size):
        self.home, self.size = home, size

    def __enter__(self):
        subprocess.run(["mount", "-o", f"remount,size={self.size}k", str(self.home)], check=True)
        return {}

    def __exit__(self, *_):
        subprocess.run(["mount", "-o", "remount,size=64m", str(self.home)], check=True)


@pytest.fixture
def on_a_small_disk(command):
    home = str(command.home)
    if shutil.which("mount") is None or os.geteuid():
        pytest.skip("mounting a small file system needs root")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", home], capture_output=True).returncode:
        pytest.skip("this machine mounts no file system in memory")
    (command.home / "thesis.tex").write_text("three years of work")
    yield command
    subprocess.run(["umount", home], check=True)


@attack("G", "the disk is full at 20 random moments", stopped_by="attnprune_verify.state.keeper:Sink.allocate")
def test_a_full_disk(on_a_small_disk):
    command = on_a_small_disk
    whole, _ = command.finished()
    most = {"prune-model": 90, "campaign": 12, "experiment": 48}[command.name]
    filled(command, whole, lambda rng: FullDisk(command.home, 4 * rng.randrange(2, most // 4)))


@attack("G", "hidden states are written where there is no room for them",
        stopped_by="attnprune_verify.state.keeper:Sink.allocate", quick=True)  # fmt: skip
def test_room_is_taken_before_the_work(tmp_path, monkeypatch):
    """The error comes before the first window is computed, and nothing is left behind."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    keeper = Keeper(tmp_path / "kept", {}, own=r".*\.npy")
    with keeper.claimed(), pytest.raises(OSError, match="No space left") as caught:
        with keeper.writing("hidden-0000.npy") as sink:
            sink.allocate(10**12)
            pytest.fail("nothing was refused")
    assert caught.value.filename.endswith("hidden-0000.npy")
    assert [one.name for one in (tmp_path / "kept").iterdir()] == ["request.json"]


@attack("G", "the power goes between a rename and the content of the file",
        stopped_by="attnprune_verify.files:whole_file", quick=True)  # fmt: skip
def test_content_first_then_the_name_then_the_folder(tmp_path, monkeypatch):
    done = []
    sync, rename = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda n: done.append(Path(os.readlink(f"/proc/self/fd/{n}")).name) or sync(n))
    monkeypatch.setattr(os, "replace", lambda a, b: done.append("rename") or rename(a, b))
    with whole_file(tmp_path / "a") as file:
        file.write(b"content")
    assert len(done) == 3 and PART.fullmatch(done[0]) and done[1:] == ["rename", tmp_path.name]


@attack("G", "a kill leaves a temporary file of ours, beside one of the user that looks alike",
        stopped_by="attnprune_verify.state.keeper:Keeper.clear")  # fmt: skip
def test_what_a_kill_leaves_is_removed(tmp_path):
    keeper = Keeper(tmp_path / "kept", {}, own=r"block-\d{4}\.arrays")
    with keeper.claimed():
        keeper.keep_arrays("block-0000.arrays", {"Q": np.eye(2)})
    (tmp_path / "kept" / ".attnprune-0123456789abcdef.part").write_bytes(b"half")
    (tmp_path / "kept" / ".attnprune-of-mine.part").write_bytes(b"of the user")
    with keeper.claimed():
        assert not (tmp_path / "kept" / ".attnprune-0123456789abcdef.part").exists()
        keeper.clear()
    assert contents(tmp_path / "kept") == {".attnprune-of-mine.part": b"of the user"}
