"""Covering arrays: few rows in which every pair, or every triple, of levels of several factors stands together.

A mistake in the interaction of two or three features shows on every row that has them, and on none that lacks one. Rows
are added greedily: of some candidates that hold what is still missing, the one with most of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_CANDIDATES = 24  # chosen: 48 give 3 % fewer rows on the kernels' table and take twice as long
_KEYS = tuple[int, ...]


class Hiding(NamedTuple):
    """Levels beside which other factors change nothing, so that a row with them shows no mistake in those.

    Attributes
    ----------
    levels : mapping of str to object
        The levels that hide when they stand together.
    hidden : frozenset of str
        The factors that they hide.
    unless : tuple of str and object, optional
        A factor and its level beside which nothing is hidden.
    """

    levels: Mapping[str, object]
    hidden: frozenset[str]
    unless: tuple[str, object] | None = None


class _Shade:
    """A `Hiding` on rows that list a level's place for each factor."""

    def __init__(self, hiding: Hiding, table: Mapping[str, Sequence[object]], wanted: Sequence[_KEYS]) -> None:
        names = list(table)
        held = {name: level for name, level in hiding.levels.items() if len(table[name]) > 1}  # the rest stands always
        self.held = {names.index(name): table[name].index(level) for name, level in held.items()}
        factor, level = hiding.unless or (names[0], None)
        self.unless = names.index(factor), table[factor].index(level) if level in table[factor] else -1
        hidden = {names.index(name) for name in hiding.hidden}
        self.counts = np.array([self.held.keys() <= set(key) or not hidden & set(key) for key in wanted])

    def falls_on(self, row: NDArray[np.int64]) -> bool:
        factor, level = self.unless
        return row[factor] != level and all(row[place] == level for place, level in self.held.items())

    def lift(self, row: NDArray[np.int64], kept: _KEYS) -> None:
        """Make one of the hiding levels plain, if one is not kept."""
        free = [factor for factor, level in self.held.items() if factor not in kept and level]
        if free and self.falls_on(row):
            row[free[0]] = 0


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
    hiding: Sequence[Hiding] = (),
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
    hiding : sequence of Hiding
        Levels that hide other factors: rows with them count for those only where a combination has the levels itself.

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
    shades = [
        _Shade(one, table, tuples.wanted)
        for one in hiding
        if all(level in table[name] for name, level in one.levels.items())
    ]
    while tuples.missing.any():
        held = rng.choice(np.flatnonzero(tuples.missing), _CANDIDATES)
        rows = np.stack([rng.integers(0, size, _CANDIDATES) for size in sizes], axis=1)
        for row, place in zip(rows, held, strict=True):
            factors, levels = tuples.levels(int(place))
            row[list(factors)] = levels
            for shade in shades:
                shade.lift(row, factors)
        places, counted = tuples.places(rows), np.ones((len(rows), len(tuples.wanted)), dtype=bool)
        for shade in shades:
            counted[[shade.falls_on(row) for row in rows]] &= shade.counts
        best = int((tuples.missing[places] & counted).sum(axis=1).argmax())
        tuples.missing[places[best][counted[best]]] = False
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
