"""Traps that are true and prove nothing: no attention, nothing pruned, both sides 0, unrelated numbers."""

import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from proofs_check.corpus.trap import OPEN, Trap, opened, put, spoiled, valid, written

ZERO, ONES = [["0/1", "0/1"]] * 2, [["1/1", "1/1"]] * 2
ONE_TOKEN = {"n": 1, "d": 1, "X": [["1/1"]], "W": [["1/1"]]}


def traps() -> Iterator[Trap]:
    yield from _bounds()
    yield from _floors()
    yield from _regulariser()
    yield from _thresholds()
    yield from _remark()
    yield from _without_attention()
    yield from _theorem()
    yield from _returned()


def _bounds() -> Iterator[Trap]:
    rows, grad, change = "bound_c-confirmation", "bound_grad_f-confirmation", "lip_f_circ_c-confirmation"
    basic = "bound_basic_func-confirmation"
    three = [["1/1"] * 3] * 3
    yield opened("bound-without-weights", "W = 0: c = 0", rows, W=[["0/1"] * 3] * 3)
    yield opened("bound-where-nothing-is-pruned", "M = 1: c = 0, far below the bound", basic, M=three)
    yield opened("bound-of-equal-tokens", "equal tokens: 0 <= 0", grad, X=ONES)
    yield opened("bound-far-away", "a row that is one-hot to 20 digits: far below the bound", grad,
                 W=[["50/1", "-50/1"], ["-50/1", "50/1"]], M=ONES)  # fmt: skip
    yield opened("bound-of-a-change-without-tokens", "X = 0: 0 <= 0", change, X=[["0/1"] * 2] * 3)
    yield _under("bound-of-one-token", "one token has no choice: 0 <= 0", rows, "full",
                 **ONE_TOKEN, M=[["1/2"]], mask=None)  # fmt: skip
    alone = [[str(int(i == j)) for j in range(3)] for i in range(3)]
    yield _under("bound-of-rows-without-a-choice", "each token sees itself alone: 0 <= 0", rows, "given", mask=alone)


def _under(name: str, says: str, base: str, named: str, **inputs: Any) -> Trap:
    """The certificate under another mask than that of the base."""
    document = json.loads(opened(name, says, base, **inputs).content)
    document["reading"]["mask"] = named
    return Trap(name, says, written(document))


def _floors() -> Iterator[Trap]:
    floor, best = "practical-confirmation-causal", "attn_prun-confirmation-best-mask"
    yield opened("floor-without-weights", "W = 0: the floor is 1/2, and so is F", floor, W=ZERO)
    yield opened("floor-of-one-token", "one token: the floor is 1, and so is F", floor, **ONE_TOKEN, M=[["1/2"]])
    inputs = valid(best)["inputs"]
    rows = zip(inputs["W"], inputs["M"], strict=True)
    free = [[w if keep == "1/1" else "0/1" for w, keep in zip(ws, ms, strict=True)] for ws, ms in rows]
    yield opened("best-mask-of-zeros-of-W", "M prunes weights that are 0 already: its loss is 0", best, W=free)


def _regulariser() -> Iterator[Trap]:
    base = "new_loss-confirmation"
    inputs = valid(base)["inputs"]
    for name, says, changes in (
        ("regulariser-of-masks-0", "both masks are 0: 0 = 0", {"M_Q": ZERO, "M_K": ZERO}),
        ("regulariser-of-one-mask", "one mask is 0: once for each is not seen", {"M_K": ZERO}),
        ("regulariser-with-lambda-1", "with lambda = 1 the misprint is not seen", {"lambda": "1/1"}),
        ("regulariser-with-lambda-1e50", "a lambda of 10^50", {"lambda": "1" + "0" * 50}),
    ):
        changed = inputs | changes
        entries = [Fraction(entry) for key in ("M_Q", "M_K") for row in changed[key] for entry in row]
        exact = str(Fraction(changed["lambda"]) / 2 * sum(entry * entry for entry in entries))
        document = valid(base) | {"inputs": changed, "quantities": {"lhs": [exact] * 2, "rhs": [exact] * 2}}
        yield Trap(name, says, written(document))


