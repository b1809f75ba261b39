"""The bank of public bugs: its size, its sources, and that its table comes out again."""

from dataclasses import replace

import pytest

pytest.importorskip("ml_dtypes", reason="the bank has kernels of bfloat16 and of eight bits")

from benchmarks.bank.__main__ import PAGE, counted, judged, kept, page  # noqa: E402
from benchmarks.bank.calls import results  # noqa: E402
from benchmarks.bank.programs import bugs, right_programs  # noqa: E402
from benchmarks.bank.rules import OURS, RULES  # noqa: E402

BUGS, RIGHT = bugs(), right_programs()
MERGES = [one for one in (*BUGS, *RIGHT) if one.kind == "merge"]
CHEAP = [MERGES[0], MERGES[-1]]  # a wrong one, and a right one
SLICES = 12


def informative(rule, results_of):
    """Whether a rule tells any wrong merge from right ones."""
    found = {rule.fails(results_of[one.digest]) for one in CHEAP if one in BUGS}
    right = {rule.fails(results_of[one.digest]) for one in CHEAP if one in RIGHT}
    return True in found and False in right


def test_the_bank_is_large_dated_and_has_sources():
    assert len(BUGS) >= 100 and len({(one.kind, one.id) for one in BUGS}) == len(BUGS)
    assert all(one.source and one.cause for one in BUGS)
    assert sum(bool(one.date) for one in BUGS) >= 100
    assert len(RIGHT) >= 30 and len({one.digest for one in (*BUGS, *RIGHT)}) == len(BUGS) + len(RIGHT)


def test_the_page_says_what_is_stored():
    assert set(kept()) <= {one.digest for one in (*BUGS, *RIGHT)}
    assert PAGE.read_text(encoding="utf-8") == page(BUGS, RIGHT)


def test_ours_sees_nearly_all_and_fails_nothing_right():
    (seen, asked), (failed, tried) = counted(OURS, BUGS), counted(OURS, RIGHT)
    assert asked >= 100 and seen >= 0.95 * asked
    assert tried >= 33 and failed == 0


def test_a_rule_that_says_always_the_same_would_be_noticed():
    results_of = {one.digest: results(one) for one in CHEAP}
    for rule in RULES:
        assert informative(rule, results_of) or not any(map(rule.asks, results_of[CHEAP[0].digest]))
    for answer in (True, False):
        assert not informative(replace(RULES[0], accepts=lambda one, answer=answer: answer), results_of)


@pytest.mark.parametrize("program", [*CHEAP, next(one for one in BUGS if one.kind == "pages")],
                         ids=lambda one: one.id)  # fmt: skip
def test_some_rows_come_out_again(program):
    assert judged(program) == kept()[program.digest]


@pytest.mark.thorough(share=1 / SLICES)
@pytest.mark.parametrize("slice_", range(SLICES))
def test_all_rows_come_out_again(slice_):
    stored = kept()
    for program in [one for one in (*BUGS, *RIGHT) if one.digest in stored][slice_::SLICES]:
        assert judged(program) == stored[program.digest], program.id
