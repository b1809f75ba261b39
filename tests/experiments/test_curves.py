"""What may be said of measured curves, and of the prose, on curves made by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attnprune_verify.experiments.paired import LEVEL
from attnprune_verify.experiments.synthetic.curves import curve
from attnprune_verify.experiments.synthetic.plan import SyntheticPlan
from attnprune_verify.experiments.synthetic.run import Results
from attnprune_verify.experiments.synthetic.sentences import SENTENCES, figure2_statements


def test_curve_picks_its_rows_and_leaves_out_incomplete_points() -> None:
    rows = [
        {"method": "a", "n": n, "seed": seed, "in_mean": n + seed / 10}
        for n, seed in [(4, 0), (4, 1), (2, 0), (2, 1), (8, 0)]
    ] + [{"method": "b", "n": 4, "seed": 0, "in_mean": 99.0}]
    found = curve(rows, "n", method="a")
    assert found is not None and found.axis == (2, 4)
    np.testing.assert_array_equal(found.values, [[2.0, 2.1], [4.0, 4.1]])
    assert curve(rows, "n", method="c") is None


# The prose, on results that are made to agree with it, and spoilt sentence by sentence.

PLAN = SyntheticPlan(
    weights=("independent",), side_readings=(), lams=(2**-8, 2**-6, 2**-4, 2**-2, 1.0), fixed_lams=(0.04,),
    ns=(16, 32, 64), fixed_n=32, rhos=(0.3, 0.5, 0.7), seeds=((4, 3),),
)  # fmt: skip


def agreeable(**spoilt: Any) -> Results:
    """Errors exactly as the prose has them; `spoilt` replaces the error of (method, n, rho, lam)."""

    def error(method: str, n: int, rho: float, lam: float) -> float:
        if method == "descent":
            u = 0.3 * abs(np.log2(lam) + 4) if lam != 0.04 else 0.1
            return 0.2 * u + 0.5 * rho + 0.02 * np.log2(n / 16)
        return (0.7 - 0.02 * np.log2(n / 16) * (method == "wanda")) + rho + 0.1 * np.log2(n / 16)

    change = spoilt.get("change", lambda method, n, rho, lam, value: value)
    rows = []
    for run in PLAN.runs():
        if run.kind == "chaos":
            continue
        for method in ("wanda", "sparsegpt") if run.kind == "rivals" else ("descent",):
            for rho in run.rhos:
                value = change(method, run.cell.n, rho, run.lam, error(method, run.cell.n, rho, run.lam or 0.04))
                value += 0.001 * run.cell.seed
                rows.append(
                    {"method": method, "weights": "independent", "k": 4, "seed": run.cell.seed, "n": run.cell.n,
                     "rho": rho, "reading": run.reading, "lam": run.lam, "in_mean": value, "out_mean": value}
                )  # fmt: skip
    return Results(PLAN, rows, [])


def verdicts(results: Results) -> dict[str, str]:
    found = figure2_statements(results)
    assert {entry["id"] for entry in found} == {sentence.id for sentence in SENTENCES}
    return {entry["id"]: entry["verdict"] for entry in found if entry["measure"] == "in-sample"}


def test_results_like_the_prose_agree_with_every_sentence() -> None:
    assert set(verdicts(agreeable()).values()) == {"agrees"}


SPOILERS = {
    "exp:lambda-u-shape": lambda m, n, rho, lam, v: v + (lam < 2**-7) * -9 if m == "descent" else v,
    "exp:lambda-optimum": lambda m, n, rho, lam, v: v - (m == "descent" and lam == 2**-2) * 0.5,
    "exp:large-margin": lambda m, n, rho, lam, v: v + 5 * (m == "descent" and lam == 0.04),
    "exp:n-errors-grow": lambda m, n, rho, lam, v: v - (m == "sparsegpt" and n == 64),
    "exp:n-slower-increase": lambda m, n, rho, lam, v: v + 3 * (m == "descent" and n == 64),
    "exp:n-margin": lambda m, n, rho, lam, v: v + 3 * (m == "descent" and n == 16),
    "exp:n-wanda-better-for-larger-n": lambda m, n, rho, lam, v: v + 0.3 * (m == "wanda"),
    "exp:n-comparable-for-smaller-n": lambda m, n, rho, lam, v: v * (2 if m == "wanda" else 1),
    "exp:rho-errors-rise": lambda m, n, rho, lam, v: v - (m == "wanda" and rho == 0.7),
    "exp:rho-consistently-outperforms": lambda m, n, rho, lam, v: v + 3 * (m == "descent" and rho == 0.7),
    "exp:rho-rivals-track-each-other": lambda m, n, rho, lam, v: v * (2 if m == "sparsegpt" and rho == 0.3 else 1),
}


@pytest.mark.parametrize("statement", [sentence.id for sentence in SENTENCES])
def test_a_spoilt_curve_disagrees(statement: str) -> None:
    assert verdicts(agreeable(change=SPOILERS[statement]))[statement] == "disagrees"


def test_what_is_bad_from_the_start_does_not_grow_slowly() -> None:
    """An error of 0.94 that ends at 1.05 rises less than one from 0.56 to 0.98, and was called slower."""
    high = agreeable(change=lambda m, n, rho, lam, v: 3.0 + n / 1000 if m == "descent" else v)
    assert verdicts(high)["exp:n-slower-increase"] == "disagrees"


def test_noise_leaves_sentences_undecided() -> None:
    rng = np.random.default_rng(0)
    results = agreeable()
    for row in results.rows:
        row["in_mean"] += rng.normal() * 10
    assert set(verdicts(results).values()) == {"undecided"}


def test_every_criterion_says_its_error_probability_and_every_reading_its_own() -> None:
    for entry in figure2_statements(agreeable()):
        assert f"wrong with probability {LEVEL:g} at most" in entry["criterion"] and 0 <= entry["p"] <= LEVEL


def test_one_seed_decides_nothing() -> None:
    one = [row for row in agreeable().rows if row["seed"] == 0]
    found = figure2_statements(Results(replace(PLAN, seeds=((4, 1),)), one, []))
    assert {(entry["verdict"], entry["p"]) for entry in found} == {("undecided", 1.0)}
