"""Text that is there: the sources of Python's library, or the C++ headers that come with torch, split by file."""

import hashlib
import sysconfig
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

START = "<|start|>"
_LEFT_OUT = {"site-packages", "test", "tests", "idle_test", "__pycache__", "encodings", "turtledemo", "__phello__"}
_HEADERS = ("c10", "torch/csrc")
"""Folders of torch's headers that people wrote; the largest one, ATen/ops, is generated."""
_TEST_PERCENT = 8


class Corpus(NamedTuple):
    """The sources of the training and of the test part, each file as one text."""

    train: list[str]
    test: list[str]

    def sha256(self) -> str:
        """Differs between patch versions of Python: figures measured on two corpora are not compared digit by digit."""
        digest = hashlib.sha256()
        for text in (*self.train, "\0", *self.test):
            digest.update(text.encode())
        return digest.hexdigest()


def read_corpus(text: str = "python") -> Corpus:
    """Every file of a kind of text; sha256(path) mod 100 < 8 makes it a test.

    Parameters
    ----------
    text : "python" or "headers"
        The modules of the standard library without tests and code tables, or headers of torch.
    """
    root, paths = _python() if text == "python" else _headers()
    parts: tuple[list[str], list[str]] = ([], [])
    for path in paths:
        fate = int(hashlib.sha256(path.relative_to(root).as_posix().encode()).hexdigest(), 16) % 100
        parts[fate < _TEST_PERCENT].append(path.read_text(encoding="utf-8", errors="replace"))
    return Corpus(*parts)


def _python() -> tuple[Path, Iterator[Path]]:
    library = Path(sysconfig.get_paths()["stdlib"])

    def wanted(place: Path) -> bool:
        first = place.parts[0]
        return not (_LEFT_OUT & set(place.parts) or first.startswith(("config-", "_sysconfig")))

    return library, (path for path in sorted(library.rglob("*.py")) if wanted(path.relative_to(library)))


def _headers() -> tuple[Path, Iterator[Path]]:
    spec = find_spec("torch")
    assert spec is not None and spec.origin is not None
    root = Path(spec.origin).parent / "include"
    return root, (path for folder in _HEADERS for path in sorted((root / folder).rglob("*.h")))


def train_tokenizer(texts: list[str], vocabulary: int) -> Tokenizer:
    """Byte-level BPE; a start token, id 0, stands before every text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[START],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{START} $A", special_tokens=[(START, 0)])
    return tokenizer


def token_stream(tokenizer: Tokenizer, texts: list[str]) -> NDArray[np.int64]:
    """All texts one after the other, each behind a start token."""
    return np.concatenate([np.array(tokenizer.encode(text).ids) for text in texts])


def windows(stream: NDArray[np.int64], n: int, count: int) -> NDArray[np.int64]:
    """`count` windows of n tokens at equal distances."""
    picked = np.linspace(0, len(stream) // n - 1, count).astype(int)
    return np.stack([stream[i * n : (i + 1) * n] for i in picked])
