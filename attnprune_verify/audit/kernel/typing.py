"""Names for types that belong to somebody else: arrays of any framework, callables, data of a report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Foreign: TypeAlias = Any
"""An array, a tensor, a framework's module: what it can do, only calls tell."""
Call: TypeAlias = Callable[..., Foreign]
Deferred: TypeAlias = Callable[[], Foreign]
Plain: TypeAlias = dict[str, Foreign]
"""Texts, numbers, lists and mappings, as JSON has them."""
Numbers: TypeAlias = NDArray[np.generic]
