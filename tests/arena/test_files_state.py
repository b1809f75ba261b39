"""Class D: what a resumable command keeps is damaged, in every file of it; it is computed anew or refused by name."""

import json
import random
import re
import shutil
from dataclasses import replace

import pytest

from attnprune_verify.claims.campaign.examine import refuse_other_slack
from attnprune_verify.claims.campaign.plan import CampaignPlan
from attnprune_verify.claims.campaign.run import run_campaign
from attnprune_verify.claims.campaign.tally import Tally
from attnprune_verify.claims.judging import text_cache
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.experiments.runs import complete
from attnprune_verify.state.keeper import Keeper
from attnprune_verify.state.sealed import sealed
from attnprune_verify.whole_model import prune_model
from attnprune_verify.whole_model.workplace import Workplace
from tests.arena.catalogue import attack
from tests.arena.small import contents, write_model

KEEPER = "attnprune_verify.state.keeper:Keeper"


def flipped(content, rng):
    place = rng.randrange(len(content))
    return content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :]


def other_number(content, rng):
    places = [found.start() for found in re.finditer(rb"[0-9]", content)]
    if not places:
        return flipped(content, rng)
    place = rng.choice(places)
    digit = (int(content[place : place + 1]) + rng.randrange(1, 10)) % 10
    return content[:place] + b"%d" % digit + content[place + 1 :]


def emptied(content, rng):
    return b""


def cut(content, rng):
    return content[: rng.randrange(len(content))]


def swapped_tail(content, rng):
    return content[:-40] + content[:40]


DAMAGES = [flipped, other_number, emptied, cut, swapped_tail]


def survives(folder, kept, resume, seed, more=1):
    """Damage each file of `kept` in every way and resume: the same result, or InvalidInstance with the file's name."""
    rng, whole, refused = random.Random(seed), resume(), 0
    for name in sorted(kept):
        for damage in DAMAGES * more:
            shutil.rmtree(folder, ignore_errors=True)
            for one, content in kept.items():
                (folder / one).parent.mkdir(parents=True, exist_ok=True)
                (folder / one).write_bytes(damage(content, rng) if one == name else content)
            try:
                assert resume() == whole, (name, damage.__name__)
            except InvalidInstance as error:
                assert name in str(error), (name, damage.__name__)
                refused += 1
    return refused


@pytest.fixture
def pruning(tmp_path):
    model, text = write_model(tmp_path / "model")
    return {"folder": model, "rho": 0.5, "calibration": text, "k": 4, "n": 8, "budget": "owl"}


def stop(*_):
    raise KeyboardInterrupt


@attack("D", "a file of OUT.partial is damaged: a bit, a number, its end, all of it", stopped_by=f"{KEEPER}.intact")
@pytest.mark.parametrize("stage", ["block", "whole"])
def test_every_file_of_a_partial_folder(tmp_path, monkeypatch, pruning, stage):
    out, calls, keep = tmp_path / "out", [], Workplace.keep_block
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        if stage == "block":
            patch.setattr(Workplace, "keep_block", lambda *args: stop() if calls else (calls.append(1), keep(*args)))
        else:
            patch.setattr("attnprune_verify.whole_model.request.assemble", stop)
        prune_model(out=out, **pruning)
    kept = contents(tmp_path / "out.partial")
    kinds = {name.partition("-")[0] for name in kept}
    assert {"request.json", "zeros.json", "metrics", "block", "hidden"} <= kinds

    def resume():
        shutil.rmtree(out, ignore_errors=True)
        prune_model(out=out, **pruning)
        return contents(out)

    survives(tmp_path / "out.partial", kept, resume, seed=1)


@attack("D", "a file of a finished OUT is damaged", stopped_by="attnprune_verify.whole_model.assembled:finished")
def test_every_file_of_a_finished_folder(tmp_path, pruning):
    out = tmp_path / "out"
    prune_model(out=out, **pruning)
    kept = contents(out)
    assert set(kept) == {"config.json", "model.safetensors", "tokenizer.json", "pruning.json"}

    def resume():
        report = prune_model(out=out, **pruning)
        return report, contents(out)

    assert survives(out, kept, resume, seed=2, more=2) >= 8 * len(kept) - 2


@attack("D", "the weights of a finished OUT are gone, or a number of its report is another one",
        stopped_by="attnprune_verify.whole_model.assembled:finished", quick=True)  # fmt: skip
def test_a_finished_folder_is_compared(tmp_path, pruning):
    out = tmp_path / "out"
    report = prune_model(out=out, **pruning)
    assert prune_model(out=out, **pruning) == report
    text = (out / "pruning.json").read_text()
    (out / "pruning.json").write_text(text.replace(f'"zeros": {report["zeros"]}', '"zeros": 7', 1))
    with pytest.raises(InvalidInstance, match="pruning.json' was changed since it was written"):
        prune_model(out=out, **pruning)
    (out / "pruning.json").write_text(text)
    (out / "model.safetensors").unlink()
    with pytest.raises(InvalidInstance, match="model.safetensors' was changed or is missing"):
        prune_model(out=out, **pruning)


