"""Traps of remarks, thresholds, repaired bounds, prose and misprints."""

from collections.abc import Iterator
from typing import Any

from proofs_check.corpus.trap import Trap, opened, put, spoiled, valid


def traps() -> Iterator[Trap]:
    yield from _remark()
    yield from _thresholds()
    yield from _repaired()
    yield from _reported()
    yield from _prose()
    yield from _misprints()


def _remark() -> Iterator[Trap]:
    box, beta = "practical-refutation-underflow", "practical-refutation-beta"
    half = [["1/2", "0/1"], ["0/1", "1/2"]]
    yield opened("min-f-above-delta", "min F is not below delta here", box, W=half)
    yield opened("box-left-silently", "M = -1 read as a point of the box", box, M=[["-1/1"] * 2] * 2)
    yield spoiled("remark-rhs-not-delta", "rhs is delta, exactly", box, put("quantities", "rhs", value=["0/1", "1/1"]))
    yield opened("remark-delta-negative", "delta is negative", box, delta="-1/2")
    yield opened("vector-0", "v is 0", beta, v=["0/1", "0/1", "0/1"])
    yield opened("vector-outside-the-kernel", "X^T v is not 0", beta, v=["1/1", "1/1", "-2/1"])
    yield opened("vector-of-two", "v has n entries", beta, v=["1/1", "-1/1"])
    yield opened("enough-features", "n > d is needed", beta, n=2, X=[["1/1", "0/1"], ["1/1", "0/1"]], v=["1/1", "-1/1"])
    yield spoiled("length-of-v-wrong", "rhs is |v|^2", beta, put("quantities", "rhs", value=["1/1", "1/1"]))
    yield spoiled(
        "remark-with-both-readings", "the reading of beta has no mask", beta, put("reading", "mask", value="full")
    )


def _thresholds() -> Iterator[Trap]:
    printed, repaired = "mask_gd-refutation-ascending-0", "mask_gd-confirmation-distinct"
    found = valid(printed)["quantities"]["zeros"]
    for name, says, base, path, value in (
        (
            "zeros-as-strings",
            "counts are JSON integers",
            printed,
            ("quantities", "zeros"),
            [str(zero) for zero in found],
        ),
        (
            "zeros-miscounted",
            "a count that the pseudocode does not give",
            printed,
            ("quantities", "zeros"),
            [9, *found[1:]],
        ),
        ("zeros-too-few", "one count is missing", printed, ("quantities", "zeros"), found[:-1]),
        ("wanted-miscounted", "not floor(rho d^2)", printed, ("quantities", "wanted"), [0, 4, 8, 12, 15]),
        (
            "out-of-bounds",
            "out of range is what it is called",
            printed,
            ("quantities", "zeros"),
            [*found[:-1], "out of bounds"],
        ),
        ("rho-above-1", "a ratio of 3/2", printed, ("inputs", "rho"), ["3/2"]),
        ("rho-none", "no ratio", printed, ("inputs", "rho"), []),
        ("rho-twenty-one", "21 ratios", printed, ("inputs", "rho"), ["1/2"] * 21),
        ("base-of-2", "indices from 2", printed, ("reading", "base"), "2"),
        ("base-as-a-number", "the base is a string", printed, ("reading", "base"), 0),
        ("order-of-nobody", "an order that no reading has", printed, ("reading", "order"), "random"),
        ("repaired-off-by-one", "one zero too many", repaired, ("quantities", "zeros"), [1, 4, 8, 12, 16]),
        ("repaired-by-value", "ties are broken by index", repaired, ("reading", "order"), "ascending"),
    ):
        yield spoiled(name, says, base, put(*path, value=value))
    one = {"d": 2, "M": [["1/2"] * 2] * 2, "rho": ["0/1", "1/4"]}
    for name, says, zeros in (
        ("zeros-as-booleans", "true is not 1", [False, True]),
        ("zeros-as-floats-in-strings", "1.0 is no count", ["0.0", "1.0"]),
    ):
        changed = valid(repaired)
        changed["inputs"], changed["quantities"] = one, {"zeros": zeros, "wanted": zeros}
        yield spoiled(name, says, repaired, lambda target, source=changed: target.update(source))
    prunes = valid("mask_gd-refutation-constant-1")
    prunes["inputs"] |= {"M": valid("mask_gd-refutation-ascending-0")["inputs"]["M"], "rho": ["1/2"]}
    prunes["quantities"] = {"zeros": [8], "wanted": [8]}
    yield spoiled(
        "reading-that-prunes-as-wanted",
        "this reading is right at this ratio",
        "mask_gd-refutation-constant-1",
        lambda target: target.update(prunes),
    )


