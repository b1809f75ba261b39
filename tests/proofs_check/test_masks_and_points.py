"""Leaves against all masks one by one, eigenvalue tests against determinants, both new kinds against the library."""

import json
import random
import time
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attnprune_verify as apv
from attnprune_verify.claims.statements import best_mask as best_mask_claim
from attnprune_verify.claims.statements.best_mask import _returned
from attnprune_verify.instance.problem import Instance
from attnprune_verify.theory.best_mask import certified_best_mask
from attnprune_verify.theory.stationary import certified_stationary_point
from proofs_check.checker import blocks, judge_bytes
from proofs_check.checker.definite import definite, inverse_form
from proofs_check.checker.interval import Interval, bounds, enclose
from proofs_check.checker.leaves import differences, read_leaves
from proofs_check.checker.reject import Reject
from proofs_check.checker.statements.best_mask import _bound, _dense
from proofs_check.checker.statements.returned_mask import C_MINUS, TIMES, _walk
from proofs_check.corpus.parts import invalid

CERTIFICATES = Path(__file__).resolve().parents[2] / "proofs_check" / "certificates"
Q = Fraction


def load(name: str) -> dict[str, Any]:
    return json.loads((CERTIFICATES / f"{name}.json").read_text())


def judged(document: dict[str, Any]) -> Any:
    return judge_bytes(json.dumps(document).encode())


def floats(rows: list[list[str]]) -> np.ndarray:
    return np.array([[float(Q(entry)) for entry in row] for row in rows])


def agrees(mask: tuple[int, ...], pattern: str) -> bool:
    return all(mark in ("*", str(bit)) for bit, mark in zip(mask, pattern, strict=True))


def test_leaves_are_accepted_only_where_every_mask_lies_in_one() -> None:
    """Trees over five entries, two zeros, every one of which is accepted; and spoiled in one entry, or by one leaf."""
    rng, outcomes = random.Random(0), {True: 0, False: 0}
    masks = [mask for mask in product((0, 1), repeat=5) if mask.count(0) == 2]
    for _ in range(400):
        leaves = ["*" * 5]
        for _ in range(rng.randint(1, 5)):
            k = rng.choice([k for k, leaf in enumerate(leaves) if "*" in leaf])
            at = rng.choice([place for place, mark in enumerate(leaves[k]) if mark == "*"])
            pattern = leaves.pop(k)
            leaves += [pattern[:at] + bit + pattern[at + 1 :] for bit in "01"]
        leaves = [leaf for leaf in leaves if any(agrees(mask, leaf) for mask in masks)]
        tree = len(leaves) > 1
        if rng.random() < 0.6:
            k, at = rng.randrange(len(leaves)), rng.randrange(5)
            other = leaves[k][:at] + rng.choice("01*") + leaves[k][at + 1 :]
            leaves = rng.choice(([*leaves[:k], other, *leaves[k + 1 :]], [*leaves, other], leaves[1:]))
            tree = False
        once = all(sum(agrees(mask, leaf) for leaf in leaves) == 1 for mask in masks)
        try:
            read_leaves(leaves, 5, 2, 40)
            accepted = True
        except Reject:
            accepted = False
        assert accepted or not tree, leaves
        assert once or not accepted, leaves
        outcomes[accepted] += 1
    assert min(outcomes.values()) > 50


def test_a_leaf_s_bound_is_below_every_mask_in_it_and_is_the_loss_of_one_alone() -> None:
    rng = random.Random(3)
    X = [[Q(rng.randint(-8, 8), 4) for _ in range(3)] for _ in range(4)]
    W = [[Q(rng.randint(-8, 8), 4) for _ in range(3)] for _ in range(3)]
    mask = [[j <= i for j in range(4)] for i in range(4)]
    objective = apv.Objective(np.array(X, dtype=float), np.array(W, dtype=float), 0.0, "causal")
    losses = {}
    for pruned in combinations(range(9), 4):
        bits = tuple(int(k not in pruned) for k in range(9))
        losses[bits] = float(objective.loss(np.array(bits, dtype=float).reshape(3, 3)))
    rows = differences(X, W, mask)
    f = _dense(rows, 9, 128)
    positive = 0
    for _ in range(60):
        pattern = "".join(rng.choice("01***") for _ in range(9))
        inside = [loss for bits, loss in losses.items() if agrees(bits, pattern)]
        if not 0 < len(inside) < len(losses):
            continue
        rest = [bits for bits in losses if not agrees(bits, pattern)]
        written = ["".join(map(str, bits)) for bits in rest]
        leaf = read_leaves([pattern, *written], 9, 4, 200)[0]
        low, high = bounds(_bound(rows, f, leaf, 128))
        assert float(high) <= min(inside) * (1 + 1e-12) and low >= 0
        positive += low > 0
        if len(inside) == 1:
            assert float(low) == pytest.approx(inside[0], rel=1e-12)
    assert positive > 10


