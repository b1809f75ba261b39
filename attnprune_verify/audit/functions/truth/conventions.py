"""Conventions of pruning masks: how many entries go, of what, and which of equal ones; each is verified."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.errors import InvalidInstance

Flags = NDArray[np.bool_]
CHOICES = {
    "count": ("floor", "round", "ceil", "authors", "exact"),
    "threshold": ("matrix", "row", "block"),
    "ties": ("pruned-first", "kept-first", "kept-all", "pruned-all"),
}
_CLOSE = 1e-5  # chosen: scores this near each rules may stand in another order in float32


@dataclass(frozen=True)
class MaskConventions:
    """The meaning of what pruning programs do in more than one way.

    Attributes
    ----------
    count : str
        Of s entries and the ratio rho go floor(rho s) ("floor", "exact"), the nearest integer, the next ("ceil"), or
        floor(rho s) + 1 for 0 < rho < 1 as in the authors' SparseGPT, with all that equal the last ("authors").
    threshold : str
        The s entries are the "matrix", a "row" (an output), or a "block" of columns.
    ties : str
        Of entries equal to the last one that goes, the lower flat index goes ("pruned-first") or stays ("kept-first"),
        or all stay or go.
    """

    count: str = "floor"
    threshold: str = "matrix"
    ties: str = "pruned-first"

    @classmethod
    def declared(cls, function: str, given: Mapping[str, Any]) -> MaskConventions:
        """The conventions of a function under a declaration.

        Raises
        ------
        InvalidInstance
            If there is no such convention, or no such choice.

        Examples
        --------
        >>> MaskConventions.declared("wanda", {"count": "round"})
        MaskConventions(count='round', threshold='row', ties='pruned-first')
        """
        for name, choice in given.items():
            if name not in CHOICES:
                raise InvalidInstance(f"CONVENTIONS must be of {', '.join(CHOICES)}; got {name!r}")
            if choice not in CHOICES[name]:
                raise InvalidInstance(f"CONVENTIONS[{name!r}] must be of {', '.join(CHOICES[name])}; got {choice!r}")
        return replace(_default(function), **given)

    def others(self) -> Iterator[MaskConventions]:
        """Every other combination, those with the fewest changes first; "exact" is "floor"."""
        names = [field.name for field in fields(self)]
        for changes in (1, 2, 3):
            for changed in combinations(names, changes):
                for choices in product(*(CHOICES[name] for name in changed)):
                    rules = replace(self, **dict(zip(changed, choices, strict=True)))
                    if all(getattr(rules, name) != getattr(self, name) for name in changed) and rules.count != (
                        "floor" if self.count == "authors" else "exact"
                    ):
                        yield rules

    def beside(self, default: MaskConventions) -> str:
        """The declaration that makes a program with these conventions right."""
        mine, theirs = asdict(self), asdict(default)
        return f"CONVENTIONS = { ({name: choice for name, choice in mine.items() if choice != theirs[name]}) }"

    def counts(self, size: int, rho: float) -> tuple[int, ...]:
        """The number of entries that go, of `size`; two where a half may be rounded either way."""
        share = rho * size
        if self.count == "authors":
            return (min(math.floor(share) + (0 < rho < 1), size),)
        by = {"round": (round(share), math.floor(share + 0.5)), "ceil": (math.ceil(share - 1e-9),)}
        return by.get(self.count, (math.floor(share),))

    def fits(self, gone: Flags, scores: NDArray[Any], rho: float, *, tied: bool = False, width: int = 128) -> bool:
        """Return True where these entries go under the conventions; nearly equal scores may differ if nothing is tied.

        Examples
        --------
        >>> scores = np.array([[1.0, 2.0, 3.0]])
        >>> gone = np.array([[True, True, False]])
        >>> MaskConventions().fits(gone, scores, 0.5), MaskConventions("round").fits(gone, scores, 0.5)
        (False, True)
        """
        return all(
            any(self._fits(gone[place], scores[place], count, tied) for count in self.counts(scores[place].size, rho))
            for place in units(scores.shape, self.threshold, width)
        )

    def _fits(self, gone: Flags, scores: NDArray[Any], count: int, tied: bool) -> bool:
        if np.array_equal(gone, self.chosen(scores, count)):
            return True
        most, least = scores[gone].max(initial=-np.inf), scores[~gone].min(initial=np.inf)
        return not tied and int(gone.sum()) == count and bool(most - least <= _CLOSE * abs(least))

    def gone(self, scores: NDArray[Any], rho: float, more: int = 0, *, width: int = 128) -> Flags:
        """The entries that go, or of every unit `more` than that.

        Examples
        --------
        >>> MaskConventions("ceil", "row").gone(np.array([[1.0, 2.0, 3.0], [9.0, 8.0, 7.0]]), 0.5)
        array([[ True,  True, False],
               [False,  True,  True]])
        """
        gone = np.zeros(scores.shape, dtype=np.bool_)
        for place in units(scores.shape, self.threshold, width):
            size = scores[place].size
            count, *_ = self.counts(size, rho)
            gone[place] = self.chosen(scores[place], min(max(count + more, 0), size))
        return gone

    def chosen(self, scores: NDArray[Any], count: int) -> Flags:
        """The entries of a matrix, row or block that go, where `count` do."""
        if 0 < count < scores.size:
            last, following = np.sort(scores, axis=None)[[count - 1, count]]
            if self.count == "authors" or (self.ties == "pruned-all" and last == following):
                return np.asarray(scores <= last)
            if self.ties == "kept-all" and last == following:
                return np.asarray(scores < last)
        if self.ties == "kept-first":
            return np.flip(smallest_first(np.flip(scores), count))
        return smallest_first(scores, count)


def smallest_first(values: NDArray[Any], count: int) -> Flags:
    """True at the `count` smallest entries; of equal ones the lower flat index goes first."""
    chosen = np.zeros(values.size, dtype=np.bool_)
    chosen[np.argsort(values, axis=None, kind="stable")[:count]] = True
    return chosen.reshape(values.shape)


def units(shape: tuple[int, ...], threshold: str, width: int = 128) -> Iterator[tuple[slice, slice]]:
    """The places whose entries are compared with each other: all, each row, or each block of columns."""
    if threshold == "row":
        yield from ((slice(i, i + 1), slice(None)) for i in range(shape[0]))
    elif threshold == "block":
        yield from ((slice(None), slice(a, min(a + width, shape[1]))) for a in range(0, shape[1], width))
    else:
        yield slice(None), slice(None)


def _default(function: str) -> MaskConventions:
    if function.startswith("sparsegpt"):
        return MaskConventions("authors", "block")
    return MaskConventions(threshold="row" if function.startswith("wanda") else "matrix")


def patterns_of(given: Any) -> tuple[str, ...] | None:
    """The N:M patterns of PATTERNS; None where it does not limit them.

    Raises
    ------
    InvalidInstance
        If it is no sequence of texts such as "2:4".
    """
    if given is None:
        return None
    if isinstance(given, str) or not all(_is_pattern(pattern) for pattern in given):
        raise InvalidInstance(f'PATTERNS must be a sequence of texts N:M with N <= M, such as ("2:4",); got {given!r}')
    return tuple(given)


def _is_pattern(pattern: object) -> bool:
    n, colon, m = str(pattern).partition(":")
    return colon == ":" and n.isdecimal() and m.isdecimal() and 0 < int(n) <= int(m)