def _thresholds() -> Iterator[Trap]:
    document = valid("mask_gd-confirmation-distinct")
    size = len(document["inputs"]["M"]) ** 2
    for name, says, ratios, counts in (
        ("pruned-nothing", "rho = 0 prunes nothing", ["0/1"], [0]),
        ("pruned-everything", "rho = 1 prunes everything", ["1/1"], [size]),
        ("pruned-nothing-and-everything", "no ratio between nothing and everything", ["0/1", "1/100", "1/1"],
         [0, 0, size]),
    ):  # fmt: skip
        inputs = document["inputs"] | {"rho": ratios}
        yield Trap(
            name, says, written(document | {"inputs": inputs, "quantities": {"zeros": counts, "wanted": counts}})
        )

    for name, says, base, inputs, zeros, wanted in (
        ("threshold-at-rho-0", "rho = 0: nothing is to be pruned", "ascending-0", {"rho": ["0/1"]}, [1], [0]),
        ("threshold-at-rho-1", "rho = 1: everything is to be pruned", "ascending-0", {"rho": ["1/1"]},
         ["out of range"], [16]),
        ("threshold-at-rho-0-and-1", "no ratio between nothing and everything", "descending-0",
         {"rho": ["0/1", "1/20", "1/1"]}, [16, 16, "out of range"], [0, 0, 16]),
        ("threshold-of-one-entry", "d = 1: one entry is pruned or kept", "ascending-0",
         {"d": 1, "M": [["1/2"]], "rho": ["1/2", "1/1"]}, [1, "out of range"], [0, 1]),
        ("threshold-wrong-at-the-ends-alone", "from 1, without ties, the reading is right but for rho = 0",
         "constant-1", {"M": valid("mask_gd-refutation-ascending-0")["inputs"]["M"], "rho": ["0/1", "1/2", "1/1"]},
         ["out of range", 8, 16], [0, 8, 16]),
    ):  # fmt: skip
        document = valid(f"mask_gd-refutation-{base}")
        document["inputs"] |= inputs
        yield Trap(name, says, written(document | {"quantities": {"zeros": zeros, "wanted": wanted}}))


def _remark() -> Iterator[Trap]:
    box, causal = "practical-refutation-underflow", "practical-refutation-causal"
    beta = "practical-refutation-beta"
    for name, says, tokens in (
        ("remark-beta-of-tokens-0", "X = 0: X X^T is 0 whatever n and d are", [["0/1"] * 2] * 3),
        ("remark-beta-of-equal-tokens", "two tokens are equal: X X^T is singular for n <= d too",
         [["1/1", "0/1"], ["1/1", "0/1"], ["0/1", "1/1"]]),
        ("remark-beta-of-parallel-tokens", "X has rank 1: X X^T is singular for n <= d too",
         [["1/1", "2/1"], ["2/1", "4/1"], ["3/1", "6/1"]]),
    ):  # fmt: skip
        document = valid(beta)
        null = {"remark-beta-of-equal-tokens": ["1/1", "-1/1", "0/1"]}.get(name, ["1/1", "1/1", "-1/1"])
        document["inputs"] |= {"X": tokens, "v": null}
        norm = str(sum(Fraction(entry) ** 2 for entry in null))
        yield Trap(name, says, written(document | {"quantities": {"lhs": ["0", "0"], "rhs": [norm, norm]}}))
    for name, says, inputs in (
        ("remark-delta-of-tokens-0", "X = 0: a causal row is uniform over fewer positions, whatever M is", {"X": ZERO}),
        ("remark-delta-of-equal-tokens", "equal tokens: no M changes the attention", {"X": ONES}),
        ("remark-delta-without-weights", "W = 0: no M changes the attention", {"W": ZERO}),
    ):
        yield _exactly_delta(opened(name, says, causal, **inputs), valid(causal)["inputs"]["delta"])
    for name, says, base, delta in (
        ("remark-delta-99", "no row of a softmax has a least entry of 99", box, "99/1"),
        ("remark-delta-above-one-over-n", "a row of two has a least entry of at most 1/2", box, "3/5"),
        ("remark-delta-of-two-doubles", "twice the smallest positive double", box, str(Fraction(2, 2**1074))),
        ("remark-delta-1-where-forbidden", "delta = 1 under a causal mask", causal, "1/1"),
    ):
        document = valid(base)
        document["inputs"]["delta"] = delta
        document["quantities"] |= {"lhs": OPEN, "rhs": [delta, delta]}
        yield Trap(name, says, written(document))


