"""Class G: forty random moments at which any command that writes is killed, ended, or has no room left.

Afterwards the same command runs to its end, and everything that lies there is compared with a run that nothing
disturbed: all files by name and content, a file of the user beside them, and the folder of temporary files.
"""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from attnprune_verify.cli.main import main
from tests.arena.catalogue import attack
from tests.arena.small import campaign_words, contents, experiment_words, forked, prune_words, write_model

SEED, MOMENTS = 35, 40
EXITS = {0, 2, 130, 143}
THESIS = b"three years of work"
TARGET = "import numpy\n\ndef causal_mask(n):\n    return numpy.tri(n)\n"
OUT = "out"
UNLIKE = re.compile(rb'"(seconds|digest|instances_per_second|resumed)": [^,\n}]*')
"""Of a checkpoint: how long it took, and the digest over that."""

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes")


def resume_words(home):
    """A program, in the place of a command: a model in memory is pruned, and its weights are named by a digest."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    import torch

    from attnprune_verify.torch.prune import prune_
    from tests.whole_model.decoders import IDS, tiny

    torch.set_num_threads(1)

    def program():
        model = tiny("llama")
        try:
            prune_(model, IDS, 0.5, attention="wanda", rest="magnitude", resume=home / OUT)
        except OSError as error:
            sys.exit(2 * (str(home) in str(error)))
        print(hash(tuple(float(one.double().sum()) for one in model.state_dict().values())))

    return program


def vector_words(home):
    return ["kernel-vectors", "--out", home / OUT, "--count", 6]


def audit_words(home):
    (home.parent / "target.py").write_text(TARGET)
    return ["audit", home.parent / "target.py", "--quiet", "--format", "json", "--out", home / f"{OUT}.json"]


def model_words(home):
    return prune_words(*write_model(home.parent / "model"), home / OUT)


def page_words(home):
    os.environ["ATTNPRUNE_CACHE"] = str(home / OUT)  # of this process and those that it forks
    return ["show", "def:mask"]


def plot_words(home):
    pytest.importorskip("matplotlib")
    return ["plot", "taylor", "--out", home / f"{OUT}.svg", "--quiet"]


COMMANDS = {
    "audit": audit_words, "campaign": lambda home: campaign_words(home / OUT),
    "experiment": lambda home: experiment_words(home / OUT), "kernel-vectors": vector_words,
    "prune-model": model_words, "prune_": resume_words, "show": page_words, "plot": plot_words,
}  # fmt: skip


class Work:
    """A command in its home, and how it may be disturbed."""

    def __init__(self, name, base):
        self.name, self.home, self.temporary, self.said = name, base / "home", base / "tmp", base / "said.txt"
        for folder in (self.home, self.temporary):
            folder.mkdir(parents=True)
        words = COMMANDS[name](self.home)
        self.words = words if callable(words) else list(map(str, words))
        self.mounted = not os.geteuid() and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(self.home)], capture_output=True, check=False
        ).returncode  # fmt: skip

    def run(self, **limits):
        code = forked(self.words, self.said, temporary=self.temporary, **limits)
        assert code in EXITS or (code < 0 and "kill_after" in limits), (code, self.said.read_text())
        return code

    def clean(self):
        for one in self.home.iterdir():
            (shutil.rmtree if one.is_dir() else os.unlink)(one)
        (self.home / "thesis.tex").write_bytes(THESIS)
        (self.home / OUT).mkdir()
        if self.name in ("experiment", "prune_", "show"):  # where files of others may lie beside those of ours
            (self.home / OUT / "notes.txt").write_bytes(THESIS)
        elif self.name in ("prune-model", "campaign"):
            (self.home / OUT).rmdir()

    def result(self):
        found = contents(self.home)
        assert self.name != "prune_" or found == {"thesis.tex": THESIS, f"{OUT}/notes.txt": THESIS}
        said = {"said": self.said.read_bytes()} if self.name in ("prune_", "campaign") else {}
        return {name: UNLIKE.sub(b"", content) for name, content in {**found, **said}.items()}

    def disturbed(self, harm, seconds, rng):
        if harm != "full disk":
            return self.run(kill_after=rng.uniform(0.0, seconds), kill_by=getattr(signal, harm))
        if not self.mounted:
            return self.run(file_limit=rng.randrange(1, 30_000))
        with self.full(4 * rng.randrange(1, 24)):
            return self.run()

    @contextmanager
    def full(self, size):
        for options in (f"remount,size={size}k", "remount,size=64m"):
            subprocess.run(["mount", "-o", options, str(self.home)], check=True)
            if "64m" not in options:
                yield


def settled(folder):
    """Wait until what outlives a killed command is done, and return the names that stay, but for torch's own cache."""
    for _ in range(300):
        left = [name for name in os.listdir(folder) if not name.startswith("torchinductor")]
        if not left:
            break
        time.sleep(0.1)
    return left


@attack("G", "SIGKILL, SIGTERM and full disks at forty random moments of every command that writes",
        stopped_by="attnprune_verify.state.outputs:write_output")  # fmt: skip
def test_forty_moments(tmp_path, monkeypatch):
    rng, whole, works, told = random.Random(SEED), {}, {}, []
    monkeypatch.setenv("ATTNPRUNE_CACHE", str(tmp_path / "cache"))
    try:
        for name in COMMANDS:
            try:
                works[name] = work = Work(name, tmp_path / name)
            except pytest.skip.Exception:
                continue
            if not callable(work.words):
                with pytest.raises(SystemExit):  # here, so that forked processes need not import everything anew
                    main(work.words)
            work.clean()
            began = time.monotonic()
            assert work.run() == 0, work.said.read_text()
            whole[name] = work.result(), time.monotonic() - began
            assert len(whole[name][0]) > 1, "nothing was written"
        for moment in range(MOMENTS):
            work = works[list(works)[moment % len(works)]]
            harm = rng.choice(("SIGKILL", "SIGTERM", "full disk"))
            result, seconds = whole[work.name]
            work.clean()
            codes = [work.disturbed(harm, seconds, rng), work.run()]
            told.append((work.name, harm, *codes))
            assert codes[1] == 0 and work.result() == result, (SEED, told[-1], work.said.read_text())
            assert settled(work.temporary) == [], (SEED, told[-1])
    finally:
        for work in works.values():
            if work.mounted:
                subprocess.run(["umount", str(work.home)], check=True)
    print(f"seed {SEED}:", *(" ".join(map(str, one)) for one in told), sep="\n")
    assert sum(first != 0 for _, _, first, _ in told) >= MOMENTS / 4, told
