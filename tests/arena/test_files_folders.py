"""Classes A, E and F: folders of others, models that take the machine, and files that are not the model's."""

import json
import os
import shutil

import pytest

from attnprune_verify.claims.campaign.run import run_campaign
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.experiments.runs import complete
from attnprune_verify.files import alone
from attnprune_verify.pretrained import load_pretrained
from attnprune_verify.pruning import prune_model
from attnprune_verify.state.keeper import Keeper
from attnprune_verify.whole_model.workplace import Workplace
from tests.arena.catalogue import attack
from tests.arena.small import contents, write_model
from tests.arena.test_model_folders import PATHS

CLAIMED = "attnprune_verify.state.keeper:Keeper.claimed"
CLEAR = "attnprune_verify.state.keeper:Keeper.clear"
INSIDE = "attnprune_verify.pretrained.folder:inside"


@pytest.fixture(params=PATHS)
def pruning(tmp_path, request):
    model, text = write_model(tmp_path / "model")
    return {
        "folder": model,
        "device": request.param,
        "rho": 0.5,
        "calibration": text,
        "k": 2,
        "n": 8,
        "attention": "wanda",
        "rest": "wanda",
    }


def stranger(folder, name="thesis.tex"):
    folder.mkdir(parents=True)
    (folder / name).write_text("three years of work")
    return folder


def untouched(folder, run):
    before = contents(folder)
    with pytest.raises(InvalidInstance, match="must be empty, new or a folder of this very request"):
        run()
    assert contents(folder) == before


@attack("A", "OUT.partial of a stranger is met", stopped_by=CLAIMED, quick=True)
def test_a_partial_folder_of_a_stranger(tmp_path, pruning):
    partial = stranger(tmp_path / "out.partial")
    untouched(partial, lambda: prune_model(out=tmp_path / "out", **pruning))
    assert not (tmp_path / "out").exists()


@attack("A", "OUT.partial holds files with our names, but no request of ours", stopped_by=CLAIMED)
@pytest.mark.parametrize("name", ["hidden-0000.npy", "block-0000.arrays", "zeros.json", "folder/config.json", "lock"])
def test_names_like_ours(tmp_path, pruning, name):
    (tmp_path / "out.partial" / name).parent.mkdir(parents=True)
    (tmp_path / "out.partial" / name).write_text("not ours")
    untouched(tmp_path / "out.partial", lambda: prune_model(out=tmp_path / "out", **pruning))


@attack("A", "OUT.partial is a link to a folder of the user", stopped_by=CLAIMED, quick=True)
@pytest.mark.parametrize("full", [True, False])
def test_a_link_in_the_place_of_a_partial_folder(tmp_path, pruning, full):
    home = stranger(tmp_path / "home")
    if not full:
        (home / "thesis.tex").unlink()
    (tmp_path / "out.partial").symlink_to(home, target_is_directory=True)
    untouched(home, lambda: prune_model(out=tmp_path / "out", **pruning))
    assert home.is_dir() and (tmp_path / "out.partial").is_symlink()


def interrupted(tmp_path, pruning, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Workplace, "keep_block", stop)
        prune_model(out=tmp_path / "out", **pruning)
    return tmp_path / "out.partial"


@attack("A", "the user puts a file into our OUT.partial", stopped_by=CLEAR, quick=True)
def test_notes_in_a_folder_of_ours(tmp_path, pruning, monkeypatch):
    partial = interrupted(tmp_path, pruning, monkeypatch)
    (partial / "notes.txt").write_text("mine")
    (partial / "block-0000.arrays.bak").write_text("mine, too")
    prune_model(out=tmp_path / "out", **pruning)
    assert contents(partial) == {"notes.txt": b"mine", "block-0000.arrays.bak": b"mine, too"}
    prune_model(out=tmp_path / "out", **pruning)
    assert len(contents(partial)) == 2


@attack("A", "the user puts a file, or a link to a folder, where the new folder is put together",
        stopped_by="attnprune_verify.whole_model.assembled:assemble")  # fmt: skip
