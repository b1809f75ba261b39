"""`prune_model`: what must change changes, everything else stays to the byte, and no interruption shows."""

import json
import math
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("safetensors", reason="reading model folders needs the extra 'real'")
pytest.importorskip("tokenizers", reason="reading texts needs the extra 'real'")

from safetensors import safe_open  # noqa: E402  # after the skips
from safetensors.numpy import load_file, save_file  # noqa: E402

from attnprune_verify.cli.main import main  # noqa: E402
from attnprune_verify.errors import InvalidInstance  # noqa: E402
from attnprune_verify.pretrained import load_pretrained  # noqa: E402
from attnprune_verify.pretrained.folder import ModelFolder  # noqa: E402
from attnprune_verify.pretrained.tensors import decoded, encoded  # noqa: E402
from attnprune_verify.pretrained.texts import calibration_windows  # noqa: E402
from attnprune_verify.whole_model import fingerprint, prune_model, request  # noqa: E402
from attnprune_verify.whole_model.in_memory import prune_in_memory  # noqa: E402
from attnprune_verify.whole_model.plan import Plan  # noqa: E402
from attnprune_verify.whole_model.request import Job  # noqa: E402
from attnprune_verify.whole_model.workplace import Workplace  # noqa: E402
from tests.whole_model.small import MODEL, write_texts  # noqa: E402

SMALL = {"k": 2, "n": 32}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return write_texts(tmp_path_factory.mktemp("texts"))


def _tensors(folder):
    return load_file(folder / "model.safetensors")


def _files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _is_map(name):
    return "_proj." in name


@pytest.mark.parametrize("method", ["magnitude", "output-obs"])
def test_exact_zeros_and_everything_else_as_it_was(tmp_path, texts, method):
    report = prune_model(
        MODEL, tmp_path / "out", 0.6, calibration=texts[0], attention=method, rest=method, budget="matrix", **SMALL
    )
    before, after = _tensors(MODEL), _tensors(tmp_path / "out")
    assert list(before) == list(after)
    for name, dense in before.items():
        pruned = after[name]
        assert pruned.dtype == dense.dtype and pruned.shape == dense.shape
        if not _is_map(name):
            assert pruned.tobytes() == dense.tobytes()
        elif method == "magnitude" and name.split(".")[-2] not in ("q_proj", "k_proj"):
            assert np.count_nonzero(pruned == 0) == math.floor(0.6 * dense.size)
            assert (pruned[pruned != 0] == dense[pruned != 0]).all()
        else:
            assert np.count_nonzero(pruned == 0) == pytest.approx(0.6 * dense.size, abs=4)
    rows = {row["name"]: row for row in report["tensors"]}
    assert set(rows) == {name for name in before if _is_map(name)}
    for name, row in rows.items():
        assert row["zeros"] == np.count_nonzero(after[name] == 0) and row["size"] == after[name].size
        assert row["method"] == method
    assert json.loads((tmp_path / "out" / "pruning.json").read_text()) == report
    for name in ("config.json", "tokenizer.json"):
        assert (tmp_path / "out" / name).read_bytes() == (MODEL / name).read_bytes()
    assert not (tmp_path / "out.partial").exists()


def test_the_default_divides_an_exact_total(tmp_path, texts):
    report = prune_model(MODEL, tmp_path / "out", 0.5, calibration=texts[0], **SMALL)
    shares = {row["zeros"] / row["size"] for row in report["tensors"]}
    assert report["zeros"] * 2 == report["size"] and 0.05 <= min(shares) < max(shares) < 0.951  # counts are rounded
    assert report["fingerprint"]["fields"]["plan"]["budget"] == "auto"
    assert report["method"] == {"attention": "output-obs", "rest": "output-obs"}


@pytest.mark.parametrize(("attention", "rest"), [("output-obs", "wanda"), ("magnitude", "sparsegpt")])
def test_patterns(tmp_path, texts, attention, rest):
    out = tmp_path / "out"
    prune_model(MODEL, out, pattern="2:4", calibration=[texts[0]], attention=attention, rest=rest, **SMALL)
    for name, weight in _tensors(out).items():
        if _is_map(name):
            assert (np.count_nonzero(weight.reshape(-1, 4) == 0, axis=1) == 2).all()


