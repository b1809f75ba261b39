"""Traps of questions that no other trap needs: an enclosure off its number, an entry too long, a wrong row."""

from collections.abc import Callable, Iterator
from fractions import Fraction

from proofs_check.corpus.trap import Document, Trap, opened, put, spoiled, valid

ZEROS, ONES = "our_convergence-refutation-from-zeros", "our_convergence-refutation-from-ones"
REPAIRED, BOX, RETURNED = (
    "our_convergence-confirmation-from-ones", "mask_stays_in_box-refutation", "returned_mask-lambda-1e-0",
)  # fmt: skip
_MOVED = (
    ("from-zeros-eta_T-moved", ZEROS, "eta_T"),
    ("from-zeros-G-moved", ZEROS, "G"),
    ("from-zeros-lhs-moved", ZEROS, "lhs"),
    ("from-zeros-rhs-moved", ZEROS, "rhs"),
    ("from-zeros-min-f-moved", ZEROS, "delta_le_min_f"),
    ("from-ones-rhs-moved", ONES, "rhs"),
    ("from-ones-min-f-moved", ONES, "delta_le_min_f"),
    ("guarantee-lhs-moved", REPAIRED, "lhs"),
    ("guarantee-rhs-moved", REPAIRED, "rhs"),
    ("guarantee-min-f-moved", REPAIRED, "delta_le_min_f"),
    ("box-left-norm-moved", BOX, "norm_sq"),
    ("box-left-lhs-moved", BOX, "lhs"),
    ("step-size-rhs-moved", "step_size-refutation", "rhs"),
    ("remark-lhs-moved", "practical-refutation-underflow", "lhs"),
    ("growth-lhs-moved", "our_convergence_informal-refutation", "lhs"),
    ("floor-lhs-moved", "practical-confirmation-causal", "lhs"),
    ("best-of-all-lhs-moved", "attn_prun-confirmation-best-mask", "lhs"),
    ("best-of-all-rhs-moved", "attn_prun-confirmation-best-mask", "rhs"),
    ("returned-rhs-moved", RETURNED, "rhs"),
    ("bound-of-c-lhs-moved", "bound_c-confirmation", "lhs"),
)
"""Trap, certificate, and the enclosure that is moved."""


def traps() -> Iterator[Trap]:
    for name, base, quantity in _MOVED:
        yield spoiled(name, f"the enclosure of {quantity} lies beside its number", base, _beside(quantity))
    yield from _long()
    eye = [[f"{int(i == j)}/1" for j in range(4)] for i in range(4)]
    yield opened("box-left-after-too-much-work", "t n^2 d is above the limit", BOX, n=4, d=4, X=eye, W=eye, t=2000)
    accented = put("producer", "tool", value="\N{LATIN SMALL LETTER E WITH ACUTE}" * 201)
    yield spoiled("tool-of-201-accented-letters", "at most 200 characters, whatever their bytes", ZEROS, accented)
    yield opened(
        "best-of-all-with-rho-rounded-up", "rho d^2 = 4.6 is 4 zeros; the best mask with 5 is given",
        "attn_prun-confirmation-best-mask", rho="23/45",
        M=[["0/1", "1/1", "0/1"], ["0/1", "0/1", "1/1"], ["1/1", "1/1", "0/1"]],
    )  # fmt: skip
    yield opened(
        "gradient-with-R-1", "R is above 1", "gradient_bounded-refutation", R="1/1", X=[["1/2", "0/1"], ["0/1", "1/2"]],
        W=[["1/2", "-1/2"], ["1/4", "1/2"]],
    )  # fmt: skip
    yield opened("delta-above-every-entry-in-the-ball", "F is below delta for some M in the ball", ONES, delta="49/100")
    yield opened("guarantee-not-reached-yet", "M_0 is not good enough, M_1 is", REPAIRED, t=0)
    yield opened("row-without-a-choice", "a causal first row does not depend on M", f"{ONES}-causal", row=0)
    yield spoiled(
        "zeros-as-one-count", "zeros is a list", "mask_gd-refutation-ascending-0", put("quantities", "zeros", value=4)
    )
    yield _prunes_what_does_not_matter()


def _beside(quantity: str) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        place = document["quantities" if quantity in document["quantities"] else "hypotheses"]
        low, high = (Fraction(end) for end in place[quantity])
        width = (high - low) or abs(high) / 10**9 or Fraction(1, 10**9)
        place[quantity] = [str(high + width), str(high + 2 * width)]

    return change


def _long() -> Iterator[Trap]:
    """An entry of one digit more than the statement allows."""
    for name, base, matrix, digits in (
        ("classes-31-digits", REPAIRED, "X", 31),
        ("box-left-31-digits", BOX, "X", 31),
        ("remark-21-digits", "practical-refutation-underflow", "M", 21),
        ("remark-beta-31-digits", "practical-refutation-beta", "X", 31),
        ("valley-61-digits", "spurious_minimum-four-tokens", "X", 61),
    ):
        table = [list(row) for row in valid(base)["inputs"][matrix]]
        table[0][0] = f"1/{10**digits + 1}"
        yield spoiled(name, f"an entry of {digits + 1} digits", base, put("inputs", matrix, value=table))


def _prunes_what_does_not_matter() -> Trap:
    """The second feature of both tokens is equal: no row of logits depends on the second column of M."""
    mask = [["1/1", "0/1"]] * 2
    return opened(
        "returned-prunes-what-does-not-matter", "both masks have loss 0", RETURNED, n=2, d=2,
        X=[["-1/1", "1/1"], ["1/1", "1/1"]], W=[["1/1"] * 2] * 2, M=mask, N=mask, rho="1/2", map_sq="21/5",
        eta="2/5", t=100, lambda_="1/1",
    )  # fmt: skip
