"""Sources of cases: named families, limits, and random drafts, for instances and for plain arrays."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from attnprune_verify.claims.cases.case import Case, from_instance
from attnprune_verify.instance.families import FAMILIES


class Draft(NamedTuple):
    """Drawn values, before a supply makes a case of them; the seed is for what the supply adds."""

    values: dict[str, Any]
    seed: int


class Supply(ABC):
    """Produces cases of one shape."""

    free: tuple[str, ...] = ()
    """Arrays that local optimisation may move."""

    @abstractmethod
    def families(self, rng: Generator) -> Iterable[Case]:
        """Named cases, hard corners included."""

    def complete(self, case: Case, rng: Generator) -> Case:
        """A case made elsewhere, with what this supply adds to its own."""
        return case

    def limits(self, case: Case) -> Iterable[Case]:
        """The case pushed towards its limits: scales to 0 and infinity, lam to 0."""
        return ()

    def draft(self, rng: Generator) -> Draft | None:
        """Random values for one case; None when drawing adds nothing."""
        return None

    def finished(self, draft: Draft) -> Case:
        """The case that a draft makes, the same every time."""
        raise NotImplementedError


@dataclass(frozen=True)
class Fixed(Supply):
    """A finite list of cases, computed by a function."""

    listed: Callable[[], Iterable[Case]]

    def families(self, rng: Generator) -> Iterable[Case]:
        return self.listed()


@dataclass(frozen=True)
class Instances(Supply):
    """Instances of the problem under a reading of the mask; `extra` adds values (a second mask, a direction)."""

    mask: str = "any"
    extra: Callable[[Generator, Case], Mapping[str, Any]] | None = None
    small: bool = False
    in_box: bool = False
    lam: float | None = None
    free: tuple[str, ...] = ("M", "W", "X")
    least_tokens: int = 1
    rounds: int = 2

    def families(self, rng: Generator) -> Iterator[Case]:
        for name, family in FAMILIES.items():
            if self.small and name in ("paper_synthetic", "saturated", "banded_mask", "block_mask"):
                continue
            for _ in range(self.rounds):
                sizes = (
                    {"n": 6, "d": 4, "rank": 2}
                    if name == "paper_synthetic"
                    else _SMALL.get(name, {})
                    if self.small
                    else {}
                )
                seed = int(rng.integers(2**31))
                instance = family(np.random.default_rng(seed), **sizes)
                yield self._read(from_instance(instance, f"family {name}, seed {seed}"), rng)
        for n, d, scale in ((2, 2, 1.0), (2, 1, 2.0), (3, 2, 0.5), (2, 3, 1.0), (3, 3, 3.0)):
            for _ in range(self.rounds):
                seed = int(rng.integers(2**31))
                draw = np.random.default_rng(seed)
                values: dict[str, Any] = {"X": draw.standard_normal((n, d)), "W": scale * draw.standard_normal((d, d))}
                values |= {
                    "M": draw.uniform(0, 1, (d, d)),
                    "lam": float(draw.choice([0.0, 1e-6, 0.04, 1.0])),
                    "mask": None,
                }
                yield self._read(Case(values, f"Gaussian n={n}, d={d}, seed {seed}"), rng)
        for size in (2, 3):
            values = {"X": np.eye(size), "W": np.ones((size, size)) - 2 * np.eye(size), "M": np.zeros((size, size))}
            yield self._read(Case({**values, "lam": 0.0, "mask": None}, f"X = I_{size}, |W| = 1, M = 0"), rng)

    def complete(self, case: Case, rng: Generator) -> Case:
        added = self.extra(rng, case) if self.extra else {}
        return case.but(**{name: value for name, value in added.items() if name not in case})

    def limits(self, case: Case) -> Iterator[Case]:
        for factor in (0.0, 1e-4, 30.0):
            yield case.but(f"{case.origin}; M x {factor}", M=case["M"] * factor)
        for factor in (1e-3, 30.0):
            yield case.but(f"{case.origin}; W x {factor}", W=case["W"] * factor)
        if self.lam is None:
            for lam in (0.0, 1e-9, 1.0):
                yield case.but(f"{case.origin}; lam = {lam}", lam=lam)
        yield case.but(f"{case.origin}; M -> 1", M=np.ones_like(case["M"]) + 1e-3 * (case["M"] - 0.5))

    def draft(self, rng: Generator) -> Draft:
        n, d = int(rng.integers(self.least_tokens, 4)), int(rng.integers(1, 4))
        scale = float(rng.choice([0.1, 1.0, 4.0]))
        values = {
            "X": _sixteenths(rng, (n, d)),
            "W": scale * _sixteenths(rng, (d, d)),
            "M": _sixteenths(rng, (d, d)) / 4,
            "lam": float(rng.choice([0.0, 1e-6, 0.04, 1.0])),
            "mask": None,
        }
        return Draft(values, int(rng.integers(2**31)))

    def finished(self, draft: Draft) -> Case:
        return self._read(Case(draft.values, "drawn"), np.random.default_rng(draft.seed))

    def _read(self, case: Case, rng: Generator) -> Case:
        n = case["X"].shape[0]
        values: dict[str, Any] = {"mask": read_mask(self.mask, case["mask"], n, rng)}
        if self.in_box:
            values["M"] = np.clip(case["M"], 0.0, 1.0)
        if self.lam is not None:
            values["lam"] = self.lam
        case = case.but(**values)
        return case.but(**self.extra(rng, case)) if self.extra else case


_SMALL = {
    "benign": {"n": 3, "d": 3},
    "orthonormal_constant": {"n": 2, "d": 3},
    "more_tokens_than_features": {"n": 4, "d": 2},
    "repeated_tokens": {"n": 3, "d": 3},
    "near_singular": {"n": 2, "d": 3},
    "one_token": {"d": 3},
    "one_feature": {"n": 3},
    "zero_weights": {"n": 3, "d": 3},
}


def read_mask(reading: str, given: Any, n: int, rng: Generator) -> Any:
    """The attention mask of a case under a reading: "full" none, "causal" causal, "any" whatever comes."""
    if reading == "full":
        return None
    if reading == "causal":
        return "causal"
    if reading == "given":
        return given if isinstance(given, np.ndarray) else _random_mask(n, rng)
    choice = int(rng.integers(3))
    return (given if isinstance(given, np.ndarray) else None, "causal", _random_mask(n, rng))[choice]


def _random_mask(n: int, rng: Generator) -> Any:
    mask = rng.uniform(size=(n, n)) < 0.6
    return mask | np.eye(n, dtype=bool)


@dataclass(frozen=True)
class Arrays(Supply):
    """Named arrays with symbolic shapes, e.g. ``Arrays({"X": "nd", "u": "n", "a": ""})``.

    `make` post-processes a drawn case (to satisfy a hypothesis by construction). Entries are multiples of 1/16, so
    that the same cases serve exact arithmetic.
    """

    shapes: Mapping[str, str]
    make: Callable[[Generator, Case], Case] | None = None
    sizes: tuple[int, ...] = (1, 2, 3, 4)
    free: tuple[str, ...] = ()
    rounds: int = 12
    plain: Mapping[str, Any] = field(default_factory=dict)

    def families(self, rng: Generator) -> Iterator[Case]:
        for round_ in range(self.rounds):
            letters = {letter: int(rng.choice(self.sizes)) for letter in "dkmn"}
            kind = ("integers", "sixteenths", "zeros", "ones", "unit", "large")[round_ % 6]
            yield self._case(
                {name: _array(rng, kind, shape, letters) for name, shape in self.shapes.items()}, rng, kind
            )

    def drawn(self, rng: Generator, origin: str) -> Case:
        """One case of any kind and size."""
        letters = {letter: int(rng.choice(self.sizes)) for letter in "dkmn"}
        kind = ("integers", "sixteenths", "zeros", "ones", "unit", "large")[int(rng.integers(6))]
        values = {name: _array(rng, kind, shape, letters) for name, shape in self.shapes.items()}
        return self._case(values, rng, kind).but(f"{origin}: {kind}")

    def draft(self, rng: Generator) -> Draft:
        letters = {letter: int(rng.choice(self.sizes)) for letter in "dkmn"}
        sizes = {name: tuple(letters[letter] for letter in shape) for name, shape in self.shapes.items()}
        drawn = {name: _sixteenths(rng, size) for name, size in sizes.items()}
        values = {name: array if array.ndim else float(array) for name, array in drawn.items()}
        return Draft(values, int(rng.integers(2**31)))

    def finished(self, draft: Draft) -> Case:
        return self._case(draft.values, np.random.default_rng(draft.seed), "drawn")

    def _case(self, values: Mapping[str, Any], rng: Generator, kind: str) -> Case:
        case = Case({**self.plain, **values}, f"arrays: {kind}")
        return self.make(rng, case) if self.make else case


def _array(rng: Generator, kind: str, shape: str, letters: Mapping[str, int]) -> Any:
    size = tuple(letters[letter] for letter in shape)
    if kind == "zeros":
        return np.zeros(size) if size else 0.0
    if kind == "ones":
        return np.ones(size) if size else 1.0
    array = np.round(16 * rng.standard_normal(size)) / 16
    if kind == "integers":
        array = rng.integers(-4, 5, size).astype(float)
    elif kind == "unit":
        array = (np.abs(array) == np.abs(array).max(initial=0.0)).astype(float)
    elif kind == "large":
        array = array * 2.0 ** int(rng.integers(4, 20))
    return array if size else float(array)


def _sixteenths(rng: Generator, size: tuple[int, ...]) -> Any:
    """Multiples of 1/16 between -8 and 8, in a third of the draws whole numbers between -2 and 2, where ties are."""
    drawn = rng.integers(-2, 3, size) * 16 if rng.integers(3) == 0 else rng.integers(-128, 129, size)
    return np.asarray(drawn / 16)


def moved(draft: Draft, rng: Generator) -> Draft:
    """The draft with one entry changed by a factor that keeps it exact in binary, or exchanged for another.

    What the supply adds is drawn as before, so that neighbours differ in that entry alone.
    """
    names = [name for name, value in draft.values.items() if isinstance(value, np.ndarray) and value.size]
    if not names:
        return draft._replace(seed=int(rng.integers(2**31)))
    name = names[int(rng.integers(len(names)))]
    array = draft.values[name].copy()
    entry, other = (int(place) for place in rng.integers(array.size, size=2))
    factor = float(rng.choice([0.0, -1.0, 0.5, 2.0]))
    array.flat[entry] = array.flat[other] if rng.integers(3) == 0 else array.flat[entry] * factor
    return Draft({**draft.values, name: array}, draft.seed)
