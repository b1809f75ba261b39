"""Covering arrays: few rows in which every pair, or every triple, of levels of several factors stands together.

A mistake in the interaction of two or three features shows on every row that has them, and on none that lacks one. Rows
are added greedily: of some candidates that hold what is still missing, the one with most of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["covered", "covering"]

_CANDIDATES = 24  # chosen: 48 give 3 % fewer rows on the kernels' table and take twice as long
_KEYS = tuple[int, ...]


class _Tuples:
    """Every combination of levels that has to stand in a row, one place each in a flat array."""

    def __init__(self, sizes: Sequence[int], wanted: Sequence[_KEYS]) -> None:
        self.wanted, starts, count = list(wanted), [], 0
        self.strides = np.zeros((len(self.wanted), len(sizes)), dtype=np.int64)
        for place, factors in enumerate(self.wanted):
            step = 1
            for factor in reversed(factors):
                self.strides[place, factor] = step
                step *= sizes[factor]
            starts.append(count)
            count += step
        self.starts, self.missing = np.array(starts, dtype=np.int64), np.ones(count, dtype=bool)
        self.sizes = sizes

    def places(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the places of the combinations of each row, (rows, wanted)."""
        return rows @ self.strides.T + self.starts

    def levels(self, place: int) -> tuple[_KEYS, _KEYS]:
        """The factors and the levels at a place."""
        which = int(np.searchsorted(self.starts, place, side="right")) - 1
        factors, rest = self.wanted[which], place - int(self.starts[which])
        found = []
        for factor in reversed(factors):
            rest, level = divmod(rest, self.sizes[factor])
            found.append(level)
        return factors, tuple(reversed(found))


def covering(
    table: Mapping[str, Sequence[Any]],
    strength: int = 2,
    more: Sequence[Sequence[str]] = (),
    seed: int = 0,
    weak: Sequence[str] = (),
) -> Iterator[dict[str, Any]]:
    """Rows, one level of each factor, in which all combinations of `strength` factors and those in `more` stand.

    Parameters
    ----------
    table : mapping of str to sequence
        The levels of each factor.
    strength : int
        2 for pairs, 3 for triples.
    more : sequence of sequence of str
        Factors whose levels also have to stand together.
    seed : int
        Of the candidates; the same seed gives the same rows.
    weak : sequence of str
        Factors that take part in pairs only, and in `more`.

    Yields
    ------
    dict of str to object

    Examples
    --------
    >>> len(list(covering({"a": (0, 1), "b": (0, 1), "c": (0, 1)})))
    4
    """
    names = list(table)
    sizes = [len(table[name]) for name in names]
    open_ = [i for i, size in enumerate(sizes) if size > 1]
    strong = [i for i in open_ if names[i] not in weak]
    wanted = dict.fromkeys(combinations(strong, min(strength, len(strong))))
    wanted |= dict.fromkeys(combinations(open_, min(2, len(open_))))
    wanted |= dict.fromkeys(
        tuple(sorted(names.index(name) for name in group)) for group in more if all(len(table[n]) > 1 for n in group)
    )
    tuples, rng = _Tuples(sizes, [key for key in wanted if key]), np.random.default_rng(seed)
    while tuples.missing.any():
        held = rng.choice(np.flatnonzero(tuples.missing), _CANDIDATES)
        rows = np.stack([rng.integers(0, size, _CANDIDATES) for size in sizes], axis=1)
        for row, place in zip(rows, held, strict=True):
            factors, levels = tuples.levels(int(place))
            row[list(factors)] = levels
        places = tuples.places(rows)
        best = int(tuples.missing[places].sum(axis=1).argmax())
        tuples.missing[places[best]] = False
        yield {name: table[name][level] for name, level in zip(names, rows[best], strict=True)}


def covered(rows: Sequence[Mapping[str, object]], table: Mapping[str, Sequence[Any]], strength: int) -> tuple[int, int]:
    """Count the combinations of levels of `strength` factors in the rows, and all of them."""
    names = [name for name in table if len(table[name]) > 1]
    seen = every = 0
    for group in combinations(names, strength):
        there = {tuple(row[name] for name in group) for row in rows}
        wanted = list(product(*(table[name] for name in group)))
        seen, every = seen + sum(one in there for one in wanted), every + len(wanted)
    return seen, every
