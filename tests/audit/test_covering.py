"""Rows hold what they promise: every pair, every triple, and the groups asked for besides."""

from itertools import combinations, product

import pytest

from attnprune_verify.audit.covering import covered, covering
from attnprune_verify.audit.kernel.problem.interactions import _WEAK, FACTORS, LEVELS, interaction, rows

TABLE = {"a": (0, 1), "b": (0, 1, 2), "c": (0, 1, 2), "d": (0,), "e": (0, 1)}


@pytest.mark.parametrize("strength", [2, 3])
def test_every_combination_stands_in_a_row(strength):
    made = list(covering(TABLE, strength))
    assert made == list(covering(TABLE, strength))
    for group in combinations(TABLE, strength):
        wanted = set(product(*(TABLE[name] for name in group)))
        assert wanted == {tuple(row[name] for name in group) for row in made}
    assert len(made) < 3 * 3 * 2 * 2 and covered(made, TABLE, strength)[0] == covered(made, TABLE, strength)[1]


def test_a_weak_factor_stands_in_pairs_and_in_the_groups_asked_for():
    made = list(covering(TABLE, 3, [("a", "b", "e")], weak=("e",)))
    assert {(row["a"], row["b"], row["e"]) for row in made} == set(product((0, 1), (0, 1, 2), (0, 1)))
    assert len(made) <= len(list(covering(TABLE, 3)))


def test_kernels_are_asked_all_triples_and_no_row_is_empty():
    made = rows(frozenset(), 3)
    features = {name: levels for name, levels in FACTORS.items() if name not in _WEAK}
    assert covered(made, features, 3)[0] == covered(made, features, 3)[1]
    assert covered(made, FACTORS, 2)[0] == covered(made, FACTORS, 2)[1]
    for place, row in enumerate(made):
        if row["size"] <= 31:
            sample = interaction(row, 0, "float32", place)
            assert row["empty"] or sample.allowed.any(axis=-1).all(), row


@pytest.mark.parametrize("feature", LEVELS)
def test_what_is_refused_is_in_no_row(feature):
    for place, row in enumerate(rows(frozenset({feature}), 2)):
        assert feature not in interaction(row, 0, "float32", place).features
