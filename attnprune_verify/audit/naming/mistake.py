"""What a known mistake is: an id, and the steps of the right formula that it replaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from attnprune_verify.audit.layer.formulas import LAYER_STEPS, SHARED
from attnprune_verify.audit.layer.sample import LAYERED
from attnprune_verify.audit.truth.formulas import Array

__all__ = ["HVP", "Mistake"]

HVP = ("hessian_vector_product",)


@dataclass(frozen=True, eq=False)
class Mistake:
    """A wrong formula: the right one with `steps` exchanged; `alone`: not tried together with another."""

    id: str
    steps: dict[str, Callable[..., Array]]
    detail: str = ""
    only: tuple[str, ...] = field(default=())
    alone: bool = False

    def applies(self, function: str) -> bool:
        if function in LAYERED and not set(self.steps) <= {*SHARED, *LAYER_STEPS, "bias_of"}:
            return False
        return not self.only or function in self.only
