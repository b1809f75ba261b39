"""Reading a certificate without trusting it: bounded size, depth and integers, no floats, no duplicate keys."""

import json
import stat
from pathlib import Path
from typing import Any, NoReturn

from proofs_check.checker.reject import GaveUp, Reject

MAX_BYTES = 300_000  # the format's limit; chosen: 15 times the largest committed certificate
MAX_DEPTH = 12  # chosen: the committed certificates have 4 levels
MAX_JSON_INTEGER_DIGITS = 12  # chosen: counts alone are JSON integers, and 12 digits are exact in doubles, too


def read_document(path: Path) -> Any:
    """The JSON value in a file, or Reject."""
    return parse_document(read_content(path))


def read_content(path: Path) -> bytes:
    """The bytes of a regular file, one more than are allowed at most."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe nobody writes to would be waited for
            raise GaveUp("not a regular file")
        with open(path, "rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise GaveUp(f"cannot be read: {error.strerror}") from None


def parse_document(content: bytes) -> Any:
    if len(content) > MAX_BYTES:
        raise Reject(f"a certificate is at most {MAX_BYTES} bytes")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise Reject("not UTF-8 text") from None
    _bound_depth(text)
    try:
        document = json.loads(
            text,
            object_pairs_hook=_unique_keys,
            parse_int=_small_integer,
            parse_float=_no_float,
            parse_constant=_no_float,
        )
    except json.JSONDecodeError as error:
        raise Reject(f"not JSON: {error.msg} at character {error.pos}") from None
    _require_characters(document)
    return document


def _require_characters(value: Any) -> None:
    """`json` lets half of a surrogate pair pass, which is no character."""
    if isinstance(value, str):
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise Reject("a string holds half of a surrogate pair")
    elif isinstance(value, dict):
        for key, part in value.items():
            _require_characters(key)
            _require_characters(part)
    elif isinstance(value, list):
        for part in value:
            _require_characters(part)


def _bound_depth(text: str) -> None:
    depth, quoted, escaped = 0, False, False
    for character in text:
        if quoted:
            quoted = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            quoted = True
        elif character in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise Reject(f"nested deeper than {MAX_DEPTH} levels")
        elif character in "]}":
            depth -= 1


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise Reject(f"duplicate key {twice[:60]!r}")
    return table


def _small_integer(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_JSON_INTEGER_DIGITS:
        raise Reject(f"a JSON integer has at most {MAX_JSON_INTEGER_DIGITS} digits; larger numbers are 'p/q' strings")
    return int(digits)


def _no_float(token: str) -> NoReturn:
    raise Reject(f"numbers are integers or 'p/q' strings; got {token[:40]}")