def _exactly_delta(trap: Trap, delta: str) -> Trap:
    """The trap with rhs = delta, which has to be one number."""
    document = json.loads(trap.content)
    document["quantities"] |= {"lhs": OPEN, "rhs": [delta, delta]}
    return Trap(trap.name, trap.says, written(document))


def _without_attention() -> Iterator[Trap]:
    gradient, momentum, problem = "gradient_bounded-refutation", "momentum-refutation", "attn_prun-refutation"
    alone = ONE_TOKEN | {"M": [["1" + "0" * 19]]}
    yield opened("gradient-of-one-token", "one token: the gradient is lambda M", gradient, **alone)
    yield opened("gradient-without-weights", "W = 0: the gradient is lambda M", gradient, W=ZERO)
    yield opened(
        "gradient-with-lambda-1e15", "lambda is at most 1", gradient, lambda_="1" + "0" * 15, M=[["2/1"] * 2] * 2
    )
    yield opened("momentum-without-weights", "W = 0: the regulariser alone swings", momentum, W=ZERO, lambda_="1/1",
                 eta="9/10")  # fmt: skip
    yield opened("momentum-of-tokens-0", "X = 0: the regulariser alone swings", momentum, X=ZERO, lambda_="1/1",
                 eta="9/10")  # fmt: skip
    yield opened("problem-of-equal-tokens", "equal tokens: every M has the same loss", problem, X=ONES)
    yield opened("problem-that-prunes-everything", "rho = 1: M = 0 alone has so many zeros", problem, rho="1/1")
    yield opened("problem-of-one-feature", "d = 1: the one entry is pruned or kept", problem, n=2, d=1,
                 X=[["1/1"], ["2/1"]], W=[["1/1"]], rho="1/1")  # fmt: skip
    overflow = "exp_is_computable-refutation"
    yield opened("overflow-of-one-token", "one token: its softmax is 1 without an exponential", overflow, n=1, d=1,
                 X=[["100/1"]], W=[["1/1"]])  # fmt: skip
    yield opened("overflow-of-equal-tokens", "equal tokens: every row is uniform", overflow,
                 X=[["20/1", "20/1"]] * 2)  # fmt: skip
    yield opened("problem-of-one-token", "one token: every M has the same loss", problem, **ONE_TOKEN, rho="1/1")


def _theorem() -> Iterator[Trap]:
    zeros, ones = "our_convergence-confirmation-from-zeros", "our_convergence-confirmation-from-ones"
    yield opened("guarantee-met-at-the-start", "epsilon = 10^6: M_0 satisfies it, no step is taken", zeros,
                 epsilon="1000000/1", t=0)  # fmt: skip
    yield opened("guarantee-of-one-token", "one token: the attention part is 0", ones, **ONE_TOKEN, sizes=[1],
                 delta="1/1", t=0, eta="1/100", lambda_="1/2")  # fmt: skip
    huge = ["1" + "0" * 2000, "1" + "0" * 2001]
    yield spoiled("least-value-above-a-quarter", "h(0) is at most 1/4: no need to surround 10^2000",
                  "our_convergence-refutation-from-ones", put("quantities", "lhs", value=huge))  # fmt: skip


def _returned() -> Iterator[Trap]:
    for name, says, base, changes in (
        ("returned-map-norm-three-times", "with a map_sq three times too large a long step is an idle one",
         "returned_mask-lambda-1e-0", {"map_sq": "200/1", "eta": "1/70"}),
        ("returned-map-norm-1e18", "a map_sq of 10^18: descent stands still", "returned_mask-lambda-1e-0",
         {"map_sq": "1" + "0" * 18, "eta": "9/4" + "0" * 18}),
        ("returned-by-rounding", "lambda = 10^-19: what is kept is 10^-19 above what is pruned",
         "returned_mask-lambda-1e-3", {"lambda_": "1/1" + "0" * 19}),
    ):  # fmt: skip
        yield opened(name, says, base, **changes)