def _repaired() -> Iterator[Trap]:
    floor, best = "practical-confirmation-causal", "attn_prun-confirmation-best-mask"
    yield opened("mask-beyond-the-ball", "||M||_F exceeds d", floor, M=[["2/1", "2/1"]] * 2)
    yield spoiled("floor-above", "rhs is above the floor", floor, put("quantities", "rhs", value=["49/100", "1/2"]))
    yield opened(
        "floor-needs-a-huge-exponential", "an exponential of more than 20,000", floor, W=[["30000/1", "0/1"]] * 2
    )
    M = valid(best)["inputs"]["M"]
    other = [row[::-1] for row in M[::-1]]
    yield opened("not-the-best-mask", "another mask with as many zeros loses less", best, M=other)
    yield opened(
        "zeros-not-floor",
        "one zero too few",
        best,
        M=[["1/1"] * 3, *M[1:]] if M[0] != ["1/1"] * 3 else [["0/1"] * 3, *M[1:]],
    )
    yield opened("mask-of-halves", "a mask is 0 or 1", best, M=[["1/2"] * 3] * 3)
    yield opened("rho-of-2", "rho is 2", best, rho="2/1")
    yield opened("one-mask-only", "floor(rho d^2) = 0: nothing to compare", best, rho="1/10", M=[["1/1"] * 3] * 3)
    yield spoiled("masks-12870", "at most 300 masks", best, _many_masks)
    for name, says, base, changes in (
        ("direction-0", "V is 0", "lip_f_circ_c-confirmation", {"V": [["0/1", "0/1"]] * 2}),
        ("undecidable-tie", "M = N: 0 <= 0, which no precision decides", "lip_f_circ_c-confirmation", "M=N"),
        ("seven-features", "d is at most 6", "bound_c-confirmation", {"d": 7}),
        (
            "entry-of-21-digits",
            "entries have at most 20 digits here",
            "bound_grad_f-confirmation",
            {"M": [["1/1" + "0" * 21, "0/1"]] * 2},
        ),
    ):
        if changes == "M=N":
            changes = {"N": valid(base)["inputs"]["M"]}
        yield opened(name, says, base, **dict(changes))
    for name, says, base, value in (
        (
            "bound-of-all-rows",
            "2 n in place of 2 n_e: a row without a choice counts",
            "bound_c-confirmation",
            ["6/1", "6/1"],
        ),
        ("bound-halved", "a quarter of the bound", "bound_grad_f-confirmation", ["5/16", "5/16"]),
        ("bound-of-the-whole-map", "K in place of ||Pi A V||/||V||", "lip_f_circ_c-confirmation", ["1/1", "1/1"]),
    ):
        yield spoiled(name, says, base, put("quantities", "rhs", value=value))
    yield spoiled(
        "bound-turned-round",
        "the bound claimed as broken",
        "bound_c-confirmation",
        put("claim", "relation", value="lhs>=rhs"),
    )
    loss = "new_loss-confirmation"
    yield spoiled(
        "regulariser-without-lambda",
        "the printed regulariser's number",
        loss,
        put("quantities", "lhs", value=["193/72", "193/72"]),
    )
    yield spoiled(
        "regulariser-enclosed",
        "the exact value, not an enclosure",
        loss,
        put("quantities", "rhs", value=["0/1", "1/1"]),
    )
    yield opened("regulariser-with-lambda-0", "lambda is positive", loss, lambda_="0/1")


