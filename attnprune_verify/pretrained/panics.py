"""Failures of the tokenizers library: bare exceptions, and panics of its Rust code, which are no `Exception`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from attnprune_verify.errors import InvalidInstance

__all__ = ["refusing_panics"]


@contextmanager
def refusing_panics(rule: str) -> Iterator[None]:
    """Turn what the library raises into the rule that its input broke; interrupts pass.

    Raises
    ------
    InvalidInstance

    Examples
    --------
    >>> with refusing_panics("tokenizer.json must be a tokenizer file"):
    ...     raise Exception("no model")
    Traceback (most recent call last):
        ...
    attnprune_verify.errors.InvalidInstance: tokenizer.json must be a tokenizer file; no model
    """
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        first = (str(error).splitlines() or [""])[0][:120]
        raise InvalidInstance(f"{rule}; {first}") from error