def test_a_folder_is_the_same_model_as_in_memory(tmp_path, texts):
    """The second block sees the pruned first one, as the file holds it."""
    source = _as_float32(tmp_path / "model")
    prune_model(source, tmp_path / "out", 0.5, calibration=texts[0], rest="sparsegpt", **SMALL)
    model = load_pretrained(source, dtype=np.float32)
    ids = calibration_windows([texts[0].read_text()], model.tokenizer, **SMALL, seed=0, framed=False)
    same = prune_in_memory(model, ids, Plan(rest="sparsegpt", rho=0.5))
    dense_inputs = prune_in_memory(model, ids, Plan(rest="sparsegpt", rho=0.5, dense_inputs=True))
    written = load_pretrained(tmp_path / "out", dtype=np.float32).logits(ids)
    np.testing.assert_array_equal(written, same.logits(ids))
    assert np.abs(written - dense_inputs.logits(ids)).max() > 1e-3


def _as_float32(folder):
    shutil.copytree(MODEL, folder)
    save_file({name: value.astype(np.float32) for name, value in _tensors(MODEL).items()}, folder / "model.safetensors")
    return folder


INTERRUPTED = {"rho": 0.5, "attention": "wanda", "rest": "wanda", **SMALL}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("uninterrupted") / "out"
    prune_model(MODEL, folder, calibration=texts[0], **INTERRUPTED)
    return _files(folder)


@pytest.mark.parametrize("stage", ["keep_states", "keep_block", "remove"])
@pytest.mark.parametrize("when", [2, pytest.param(1, marks=pytest.mark.thorough)])
def test_interrupted_and_started_again(tmp_path, texts, monkeypatch, stage, when, uninterrupted):
    """Stopped before and after any of its steps, the same call ends in the same bytes."""
    wanted = {"calibration": texts[0], **INTERRUPTED}
    original, calls = getattr(Workplace, stage), []

    def stopping(self, *args):
        calls.append(None)
        if len(calls) == when:
            raise KeyboardInterrupt
        original(self, *args)
        if len(calls) == when + 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(Workplace, stage, stopping)
    for _ in range(3):
        try:
            prune_model(MODEL, tmp_path / "out", **wanted)
            break
        except KeyboardInterrupt:
            assert stage == "remove" or not (tmp_path / "out").exists()
    monkeypatch.undo()
    prune_model(MODEL, tmp_path / "out", **wanted)
    assert _files(tmp_path / "out") == uninterrupted
    assert not (tmp_path / "out.partial").exists()


def test_a_finished_folder_is_left_alone_and_any_other_refused(tmp_path, texts):
    wanted = {"rho": 0.5, "calibration": texts[0], "attention": "wanda", "rest": "dense", **SMALL}
    out = tmp_path / "out"
    first = prune_model(MODEL, out, **wanted)
    times = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    assert prune_model(MODEL, out, **wanted) == first
    assert {path.name: path.stat().st_mtime_ns for path in out.iterdir()} == times
    for change in ({"rho": 0.4}, {"seed": 1}, {"k": 4}, {"calibration": texts[1]}, {"dense_inputs": True}):
        with pytest.raises(InvalidInstance, match="out must be a new folder"):
            prune_model(MODEL, out, **(wanted | change))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInstance, match="out must be a new folder"):
        prune_model(MODEL, tmp_path / "empty", **wanted)


def test_unfinished_work_of_another_request_is_kept(tmp_path, texts, monkeypatch):
    wanted = {"rho": 0.5, "calibration": texts[0], "attention": "wanda", "rest": "dense", **SMALL}

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Workplace, "keep_block", stop)
        prune_model(MODEL, tmp_path / "out", **wanted)
    with pytest.raises(InvalidInstance, match="its request has another plan.seed"):
        prune_model(MODEL, tmp_path / "out", **(wanted | {"seed": 1}))
    for package in fingerprint.versions():
        other = fingerprint.versions() | {package: "another"}
        with monkeypatch.context() as patch:
            patch.setattr(request, "versions", lambda other=other: other)
            with pytest.raises(InvalidInstance, match=f"another versions.{package}: repeat that request, or move"):
                prune_model(MODEL, tmp_path / "out", **wanted)
    first = prune_model(MODEL, tmp_path / "out", **wanted)
    monkeypatch.setattr(request, "versions", lambda: {})
    assert prune_model(MODEL, tmp_path / "out", **wanted) == first


