"""Traps in the common fields and in the notation of numbers: keys, types, readings, rationals, masks."""

from collections.abc import Iterator
from typing import Any

from proofs_check.corpus.trap import Trap, opened, put, spoiled

_PL = "PL_ineq-refutation-interior-mask"
_BLOCKS = "PL_ineq-refutation-block-mask"


def traps() -> Iterator[Trap]:
    yield from _common()
    yield from _counts()
    yield from _rationals()
    yield from _matrices()
    yield from _masks()


def _common() -> Iterator[Trap]:
    other = "0" * 64
    hash_ = "21D7F352CF0ADBB5D7EC519F6CB72429E634623521A1D29561A73DC05AD80973"
    for name, says, path, value in (
        ("schema-of-tomorrow", "a schema that does not exist", ("schema",), "attnprune-cert/2"),
        ("schema-as-a-list", "the schema in a list", ("schema",), ["attnprune-cert/1"]),
        ("unknown-statement", "a statement that does not exist", ("statement",), "lem:PL_equality"),
        ("statement-with-a-blank", "a blank behind the statement", ("statement",), "lem:PL_ineq "),
        ("statement-as-a-list", "the statement in a list", ("statement",), ["lem:PL_ineq"]),
        ("statement-as-an-object", "the statement in an object", ("statement",), {"id": "lem:PL_ineq"}),
        ("another-statement", "numbers of lem:PL_ineq under another statement", ("statement",), "thm:our_convergence"),
        ("unknown-kind", "a kind that does not exist", ("kind",), "proof"),
        ("kind-as-true", "a kind that is true", ("kind",), True),
        ("kind-in-capitals", "Refutation is not refutation", ("kind",), "Refutation"),
        ("hash-of-another-paper", "another paper's hash", ("paper_sha256",), other),
        ("hash-in-capitals", "the hash in capitals", ("paper_sha256",), hash_),
        ("hash-null", "no hash", ("paper_sha256",), None),
        ("another-key", "a key that nobody reads", ("note",), "trust me"),
        ("another-input", "an input that nobody reads", ("inputs", "seed"), "1/1"),
        ("another-hypothesis", "a hypothesis that nobody checks", ("hypotheses", "full_rank"), "1/1"),
        ("another-quantity", "a quantity that nobody checks", ("quantities", "ratio"), ["0/1", "1/1"]),
        ("another-reading", "a key of the reading that nobody reads", ("reading", "norm"), "F"),
        ("another-claim", "a key of the claim that nobody reads", ("claim", "for"), "all M"),
        ("key-in-capitals", "Lambda beside lambda", ("inputs", "Lambda"), "1/1"),
        ("key-in-cyrillic", "a look-alike of X beside X", ("inputs", "\u0425"), []),
        ("tool-too-long", "a tool's name of 201 characters", ("producer", "tool"), "x" * 201),
        ("tool-as-a-number", "a tool that is a number", ("producer", "tool"), 1),
        ("negative-precision", "a precision below 0", ("producer", "prec_bits"), -1),
        ("precision-as-true", "a precision that is true", ("producer", "prec_bits"), True),
        ("relation-as-a-sign", "the relation in another notation", ("claim", "relation"), "lhs\u2264rhs"),
        ("relation-with-blanks", "the relation in another notation", ("claim", "relation"), "lhs < rhs"),
        ("reading-as-a-list", "the reading is a list", ("reading",), ["full"]),
        ("reading-null", "no reading", ("reading",), None),
        ("mask-read-as-block", "a mask that no reading has", ("reading", "mask"), "block"),
        ("mu-of-nobody", "a mu that no reading has", ("reading", "mu"), "2*wmin*beta"),
        ("mu-as-a-list", "the mu in a list", ("reading", "mu"), ["2*wmin*beta*delta"]),
    ):
        yield spoiled(name, says, _PL, put(*path, value=value))
    for name in ("schema", "kind", "claim", "hypotheses", "producer"):
        yield spoiled(f"no-{name}", f"{name} is missing", _PL, lambda document, name=name: document.pop(name))
    yield spoiled("no-lambda", "an input is missing", _PL, lambda document: document["inputs"].pop("lambda"))
    yield spoiled("no-lhs", "a quantity is missing", _PL, lambda document: document["quantities"].pop("lhs"))


def _counts() -> Iterator[Trap]:
    for name, says, value in (
        ("n-as-true", "true is not 1", True),
        ("n-as-a-list", "a list is no count", [2]),
        ("n-null", "null is no count", None),
        ("n-in-words", "two is no count", "two"),
        ("n-with-a-blank", "a blank in a count", "2 "),
        ("n-as-a-rational", "2/1 is no count", "2/1"),
        ("n-in-arabic-digits", "digits of another script", "\u0662"),
        ("n-negative", "a negative count", -2),
        ("n-zero", "no token at all", 0),
        ("n-of-65", "n is at most 64", 65),
        ("n-not-the-rows-of-X", "n = 3, and X has two rows", 3),
    ):
        yield spoiled(name, says, _PL, put("inputs", "n", value=value))
    yield spoiled("one-token-as-true", "n = true and one token", "PL_ineq-confirmation-attained", _one_token)


