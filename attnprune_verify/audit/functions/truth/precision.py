"""The precision a subject promises: which numbers go in, and how far a right result may be off."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.errors import InvalidInstance

_LARGEST_16 = 2.0**14  # of numbers and logits asked of formats of 16 bits, some of which end at 65504


@dataclass(frozen=True)
class Precision:
    """A floating-point format.

    Attributes
    ----------
    unit_roundoff : float
        Of inputs and results; formats of 16 bits compute in float32.
    carrier : str
        The dtype of the NumPy arrays that hold its numbers (NumPy has no bfloat16).
    declared : bool
        Whether the target promised it, so that it is asked nothing finer and nothing coarser.
    """

    name: str
    unit_roundoff: float
    carrier: str
    declared: bool = False

    @property
    def short(self) -> bool:
        """True for formats of 16 bits."""
        return self.unit_roundoff > 2.0**-20

    def exact(self, values: Any) -> NDArray[Any]:
        """The nearest numbers of this format, in its carrier."""
        array = np.asarray(values, dtype=np.float64)
        if self.name == "bfloat16":
            bits = array.astype(np.float32).view(np.uint32).astype(np.int64)
            halved = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000  # to the nearest, ties to even
            return halved.astype(np.uint32).view(np.float32).astype(self.carrier)
        return array.astype(self.name).astype(self.carrier)

    def number(self, value: float) -> float:
        """The nearest number of this format."""
        return float(self.exact(value))

    def holds(self, *sizes: float) -> bool:
        """Return True where instances of this precision may hold numbers of these sizes."""
        return not self.short or all(size <= _LARGEST_16 for size in sizes)

    def covers(self, other: Precision) -> bool:
        """Return True where instances of `other` suit this target: a declared precision takes only its own."""
        return other == self or (not self.declared and other.unit_roundoff >= self.unit_roundoff)

    def carried_by(self, dtype: str) -> Precision:
        """Return the numbers in arrays of another dtype."""
        return replace(self, carrier=dtype)


FLOAT64 = Precision("float64", 2.0**-53, "float64")
FLOAT32 = Precision("float32", 2.0**-24, "float32")
PRECISIONS: dict[str, Precision] = {
    one.name: one
    for one in (
        FLOAT64,
        FLOAT32,
        Precision("bfloat16", 2.0**-8, "float32"),
        Precision("float16", 2.0**-11, "float16"),
    )
}


def near_one(precision: Precision, nearest: float = 1e-4) -> tuple[float, ...]:
    """Return the distances of masks from 1: the smallest, and one where the loss still decides in this precision."""
    return (nearest,) if precision.unit_roundoff < 2.0**-40 else (1e-4, 3e-2)


def precision_named(name: str | None) -> Precision:
    """The precision a target declares; without one, float64.

    Raises
    ------
    InvalidInstance
        If there is no such precision.
    """
    if name is None:
        return FLOAT64
    if name not in PRECISIONS:
        raise InvalidInstance(f"dtype must be one of {', '.join(PRECISIONS)}; got {name!r}")
    return replace(PRECISIONS[name], declared=True)
