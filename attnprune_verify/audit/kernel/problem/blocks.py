"""Blocks of a sample's queries, each a sample of its own, so that memory need not hold all logits at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TypeAlias

from attnprune_verify.audit.kernel.problem.integers import ListedRows, ListedSample
from attnprune_verify.audit.kernel.problem.sample import KernelSample
from attnprune_verify.audit.kernel.typing import Foreign, Plain

Place: TypeAlias = tuple[slice, slice, slice]
"""A place in batch, heads and queries."""


def blocks(sample: KernelSample, most: int) -> Iterator[tuple[Place | ListedRows, KernelSample]]:
    """The sample in blocks of queries of the heads that read one key head, each with its place in the arrays.

    A block has at most `most` logits, or those of one query and one group of heads. A sample with no more is its own
    only block. The blocks of index lists are the attention of their queries on their own keys.

    Examples
    --------
    >>> from attnprune_verify.audit.kernel.problem.regimes import regimes
    >>> sample = regimes(0, "float32")["plain"].samples[0]
    >>> [block.rows for _, block in blocks(sample, 2 * sample.k.shape[2])]
    [(0, 4), (2, 4)]
    """
    if isinstance(sample, ListedSample):
        yield from sample.gathered(most)
        return
    batch, heads, kv_heads, n, length, *_ = sample.shape
    if batch * heads * n * length <= most:
        yield (slice(0, batch), slice(0, heads), slice(0, n)), sample
        return
    group, height = sample.group, max(most // (sample.group * length), 1)
    interleaved = sample.conventions.interleaved and group > 1
    for item, head, row in product(range(batch), range(kv_heads), range(0, n, height)):
        readers = slice(head, heads, kv_heads) if interleaved else slice(head * group, (head + 1) * group)
        place = slice(item, item + 1), readers, slice(row, min(row + height, n))
        key = place[0], slice(head, head + 1)
        parts: Plain = {"q": sample.q[place], "do": sample.do[place], "k": sample.k[key], "v": sample.v[key]}
        for name, at in (("dlse", place), ("alibi", place[1:2]), ("sinks", place[1:2])):
            own = getattr(sample, name)
            parts[name] = None if own is None else own[at]
        for name in ("mask", "bias", "dropout"):
            own = getattr(sample, name)
            parts[name] = None if own is None else own[axes_at(own.shape, place)]
        yield place, sample.changed(rows=(row, n), **parts)


def axes_at(shape: tuple[int, ...], place: Place) -> tuple[slice, ...]:
    """A place in an array that is broadcast to (batch, heads, n, l)."""
    own = zip(place[4 - len(shape) :], shape, strict=False)
    return tuple(part if size > 1 else slice(None) for part, size in own)


def in_type(sample: KernelSample, kind: Foreign) -> KernelSample:
    """The sample with its numbers in another floating-point type."""
    arrays = {name: getattr(sample, name) for name in ("q", "k", "v", "do", "alibi", "bias", "sinks", "dlse")}
    return sample.changed(**{name: None if array is None else array.astype(kind) for name, array in arrays.items()})