def test_the_command_says_that_it_goes_on(tmp_path, texts, monkeypatch, capsys):
    words = ["prune-model", str(MODEL), "--out", str(tmp_path / "out"), "--rho", "0.5", "--calibration", str(texts[0])]
    words += ["--attention", "wanda", "--rest", "dense", "--k", "2", "--n", "32", "--device", "numpy"]

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(Workplace, "keep_block", stop)
        main(words)
    assert "going on" not in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(words)
    assert f"going on from {tmp_path / 'out.partial'}" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [tuple, iter, np.array], ids=["tuple", "iterator", "array"])
def test_calibration_may_be_any_texts_but_none(texts, kind):
    plan = Plan(rho=0.5)
    paths = [str(path) for path in texts]
    assert Job(ModelFolder(MODEL), "out", plan, kind(paths)).texts == [path.read_text() for path in texts]
    with pytest.raises(InvalidInstance, match="calibration must name at least one text; got none"):
        Job(ModelFolder(MODEL), "out", plan, kind([]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rho": None}, "exactly one of rho and pattern must be given; got None and None"),
        ({"pattern": "2:4"}, "exactly one of rho and pattern must be given; got 0.5 and '2:4'"),
        ({"rho": 1.5}, "rho must be"),
        ({"attention": "magic"}, "attention must be one of"),
        ({"rest": "fisher-obs"}, "rest must be one of"),
        ({"rho": None, "pattern": "2:5"}, "must be a multiple of M; got 64 and 2:5"),
        ({"rho": None, "pattern": "4:2"}, "0 <= N <= M"),
        ({"rho": None, "pattern": "2:4", "attention": "fisher-obs"}, "a method with a pattern must be one of"),
        ({"n": 4096}, "at most 256 tokens; got 4096"),
        ({"n": 1}, "n must be an integer >= 2"),
        ({"k": 0}, "k must be an integer >= 1"),
        ({"calibration": []}, "calibration must name at least one text"),
        ({"calibration": "nowhere.txt"}, "a text must be a file"),
        ({"calibration": "short.txt"}, "texts must have at least n = 32 tokens"),
        ({"hold": (0,), "budget": "matrix"}, "hold needs a budget that differs between matrices"),
        ({"hold": (0, 77), "budget": "owl"}, r"hold must name blocks from 0 to \d; got 77"),
    ],
)
def test_bad_requests_leave_nothing_behind(tmp_path, texts, change, message, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short.txt").write_text("two words")
    wanted = {"rho": 0.5, "calibration": texts[0], **SMALL} | change
    with pytest.raises(InvalidInstance, match=message):
        prune_model(MODEL, tmp_path / "out", **wanted)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "out.partial").exists()  # which would keep the corrected request from starting


def test_weights_that_are_no_numbers_leave_nothing_behind(tmp_path, texts):
    folder = _as_float32(tmp_path / "model")
    tensors = _tensors(folder)
    tensors["model.layers.0.mlp.up_proj.weight"][0, 0] = np.nan
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(InvalidInstance, match="up_proj.weight' must be finite"):
        prune_model(folder, tmp_path / "out", 0.5, calibration=texts[0], **SMALL)
    assert not (tmp_path / "out.partial").exists()


