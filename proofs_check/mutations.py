"""Mutations of a valid certificate, for `proofs_check.fuzz`: a description, and the bytes of the file."""

import copy
import json
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

Document = dict[str, Any]
Place = tuple[Any, Any]  # a container and a key or an index of it
ODD = (
    None, True, False, 0, 1, -1, 2, "", "0", "1", "-1", "1/0", "0/5", "-0/3", "+1", " 1", "1/2/3", "1e5", "0x10", "nan",
    "\u0661/2", "\u00bd", "1_0", "1/-2", "9" * 2000, "9" * 2001, "1/" + "9" * 1999, [], {}, [[]], ["1", "2"], "full",
    "causal", "given", "zeros", "ones", 10**11, 10**12, "000000000002", "0000000000002",
)  # fmt: skip
STATEMENTS = (
    "lem:PL_ineq", "thm:our_convergence", "fix:our_convergence", "rem:practical", "fix:practical",
    "alg:mask_gd", "fix:mask_gd", "fix:bound_c", "fix:bound_basic_func", "exp:step_size", "new:best_mask",
    "new:certified_stationary_point", "new:certified_mask_gap",
)  # fmt: skip
READINGS = (
    "full", "causal", "given", "zeros", "ones", "ball", "box", "all M", "whole", "range", "0", "1", "ascending",
    "descending",    "2*wmin*beta*delta", "2*wmin*beta*delta_allowed", "2*(wmin*beta*delta)^2",
)  # fmt: skip
BYTES = (
    b'"', b",", b"{", b"[", b"\\", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"NaN", b"1.0", b"\x00",
    b"\\u0031", b"\\ud800", b"\\ud83d\\ude00", b" ", b"\n", b"true", b"-", b"0", b"/",
)  # fmt: skip


