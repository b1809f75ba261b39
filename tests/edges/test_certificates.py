"""Refusals of the certificate checkers on their edges: documents on both sides, judged by both checkers."""

import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest

from proofs_check import both
from proofs_check.checker import blocks, definite, fields, interval, judge_bytes, logarithm, pivots
from proofs_check.checker import exponential as exponentials
from proofs_check.checker.reject import GaveUp, Reject
from proofs_check.checker.statements import best_mask, pl_inequality, repaired, returned_mask, sigmoid_valley
from proofs_check.checker.statements.stationary_point import _require_affordable as coordinates
from proofs_check.checker.statements.theory_prose import _momentum, _running_time
from proofs_check.corpus.trap import opened, text, valid, written

Q = Fraction
TINY = Q(1, 10**9)
ZEROS, ONES, EXIT = (
    "our_convergence-refutation-from-zeros",
    "our_convergence-refutation-from-ones",
    "mask_stays_in_box-refutation",
)
GAP, BEST, LEAVES = "mask_gap-four-features", "attn_prun-confirmation-best-mask", "best_mask-four-features"
BETA, DELTA, INFORMAL = (
    "practical-refutation-beta",
    "practical-refutation-all-M",
    "our_convergence_informal-refutation",
)
RETURNED, MINIMUM, RANGE = (
    "returned_mask-lambda-1e-0",
    "spurious_minimum-four-tokens",
    "stationary_point-two-tokens-range",
)
MOMENTUM, GRADIENT, PL = "momentum-refutation", "gradient_bounded-refutation", "PL_ineq-refutation-interior-mask"
LINE, FLOOR, PRINTED = "grad_rec-refutation", "practical-confirmation-causal", "mask_gd-refutation-constant"
REPAIRED = "our_convergence-confirmation-from-zeros"
EYE, FLAT = [["1", "0"], ["0", "1"]], [["1", "1"], ["1", "1"]]


def digits(name: str, most: int, key: str = "X") -> tuple[str, str, dict[str, Any]]:
    """The first entry of a matrix has as many digits as allowed, and is one more."""
    first, *rows = valid(name)["inputs"][key]
    inside, outside = ([[str(entry), *first[1:]], *rows] for entry in (10**most, 10**most + 1))
    return name, f"at most {most} digits here", {key: (inside, outside)}


def lipschitz(name: str) -> Q:
    """K = lambda + (5/4) max|W|^2 ||X||_2^4 of a certificate."""
    inputs = valid(name)["inputs"]
    X, W = ([[Q(entry) for entry in row] for row in inputs[key]] for key in "XW")
    data = blocks.Blocks(inputs.get("sizes", [1] * len(W)), X, W, Q(inputs["lambda"]), Q(0), Q(0))
    return data.lam + Q(5, 4) * data.largest_weight() ** 2 * data.spectral_bound() ** 2


def longest(name: str) -> tuple[str, str]:
    """Steps just below 1/K, and of 1/K."""
    return str((1 - TINY) / lipschitz(name)), str(1 / lipschitz(name))


def row_of_f(entry: Q) -> list[list[str]]:
    """F with this entry first, and the rest of its row in the second."""
    rows = valid(LINE)["inputs"]["F"]
    others = [Q(number) for number in rows[0][2:]]
    return [[str(entry), str(1 - entry - sum(others)), *rows[0][2:]], *rows[1:]]


def corner(more: Q) -> list[list[str]]:
    """A mask of norm d + more, in one entry."""
    d = valid(FLOOR)["inputs"]["d"]
    return [[str(d + more) if a == b == 0 else "0" for b in range(d)] for a in range(d)]


