"""Cheaper methods for large problems: on small ones, where the fine method is exact, each is a bound of its result."""

import numpy as np
import pytest

import attnprune_verify as apv
from attnprune_verify.instance.problem import LayerInstance
from attnprune_verify.theory.bounds import evaluate_bounds
from attnprune_verify.theory.constants import constants
from attnprune_verify.theory.layer_verdicts import layer_bounds
from attnprune_verify.theory.layers import layer_constants
from tests.sizes.registry import ROUTES, numbers, shrink_one

ROUNDING = 1e-9  # both routes are certified to far less; the fine one is within this of the exact value for these sizes


def fused(seed, *, k=1, n=6, d=4, mask=None, shift=0.0):
    """An instance with tokens off the origin, and with samples of unequal size where there are several."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((k, n, d)) * (1 + 2 * np.arange(k))[:, None, None] + shift
    return apv.Instance(X if k > 1 else X[0], rng.standard_normal((d, d)), mask=mask, lam=0.3)


def rotary(seed, *, k=1, n=6, d=5, shift=0.0):
    """A rotary layer of two heads, one with weights three times the other's."""
    rng = np.random.default_rng(seed)
    W_Q = rng.standard_normal((d, 8)) * np.repeat([1.0, 3.0], 4)
    layer = apv.AttentionLayer(
        W_Q, rng.standard_normal((d, 4)), heads=2, kv_heads=1, rope=apv.RoPE(100.0), mask="causal"
    )
    X = rng.standard_normal((k, n, d)) * (1 + 2 * np.arange(k))[:, None, None] + shift
    return LayerInstance(layer, X, lam=0.3)


def constant_queries():
    """A rotary head whose queries hardly differ and whose keys do: the queries must not be centred."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((5, 3))
    X[:, 0] = 1.0
    W_Q, W_K = rng.standard_normal((2, 3, 4))
    W_Q[1:], W_K[0] = 0.0, 0.0  # queries read the constant feature, keys the others
    W_Q[:, [0, 2]], W_K[:, [0, 2]] = 0.0, 0.0  # the pair that turns by one radian a token
    return LayerInstance(apv.AttentionLayer(W_Q, W_K, rope=apv.RoPE(1e8)), X, lam=0.3)


CASES = {
    "constant queries": constant_queries,
    "one sample": lambda: fused(1),
    "causal, off the origin": lambda: fused(2, mask="causal", shift=4.0),
    "unequal samples": lambda: fused(3, k=3, shift=1.0),
    "rank deficient": lambda: fused(4, n=3, d=5),
    "rotary": lambda: rotary(5),
    "rotary, off the origin": lambda: rotary(6, shift=4.0),
    "rotary, unequal samples": lambda: rotary(7, k=3),
}


LOWER = ("kappa_T", "row_eigenvalue", "mu_operator", "curvature_lower", "beta")
"""Constants that are certified from below; K is certified from above and K_lower from below."""


def judged(make):
    """Return the numbers and the verdicts on the bounds of a new instance, which has nothing kept."""
    instance = make()
    if isinstance(instance, LayerInstance):
        values, verdicts = layer_constants(instance).per_head, layer_bounds(instance)
    else:
        values, verdicts = constants(instance).as_dict(), evaluate_bounds(instance)
    found = {name: np.atleast_1d(values[name]) for name in ("K", "K_lower", *LOWER) if values[name] is not None}
    return {"constants": found, "bounds": {bound.id: bound.status for bound in verdicts}}


FINE = {name: judged(make) for name, make in CASES.items()}


def breaches(fine, coarse):
    """Return the contradictions of a coarse route and the fine one: bounds crossed, verdicts turned over."""
    f, c = fine["constants"], coarse["constants"]
    claims = {
        "K_lower above K": c["K_lower"] * (1 - ROUNDING) <= f["K"],
        "K below K_lower": c["K"] * (1 + ROUNDING) >= f["K_lower"],
        "K_lower above its own K": c["K_lower"] <= c["K"] * (1 + ROUNDING),
        **{
            f"{name} above": c[name] <= f[name] + ROUNDING * np.abs(f[name])
            for name in LOWER
            if name in f.keys() & c.keys()
        },
    }
    found = [name for name, holds in claims.items() if not np.all(holds)]
    for name, verdict in fine["bounds"].items():
        if {verdict, coarse["bounds"][name]} == {"holds", "violated"}:
            found.append(f"{name} turned over")
    return found


@pytest.mark.parametrize("name", numbers(ROUTES))
def test_coarse_route_is_a_bound(name, monkeypatch):
    shrink_one(name, monkeypatch)
    for case, make in CASES.items():
        assert breaches(FINE[case], judged(make)) == [], case


def test_routes_are_taken(monkeypatch):
    """With every route at its coarsest the norm is an enclosure of some width, no longer a value."""
    for name in numbers(ROUTES):
        shrink_one(name, monkeypatch)
    wide = {case: judged(make) for case, make in CASES.items()}
    assert all(breaches(FINE[case], result) == [] for case, result in wide.items())
    widths = {case: result["constants"]["K"] / result["constants"]["K_lower"] for case, result in wide.items()}
    assert all((width > 1 + 1e-6).all() for width in widths.values()), widths


@pytest.mark.parametrize(("number", "value"), [("K_lower", 1.01), ("K", 0.99)])
def test_a_crossed_bound_is_noticed(number, value):
    fine = FINE["one sample"]
    wrong = {**fine, "constants": {**fine["constants"], number: fine["constants"][number] * value}}
    assert breaches(fine, wrong)
