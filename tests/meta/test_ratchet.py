"""What stops a reader becomes less from release to release, never more."""

import json

import pytest

from tests.meta import ratchet
from tests.meta.ratchet import (
    HALF_A_SENTENCE,
    HEADLESS,
    READ_TWICE,
    class_names,
    first_lines,
    lowered,
    numbers_without_a_reason,
    placeholders,
    prose_in_type_slots,
    repeated,
    returns_of_no_function,
)


def test_no_count_rises():
    """After one has fallen, `python -m tests.meta.ratchet` writes it down."""
    pinned = json.loads(ratchet.PINNED.read_text())
    risen = {
        kind: (pinned.get(kind, 0), count) for kind, count in ratchet.counts().items() if count > pinned.get(kind, 0)
    }
    assert not risen, "each kind as (allowed, found); a number needs its reason, a docstring a verb"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A = 3", ["A"]),
        ("A = 3  # chosen: enough", []),
        ("# derived above\nA = -2.5e3", []),
        ('A = 3\n"""Measured: no more were seen."""', []),
        ("A = (2 * 3, 4)\nB = 1", ["A"]),
        ("A: int = 2**53", ["A: int"]),
        ("A = True\nB = 'x'\nC = 0", []),
    ],
)
def test_a_number_without_a_reason_is_seen(text, found):
    assert list(numbers_without_a_reason(text)) == found


def test_a_headless_docstring_is_seen():
    text = 'def f():\n    """What is left."""\n\ndef g():\n    """Return what is left."""\n'
    assert list(first_lines(text, HEADLESS)) == ["What is left."]


@pytest.mark.parametrize(
    ("first", "twice"),
    [
        ("The same numbers in another layout.", True),
        ("Draw so many echoes.", True),
        ("Return whether it is small.", True),
        ("Wait for a process and say how it ended.", True),
        ("Samples the function was asked on.", True),
        ("Yield ``tell(stage)`` for each stage.", False),
        ("Return the numbers in another layout.", False),
        ("Bound the divergence of the known masks.", False),
    ],
)
def test_a_first_line_that_is_read_twice_is_seen(first, twice):
    assert list(first_lines(f'def f():\n    """{first}"""\n', READ_TWICE)) == [first] * twice


def test_a_class_name_with_two_meanings_is_seen():
    assert repeated(class_names("class Case: ...\nclass Plan: ...\nif True:\n    class _Case: ...")) == ["Case"]


def test_a_kind_that_cannot_be_counted_keeps_its_row(monkeypatch):
    pinned = json.loads(ratchet.PINNED.read_text())
    monkeypatch.setattr(ratchet, "sources", lambda: iter([(ratchet.ROOT, "# a reason\nx = 0\n")]))
    monkeypatch.setattr(ratchet, "complex_functions", lambda: None)
    now = ratchet.counts()
    assert set(pinned) - set(now) == {"complex functions"}
    assert set(lowered(pinned, now)) == set(pinned)
    with pytest.raises(ValueError, match="rose"):
        lowered(pinned, {"complex functions": pinned["complex functions"] + 1})


@pytest.mark.parametrize(
    ("first", "half"),
    [
        ("Return what is left.", True),
        ("Return of queries the position.", True),
        ("Return the rest.", False),
        ("Return masks by name.", False),
        ("Return whether the mask is full.", False),
    ],
)
def test_return_is_followed_by_an_article_or_a_noun(first, half):
    assert list(first_lines(f'def f():\n    """{first}"""\n', HALF_A_SENTENCE)) == [first] * half


def test_a_class_and_a_property_return_nothing():
    text = '''
class Reply:
    """Return what a call returned."""

    @cached_property
    def size(self):
        """Return the size."""

    def half(self):
        """Return the half."""
'''
    assert list(returns_of_no_function(text)) == ["Return what a call returned.", "Return the size."]


def test_a_sentence_in_a_type_slot_is_seen():
    text = '''
def f():
    """Add.

    Parameters
    ----------
    a : (n, d) array, or None (where there is none)
        It is added.
    b : what is added
    c, d : "that", optional

    Returns
    -------
    e : float; inf at the end

    Notes
    -----
    f : what is no type here
    """
'''
    assert list(prose_in_type_slots(text)) == ["what is added", "float; inf at the end"]


def test_a_placeholder_is_seen_where_it_is_bound():
    text = "def f(one, *, two):\n    for other in two:\n        alone = one\n"
    assert sorted(placeholders(text)) == ["alone", "one", "other"]
    assert not list(placeholders("class A:\n    def __eq__(self, other):\n        return one.two\n"))
