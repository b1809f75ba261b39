"""The arena's own rules: every class has attacks, every named check exists, the page is the generated one."""

from collections import Counter

import pytest

from tests.arena.catalogue import PAGE, PROMISES, attack, entries, page, resolved
from tests.arena.test_model_folders import TORCH

FEWEST = 2  # chosen: every class is attacked in at least this many ways


def test_every_class_is_attacked():
    counts = Counter(entry.kind for _, entry in entries() if entry.stopped_by)
    assert {kind for kind in PROMISES if counts[kind] < FEWEST} == set()


def test_every_named_check_exists():
    for where, entry in entries():
        if entry.stopped_by and (TORCH or ".torch." not in entry.stopped_by):
            assert callable(resolved(entry.stopped_by)), where


def test_a_check_that_is_not_there_is_noticed():
    with pytest.raises(AttributeError):
        resolved("attnprune_verify.errors:NoSuchCheck")


def test_an_unknown_class_is_refused():
    with pytest.raises(ValueError, match="must be one of"):
        attack("Z", "anything", stopped_by="attnprune_verify.errors:InvalidInstance")


def test_page_is_the_generated_one():
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.arena"