@pytest.mark.parametrize("link", [False, True])
def test_strangers_where_the_folder_is_put_together(tmp_path, pruning, monkeypatch, link):
    partial, home = interrupted(tmp_path, pruning, monkeypatch), stranger(tmp_path / "home", "config.json")
    if link:
        (partial / "folder").symlink_to(home, target_is_directory=True)
    else:
        stranger(partial / "folder")
    with pytest.raises(InvalidInstance, match="must (be a folder|hold files) of ours"):
        prune_model(out=tmp_path / "out", **pruning)
    assert contents(home) == {"config.json": b"three years of work"} and not (tmp_path / "out").exists()


@attack("A", "a refused request meets the partial folder of another one", stopped_by=CLAIMED)
@pytest.mark.parametrize("change", [{"seed": 1}, {"k": 3}, {"rho": 0.4}])
def test_unfinished_work_of_another_request(tmp_path, pruning, monkeypatch, change):
    partial = interrupted(tmp_path, pruning, monkeypatch)
    untouched(partial, lambda: prune_model(out=tmp_path / "out", **{**pruning, **change}))


@attack("A", "a campaign's --out is a folder of the user, or a link to one", stopped_by=CLAIMED, quick=True)
def test_a_campaign_in_a_strangers_folder(tmp_path):
    home = stranger(tmp_path / "home")
    (tmp_path / "link").symlink_to(home, target_is_directory=True)
    for out in (home, tmp_path / "link"):
        untouched(home, lambda out=out: run_campaign("fix:lip_f", 20, sizes="n=2,d=2", out=out))


@attack("A", "runs.jsonl is a file of the user, with or without a last newline",
        stopped_by="attnprune_verify.state.journal:Journal", quick=True)  # fmt: skip
@pytest.mark.parametrize("text", ["my own notes", "my own notes\n", '{"kez": 1', '{"key": "1", "mine": 3}\n'])
def test_a_journal_of_a_stranger(tmp_path, text):
    (tmp_path / "runs.jsonl").write_text(text)
    with pytest.raises(InvalidInstance, match="runs.jsonl must hold finished runs"):
        complete({"1": 1}, lambda n: {"n": n}, tmp_path / "runs.jsonl")
    assert (tmp_path / "runs.jsonl").read_text() == text


@attack("A", "two processes are at work in one folder", stopped_by="attnprune_verify.files:alone", quick=True)
def test_one_at_a_time(tmp_path, pruning):
    for folder in (tmp_path / "out.partial", tmp_path / "run"):
        folder.mkdir()
    with alone(tmp_path / "out.partial"), pytest.raises(InvalidInstance, match="another process is at work"):
        prune_model(out=tmp_path / "out", **pruning)
    with alone(tmp_path / "run"), pytest.raises(InvalidInstance, match="another process is at work"):
        run_campaign("fix:lip_f", 20, sizes="n=2,d=2", out=tmp_path / "run")
    with Keeper(tmp_path / "kept", {}).claimed(), pytest.raises(InvalidInstance, match="another process is at work"):
        with Keeper(tmp_path / "kept", {}).claimed():
            pass


# E


