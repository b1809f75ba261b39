"""A regime: samples with one purpose."""

from __future__ import annotations

from dataclasses import dataclass

from attnprune_verify.audit.kernel.problem.sample import KernelSample

__all__ = ["Regime"]


@dataclass(frozen=True)
class Regime:
    """Samples with one purpose.

    Attributes
    ----------
    required : bool
        Has to be decided before anything can pass.
    """

    name: str
    says: str
    samples: tuple[KernelSample, ...]
    required: bool = False
