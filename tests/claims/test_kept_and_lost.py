"""Kept trials come back as they were, lost workers are counted, and unlike cases are not judged together."""

import os
import sys
from concurrent.futures import BrokenExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from flint import arb

from attnprune_verify.claims.campaign import judge as judging
from attnprune_verify.claims.cases import eigenvalues
from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.relation import Relation
from attnprune_verify.claims.judging import verdict_cache
from attnprune_verify.claims.judging.judge import Judgement
from attnprune_verify.claims.judging.support import Standing
from attnprune_verify.claims.judging.trial import Trial
from attnprune_verify.claims.registry import claims
from attnprune_verify.state import processes
from attnprune_verify.theory.numbers.arithmetic import BALL
from attnprune_verify.theory.numbers.balls import precision


@pytest.mark.parametrize(("failed", "certain"), [("beta", True), ("beta", False), (None, True), (None, False)])
def test_a_kept_trial_has_every_field_in_its_place(failed: Any, certain: bool) -> None:
    case = Case({"X": np.eye(2), "lam": 0.5, "mask": np.tri(2, dtype=bool)}, "drawn")
    trial = Trial(case, failed, -0.25, Relation("<=", 1.0, 2.0, "a part"), certain, "a problem")
    again = verdict_cache._trial(verdict_cache._decoded(verdict_cache._encoded(verdict_cache._row(trial))))
    assert again is not None
    for name in ("failed", "slack", "relation", "certain", "problem"):
        assert getattr(again, name) == getattr(trial, name), name
    assert again.case.origin == "drawn" and again.case.values.keys() == case.values.keys()
    for name, value in case.values.items():
        assert np.array_equal(again.case.values[name], value) and type(again.case.values[name]) is type(value)


def test_cases_under_unlike_masks_are_not_judged_together() -> None:
    """Lanes share their masks and counts: only numbers and arrays of numbers may differ in one group."""
    like = {"X": np.ones((2, 2)), "mask": np.tri(2, dtype=bool), "n": 2, "lam": 0.5}
    unlike = [{"mask": np.ones((2, 2), dtype=bool)}, {"n": 3}, {"X": np.ones((2, 3))}, {"kind": "word"}]
    alike = [{"X": np.eye(2)}, {"lam": 0.7}, {"mask": np.tri(2, dtype=bool)}]
    for change in unlike:
        assert len(judging._alike([Case(like, ""), Case(like | change, "")])) == 2, change
    for change in alike:
        assert len(judging._alike([Case(like, ""), Case(like | change, "")])) == 1, change


@pytest.mark.parametrize(("found", "lost"), [(1, False), (0, True)])
def test_only_deaths_without_a_result_between_them_end_the_work(found: int, lost: bool, monkeypatch: Any) -> None:
    """Nine tasks, and a pool that breaks after one result each time; another one breaks before any."""
    pools: list[int] = []

    def breaking(pool: Any, function: Any, tasks: list[Any], *others: Any) -> Any:
        yield from ((place, function(task)) for place, task in tasks[:found])
        raise BrokenExecutor

    monkeypatch.setattr(processes, "_flowing", breaking)
    monkeypatch.setattr(processes, "_pool", lambda count, importable: pools.append(count))
    monkeypatch.setattr(processes, "_close", lambda pool, kill: None)
    results = processes.unordered(str, range(9), 2)
    if lost:
        with pytest.raises(processes.WorkersLost, match="6 worker processes"):
            list(results)
        assert len(pools) == 6
    else:
        assert list(results) == [(place, str(place)) for place in range(9)]


@pytest.mark.parametrize("size", [2, 4, 7])
def test_what_is_left_beside_a_diagonal_is_summed_over_its_row(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The matrix of ones has the eigenvalues n and 0: with I for eigenvectors each row leaves n - 1 beside its 1."""
    with precision():
        monkeypatch.setattr(eigenvalues, "_near_eigenvectors", lambda S: BALL.lift(np.eye(size)))
        found = eigenvalues.eigenvalues(BALL.lift(np.ones((size, size))))
    assert found[0].contains(arb(size)) and all(one.contains(arb(0)) for one in found[1:])


def test_a_statement_that_nobody_states_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    one = replace(claims()[0], uses=("lem:nowhere",))
    monkeypatch.setattr("attnprune_verify.claims.judging.support.registry.claims", lambda: (one,))
    assert not Standing(lambda claim: Judgement(claim)).ancestors_hold(one)


@pytest.mark.parametrize("given", [None, "4"])
def test_a_process_that_starts_sees_one_thread_and_no_main_module(given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's settings and main module are back afterwards, even where the start fails."""
    for name in processes._ONE_THREAD:
        monkeypatch.delenv(name, raising=False)
        if given is not None:
            monkeypatch.setenv(name, given)
    main = sys.modules["__main__"]
    with pytest.raises(OSError), processes._one_thread(), processes._main_module(hidden=True):
        assert {os.environ[name] for name in processes._ONE_THREAD} == {"1"}
        assert sys.modules["__main__"] is not main and not hasattr(sys.modules["__main__"], "__file__")
        raise OSError
    assert {os.environ.get(name) for name in processes._ONE_THREAD} == {given} and sys.modules["__main__"] is main
