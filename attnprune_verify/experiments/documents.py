"""Token sequences of one length from documents: those the user gives, or the two disjoint sets that ship here."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.files import read_regular
from attnprune_verify.pretrained.texts import encode, special_tokens

_TEXTS = Path(__file__).parent / "texts"
_LARGEST = 16 * 2**20  # bytes of one document


def default_texts(part: str) -> list[Path]:
    """The shipped documents of "calibration" or "held_out"; their sources are in texts/README.md."""
    return sorted((_TEXTS / part).glob("*.txt"))


def read_documents(paths: Sequence[str | os.PathLike[str]], part: str) -> list[str]:
    """The documents' text with white space collapsed; the shipped set of `part` when `paths` is empty.

    Raises
    ------
    InvalidInstance
        If a file is missing, empty, too large or no UTF-8 text.
    """
    documents = []
    for path in map(Path, paths or default_texts(part)):
        if not path.is_file():
            raise InvalidInstance(f"a document must be a text file; got {str(path)!r}")
        try:
            text = " ".join(read_regular(path, _LARGEST).decode().split())
        except UnicodeDecodeError as error:
            raise InvalidInstance(f"a document must be UTF-8 text; {str(path)!r} is not") from error
        if not text:
            raise InvalidInstance(f"a document must not be empty; {str(path)!r} is")
        documents.append(text)
    return documents


def draw_sequences(
    documents: Sequence[str], tokenizer: Any, k: int, n: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """k sequences of n tokens, in turn from each document at a random place, with the tokenizer's special tokens.

    Raises
    ------
    InvalidInstance
        If there is no tokenizer, or a document is too short for n tokens.
    """
    before, after = special_tokens(tokenizer)
    inner = n - len(before) - len(after)
    if inner < 1:
        raise InvalidInstance(f"n must leave room beside {len(before) + len(after)} special tokens; got {n}")
    tokens = [encode(text, tokenizer, special=False).tolist() for text in documents]
    shortest = min(map(len, tokens))
    if shortest < inner:
        raise InvalidInstance(f"every document must have at least {inner} tokens for n = {n}; one has {shortest}")
    sequences = []
    for index in range(k):
        document = tokens[index % len(tokens)]
        start = int(rng.integers(0, len(document) - inner + 1))
        sequences.append([*before, *document[start : start + inner], *after])
    return np.array(sequences, dtype=np.int64)
