"""Text that every machine with Python has: the standard library's sources, split by file."""

from __future__ import annotations

import hashlib
import sysconfig
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

START = "<|start|>"
_LEFT_OUT = {"site-packages", "test", "tests", "idle_test", "__pycache__", "encodings", "turtledemo", "__phello__"}
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


def read_corpus() -> Corpus:
    """Every module of the standard library without tests and code tables; sha256(path) mod 100 < 8 makes it a test."""
    library = Path(sysconfig.get_paths()["stdlib"])
    parts: tuple[list[str], list[str]] = ([], [])
    for path in sorted(library.rglob("*.py")):
        place = path.relative_to(library)
        if _LEFT_OUT & set(place.parts) or place.parts[0].startswith("config-") or path.name.startswith("_sysconfig"):
            continue
        fate = int(hashlib.sha256(place.as_posix().encode()).hexdigest(), 16) % 100
        parts[fate < _TEST_PERCENT].append(path.read_text(encoding="utf-8", errors="replace"))
    return Corpus(*parts)


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