@attack("D", "weights are exchanged while blocks are pruned, before they are copied",
        stopped_by="attnprune_verify.whole_model.source:Source.refuse_changes", quick=True)  # fmt: skip
def test_a_model_that_changes_is_no_mixture(tmp_path, pruning, monkeypatch):
    shard, keep = pruning["folder"] / "model.safetensors", Workplace.keep_block
    content = shard.read_bytes()

    def exchange(*args):
        keep(*args)
        shard.write_bytes(content[:-4] + b"\0\0\0\0")

    with monkeypatch.context() as patch:
        patch.setattr(Workplace, "keep_block", exchange)
        with pytest.raises(InvalidInstance, match="model.safetensors was changed"):
            prune_model(out=tmp_path / "out", **pruning)
    assert not (tmp_path / "out").exists()


@attack("D", "weights are exchanged and exchanged back with their old times, between the last block and the copy",
        stopped_by="attnprune_verify.whole_model.source:Source.copy")  # fmt: skip
def test_the_copy_is_hashed_as_well(tmp_path, pruning, monkeypatch):
    from attnprune_verify.whole_model import source

    shard = pruning["folder"] / "model.safetensors"
    monkeypatch.setattr(source.Source, "refuse_changes", lambda self: None)
    monkeypatch.setattr(source.Source, "_stamped", lambda self: {})
    keep, content = Workplace.keep_block, shard.read_bytes()
    monkeypatch.setattr(Workplace, "keep_block", lambda *args: (keep(*args), shard.write_bytes(content[:-1] + b"\1")))
    with pytest.raises(InvalidInstance, match="model.safetensors was changed"):
        prune_model(out=tmp_path / "out", **pruning)
    assert not (tmp_path / "out").exists()


@attack("D", "a kept file of one block is put in the place of another block's, seal and all",
        stopped_by=f"{KEEPER}.intact", quick=True)  # fmt: skip
def test_a_seal_is_about_its_name_and_its_request(tmp_path):
    for folder, request in (("one", {"seed": 1}), ("two", {"seed": 2})):
        keeper = Keeper(tmp_path / folder, request, own=r"\d\.bin")
        with keeper.claimed():
            for name in ("0.bin", "1.bin"):
                with keeper.writing(name) as sink:
                    sink.write(b"the same")
            assert keeper.intact("0.bin")
    shutil.copy(tmp_path / "one" / "1.bin", tmp_path / "one" / "0.bin")
    shutil.copy(tmp_path / "two" / "1.bin", tmp_path / "one" / "1.bin")
    keeper = Keeper(tmp_path / "one", {"seed": 1})
    assert keeper.intact("0.bin") is None and keeper.intact("1.bin") is None


CAMPAIGN = {"ids": ["fix:lip_f", "lem:PL_ineq"], "instances": 300, "sizes": "n=2,d=2..3"}


@pytest.fixture
def campaign(tmp_path):
    def halfway(done, total):
        if done > total / 2:
            raise KeyboardInterrupt

    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        run_campaign(**CAMPAIGN, out=out, progress=halfway)

    def resume():
        report = run_campaign(**CAMPAIGN, out=out).as_dict()
        return {name: report[name] for name in report if name not in ("instances_per_second", "resumed")}

    return out, contents(out), resume


@attack("D", "campaign.json is damaged: a bit, a number, its end, all of it", stopped_by=f"{KEEPER}.claimed")
def test_every_file_of_a_campaign(campaign):
    assert survives(*campaign, seed=3, more=4) >= 15


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("more instances than there are", lambda c: c["tallies"][0].update(instances=10**6)),
        ("more violations than instances", lambda c: c["tallies"][0].update(violations=10**6)),
        ("met as text", lambda c: c["tallies"][0].update(met=str(c["tallies"][0]["met"]))),
        ("met as true", lambda c: c["tallies"][0].update(met=None)),
        ("a tally too few", lambda c: c["tallies"].pop()),
        ("ranges that overlap", lambda c: c["done"].append(c["done"][0])),
        ("groups beyond the last", lambda c: c.update(done=[[0, 99]])),
        ("worst not a number", lambda c: c["tallies"][0].update(worst=["nan", 0, 2, 2])),
        ("worst better than it is", lambda c: c["tallies"][0]["worst"].__setitem__(0, 0.99)),
        ("worst of another instance", lambda c: c["tallies"][0]["worst"].__setitem__(1, 299)),
        ("negative seconds", lambda c: c.update(seconds=-1.0)),
    ],
)  # fmt: skip
@attack("D", "campaign.json is forged, and its digest computed anew",
        stopped_by="attnprune_verify.claims.campaign.tally:Tally.from_dict")  # fmt: skip
