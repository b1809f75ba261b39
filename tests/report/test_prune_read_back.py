"""The text of `prune` says what the descent's result holds."""

import re

import numpy as np
import pytest

import attnprune_verify as apv
from attnprune_verify.algorithms.trace import Descent
from attnprune_verify.cli.prune import _report

NUMBER = r"-?\d[\d.]*(?:e[+-]?\d+)?"


def instance() -> apv.Instance:
    rng = np.random.default_rng(3)
    return apv.Instance(rng.standard_normal((4, 3)), rng.standard_normal((3, 3)), lam=0.1)


@pytest.fixture(scope="module", params=[{}, {"eta": 0.05}, {"eta": 2.0, "momentum": 0.5, "reading": "literal-direct"}])
def result(request: pytest.FixtureRequest) -> Descent:
    given = instance()
    return apv.prune_mask_gd(given.X, given.W, 0.4, given.lam, steps=15, **request.param)


def numbers(text: str, label: str) -> list[float]:
    (line,) = [line for line in text.splitlines() if line.startswith(label)]
    return [float(one) for one in re.findall(NUMBER, line.removeprefix(label).replace("[0, 1]", ""))]


def test_every_line_is_the_result_s(result: Descent) -> None:
    given, trace = instance(), result.trace
    text = _report(result, given, 1e-12)
    smallest = np.abs(given.W) > np.sort(np.abs(given.W), axis=None)[2]
    shown = {
        "||gradient||": [trace.gradient_norm[0], trace.gradient_norm[-1]],
        "||M||_F": [np.sqrt(given.d**2), np.linalg.norm(result.M)],
        "M in": [result.M.min(), result.M.max(), np.count_nonzero((result.M < 0) | (result.M > 1))],
        "pruned": [3, 9],
        "error": [apv.relative_error(result.mask, given.X, given.W)],
        "  by pruning the smallest |W| instead:": [apv.relative_error(smallest.astype(float), given.X, given.W)],
        "step": sorted({float(f"{one:.4g}") for one in (trace.step.min(), trace.step.max())}),
    }
    for label, expected in shown.items():
        assert numbers(text, label) == pytest.approx(expected, rel=1e-3), label
    assert f"{result.settings.reading.name}, lam = 0.1" in text
    rising = int((np.diff(trace.loss) > 0).sum())
    assert (f"the loss rose in {trace.ascents} of {result.steps} steps" in text) is (trace.ascents > 0)
    assert trace.ascents <= rising