def _many_masks(document: dict[str, Any]) -> None:
    kept = [["1/1" if (4 * a + b) % 2 else "0/1" for b in range(4)] for a in range(4)]
    rows = [[f"{(a + 2 * b) % 5}/4" for b in range(4)] for a in range(4)]
    document["inputs"] |= {"d": 4, "X": rows, "W": rows, "M": kept, "rho": "1/2"}


def _reported() -> Iterator[Trap]:
    """Arithmetic that is true of numbers that the paper does not report."""
    delta, theory = "reported_delta-refutation", "supports_theory-refutation-n-128"
    for name, says, base, changes in (
        ("delta-99-exceeds-one-over-n", "a delta of 99 that nobody reports", delta, {"delta": "99/1"}),
        ("n-10-that-nobody-ran", "an n of 10 that nobody reports", delta, {"n": 10}),
        ("lambda-1e50-that-nobody-used", "a lambda of 10^50 that nobody used", theory, {"lambda_": "1" + "0" * 50}),
        ("bound-at-n-and-d-of-1", "n = d = 1, which nobody ran", theory, {"n": 1, "d": 1}),
        ("delta-in-lowest-terms-of-another", "a delta of 1/401", theory, {"delta": "1/401"}),
        ("model-with-one-key-head", "Llama-3.2-1B has eight key heads", "square_weights-refutation", {"key_heads": 1}),
        (
            "model-with-two-query-heads",
            "Llama-3.2-1B has 32 query heads",
            "square_weights-refutation",
            {"query_heads": 2},
        ),
        (
            "model-of-size-1",
            "Llama-3.2-1B has other sizes",
            "whole_model_ratio-refutation",
            {"d": 1, "key_columns": 1, "inner": 1, "layers": 1, "vocabulary": 1},
        ),
        ("model-with-a-larger-vocabulary", "one word too many", "whole_model_ratio-refutation", {"vocabulary": 128257}),
        ("lambda-that-nobody-used", "a lambda of 1/24", "lam_in_unit_interval-refutation", {"lambda_": "1/24"}),
        ("step-that-nobody-took", "a step of 100", "lam_in_unit_interval-refutation-divergent-step", {"eta": "100/1"}),
        ("sweep-that-nobody-ran", "lambda up to 1", "step_size-refutation", {"lambda_large": "1/1"}),
        (
            "sweep-turned-round",
            "the small lambda as the large one",
            "smaller_lam_takes_longer-refutation",
            {"lambda_small": "1/10", "lambda_large": "1/1000"},
        ),
        ("batch-that-nobody-used", "a lambda of 1/3", "batch_regulariser-refutation", {"lambda_": "1/3"}),
        ("momentum-that-nobody-used", "a momentum of 99/100", "momentum-refutation", {"momentum": "99/100"}),
    ):
        yield opened(name, says, base, **changes)


