"""Programs written before the audit that judges them: the wrong ones fail by name, the right ones pass."""

import pytest

from tests.audit.unseen import unseen

WRONG = [one for kind in unseen.KINDS for one in unseen.unseen(kind)]


def needed(path):
    for framework in ("torch", "jax"):
        if f"import {framework}" in path.read_text(encoding="utf-8"):
            pytest.importorskip(framework)


def test_there_are_forty_wrong_ones_and_fifteen_right_ones():
    assert len(WRONG) >= 40 and len({one.id for one in WRONG}) == len(WRONG) and len(unseen.right()) >= 15
    for one in WRONG:
        compile(one.source(), one.id, "exec")


@pytest.mark.parametrize("one", [one for one in WRONG if one.id.startswith("window ignored")], ids=lambda one: one.id)
def test_an_interaction_is_found_named_and_told_with_the_features_it_needs(one, tmp_path):
    result = one.audited(tmp_path, only="attention:values:*", quick=True)
    failed = [record for record in result.checks if record.status == "failed"]
    names = {record.name for record in failed}
    assert "values:together" in names and one.named(result)
    assert all(name.startswith(("values:together", "values:shape-")) for name in names)
    assert "needs kv_heads < heads and window" in failed[0].words
    assert len(failed[0].snippet.splitlines()) <= 40


@pytest.mark.thorough
@pytest.mark.parametrize("one", WRONG, ids=lambda one: one.id)
def test_wrong_ones_fail(one, tmp_path):
    needed(one.base)
    result = one.audited(tmp_path)
    assert result.outcome == "failed"
    pinned = one.kind != "kernels" or one.reported  # of other kernels kernel/wrong pins the names
    assert not pinned or one.named(result), result.diagnosis
    assert not [record for record in result.checks if "attnprune-verify itself" in record.words]


@pytest.mark.thorough
@pytest.mark.parametrize("path", unseen.right(), ids=lambda path: path.stem)
def test_right_ones_pass(path):
    needed(path)
    result = unseen.judged_right(path)
    assert result.outcome == "passed", [(one.id, one.reason) for one in result.checks if one.status == "failed"]
