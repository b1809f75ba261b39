"""Traps of lem:PL_ineq: outside its hypotheses, beside its numbers, or of the other relation."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from proofs_check.corpus.trap import Document, Trap, opened, put, spoiled

_INTERIOR = "PL_ineq-refutation-interior-mask"
_CORRECTED = "PL_ineq-confirmation-interior-mask"
_ATTAINED = "PL_ineq-confirmation-attained"
_FOUR = "PL_ineq-refutation-four-tokens"


def traps() -> Iterator[Trap]:
    yield from _domain()
    yield from _hypotheses()
    yield from _enclosures()
    yield from _relations()
    yield from _work()


def _domain() -> Iterator[Trap]:
    tiny = "1/1" + "0" * 300
    above = "1" + "0" * 299 + "1/1" + "0" * 300
    for name, says, changes in (
        ("zero-in-W", "W has a zero: the statement divides by min|W|", {"W": [["0/1", "1/10"], ["1/10", "1/10"]]}),
        ("M-above-1", "an entry of M is 1 + 1e-300", {"M": [[above, "1/1"], ["1/1", "1/1"]]}),
        ("M-below-0", "an entry of M is -1e-300", {"M": [["-" + tiny, "1/1"], ["1/1", "1/1"]]}),
        ("M-of-twos", "M = 2 everywhere", {"M": [["2/1", "2/1"], ["2/1", "2/1"]]}),
        ("lambda-above-1", "lambda is 1 + 1e-300", {"lambda_": above}),
        ("lambda-negative", "lambda is -1e-300", {"lambda_": "-" + tiny}),
        ("lambda-1e50", "lambda is 10^50", {"lambda_": "1" + "0" * 50}),
        ("beta-0", "beta is 0", {"beta": "0/1"}),
        ("beta-negative", "beta is negative: X X^T >= beta I says nothing", {"beta": "-1/1"}),
        ("delta-0", "delta is 0", {"delta": "0/1"}),
        ("delta-negative", "delta is negative", {"delta": "-1/2"}),
        ("delta-99", "delta is 99, and no entry of f exceeds 1", {"delta": "99/1"}),
        ("delta-one-half", "delta is 1/2, which an uneven row cannot have", {"delta": "1/2"}),
        ("d-not-the-size-of-W", "d = 3, and W is 2 x 2", {"d": 3}),
    ):
        yield opened(name, says, _INTERIOR, **changes)
    yield spoiled(
        "delta-over-forbidden-positions",
        "delta over all positions under a causal mask, where min f = 0",
        "PL_ineq-refutation-causal",
        put("reading", "mu", value="2*wmin*beta*delta"),
    )


def _hypotheses() -> Iterator[Trap]:
    thousand = "1" + "0" * 999 + "1/1" + "0" * 1000
    yield opened("beta-above-by-1e-1000", "beta is 1 + 1e-1000, the least eigenvalue 1", _INTERIOR, beta=thousand)
    yield opened(
        "tokens-that-depend", "two equal tokens: X X^T has the eigenvalue 0", _INTERIOR, X=[["1/1", "0/1"]] * 2
    )
    yield opened(
        "zero-pivot-above-a-column",
        "X X^T - beta I = [[0, 1], [1, 1]]: no negative pivot, yet not positive",
        _INTERIOR,
        X=[["1/1", "0/1"], ["1/1", "1/1"]],
    )
    for name, says, value in (
        ("pivot-wrong", "a pivot of 1e-40 that is 0", ["0/1", "1/1" + "0" * 40]),
        ("pivots-of-X", "the pivots of X X^T, without - beta I", ["1/1", "1/1"]),
        ("pivot-missing", "one pivot for two tokens", ["0/1"]),
        ("pivot-too-many", "three pivots for two tokens", ["0/1", "0/1", "0/1"]),
        ("pivots-in-a-row", "a matrix of pivots", [["0/1", "0/1"]]),
        ("pivot-as-zero", "a JSON 0 for a pivot", [0, 0]),
    ):
        yield spoiled(name, says, _INTERIOR, put("hypotheses", "psd_pivots", value=value))
    for name, says, value in (
        ("min-f-begins-below-delta", "the enclosure of min f begins below delta", ["23/50", "1/2"]),
        ("min-f-above", "an enclosure above min f", ["49/100", "1/2"]),
        ("min-f-upside-down", "an enclosure whose ends are exchanged", ["1/2", "47/100"]),
        ("min-f-one-number", "one number for an enclosure", ["47/100"]),
    ):
        yield spoiled(name, says, _INTERIOR, put("hypotheses", "delta_le_min_f", value=value))
    yield spoiled("delta-above-by-1e-60", "delta is above min f by 1e-60", _ATTAINED, _delta_above)


def _delta_above(document: Document) -> None:
    above = str(Fraction(1, 2) + Fraction(1, 10**60))
    document["inputs"]["delta"] = above
    document["hypotheses"]["delta_le_min_f"] = [above, "1/1"]


def _ends(name: str, change: Callable[[Fraction, Fraction], tuple[Any, Any]]) -> Callable[[Document], None]:
    def apply(document: Document) -> None:
        low, high = map(Fraction, document["quantities"][name])
        document["quantities"][name] = [str(end) for end in change(low, high)]

    return apply


def _enclosures() -> Iterator[Trap]:
    for name in ("c_sq", "lhs", "rhs"):
        yield spoiled(
            f"{name}-from-above",
            f"{name} begins above the number",
            _INTERIOR,
            _ends(name, lambda low, high: (high, high + (high - low))),
        )
        yield spoiled(
            f"{name}-to-below",
            f"{name} ends below the number",
            _INTERIOR,
            _ends(name, lambda low, high: (low - (high - low), low)),
        )
    yield spoiled(
        "lhs-ten-times", "lhs is ten times the number", _INTERIOR, _ends("lhs", lambda low, high: (10 * low, 10 * high))
    )
    yield spoiled("rhs-negated", "rhs is minus the number", _INTERIOR, _ends("rhs", lambda low, high: (-high, -low)))
    yield spoiled(
        "lhs-empty", "an enclosure that holds nothing", _INTERIOR, _ends("lhs", lambda low, high: (high, low))
    )
    yield spoiled(
        "lhs-as-a-point",
        "a rational point for an irrational number",
        _INTERIOR,
        _ends("lhs", lambda low, _: (low, low)),
    )
    yield spoiled("lhs-as-text", "a string for an enclosure", _INTERIOR, put("quantities", "lhs", value="1/1"))
    yield spoiled("lhs-of-three", "three ends", _INTERIOR, put("quantities", "lhs", value=["0/1", "1/2", "1/1"]))
    yield spoiled(
        "lhs-as-an-object", "ends by name", _INTERIOR, put("quantities", "lhs", value={"lo": "0/1", "hi": "1/1"})
    )
    yield spoiled(
        "lhs-infinite", "ends that are no numbers", _INTERIOR, put("quantities", "lhs", value=["-inf", "inf"])
    )
    yield spoiled(
        "lhs-narrow-beyond-any-need",
        "ends 10^-20000 apart, beside the number",
        _INTERIOR,
        _ends("lhs", lambda low, _: (low, f"{low.numerator}{'0' * 20_000}1/{low.denominator}0{'0' * 20_000}")),
    )
    yield spoiled(
        "sides-exchanged",
        "lhs under rhs and rhs under lhs",
        _INTERIOR,
        lambda document: document["quantities"].update(
            lhs=document["quantities"]["rhs"], rhs=document["quantities"]["lhs"]
        ),
    )


def _relations() -> Iterator[Trap]:
    def both(kind: str, relation: str) -> Callable[[Document], None]:
        return lambda document: document.update(kind=kind, claim={"relation": relation})

    yield spoiled(
        "relation-turned-round", "lhs < rhs claimed as lhs >= rhs", _INTERIOR, both("confirmation", "lhs>=rhs")
    )
    yield spoiled(
        "refutes-the-corrected-mu", "lhs >= rhs claimed as lhs < rhs", _CORRECTED, both("refutation", "lhs<rhs")
    )
    yield spoiled(
        "kind-against-relation", "a confirmation that claims lhs < rhs", _INTERIOR, both("confirmation", "lhs<rhs")
    )
    yield spoiled(
        "relation-against-kind", "a refutation that claims lhs >= rhs", _INTERIOR, both("refutation", "lhs>=rhs")
    )
    yield spoiled(
        "relation-of-another-statement", "lhs > rhs is not what is asked", _INTERIOR, both("refutation", "lhs>rhs")
    )
    yield spoiled("tie-as-strict", "both sides are equal: not lhs < rhs", _ATTAINED, both("refutation", "lhs<rhs"))
    yield spoiled(
        "tie-of-three-tokens-as-strict",
        "both sides are equal: not lhs < rhs",
        f"{_ATTAINED}-three-tokens",
        both("refutation", "lhs<rhs"),
    )
    yield opened(
        "M-of-ones-as-a-refutation",
        "at M = 1 and lambda = 0 both sides are 0",
        _INTERIOR,
        M=[["1/1", "1/1"]] * 2,
        lambda_="0/1",
        delta="9/20",
    )
    for name, base in (("two", _INTERIOR), ("four", _FOUR)):
        yield spoiled(
            f"mu-of-the-correction-{name}-tokens",
            "the corrected mu under the printed one's numbers",
            base,
            put("reading", "mu", value="2*(wmin*beta*delta)^2"),
        )
    yield opened(
        "lambda-makes-it-true", "with lambda = 1/10 the printed inequality holds here", _INTERIOR, lambda_="1/10"
    )
    yield opened(
        "tie-moved-the-wrong-way",
        "attained with lambda = 1e-300, where rhs is the smaller side",
        "PL_ineq-refutation-lambda-0",
        W=[["1/1", "-1/1"], ["-1/1", "1/1"]],
        lambda_="1/1" + "0" * 300,
        delta="1/2",
        beta="1/2",
    )


def _work() -> Iterator[Trap]:
    """Yield traps that cost a checker without a limit on its work a very long time."""
    long = [[f"1/{10**1900 + 2 * (4 * a + b) + 1}" for b in range(4)] for a in range(4)]
    eye = [[f"{int(a == b)}/1" for b in range(4)] for a in range(4)]
    ones = [["1/1"] * 4 for _ in range(4)]
    yield opened(
        "giant-denominators",
        "sixteen denominators of 1,900 digits: W is all but 0, so c is too, and lhs < rhs fails",
        _INTERIOR,
        n=4,
        d=4,
        X=eye,
        W=long,
        M=ones,
        delta="1/5",
    )
    many = [[f"1/{10**29 + 2 * (20 * a + b) + 1}" for b in range(20)] for a in range(20)]
    yield opened(
        "many-long-denominators",
        "400 distinct denominators of thirty digits",
        _INTERIOR,
        d=20,
        X=[["1/1"] + ["0/1"] * 19, ["0/1", "1/1"] + ["0/1"] * 18],
        W=many,
        M=many,
        delta="1/5",
    )
    yield opened("long-beta", "beta with 2,000 digits below the fraction line", _INTERIOR, beta="1/" + "7" * 1999 + "1")
