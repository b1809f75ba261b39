"""Observations of a kernel, for the search for the mistake behind them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.kernel.problem.sample import KernelSample

__all__ = ["KernelObservation"]


@dataclass(frozen=True, eq=False)
class KernelObservation:
    """Result of a function on a sample, with the arrays that are wrong."""

    sample: KernelSample
    parts: tuple[NDArray[np.float64], ...]
    wrong: tuple[int, ...]

    @property
    def failed(self) -> bool:
        return bool(self.wrong)
