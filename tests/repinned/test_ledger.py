"""A pin that was written anew has an entry in the ledger, with a reason."""

import json
from dataclasses import replace

import pytest

from attnprune_verify.claims.registry import find
from tests.repinned import ledger

SENTENCES = {"sentence", "theorem", "proof", "quotation", "prior", "symbol", "page"}


def test_every_change_is_entered():
    changed = ledger.differences(ledger.read()["now"], ledger.digests())
    assert changed == [], 'pins changed: read them, then run python -m tests.repinned "the reason"'


def test_every_kind_is_pinned():
    kinds = {name.split()[0] for name, _ in ledger.items()}
    assert kinds == {"margin", "proposition", "table", *SENTENCES}
    assert len(dict(ledger.items())) == len(list(ledger.items()))


def test_every_entry_has_a_reason():
    for entry in ledger.read()["changes"]:
        assert len(entry["why"].split()) >= 3 and entry["items"]


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """The ledger of three items, in a folder of its own."""
    monkeypatch.setattr(ledger, "LEDGER", tmp_path / "ledger.json")
    monkeypatch.setattr(ledger, "items", lambda: iter([("margin a", "1"), ("table b", "2"), ("table c", "3")]))
    ledger.enter("the very first entry")
    return monkeypatch


def test_a_changed_digit_is_named(copied):
    copied.setattr(ledger, "items", lambda: iter([("margin a", "1"), ("table b", "3"), ("table c", "3")]))
    assert ledger.differences(ledger.read()["now"], ledger.digests()) == ["table b"]
    assert ledger.enter("measured anew with another seed") == ["table b"]
    assert ledger.read()["changes"][-1] == {"why": "measured anew with another seed", "items": ["table b"]}


def test_a_reason_is_demanded(copied):
    with pytest.raises(ValueError, match="at least 3 words"):
        ledger.enter("because")
    assert json.loads(ledger.LEDGER.read_text())["changes"][0]["items"] == ["every margin", "every table"]


@pytest.mark.parametrize(
    ("id_", "name", "before", "after"),
    [
        ("new:bound_p-any", "formula", "3 sqrt(n)", "2 sqrt(n)"),
        ("new:descent_lemma-any", "formula", "<=", "<"),
        ("new:confinement-any", "formula", "eta < 2/L", "eta <= 2/L"),
        ("new:armijo_step-any", "formula", "0 < beta < 1", "0 <= beta <= 1"),
        ("new:gradient_norm-any", "hypotheses", "lam > 0", ""),
    ],
)
def test_a_changed_sentence_is_noticed(id_, name, before, after):
    """A number, a relation, a quantifier, a strictness and a hypothesis, each of one sentence."""
    claim = find(*id_.rsplit("-", 1))
    value = () if name == "hypotheses" else getattr(claim, name).replace(before, after)
    wrong = replace(claim, **{name: value})
    assert wrong != claim
    assert ledger.words_of(wrong) != ledger.words_of(claim)
