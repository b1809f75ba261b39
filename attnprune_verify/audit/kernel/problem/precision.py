"""The four precisions a kernel may promise: what its inputs, its sums and its stored intermediates are rounded to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.kernel.problem.recipe import WIDE_UNITS, Recipe, Storage
from attnprune_verify.errors import InvalidInstance

Array = NDArray[np.float64]


@dataclass(frozen=True)
class KernelPrecision:
    """A type of inputs, and the type in which an honest kernel adds.

    Attributes
    ----------
    unit : float
        Unit roundoff of the inputs' type; probabilities, dp, ds and outputs may be rounded to it.
    sums : float
        Unit roundoff of logits, softmax and sums: float32's for the 16-bit types, else `unit`.
    tiny, tiny_sums : float
        The smallest normal numbers of the two.
    reach : float
        A power of two that inputs may be scaled by without leaving the type.
    exp : float
        By how many units of `sums` exp may err.
    flushes : bool
        Whether stored numbers below `tiny` may become 0; inputs and sums always may.
    recipe : Recipe or None
        What is stored in eight bits.
    storage : Storage
        How the numbers of a sample stand to the recipe.
    """

    name: str
    unit: float
    sums: float
    tiny: float
    tiny_sums: float
    reach: float
    exp: float = 64.0
    flushes: bool = True
    recipe: Recipe | None = None
    storage: Storage = Storage()

    @property
    def lost(self) -> float:
        """The most that a number loses to underflow when it is stored: half of the smallest subnormal one, or all."""
        return self.tiny if self.flushes else self.tiny * self.unit

    @property
    def stored(self) -> float:
        """Rounding of a stored intermediate: nothing extra where sums have the inputs' precision."""
        return self.unit if self.unit > self.sums else 0.0

    def laid_down(self, values: Array) -> NDArray[Any]:
        """Numbers of this type as they lie in memory, bfloat16 as its 16 bits."""
        if self.name == "bfloat16":
            return (values.astype(np.float32, order="C").view(np.uint32) >> 16).astype(np.uint16)
        return np.ascontiguousarray(values, self.name)

    def exact(self, values: Any) -> Array:
        """The nearest numbers of this type, as float64."""
        array = np.asarray(values, dtype=np.float64)
        if self.name == "bfloat16":
            bits = array.astype(np.float32).view(np.uint32)
            bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
            return bits.view(np.float32).astype(np.float64)
        if self.name == "tfloat32":
            bits = (array.astype(np.float32).view(np.uint32) + 0x1000) & np.uint32(0xFFFFE000)
            return bits.view(np.float32).astype(np.float64)
        return array.astype(np.dtype(self.name)).astype(np.float64)


def _lower(name: str, digits: int, least: int = -126) -> KernelPrecision:
    """Round everything to a number of digits, exp to the nearest."""
    return replace(_precision(name, digits, least), exp=2.0)


def _precision(
    name: str, digits: int, least: int, sums: tuple[int, int] | None = None, reach: int = 20
) -> KernelPrecision:
    digits_of_sums, least_of_sums = sums or (digits, least)
    return KernelPrecision(name, 2.0**-digits, 2.0**-digits_of_sums, 2.0**least, 2.0**least_of_sums, 2.0**reach)


_SINGLE = (24, -126)  # float32: bits of the significand, least normal exponent (IEEE 754)
PRECISIONS: dict[str, KernelPrecision] = {
    "float64": _precision("float64", 53, -1022),
    "float32": _precision("float32", *_SINGLE),
    "bfloat16": _precision("bfloat16", 8, -126, _SINGLE),
    # Weights of some thousand keys are subnormal here; checks/subnormal_weights.py sees which kernels lose them.
    "float16": replace(_precision("float16", 11, -14, _SINGLE, reach=5), flushes=False),
}
# In what a kernel that keeps too few digits may have computed, finest first.
_TFLOAT32, _BFLOAT16 = _lower("tfloat32", 11), _lower("bfloat16", 8)
LOWER: dict[str, tuple[KernelPrecision, ...]] = {
    "float64": (_lower("float32", 24), _TFLOAT32, _BFLOAT16),
    "float32": (_TFLOAT32, _BFLOAT16),
    "bfloat16": (_BFLOAT16,),
    "float16": (_lower("float16", 11, -14), _BFLOAT16),
}

_SPOKEN = {"half": "float16", "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "double": "float64"}


def precision_named(name: str) -> KernelPrecision:
    """The precision with this name.

    Raises
    ------
    InvalidInstance
        If there is none.

    Examples
    --------
    >>> precision_named("bfloat16").exact([1.0, 1.001, 1.005]).tolist()
    [1.0, 1.0, 1.0078125]
    """
    if name not in PRECISIONS:
        written = getattr(name, "__name__", str(name)).removeprefix("torch.")  # a type of NumPy, jax or torch
        meant = _SPOKEN.get(written, written)
        hint = f": write {meant!r}" if meant in PRECISIONS else ""
        raise InvalidInstance(f"dtype must be one of {', '.join(PRECISIONS)}; got {name!r}{hint}")
    return PRECISIONS[name]


def of_recipe(name: str, recipe: Recipe, storage: Storage) -> KernelPrecision:
    """The precision of a kernel with a recipe: sums in float32, and the lines of the recipe."""
    wide = PRECISIONS[recipe.o if recipe.o in WIDE_UNITS else "bfloat16"]
    return replace(wide, name=name, recipe=recipe, storage=storage)
