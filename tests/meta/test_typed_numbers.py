"""Numbers on pages come from commands; those that do not are listed, and the list only shrinks."""

import json
import re

import pytest

from tests.meta.typed_numbers import COUNTS, ROOT, counts, every_page, numbers, typed


def test_the_list_only_shrinks():
    listed = json.loads(COUNTS.read_text("utf-8"))
    more = {page: count for page, count in counts().items() if count > listed.get(page, 0)}
    assert more == {}, "let a command print them; where none can, run python -m tests.meta.typed_numbers"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the printed bound is up to 2000 times the squared norm", 1),
        ("<!-- counted by `attnprune-verify claims` -->\n> 68 of 79 statements\n<!-- end -->\nand 3 more", 3),
        ("<!-- table first -->\n| 0.982 | 3 |\n| 1 | 2 |\n\nSo 0.9 it is.", 5),
        ("```console run\n$ ls 200\n```\n", 0),
    ],
)
def test_typed_numbers_are_found(text, found):
    assert len(typed(text)) == found


@pytest.mark.parametrize("page", every_page(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_changed_number_changes_what_is_pinned(page):
    """The first, one in the midst and the last, in digits and in words, wherever they stand."""
    text = page.read_text("utf-8")
    for pattern, another in ((r"\d+", "7_7"), (r"\b(two|three|four|half|twice|hundred)\b", "nine")):
        places = list(re.finditer(pattern, text))
        for one in (places[at] for at in {0, len(places) // 2, len(places) - 1} if places):
            assert numbers(text[: one.start()] + another + text[one.end() :]) != numbers(text), one
