"""What is kept between runs: lines that were cut off anywhere, fields that are missing, findings of other instances."""

from dataclasses import fields, replace

import numpy as np
import pytest

from attnprune_verify.claims.campaign.draw import GROUPS, Draw
from attnprune_verify.claims.campaign.examine import examine
from attnprune_verify.claims.campaign.judge import Group, attackable, case_of
from attnprune_verify.claims.campaign.plan import DEFAULT_SIZES
from attnprune_verify.claims.campaign.run import run_campaign
from attnprune_verify.claims.core import Verdict
from attnprune_verify.claims.judging.falsifier import Effort
from attnprune_verify.claims.judging.judge import Judgement, judge
from attnprune_verify.claims.judging.verdict_cache import keep, kept
from attnprune_verify.claims.registry import claims, find
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.state.digests import differing_fields
from attnprune_verify.state.journal import Journal
from attnprune_verify.state.keeper import Keeper
from attnprune_verify.state.sealed import sealed, unsealed


def test_after_a_line_that_was_cut_off_a_journal_goes_on(tmp_path):
    """At every byte of the second of three runs: the first is there, the others are done again and kept."""
    path = tmp_path / "runs.jsonl"
    journal = Journal(path, "code")
    journal.add({"key": "a", "value": 1})
    start = path.stat().st_size
    journal.add({"key": "b", "value": 2})
    content = path.read_bytes()
    for end in range(start, len(content)):
        path.write_bytes(content[:end])
        journal = Journal(path, "code")
        assert journal.finished.keys() == {"a"}
        journal.add({"key": "b", "value": 2})
        journal.add({"key": "c", "value": 3})
        again = Journal(path, "code").finished
        assert {key: run["value"] for key, run in again.items()} == {"a": 1, "b": 2, "c": 3}


@pytest.mark.parametrize(
    ("one", "other", "names"),
    [
        ({"k": None}, {}, ["k"]),
        ({}, {"k": None}, ["k"]),
        ({"k": {"a": None}}, {"k": {}}, ["k.a"]),
        ({"k": {}}, {"k": None}, ["k"]),
        ({"k": 0}, {"k": None}, ["k"]),
        ({"k": {"a": 1, "b": 2}, "l": 3}, {"k": {"a": 1, "b": 3}, "l": 3}, ["k.b"]),
        ({"k": None}, {"k": None}, []),
    ],
)
def test_a_field_that_is_missing_differs_from_one_that_is_nothing(one, other, names):
    assert differing_fields(one, other) == names


def test_a_campaign_s_worst_instance_is_one_of_its_own(tmp_path):
    """A checkpoint whose worst instance has the slack that it claims, but a number that only a longer campaign has.

    It belongs to a group that is done, as every thirty-second does.
    """
    run_campaign("lem:bound_c", 20, out=tmp_path)
    path = tmp_path / "campaign.json"
    kept = unsealed(path.read_bytes())
    for number, tally in enumerate(kept["tallies"]):
        beyond = examine("lem:bound_c", GROUPS)[number]
        n, d = beyond.case["X"].shape
        tally["worst"] = [beyond.slack, GROUPS, n, d]
    path.write_bytes(sealed(kept))
    with pytest.raises(InvalidInstance, match="worst instance"):
        run_campaign("lem:bound_c", 20, out=tmp_path)


@pytest.mark.parametrize("number", range(4))
def test_statements_that_share_instances_read_each_its_own(number):
    """One group for all statements: mask, box and lam of what they share are those of the plain case of each."""
    group = Group(Draw.of(3, DEFAULT_SIZES, number, 0, 3))
    read = set()
    plain = [claim for claim in claims() if attackable(claim) and group.lanes_of(claim) is not None]
    others = [replace(claim, supply=replace(claim.supply, lam=0.5)) for claim in plain]  # not all differ in lam alone
    for claim in [*plain, *others]:
        lanes = group.lanes_of(claim)
        for place in range(3):
            case = case_of(claim, group.draw, place)
            for name in ("X", "W", "M", "lam"):
                assert np.array_equal(lanes.case.arrays[name][place], case[name]), (claim.test_id, name)
            assert np.array_equal(lanes.case.common["mask"], case["mask"]), claim.test_id
        read.add((claim.supply.mask, claim.supply.in_box, claim.supply.lam))
    assert len(read) >= 6


def test_a_kept_verdict_has_every_field_that_it_had(tmp_path, monkeypatch):
    """None of them at its default, so that one which is left out comes back as another."""
    monkeypatch.setenv("ATTNPRUNE_CACHE", str(tmp_path))
    brief = Effort(0, 0, 0, 0)
    given = judge(find("lem:PL_ineq", "full"), brief)
    given.undecided, given.misprint, given.reason, given.nearest = 2, "another formula", "a reason", given.witness
    given.failed["a hypothesis"] = 3
    empty = Judgement(given.claim)
    names = [one.name for one in fields(Judgement) if one.name not in ("claim", "error", "kept")]
    assert all(getattr(given, name) != getattr(empty, name) for name in names if name not in ("statement", "certified"))
    assert given.statement is Verdict.REFUTED and given.certified
    keep(given, brief)
    found = kept(given.claim, brief)
    assert found is not None and found.kept
    for name in names:
        one, other = getattr(given, name), getattr(found, name)
        if name in ("worst", "nearest", "witness", "smallest"):
            one, other = ((trial.case.as_json(), trial.slack, trial.certain) for trial in (one, other))
        assert one == other, name


def test_what_is_kept_comes_back_under_its_own_name_and_request_alone(tmp_path):
    """Documents and arrays: a file that is put in the place of another, or that another request wrote, is nothing."""
    keepers = [Keeper(tmp_path / str(seed), {"seed": seed}, own=r".*") for seed in (1, 2)]
    arrays = {"Q": np.arange(3.0)}
    for keeper in keepers:
        keeper.folder.mkdir()
        keeper.keep("a.json", {"value": 1})
        keeper.keep_arrays("a.arrays", arrays)
    first, other = keepers
    assert first.kept("a.json") == {"value": 1}
    assert np.array_equal(first.arrays("a.arrays")["Q"], arrays["Q"])
    for name, read in (("a.json", "kept"), ("a.arrays", "arrays")):
        content = (first.folder / name).read_bytes()
        (first.folder / f"b-{name}").write_bytes(content)
        assert getattr(first, read)(f"b-{name}") is None, "under another name"
        (other.folder / name).write_bytes(content)
        assert getattr(other, read)(name) is None, "in another request's folder"
        (first.folder / name).write_bytes(content[: len(content) // 2])
        assert getattr(first, read)(name) is None, "cut off"
