"""Whatever is typed or pinned changes only together with its digest."""

from dataclasses import replace

import pytest

from attnprune_verify.claims.registry import find
from tests.repinned import ledger

SENTENCES = {"sentence", "theorem", "proof", "quotation", "prior", "symbol", "page"}


def test_every_change_is_pinned():
    changed = ledger.differences(ledger.read(), ledger.digests())
    assert changed == [], "typed texts changed: read them, then run python -m tests.repinned"


def test_every_kind_is_pinned():
    kinds = {name.split()[0] for name, _ in ledger.items()}
    assert kinds == {"margin", "proposition", "table", *SENTENCES}
    assert len(dict(ledger.items())) == len(list(ledger.items()))


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """The digests of three items, in a folder of their own."""
    monkeypatch.setattr(ledger, "DIGESTS", tmp_path / "digests.json")
    monkeypatch.setattr(ledger, "items", lambda: iter([("margin a", "1"), ("table b", "2"), ("table c", "3")]))
    assert len(ledger.renew()) == 2
    return monkeypatch


@pytest.mark.parametrize(
    ("items", "changed"),
    [
        ([("margin a", "1"), ("table c", "3"), ("table b", "2")], []),
        ([("margin a", "1"), ("table b", "3"), ("table c", "3")], ["table b"]),
        ([("margin a", "1"), ("table b", "2")], ["table: 1 items, 2 pinned"]),
        ([("margin a", "1"), ("table b", "2"), ("table bb", "2"), ("table c", "3")], ["table: 3 items, 2 pinned"]),
        (
            [("table b", "2"), ("table c", "3"), ("page a", "1")],
            ["margin: 0 items, 1 pinned", "page: 1 items, 0 pinned"],
        ),
    ],
)
def test_a_changed_item_is_named(copied, items, changed):
    copied.setattr(ledger, "items", lambda: iter(items))
    found = ledger.differences(ledger.read(), ledger.digests())
    assert found == changed
    assert ledger.renew() == found and not ledger.renew()


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