def test_shards_and_brain_floats(tmp_path, texts):
    """Two shards, one in BF16: each tensor stays where and what it was."""
    source = tmp_path / "model"
    shutil.copytree(MODEL, source)
    (source / "model.safetensors").unlink()
    tensors = _tensors(MODEL)
    names = sorted(tensors)
    shards = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for shard, part in shards.items():
        save_file({name: tensors[name].astype(np.float32) for name in part}, source / shard)
    _rewrite_as_brain(source / "model-2.safetensors", tensors, shards["model-2.safetensors"])
    index = {"metadata": {}, "weight_map": {name: shard for shard, part in shards.items() for name in part}}
    (source / "model.safetensors.index.json").write_text(json.dumps(index))
    out = tmp_path / "out"
    report = prune_model(source, out, 0.5, calibration=texts[0], attention="sparsegpt", rest="output-obs", **SMALL)
    assert len(report["tensors"]) == 28
    assert (out / "model.safetensors.index.json").read_bytes() == (source / "model.safetensors.index.json").read_bytes()
    for shard in shards:
        assert _header(out / shard) == _header(source / shard)
    assert {row["zeros"] for row in report["tensors"] if row["method"] == "output-obs"} == {1024, 2048, 5632}
    assert np.isfinite(load_pretrained(out).logits([[1, 2, 3]])).all()


def _header(file):
    content = file.read_bytes()
    return content[: 8 + int.from_bytes(content[:8], "little")]


def _rewrite_as_brain(file, tensors, names):
    header, body = {}, b""
    for name in names:
        raw = encoded(tensors[name].astype(np.float32), "BF16").tobytes()
        offsets = [len(body), len(body) + len(raw)]
        header[name] = {"dtype": "BF16", "shape": list(tensors[name].shape), "data_offsets": offsets}
        body += raw
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + body)
    with safe_open(file, framework="np") as handle:
        assert sorted(handle.keys()) == sorted(names)


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_stored_numbers_are_the_nearest(dtype):
    values = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    stored = decoded(encoded(values, dtype), dtype).astype(np.float64)
    digits = {"F32": 24, "F16": 11, "BF16": 8}[dtype]
    assert (np.abs(stored - values) <= 2.0**-digits * np.abs(values)).all()
    np.testing.assert_array_equal(decoded(encoded(np.float32([0.0, 1.0, -2.5]), dtype), dtype), [0.0, 1.0, -2.5])


def _finished(folder):
    """Count the files under their final name; 0 where the folder is renamed while they are counted."""
    try:
        return sum(path.is_file() and not path.name.startswith(".") for path in folder.rglob("*"))
    except FileNotFoundError:
        return 0


@pytest.mark.thorough
def test_killed_whenever_something_was_finished(tmp_path, texts):
    """The process is killed as the kernel kills, after every file it finished, until one run gets through."""
    words = [sys.executable, "-m", "attnprune_verify", "prune-model", str(MODEL), "--rho", "0.5", "--quiet"]
    words += ["--calibration", str(texts[0]), "--k", "2", "--n", "32"]
    subprocess.run([*words, "--out", str(tmp_path / "whole")], check=True)
    partial, killed = tmp_path / "out.partial", 0
    while not (tmp_path / "out").exists():
        before = _finished(partial)
        process = subprocess.Popen([*words, "--out", str(tmp_path / "out")])
        while process.poll() is None and _finished(partial) <= before:
            time.sleep(0.002)
        killed += process.poll() is None
        process.kill()
        process.wait()
    subprocess.run([*words, "--out", str(tmp_path / "out")], check=True)
    assert killed and _files(tmp_path / "out") == _files(tmp_path / "whole")
    assert not (tmp_path / "out.partial").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["--k", "0"],
        ["--n", "1"],
        ["--calibration", "nowhere.txt"],
        ["--out", ".."],
        ["--rest", "nothing"],
        ["--rho", "2"],
    ],
    ids=lambda words: words[0],
)
def test_a_wrong_option_is_refused_before_torch_is_loaded(tmp_path, texts, words, monkeypatch, capsys):
    """What is on disk and in the words decides; neither torch nor transformers is imported."""
    monkeypatch.setattr("attnprune_verify.pruning.need", lambda *_: pytest.fail("torch was loaded"))
    given = {"--out": str(tmp_path / "out"), "--rho": "0.5", "--calibration": str(texts[0])} | {words[0]: words[1]}
    with pytest.raises(SystemExit) as ended:
        main(["prune-model", str(MODEL), *(word for pair in given.items() for word in pair)])
    assert ended.value.code == 2 and len(capsys.readouterr().err.splitlines()) == 1