def configured(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


@attack("E", "config.json gives sizes, heads or a context beyond all memory",
        stopped_by="attnprune_verify.pretrained.tensors:Tensors.expect")  # fmt: skip
@pytest.mark.parametrize("name", ["hidden_size", "vocab_size", "intermediate_size", "num_attention_heads", "head_dim"])
def test_sizes_beyond_memory(pruning, name):
    configured(pruning["folder"], **{name: 2**60})
    with pytest.raises(InvalidInstance):
        prune_model(out=pruning["folder"].parent / "out", **pruning)


@attack("E", "a JSON file of a model is nested a hundred thousand levels deep",
        stopped_by="attnprune_verify.files:parse", quick=True)  # fmt: skip
@pytest.mark.parametrize("name", ["config.json", "model.safetensors.index.json"])
def test_deep_json_of_a_model(pruning, name):
    (pruning["folder"] / "model.safetensors").unlink()
    (pruning["folder"] / name).write_text("[" * 10**5 + "]" * 10**5)
    with pytest.raises(InvalidInstance, match=f"{name} must be valid JSON; JSON must have at most 100 levels"):
        load_pretrained(pruning["folder"])


# F


@attack("F", "a file of a downloaded model is a link to a file of the user", stopped_by=INSIDE, quick=True)
@pytest.mark.parametrize("name", ["README.md", "config.json", "tokenizer.json", "model.safetensors", "LICENSE"])
def test_links_out_of_the_folder(tmp_path, pruning, name):
    file = pruning["folder"] / name
    secret = tmp_path / "secret"
    secret.write_bytes(file.read_bytes() if file.exists() else b"password")
    file.unlink(missing_ok=True)
    file.symlink_to(secret)
    with pytest.raises(InvalidInstance, match=f"{name} leads out of it"):
        prune_model(out=tmp_path / "out", **pruning)
    assert not (tmp_path / "out").exists() and not (tmp_path / "out.partial").exists()


@attack("F", "a link leads out of the folder over a second link, or over ..", stopped_by=INSIDE)
def test_links_over_links(tmp_path, pruning):
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "secret").write_text("password")
    (pruning["folder"] / "inner").symlink_to(tmp_path / "blobs" / "secret")
    for target in ("inner", "../blobs/secret", str(pruning["folder"] / ".." / "blobs" / "secret")):
        (pruning["folder"] / "README.md").unlink(missing_ok=True)
        (pruning["folder"] / "README.md").symlink_to(target)
        with pytest.raises(InvalidInstance, match="README.md leads out of it"):
            prune_model(out=tmp_path / "out", **pruning)


def test_the_hubs_cache_and_links_inside_are_followed(tmp_path, pruning):
    """What must go on working: a snapshot of the hub is made of links to blobs."""
    model, hub = pruning.pop("folder"), tmp_path / "models--a--b"
    snapshot = hub / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    (hub / "blobs").mkdir()
    for file in model.iterdir():
        shutil.copy(file, hub / "blobs" / f"blob-{file.name}")
        (snapshot / file.name).symlink_to(f"../../blobs/blob-{file.name}")
    (snapshot / "README.md").symlink_to("config.json")
    prune_model(snapshot, tmp_path / "out", **pruning)
    copied = contents(tmp_path / "out")
    assert copied["config.json"] == copied["README.md"] == (model / "config.json").read_bytes()
    assert not any(one.is_symlink() for one in (tmp_path / "out").iterdir())


@attack("F", "a sparse file of a terabyte lies beside the weights",
        stopped_by="attnprune_verify.whole_model.source:Source", quick=True)  # fmt: skip
def test_sizes_beside_the_weights(tmp_path, pruning):
    with (pruning["folder"] / "tokenizer_config.json").open("wb") as file:
        try:
            file.truncate(10**12)
        except OSError:
            file.truncate(2**31)
    with pytest.raises(InvalidInstance, match="bytes beside its weights"):
        prune_model(out=tmp_path / "out", **pruning)


@attack("F", "files that are not the model's lie in its folder, also as pipes and folders",
        stopped_by="attnprune_verify.whole_model.source:Source", quick=True)  # fmt: skip
def test_only_known_names_are_copied(tmp_path, pruning):
    folder = pruning["folder"]
    for name in ("secrets.json", ".env", "id_rsa.txt", "modeling_llama.py", "wallet.md", "other.safetensors"):
        (folder / name).write_text("private")
    os.mkfifo(folder / "README.md")
    (folder / "LICENSE").mkdir()
    report = prune_model(out=tmp_path / "out", **pruning)
    assert set(contents(tmp_path / "out")) == {"config.json", "tokenizer.json", "model.safetensors", "pruning.json"}
    assert set(report["files"]) == {"config.json", "tokenizer.json", "model.safetensors"}