TOKENS = valid(MINIMUM)["inputs"]["X"]
HALF = {"lambda": "1", "map_sq": str(1 / returned_mask.C_PLUS)}
"""eta (lambda + C_+ map_sq) = 2 eta."""
LAMBDA_AND_MORE = "inputs.lambda must lie in [0, 1], inputs.beta"
INFORMAL_DOMAIN = "lambda must lie in (0, 1], epsilon"
EXIT_DOMAIN = "inputs.eta in (0, 1/K)"
BOUND = "inputs.R must bound"
ETA = "below the reciprocal of lambda"
BELOW_0, BELOW_1, ABOVE_0, ABOVE_1, BELOW_2 = (str(number) for number in (-TINY, 1 - TINY, TINY, 1 + TINY, 2 - TINY))
LONG = {"n": 4, "X": EYE * 2, "eta": ABOVE_0}
ROWS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "lambda 0": (ZEROS, LAMBDA_AND_MORE, {"lambda": ("0", BELOW_0)}),
    "lambda 1": (ZEROS, LAMBDA_AND_MORE, {"lambda": ("1", ABOVE_1)}),
    "beta 0": (ZEROS, LAMBDA_AND_MORE, {"beta": (ABOVE_0, "0")}),
    "delta 0": (ZEROS, LAMBDA_AND_MORE, {"delta": (ABOVE_0, "0")}),
    "eight classes": (ZEROS, "1 to 8 class sizes", {"sizes": ([1] * 8, [1] * 9)}),
    "one class": (ZEROS, "1 to 8 class sizes", {"sizes": ([1], [])}),
    "digits of blocks": digits(ZEROS, 30),
    "||X|| = R": (ZEROS, BOUND, {"X": [["2", "0"], ["0", "0"]], "R": ("2", BELOW_2)}),
    "||W|| = R": (ZEROS, BOUND, {"W": FLAT, "R": ("2", BELOW_2)}),
    "steps t n^2 d": (EXIT, "more work than is allowed", LONG | {"t": (1250, 1251)}),
    "eta = 1/K": (EXIT, EXIT_DOMAIN, {"eta": longest(EXIT)}),
    "eta = 0": (EXIT, EXIT_DOMAIN, {"eta": (ABOVE_0, "0")}),
    "lambda of the exit": (EXIT, EXIT_DOMAIN, {"eta": ABOVE_0, "lambda": ("1", ABOVE_1)}),
    "digits of the exit": digits(EXIT, 30, "W"),
    "short matrix": digits(GAP, 20),
    "eta = 1/K of the theorem": (REPAIRED, "inputs.eta must lie in (0, 1/K)", {"eta": longest(REPAIRED)}),
    "eta = 0 of the theorem": (REPAIRED, "inputs.eta must lie in (0, 1/K)", {"eta": (ABOVE_0, "0")}),
    "R 1": (ZEROS, "inputs.R > 1", {"R": (ABOVE_1, "1")}),
    "epsilon 0 of the theorem": (ZEROS, "inputs.R > 1", {"epsilon": (ABOVE_0, "0")}),
    "digits of a number": (PL, "more than 2000 digits", {"delta": ("1/" + "9" * 2000, "1/" + "9" * 2001)}),
    "entry 0": (PL, "all entries in [0, 1]", {"M": ([["0", "1"], ["1", "0"]], [[BELOW_0, "1"], ["1", "0"]])}),
    "entry 1": (PL, "all entries in [0, 1]", {"M": ([["0", "1"], ["1", "0"]], [["0", ABOVE_1], ["1", "0"]])}),
    "pivot 0": (PL, "not positive semidefinite", {"beta": ("1", ABOVE_1)}),
    "lambda 0 of the lemma": (PL, "inputs.lambda must lie in [0, 1]", {"lambda": ("0", BELOW_0)}),
    "lambda 1 of the lemma": (PL, "inputs.lambda must lie in [0, 1]", {"lambda": ("1", ABOVE_1)}),
    "beta 0 of the lemma": (PL, "inputs.beta and inputs.delta", {"beta": (ABOVE_0, "0")}),
    "delta 0 of the lemma": (PL, "inputs.beta and inputs.delta", {"delta": (ABOVE_0, "0")}),
    "delta at its end": (PL, "below delta", {"delta_le_min_f": ("47/100", str(Q(47, 100) - TINY))}),
    "positive": (MOMENTUM, "must be > 0", {"eta": (ABOVE_0, "0")}),
    "row of F": (LINE, "positive and sum to 1", {"F": (row_of_f(TINY), row_of_f(Q(0)))}),
    "equal rows": (LINE, "between the single terms", {"f": (valid(LINE)["inputs"]["f"], valid(LINE)["inputs"]["F"])}),
    "n = d": (BETA, "needs n > d", {"n": (3, 2), "X": (EYE + [["1", "1"]], EYE), "v": (["1", "1", "-1"], ["1", "-1"])}),
    "n = d of a minimum": (MINIMUM, "needs n > d", {"n": (4, 2), "X": (TOKENS, TOKENS[:2])}),
    "rank": (MINIMUM, "X^T X is not positive definite", {"X": (TOKENS, [["1", "1"]] * 4), "gram_pivots": ["4", "0"]}),
    "||M|| = d": (FLOOR, "must be at most d", {"M": (corner(Q(0)), corner(TINY))}),
    "map 0": (RETURNED, "inputs.map_sq must be > 0", {"map_sq": (ABOVE_0, "0")}),
    "lambda of a point": (RANGE, "inputs.lambda must be > 0", {"lambda": (ABOVE_0, "0")}),
    "ratio 0": (PRINTED, "1 to 20 ratios", {"rho": (["0"], [BELOW_0])}),
    "ratio 1": (PRINTED, "1 to 20 ratios", {"rho": (["1"], [ABOVE_1])}),
    "ratios": (PRINTED, "1 to 20 ratios", {"rho": (["0"] * 20, ["0"] * 21)}),
    "one ratio": (PRINTED, "1 to 20 ratios", {"rho": (["0"], [])}),
    "two leaves": (LEAVES, "2 to 2000 patterns", {"leaves": (["0" + "*" * 15, "1" + "*" * 15], ["*" * 16])}),
    "leaves": (LEAVES, "2 to 2000 patterns", {"leaves": (["*" * 16] * 2000, ["*" * 16] * 2001)}),
    "share 1/10": (GAP, "share must lie", {"share": ("1/10", str(Q(1, 10) - TINY))}),
    "share 1": (GAP, "share must lie", {"share": ("1", ABOVE_1)}),
    "digits of v": digits(BETA, 30),
    "digits of delta": digits(DELTA, 20),
    "R 0": (INFORMAL, INFORMAL_DOMAIN, {"R": ("3/2", "0")}),
    "epsilon 0": (INFORMAL, INFORMAL_DOMAIN, {"epsilon": (ABOVE_0, "0")}),
    "delta 0 of the family": (INFORMAL, INFORMAL_DOMAIN, {"delta": (ABOVE_0, "0")}),
    "lambda 0 of the family": (INFORMAL, INFORMAL_DOMAIN, {"lambda": (ABOVE_0, "0")}),
    "lambda 1 of the family": (INFORMAL, INFORMAL_DOMAIN, {"lambda": ("1", ABOVE_1)}),
    "rho 0": (BEST, "rho must lie in [0, 1]", {"rho": ("0", BELOW_0)}),
    "rho 1": (BEST, "rho must lie in [0, 1]", {"rho": ("1", ABOVE_1)}),
    "descent rho 0": (RETURNED, "inputs.rho in (0, 1)", {"rho": (ABOVE_0, "0")}),
    "descent rho 1": (RETURNED, "inputs.rho in (0, 1)", {"rho": (BELOW_1, "1")}),
    "half of the longest eta": (RETURNED, ETA, HALF | {"eta": ("1/4", str(Q(1, 4) - TINY))}),
    "the longest eta": (RETURNED, ETA, HALF | {"eta": (str(Q(1, 2) - TINY), "1/2")}),
    "digits of a minimum": digits(MINIMUM, 60),
    "radius 1": (MINIMUM, "must lie in (0, 1]", {"radius": ("1", ABOVE_1)}),
    "eta of momentum": (MOMENTUM, "below 1/K", {"lambda": "1", "W": FLAT, "eta": (str(Q(4, 9) - TINY), "4/9")}),
    "lambda of momentum": (MOMENTUM, "below 1/K", {"eta": ABOVE_0, "lambda": ("1", ABOVE_1)}),
    "lambda of a gradient": (GRADIENT, "lambda must be at most 1", {"lambda": ("1", ABOVE_1)}),
    "R of a gradient": (GRADIENT, BOUND, {"W": FLAT, "R": ("2", BELOW_2)}),
    "share of the modulus": (RANGE, "attention's share", {"modulus": (str(Q(1, 90)), str(Q(1, 90) - TINY))}),
}
"""A certificate, what is said beyond the edge, and the inputs that change: to a pair of the value on each side."""


