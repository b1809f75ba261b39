"""Digests of what is typed or pinned: a changed word, number or proposition fails a test that names it.

A sentence of a claim, a proof by hand or a number on a page is compared with nothing else in this repository, so that a
slip in it would pass every other test. ``python -m tests.repinned`` writes the digests anew; a reviewer sees the items
in the same commit, and the reason in its body.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

from attnprune_verify.claims.core import Claim
from attnprune_verify.claims.formulas.scope import hypotheses, quantifier
from attnprune_verify.claims.formulas.symbols import SYMBOLS
from attnprune_verify.claims.prior import PRIOR
from attnprune_verify.claims.registry import claims
from attnprune_verify.experiments.stored.record import FOLDER, NAMES, table_of
from tests.meta.typed_numbers import every_page, numbers

ROOT = Path(__file__).resolve().parents[2]
DIGESTS = Path(__file__).parent / "digests.json"
_DIGITS = 6  # hexadecimal: a changed item keeps its digest by chance once in 17 million times


def items() -> Iterator[tuple[str, str]]:
    """Yield every pinned item as (kind and name, text)."""
    margins = json.loads((ROOT / "tests/claims/pinned_margins.json").read_text("utf-8"))
    for claim, pinned in margins.items():
        yield f"margin {claim}", json.dumps(pinned, sort_keys=True)
    for line in (ROOT / "proofs_check/coq/types.txt").read_text("utf-8").splitlines():
        name, _, text = line.partition(" = ")
        yield f"proposition {name}", text
    for name in NAMES:
        yield f"table {name}", table_of(FOLDER / name).decode()
    yield from sentences()
    yield "table performance", (ROOT / "docs/performance.json").read_text("utf-8")
    for page in every_page():
        yield f"page {page.relative_to(ROOT).as_posix()}", json.dumps(numbers(page.read_text("utf-8")))


def sentences() -> Iterator[tuple[str, str]]:
    """Yield everything that is printed of a statement: of whom, when, what, and what was found, as (name, text)."""
    for claim in claims():
        yield f"sentence {claim.test_id}", json.dumps(words_of(claim))
    for entry in json.loads((ROOT / "proofs_check/coq/theorems.json").read_text("utf-8")):
        yield f"theorem {entry['file']} {entry['theorem']}", json.dumps(entry, sort_keys=True)
    for section in re.split(r"^#{2,3} ", (ROOT / "proofs_check/PROOFS.md").read_text("utf-8"), flags=re.MULTILINE):
        title, _, text = section.partition("\n")
        yield f"proof {title.strip()}", " ".join(text.split())
    quoted = json.loads((ROOT / "attnprune_verify/claims/quotations.json").read_text("utf-8"))
    yield from ((f"quotation {id_}", json.dumps(quote)) for id_, quote in quoted["quotations"].items())
    yield from ((f"prior {id_}", json.dumps(prior)) for id_, prior in PRIOR.items())
    yield from ((f"symbol {name}", words) for name, words in SYMBOLS.items())


def words_of(claim: Claim) -> list[object]:
    """Return every word and every choice that a reader sees of a claim."""
    printed = ("title", "section", "says", "formula", "finding", "measured_on", "source", "note", "repairs")
    return [
        *(getattr(claim, name) for name in (*printed, "repaired_by", "uses", "conjecture")),
        *(claim.kind.value, claim.strength.value, claim.reading.name, claim.reading.says, claim.reading.mask),
        *(quantifier(claim), hypotheses(claim), sorted(claim.tags), sorted(claim.loose)),
        [wrong.says for wrong in claim.wrong],
    ]


def digests() -> dict[str, list[str]]:
    """Map every kind to its items in order, each as its digest and its name."""
    found: dict[str, list[str]] = {}
    for name, text in items():
        kind, _, rest = name.partition(" ")
        found.setdefault(kind, []).append(f"{hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]} {rest}")
    return {kind: sorted(of_kind, key=lambda item: item[_DIGITS:]) for kind, of_kind in found.items()}


def packed(now: dict[str, list[str]]) -> dict[str, str]:
    """Join the digests of each kind, names left out: they stand in the files that the items come from."""
    return {kind: "".join(item[:_DIGITS] for item in of_kind) for kind, of_kind in now.items()}


def differences(pinned: dict[str, str], now: dict[str, list[str]]) -> list[str]:
    """List the items that changed; a kind with more or fewer items than pinned by the numbers of them."""
    found = []
    for kind in sorted(pinned.keys() | now.keys()):
        before, after = re.findall("." * _DIGITS, pinned.get(kind, "")), now.get(kind, [])
        if len(before) != len(after):
            found.append(f"{kind}: {len(after)} items, {len(before)} pinned")
        else:
            pairs = zip(before, after, strict=True)
            found += [f"{kind}{item[_DIGITS:]}" for digest, item in pairs if item[:_DIGITS] != digest]
    return found


def read() -> dict[str, str]:
    """Return the pinned digests of each kind, joined."""
    return dict(json.loads(DIGESTS.read_text("utf-8")))


def renew() -> list[str]:
    """Write the digests of now; return the items that changed."""
    now = digests()
    changed = differences(read() if DIGESTS.exists() else {}, now)
    DIGESTS.write_text(json.dumps(packed(now), indent=0) + "\n", "utf-8")
    return changed