def test_counts_that_do_not_fit_each_other(campaign, name, change):
    out, kept, resume = campaign
    content = json.loads(kept["campaign.json"])
    del content["digest"]
    change(content)
    (out / "campaign.json").write_bytes(sealed(content))
    with pytest.raises(InvalidInstance):
        resume()


@attack("D", "a worker or a checkpoint gives the worst instance a slack that it has not",
        stopped_by="attnprune_verify.claims.campaign.examine:refuse_other_slack", quick=True)  # fmt: skip
def test_the_worst_slack_is_evaluated_anew():
    result = run_campaign("fix:lip_f", 40, sizes="n=2,d=2")
    plan, claim, worst = CampaignPlan.of("fix:lip_f", 40, 0, "n=2,d=2"), result.plan.claims[0], result.tallies[0].worst
    refuse_other_slack(plan, claim, result.tallies[0])
    for change in ({"slack": worst.slack + 1e-9}, {"index": worst.index + 1}, {"d": 3}):
        other = replace(worst, **change)
        with pytest.raises(InvalidInstance, match="must have the slack"):
            refuse_other_slack(plan, claim, Tally(40, 40, 0, 0, other))


def runs(journal):
    perform = {str(n): n for n in range(6)}
    return complete(perform, lambda n: {"rows": [{"square": n * n, "root": n**0.5}]}, journal)


@attack("D", "runs.jsonl is damaged: a bit, a number, its end, all of it",
        stopped_by="attnprune_verify.state.sealed:unsealed")  # fmt: skip
def test_every_line_of_a_journal(tmp_path):
    folder, more = tmp_path / "out", 20
    runs(folder / "runs.jsonl")
    refused = survives(folder, contents(folder), lambda: runs(folder / "runs.jsonl"), seed=4, more=more)
    # A changed byte is refused but in the last line's end, which a stopped write leaves too; where bytes fall moves
    # with the digest of the code. Two of five damages change one byte: of `2 * more` at most a few are not refused
    assert refused >= 1.5 * more


@attack("D", "rows of runs.jsonl are edited, doubled, emptied, or of another code",
        stopped_by="attnprune_verify.state.journal:Journal", quick=True)  # fmt: skip
def test_rows_that_were_not_measured(tmp_path, monkeypatch):
    journal = tmp_path / "runs.jsonl"
    whole = runs(journal)
    lines = journal.read_text().splitlines(keepends=True)
    for forged in (
        [lines[0].replace('"square": 0', '"square": 9'), *lines[1:]],
        [*lines, lines[0]],
        [lines[0].replace('"rows": [{', '"rows": [], "old": [{'), *lines[1:]],
        [lines[0].replace('"square": 0', '"square": NaN'), *lines[1:]],
        ['{"key": "0"}\n'],
        ['{"key": "0"'.replace("key", "kez")],
    ):
        journal.write_text("".join(forged))
        with pytest.raises(InvalidInstance, match="runs.jsonl must hold"):
            runs(journal)
        assert journal.read_text() == "".join(forged)
    journal.write_text("".join(lines))
    monkeypatch.setattr("attnprune_verify.experiments.runs.computing", lambda: "another code")
    done = []
    complete({"0": 0}, lambda n: done.append(n) or {"rows": []}, journal)
    assert done == [0] and whole == runs(tmp_path / "again.jsonl")


@attack(
    "D",
    "a kept page says holds where it said refuted",
    stopped_by="attnprune_verify.claims.judging.text_cache:kept",
    quick=True,
)
def test_kept_pages_and_verdicts(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNPRUNE_CACHE", str(tmp_path))
    text_cache.keep_page(
        "lem:PL_ineq", [{"reading": "full", "order": 83, "row": {"statement": "refuted"}, "blocks": []}]
    )
    page = text_cache.kept_page("lem:PL_ineq")
    (file,) = tmp_path.rglob("*.json")
    content, rng = file.read_bytes(), random.Random(5)
    assert page is not None
    file.write_bytes(content.replace(b"refuted", b"holds"))
    assert text_cache.kept_page("lem:PL_ineq") is None
    for damage in DAMAGES * 20:
        file.write_bytes(damage(content, rng))
        assert text_cache.kept_page("lem:PL_ineq") in (None, page)
    text_cache.keep_page("fix:PL_ineq", [])
    (other,) = set(tmp_path.rglob("*.json")) - {file}
    other.write_bytes(content)
    assert text_cache.kept_page("fix:PL_ineq") is None
