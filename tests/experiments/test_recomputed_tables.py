"""Every column of every table that experiments report, computed again by Python's `statistics` from made-up rows."""

import math
import statistics
from itertools import product

import numpy as np
import pytest

from attnprune_verify.experiments.assumptions.measure import RealAssumptions
from attnprune_verify.experiments.layer.plan import LayerPlan
from attnprune_verify.experiments.layer.run import LayerResults
from attnprune_verify.experiments.layer.tables import by_layer, by_method
from attnprune_verify.experiments.perplexity.plan import PerplexityPlan
from attnprune_verify.experiments.perplexity.run import PerplexityResults
from attnprune_verify.experiments.perplexity.tables import by_draws
from attnprune_verify.experiments.synthetic.curves import curve

RNG = np.random.default_rng(8)
MEAN, SD, GEOMETRIC = statistics.fmean, statistics.stdev, statistics.geometric_mean


def made(**choices):
    """Return one row for each combination of the choices, with numbers from [0.1, 1) drawn for it."""
    measured = ("in_sample", "held_out", "seconds", "kl", "nll", "perplexity", "cosine_distance", "error")
    rows = [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]
    return [row | {name: float(RNG.uniform(0.1, 1.0)) for name in measured} for row in rows]


def column(rows, name, **fixed):
    return [row[name] for row in rows if all(row[key] == value for key, value in fixed.items())]


def same(found, expected):
    """Compare two tables, in which each column of one stands in the other."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        for name, value in other.items():
            assert one[name] == (pytest.approx(value, rel=1e-9) if isinstance(value, float) else value), name


def test_the_layer_tables():
    settings = {"method": ("sparsegpt", "wanda"), "rho": (0.5, 0.7), "n": (64,)}
    rows = made(**settings, layer=(0, 1), head=(0, 1, 2), seed=(0, 1, 2))
    of_layer = {(row["method"], row["rho"], row["layer"], row["seed"]): row["seconds"] for row in rows}
    rows = [row | {"seconds": of_layer[row["method"], row["rho"], row["layer"], row["seed"]]} for row in rows]
    results = LayerResults(LayerPlan("m", methods=settings["method"]), rows, made(**settings, seed=(0, 1, 2)))
    methods, layers = [], []
    for method, rho in product(settings["method"], settings["rho"]):
        here, beside = {"method": method, "rho": rho}, {"method": "sparsegpt", "rho": rho}
        errors, reference = column(rows, "held_out", **here), column(rows, "held_out", **beside)
        ratios = [one / other for one, other in zip(errors, reference, strict=True)]
        low, *_, high = statistics.quantiles(ratios, n=20, method="inclusive")
        methods.append(
            here | {
                "n": 64, "in_sample": MEAN(column(rows, "in_sample", **here)), "held_out": MEAN(errors),
                "held_out_sd": SD([MEAN(column(rows, "held_out", **here, seed=seed)) for seed in range(3)]),
                "ratio": GEOMETRIC(ratios), "ratio_low": low, "ratio_high": high,
                "wins": MEAN(one < 1 for one in ratios),
                "seconds": MEAN(column(rows, "seconds", **here, head=0)),
                "cosine_distance": MEAN(column(results.whole, "cosine_distance", **here)),
            }
        )  # fmt: skip
        for layer in (0, 1):
            mean, other = (MEAN(column(rows, "held_out", **one, layer=layer)) for one in (here, beside))
            own = MEAN(column(rows, "in_sample", **here, layer=layer))
            layers.append(here | {"n": 64, "layer": layer, "in_sample": own, "held_out": mean, "ratio": mean / other})
    same(by_method(results), methods)
    same(by_layer(results), layers)


def test_the_perplexity_table():
    choices = {"rest": ("dense", "sparsegpt"), "attention": ("sparsegpt", "output-obs"), "budget": ("matrix",)}
    fixed = {"rho": (0.5,), "pattern": (None,), "k": (8,), "layer": (None,)}
    rows = made(**choices, **fixed, seed=(0, 1, 2, 3))
    dense = {"perplexity": 19.0, "nll": 2.9, "tokens": 9}
    expected = []
    for rest, attention in product(choices["rest"], choices["attention"]):
        here = {"rest": rest, "attention": attention}
        kls = column(rows, "kl", **here)
        one = here | {"budget": "matrix", "rho": 0.5, "pattern": None, "k": 8, "layer": None, "draws": 4}
        one |= {name: MEAN(column(rows, name, **here)) for name in ("perplexity", "nll", "kl", "seconds")}
        one |= {"kl_sd": SD(kls), "added": math.exp(one["nll"] - dense["nll"]) - 1}
        for name, beside in (("ratio", rest), ("ratio_all", "sparsegpt")):
            other = column(rows, "kl", rest=beside, attention="sparsegpt")
            logs = [math.log(mine / theirs) for mine, theirs in zip(kls, other, strict=True)]
            reach = 3.182446305284263 * SD(logs) / 2  # Student's t, 3 degrees of freedom, 97.5 %: any table of it
            middle = MEAN(logs)
            ends = {"": middle, "_low": middle - reach, "_high": middle + reach}
            one |= {name + end: math.exp(value) for end, value in ends.items()}
        expected.append(one)
    same(by_draws(PerplexityResults(PerplexityPlan("m"), {}, dense, rows)), expected)


def test_the_table_of_assumptions():
    """A cell is empty only where the bound is empty on every head: 1/n at n = 16 lies between those of the heads."""
    names = ("beta", "norm_X", "min_W", "max_W", "row_max", *(f"log10_{name}" for name in NUMBERS))
    places = product((0, 1), (0, 1, 2), (16,), (0, 1))
    rows = [dict(zip(("layer", "head", "n", "sequence"), place, strict=True)) for place in places]
    rows = [row | {name: float(RNG.uniform(-2, 2)) for name in names} for row in rows]
    for row in rows:
        row["log10_half_xi"] = -math.log10(16) + (1.0 if row["layer"] or row["head"] else -1.0) * RNG.uniform(0.1, 1)
    expected = []
    for layer in (0, 1):
        xi = column(rows, "log10_half_xi", layer=layer)
        one = {"layer": layer, "n": 16, **{name: statistics.median(column(rows, name, layer=layer)) for name in names}}
        delta = column(rows, "log10_delta", layer=layer)
        one |= {"log10_delta_least": min(delta), "log10_delta_most": max(delta), "log10_half_xi_least": min(xi)}
        one |= {"log10_T_least": min(column(rows, "log10_T", layer=layer)), "trivial_bound": 1 / 16}
        expected.append(one | {"vacuous": all(10**value >= 1 / 16 for value in xi)})
    found = RealAssumptions("m", 2, rows).table()
    assert [one["vacuous"] for one in expected] == [False, True]
    same(found, expected)


NUMBERS = ("delta", "mu", "mu_corrected", "half_xi", "L", "T")


def test_a_curve():
    rows = made(method=("wanda",), n=(8, 16), seed=(0, 1, 2))
    found = curve(rows, "n", "error", method="wanda")
    at = [column(rows, "error", n=n) for n in (8, 16)]
    assert found.mean.tolist() == pytest.approx([MEAN(one) for one in at], rel=1e-12)
    assert found.spread.tolist() == pytest.approx([SD(one) for one in at], rel=1e-12)
