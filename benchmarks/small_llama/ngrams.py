"""What counting reaches: unigrams, and bigrams and trigrams smoothed by Witten and Bell's rule.

::

    p(w | h) = (c(h w) + t(h) p(w | h')) / (c(h) + t(h))      t(h): number of different words after h; h' one shorter
"""

import math
from collections import Counter

import numpy as np
from numpy.typing import NDArray


def ngram_perplexities(train: NDArray[np.int64], test: NDArray[np.int64], vocabulary: int) -> dict[str, float]:
    """Perplexity on the test windows (k, n) of models counted on the stream `train`."""
    unigram = np.bincount(train, minlength=vocabulary) + 1.0
    unigram /= unigram.sum()
    one = unigram[test[:, 1:]]
    two = _smoothed(_pairs(train), _pairs_of(test), one)
    three = two.copy()  # the second token of a window has one token before it
    three[:, 1:] = _smoothed(_triples(train), _triples_of(test), two[:, 1:])
    return {name: math.exp(-np.log(p).mean()) for name, p in (("unigram", one), ("bigram", two), ("trigram", three))}


Gram = tuple[tuple[int, ...], int]


def _smoothed(grams: list[Gram], wanted: list[list[Gram]], shorter: NDArray[np.float64]) -> NDArray[np.float64]:
    pairs = Counter(grams)
    histories = Counter(history for history, _ in grams)
    kinds = Counter(history for history, _ in pairs)
    p = np.empty_like(shorter)
    for i, row in enumerate(wanted):
        for j, (history, word) in enumerate(row):
            seen, different = histories[history], kinds[history]
            known = pairs[history, word] + different * shorter[i, j]
            p[i, j] = known / (seen + different) if seen else shorter[i, j]
    return p


def _pairs(stream: NDArray[np.int64]) -> list[Gram]:
    words = stream.tolist()
    return [((a,), b) for a, b in zip(words, words[1:], strict=False)]


def _triples(stream: NDArray[np.int64]) -> list[Gram]:
    words = stream.tolist()
    return [((a, b), c) for a, b, c in zip(words, words[1:], words[2:], strict=False)]


def _pairs_of(rows: NDArray[np.int64]) -> list[list[Gram]]:
    return [_pairs(row) for row in rows]


def _triples_of(rows: NDArray[np.int64]) -> list[list[Gram]]:
    return [_triples(row) for row in rows]
