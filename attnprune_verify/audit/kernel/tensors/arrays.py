"""Arrays of any framework, on any device, as float64 on the host, with the name of their type."""

from __future__ import annotations

import numpy as np

from attnprune_verify.audit.kernel.process.frameworks import framework_named
from attnprune_verify.audit.kernel.typing import Foreign
from attnprune_verify.errors import InvalidInstance


def read(name: str, value: Foreign) -> tuple[Foreign, str]:
    """Return the numbers of an array as float64, and its dtype's name.

    Raises
    ------
    InvalidInstance
        If it is no array of real numbers.

    Examples
    --------
    >>> read("q", np.ones((1, 2), np.float32))
    (array([[1., 1.]]), 'float32')
    """
    try:
        if type(value).__module__.split(".")[0] == "torch":
            return framework_named("torch", "float32").read(value)
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            value = _by_dlpack(value)
        return framework_named("numpy", "float64").read(value)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise InvalidInstance(f"{name} must be an array of real numbers; got {type(value).__name__}: {error}") from None


def read_integers(name: str, value: Foreign) -> Foreign:
    """Return an array of integers as int64.

    Raises
    ------
    InvalidInstance
        If there are other numbers in it.
    """
    numbers, _ = read(name, value)
    whole = numbers.astype(np.int64)
    if not np.array_equal(whole, numbers):
        raise InvalidInstance(f"{name} must hold integers; got {numbers[whole != numbers].ravel()[0]}")
    return whole


def _by_dlpack(value: Foreign) -> Foreign:
    """The array on the host; NumPy has neither bfloat16 nor the devices that torch has."""
    try:
        return np.from_dlpack(value)
    except (RuntimeError, BufferError, TypeError):
        torch: Foreign = __import__("torch")
        return framework_named("torch", "float32").read(torch.from_dlpack(value))[0]
