"""Named readings of the choices that the text of alg:mask_gd and Section 6.1 leaves open.

The algorithm's line is ``M <- M - (eta / k) (W * sum_j X_j^T p_j X_j + lam M)``: literally, lam is divided by k too.
Section 6.1 then controls ``lam = lam~ / n``, with lam~ the strength in the loss, and sets ``eta = 0.1 / lam``. Every
reading is descent on the averaged loss with some effective strength and some step::

    reading          strength in the averaged loss    step
    theorem          lam                              the directional step, with a guarantee
    theorem-sharp    lam                              1 / (lam + C_+ K^2), with a guarantee
    literal-direct   lam / k                          0.1 / lam
    literal-tilde    n lam / k                        0.1 / lam          (the text to the letter)
    literal-norm     n lam / k                        0.1 / (n lam)      (= literal-direct at n lam)
    mean-direct      lam                              0.1 / lam
    mean-tilde       n lam                            0.1 / lam
    mean-norm        n lam                            0.1 / (n lam)
"""

from dataclasses import dataclass
from typing import Literal

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.values import as_choice

MomentumForm = Literal["heavy-ball", "ema", "nesterov"]
StepRule = Literal["directional", "sharp", "0.1/lam", "0.1/(n lam)"]


@dataclass(frozen=True)
class DescentReading:
    """One reading of the algorithm: the place of lam, and the step."""

    name: str
    step: StepRule
    times_tokens: bool = False
    """The strength in the loss is n lam: the text's lam~."""
    over_samples: bool = False
    """1/k stands in front of the regulariser as well, as the algorithm's line is printed."""

    def strength(self, lam: float, n: int, k: int) -> float:
        """The factor of 1/2 ||M||_F^2 in the averaged loss that this reading descends on."""
        return lam * (n if self.times_tokens else 1) / (k if self.over_samples else 1)

    def fixed_step(self, lam: float, n: int) -> float | None:
        """eta by the reading's rule; None for the two rules that depend on the instance.

        Raises
        ------
        InvalidInstance
            If the rule divides by lam = 0.
        """
        if self.step in ("directional", "sharp"):
            return None
        if lam == 0:
            raise InvalidInstance(f"lam must be > 0 for eta = {self.step} (reading {self.name}); got {lam}")
        return 0.1 / lam if self.step == "0.1/lam" else 0.1 / (n * lam)


_ALL = (
    DescentReading("theorem", "directional"),
    DescentReading("theorem-sharp", "sharp"),
    DescentReading("literal-direct", "0.1/lam", over_samples=True),
    DescentReading("literal-tilde", "0.1/lam", times_tokens=True, over_samples=True),
    DescentReading("literal-norm", "0.1/(n lam)", times_tokens=True, over_samples=True),
    DescentReading("mean-direct", "0.1/lam"),
    DescentReading("mean-tilde", "0.1/lam", times_tokens=True),
    DescentReading("mean-norm", "0.1/(n lam)", times_tokens=True),
)

READINGS: dict[str, DescentReading] = {reading.name: reading for reading in _ALL}


def as_reading(reading: str | DescentReading) -> DescentReading:
    """The reading of that name.

    Examples
    --------
    >>> as_reading("literal-norm").strength(0.04, n=128, k=16)
    0.32
    """
    if isinstance(reading, DescentReading):
        return reading
    return READINGS[as_choice("reading", reading, READINGS)]
