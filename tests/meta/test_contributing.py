"""CONTRIBUTING.md: its table of floors is the import contract's, and its worked examples work."""

import re
import tomllib
import types
from pathlib import Path

import autograd.numpy as anp
import numpy as np
import pytest

from attnprune_verify.check import run_check
from attnprune_verify.instance import mask, scores
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.problem import Instance, LayerInstance
from attnprune_verify.model import gradient
from attnprune_verify.model.layer_functions import layer_attention
from attnprune_verify.oracle import score_formulas, verdict
from tests.model import test_modifiers

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def block(part: str) -> str:
    """Return the Python block of the page that contains the part."""
    (found,) = (one for one in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL) if part in one)
    return found


def test_the_house_has_the_floors_of_the_contract():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    floors = [set(layer.split(" | ")) for layer in contracts[0]["layers"]]
    table = PAGE.split("| floor |")[1].split("\n\n")[0]
    written = [set(re.findall(r"`(\w+)`", row.split("|")[1])) for row in table.splitlines()[2:]]
    assert written == floors, "the table of CONTRIBUTING.md and the layers in pyproject.toml must name the same floors"


def test_the_first_change_works_and_its_broken_version_fails(monkeypatch):
    def strided(source):
        exec(source, room := dict(vars(mask)))
        return eval("{" + block("Causal() & Strided(4)") + "}", room)["strided"], room["Strided"](4)

    masks = test_modifiers.MASKS
    blocks_of_rows = test_modifiers.test_blocks_of_rows_hold_exactly_what_the_mask_allows
    good = block("class Strided")
    monkeypatch.setitem(masks, "strided", strided(good)[0])
    blocks_of_rows("strided", 1)
    layer = AttentionLayer(np.eye(2), np.eye(2), mask=strided(good)[1])
    assert ((layer_attention(layer, np.ones((9, 2)))[0] > 0) == (np.subtract.outer(range(9), range(9)) % 4 == 0)).all()
    assert "Span(0, 0, n)" in good and "`Span(start, start, n)`" in PAGE
    monkeypatch.setitem(masks, "strided", strided(good.replace("Span(0, 0, n)", "Span(start, start, n)"))[0])
    with pytest.raises(AssertionError):
        blocks_of_rows("strided", 1)


def test_the_score_modifier_has_the_derivatives_that_its_test_demands(monkeypatch):
    def run(source):
        exec(source, room := dict(vars(scores)))
        monkeypatch.setattr(scores, "RootCap", room["RootCap"], raising=False)
        exec(block("def test_derivatives_of_the_root_cap"), room)
        room["test_derivatives_of_the_root_cap"]()

    run(block("class RootCap"))
    with pytest.raises(AssertionError):
        run(block("class RootCap").replace("-3 /", "-2 /"))


def test_oracles_decline_the_score_modifier_until_its_formula_is_there():
    exec(block("class RootCap"), room := dict(vars(scores)))
    cap = room["RootCap"]
    rng = np.random.default_rng(0)
    weights, X = (rng.normal(size=(5, 8)), rng.normal(size=(5, 4))), rng.normal(size=(2, 6, 5))

    def judged(modifier, softcap=None):
        layer = AttentionLayer(*weights, heads=2, kv_heads=1, softcap=softcap, scores=(modifier,))
        found = run_check(LayerInstance(layer, X))
        return found.outcome, found.gradient

    outcome, verdicts = judged(cap(0.7))
    assert outcome == "incomplete" and {found.note for found in verdicts} == {"declined: it has no formula of RootCap"}
    exec(block("SCORES[RootCap]"), {**room, **vars(score_formulas), "anp": anp})
    wrong = type("Steeper", (cap,), {"bend": lambda self, u: cap.bend(self, u)._replace(slope=1 - (u / self.cap) ** 2)})
    score_formulas.SCORES[wrong] = score_formulas.SCORES[cap]
    try:
        for modifier, status in ((cap(0.7), "passed"), (cap(40.0), "passed"), (wrong(0.7), "failed")):
            first, *rest = judged(modifier)[1]
            assert (first.oracle, first.status) == ("autodiff", status)
            assert all(found.note.startswith("declined") for found in rest)
        assert "the chain of RootCap" in judged(cap(0.7), softcap=2.0)[1][0].note
    finally:
        del score_formulas.SCORES[cap], score_formulas.SCORES[wrong]


def test_the_oracle_tells_right_gradients_from_wrong_ones(monkeypatch):
    literal = types.ModuleType("literal")
    exec(block("def judge(claim: GradientClaim)"), vars(literal))
    (registered,) = re.findall(r'`(Oracle\("literal".*?\))`', PAGE)
    monkeypatch.setattr(verdict, "ORACLES", (eval(registered, {"Oracle": verdict.Oracle, "literal": literal}),))
    rng = np.random.default_rng(0)
    problem = Instance(rng.normal(size=(4, 3)), rng.normal(size=(3, 3)), M=rng.uniform(size=(3, 3)), mask="causal")
    right = gradient(problem.M, problem.X, problem.W, problem.lam, "causal")
    for factor, status in ((1.0, "passed"), (1.000001, "failed")):
        (found,) = verdict.judge_gradient(problem, factor * right, rng=rng)
        assert (found.oracle, found.status) == ("literal", status)
