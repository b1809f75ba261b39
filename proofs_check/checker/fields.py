"""Typed access to the fields of a certificate: closed key lists, exact rationals, matrices, enclosures."""

import re
from collections.abc import Collection, Sequence
from fractions import Fraction
from typing import Any

from proofs_check.checker.reject import Reject

Matrix = list[list[Fraction]]
Bounds = tuple[Fraction, Fraction]
Document = dict[str, Any]
"""An object of JSON: a certificate, or a part of one."""

MAX_SIZE = 64  # the format's limit of n and d; chosen: n^2 d^2 = 2^24 exact products
INPUT_DIGITS = 2_000  # of a numerator or a denominator in `inputs`
RESULT_DIGITS = 100_000  # in pivots and enclosures, which grow with the instance
_RATIONAL = re.compile(r"(-?)([0-9]+)(?:/([0-9]+))?", re.ASCII)
_CHUNK = 4_000  # below CPython's limit on digits per conversion


def closed(value: Any, keys: Collection[str], where: str, optional: Collection[str] = ()) -> Document:
    """An object with exactly these keys."""
    if not isinstance(value, dict):
        raise Reject(f"{where} must be an object")
    unknown = sorted(set(value) - set(keys) - set(optional))
    if unknown:
        raise Reject(f"unknown key {unknown[0][:60]!r} in {where}")
    missing = sorted(set(keys) - set(value))
    if missing:
        raise Reject(f"missing key {missing[0]!r} in {where}")
    return value


def choice(value: Any, allowed: Collection[str], where: str) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise Reject(f"{where} must be one of {sorted(allowed)}; got {_shown(value)}")
    return value


def text(value: Any, where: str, longest: int = 200) -> str:
    if not isinstance(value, str) or len(value) > longest:
        raise Reject(f"{where} must be a string of at most {longest} characters")
    return value


def integer(value: Any, where: str, low: int, high: int) -> int:
    """A JSON integer, or the same as a string of digits."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,12}", value, re.ASCII):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Reject(f"{where} must be an integer; got {_shown(value)}")
    if not low <= value <= high:
        raise Reject(f"{where} must lie in [{low}, {high}]; got {value}")
    return int(value)


def rational(value: Any, where: str, digits: int = INPUT_DIGITS) -> Fraction:
    """An exact rational from "p/q" or "p"."""
    match = _RATIONAL.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise Reject(f"{where} must be a rational 'p/q' in a string; got {_shown(value)}")
    sign, numerator, denominator = match.groups()
    if max(len(numerator), len(denominator or "")) > digits:
        raise Reject(f"{where} has more than {digits} digits")
    bottom = _from_digits(denominator) if denominator else 1
    if bottom == 0:
        raise Reject(f"{where} has denominator 0")
    return Fraction(-_from_digits(numerator) if sign else _from_digits(numerator), bottom)


def matrix(value: Any, rows: int, columns: int, where: str) -> Matrix:
    if not isinstance(value, list) or len(value) != rows:
        raise Reject(f"{where} must be a list of {rows} rows")
    result = []
    for row in value:
        if not isinstance(row, list) or len(row) != columns:
            raise Reject(f"every row of {where} must be a list of {columns} entries")
        result.append([rational(entry, f"an entry of {where}") for entry in row])
    return result


def rationals(value: Any, where: str, length: int | None = None, digits: int = INPUT_DIGITS) -> list[Fraction]:
    if not isinstance(value, list) or (length is not None and len(value) != length):
        raise Reject(f"{where} must be a list" + (f" of {length} rationals" if length is not None else ""))
    return [rational(entry, f"an entry of {where}", digits) for entry in value]


def enclosure(value: Any, where: str) -> Bounds:
    """[lo, hi] with lo <= hi."""
    low, high = rationals(value, where, 2, RESULT_DIGITS)
    if low > high:
        raise Reject(f"{where} is empty: its lower end exceeds its upper end")
    return low, high


def attention_mask(value: Any, n: int, where: str) -> list[list[bool]]:
    """Allowed positions from null, "full", "causal" or an n x n list of 0 and 1; no empty row."""
    if value is None or value == "full":
        return [[True] * n for _ in range(n)]
    if value == "causal":
        return [[j <= i for j in range(n)] for i in range(n)]
    entries = matrix(value, n, n, where)
    if any(entry not in (0, 1) for row in entries for entry in row):
        raise Reject(f"entries of {where} must be 0 or 1")
    allowed = [[entry == 1 for entry in row] for row in entries]
    if not all(any(row) for row in allowed):
        raise Reject(f"{where} has a row without an allowed position")
    return allowed


def require_in(values: Sequence[Sequence[Fraction]], low: int, high: int, where: str) -> None:
    if not all(low <= entry <= high for row in values for entry in row):
        raise Reject(f"{where} must have all entries in [{low}, {high}]")


def _from_digits(digits: str) -> int:
    if len(digits) <= _CHUNK:
        return int(digits)
    half = len(digits) // 2
    shift: int = 10 ** (len(digits) - half)
    return _from_digits(digits[:half]) * shift + _from_digits(digits[half:])


def _shown(value: Any) -> str:
    shown = repr(value) if isinstance(value, (str, int, float, bool, type(None))) else type(value).__name__
    return shown if len(shown) <= 60 else shown[:57] + "..."
