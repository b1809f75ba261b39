"""JSON that every parser accepts: non-finite numbers become the strings "inf", "-inf" and "nan"."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["dumps", "plain"]


def plain(value: Any) -> Any:
    """Turn mappings, sequences, NumPy scalars and arrays into what JSON knows.

    Examples
    --------
    >>> plain({"T": float("inf"), "shape": (2, np.int64(3))})
    {'T': 'inf', 'shape': [2, 3]}
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def dumps(value: Any) -> str:
    """Strict, indented JSON with a final newline; keys keep their order."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
