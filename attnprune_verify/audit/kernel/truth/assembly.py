"""Results of a sample put together from its blocks: rows stand side by side, what queries add to a sum is added up."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from attnprune_verify.audit.kernel.problem.blocks import Place, axes_at
from attnprune_verify.audit.kernel.problem.integers import ListedRows
from attnprune_verify.audit.kernel.problem.sample import Array, KernelSample
from attnprune_verify.audit.kernel.truth.calculus import Calculus, Typical, Worst

Terms: TypeAlias = dict[str, tuple[tuple[Array, ...], tuple[Array, ...]]]
"""By result: errors, which a calculus adds up, and sums."""


class Assembled:
    """Arrays of a sample by name, zero until blocks are added; dk and dv of `group` heads are one."""

    def __init__(self, sample: KernelSample, group: int) -> None:
        self.sample, self.group, self.terms = sample, group, Terms()

    def add(self, place: Place | ListedRows, added: Terms, calculus: Calculus | None = None) -> None:
        """Add the terms of a block at its place in batch, heads and queries."""
        add = Worst(0.0).add if calculus is None else calculus.add
        if isinstance(place, ListedRows):
            rows, place = place, place.place
            added = self._spread(rows, added, isinstance(calculus, Typical))
        for name, (errors, sums) in added.items():
            at = self._place(name, place)
            if name not in self.terms:
                new = tuple(tuple(np.zeros(self._shape(name, x), x.dtype) for x in terms) for terms in (errors, sums))
                self.terms[name] = new[0], new[1]
            whole = self.terms[name]
            for total, error in zip(whole[0], errors, strict=True):
                total[at] = add(total[at], error)
            for total, term in zip(whole[1], sums, strict=True):
                total[at] += term

    def _spread(self, rows: ListedRows, added: Terms, in_squares: bool) -> Terms:
        """The terms of queries with lists where their keys lie; those of several heads added up where these are one."""

        def spread(name: str, terms: tuple[Array, ...], in_squares: bool) -> tuple[Array, ...]:
            found = tuple(rows.spread(name, term, in_squares) for term in terms)
            joined = self.group > 1 and name in ("dk", "dv")
            return tuple(map(self.sample.per_key_head, found)) if joined else found

        return {
            name: (spread(name, errors, in_squares), spread(name, sums, False))
            for name, (errors, sums) in added.items()
        }

    def _place(self, name: str, place: Place) -> tuple[slice, ...]:
        item, heads, _ = place
        if name in ("dk", "dv"):
            if self.group == 1:
                return item, heads
            if heads.step is not None:  # the heads of one key head, interleaved
                return item, slice(heads.start, heads.start + 1)
            return item, slice(heads.start // self.group, heads.stop // self.group)
        if name == "dbias":
            assert self.sample.bias is not None
            return axes_at(self.sample.bias.shape, place)
        return (heads,) if name == "dsinks" else place

    def _shape(self, name: str, part: Array) -> tuple[int, ...]:
        batch, heads, _, n, *_ = self.sample.shape
        if name == "dbias":
            assert self.sample.bias is not None
            return self.sample.bias.shape
        if name == "dsinks":
            return (heads,)
        return (
            (batch, heads // self.group, *part.shape[2:])
            if name in ("dk", "dv")
            else (batch, heads, n, *part.shape[3:])
        )
