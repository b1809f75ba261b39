"""Result of a descent, and its trace."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from attnprune_verify.algorithms.readings import DescentReading, MomentumForm
from attnprune_verify.instance.validate import Array


@dataclass(frozen=True)
class Trace:
    """Values at the iterates M_0, ..., M_T; every array has T + 1 entries but `step`, which has T.

    Attributes
    ----------
    loss : (T + 1,) array
        The loss of the reading: averaged attention term + strength/2 ||M||_F^2.
    gradient_norm : (T + 1,) array
        ||g||_F.
    mask_norm : (T + 1,) array
        ||M||_F.
    least, greatest : (T + 1,) arrays
        Extremes of M; M leaves the box [0, 1] when one of them is outside.
    outside : (T + 1,) array
        Number of entries of M outside [0, 1].
    step : (T,) array
        The eta of each step.
    precision : float
        Unit in the last place of 1 in the arithmetic of the run.
    """

    loss: Array
    gradient_norm: Array
    mask_norm: Array
    least: Array
    greatest: Array
    outside: Array
    step: Array
    precision: float

    @property
    def ascents(self) -> int:
        """Number of steps in which the loss rose (by more than rounding): 0 for a step with a guarantee."""
        return int(np.count_nonzero(np.diff(self.loss) > 100 * self.precision * np.abs(self.loss[:-1])))


@dataclass(frozen=True)
class Settings:
    """Settings that, with the data, determine a run."""

    rho: float
    lam: float
    reading: DescentReading
    eta: float | None
    momentum: float
    momentum_form: MomentumForm
    project: bool


@dataclass(frozen=True)
class Descent:
    """The result of `prune_mask_gd`.

    Attributes
    ----------
    mask : (d, d) array of 0 and 1
        1 = kept; exactly floor(rho d^2) zeros.
    M : (d, d) array
        The last finite iterate.
    velocity : (d, d) array
        The momentum term, needed to resume.
    trace : Trace
    status : "completed", "stationary" or "diverged"
        "stationary" if gradient and velocity are exactly 0, so that M never moves again.
    message : str
        The status in words, with numbers.
    settings : Settings
    """

    mask: Array
    M: Array
    velocity: Array
    trace: Trace
    status: Literal["completed", "stationary", "diverged"]
    message: str
    settings: Settings

    def __repr__(self) -> str:
        d, zeros = len(self.mask), int((self.mask == 0).sum())
        return f"<descent of {d} x {d}: {self.message}; {zeros} of {self.mask.size} pruned>"

    @property
    def steps(self) -> int:
        """Steps taken so far, over all resumed runs."""
        return len(self.trace.step)
