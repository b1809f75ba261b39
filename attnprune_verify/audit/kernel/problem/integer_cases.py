"""Index lists and tables of pages that kernels get wrong, and the trait in which each case differs from a plain one.

Lists of the plain case are sorted, and no key is named twice in all of them; its pages are those of one sample, all of
them full. A mistake shows in the cases that have its trait and in no other, which is what it is named by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from attnprune_verify.audit.kernel.problem.integers import Integers, ListedSample, PagedSample, from_pages
from attnprune_verify.audit.kernel.problem.sample import KernelSample
from attnprune_verify.audit.kernel.problem.sample_factory import Maker
from attnprune_verify.audit.record import Check

__all__ = ["CASES", "CHECKS", "LISTS", "PAGES", "IntegerCase", "integers_of", "page_sizes"]

LISTS, PAGES = "indices", "block_table"
"""The keywords that bring integers."""
CHECKS = {
    "indices": (LISTS, "queries see the keys of their index lists, in any order, by sample and by head"),
    "index-padding": (LISTS, "-1 in an index list is no key"),
    "index-duplicates": (LISTS, "a key counts once for each entry of a list; gradients of all entries add up"),
    "index-bounds": (LISTS, "lists of any length, positions of keys up to 65,600"),
    "indices-beside": (LISTS, "index lists beside masks, windows, scales, caps, sinks and log sum exp"),
    "pages": (PAGES, "keys and values are found by a table of pages"),
    "page-tail": (PAGES, "what lies behind a length is not read"),
    "page-table": (PAGES, "pages that no table names hold NaN; page numbers up to 65,536, pages of other sizes"),
    "pages-beside": (PAGES, "pages beside masks, windows, scales, caps, sinks and log sum exp"),
}
"""By the name of a check in ids: the keyword that it needs, and its description."""
_PAGE_SIZES = (16, 64, 128, 256, 32, 8, 1)  # chosen: of kernels, the most frequent first
_FAR = 65_600  # chosen: keys whose positions need 17 bits
_MOST_PAGES = 65_537  # the last of them needs 17 bits
_TOPK, _WIDTH = 4, 4  # chosen: small, so that a failure fits on a page
_BESIDE = ("scale", "softcap", "sinks", "lse", "mask", "causal", "window")
Make: TypeAlias = Callable[[Maker, str, int], "KernelSample | None"]


class IntegerCase(NamedTuple):
    """A case: its check, its traits, and what makes its sample from a maker, its name and the size of a page."""

    check: str
    traits: frozenset[str]
    make: Make

    @property
    def parameter(self) -> str:
        return CHECKS[self.check][0]


def integers_of(check: Check) -> str:
    """Return the keyword of integers that a check needs, "" where it needs none."""
    return CHECKS.get(check.name.removeprefix("values:"), ("",))[0]


def page_sizes(maker: Maker) -> tuple[int, ...]:
    """The sizes of pages to try, those that are declared first."""
    own = maker.scope.extent("page_size")
    named = maker.scope.named("page_size", max(_PAGE_SIZES))
    return tuple(dict.fromkeys([*named, *(size for size in _PAGE_SIZES if size in own)]))


def _drawn(maker: Maker, name: str) -> np.random.Generator:
    return np.random.default_rng([maker.seed, 18, *name.encode()])


def _lists(
    maker: Maker, name: str, page_size: int, *, n: int = 3, topk: int = _TOPK, length: int | None = None,
    of: str = "all", changed: Callable[[Integers, int, np.random.Generator], Integers] = lambda own, *_: own,
    beside: str = "", **sizes: Any,
) -> ListedSample:  # fmt: skip
    """Sorted lists without a common key, then changed: what a function of lists, keys and random numbers gives."""
    topk = maker.scope.extent("topk").near(topk)
    sizes = {"heads": 1, **sizes}
    sample = _beside(maker, maker.make(name, n, _WIDTH, length or n * topk + 4, **sizes), beside)
    batch, heads, kv_heads, n, length, *_ = sample.shape
    rng, own = _drawn(maker, name), {"all": 1, "key heads": kv_heads, "heads": heads}[of]
    seen = length - n + 1 if maker.scope.causal else length  # by every query, where causal ends at the last key
    keys = np.argsort(rng.random((batch, own, seen)), axis=-1)
    indices = np.sort(np.resize(keys, (batch, own, n, topk)) if seen < n * topk else
                      keys[..., : n * topk].reshape(batch, own, n, topk), axis=-1)  # fmt: skip
    indices = changed(indices, seen, rng)
    generic = sample.generic and _repeats(indices) == 1
    return ListedSample(**_fields(sample.changed(generic=generic)), indices=indices)


def _repeats(indices: Integers) -> int:
    ordered = np.sort(indices, axis=-1)
    return 1 + int(((ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] >= 0)).any())


def _fields(sample: KernelSample) -> dict[str, Any]:
    return {part.name: getattr(sample, part.name) for part in fields(KernelSample)}


def _shuffled(own: Integers, _: int, rng: np.random.Generator) -> Integers:
    return rng.permuted(own, axis=-1)


def _ended(own: Integers, *_: Any) -> Integers:
    """Lists that end after 1, 2, ... entries."""
    n, topk = own.shape[-2:]
    return np.where(np.arange(topk) < np.arange(n)[:, None] % max(topk - 1, 1) + 1, own, -1)


def _holed(own: Integers, *_: Any) -> Integers:
    """Lists with -1 first, and between keys."""
    return np.where(np.arange(own.shape[-1]) % 2 == 0, -1, own)


def _none(own: Integers, *_: Any) -> Integers:
    """A list of -1 alone among others."""
    return np.where(np.arange(own.shape[-2])[:, None] == 1, -1, own)


def _twice(own: Integers, *_: Any) -> Integers:
    """Lists that name their first key three times, beside others."""
    found = own.copy()
    found[..., -2:] = own[..., :1]
    return np.sort(found, axis=-1)


def _shared(own: Integers, *_: Any) -> Integers:
    """The keys of the first query for all."""
    return np.broadcast_to(own[..., :1, :], own.shape).copy()


def _more_than_keys(own: Integers, seen: int, _: np.random.Generator) -> Integers:
    """Every key once, then -1; every other list has -1 first."""
    n, topk = own.shape[-2:]
    place = np.arange(topk) - np.arange(n)[:, None] % 2 * max(topk - seen, 0)
    return np.broadcast_to(np.where((place >= 0) & (place < seen), place, -1), own.shape).copy()


def _at_ends(own: Integers, seen: int, _: np.random.Generator) -> Integers:
    """The first and the last keys."""
    found = own.copy()
    found[..., 0], found[..., -1] = 0, seen - 1
    return found


def _far(own: Integers, seen: int, rng: np.random.Generator) -> Integers:
    """Positions that differ in 17 bits and are alike in fewer."""
    places = [place for place in (5, 2**15 + 9, 2**16 + 7) if place < seen - 1][: own.shape[-1]]
    found = own.copy()
    found[..., : len(places)] = places
    return np.sort(found, axis=-1)


def _any_keys(own: Integers, seen: int, rng: np.random.Generator) -> Integers:
    """Keys from the first to the last, of which masks forbid some."""
    keys = np.zeros(own.shape[-2:], dtype=np.int64)  # every query may see key 0
    for row in keys:
        row[1:] = np.resize(np.sort(1 + rng.permutation(seen - 1)[: len(row) - 1]), len(row) - 1)
    return np.broadcast_to(keys, own.shape).copy()


def _beside(maker: Maker, sample: KernelSample, name: str) -> KernelSample:
    """The sample with one more part of the contract."""
    n, length = sample.shape[3:5]
    if name in ("causal", "window"):
        return sample.changed(causal=name == "causal" or sample.causal, window=3 if name == "window" else None)
    if name == "mask":
        may = _drawn(maker, name).random((n, length)) < 0.6
        may[:, 0] = True
        return sample.changed(mask=may)
    if name == "sinks":
        return maker.sunk(sample)
    if name == "lse":
        return maker.pulled(sample.changed(lse=True))
    return (
        sample.changed(scale=0.3) if name == "scale" else sample.changed(softcap=1.5) if name == "softcap" else sample
    )


def _paged(
    maker: Maker, name: str, page_size: int, *, counts: tuple[tuple[int, int], ...] = ((1, 0),), n: int = 1,
    spare: int = 0, size: int = 0, most: int = 0, order: tuple[int, ...] = (), beside: str = "", **sizes: Any,
) -> PagedSample | None:  # fmt: skip
    """Samples with a number of full pages each, and a number of keys of one more page.

    Tables name pages in a drawn order; `spare` pages, or as many as make `most`, are named by none; `order` are the
    places of the table's entries among the pages that are drawn, where a page is named twice.
    """
    page_size = size or page_size
    if page_size not in maker.scope.extent("page_size"):
        return None
    rng = _drawn(maker, name)
    width = max(full + (rest > 0) for full, rest in counts)
    batch = maker.scope.extent("batch").near(len(counts))
    counts = tuple(counts[item % len(counts)] for item in range(batch))
    lengths = np.array([max(full * page_size + min(rest, page_size - 1), 1) for full, rest in counts])
    named = batch * width
    if most and named > 3:
        return None
    places = order if len(order) == named else tuple(range(named))
    pages = max(max(places) + 1 + spare, most)
    drawn = np.array([2**16, 2**15 + 3, 2]) if most else np.sort(rng.permutation(pages)[: max(places) + 1])
    table = drawn[np.array(places)].reshape(batch, width)
    n = width * page_size if beside in ("causal", "window") else n
    sample = maker.make(name, n, _WIDTH, width * page_size, batch=batch, **{"heads": 1, **sizes})
    pools = [rng.standard_normal((pages, page_size, sample.shape[2], x.shape[3])) for x in (sample.k, sample.v)]
    k, v = (maker.precision.exact(from_pages(pool, table)) for pool in pools)
    sample = _beside(maker, sample.changed(k=k, v=v), beside)
    return PagedSample(**_fields(sample), block_table=table, page_size=page_size, lengths=lengths, pages=pages)


def _list(check: str, traits: str, **options: Any) -> IntegerCase:
    return IntegerCase(check, frozenset(traits.split()), partial(_lists, **options))


def _page(check: str, traits: str, **options: Any) -> IntegerCase:
    return IntegerCase(check, frozenset(traits.split()), partial(_paged, **options))


def _cases() -> Iterator[tuple[str, IntegerCase]]:
    options: dict[str, Any]
    yield "lists", _list("indices", "")
    yield "lists in any order", _list("indices", "order", changed=_shuffled)
    yield "lists of a batch", _list("indices", "other-lists", batch=2)
    yield "lists of each head", _list("indices", "other-lists", heads=2, of="heads")
    yield "lists of all heads", _list("indices", "heads", heads=2)
    yield "lists of each key head", _list("indices", "other-lists groups shared", heads=4, kv_heads=2, of="key heads")
    yield "lists of one key head", _list("indices", "groups shared", heads=4, kv_heads=1)
    yield "lists of each head of groups", _list("indices", "other-lists groups shared", heads=4, kv_heads=2, of="heads")
    yield "lists that end", _list("index-padding", "padding", changed=_ended)
    yield "lists with holes", _list("index-padding", "padding", changed=_holed)
    yield "a list of none", _list("index-padding", "padding", changed=_none)
    yield "keys named twice", _list("index-duplicates", "duplicates shared", changed=_twice)
    yield "keys of several queries", _list("index-duplicates", "shared", changed=_shared)
    for much, topk in (("", 6), ("much ", 130)):
        options = {"n": 2, "length": 3, "topk": topk, "changed": _more_than_keys}
        yield f"lists {much}longer than keys", _list("index-padding", "longer bounds padding shared", **options)
    yield "first and last keys", _list("index-bounds", "bounds", n=1, changed=_at_ends)
    for topk in (33, 64, 130):
        yield f"lists of {topk} entries", _list("index-bounds", "bounds", n=2, topk=topk)
    yield "far positions", _list("index-bounds", "bounds", n=1, length=_FAR, changed=_far)
    for name in _BESIDE:
        masked = name in ("mask", "causal", "window")
        options = {"n": 8, "length": 8, "topk": 8, "changed": _any_keys} if masked else {}
        yield f"lists beside {name}", _list("indices-beside", f"{name}{' shared' * masked}", beside=name, **options)

    yield "a page", _page("pages", "")
    yield "pages in any order", _page("pages", "table tail", counts=((2, 5),), order=(2, 0, 1))
    yield "tables of a batch", _page("pages", "batch", counts=((2, 0), (2, 0)), order=(3, 0, 1, 2))
    yield "a page of several samples", _page("pages", "batch", counts=((2, 0), (2, 0)), order=(2, 0, 2, 1))
    yield "queries over pages", _page("pages", "queries", counts=((2, 0),), n=3, order=(1, 0))
    yield "pages of grouped heads", _page("pages", "groups", counts=((2, 0),), heads=4, kv_heads=2, order=(1, 0))
    for rest, what in ((5, "is not full"), (1, "has one key"), (2**16, "lacks one key")):
        yield f"a page that {what}", _page("page-tail", "tail", counts=((1, rest),))
    yield "tables longer than samples", _page("page-tail", "tail batch", counts=((1, 0), (3, 0)))
    yield "one key", _page("page-tail", "tail", counts=((0, 1),))
    yield "pages that no table names", _page("page-table", "unnamed", counts=((2, 0),), spare=3)
    for size in _PAGE_SIZES:
        yield f"pages of {size}", _page("page-table", "size", counts=((2, 0),), size=size, order=(1, 0))
    yield "pages of one token", _page("page-table", "many unnamed", counts=((3, 0),), size=1, most=_MOST_PAGES)
    for name in _BESIDE:
        yield f"pages beside {name}", _page("pages-beside", name, counts=((2, 0),), beside=name, order=(1, 0))


CASES = dict(_cases())
"""By the name of their sample."""