def determinant(a: list[list[Q]]) -> Q:
    return (
        sum((-1) ** j * a[0][j] * determinant([row[:j] + row[j + 1 :] for row in a[1:]]) for j in range(len(a)))
        if a
        else Q(1)
    )


def test_definite_is_sylvester_s_criterion_and_the_form_is_that_of_cramer() -> None:
    rng, seen = random.Random(1), {True: 0, False: 0}
    for _ in range(60):
        half = [[Q(rng.randint(-3, 3)) for _ in range(3)] for _ in range(3)]
        a = [[half[p][q] + half[q][p] + (4 if p == q else 0) for q in range(3)] for p in range(3)]
        minors = [determinant([row[:k] for row in a[:k]]) for k in range(1, 4)]
        if 0 in minors:
            continue
        balls = [[enclose(entry, 128) for entry in row] for row in a]
        assert definite(balls) is all(minor > 0 for minor in minors)
        seen[minors[0] > 0 and min(minors) > 0] += 1
        if min(minors) > 0:
            g = [Q(rng.randint(-5, 5)) for _ in range(3)]
            bordered = [[*row, x] for row, x in zip(a, g, strict=True)] + [[*g, Q(0)]]
            low, high = bounds(inverse_form(balls, [enclose(x, 128) for x in g]))
            assert low <= -determinant(bordered) / minors[2] <= high and high - low < Q(1, 2**90)
    assert min(seen.values()) > 5
    wide = Interval(-1, 1 << 64, 64)
    assert definite([[wide]]) is None


def test_the_library_finds_the_same_masks() -> None:
    for name in ("best_mask-four-features", "best_mask-four-features-causal"):
        document = load(name)
        inputs = document["inputs"]
        instance = Instance(floats(inputs["X"]), floats(inputs["W"]), mask=inputs["mask"])
        found = certified_best_mask(instance, inputs["zeros"])
        assert found.optimal and found.mask.tolist() == floats(inputs["M"]).tolist()
        low, high = (float(Q(end)) for end in document["quantities"]["lhs"])
        assert low * (1 - 1e-9) <= found.loss <= high * (1 + 1e-9)
        assert found.bound <= high


POINTS = sorted(CERTIFICATES.glob("stationary_point-*.json"))


@pytest.mark.parametrize("path", POINTS, ids=lambda path: path.stem)
def test_the_library_proves_the_same_points(path: Path) -> None:
    """The same numbers from the library's coordinates: modulus, radius, distance, factor; nowhere convex everywhere."""
    document = json.loads(path.read_text())
    inputs, quantities = document["inputs"], document["quantities"]
    X, W = floats(inputs["X"]), floats(inputs["W"])
    mask = inputs["mask"] if not isinstance(inputs["mask"], list) else floats(inputs["mask"]).astype(int)
    allowed = (
        np.tri(len(X)) if inputs["mask"] == "causal" else np.ones((len(X),) * 2) if mask is None else np.array(mask)
    )
    centre = np.array([float(Q(entry)) for entry in inputs["centre"]])
    if document["reading"]["space"] == "range":
        basis = []
        for x, row in zip(X, allowed, strict=True):
            first, *rest = X[row == 1]
            basis += [(W * x[:, None] * (y - first)).ravel() for y in rest]
        centre = centre @ np.array(basis)
    near = centre.reshape(W.shape)
    found = certified_stationary_point(Instance(X, W, mask=mask, lam=float(Q(inputs["lambda"]))), near)
    assert found.certified and not found.convex_everywhere
    ends = {name: [float(Q(end)) for end in value] for name, value in quantities.items()}
    assert found.modulus * 2 == pytest.approx(ends["modulus"][0], rel=1e-6)
    assert found.radius == pytest.approx(ends["radius"][0], rel=1e-6)
    assert found.error == pytest.approx(ends["distance"][1], rel=1e-3, abs=1e-11)
    assert found.factor <= ends["factor"][1] * (1 + 1e-9)  # the library bounds Hess on the ball, too


