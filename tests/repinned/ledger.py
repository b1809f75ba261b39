"""What is pinned, and why each pin was last changed.

Pins of margins, the propositions that Coq prints and the stored tables are each written anew by one command; sentences
(of claims, theorems, proofs by hand, quotations, prior work) and numbers on pages are typed. Whoever changes one runs
``python -m tests.repinned "the reason"`` as well: the ledger then names every item that changed, with the reason. A
changed item without an entry makes a test fail.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attnprune_verify.claims.core import Claim
from attnprune_verify.claims.prior import PRIOR
from attnprune_verify.claims.registry import claims
from attnprune_verify.claims.scope import hypotheses, quantifier
from attnprune_verify.claims.symbols import SYMBOLS
from tests.meta.typed_numbers import every_page, numbers

ROOT = Path(__file__).resolve().parents[2]
LEDGER = Path(__file__).parent / "ledger.json"
_SHORT = 12  # hexadecimal digits, 48 bits: two versions of one item collide by chance once in 3e14
_FEWEST_WORDS = 3  # chosen: a reason of fewer words names no cause


def items() -> Iterator[tuple[str, str]]:
    """Yield every pinned item as (name, text)."""
    margins = json.loads((ROOT / "tests/claims/pinned_margins.json").read_text("utf-8"))
    for claim, pinned in margins.items():
        yield f"margin {claim}", json.dumps(pinned, sort_keys=True)
    for line in (ROOT / "proofs_check/coq/types.txt").read_text("utf-8").splitlines():
        name, _, text = line.partition(" = ")
        yield f"proposition {name}", text
    for path in sorted((ROOT / "attnprune_verify/experiments/stored").glob("*.csv")):
        yield f"table {path.stem}", path.read_text("utf-8")
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


def digests() -> dict[str, str]:
    """Return the digest of each pinned item."""
    return {name: hashlib.sha256(text.encode()).hexdigest()[:_SHORT] for name, text in items()}


def read() -> dict[str, Any]:
    """Return the ledger: ``now`` (digest by item) and ``changes`` (reason and items, the newest last)."""
    return dict(json.loads(LEDGER.read_text("utf-8")))


def differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return the items that are new, gone or changed."""
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def enter(why: str) -> list[str]:
    """Write what changed since the last entry into the ledger, with the reason; return the items."""
    if len(why.split()) < _FEWEST_WORDS:
        raise ValueError(f"a reason must have at least {_FEWEST_WORDS} words; got {why!r}")
    ledger = read() if LEDGER.exists() else {"now": {}, "changes": []}
    now = digests()
    changed = differences(ledger["now"], now)
    if changed:
        ledger["changes"].append({"why": why, "items": _shortened(changed, now)})
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(digest)}" for name, digest in sorted(now.items()))
        entries = ",\n".join(f"  {json.dumps(entry)}" for entry in ledger["changes"])
        LEDGER.write_text(f'{{"changes": [\n{entries}\n],\n"now": {{\n{lines}\n}}}}\n', "utf-8")
    return changed


def _shortened(changed: list[str], now: dict[str, str]) -> list[str]:
    """Return the items, of which those of a kind that changed as a whole are named by their kind."""
    whole = {kind for kind in map(_kind, changed) if {name for name in now if _kind(name) == kind} <= {*changed}}
    single = [name for name in changed if _kind(name) not in whole]
    return [*(f"every {kind}" for kind in sorted(whole)), *single]


def _kind(name: str) -> str:
    return name.partition(" ")[0]
