"""Class A: files of the user lie where a command is to write; they are refused by name, and stay as they are."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from attnprune_verify.audit.kernel.vectors import write_vectors
from attnprune_verify.cli.main import main
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.experiments.runs import complete
from attnprune_verify.state.journal import Journal
from attnprune_verify.state.outputs import LIST, outputs_in, write_output
from tests.arena.catalogue import attack
from tests.arena.small import contents, experiment_words

REPLACED = "attnprune_verify.state.outputs:write_output"
MET = "attnprune_verify.state.outputs:outputs_in"
JOURNAL = "attnprune_verify.state.journal:Journal"
MINE = b"three years of work"


def refused(words, name, capsys):
    with pytest.raises(SystemExit) as end:
        main(list(map(str, words)))
    err = capsys.readouterr().err
    assert end.value.code == 2 and err.count("\n") == 1 and name in err, err


KINDS = {
    "synthetic": ("results.csv", "results.json", "figure2_shared.svg"),
    "layer": ("layer.csv", "layer.json", "layer-n128.png"),
    "perplexity": ("perplexity.csv", "times.csv", "perplexity-rho.svg"),
    "assumptions": ("assumptions.csv", "assumptions.json", "assumptions.png"),
}


@attack("A", "an experiment's --out holds results of the user, before a run is done", stopped_by=MET, quick=True)
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in KINDS.items() for name in names])
def test_results_of_the_user(tmp_path, capsys, kind, name):
    (tmp_path / name).write_bytes(MINE)
    words = ["experiment", kind, *([] if kind == "synthetic" else ["no-model"]), "--out", tmp_path]
    refused(words, name, capsys)
    assert contents(tmp_path) == {name: MINE}


@attack("A", "a file of ours was edited, exchanged for a link, a folder or a pipe since it was written",
        stopped_by=REPLACED, quick=True)  # fmt: skip
@pytest.mark.parametrize("change", ["edited", "link", "folder", "pipe"])
def test_results_that_are_no_longer_ours(tmp_path, change):
    path, home = tmp_path / "out" / "results.csv", tmp_path / "thesis.tex"
    home.write_bytes(b"ours")
    write_output(path, b"ours")
    path.unlink()
    made = {
        "edited": lambda: path.write_bytes(b"mine"),
        "link": lambda: path.symlink_to(home),
        "folder": path.mkdir,
        "pipe": lambda: os.mkfifo(path),
    }
    made[change]()
    before = path.lstat().st_ino
    for work in (lambda: write_output(path, b"new"), lambda: outputs_in(path.parent, "results.csv").__enter__()):
        with pytest.raises(InvalidInstance, match=r"only files that were written here are replaced; .*results\.csv"):
            work()
    assert path.lstat().st_ino == before and home.read_bytes() == b"ours"


@attack("A", "written.json is the user's, is edited, or is the list of another kind of document",
        stopped_by=REPLACED, quick=True)  # fmt: skip
def test_a_list_of_the_user(tmp_path):
    write_output(tmp_path / "a.csv", b"1")
    listed = (tmp_path / LIST).read_bytes()
    claim = Journal(tmp_path / "runs.jsonl", "c")
    claim.add({"key": "a.csv"})
    for content in (MINE, listed.replace(b'"a.csv"', b'"b.csv"'), (tmp_path / "runs.jsonl").read_bytes(), b"[]"):
        (tmp_path / LIST).write_bytes(content)
        with pytest.raises(InvalidInstance, match="written.json' must be the list"):
            write_output(tmp_path / "a.csv", b"2")
        assert (tmp_path / "a.csv").read_bytes() == b"1" and (tmp_path / LIST).read_bytes() == content


def test_what_was_written_here_is_replaced_and_killed_writers_go_on(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    for content in (b"1", b"2", b"2", b"3"):
        write_output(path, content)
        assert path.read_bytes() == content
    whole = contents(tmp_path)
    from attnprune_verify.state import outputs

    write = outputs.write_whole
    for when in ("before", "after"):  # killed between the list and the file, or between the file and the list
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):

            def stop(path, content, when=when):
                if when == "after":
                    write(path, content)
                raise KeyboardInterrupt

            patch.setattr(outputs, "write_whole", stop)
            write_output(path, b"4")
        write_output(path, b"3")
        assert contents(tmp_path) == whole


@attack("A", "kernel-vectors meets an index.json of the user, or a pipe in its place", stopped_by=MET, quick=True)
@pytest.mark.parametrize("name", ["index.json", "vectors.safetensors"])
@pytest.mark.parametrize("pipe", [True, False])
def test_vectors_in_a_web_folder(tmp_path, capsys, name, pipe):
    (os.mkfifo if pipe else Path.write_text)(tmp_path / name, *([] if pipe else ['{"name": "my site"}']))
    refused(["kernel-vectors", "--out", tmp_path, "--count", 1], name, capsys)
    assert os.listdir(tmp_path) == [name] and (tmp_path / name).is_fifo() == pipe


@attack("A", "two processes write vectors into one folder", stopped_by="attnprune_verify.files:alone", quick=True)
def test_vectors_one_at_a_time(tmp_path):
    with outputs_in(tmp_path, "x"), pytest.raises(InvalidInstance, match="another process is at work"):
        write_vectors(tmp_path, count=1)
    assert not contents(tmp_path)
    write_vectors(tmp_path, count=1)
    write_vectors(tmp_path, "float16", count=1)
    assert json.loads((tmp_path / "index.json").read_text())["dtype"] == "float16"


STUBS = ['{"key": "my thesis', '{"code": "mine", "key": "my thesis', '{"key": ', "{", '{"code": "']
SHORT = 2  # of them: behind a finished run they are a line of ours that was cut off


@attack("A", "runs.jsonl of the user is the beginning of a line, with or without finished runs before it",
        stopped_by=JOURNAL, quick=True)  # fmt: skip
@pytest.mark.parametrize(
    ("stub", "after"), [*((stub, False) for stub in STUBS), *((stub, True) for stub in STUBS[:-SHORT])]
)
def test_a_stub_of_the_user(tmp_path, stub, after):
    path = tmp_path / "runs.jsonl"
    if after:
        complete({"1": 1}, lambda n: {"n": n}, path)
    with path.open("a") as file:
        file.write(stub)
    before = path.read_bytes()
    with pytest.raises(InvalidInstance, match="runs.jsonl must hold finished runs; its last line is none"):
        complete({"2": 2}, lambda n: {"n": n}, path)
    assert path.read_bytes() == before


@attack("A", "a folder that a pruning in memory is to resume from holds blocks.json, or folders, of the user",
        stopped_by="attnprune_verify.state.keeper:Keeper.claimed")  # fmt: skip
@pytest.mark.parametrize("name", ["blocks.json", "blocks.partial/blocks.json", "prune.partial/zeros.json"])
def test_a_folder_to_resume_from(tmp_path, name):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from attnprune_verify.torch.prune import prune_
    from tests.whole_model.test_torch_models import FAST, IDS, tiny

    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(MINE)
    model = tiny("llama")
    if "/" in name:
        with pytest.raises(InvalidInstance, match=re.escape(name.partition("/")[0])):
            prune_(model, IDS, 0.5, **FAST, resume=tmp_path)
        assert contents(tmp_path)[name] == MINE
    else:
        prune_(model, IDS, 0.5, **FAST, resume=tmp_path)
        assert contents(tmp_path) == {name: MINE}


@attack("A", "a name for --out is as long as the file system allows", stopped_by="attnprune_verify.files:whole_file",
        quick=True)  # fmt: skip
@pytest.mark.parametrize("length", [200, 250, 255])
def test_long_names(tmp_path, length):
    from attnprune_verify import Instance, load_instance, save_instance

    path = tmp_path / ("a" * (length - 4) + ".npz")
    save_instance(path, Instance(np.eye(2), np.eye(2)))
    assert load_instance(path).n == 2 and len(os.listdir(tmp_path)) == 1


def test_an_experiment_beside_files_of_the_user(tmp_path):
    """Twice into one folder, with another plan: the tables are replaced, what lies beside them is not."""
    (tmp_path / "notes.txt").write_bytes(MINE)
    words = experiment_words(tmp_path)
    for rho in ("0.5", "0.25", "0.5"):
        words[words.index("--rho") + 1] = rho
        with pytest.raises(SystemExit) as end:
            main(words)
        assert not end.value.code
    assert (tmp_path / "notes.txt").read_bytes() == MINE