def _prose() -> Iterator[Trap]:
    for name, says, base, changes in (
        ("R-of-one-half", "R is below 1", "step_size-refutation", {"R": "1/2"}),
        ("R-of-1-exactly", "R > 1 is strict", "smaller_lam_takes_longer-refutation", {"R": "1/1"}),
        ("mu-0", "a mu of 0", "smaller_lam_takes_longer-refutation", {"mu": "0/1"}),
        (
            "gradient-that-is-small",
            "at M = 1 the gradient is below L",
            "gradient_bounded-refutation",
            {"M": [["1/1"] * 2] * 2},
        ),
        ("gradient-with-a-small-R", "R is below ||W||_F", "gradient_bounded-refutation", {"R": "11/10"}),
        ("loss-that-falls", "at t = 0 the loss falls", "momentum-refutation", {"t": 0}),
        ("momentum-with-a-long-step", "eta is not below 1/K", "momentum-refutation", {"eta": "10/1"}),
        ("t-of-51", "at most 50 steps", "momentum-refutation", {"t": 51}),
        (
            "exponential-that-fits",
            "exp(600) is a double",
            "exp_is_computable-refutation",
            {"X": [["10/1", "10/1"], ["0/1", "0/1"]], "W": [["6/1", "0/1"], ["0/1", "0/1"]]},
        ),
        (
            "exponential-beyond-the-limit",
            "an exponential of more than 20,000",
            "exp_is_computable-refutation",
            {"X": [["200/1", "0/1"], ["0/1", "0/1"]], "W": [["1/1", "0/1"], ["0/1", "0/1"]]},
        ),
        (
            "batches-turned-round",
            "the larger batch under k_small",
            "batch_regulariser-refutation",
            {"k_small": 64, "k_large": 16},
        ),
        ("batches-equal", "two batches of the same size", "batch_regulariser-refutation", {"k_large": 16}),
        ("batch-of-0", "a batch of nothing", "batch_regulariser-refutation", {"k_small": 0}),
    ):
        yield opened(name, says, base, **changes)
    yield spoiled(
        "of-another-reading",
        "a reading that the statement has not",
        "step_size-refutation",
        put("reading", "of", value="one M"),
    )
    yield spoiled(
        "prose-with-a-hypothesis", "no hypotheses here", "step_size-refutation", put("hypotheses", value={"R": "1/1"})
    )
    yield spoiled(
        "double-rounded",
        "lhs is 2^1024, not the largest double",
        "exp_is_computable-refutation",
        put("quantities", "lhs", value=[str(2**1024)] * 2),
    )


def _misprints() -> Iterator[Trap]:
    for name, says, base, changes in (
        ("lambda-1-hides-the-misprint", "with lambda = 1 both are equal", "new_loss-refutation", {"lambda_": "1/1"}),
        (
            "lambda-2-turns-the-misprint",
            "with lambda = 2 the printed one is smaller",
            "new_loss-refutation",
            {"lambda_": "2/1"},
        ),
        ("conformable-after-all", "Z X^T is conformable for m = d", "calculus-refutation", {"m": 2}),
        ("more-rows-than-columns", "this reading has d < m", "calculus-refutation", {"d": 4}),
        ("rho-0-prunes-nothing", "rho is positive", "attn_prun-refutation", {"rho": "0/1"}),
        ("rho-too-small-to-prune", "floor(rho d^2) = 0 is what M = 1 has", "attn_prun-refutation", {"rho": "1/5"}),
        ("row-of-F-above-1", "a row of F sums to 3/2", "grad_rec-refutation", {"F": [["1/2", "1/1"], ["1/4", "3/4"]]}),
        ("row-of-f-with-a-0", "a softmax has no 0", "grad_rec-refutation", {"f": [["0/1", "1/1"], ["2/5", "3/5"]]}),
        ("X-singular", "no W has these rows", "grad_rec-refutation", {"X": [["1/1", "2/1"], ["2/1", "4/1"]]}),
        (
            "X-with-a-zero-in-its-solution",
            "X v = 1 has a v with a zero",
            "grad_rec-refutation",
            {"X": [["1/1", "2/1"], ["1/1", "3/1"]]},
        ),
        (
            "sum-between-its-terms",
            "the sum lies between the single terms",
            "grad_rec-refutation",
            {"F": [["1/3", "2/3"], ["2/5", "3/5"]]},
        ),
        ("index-beyond-d", "there is no feature 2", "grad_rec-refutation", {"j_1": 2}),
        ("weight-0", "W_entry is positive", "grad_rec-refutation", {"W_entry": "0/1"}),
    ):
        yield opened(name, says, base, **changes)