def _one_token(document: dict[str, Any]) -> None:
    """True as a certificate, but for n and d."""
    document["inputs"] |= {"n": True, "d": True, "X": [["1/1"]], "W": [["1/1"]], "M": [["0/1"]], "delta": "1/1"}
    document["hypotheses"] = {"psd_pivots": ["0/1"], "delta_le_min_f": ["1/1", "1/1"]}
    document["quantities"] = {name: ["0/1", "0/1"] for name in ("c_sq", "lhs", "rhs")}


def _rationals() -> Iterator[Trap]:
    for name, says, value in (
        ("arabic-digits", "digits of another script", "\u0661/\u0661\u0660"),
        ("full-width-digits", "full-width digits", "\uff11/\uff11\uff10"),
        ("superscript", "a superscript is a digit to some readers", "1\u00b2/10"),
        ("vulgar-fraction", "one character for a half", "\u00bd"),
        ("unicode-minus", "a minus that is not the hyphen", "\u22121/10"),
        ("plus-sign", "a plus", "+1/10"),
        ("two-minuses", "two minus signs", "--1/10"),
        ("minus-below", "a minus in the denominator", "1/-10"),
        ("minus-above-and-below", "two minus signs that cancel", "-1/-10"),
        ("decimal-point", "a decimal fraction", "0.1"),
        ("exponent", "an exponent", "1e-1"),
        ("infinite-number", "inf", "inf"),
        ("not-a-number", "nan", "nan"),
        ("hexadecimal-number", "a hexadecimal number", "0x1/0xa"),
        ("underscore", "an underscore between digits", "1_0/1_00"),
        ("thousands", "a comma between digits", "1,000/10,000"),
        ("denominator-0", "a denominator 0", "1/0"),
        ("zero-by-zero", "0/0", "0/0"),
        ("two-slashes", "two slashes", "1/2/5"),
        ("no-denominator", "a slash and nothing behind it", "1/"),
        ("no-numerator", "nothing before the slash", "/10"),
        ("empty-number", "an empty string", ""),
        ("blank-before", "a blank before the number", " 1/10"),
        ("line-break-behind", "a line break behind the number", "1/10\n"),
        ("nul-behind", "a NUL behind the number", "1/10\u0000"),
        ("number-not-in-a-string", "a JSON integer for a rational", 1),
        ("rational-as-false", "false for a rational", False),
        ("rational-as-a-list", "[p, q] for a rational", ["1", "10"]),
        ("digits-2001", "2,001 digits", "1/" + "9" * 2001),
    ):
        yield spoiled(name, says, _PL, put("inputs", "W", 0, 0, value=value))


def _matrices() -> Iterator[Trap]:
    eye = [["1/1", "0/1"], ["0/1", "1/1"]]
    for name, says, value in (
        ("ragged-matrix", "rows of different lengths", [["1/1", "0/1"], ["0/1"]]),
        ("row-too-many", "three rows for n = 2", [*eye, ["1/1", "1/1"]]),
        ("column-too-many", "three columns for d = 2", [[*row, "0/1"] for row in eye]),
        ("matrix-as-rows-of-text", "rows are lists, not strings", ["10", "01"]),
        ("matrix-flat", "entries without rows", ["1/1", "0/1", "0/1", "1/1"]),
        ("matrix-as-an-object", "rows by name", {"0": ["1/1", "0/1"], "1": ["0/1", "1/1"]}),
        ("matrix-of-matrices", "entries that are lists", [[["1/1"], ["0/1"]], [["0/1"], ["1/1"]]]),
        ("matrix-null", "no matrix", None),
    ):
        yield spoiled(name, says, _PL, put("inputs", "X", value=value))


def _masks() -> Iterator[Trap]:
    rows = [["1", "1", "0", "0"], ["1", "1", "0", "0"], ["0", "0", "1", "1"]]
    for name, says, value in (
        ("empty-mask-row", "a token that may look nowhere", [*rows, ["0", "0", "0", "0"]]),
        ("mask-entry-2", "an entry that is neither 0 nor 1", [*rows, ["0", "0", "2", "1"]]),
        ("mask-entry-half", "an entry that is neither 0 nor 1", [*rows, ["0", "0", "1/2", "1"]]),
        ("mask-of-booleans", "booleans are not numbers", [*rows, [False, False, True, True]]),
        ("mask-of-integers", "entries are strings", [*rows, [0, 0, 1, 1]]),
        ("mask-row-missing", "three rows for n = 4", rows),
        ("mask-null-read-as-given", "the reading gives a mask, the inputs have none", None),
        ("mask-name-read-as-given", "the reading gives a mask, the inputs name one", "causal"),
        ("mask-unknown-name", "a name that no mask has", "block"),
        ("mask-name-in-capitals", "Causal is not causal", "Causal"),
    ):
        yield opened(name, says, _BLOCKS, mask=value)
    yield spoiled(
        "mask-mislabelled-causal", "read as causal, but blocks", _BLOCKS, put("reading", "mask", value="causal")
    )
    yield spoiled("mask-mislabelled-full", "read as full, but blocks", _BLOCKS, put("reading", "mask", value="full"))
    yield spoiled("mask-full-read-as-causal", "read as causal, but full", _PL, put("reading", "mask", value="causal"))
    yield spoiled(
        "mask-causal-read-as-full",
        "read as full, but causal",
        "PL_ineq-refutation-causal",
        put("reading", "mask", value="full"),
    )
