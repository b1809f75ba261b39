"""Index lists and tables of pages from anyone's arrays: validated, and put into samples."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from attnprune_verify.audit.kernel.problem.integers import Integers, ListedSample, PagedSample
from attnprune_verify.audit.kernel.problem.sample import KernelSample
from attnprune_verify.audit.kernel.tensors.arrays import read_integers
from attnprune_verify.audit.kernel.typing import Foreign
from attnprune_verify.errors import InvalidInstance


def table_of(block_table: Foreign, lengths: Foreign, k: Foreign, v: Foreign, batch: int) -> tuple[Integers, Integers]:
    """The pages and the length of each sample; entries behind a length, which may be anything, name page 0.

    Raises
    ------
    InvalidInstance
        If one of the two is missing, or a length, or a page that is read, is none.
    """
    if block_table is None or lengths is None:
        missing = "lengths" if lengths is None else "block_table"
        raise InvalidInstance(f"block_table and lengths go together; got none of {missing}: pass {missing}=...")
    table, counts = read_integers("block_table", block_table), read_integers("lengths", lengths)
    pools = k.ndim == v.ndim == 4 and k.shape[:3] == v.shape[:3]
    if not pools or table.ndim != 2 or len(table) != batch or counts.shape != (batch,):
        raise InvalidInstance(
            "beside block_table (batch, pages) and lengths (batch,), k and v must be (pages, page_size, kv_heads, m); "
            f"got {table.shape}, {counts.shape}, {k.shape} and {v.shape} for {batch} samples"
        )
    pages, page_size = k.shape[:2]
    if (counts < 0).any() or (counts > table.shape[1] * page_size).any():
        most = table.shape[1] * page_size
        raise InvalidInstance(f"lengths must be in 0..{most}, what the table has room for; got {counts.tolist()}")
    read = np.arange(table.shape[1]) * page_size < counts[:, None]
    wrong = read & ((table < 0) | (table >= pages))
    if wrong.any():
        place = np.argwhere(wrong)[0].tolist()
        raise InvalidInstance(
            f"block_table must name pages in 0..{pages - 1} up to each length; got {table[tuple(place)]} at {place}"
        )
    return np.where(read, table, 0), counts


def paged(sample: KernelSample, table: Integers, lengths: Integers) -> KernelSample:
    """The sample whose keys and values are what a table names, up to each length."""
    return PagedSample(**_fields(sample), block_table=table, lengths=lengths)


def listed(sample: KernelSample, indices: Integers) -> KernelSample:
    """The sample whose queries see the keys of their lists.

    Raises
    ------
    InvalidInstance
        If the lists have another shape, name no keys, or stand beside what is not gathered with them.
    """
    batch, heads, kv_heads, n, length, *_ = sample.shape
    beside = {"alibi": sample.alibi, "bias": sample.bias, "dropout_mask": sample.dropout, "cu_seqlens_q": sample.ends}
    given = [name for name, part in beside.items() if part is not None]
    if given:
        raise InvalidInstance(f"indices must not stand beside {', '.join(given)}: leave out one or the other")
    shape = indices.shape
    if len(shape) != 4 or (shape[0], shape[2]) != (batch, n) or shape[1] not in (1, kv_heads, heads) or not shape[3]:
        raise InvalidInstance(
            f"indices must be (batch, heads or kv_heads or 1, n, topk), here ({batch}, {heads} or {kv_heads} or 1, "
            f"{n}, topk); got {shape}"
        )
    wrong = (indices < -1) | (indices >= length)
    if wrong.any():
        place = np.argwhere(wrong)[0].tolist()
        raise InvalidInstance(
            f"indices must be keys in 0..{length - 1}, or -1 for none; got {indices[tuple(place)]} at {place}"
        )
    return ListedSample(**_fields(sample), indices=indices)


def _fields(sample: KernelSample) -> Foreign:
    return {part.name: getattr(sample, part.name) for part in fields(KernelSample)}
