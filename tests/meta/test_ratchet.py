"""What stops a reader becomes less from release to release, never more."""

import json

import pytest

from tests.meta import ratchet
from tests.meta.ratchet import HEADLESS, READ_TWICE, class_names, first_lines, numbers_without_a_reason, repeated


def test_no_count_rises():
    """After one has fallen, `python -m tests.meta.ratchet` writes it down."""
    pinned = json.loads(ratchet.PINNED.read_text())
    risen = {kind: (pinned[kind], count) for kind, count in ratchet.counts().items() if count > pinned[kind]}
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
