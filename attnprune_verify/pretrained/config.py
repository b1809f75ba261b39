"""Values of a config.json, each with the rule it must obey."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.model.rope import RoPE

__all__ = ["Config"]


class Config:
    """config.json, asked by name."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._content = content

    @property
    def family(self) -> str:
        """``model_type``."""
        return str(self._content.get("model_type"))

    def count(self, name: str, default: int | None = None) -> int:
        """An integer >= 1."""
        value = self._content.get(name)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InvalidInstance(f"config.json must give {name} as an integer >= 1; got {value!r:.60}")
        return value

    def number(self, name: str, default: float) -> float:
        """A finite number > 0."""
        value = self._content.get(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not (math.isfinite(value) and value > 0):
            raise InvalidInstance(f"config.json must give {name} as a finite number > 0; got {value!r:.60}")
        return float(value)

    def text(self, name: str, default: str) -> str:
        """A string."""
        value = self._content.get(name, default)
        if not isinstance(value, str):
            raise InvalidInstance(f"config.json must give {name} as a string; got {value!r:.60}")
        return value

    def must_be(self, name: str, wanted: object) -> None:
        """Refuse a model that needs something this package does not compute."""
        if self._content.get(name, wanted) != wanted:
            raise InvalidInstance(f"only models with {name} = {wanted!r} can be read; got {self._content[name]!r:.60}")

    def rope(self) -> RoPE:
        """The rotation, from ``rope_parameters`` (newer files) or ``rope_theta`` and ``rope_scaling``."""
        newer = self._content.get("rope_parameters")
        scaling = newer if newer is not None else self._content.get("rope_scaling")
        if scaling is not None and not isinstance(scaling, Mapping):
            raise InvalidInstance(f"config.json must give the rope scaling as an object; got {scaling!r:.60}")
        theta = self._content.get("rope_theta", 10000.0)
        if newer is not None:
            theta = newer.get("rope_theta", theta)
            scaling = {"rope_type": newer.get("type", "default"), **newer}
        return RoPE(theta, "half", scaling or None)
