"""Problems: validated instances, their files, named families."""

from collections.abc import Callable

__all__ = ["awaited"]

awaited: list[Callable[[type], None]] = []
"""Called with `Instance` as soon as it is defined, by whom it is no reason to load NumPy."""