def sides(row: str) -> tuple[bytes, bytes]:
    """The certificate on both sides, its enclosures open, or with the ends and pivots that are given."""
    name, _, changes = ROWS[row]
    found = []
    for side in (0, 1):
        inputs = {key: value[side] if isinstance(value, tuple) else value for key, value in changes.items()}
        modulus, delta, pivots = (inputs.pop(key, None) for key in ("modulus", "delta_le_min_f", "gram_pivots"))
        document = json.loads(opened("", "", name, **inputs).content)
        if modulus:
            document["quantities"] |= {"modulus": [modulus, "1"], "map_sq": ["0", "1"]}
        if delta:
            document["hypotheses"]["delta_le_min_f"] = [delta, "1"]
        if pivots and side:
            document["hypotheses"]["gram_pivots"] = pivots
        if name in (EXIT, RETURNED):  # their walks are not taken
            document["hypotheses"]["x"] = "0"
        found.append(written(document))
    return found[0], found[1]


@pytest.mark.parametrize("row", ROWS)
def test_a_document_on_the_edge_passes_and_its_neighbour_is_refused(row: str) -> None:
    """What passes goes on to other questions, where it may be refused for another reason."""
    passed, refused = (judge_bytes(content).reason for content in sides(row))
    says = ROWS[row][1]
    assert says in refused and says not in passed and "broke down" not in passed


