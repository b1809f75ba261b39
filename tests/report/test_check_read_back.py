"""The text of `check` says what the result holds: every number, every flag, for all combinations of verdicts."""

import re
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import attnprune_verify as apv
from attnprune_verify.check import CheckResult, run_check
from attnprune_verify.instance.problem import LayerInstance
from attnprune_verify.report.check_text import render_check
from tests.report.reading import known, row, text_of, unknown

APPLIES = {"applies": True, "does not apply": False}
STATUSES = ("passed", "failed", "inconclusive")
_WORDS = {"50", "1"}
"""Numbers of the headings: M = 1, descent from M = 1, lam M."""


def instance(seed: int) -> apv.Instance:
    rng = np.random.default_rng(seed)
    return apv.Instance(rng.standard_normal((3, 4)), 0.3 * rng.standard_normal((4, 4)), lam=0.25)


@pytest.fixture(scope="module")
def result() -> CheckResult:
    return run_check(instance(0))


def read(text: str, result: CheckResult) -> dict[str, Any]:
    """Read verdicts by row, the headline, the theorem's line and the last sentence."""
    last = [line for line in text.splitlines() if "Outcome:" in line][0]
    theorem = row(text, "thm:our_convergence").split("\n")[0]
    said = re.search(r"Assumptions of the paper that fail on this instance: (.*?)\.\n", text, re.DOTALL)
    all_hold = "Every assumption of the paper's theorem holds on this instance." in text
    gradient, _, rest = last.partition("; ")
    return {
        "fail": [] if all_hold else re.split(r", | and ", said[1]) if said else None,
        "assumptions": {a.id: row(text, a.id).split()[0] for a in result.assumptions},
        "oracles": {v.oracle: row(text, v.oracle).split()[0] for v in result.gradient},
        "bounds": {b.id: re.match(r"not applicable|\w+", row(text, b.id))[0] for b in result.bounds},
        "applies": APPLIES[theorem.partition(",")[0]],
        "vacuous": theorem.endswith(", vacuous"),
        "right": "is right here" in gradient and "refuted" not in gradient,
        "refuted": "is refuted here by" in gradient,
        "open": "not fully decided" in gradient,
        "theorem": rest.partition(". Outcome")[0],
        "outcome": re.search(r"Outcome: (\w+)", last)[1],
        "violated": re.findall(r"[a-z]+:\w+", last.partition("Outcome: ")[2]),
    }


def expected(result: CheckResult) -> dict[str, Any]:
    statuses = {v.status for v in result.gradient}
    theorem = result.theorem
    apply = "applies" if theorem.applies else "does not apply"
    empty = " but says nothing" if theorem.applies and theorem.vacuous else ""
    return {
        "fail": [a.id for a in result.assumptions if not a.holds],
        "assumptions": {a.id: "holds" if a.holds else "FAILS" for a in result.assumptions},
        "oracles": {v.oracle: v.status for v in result.gradient},
        "bounds": {b.id: b.status.replace("_", " ") for b in result.bounds},
        "applies": theorem.applies,
        "vacuous": theorem.vacuous,
        "right": statuses == {"passed"},
        "refuted": "failed" in statuses,
        "open": "failed" not in statuses and "inconclusive" in statuses,
        "theorem": f"the paper's convergence theorem {apply}{empty}",
        "outcome": result.outcome,
        "violated": [bound.id for bound in _broken(result)] if result.outcome == "failed" else [],
    }


def _broken(result: CheckResult) -> list[Any]:
    """Return the violated bounds that are failures: the paper's are findings."""
    return [bound for bound in result.bounds if bound.status == "violated" and bound.id.startswith("fix:")]


def sides(line: str) -> list[float]:
    """Return the two numbers that follow a row's verdict."""
    return [float(one) for one in re.sub(r"^(not applicable|\w+)", "", line).split()[:2]]


def compared(result: CheckResult) -> None:
    text = text_of(render_check(result))
    for bound in result.bounds:
        assert sides(row(text, bound.id)) == pytest.approx([bound.lhs, bound.rhs], rel=0.01, nan_ok=True)
    for v in result.gradient:
        assert sides(row(text, v.oracle)) == pytest.approx([v.value, v.tolerance], rel=0.01, nan_ok=True)
    assert read(text, result) == expected(result)
    assert {*unknown(text, [*known(result.as_dict()), *counted(result)])} <= _WORDS


