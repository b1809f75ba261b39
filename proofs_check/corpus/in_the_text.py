"""Traps in the text: what is no JSON, no UTF-8, or JSON that a careless reader takes for something else."""

from collections.abc import Iterator

from proofs_check.corpus.trap import Trap, text

_TEXT = text("PL_ineq-refutation-interior-mask")


def _replaced(name: str, says: str, old: str, new: str) -> Trap:
    if old not in _TEXT:
        raise ValueError(f"{old!r} is not in the certificate")
    return Trap(name, says, _TEXT.replace(old, new, 1).encode())


def traps() -> Iterator[Trap]:
    yield from _bytes()
    yield from _values()
    yield from _keys()


def _bytes() -> Iterator[Trap]:
    whole = _TEXT.encode()
    yield Trap("empty-file", "nothing in it", b"")
    yield Trap("byte-order-mark", "a byte order mark before the text", b"\xef\xbb\xbf" + whole)
    yield Trap("utf-16", "UTF-16, not UTF-8", _TEXT.encode("utf-16"))
    yield Trap("latin-1-byte", "a byte that is no UTF-8", whole.replace(b"flint", b"fl\xefnt"))
    yield Trap("overlong-utf-8", "a slash in two bytes, which is not UTF-8", whole.replace(b"flint", b"fl\xc0\xafnt"))
    yield Trap("surrogate-in-utf-8", "a surrogate as bytes, not UTF-8", whole.replace(b"flint", b"fl\xed\xa0\x80nt"))
    yield Trap("beyond-unicode", "a code above U+10FFFF", whole.replace(b"flint", b"fl\xf4\x90\x80\x80nt"))
    yield Trap("nul-byte", "a NUL byte after the value", whole + b"\x00")
    yield Trap("truncated", "the text ends in the middle", whole[: len(whole) // 2])
    yield Trap("last-brace-missing", "the last brace is missing", whole.rstrip()[:-1])
    yield Trap("two-documents", "a second value after the first", whole + whole)
    yield Trap("text-after-the-value", "a word after the value", whole + b"true")
    yield Trap("non-breaking-space", "white space that is none in JSON", b"\xc2\xa0" + whole)
    yield Trap("vertical-tab", "white space that is none in JSON", whole.replace(b",", b",\x0b", 1))
    yield Trap("nested-twenty-thousand-deep", "20,000 brackets", b"[" * 20_000)
    yield Trap("nested-objects", "8,000 objects in each other", b'{"a":' * 8_000)
    yield _replaced("nested-thirteen-deep", "thirteen levels are one too many", '"1/1"', "[" * 10 + '"1/1"' + "]" * 10)
    yield _replaced("comment", "JSON has no comments", "{", "{/* fine */")
    yield _replaced("single-quotes", "strings stand in double quotes", '"kind"', "'kind'")
    yield _replaced("unquoted-key", "keys are strings", '"kind"', "kind")
    yield _replaced("trailing-comma-in-a-list", "a comma after the last item", '"1/1"]', '"1/1",]')
    yield _replaced("trailing-comma-in-an-object", "a comma after the last pair", '"d":2,', '"d":2,,')
    yield _replaced("semicolon", "a semicolon for a colon", '"d":2', '"d";2')
    yield _replaced("line-break-in-a-string", "a raw line break in a string", "flint", "fl\nint")
    yield _replaced("tab-in-a-string", "a raw tab in a string", "flint", "fl\tint")
    yield _replaced("unknown-escape", "JSON has no escape \\x", "flint", "\\x66lint")
    yield _replaced("short-escape", "an escape of three digits", "flint", "\\u066lint")
    yield _replaced("half-a-surrogate-pair", "half of a surrogate pair as an escape", "flint", "\\ud800")
    yield _replaced("surrogates-turned-round", "a pair in the wrong order", "flint", "\\udc00\\ud800")
    yield _replaced("high-surrogate-before-a-letter", "no low surrogate follows", "flint", "\\ud800\\u0061")
    yield _replaced("surrogate-as-key", "half of a surrogate pair as a key", '"kind"', '"\\ud800":1,"kind"')


def _values() -> Iterator[Trap]:
    for name, says, value in (
        ("nan", "NaN is no number of JSON", "NaN"),
        ("infinity", "Infinity is no number of JSON", "Infinity"),
        ("minus-infinity", "-Infinity is no number of JSON", "-Infinity"),
        ("n-as-a-float", "2.0 is not an integer", "2.0"),
        ("n-with-an-exponent", "2e0 is not an integer", "2e0"),
        ("exponent-of-400", "1e400 is infinite in doubles", "1e400"),
        ("n-with-a-leading-zero", "02 is no number of JSON", "02"),
        ("n-with-a-plus", "+2 is no number of JSON", "+2"),
        ("n-in-hexadecimal", "0x2 is no number of JSON", "0x2"),
        ("integer-of-thirteen-digits", "a JSON integer has at most 12 digits", "1000000000002"),
        ("integer-of-twenty-thousand-digits", "a JSON integer has at most 12 digits", "2" * 20_000),
        ("python-true", "True is Python, not JSON", "True"),
        ("python-none", "None is Python, not JSON", "None"),
        ("a-bare-minus", "a minus without digits", "-"),
    ):
        yield _replaced(name, says, '"n":2', f'"n":{value}')


def _keys() -> Iterator[Trap]:
    yield _replaced("duplicate-key", "kind stands twice: which one counts?", '"kind":', '"kind":"confirmation","kind":')
    yield _replaced("duplicate-key-same-value", "d stands twice", '"d":2', '"d":2,"d":2')
    yield _replaced(
        "duplicate-key-by-escape", "lambda stands twice, once escaped", '"lambda":', '"\\u006cambda":"1/1","lambda":'
    )
    yield Trap("a-list", "the certificate is a list", b"[" + _TEXT.encode() + b"]")
    yield Trap("null", "the certificate is null", b"null\n")
    yield Trap("a-string", "the certificate is a string", b'"attnprune-cert/1"\n')
