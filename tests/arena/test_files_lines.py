"""Class H: whatever a command meets, one line and exit code 2 or 3; never a traceback, never exit code 1."""

import json
import os

import numpy as np
import pytest

from attnprune_verify.claims.campaign.workers import refuse_missing_dask
from attnprune_verify.cli import main as program
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.experiments.runs import complete
from attnprune_verify.files import printable, read_regular
from attnprune_verify.pretrained import load_pretrained
from tests.arena.catalogue import attack
from tests.arena.small import prune_words, write_model

MAIN = "attnprune_verify.cli.main:main"


def one_line(capsys, *words):
    with pytest.raises(SystemExit) as end:
        program.main([*map(str, words)])
    err = capsys.readouterr().err
    assert end.value.code in (2, 3) and err.count("\n") == 1 and err.startswith("Error: "), err
    return end.value.code, err


@attack("H", "a library panics, recurses without end or meets the end of a file", stopped_by=MAIN, quick=True)
@pytest.mark.parametrize("kind", ["PanicException", "RecursionError", "EOFError", "KeyError", "AssertionError"])
def test_the_last_handler(capsys, monkeypatch, kind):
    error = type(kind, (BaseException,), {}) if kind == "PanicException" else getattr(__builtins__, kind, None)
    error = error or __builtins__[kind]

    def fail(**_):
        raise error("three\nlines\x1b[2J here")

    monkeypatch.setattr(program.program, "main", fail)
    code, err = one_line(capsys, "check")
    assert code == 3 and kind in err and "\x1b" not in err and "ATTNPRUNE_TRACEBACK=1" in err
    monkeypatch.setenv("ATTNPRUNE_TRACEBACK", "1")
    with pytest.raises(SystemExit):
        program.main(["check"])
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@attack("H", "--out is empty, the root, or leads upwards",
        stopped_by="attnprune_verify.whole_model.folder:prune_model")  # fmt: skip
@pytest.mark.parametrize("out", ["", ".", "/", "..", "x/.."])
def test_places_that_are_none(tmp_path, capsys, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    model, text = write_model(tmp_path / "model")
    code, err = one_line(capsys, *prune_words(model, text, "x")[:3], out, "--rho", "0.5", "--calibration", text)
    assert code == 2 and "out must name a new folder" in err
    assert one_line(capsys, "campaign", "fix:lip_f", "--instances", "2", "--out", out)[0] == 2


@attack("H", "JSON nested a hundred thousand levels deep is given as a result",
        stopped_by="attnprune_verify.files:parse", quick=True)  # fmt: skip
@pytest.mark.parametrize("levels", [200, 10**5])
def test_deep_json(tmp_path, capsys, levels):
    deep = '{"a":' * levels + "1" + "}" * levels
    (tmp_path / "a.json").write_text('{"fingerprint": {"digest": "a", "fields": ' + deep + "}}")
    assert one_line(capsys, "compare", tmp_path / "a.json", tmp_path / "a.json")[0] == 2
    (tmp_path / "perplexity.json").write_text(deep)
    assert one_line(capsys, "plot", "perplexity", tmp_path)[0] == 2


@attack("H", "a pipe to which nobody writes is given as a file",
        stopped_by="attnprune_verify.files:read_regular", quick=True)  # fmt: skip
def test_pipes(tmp_path, capsys):
    pipe = tmp_path / "runs.jsonl"
    os.mkfifo(pipe)
    with pytest.raises(InvalidInstance, match="a pipe or a device"):
        read_regular(pipe)
    with pytest.raises(InvalidInstance, match="a pipe or a device"):
        complete({"1": 1}, lambda n: {}, pipe)
    for words in (("compare", pipe, pipe), ("check", pipe), ("audit", "attnprune_verify", "--deviations", pipe)):
        assert one_line(capsys, *words)[0] == 2


@attack("H", "an address of a scheduler is none",
        stopped_by="attnprune_verify.claims.campaign.workers:refuse_missing_dask")  # fmt: skip
@pytest.mark.parametrize("address", ["", "foo", "tcp://", "tcp://x:y", "foo://x:1", ":::", "tcp://a b:1", "\n:1"])
def test_schedulers(address):
    pytest.importorskip("distributed", reason="needs the extra 'parallel'")
    with pytest.raises(InvalidInstance, match="--scheduler must read like"):
        refuse_missing_dask(address)


@attack("H", "a tokenizer's library panics while it reads or encodes",
        stopped_by="attnprune_verify.state.child:in_child", quick=True)  # fmt: skip
def test_panics_of_tokenizers(tmp_path, monkeypatch):
    model, _ = write_model(tmp_path / "model")
    panic = type("PanicException", (BaseException,), {})

    class Panicking:
        @staticmethod
        def from_buffer(content):
            raise panic("called `Option::unwrap()` on a `None` value")

    monkeypatch.setattr("tokenizers.Tokenizer", Panicking)
    with pytest.raises(InvalidInstance, match="must be a tokenizer file; called"):
        load_pretrained(model)


@attack("H", "field names of others' JSON hold escape sequences for the terminal",
        stopped_by="attnprune_verify.files:printable", quick=True)  # fmt: skip
def test_escape_sequences(tmp_path, capsys):
    for name, field in (("a", "\x1b]0;owned\x07"), ("b", "\x9b2J")):
        document = {"fingerprint": {"digest": name, "fields": {field: "\x1b[31m" + name}}}
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    with pytest.raises(SystemExit) as end:
        program.main(["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")])
    out = capsys.readouterr().out
    assert end.value.code == 1 and all(one.isprintable() for one in out.splitlines())
    assert printable("\x1b]0;owned\x07") in out


@attack("H", "scalars at the ends of the numbers make NumPy warn with lines of source", stopped_by=MAIN)
@pytest.mark.parametrize("odd", [{"softcap": 1e-320}, {"scale": 1e308}, {"scale": 1e-320}, {"lam": 1e308}])
def test_odd_scalars(tmp_path, capsys, odd):
    rng = np.random.default_rng(0)
    arrays = {"X": rng.normal(size=(4, 4)), "W_Q": rng.normal(size=(4, 4)), "W_K": rng.normal(size=(4, 4))}
    np.savez(tmp_path / "odd.npz", **arrays, heads=2, **odd)
    with pytest.raises(SystemExit) as end:
        program.main(["check", str(tmp_path / "odd.npz"), "--quiet"])
    err = capsys.readouterr().err
    assert end.value.code in (0, 2, 3) and "Warning" not in err and err.count("\n") <= 1


@attack("D", "a tensor that nothing is computed with holds NaN",
        stopped_by="attnprune_verify.pretrained.tensors:Tensors.refuse_infinite", quick=True)  # fmt: skip
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_tensors_that_are_only_hashed(tmp_path, value):
    from safetensors.numpy import load_file, save_file

    from attnprune_verify.whole_model import prune_model

    model, text = write_model(tmp_path / "model")
    tensors = load_file(model / "model.safetensors")
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.full(1, value, dtype=np.float32)
    save_file(tensors, model / "model.safetensors")
    with pytest.raises(InvalidInstance, match="inv_freq' must be finite"):
        prune_model(model, tmp_path / "out", 0.5, calibration=text, k=2, n=8)
    assert not (tmp_path / "out.partial").exists()
