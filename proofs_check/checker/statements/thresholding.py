"""alg:mask_gd, its last lines: which entries of M become 0, for the four readings of "sort" and of indexing,
and for the repaired rule.

Printed: tau = m_sorted[floor(rho d^2)]; an entry becomes 1 if it is > tau, else 0. Wanted: floor(rho d^2) zeros,
the smallest entries.
"""

from fractions import Fraction
from math import floor
from typing import Any

from proofs_check.checker import fields
from proofs_check.checker.fields import Document
from proofs_check.checker.reject import Reject
from proofs_check.checker.statements.common import no_hypotheses, require_claim, require_reading

OUT_OF_RANGE = "out of range"


def _read(certificate: Document) -> tuple[list[Fraction], list[Fraction], list[Any], list[Any]]:
    inputs = fields.closed(certificate["inputs"], ("d", "M", "rho"), "inputs")
    d = fields.integer(inputs["d"], "inputs.d", 1, 16)
    entries = [entry for row in fields.matrix(inputs["M"], d, d, "inputs.M") for entry in row]
    ratios = fields.rationals(inputs["rho"], "inputs.rho")
    if not 1 <= len(ratios) <= 20 or not all(0 <= rho <= 1 for rho in ratios):
        raise Reject("inputs.rho must list 1 to 20 ratios in [0, 1]")
    no_hypotheses(certificate)
    quantities = fields.closed(certificate["quantities"], ("zeros", "wanted"), "quantities")
    for name in ("zeros", "wanted"):
        if not isinstance(quantities[name], list):
            raise Reject(f"quantities.{name} must be a list")
        if not all(type(count) is int or count == OUT_OF_RANGE for count in quantities[name]):  # True == 1 in Python
            raise Reject(f"quantities.{name} lists counts, or {OUT_OF_RANGE!r}")
    return entries, ratios, quantities["zeros"], quantities["wanted"]


def _wanted(entries: list[Fraction], ratios: list[Fraction]) -> list[int]:
    return [floor(rho * len(entries)) for rho in ratios]


def check_printed(certificate: Document) -> str:
    require_claim(certificate, "refutation", "zeros!=wanted")
    reading = require_reading(certificate, {"order": ("ascending", "descending"), "base": ("0", "1")})
    entries, ratios, zeros, wanted = _read(certificate)
    ordered = sorted(entries, reverse=reading["order"] == "descending")
    found = [_printed_zeros(entries, ordered, floor(rho * len(entries)) - int(reading["base"])) for rho in ratios]
    if zeros != found or wanted != _wanted(entries, ratios):
        raise Reject("quantities.zeros and quantities.wanted are not what the pseudocode gives")
    between = [(count, goal) for count, goal in zip(found, wanted, strict=True) if 0 < goal < len(entries)]
    if all(count == goal for count, goal in between):
        raise Reject(
            "not true where something is pruned and something kept: the wanted number of entries, or no such rho"
        )
    return f"refutation: {reading['order']}, indices from {reading['base']}: zeros {found}, wanted {wanted}"


def _printed_zeros(entries: list[Fraction], ordered: list[Fraction], index: int) -> int | str:
    if not 0 <= index < len(ordered):
        return OUT_OF_RANGE
    return sum(entry <= ordered[index] for entry in entries)


def check_repaired(certificate: Document) -> str:
    """Stable ascending argsort, the first floor(rho d^2) set to 0, the rest to 1."""
    require_claim(certificate, "confirmation", "zeros==wanted")
    require_reading(certificate, {"order": ("ascending, ties by index",)})
    entries, ratios, zeros, wanted = _read(certificate)
    if not any(0 < count < len(entries) for count in _wanted(entries, ratios)):
        raise Reject("at one ratio of inputs.rho at least something must be pruned and something kept")
    order = sorted(range(len(entries)), key=lambda index: (entries[index], index))
    for rho, count in zip(ratios, _wanted(entries, ratios), strict=True):
        pruned = set(order[:count])
        mask = [0 if index in pruned else 1 for index in range(len(entries))]
        kept = [entry for entry, keep in zip(entries, mask, strict=True) if keep]
        dropped = [entry for entry, keep in zip(entries, mask, strict=True) if not keep]
        if mask.count(0) != count or (kept and dropped and max(dropped) > min(kept)):
            raise Reject(f"not true at rho = {rho}")
    if not zeros == wanted == _wanted(entries, ratios):
        raise Reject("quantities.zeros and quantities.wanted must both be floor(rho d^2)")
    return f"instance: exactly floor(rho d^2) zeros, the smallest entries, at {len(ratios)} ratios"