@pytest.fixture(scope="module")
def second() -> Iterator[both.SecondChecker]:
    if missing := both.missing_tool():
        pytest.skip(f"the second checker cannot be built: no {missing}")
    with both.SecondChecker(both.build()) as process:
        yield process


def test_the_second_checker_has_the_same_edges(second: both.SecondChecker) -> None:
    """Its reasons differ between the sides, and where the first one accepts it accepts."""
    for row in ROWS:
        ours = judge_bytes(sides(row)[0])
        passed, refused = map(second.judge, sides(row))
        assert passed.reason != refused.reason, row
        assert passed.accepted == ours.accepted and not refused.accepted, row


def padded(length: int) -> bytes:
    return text(ZEROS).encode().ljust(length)


def tool(length: int) -> bytes:
    return written(valid(ZEROS) | {"producer": {"tool": "x" * length, "prec_bits": 0}})


TEXTS = {
    "bytes": (padded, 300_000),
    "characters of a tool": (tool, 200),
}


@pytest.mark.parametrize("row", TEXTS)
def test_a_text_as_long_as_allowed_is_accepted_by_both(row: str, second: both.SecondChecker) -> None:
    make, most = TEXTS[row]
    for judge in (judge_bytes, second.judge):
        assert judge(make(most)).accepted and not judge(make(most + 1)).accepted


def test_a_json_integer_has_at_most_12_digits(second: both.SecondChecker) -> None:
    for judge in (judge_bytes, second.judge):
        twelve, thirteen = (judge(written(valid(ZEROS) | {"schema": -(10**power)})).reason for power in (11, 12))
        assert "digits" in thirteen and "digits" not in twelve


def test_a_text_is_nested_in_12_levels_at_most(second: both.SecondChecker) -> None:
    for judge in (judge_bytes, second.judge):
        twelve, thirteen = (judge(b"[" * depth + b"]" * depth).reason for depth in (12, 13))
        assert "deeper" in thirteen and "deeper" not in twelve


def read_instance() -> pl_inequality.ExactInstance:
    inputs = valid(PL)["inputs"]
    return pl_inequality.read_instance(inputs, "full")


