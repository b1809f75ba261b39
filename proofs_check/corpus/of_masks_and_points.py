"""Traps of the best mask (leaves that miss, repeat or prove nothing), certified points, and the mask of descent."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations

from proofs_check.corpus.trap import OPEN, Document, Trap, opened, put, spoiled, valid

BEST, POINT, RANGE = "best_mask-four-features", "stationary_point-four-tokens", "stationary_point-two-tokens-range"
RETURNED = "returned_mask-lambda-1e-0"
ONE = {"n": 2, "d": 1, "X": [["1/1"], ["0/1"]], "W": [["1/1"]]}
"""One feature: L_attn depends on one logit."""


def traps() -> Iterator[Trap]:
    yield from _leaves()
    yield from _masks()
    yield from _points()
    yield from _balls()
    yield from _returned()


def _leaves() -> Iterator[Trap]:
    document = valid(BEST)
    leaves: list[str] = document["inputs"]["leaves"]
    own = "".join(entry[0] for row in document["inputs"]["M"] for entry in row)
    short = next(leaf for leaf in leaves if leaf.count("*") > 3)
    star = short.index("*")
    halves = [short[:star] + bit + short[star + 1 :] for bit in "01"]
    root = next(k for k in range(16) if all(leaf[k] != "*" for leaf in leaves))
    early = [leaf for leaf in leaves if leaf[root] != own[root]] + ["*" * root + own[root] + "*" * (15 - root)]
    changed = {
        "leaves-none": ("no leaf: nothing is covered", []),
        "leaves-in-one": ("one leaf for all masks, whose bound is 0", ["*" * 16]),
        "leaf-missing": ("the masks of one leaf are not covered", leaves[:3] + leaves[4:]),
        "leaf-of-the-best-mask-missing": ("M's own leaf is missing", [leaf for leaf in leaves if leaf != own]),
        "leaf-twice": ("a leaf is listed twice", [*leaves, leaves[5]]),
        "leaf-twice-for-one-missing": ("as many masks as there are, some twice", [*leaves[:3], leaves[5], *leaves[4:]]),
        "leaf-beside-its-half": ("a leaf and one half of it", [*leaves, halves[0]]),
        "leaf-for-one-half-of-it": ("half of a leaf is not covered", [halves[1] if x == short else x for x in leaves]),
        "leaf-without-a-mask": ("no mask with eight zeros has nine", [*leaves, "0" * 9 + "1" * 7]),
        "leaf-of-15-characters": ("a leaf has d^2 characters", [leaves[0][:-1], *leaves[1:]]),
        "leaf-with-a-question-mark": ("a leaf is written in 0, 1 and *", [leaves[0].replace("*", "?"), *leaves[1:]]),
        "leaf-in-other-digits": ("ASCII digits", [leaves[0].replace("0", "\u0660"), *leaves[1:]]),
        "leaf-as-a-list": ("a leaf is a string", [list(leaves[0]), *leaves[1:]]),
        "leaf-closed-too-early": ("one half of all masks in one leaf, whose bound is below the loss of M", early),
        "leaves-read-by-columns": (
            "the patterns are read row by row",
            ["".join(leaf[4 * a + b] for b in range(4) for a in range(4)) for leaf in leaves],
        ),
        "leaves-2001": ("at most 2000 leaves", ["0"] * 2001),
    }
    for name, (says, value) in changed.items():
        yield opened(name, says, BEST, leaves=value)
    pairs = ["".join("01"[k in pair] for k in range(25)) for pair in combinations(range(25), 2)]
    wide = {"n": 6, "d": 5, "X": [["1/1"] * 5] * 6, "W": [["1/1"] * 5] * 5, "zeros": 23, "leaves": pairs}
    kept = [["1/1", "1/1", "0/1", "0/1", "0/1"]] + [["0/1"] * 5] * 4
    yield opened("leaves-beyond-the-work", "300 leaves, each with 360 exponentials", BEST, M=kept, **wide)


def _masks() -> Iterator[Trap]:
    inputs = valid(BEST)["inputs"]
    complete = [leaf for leaf in inputs["leaves"] if "*" not in leaf]
    own = "".join(entry[0] for row in inputs["M"] for entry in row)
    second = next(leaf for leaf in complete if leaf != own)
    rows = [[f"{second[4 * a + b]}/1" for b in range(4)] for a in range(4)]
    yield opened("mask-that-another-beats", "another mask loses less than M", BEST, M=rows)
    yield opened("mask-with-a-half", "a mask is 0 or 1", BEST, M=[["1/2", *inputs["M"][0][1:]], *inputs["M"][1:]])
    yield opened("zeros-one-fewer-than-M", "M has eight zeros", BEST, zeros=7)
    yield opened("zeros-0", "nothing is pruned", BEST, zeros=0, M=[["1/1"] * 4] * 4, leaves=["1" * 16, "1" * 15 + "*"])
    yield opened("zeros-all", "everything is pruned", BEST, zeros=16, M=[["0/1"] * 4] * 4, leaves=["0" * 16, "0*" * 8])
    yield opened("zeros-true", "true is no count", BEST, zeros=True)
    yield opened("share-0", "no loss is below 0", BEST, share="0/1")
    yield opened("share-below-a-tenth", "a bound of a hundredth of the loss says little", BEST, share="1/100")
    yield opened("share-above-1", "M itself has less than twice its loss", BEST, share="2/1")
    yield opened("weights-0", "without weights all masks lose nothing", BEST, W=[["0/1"] * 4] * 4)
    yield opened("tokens-equal", "equal tokens: no mask moves attention", BEST, X=[["1/1"] * 4] * 4)
    unit = [[str(int(i == j)) for j in range(4)] for i in range(4)]
    yield opened_mask("no-row-with-a-choice", "each token sees itself alone", BEST, unit)
    free = [[entry if keep == "1/1" else "0/1" for entry, keep in zip(ws, ms, strict=True)]
            for ws, ms in zip(inputs["W"], inputs["M"], strict=True)]  # fmt: skip
    yield opened("prunes-zeros-of-W", "M prunes weights that are 0 already: its loss is 0", BEST, W=free)
    tie = {
        "n": 2, "d": 2, "X": [["1/1", "1/1"], ["0/1", "0/1"]], "W": [["1/1", "1/1"], ["1/1", "1/1"]], "zeros": 1,
        "M": [["0/1", "1/1"], ["1/1", "1/1"]], "leaves": ["0111", "1011", "1101", "1110"],
    }  # fmt: skip
    yield opened("best-masks-four", "four masks are equally good: a tie is not strict", BEST, **tie)
    yield spoiled("best-mask-causal-called-full", "the causal instance under the full mask",
                  "best_mask-four-features-causal", _full)  # fmt: skip
    for name, says, quantity, value in (
        ("bound-of-leaves-above-the-true", "rhs is above the least bound", "rhs", ["1/50", "1/10"]),
        ("bound-of-leaves-negative", "rhs is below the least bound", "rhs", ["-1/1", "0/1"]),
        ("best-loss-0", "lhs is not the loss of M", "lhs", ["0/1", "1/1000"]),
    ):
        yield spoiled(name, says, BEST, put("quantities", quantity, value=value))
    yield spoiled("best-mask-not-strict", "the relation is strict", BEST, put("claim", "relation", value="lhs<=rhs"))
    yield opened("mask-of-seven-features", "d is at most 6", BEST, d=7)
    yield opened("weight-of-21-digits", "entries have at most 20 digits here", BEST, W=[["1" * 22] * 4] * 4)
    yield opened(
        "logits-beyond-exp", "an exponential of more than 20,000", BEST, X=[["3000/1", "0", "0", "0"]] * 3 + [["0"] * 4]
    )


def opened_mask(name: str, says: str, base: str, mask: list[list[str]]) -> Trap:
    """The certificate with another attention mask, listed."""
    trap = opened(name, says, base, mask=mask)
    return Trap(name, says, trap.content.replace(b'"reading":{"mask":"full"', b'"reading":{"mask":"given"'))


def _full(document: Document) -> None:
    document["reading"]["mask"], document["inputs"]["mask"] = "full", None
    for name in ("lhs", "rhs"):
        document["quantities"][name] = OPEN


def _points() -> Iterator[Trap]:
    point = valid(POINT)["inputs"]
    moved = [str(Fraction(entry) + Fraction(1, 2000)) for entry in point["centre"]]
    for name, says, centre in (
        ("centre-too-far", "the centre is too far from any point that this proves", moved),
        ("centre-of-ones", "at M = 1 the gradient is lambda", ["1/1"] * 4),
    ):
        elsewhere = valid(POINT)
        elsewhere["inputs"]["centre"] = centre
        elsewhere["quantities"] |= {name: OPEN for name in elsewhere["quantities"] if not name.endswith("_sq")}
        elsewhere["quantities"]["modulus"] = ["1/80", "1/1"]
        yield spoiled(name, says, POINT, lambda target, source=elsewhere: target.update(source))
    yield opened("centre-of-zeros", "M = 0 is not stationary", POINT, centre=["0/1"] * 4)
    yield opened("centre-of-three", "the space has four coordinates", POINT, centre=point["centre"][:3])
    yield opened("centre-of-61-digits", "a coordinate of 61 digits", POINT, centre=["1/1" + "0" * 60] * 4)
    yield opened("lambda-0-at-ones", "at lambda = 0 M = 1 is stationary: nothing to prove", POINT, lambda_="0/1",
                 centre=["1/1"] * 4)  # fmt: skip
    yield opened("lambda-below-0", "lambda is negative", POINT, lambda_="-1/100")
    yield opened("lambda-that-is-everything", "lambda alone makes the modulus", POINT, lambda_="1000000/1",
                 centre=["0/1"] * 4)  # fmt: skip
    heavy = valid(POINT)
    heavy["inputs"] |= {"lambda": "1000000/1", "centre": ["1/100000000"] * 4}
    heavy["quantities"] |= {"modulus": ["999999/1", "1000009/1"]}
    yield spoiled("attention-below-a-tenth", "lambda is a million times attention's curvature", POINT,
                  lambda target: target.update(heavy))  # fmt: skip
    one = valid(POINT)
    one["inputs"] |= ONE | {"lambda": "1/8", "centre": ["454036107675/1000000000000"]}
    ends = {name: OPEN for name in one["quantities"]}
    ends |= {"modulus": ["25/100", "251/1000"], "map_sq": ["499/1000", "501/1000"], "row_sq": ["499/1000", "501/1000"]}
    one["quantities"] = ends
    yield spoiled("convex-everywhere", "lambda > C_- K^2: strong convexity says all of it", POINT,
                  lambda target: target.update(one))  # fmt: skip
    yield opened("point-without-weights", "W = 0: attention does not move", POINT, W=[["0/1"] * 2] * 2)
    yield opened("point-of-equal-tokens", "equal tokens: no logit difference moves", POINT, X=[["1/1"] * 2] * 4)
    yield spoiled("point-causal-called-full", "the causal instance under the full mask",
                  "stationary_point-six-tokens-causal", _full)  # fmt: skip
    yield spoiled("range-called-whole", "off the range the modulus is lambda", RANGE,
                  put("reading", "space", value="whole"))  # fmt: skip
    yield spoiled("whole-called-range", "twelve differences are not independent coordinates", POINT,
                  put("reading", "space", value="range"))  # fmt: skip
    three = {"n": 3, "X": [["1/1", "0/1"], ["0/1", "1/1"], ["1/1", "1/1"]], "centre": ["1/2"] * 6}
    yield opened(
        "range-of-dependent-differences", "six differences in four entries depend on each other", RANGE, **three
    )
    yield spoiled("space-of-nobody", "a space that no reading has", POINT, put("reading", "space", value="kernel"))
    yield opened("point-of-thirteen-tokens", "n is at most 12", POINT, n=13)
    yield opened("point-of-eleven-coordinates", "d = 4 has 16 coordinates", POINT, d=4, W=[["1/1"] * 4] * 4,
                 X=[["1/1", "0/1", "0/1", "1/2"]] * 4, centre=["1/2"] * 16)  # fmt: skip


def _balls() -> Iterator[Trap]:
    for name, says, quantity, value in (
        ("modulus-above-the-least-eigenvalue", "the modulus is too large", "modulus", ["1/50", "1/10"]),
        ("modulus-0", "a modulus of 0", "modulus", ["0/1", "1/10"]),
        ("modulus-below-0", "a modulus below 0", "modulus", ["-1/1", "1/10"]),
        ("modulus-of-lambda", "lambda alone as the modulus", "modulus", ["1/100", "1/10"]),
        ("modulus-far-below", "its upper end is below the least eigenvalue", "modulus", ["14/1000", "145/10000"]),
        ("map-norm-too-small", "K^2 is larger", "map_sq", ["1/1", "40/1"]),
        ("map-norm-far-above", "K^2 is below the lower end", "map_sq", ["50/1", "60/1"]),
        ("map-norm-0", "a lower end of 0", "map_sq", ["0/1", "47/1"]),
        ("row-norm-too-small", "a row is longer", "row_sq", ["1/1", "20/1"]),
        ("row-norm-of-the-map", "K in place of k", "row_sq", valid(POINT)["quantities"]["map_sq"]),
        ("radius-0", "a radius of 0", "radius", ["0/1", "0/1"]),
        ("radius-doubled", "twice the radius", "radius", ["103/1000000", "106/1000000"]),
        ("distance-0", "the centre is not the point", "distance", ["0/1", "0/1"]),
        ("distance-as-large-as-R", "not the distance of the formula", "distance", ["1/100000", "1/10000"]),
        ("eta-doubled", "twice the step", "eta", ["27/100", "29/100"]),
        ("factor-of-the-square", "the square of the factor", "factor", ["99/100", "9980/10000"]),
        ("factor-1", "a factor of 1 contracts nothing", "factor", ["1/1", "1/1"]),
        ("step-of-N", "N in place of 4 N", "lhs", ["0/1", "0/1"]),
        ("ball-of-m-R", "m R in place of m R^2", "rhs", ["1/10000000", "1/1000000"]),
    ):
        yield spoiled(f"point-{name}", says, POINT, put("quantities", quantity, value=value))
    for quantity in ("modulus", "map_sq", "row_sq"):
        low, high = valid(POINT)["quantities"][quantity]
        value = [low + "0" * 60, high + "0" * 60]
        yield spoiled(f"point-{quantity}-of-61-digits", "at most 60 digits where an end is an input", POINT,
                      put("quantities", quantity, value=value))  # fmt: skip
    yield spoiled("point-without-a-relation", "4 N < m R^2", POINT, put("claim", "relation", value="lhs>rhs"))
    yield spoiled("point-with-a-hypothesis", "no hypotheses here", POINT, put("hypotheses", value={"near": "1/1"}))
    yield spoiled("point-as-a-refutation", "one instance refutes nothing here", POINT,
                  put("kind", value="refutation"))  # fmt: skip


def _returned() -> Iterator[Trap]:
    inputs = valid(RETURNED)["inputs"]
    own, best = inputs["M"], inputs["N"]
    ones = [["1/1"] * 4] * 4
    for name, says, changes in (
        ("returned-mask-of-another-descent", "descent keeps other entries", {"M": best, "N": own}),
        ("returned-mask-itself", "seven times its own loss is not below it", {"N": own}),
        ("returned-mask-of-halves", "a mask is 0 or 1", {"N": [["1/2"] * 4] * 4}),
        ("returned-mask-of-ones", "rho d^2 < 1: nothing is pruned", {"rho": "1/32", "M": ones, "N": ones}),
        (
            "returned-mask-with-more-zeros",
            "eight against ten",
            {"N": [["0/1"] * 4, ["0/1"] * 2 + ["1/1"] * 2, *best[2:]]},
        ),
        ("returned-with-a-long-step", "eta (lambda + C_+ K^2) is above 1", {"eta": "1/22"}),
        ("returned-with-an-idle-step", "descent hardly moves", {"eta": "1/1000"}),
        ("returned-map-norm-too-small", "K^2 is above map_sq", {"map_sq": "70/1"}),
        ("returned-map-norm-0", "map_sq is positive", {"map_sq": "0/1"}),
        ("returned-after-99-steps", "at least 100 steps", {"t": 99}),
        ("returned-after-a-thousand-steps", "more steps than are affordable", {"t": 1000}),
        ("returned-with-lambda-0", "lambda is positive", {"lambda_": "0/1"}),
        ("returned-with-lambda-2", "lambda is at most 1", {"lambda_": "2/1"}),
        ("returned-with-rho-1", "rho is below 1", {"rho": "1/1", "M": [["0/1"] * 4] * 4, "N": [["0/1"] * 4] * 4}),
        ("returned-from-equal-tokens", "all entries stay equal: a tie", {"X": [["1/1"] * 4] * 6}),
        ("returned-without-weights", "W = 0: all entries stay equal", {"W": [["0/1"] * 4] * 4}),
        ("returned-of-five-features", "d is at most 4", {"d": 5}),
    ):
        yield opened(name, says, RETURNED, **dict(changes))
    high = valid(RETURNED)["quantities"]["lhs"]
    six = [str(Fraction(end) * 6 / 7) for end in high]
    for name, says, place, value in (
        ("returned-six-times", "six times the best loss", ("quantities", "lhs"), six),
        ("returned-gap-0", "a tie that is none", ("quantities", "gap"), ["0/1", "0/1"]),
        ("returned-gap-turned-round", "what is pruned above what is kept", ("quantities", "gap"), ["-1/1", "0/1"]),
        ("returned-from-zeros", "descent begins at M = 1", ("reading", "start"), "zeros"),
        ("returned-not-above", "the relation is strict", ("claim", "relation"), "lhs<=rhs"),
    ):
        yield spoiled(name, says, RETURNED, put(*place, value=value))
    yield spoiled("returned-causal-called-full", "the causal instance under the full mask", RETURNED, _unmasked)


def _unmasked(document: Document) -> None:
    document["reading"]["mask"] = "full"
    for name in ("gap", "lhs", "rhs"):
        document["quantities"][name] = OPEN
