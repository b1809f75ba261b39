"""Every writer of files that must outlive a power cut: what stands under a final name is on the disk first.

A recorder notes the content of a file at each ``os.fsync`` and every rename. After each step of a writer the files that
lie there must be as they were when they were synced, and a new name's folder must have been synced after it.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from attnprune_verify.files import whole_file, write_whole
from attnprune_verify.instance.npz import save_instance
from attnprune_verify.instance.problem import Instance
from attnprune_verify.state.journal import Journal
from attnprune_verify.state.keeper import Keeper
from attnprune_verify.state.sealed import keep_document

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system does not name open files")


class Recorder:
    """A disk after a crash: the content of files by inode, and the names in folders, at their last sync."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.contents: dict[int, bytes] = {}
        self.names: dict[int, dict[str, int]] = {}
        sync, rename = os.fsync, os.replace

        def synced(file: int) -> None:
            path = Path(os.readlink(f"/proc/self/fd/{file}"))
            number = os.fstat(file).st_ino
            if path.is_dir():
                self.names[number] = {one.name: one.stat().st_ino for one in path.iterdir()}
            else:
                self.contents[number] = path.read_bytes()
            sync(file)

        def renamed(source: Path, target: Path) -> None:
            assert self.contents.get(source.stat().st_ino) == source.read_bytes(), f"{target}: renamed before its sync"
            rename(source, target)

        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(os, "replace", renamed)

    def survive(self, folder: Path, *, appended: bool) -> None:
        """Every file of the folder is on the disk as it stands; by its name too, unless it is only appended to."""
        files = [one for one in folder.iterdir() if one.is_file()]
        assert files
        for file in files:
            assert self.contents.get(file.stat().st_ino) == file.read_bytes(), f"{file.name} is not on the disk"
            if not appended:
                there = self.names.get(folder.stat().st_ino, {})
                assert there.get(file.name) == file.stat().st_ino, f"the name {file.name} is not on the disk"


def whole(folder: Path) -> Iterator[None]:
    for content in (b"one", b"two"):
        write_whole(folder / "a", content)
        yield
    with whole_file(folder / "b") as file:
        file.write(b"in")
        file.write(b" pieces")
    yield


def documents(folder: Path) -> Iterator[None]:
    for value in (1, 2):
        keep_document(folder / "a.json", {"value": value}, "about")
        yield


def kept(folder: Path) -> Iterator[None]:
    keeper = Keeper(folder, {"seed": 1}, own=r".*\.(json|arrays)")
    with keeper.claimed():
        yield
        keeper.write_claim({"done": [1]})
        yield
        keeper.keep("state.json", {"value": 1})
        yield
        keeper.keep_arrays("block.arrays", {"Q": np.eye(2)})
        yield


def instances(folder: Path) -> Iterator[None]:
    for size in (1.0, 2.0):
        save_instance(folder / "one.npz", Instance(size * np.eye(2), np.eye(2)))
        yield


def runs(folder: Path) -> Iterator[None]:
    journal = Journal(folder / "runs.jsonl", "code")
    for key in "abc":
        journal.add({"key": key})
        yield
    with (folder / "runs.jsonl").open("ab") as file:  # a line that was cut off
        file.write(b'{"code": "code", "key": "d"')
    Journal(folder / "runs.jsonl", "code").add({"key": "e"})
    yield


@pytest.mark.parametrize("writer", [whole, documents, kept, instances, runs])
def test_what_was_written_survives_a_power_cut(
    writer: Callable[[Path], Iterator[None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(monkeypatch)
    for _ in writer(tmp_path):
        recorder.survive(tmp_path, appended=writer is runs)


def test_the_recorder_notices_what_is_not_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch)
    (tmp_path / "a").write_bytes(b"one")
    with pytest.raises(AssertionError, match="not on the disk"):
        recorder.survive(tmp_path, appended=True)
    with pytest.raises(AssertionError, match="before its sync"):
        os.replace(tmp_path / "a", tmp_path / "b")