def logit_work(instance: pl_inequality.ExactInstance) -> int:
    n, d = instance.n, instance.d
    return n * d * d + n * n * d * 2 + 10 * n * n * 9


def sum_work(instance: pl_inequality.ExactInstance) -> int:
    return (instance.n * instance.d + instance.d**2 * 2) * pl_inequality._PRECISIONS


def pairs_of(name: str) -> int:
    """Exponentials of all leaves: four for each pair of positions of a row that may be attended to."""
    inputs = valid(name)["inputs"]
    return 4 * inputs["n"] * (inputs["n"] * (inputs["n"] - 1) // 2) * len(inputs["leaves"])


SUPPOSING = written(valid(LEAVES) | {"hypotheses": {"x": "0"}})


def accepted_or_raise(content: bytes, passed: str) -> None:
    verdict = judge_bytes(content)
    if not verdict.accepted and passed not in verdict.reason:
        raise Reject(verdict.reason)


LIMITS: dict[str, tuple[Any, str, float, float, Callable[[], Any]]] = {
    "exponentials": (best_mask, "MOST_EXPONENTIALS", pairs_of(LEAVES), 1,
                     lambda: accepted_or_raise(SUPPOSING, "unknown key 'x'")),
    "masks": (repaired, "MOST_MASKS", 126, 1, lambda: accepted_or_raise(text(BEST).encode(), "accepted")),
    "logits": (pl_inequality, "_LOGIT_WORK", logit_work(read_instance()), 1,
               lambda: pl_inequality.require_bounded_logits(read_instance())),
    "sums": (pl_inequality, "_SUM_WORK", sum_work(read_instance()), 1,
             lambda: pl_inequality.require_bounded_logits(read_instance())),
    "pivots": (pivots, "_WORK", 2**3 * 3**1.6, 1e-9, lambda: pivots._require_affordable(2, 64)),
    "steps": (blocks, "_MOST_WORK", 24, 1, lambda: blocks.require_affordable(3, 2, 2)),
}  # fmt: skip


@pytest.mark.parametrize("row", LIMITS)
def test_work_of_as_much_as_the_limit_is_done(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, name, reached, less, call = LIMITS[row]
    monkeypatch.setattr(place, name, reached)
    call()
    monkeypatch.setattr(place, name, reached - less)
    with pytest.raises(Reject, match=r"too long|more work|masks can be compared"):
        call()


MOST = exponentials.LARGEST_ARGUMENT
VALLEY = Q(1, 100)
"""The weight of tau^2."""


def valley_value() -> Q:
    """The upper end of h(1/2) for tau_0 = 1, as the checker computes it."""
    gap = sigmoid_valley.sigma(Q(1, 2)) - sigmoid_valley.sigma(Q(1))
    return interval.upper(interval.square(gap) + VALLEY / 4)


def valley(**changes: Q) -> None:
    given = {"tau_0": Q(1), "weight": VALLEY, "tau": Q(1, 2), "low": TINY, "high": Q(1)} | changes
    sigmoid_valley.require_valley(given["tau_0"], given["weight"], given["tau"], (given["low"], given["high"]))


def cells() -> int:
    """The cells of the valley: sigma is asked at both ends of each, and of both tau before."""
    calls: list[Q] = []
    asked = sigmoid_valley.sigma
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sigmoid_valley, "sigma", lambda tau: calls.append(tau) or asked(tau))  # type: ignore[func-returns-value]
        valley()
    return len(calls) // 2 - 1


def test_as_many_cells_as_the_limit_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    most = cells()
    monkeypatch.setattr(sigmoid_valley, "_MOST_CELLS", most)
    valley()
    monkeypatch.setattr(sigmoid_valley, "_MOST_CELLS", most - 1)
    with pytest.raises(GaveUp, match="undecided"):
        valley()


def given_up(low: Q) -> None:
    """1/4 may be the least value of h, and cannot be proved to be one."""
    with pytest.raises(GaveUp):
        valley(low=low)


def drift(steps: int) -> Any:
    """At 0 bits each step of a walk that stands still adds 1."""
    data = blocks.Blocks([1], [[Q(1)], [Q(0)]], [[Q(1)]], Q(1), Q(0), Q(0))
    return returned_mask._walk(data, Q(0), Q(1), steps, 0)


def running(**changes: str) -> Any:
    return _running_time(valid("smaller_lam_takes_longer-refutation")["inputs"] | changes, 64)


def momentum(value: str) -> Any:
    return _momentum(valid(MOMENTUM)["inputs"] | {"momentum": value}, 64)


def long_text(length: int) -> str:
    return fields.text("x" * length, "it", 5)


CALLS: dict[str, tuple[str, Callable[[], Any], Callable[[], Any]]] = {
    "exp": (
        "more than 20000",
        lambda: exponentials.exponential(Q(MOST), 8),
        lambda: exponentials.exponential(MOST + TINY, 8),
    ),
    "exp of an interval": (
        "too widely",
        lambda: exponentials.exponential(interval.Interval(0, MOST << 8, 8), 8),
        lambda: exponentials.exponential(interval.Interval(0, (MOST << 8) + 1, 8), 8),
    ),
    "ln": ("not positive", lambda: logarithm.logarithm(TINY, 64), lambda: logarithm.logarithm(Q(0), 64)),
    "ln of an interval": (
        "not certainly positive",
        lambda: logarithm.logarithm(interval.Interval(1, 2, 8), 8),
        lambda: logarithm.logarithm(interval.Interval(0, 2, 8), 8),
    ),
    "quotient": (
        "not certainly positive",
        lambda: 1 / interval.Interval(1, 2, 8),
        lambda: 1 / interval.Interval(0, 2, 8),
    ),
    "root": (
        "negative number",
        lambda: interval.square_root(interval.Interval(-1, 0, 8), 8),
        lambda: interval.square_root(interval.Interval(-2, -1, 8), 8),
    ),
    "one coordinate": ("1 to 10", lambda: coordinates(1), lambda: coordinates(0)),
    "coordinates": ("1 to 10", lambda: coordinates(10), lambda: coordinates(11)),
    "inverse form": (
        "not certainly positive definite",
        lambda: definite.inverse_form([[TINY]], [Q(1)]),
        lambda: definite.inverse_form([[Q(0)]], [Q(1)]),
    ),
    "text": ("at most 5", lambda: long_text(5), lambda: long_text(6)),
    "drift": ("drifts too far", lambda: drift(1), lambda: drift(2)),
    "valley: lhs 1/4": ("at most h", lambda: given_up(low=Q(1, 4)), lambda: valley(low=Q(1, 4) + TINY)),
    "valley: lhs 0": ("positive lower end", lambda: valley(low=TINY), lambda: valley(low=Q(0))),
    "valley: weight 0": ("positive weight", lambda: valley(weight=VALLEY), lambda: valley(weight=Q(0))),
    "valley: value": (
        "upper end",
        lambda: valley(high=valley_value()),
        lambda: valley(high=valley_value() - Q(1, 2**200)),
    ),
    "valley: tau": (
        r"\|tau\| <= 1000",
        lambda: valley(tau_0=Q(1000), high=Q(10**5)),
        lambda: valley(tau_0=1000 + TINY, high=Q(10**5)),
    ),
    "equal lambdas": (
        "below lambda_large",
        lambda: running(lambda_small=str(Q(1, 10) - TINY)),
        lambda: running(lambda_small="1/10"),
    ),
    "lambda_large 1": ("at most 1", lambda: running(lambda_large="1"), lambda: running(lambda_large=str(1 + TINY))),
    "momentum 1": ("momentum below 1", lambda: momentum(str(1 - TINY)), lambda: momentum("1")),
}


@pytest.mark.parametrize("row", CALLS)
def test_a_call_on_the_edge_is_answered_and_its_neighbour_refused(row: str) -> None:
    says, answered, refused = CALLS[row]
    answered()
    with pytest.raises((Reject, interval.Undecided), match=says):
        refused()
