"""Samples whose keys are named by integers: by an index list of each query, or by a table of pages.

A gather makes ordinary attention of both, so that they have the truth and the bounds of every other sample. Each query
of a list is a sample of its own, whose keys are the entries of its list; what they add to gradients of keys and values
is added up where the keys lie. The pages of a table stand side by side, and what lies behind a length is masked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.kernel.problem.sample import Array, KernelSample, Mask

Integers = NDArray[np.int64]
_MOST = 2**20  # chosen: numbers of the keys and values that a block of queries gathers, 8 MiB
_NONE: Integers = np.zeros((0,), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class ListedSample(KernelSample):
    """Queries that see the keys of their lists; a key that a list names twice counts twice.

    Attributes
    ----------
    indices : NDArray[np.int64]
        Positions of keys, (batch, heads or kv_heads or 1, n, topk); -1 = none.
    """

    indices: Integers = field(default_factory=lambda: _NONE)

    @property
    def lists(self) -> Integers:
        """The lists of every query head, (batch, heads, n, topk)."""
        _, heads, kv_heads, *_ = self.shape
        if self.indices.shape[1] == kv_heads != heads:
            return self.indices[:, self.key_heads]
        return np.broadcast_to(self.indices, (len(self.indices), heads, *self.indices.shape[2:]))

    @property
    def allowed(self) -> Mask:
        batch, heads, _, n, length, *_ = self.shape
        named = np.zeros((batch, heads, n, length + 1), dtype=bool)
        np.put_along_axis(named, np.where(self.lists < 0, length, self.lists), True, axis=-1)
        return named[..., :length] & super().allowed

    @property
    def ordinary(self) -> KernelSample:
        """Attention to all keys, as of a kernel that reads no lists."""
        return _ordinary(self)

    @cached_property
    def repeats(self) -> int:
        """The largest number of entries of a list that name the same key."""
        ordered = np.sort(self.indices, axis=-1)
        most = 1
        while (
            most < ordered.shape[-1]
            and ((ordered[..., most:] == ordered[..., :-most]) & (ordered[..., most:] >= 0)).any()
        ):
            most += 1
        return most

    @property
    def work(self) -> float:
        batch, heads, _, n, _, m, mv = self.shape
        return float(batch * heads * n * self.indices.shape[3] * (m + mv))

    def keywords(self, function: str) -> dict[str, Any]:
        return {**super().keywords(function), "indices": self.indices.astype(np.int32)}

    def gathered(self, most: int) -> Iterator[tuple[ListedRows, KernelSample]]:
        """Yield blocks of at most `most` logits, or of one query, and the attention of each on its own keys."""
        batch, heads, _, n, _, m, mv = self.shape
        numbers = heads * self.indices.shape[3]
        height = max(min(most // numbers, _MOST // (numbers * (m + mv))), 1)
        lists, allowed = self.lists, self.allowed
        for item in range(batch):
            for start in range(0, n, height):
                rows = ListedRows(self, item, slice(start, min(start + height, n)), lists)
                yield rows, rows.attention(allowed)


@dataclass(frozen=True, eq=False)
class ListedRows:
    """Some queries of a sample of the batch, each of which sees the keys of its own list."""

    sample: ListedSample
    item: int
    queries: slice
    lists: Integers

    @property
    def place(self) -> tuple[slice, slice, slice]:
        """The place in batch, heads and queries."""
        return slice(self.item, self.item + 1), slice(0, self.sample.shape[1]), self.queries

    @property
    def _entries(self) -> Integers:
        """The lists by query and head, (queries, heads, topk)."""
        return np.swapaxes(self.lists[self.item, :, self.queries], 0, 1)

    def attention(self, allowed: Mask) -> KernelSample:
        """Attention of one query of each head in every sample."""
        whole, item, entries = self.sample, self.item, self._entries
        keys, heads = np.where(entries < 0, 0, entries), np.arange(whole.shape[1])[:, None]
        of_keys = whole.key_heads[:, None], keys
        may = np.swapaxes(allowed[item, :, self.queries], 0, 1)

        def by_query(array: Array) -> Array:
            return np.ascontiguousarray(np.swapaxes(array[item, :, self.queries], 0, 1)[:, :, None])

        return _ordinary(
            whole, causal=False, window=None, q=by_query(whole.q), do=by_query(whole.do),
            k=whole.k[item][of_keys], v=whole.v[item][of_keys],
            mask=((entries >= 0) & may[np.arange(len(keys))[:, None, None], heads, keys])[:, :, None],
            dlse=None if whole.dlse is None else by_query(whole.dlse),
        )  # fmt: skip

    def spread(self, name: str, array: Array, in_squares: bool) -> Array:
        """The result of these queries in the whole sample; keys that many entries name add up."""
        if name == "dsinks":
            return array
        if name not in ("dk", "dv"):
            return np.swapaxes(array[:, :, 0], 0, 1)[None]
        _, heads, _, _, length, *_ = self.sample.shape
        entries = self._entries
        found = np.zeros((heads, length + 1, array.shape[-1]), array.dtype)  # the last takes what belongs to no key
        of_heads, terms = np.arange(heads)[:, None], array**2 if in_squares else array
        for at, added in zip(np.where(entries < 0, length, entries), terms, strict=True):
            if self.sample.repeats > 1:
                np.add.at(found, (of_heads, at), added)
            else:
                found[of_heads, at] += added
        found = found[None, :, :length]
        return np.sqrt(found) if in_squares else found


@dataclass(frozen=True, eq=False)
class PagedSample(KernelSample):
    """Keys and values that a kernel finds by a table of pages; k and v are what the table names, one after the other.

    Attributes
    ----------
    block_table : NDArray[np.int64]
        Numbers of pages, (batch, pages of a sample); those behind a length may name any page.
    page_size : int
        Keys of a page.
    lengths : NDArray[np.int64]
        Numbers of keys, (batch,).
    pages : int
        The number of pages in memory; those that no table names hold NaN.
    """

    block_table: Integers = field(default_factory=lambda: _NONE)
    page_size: int = 1
    lengths: Integers = field(default_factory=lambda: _NONE)
    pages: int = 0

    @property
    def allowed(self) -> Mask:
        batch, heads, _, n, length, *_ = self.shape
        found = np.zeros((batch, heads, n, length), dtype=bool)
        mask = None if self.mask is None else np.broadcast_to(self.mask, found.shape)
        for item, own in enumerate(self.lengths):
            place = slice(item, item + 1)
            keys = place, slice(None), slice(own)
            parts = {"q": self.q[place], "do": self.do[place], "k": self.k[keys], "v": self.v[keys]}
            found[place, ..., :own] = _ordinary(
                self, **parts, mask=None if mask is None else mask[place, ..., :own]
            ).allowed
        return found

    @property
    def features(self) -> tuple[str, ...]:
        return (*super().features, f"pages of {self.page_size}")

    @property
    def ordinary(self) -> KernelSample:
        """Attention with the pages side by side."""
        if "ordinary" not in self.memo:
            self.memo["ordinary"] = _ordinary(self, mask=self.allowed, causal=False, window=None)
        found: KernelSample = self.memo["ordinary"]
        return found

    def keywords(self, function: str) -> dict[str, Any]:
        integers = {"block_table": self.block_table.astype(np.int32), "lengths": self.lengths.astype(np.int32)}
        return {**super().keywords(function), **integers, "page_size": self.page_size}

    def in_pages(self, array: Array) -> Array:
        """Keys or values as they lie in memory, (pages, page_size, kv_heads, m)."""
        batch, kv_heads, _, width = array.shape
        found = np.full((self.pages, self.page_size, kv_heads, width), np.nan)
        of_pages = array.reshape(batch, kv_heads, self.block_table.shape[1], self.page_size, width)
        found[self.block_table] = of_pages.transpose(0, 2, 3, 1, 4)
        return found


def from_pages(pool: Array, block_table: Integers) -> Array:
    """The keys or values that a table names, (batch, kv_heads, l, m)."""
    _, page_size, kv_heads, width = pool.shape
    batch, pages = block_table.shape
    return pool[block_table].reshape(batch, pages * page_size, kv_heads, width).swapaxes(1, 2)


def _ordinary(sample: KernelSample, **changes: Any) -> KernelSample:
    """Attention that no integers change."""
    return KernelSample(
        **{**{part.name: getattr(sample, part.name) for part in fields(KernelSample)}, "memo": {}, **changes}
    )
