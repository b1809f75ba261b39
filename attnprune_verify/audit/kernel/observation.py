"""What was seen of a kernel, for those who look for the mistake behind it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.kernel.sample import Sample

__all__ = ["Observation"]


@dataclass(frozen=True, eq=False)
class Observation:
    """What a function returned on a sample, and which of its arrays are wrong."""

    sample: Sample
    parts: tuple[NDArray[np.float64], ...]
    wrong: tuple[int, ...]

    @property
    def failed(self) -> bool:
        return bool(self.wrong)
