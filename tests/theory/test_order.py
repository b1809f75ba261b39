"""No result depends on the order of samples or heads, nor on a part of a layer that does nothing.

Three samples of sizes 1, 9 and 3 are laid in three orders, so that the first, the last and the middle one is the worst:
a bound that reads one of them only, or the first or last instead of the worst, changes with the order.
"""

import numpy as np
import pytest

from attnprune_verify.algorithms.steps import smoothness
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.problem import Instance, LayerInstance
from attnprune_verify.instance.rope import RoPE
from attnprune_verify.model import Objective
from attnprune_verify.theory.assumptions import assumptions
from attnprune_verify.theory.bounds import evaluate_bounds
from attnprune_verify.theory.constants import constants
from attnprune_verify.theory.guarantees import guarantees
from attnprune_verify.theory.heads import head_floors
from attnprune_verify.theory.layers import layer_assumptions, layer_constants
from attnprune_verify.theory.pair import pair_norm
from attnprune_verify.theory.quantities.curvature import local_curvature
from attnprune_verify.theory.theorem import theorem

ORDERS = [(0, 1, 2), (1, 0, 2), (2, 0, 1)]
RNG = np.random.default_rng(20)
SAMPLES = RNG.standard_normal((3, 3, 4)) * np.array([0.1, 0.9, 0.3]).reshape(-1, 1, 1)
W, M = RNG.standard_normal((4, 4)), RNG.uniform(0.0, 1.0, (4, 4))
WEIGHTS = RNG.standard_normal((2, 4, 8))


def fused(order, mask):
    return Instance(SAMPLES[list(order)], W, M=M, mask=mask, lam=0.02)


def layered(order, **more):
    return LayerInstance(AttentionLayer(*WEIGHTS, heads=4, **more), SAMPLES[list(order)], lam=0.02)


def of_numbers(items, *names):
    return [getattr(item, name) for item in items for name in names]


OF_INSTANCES = {
    "constants": lambda one: list(constants(one).as_dict().values()),
    "assumptions": lambda one: of_numbers(assumptions(one), "value", "holds"),
    "bounds": lambda one: of_numbers(evaluate_bounds(one), "lhs", "rhs", "status"),
    "guarantees": lambda one: [value for item in guarantees(one) for value in (item.applies, *item.numbers.values())],
    "theorem": lambda one: [*theorem(one).numbers.values(), theorem(one).applies, theorem(one).vacuous],
    "curvature": lambda one: [float(local_curvature(one).lower), float(local_curvature(one).upper)],
    "step of descent": lambda one: [smoothness(Objective(one.X, one.W, one.lam, one.mask))],
}
OF_LAYERS = {
    "constants": lambda one: [value for row in layer_constants(one).per_head.values() for value in row or ()],
    "assumptions": lambda one: [value for item in layer_assumptions(one) for value in (item.value, item.holds)],
    "floors": lambda one: [value for floor in head_floors(one) for value in (floor.log_allowed, floor.radius)],
    "norm of the pair": lambda one: [float(pair_norm(one))],
}


def agree(found, wanted):
    assert len(found) == len(wanted) > 0
    for one, other in zip(found, wanted, strict=True):
        if isinstance(one, float):
            # a norm is certified within 1e-9 of its value, from another start for another order
            assert one == pytest.approx(other, rel=1e-8, abs=1e-13, nan_ok=True)
        else:
            assert one == other


@pytest.mark.parametrize("mask", [None, "causal"])
@pytest.mark.parametrize("name", OF_INSTANCES)
def test_the_order_of_samples_changes_nothing(name, mask):
    first, *others = (OF_INSTANCES[name](fused(order, mask)) for order in ORDERS)
    for other in others:
        agree(other, first)


@pytest.mark.parametrize("rope", [None, RoPE(50.0)], ids=["fused", "rotated"])
@pytest.mark.parametrize("name", OF_LAYERS)
def test_the_order_of_samples_changes_no_head(name, rope):
    first, *others = (OF_LAYERS[name](layered(order, rope=rope, mask="causal")) for order in ORDERS)
    for other in others:
        agree(other, first)


STILL = RoPE(scaling={"rope_type": "linear", "factor": 1e30})  # every angle is below rounding
"""A rotation that turns nothing; ALiBi with slopes 0 adds nothing. Both leave the routes of a fused weight."""


@pytest.mark.parametrize("given", [{}, {"eps": 0.3, "eta": 0.07, "beta": 0.011, "delta": 0.013}], ids=["own", "given"])
@pytest.mark.parametrize("part", [{"rope": STILL}, {"alibi": np.zeros(4)}], ids=["rope", "alibi"])
@pytest.mark.parametrize("mask", [None, "causal", [[1, 0, 0], [1, 1, 0], [1, 0, 1]]], ids=str)
def test_a_part_that_does_nothing_changes_no_constant(part, mask, given):
    """Constants of a layer without a fused weight are computed on another path; all that it has are the same."""
    plain, turned = (layer_constants(layered((1, 0, 2), mask=mask, **more), **given) for more in ({}, part))
    compared = [name for name, value in turned.per_head.items() if value is not None]
    assert len(compared) > 14
    for name in compared:
        # an upper and a lower bound of one norm, each certified within 1e-6 on either path
        assert turned.per_head[name] == pytest.approx(plain.per_head[name], rel=1e-5), name
