"""The shipped measurements: every verdict follows from its numbers, and the commands that made them still parse."""

import json
import shlex
from pathlib import Path

import pytest

import attnprune_verify
from attnprune_verify.cli.experiment_layer import command
from attnprune_verify.experiments.layer_plan import LayerPlan

FILES = sorted((Path(attnprune_verify.__file__).parent / "experiments" / "evidence").glob("layer*.json"))


def test_there_is_evidence():
    assert len(FILES) == 4
    assert sum(path.stat().st_size for path in FILES) < 300_000


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_verdicts_follow_from_the_numbers(path):
    evidence = json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)
    statements = evidence["statements"]
    assert statements
    assert len({(one["id"], one["reading"]) for one in statements}) == len(statements)
    means = {(row["method"], row["rho"], row["n"]): row["held_out"] for row in evidence["methods"]}
    for one in statements:
        assert one["holds"] == (one["lhs"] <= one["rhs"]) and one["evidence"] == "measured"
        assert one["holds"] or one["id"].startswith("exp:")  # a statement of ours that fails may not be shipped
        if one["id"] == "new:descent-worse-than-chance":
            method, rho, n = one["reading"].split(", ")[:3]
            key = (float(rho.split(" = ")[1]), int(n.split(" = ")[1]))
            assert (one["lhs"], one["rhs"]) == (means["random", *key], means[method, *key])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_command_makes_this_plan(path):
    evidence = json.loads(path.read_text(encoding="utf-8"))
    words = shlex.split(evidence["command"])
    assert words[:3] == ["attnprune-verify", "experiment", "layer"]
    context = command.make_context("layer", words[3:])
    choices = {key: value for key, value in context.params.items() if value not in (None, ())}
    for name in ("folder", "out", "jobs", "plots", "form", "quiet"):
        choices.pop(name, None)
    plan = LayerPlan("model", **choices)
    recorded = {key: tuple(value) if isinstance(value, list) else value for key, value in evidence["plan"].items()}
    for name in ("methods", "rhos", "ns", "held_out_n", "k", "seeds"):
        assert getattr(plan, name) == recorded[name]
    assert recorded["calibration"] == recorded["held_out"] == "shipped"