def counted(result: CheckResult) -> list[float]:
    """Return the numbers that the text gives in another form than the JSON."""
    return [len(result.gradient), *(float(one) for one in result.constants.log10.values() if one is not None)]


def test_what_was_computed(result: CheckResult) -> None:
    compared(result)


@pytest.mark.parametrize("failing", [(), ("beta",), ("beta", "delta"), ("beta", "delta", "lam-in-unit-interval")])
def test_assumptions(result: CheckResult, failing: tuple[str, ...]) -> None:
    compared(replace(result, assumptions=tuple(replace(a, holds=a.id not in failing) for a in result.assumptions)))


@pytest.mark.parametrize(("applies", "vacuous"), [*product((True, False), repeat=2)])
def test_theorem(result: CheckResult, applies: bool, vacuous: bool) -> None:
    compared(replace(result, theorem=replace(result.theorem, applies=applies, vacuous=vacuous)))


@pytest.mark.parametrize(("one", "other"), [*product(STATUSES, repeat=2)])
def test_oracles(result: CheckResult, one: str, other: str) -> None:
    first, second, *rest = result.gradient
    changed = (replace(first, status=one), replace(second, status=other), *rest)
    outcome = "failed" if "failed" in (one, other) else "incomplete" if "inconclusive" in (one, other) else "passed"
    compared(replace(result, gradient=changed, outcome=outcome))


@pytest.mark.parametrize("of", ["", "fix:", "lem:", "fix:PL"])
@pytest.mark.parametrize("status", ["holds", "violated", "undecided", "not_applicable"])
def test_bounds(result: CheckResult, status: str, of: str) -> None:
    """All of them, those of one kind, or one."""
    bounds = tuple(replace(one, status=status) if one.id.startswith(of) else one for one in result.bounds)
    changed = replace(result, bounds=bounds)
    compared(replace(changed, outcome="failed") if _broken(changed) else changed)


def test_every_number_is_shown(result: CheckResult) -> None:
    """Moved by a third, each number of a row moves in the text."""
    before = text_of(render_check(result))
    for place, bound in enumerate(result.bounds):
        for side in ("lhs", "rhs"):
            moved = replace(bound, **{side: getattr(bound, side) * 4 / 3 + 1})
            bounds = (*result.bounds[:place], moved, *result.bounds[place + 1 :])
            after = text_of(render_check(replace(result, bounds=bounds)))
            assert row(after, bound.id) != row(before, bound.id)
    for place, oracle in enumerate(result.gradient):
        for name in ("value", "tolerance"):
            moved = replace(oracle, **{name: getattr(oracle, name) * 4 / 3 + 1})
            after = text_of(render_check(replace(result, gradient=(*result.gradient[:place], moved))))
            assert row(after, oracle.oracle) != row(before, oracle.oracle)


def test_a_layer_shows_both_ends_of_its_norm() -> None:
    """Heads that differ: K from below is the norm's own lower bound, not the upper one again."""
    rng = np.random.default_rng(5)
    W_Q = rng.standard_normal((4, 4)) * np.repeat([1.0, 3.0], 2)
    layer = apv.AttentionLayer(W_Q, rng.standard_normal((4, 2)), heads=2, kv_heads=1, rope=apv.RoPE(100.0))
    found = run_check(LayerInstance(layer, rng.standard_normal((4, 4)), lam=0.3))
    line = row(text_of(render_check(found)), "K, norm of M to centred logits")
    low, high = (float(one) for one in line.split(" .. "))
    assert high == pytest.approx(found.constants["K"], rel=1e-5)
    assert low == pytest.approx(found.constants["K_lower"], rel=1e-5)


def test_both_ends_of_the_norm_are_shown(result: CheckResult) -> None:
    lowered = replace(result.constants, K_lower=result.constants["K"] / 2)
    line = row(text_of(render_check(replace(result, constants=lowered))), "K, norm of M to centred logits")
    low, high = (float(one) for one in line.split(" .. "))
    assert low == pytest.approx(high / 2, rel=1e-4)
