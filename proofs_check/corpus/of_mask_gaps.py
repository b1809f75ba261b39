"""Traps of new:certified_mask_gap: weaker bounds, invalid masks, instances that prove nothing."""

from collections.abc import Iterator
from fractions import Fraction

from proofs_check.corpus.of_masks_and_points import opened_mask
from proofs_check.corpus.trap import OPEN, Document, Trap, opened, put, spoiled, valid

GAP = "mask_gap-four-features"


def traps() -> Iterator[Trap]:
    inputs = valid(GAP)["inputs"]
    yield from _tangents(inputs["Y"], Fraction(inputs["share"]))
    yield from _masks(inputs["M"], inputs["W"])
    unit = [[str(int(i == j)) for j in range(6)] for i in range(6)]
    yield opened_mask("gap-no-row-with-a-choice", "each token sees itself alone", GAP, unit)
    yield opened("gap-weights-0", "without weights all masks lose nothing", GAP, W=[["0/1"] * 4] * 4)
    yield opened("gap-tokens-equal", "equal tokens: no mask moves attention", GAP, X=[["1/1"] * 4] * 6)
    yield opened("gap-of-nine-tokens", "n is at most 8", GAP, n=9, X=[["1/1"] * 4] * 9)
    big = [["3000/1", "0", "0", "0"]] * 3 + [["0"] * 4] * 3
    yield opened("gap-logits-beyond-exp", "an exponential of more than 20,000", GAP, X=big)
    causal = "mask_gap-four-features-causal"
    yield spoiled("gap-causal-called-full", "the causal instance under the full mask", causal, _full)
    for name, says, quantity, value in (
        ("gap-floor-above-the-true", "rhs is above the tangent's least value", "rhs", ["9/1", "10/1"]),
        ("gap-floor-negative", "rhs is below the tangent's least value", "rhs", ["-1/1", "0/1"]),
        ("gap-divergence-0", "lhs is not share KL(M)", "lhs", ["0/1", "1/1000"]),
    ):
        yield spoiled(name, says, GAP, put("quantities", quantity, value=value))
    yield spoiled("gap-not-strict", "the relation is strict", GAP, put("claim", "relation", value="lhs<=rhs"))
    yield spoiled("gap-refutation", "nothing is refuted", GAP, put("kind", value="refutation"))
    yield spoiled("gap-without-a-point", "Y belongs to it", GAP, lambda document: document["inputs"].pop("Y"))


def _tangents(Y: list[list[str]], share: Fraction) -> Iterator[Trap]:
    """Points whose tangents prove less than is claimed, and shares that mean nothing."""
    flat = [entry for row in Y for entry in row]
    turned = [flat[4 * k : 4 * k + 4] for k in reversed(range(4))]
    mean = [[str(sum(map(Fraction, flat)) / 16)] * 4] * 4
    for name, says, point in (
        ("gap-point-0", "the tangent at Y = 0 is too low", [["0/1"] * 4] * 4),
        ("gap-point-dense", "the tangent at Y = 1 is flat: its least value is 0", [["1/1"] * 4] * 4),
        ("gap-point-even", "the tangent at equal entries is too low", mean),
        ("gap-point-by-columns", "Y is read row by row", [list(column) for column in zip(*Y, strict=True)]),
        ("gap-point-upside-down", "rows of Y in reverse", turned),
        ("gap-point-negative", "the tangent at -Y is too low", [[str(-Fraction(e)) for e in row] for row in Y]),
        ("gap-point-of-21-digits", "entries have at most 20 digits here", [["1/" + "3" * 21] * 4] * 4),
        ("gap-point-of-three-rows", "Y is d x d", Y[:3]),
    ):
        yield opened(name, says, GAP, Y=point)
    more = str(share + Fraction(1, 50))
    for name, says, number in (
        ("gap-share-above-the-proved", "the bound is below that share of KL(M)", more),
        ("gap-share-0", "no divergence is below 0", "0/1"),
        ("gap-share-below-a-tenth", "a bound of a hundredth says little", "1/100"),
        ("gap-share-above-1", "M itself has less than twice its divergence", "2/1"),
    ):
        yield opened(name, says, GAP, share=number)


def _masks(M: list[list[str]], W: list[list[str]]) -> Iterator[Trap]:
    flipped = [[str(1 - Fraction(entry)) for entry in row] for row in M]
    yield opened("gap-mask-of-other-count", "the complement of M has ten ones", GAP, M=flipped)
    yield opened("gap-ones-one-more-than-M", "M has six ones", GAP, ones=7)
    yield opened("gap-ones-0", "everything is pruned", GAP, ones=0, M=[["0/1"] * 4] * 4)
    yield opened("gap-ones-all", "nothing is pruned", GAP, ones=16, M=[["1/1"] * 4] * 4)
    yield opened("gap-ones-true", "true is no count", GAP, ones=True)
    halves = [["1/2"] * 4] * 3 + [["0/1"] * 4]
    yield opened("gap-mask-of-halves", "twelve halves are no six ones", GAP, M=halves)
    last = [["1/1", "1/1", "1/1", "1/1"], ["1/1", "1/1", "1/1", "-1/1"], ["0/1"] * 4, ["0/1"] * 4]
    yield opened("gap-mask-with-minus-one", "entries that add up to six", GAP, M=last)
    free = [
        [e if keep == "1/1" else "0/1" for e, keep in zip(ws, ms, strict=True)] for ws, ms in zip(W, M, strict=True)
    ]
    yield opened("gap-prunes-zeros-of-W", "M prunes weights that are 0 already: its divergence is 0", GAP, W=free)


def _full(document: Document) -> None:
    document["reading"]["mask"], document["inputs"]["mask"] = "full", None
    for name in ("lhs", "rhs"):
        document["quantities"][name] = OPEN
