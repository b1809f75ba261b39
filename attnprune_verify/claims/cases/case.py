"""A case: named values a statement is evaluated on, where they came from, and how to type them again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.instance.problem import Instance


@dataclass(frozen=True)
class Case:
    """Values by name (arrays, numbers, "causal"), and the origin: family and seed, strategy, or attack."""

    values: Mapping[str, Any]
    origin: str = ""

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def get(self, name: str, default: Any = None) -> Any:
        """The value of that name, or `default`."""
        return self.values.get(name, default)

    @property
    def size(self) -> int:
        """The number of numbers that the case holds."""
        return sum(int(getattr(value, "size", 1)) for value in self.values.values())

    def but(self, origin: str | None = None, **values: Any) -> Case:
        """Return the case with some values replaced."""
        return Case({**self.values, **values}, self.origin if origin is None else origin)

    def vector(self, names: Iterable[str]) -> NDArray[np.float64]:
        """The named arrays as one vector, for an optimiser."""
        return np.concatenate([np.ravel(np.asarray(self.values[name], dtype=np.float64)) for name in names])

    def at(self, names: Iterable[str], vector: NDArray[np.float64]) -> Case:
        """The case with the named arrays read back from a vector."""
        moved: dict[str, Any] = {}
        start = 0
        for name in names:
            old = np.asarray(self.values[name], dtype=np.float64)
            moved[name] = vector[start : start + old.size].reshape(old.shape)
            start += old.size
        return self.but(**moved)

    def as_json(self) -> dict[str, Any]:
        """Plain lists and numbers; floats keep every digit."""
        return {name: _plain(value) for name, value in self.values.items()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any], origin: str) -> Case:
        """The inverse of `as_json`."""
        return cls(
            {name: np.array(value) if isinstance(value, list) else value for name, value in values.items()}, origin
        )


def from_instance(instance: Instance, origin: str, **more: Any) -> Case:
    """A case that holds an instance's X, W, M, lam and mask, and whatever else is named."""
    values: dict[str, Any] = {"X": np.asarray(instance.X, dtype=float), "W": np.asarray(instance.W, dtype=float)}
    values |= {"M": np.asarray(instance.M_or_ones, dtype=float), "lam": instance.lam, "mask": instance.mask}
    return Case({**values, **more}, origin)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.astype(int).tolist() if value.dtype == bool else value.tolist()
    return value.item() if isinstance(value, np.generic) else value
