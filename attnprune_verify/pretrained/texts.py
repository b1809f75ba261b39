"""Token windows from plain texts: drawn at random for calibration, cut side by side for measuring."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.extras import need
from attnprune_verify.files import read_regular
from attnprune_verify.state.child import in_child

_MEMORY = 1024  # bytes for a letter of a text; the tokenizers library takes 190 where two letters make a token
_LETTERS = 50_000  # letters a second; a tokenizer of 1024 pieces encodes 700,000 on one core


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the file's text, unchanged.

    Raises
    ------
    InvalidInstance
        If the file is missing, empty, too large or no UTF-8 text.
    """
    file = Path(path)
    if not file.is_file():
        raise InvalidInstance(f"a text must be a file; got {str(path)!r}")
    try:
        text = read_regular(file).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInstance(f"a text must be UTF-8; {str(path)!r} is not") from error
    if not text.strip():
        raise InvalidInstance(f"a text must not be empty; {str(path)!r} is")
    return text


def token_stream(texts: Sequence[str], tokenizer: Any, *, special: bool = True) -> NDArray[np.int64]:
    """Return the ids of all texts in order, each with the tokenizer's special tokens unless `special` is False.

    Raises
    ------
    InvalidInstance
        If there is no tokenizer.
    """
    return np.concatenate([encode(text, tokenizer, special=special) for text in texts])


def draw_windows(stream: NDArray[np.int64], k: int, n: int, seed: int) -> NDArray[np.int64]:
    """k windows of n tokens at places drawn by the seed; (k, n). A larger k only adds windows.

    Raises
    ------
    InvalidInstance
        If the stream has fewer tokens than a window.

    Examples
    --------
    >>> draw_windows(np.arange(9), 2, 3, 0).shape
    (2, 3)
    """
    if len(stream) < n:
        raise InvalidInstance(f"the texts must have at least n = {n} tokens; they have {len(stream)}")
    starts = np.random.default_rng(seed).integers(0, len(stream) - n + 1, k)
    windows: NDArray[np.int64] = stream[starts[:, np.newaxis] + np.arange(n)]
    return windows


def calibration_windows(
    texts: Sequence[str], tokenizer: Any, k: int, n: int, seed: int, *, framed: bool
) -> NDArray[np.int64]:
    """`draw_windows` of the texts; `framed` windows have the tokenizer's special tokens at their ends, for encoders."""
    if not framed:
        return draw_windows(token_stream(texts, tokenizer), k, n, seed)
    before, after = special_tokens(tokenizer)
    inner = n - len(before) - len(after)
    if inner < 1:
        raise InvalidInstance(f"n must leave room beside {len(before) + len(after)} special tokens; got {n}")
    windows = draw_windows(token_stream(texts, tokenizer, special=False), k, inner, seed)
    first, last = (np.array(tokens, dtype=np.int64).reshape(1, -1).repeat(k, axis=0) for tokens in (before, after))
    return np.concatenate([first, windows, last], axis=1)


def cut_windows(texts: Sequence[str], tokenizer: Any, n: int) -> list[NDArray[np.int64]]:
    """Every text by itself, cut into windows of n tokens side by side; the last one of a text may be shorter.

    Returns
    -------
    list of (k, length) arrays, one for each length >= 2
    """
    by_length: dict[int, list[NDArray[np.int64]]] = {}
    for text in texts:
        stream = encode(text, tokenizer)
        for start in range(0, len(stream), n):
            window = stream[start : start + n]
            by_length.setdefault(len(window), []).append(window)
    return [np.stack(by_length[length]) for length in sorted(by_length, reverse=True) if length >= 2]


def encode(text: str, tokenizer: Any, *, special: bool = True) -> NDArray[np.int64]:
    """Return the ids of a text, with the tokenizer's special tokens unless `special` is False.

    They are made in a process of its own: a tokenizer's rules may abort the library, never end, or take all memory.

    Raises
    ------
    InvalidInstance
        If they do, or there is no tokenizer.
    """
    if tokenizer is None:
        need("reading texts", "real", "tokenizers")
        raise InvalidInstance("the model folder must hold tokenizer.json; it holds none")

    def work() -> bytes:
        return np.array(tokenizer.encode(text, add_special_tokens=special).ids, dtype=np.int64).tobytes()

    rule, memory, seconds = "tokenizer.json must encode the text", _MEMORY * len(text), len(text) // _LETTERS
    return np.frombuffer(in_child(rule, work, memory=memory, seconds=seconds), dtype=np.int64)


def special_tokens(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the ids that the tokenizer puts before a text, and those that it puts after it."""
    plain, full = encode("a", tokenizer, special=False).tolist(), encode("a", tokenizer).tolist()
    for start in range(len(full) - len(plain) + 1):
        if full[start : start + len(plain)] == plain:
            return full[:start], full[start + len(plain) :]
    return [], []