def test_the_masks_of_the_claim_are_those_of_the_certificates() -> None:
    """The library's descent in floats, its step and its search return what the checkers compute."""
    for case in _returned():
        inputs = load(f"returned_mask-lambda-1e-{round(-np.log10(case['lam']))}")["inputs"]
        assert float(Q(inputs["lambda"])) == case["lam"] and float(Q(inputs["eta"])) == best_mask_claim._ETA
        assert inputs["t"] == best_mask_claim._STEPS and TIMES == best_mask_claim._TIMES
        for name in "XWMN":
            assert floats(inputs[name]).tolist() == np.asarray(case[name]).tolist(), name


def test_a_walk_at_rounded_points_stays_within_its_drift_of_the_descent() -> None:
    """Eight steps in both ways: exact midpoints with a bound of the drift, and intervals all along."""
    inputs = load("returned_mask-lambda-1e-0")["inputs"]
    X, W = ([[Q(entry) for entry in row] for row in inputs[name]] for name in "XW")
    data = blocks.Blocks([1] * 4, X, W, Q(1), Q(0), Q(0), "causal")
    eta, K_sq = Q(inputs["eta"]), Q(inputs["map_sq"])
    exact: Any = data.ones()
    for t in range(1, 9):
        exact = blocks.as_intervals(blocks.descend(exact, blocks.state(data, exact, 512).gradient, eta), 512)
        point, drift = _walk(data, eta, 1 + eta * (C_MINUS * K_sq - 1), t, 64)
        rows = zip(point, exact, strict=True)
        away = max(abs(p - bounds(x)[0]) for ps, xs in rows for p, x in zip(ps, xs, strict=True))
        assert away <= drift < Q(1, 2**40)
        assert t < 2 or away > 0


def test_a_looser_modulus_is_a_smaller_ball_and_still_a_proof() -> None:
    document = load("stationary_point-two-tokens-range")
    low, high = map(Q, document["quantities"]["modulus"])
    document["quantities"] |= {
        name: ["0", "1" + "0" * 9] for name in document["quantities"] if not name.endswith(("_sq", "modulus"))
    }
    document["quantities"]["modulus"] = [str(low * Q(3, 4)), str(high * 2)]
    assert judged(document).accepted
    document["quantities"]["radius"] = load("stationary_point-two-tokens-range")["quantities"]["radius"]
    assert "radius" in judged(document).reason


def test_convexity_alone_refuses_the_trap_of_that_name() -> None:
    trap = json.loads(invalid()["convex-everywhere.json"])
    assert "convex" in judged(trap).reason
    trap["inputs"]["lambda"] = "11/100"
    trap["inputs"]["centre"] = ["484142/1000000"]
    trap["quantities"]["modulus"] = ["22/100", "25/100"]
    assert judged(trap).accepted, judged(trap).reason


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("best_mask-four-features", lambda inputs: inputs["X"][1].__setitem__(2, "1/3")),
        ("best_mask-four-features", lambda inputs: inputs["W"][0].__setitem__(1, "-7/16")),
        ("stationary_point-four-tokens", lambda inputs: inputs["X"][1].__setitem__(1, "2/3")),
        ("stationary_point-four-tokens", lambda inputs: inputs.__setitem__("lambda", "11/1000")),
        ("stationary_point-two-tokens-range", lambda inputs: inputs["centre"].__setitem__(0, "-0.9")),
    ],
)
def test_another_instance_is_not_proved_by_these_numbers(name: str, change: Callable[[Any], None]) -> None:
    document = load(name)
    assert judged(document).accepted
    change(document["inputs"])
    assert not judged(document).accepted


def test_the_largest_searches_are_bounded_work() -> None:
    """Twenty digits everywhere and as many leaves as are allowed: no more than five seconds."""
    rng = random.Random(5)

    def entry() -> str:
        return f"{rng.randint(-(10**19), 10**19)}/{rng.randint(10**19, 10**20)}"

    pairs = ["".join("01"[k in pair] for k in range(36)) for pair in combinations(range(36), 2)]
    document = load("best_mask-four-features")
    document["inputs"] |= {
        "n": 3, "d": 6, "zeros": 34, "leaves": pairs, "M": [["1", "1", "0", "0", "0", "0"]] + [["0"] * 6] * 5,
        "X": [[entry() for _ in range(6)] for _ in range(3)], "W": [[entry() for _ in range(6)] for _ in range(6)],
    }  # fmt: skip
    document["quantities"] = {name: ["-1" + "0" * 40, "1" + "0" * 40] for name in ("lhs", "rhs")}
    begun = time.process_time()
    assert "the leaves hold" not in judged(document).reason
    assert time.process_time() - begun < 5