def places(value: Any, wanted: Callable[[Any], bool]) -> Iterator[Place]:
    """Yield the places in a document whose values satisfy `wanted`."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in list(pairs):
        if wanted(part):
            yield value, key
        yield from places(part, wanted)


def is_rational(value: Any) -> bool:
    return isinstance(value, str) and value[-1:].isdigit() and all(c in "-0123456789/" for c in value)


def is_enclosure(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(is_rational, value))


def is_matrix(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, list) for row in value)


def pick(rng: random.Random, document: Any, wanted: Callable[[Any], bool]) -> Place | None:
    found = list(places(document, wanted))
    return rng.choice(found) if found else None


def moved(number: Fraction, rng: random.Random) -> Fraction:
    """Another number, near or far."""
    step = Fraction(rng.choice((-1, 1)), 10 ** rng.randint(1, 40))
    return rng.choice(
        (
            number + step,
            number * (1 + step),
            -number,
            number * 10 ** rng.randint(1, 30),
            number / 10 ** rng.randint(1, 30),
            number + rng.randint(-3, 3),
            Fraction(rng.randint(-20, 20), rng.randint(1, 20)),
            Fraction(0),
            Fraction(rng.getrandbits(64), 2**64),
            1 / number if number else Fraction(1),
        )
    )


def change_number(document: Document, rng: random.Random) -> str:
    """One rational of the inputs."""
    place = pick(rng, document["inputs"], is_rational)
    if place is None:
        return change_count(document, rng)
    target, key = place
    target[key] = str(moved(Fraction(target[key]), rng))
    return f"input {key}"


def change_exponent(document: Document, rng: random.Random) -> str:
    """One scalar of the inputs, by a power of ten either way."""
    names = [key for key, value in document["inputs"].items() if is_rational(value)]
    if not names:
        return change_number(document, rng)
    name = rng.choice(names)
    number = Fraction(document["inputs"][name])
    document["inputs"][name] = str(number * Fraction(10) ** rng.randint(-3, 3) * Fraction(rng.randint(1, 30), 10))
    return f"size of {name}"


def change_count(document: Document, rng: random.Random) -> str:
    target, key = pick(rng, document, lambda value: type(value) is int) or (document, "kind")
    value = target[key]
    if type(value) is int:
        target[key] = rng.choice((value + 1, value - 1, -value, str(value), f"00{value}", value == 1, 0, 1, 2, 10**12))
    return f"count {key}"


def change_interval(document: Document, rng: random.Random) -> str:
    """A claimed enclosure, narrowed past the truth, moved, widened or turned round."""
    place = pick(rng, {"h": document["hypotheses"], "q": document["quantities"]}, is_enclosure)
    if place is None:
        return change_number(document, rng)
    target, key = place
    low, high = map(Fraction, target[key])
    width = high - low or Fraction(1, 10 ** rng.randint(5, 60))
    a, b = sorted(Fraction(rng.getrandbits(40), 2**40) for _ in range(2))
    ends = rng.choice(
        (
            (low + a * width, low + b * width),
            (low, low + b * width),
            (low + a * width, high),
            (low - width, high + width),
            (low - width, low),
            (high, high + width),
            (high, low),
            (low, low),
            (low + width, high + width),
            (low - abs(low) - 1, high + abs(high) + 1),
        )
    )
    target[key] = [str(end) for end in ends]
    return f"interval {key}"


def change_type(document: Document, rng: random.Random) -> str:
    target, key = pick(rng, document, lambda value: True) or (document, "kind")
    target[key] = copy.deepcopy(rng.choice(ODD))
    return f"type of {key}"


def change_keys(document: Document, rng: random.Random) -> str:
    objects = [document, *(t[k] for t, k in places(document, lambda value: isinstance(value, dict)))]
    target = rng.choice(objects)
    keys = list(target)
    if not keys or rng.random() < 0.3:
        target[rng.choice(("note", "", "n ", "N", "\u00e9", "lhs", "mask"))] = rng.choice(("1/2", None, 1, []))
        return "another key"
    key = rng.choice(keys)
    if rng.random() < 0.5:
        del target[key]
        return f"no {key}"
    target[rng.choice((key + " ", key.upper(), "x" + key, key[:-1]))] = target.pop(key)
    return f"{key} renamed"


def change_structure(document: Document, rng: random.Random) -> str:
    place = pick(rng, document["inputs"], is_matrix)
    if place is None:
        return change_type(document, rng)
    target, key = place
    table = target[key]
    which = rng.randrange(7)
    if which == 0:
        target[key] = [list(column) for column in zip(*table, strict=False)]
    elif which == 1:
        table.pop(rng.randrange(len(table)))
    elif which == 2:
        table.append(list(table[0]))
    elif which == 3:
        rng.shuffle(table)
    elif which == 4 and table[0]:
        table[0].pop()
    elif which == 5:
        names = [name for name, value in document["inputs"].items() if is_matrix(value)]
        other = rng.choice(names)
        document["inputs"][other], document["inputs"][key] = table, document["inputs"][other]
    else:
        target[key] = [[str(-Fraction(e)) if is_rational(e) else e for e in row] for row in table]
    return f"shape of {key}"


def change_relation(document: Document, rng: random.Random) -> str:
    """Change the claim, or the reading of the statement."""
    which = rng.randrange(5)
    if which == 0:
        relations = ("lhs<rhs", "lhs>=rhs", "lhs>rhs", "lhs<=rhs", "lhs==rhs", "zeros!=wanted", "zeros==wanted")
        document["claim"]["relation"] = rng.choice(relations)
    elif which == 1:
        document["kind"] = "refutation" if document["kind"] == "confirmation" else "confirmation"
    elif which == 2:
        document["kind"] = "refutation" if document["kind"] == "confirmation" else "confirmation"
        swapped = {"lhs<rhs": "lhs>=rhs", "lhs>=rhs": "lhs<rhs", "lhs>rhs": "lhs<=rhs", "lhs<=rhs": "lhs>rhs"}
        document["claim"]["relation"] = swapped.get(document["claim"]["relation"], "lhs<rhs")
    elif which == 3:
        document["statement"] = rng.choice(STATEMENTS)
    else:
        key = rng.choice(list(document["reading"]))
        document["reading"][key] = rng.choice(READINGS)
    return "relation or reading"


def change_mask(document: Document, rng: random.Random) -> str:
    inputs = document["inputs"]
    if "mask" not in inputs or type(inputs.get("n")) is not int or not 0 < inputs["n"] <= 64:
        return change_number(document, rng)
    n = inputs["n"]
    forms = {
        "full": [["1"] * n for _ in range(n)],
        "causal": [["1" if j <= i else "0" for j in range(n)] for i in range(n)],
        "given": [[rng.choice("01") for _ in range(n)] for _ in range(n)],
    }
    form = rng.choice(list(forms))
    inputs["mask"] = rng.choice((form, forms[form], None))
    if rng.random() < 0.7:
        document["reading"]["mask"] = form
    return "mask"


def change_leaves(document: Document, rng: random.Random) -> str:
    """The leaves of a search: one lost, doubled, split in two, widened, or changed in one entry; or another mask."""
    inputs = document["inputs"]
    leaves = inputs.get("leaves")
    if not isinstance(leaves, list) or not leaves or not all(isinstance(leaf, str) and leaf for leaf in leaves):
        return change_number(document, rng)
    which, place = rng.randrange(8), rng.randrange(len(leaves))
    leaf = leaves[place]
    at = rng.randrange(len(leaf))
    if which == 0:
        leaves.pop(place)
    elif which == 1:
        leaves.append(leaf)
    elif which in (2, 3) and "*" in leaf:
        leaves[place : place + 1] = [leaf.replace("*", bit, 1) for bit in "01"]
    elif which == 4:
        leaves[place] = leaf[:at] + rng.choice("01*") + leaf[at + 1 :]
    elif which == 5:
        rng.shuffle(leaves)
    elif which == 6 and isinstance(inputs.get("d"), int) and len(leaf) == inputs["d"] ** 2:
        d = inputs["d"]
        inputs["M"] = [["1" if mark == "1" else "0" for mark in leaf[a * d : (a + 1) * d]] for a in range(d)]
    else:
        inputs["share"] = rng.choice(("1/10", "1/2", "99/100", "1/1", "1/11", "101/100"))
    return "leaves"


def same_meaning(document: Document, rng: random.Random) -> str:
    """Write the same document in another way."""
    target, key = pick(rng, document, is_rational) or (document, "kind")
    if is_rational(target[key]) and "/" in target[key]:
        top, bottom = target[key].split("/")
        factor = rng.randint(2, 9)
        target[key] = rng.choice((f"{int(top) * factor}/{int(bottom) * factor}", f"{top}/0{bottom}", target[key]))
    for name in ("inputs", "quantities"):
        pairs = list(document[name].items())
        rng.shuffle(pairs)
        document[name] = dict(pairs)
    return "written otherwise"


CHANGES: tuple[Callable[[Document, random.Random], str], ...] = (
    change_number, change_number, change_exponent, change_count, change_interval, change_interval, change_type,
    change_keys, change_structure, change_relation, change_mask, change_leaves, same_meaning,
)  # fmt: skip


def far(document: Document) -> str:
    """Return a number above every number of a certificate; the largest double is 1.8e308."""
    return "1" + "0" * (320 if document.get("statement") == "exp:exp_is_computable" else 40)


INPUTS_TOO = ("modulus", "map_sq", "row_sq")
"""Quantities whose ends a check uses as inputs: opened wide they would say nothing."""


def open_enclosures(document: Document) -> None:
    """Enclosures that hold everything, and the true pivots: the hypotheses and the relation decide."""
    inputs, hypotheses = document.get("inputs"), document.get("hypotheses")
    if not isinstance(inputs, dict) or not isinstance(hypotheses, dict):
        return
    for name, ends in document["quantities"].items() if isinstance(document.get("quantities"), dict) else ():
        if is_enclosure(ends) and Fraction(ends[0]) != Fraction(ends[1]):
            near = [str(Fraction(ends[0]) * Fraction(9, 10)), str(Fraction(ends[1]) * Fraction(11, 10))]
            document["quantities"][name] = near if name in INPUTS_TOO else ["-" + far(document), far(document)]
    if "delta_le_min_f" in hypotheses:
        hypotheses["delta_le_min_f"] = [inputs.get("delta", "0"), far(document)]
    if "psd_pivots" in hypotheses:
        try:
            hypotheses["psd_pivots"] = [str(pivot) for pivot in pivots(inputs)]
        except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError):
            return


def pivots(inputs: Document) -> list[Fraction]:
    """Return the pivots of LDL^T of X X^T - beta I, with the sizes of classes if given; X must be a list, no text."""
    if not isinstance(inputs["X"], list):
        raise TypeError("X must be a list of rows")
    rows = [[Fraction(entry) for entry in row] for row in inputs["X"]]
    sizes = inputs.get("sizes") or [1] * len(rows[0])
    beta = Fraction(inputs["beta"])
    a = [[sum(s * p * q for s, p, q in zip(sizes, x, y, strict=True)) for y in rows] for x in rows]
    for k in range(len(a)):
        a[k][k] -= beta
    for k, pivot_row in enumerate(a):
        for row in a[k + 1 :]:
            factor = row[k] / pivot_row[k] if pivot_row[k] else Fraction(0)
            row[k + 1 :] = [p - factor * q for p, q in zip(row[k + 1 :], pivot_row[k + 1 :], strict=True)]
    return [Fraction(a[k][k]) for k in range(len(a))]


def change_bytes(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content))
    inserted = rng.choice(BYTES)
    return rng.choice(
        (
            content[:at] + content[at + 1 :],
            content[:at] + inserted + content[at:],
            content[:at],
            inserted + content,
            content + inserted,
            content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :],
            content.replace(b'"kind"', b'"schema"', 1),
            content.replace(b'"n"', b'"\\u006e"', 1),
        )
    )


def mutant(document: Document, rng: random.Random) -> tuple[str, bytes]:
    done = [rng.choice(CHANGES)(document, rng)]
    if rng.random() < 0.3:
        try:
            done.append(rng.choice(CHANGES)(document, rng))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, ZeroDivisionError):
            done.append("nothing more: the first change left no room")
    if rng.random() < 0.4:
        try:
            open_enclosures(document)
            done.append("opened")
        except (KeyError, TypeError, ValueError, ZeroDivisionError):
            done.append("not to be opened")
    content = json.dumps(document, indent=rng.choice((None, 1)), ensure_ascii=rng.random() < 0.5).encode("utf-8")
    if rng.random() < 0.1:
        content = change_bytes(content, rng)
        done.append("bytes")
    return f"{document.get('statement')}: {', '.join(done)}"[:200], content
