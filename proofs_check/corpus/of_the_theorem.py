"""Traps of the main theorem, of the minima that are not global, and of the descent that leaves the box."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from proofs_check.corpus.trap import Document, Trap, opened, put, spoiled, valid

_ZEROS = "our_convergence-refutation-from-zeros"
_ONES = "our_convergence-refutation-from-ones"
_REPAIRED = "our_convergence-confirmation-from-zeros"
_MINIMUM = "spurious_minimum-four-tokens"
_IN_BOX = "spurious_minimum-six-tokens-causal-in-box"
_EXIT = "mask_stays_in_box-refutation"


def traps() -> Iterator[Trap]:
    yield from _theorem()
    yield from _from_ones()
    yield from _repaired()
    yield from _informal()
    yield from _minimum()
    yield from _box_exit()


def _theorem() -> Iterator[Trap]:
    for name, says, changes in (
        ("R-of-1", "R is 1, and the theorem has R > 1", {"R": "1/1"}),
        ("R-below-the-norm-of-X", "R = 7/5 is below ||X||_F", {"R": "7/5"}),
        ("epsilon-0", "epsilon is 0", {"epsilon": "0/1"}),
        ("epsilon-negative", "epsilon is negative", {"epsilon": "-1/1000"}),
        ("epsilon-too-large", "with epsilon = 1/100 the guarantee is met", {"epsilon": "1/100"}),
        ("delta-above-the-box", "delta = 1/2 is above min F on the box", {"delta": "1/2"}),
        (
            "delta-on-the-box-only",
            "delta = 0.4502 is below F in the box, not at every iterate",
            {"delta": "4502/10000"},
        ),
        ("sizes-that-do-not-add-up", "class sizes 1 + 2 for d = 2", {"sizes": [1, 2]}),
        ("size-0", "a class of no feature", {"sizes": [2, 0]}),
        ("size-as-true", "a class of true features", {"sizes": [True, 1]}),
        ("sizes-missing", "no classes", {"sizes": []}),
        ("classes-nine", "at most eight classes", {"sizes": [1] * 9, "d": 9}),
        ("theorem-with-a-zero-in-W", "mu would be 0", {"W": [["0/1", "1/10"], ["1/10", "1/10"]]}),
        ("theorem-with-lambda-above-1", "lambda is 2", {"lambda_": "2/1"}),
        ("theorem-with-beta-2", "beta is 2, X X^T = I", {"beta": "2/1"}),
        ("R-below-the-norm-of-W", "R is below ||W||_F", {"W": [["100/1", "-100/1"], ["-100/1", "100/1"]]}),
    ):
        yield opened(name, says, _ZEROS, **changes)
    for name, says, path, value in (
        ("start-in-the-middle", "a start that no reading has", ("reading", "start"), "halves"),
        (
            "theorem-with-the-corrected-mu",
            "the corrected mu is not the theorem's",
            ("reading", "mu"),
            "2*(wmin*beta*delta)^2",
        ),
        (
            "theorem-with-allowed-mu",
            "full mask, and delta over allowed positions",
            ("reading", "mu"),
            "2*wmin*beta*delta_allowed",
        ),
        ("theorem-under-a-given-mask", "the theorem's readings are full and causal", ("reading", "mask"), "given"),
        ("theorem-read-as-causal", "the numbers of the full mask", ("reading", "mask"), "causal"),
        ("loss-twice", "||c||^2 in place of the loss", ("quantities", "loss"), ["99/10000", "1/100"]),
        ("pivots-from-elsewhere", "pivots of another X", ("hypotheses", "psd_pivots"), ["1/1", "1/1"]),
        ("theorem-confirmed", "the kind of a refutation", ("kind",), "confirmation"),
    ):
        yield spoiled(name, says, _ZEROS, put(*path, value=value))


def _from_ones() -> Iterator[Trap]:
    for name, says, changes in (
        ("row-2", "there is no row 2", {"row": 2}),
        ("row-of-the-other-token", "row 1 is not the one whose numbers these are", {"row": 1, "tau": "0/1"}),
        ("tau-elsewhere", "h(tau) is above the upper end of lhs", {"tau": "2/1"}),
        ("tau-of-a-thousand-and-one", "|tau| is at most 1000", {"tau": "1001/1"}),
        (
            "from-ones-with-three-tokens",
            "this refutation is for n = 2",
            {"n": 3, "X": [["1/1000", "1/1000"]] * 3, "R": "10/1"},
        ),
    ):
        document = valid(_ONES)
        document["inputs"] |= changes
        yield spoiled(name, says, _ONES, lambda target, source=document: target.update(source))
    yield spoiled("least-value-too-high", "lhs begins above the least value of h", _ONES, _lhs(Fraction(103, 100)))
    yield spoiled("least-value-too-low", "lhs is below (xi + eps)/2", _ONES, _lhs(Fraction(1, 10)))
    yield spoiled("least-value-at-the-edge", "lhs begins 1e-9 below the least value: undecided", _ONES, _edge)
    yield opened("epsilon-that-is-met", "with epsilon = 1/50 some M satisfies the guarantee", _ONES, epsilon="1/50")


def _lhs(factor: Fraction) -> Any:
    def change(document: Document) -> None:
        low, high = map(Fraction, document["quantities"]["lhs"])
        document["quantities"]["lhs"] = [str(low * factor), str(high * max(factor, 1))]

    return change


def _edge(document: Document) -> None:
    high = Fraction(document["quantities"]["lhs"][1])
    document["quantities"]["lhs"][0] = str(high - Fraction(2505, 10**12))


def _repaired() -> Iterator[Trap]:
    eta = Fraction(valid(_REPAIRED)["inputs"]["eta"])
    for name, says, changes in (
        ("eta-0", "a step of 0", {"eta": "0/1"}),
        ("eta-negative", "a step uphill", {"eta": "-1/10"}),
        ("eta-above-1-over-K", "a step twice the one that was taken", {"eta": str(2 * eta)}),
        ("t-of-401", "at most 400 steps", {"t": 401}),
        ("t-negative", "a step before the first", {"t": -1}),
        ("t-as-true", "true is not 1", {"t": True}),
        ("delta-above-an-iterate", "delta = 1/2 is above F at an iterate", {"delta": "1/2"}),
    ):
        yield opened(name, says, _REPAIRED, **changes)
    yield opened("t-after-T", "epsilon so large that T comes before t", _REPAIRED, epsilon="1000000/1", t=1)
    yield spoiled(
        "repaired-with-the-printed-mu",
        "the printed mu is not the repaired one's",
        _REPAIRED,
        put("reading", "mu", value="2*wmin*beta*delta"),
    )
    yield spoiled("T-too-long", "T is ten times the number", _REPAIRED, _longer)


def _longer(document: Document) -> None:
    document["quantities"]["T"] = [str(10 * Fraction(end)) for end in document["quantities"]["T"]]


def _informal() -> Iterator[Trap]:
    base = "our_convergence_informal-refutation"
    for name, says, changes in (
        ("R-below-the-root-of-2", "R = 7/5 is below ||X||_F = sqrt 2", {"R": "7/5"}),
        ("R-negative", "R is negative, and R^2 is not", {"R": "-3/2"}),
        ("delta-above-the-family", "delta = 1/5 is above 1/(1 + e^sqrt 2)", {"delta": "1/5"}),
        ("no-regulariser", "lambda is 0, and T with it", {"lambda_": "0/1"}),
        ("family-of-three-tokens", "the family has n = 2", {"n": 3}),
    ):
        yield opened(name, says, base, **changes)
    yield spoiled(
        "cubic-wrong", "the cubic coefficient is another", base, put("quantities", "cubic", value=["1/1", "1/1"])
    )
    yield spoiled("rhs-not-0", "rhs is 0", base, put("quantities", "rhs", value=["-1/1", "1/1"]))
    yield spoiled("time-in-seconds", "a reading that does not exist", base, put("reading", "time", value="seconds"))


def _minimum() -> Iterator[Trap]:
    inputs = valid(_MINIMUM)["inputs"]
    beside = [list(row) for row in inputs["M"]]
    beside[0][0] = str(Fraction(beside[0][0]) + Fraction(1, 1000))
    zero = [list(row) for row in inputs["W"]]
    zero[0][0] = "0/1"
    flat = [[row[0], row[0]] for row in inputs["X"]]
    for name, says, changes in (
        ("radius-0", "a ball of one point", {"radius": "0/1"}),
        ("radius-above-1", "a radius of 2", {"radius": "2/1"}),
        ("radius-of-a-half", "on a box that large the Hessian is not positive", {"radius": "1/2"}),
        ("beside-the-minimum", "the gradient is too large at this M", {"M": beside}),
        ("outside-the-ball", "||M||_F is above d", {"M": [["2/1", "1/1"], ["1/1", "1/1"]]}),
        ("minimum-with-a-zero-in-W", "W has a zero", {"W": zero}),
        ("as-many-features-as-tokens", "n > d is needed", {"n": 2, "X": inputs["X"][:2]}),
    ):
        yield opened(name, says, _MINIMUM, **changes)
    pivots = {"gram_pivots": ["13/1", "0/1"]}
    yield spoiled(
        "columns-of-X-that-depend",
        "X^T X is not positive definite",
        _MINIMUM,
        lambda document: (document["inputs"].update(X=flat), document["hypotheses"].update(pivots)),
    )
    lhs = [Fraction(end) for end in valid(_MINIMUM)["quantities"]["lhs"]]
    for name, says, base, path, value in (
        ("minimum-below-the-box", "M has negative entries", _MINIMUM, ("reading", "domain"), "box"),
        ("minimum-under-a-full-mask", "the mask is causal", _IN_BOX, ("reading", "mask"), "full"),
        ("curvature-0", "a curvature of 0 says nothing", _MINIMUM, ("quantities", "curvature"), ["0/1", "1/1"]),
        ("curvature-too-large", "the Hessian is not that large", _MINIMUM, ("quantities", "curvature"), ["1/2", "1/1"]),
        (
            "curvature-ends-too-low",
            "it ends below the least eigenvalue",
            _MINIMUM,
            ("quantities", "curvature"),
            ["1/1000", "1/100"],
        ),
        ("gradient-norm-0", "a gradient that is not 0", _MINIMUM, ("quantities", "gradient_norm"), ["0/1", "0/1"]),
        ("loss-0-at-the-minimum", "the loss is not 0 there", _MINIMUM, ("quantities", "lhs"), ["0/1", str(lhs[0] / 2)]),
        ("rhs-as-an-interval", "L_attn(1) is 0, exactly", _MINIMUM, ("quantities", "rhs"), ["-1/1", "1/1"]),
        (
            "pivots-of-another-gram",
            "the pivots of X^T X are others",
            _MINIMUM,
            ("hypotheses", "gram_pivots"),
            ["13/1", "8/1"],
        ),
        ("minimum-as-a-refutation", "the kind of a confirmation", _MINIMUM, ("kind",), "refutation"),
    ):
        yield spoiled(name, says, base, put(*path, value=value))


def _box_exit() -> Iterator[Trap]:
    inputs = valid(_EXIT)["inputs"]
    for name, says, changes in (
        ("still-in-the-box", "one step earlier no entry is negative", {"t": inputs["t"] - 1}),
        ("no-step-at-all", "t is at least 1", {"t": 0}),
        ("steps-two-thousand-and-one", "at most 2,000 steps", {"t": 2001}),
        ("step-of-1-over-K-and-more", "eta is not below 1/K", {"eta": str(2 * Fraction(inputs["eta"]))}),
        ("exit-without-regulariser", "lambda is 0", {"lambda_": "0/1"}),
        ("exit-with-lambda-2", "lambda is 2", {"lambda_": "2/1", "eta": "1/1000"}),
    ):
        yield opened(name, says, _EXIT, **changes)
    yield spoiled("exit-from-zeros", "the algorithm starts at ones", _EXIT, put("reading", "start", value="zeros"))
    yield spoiled("exit-below-rhs", "rhs is 0", _EXIT, put("quantities", "rhs", value=["1/1", "1/1"]))
