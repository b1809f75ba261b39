"""A torch linear layer with given weights, and its inputs as a calibration run would bring them: one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["linear", "sequences"]


def linear(weight: NDArray[Any], device: str) -> Any:
    """A `torch.nn.Linear` without bias; its weight (out, in) is a copy, since pruning changes it."""
    import torch

    rows, columns = weight.shape
    layer = torch.nn.Linear(columns, rows, bias=False, device=device)
    layer.weight.data = torch.from_numpy(np.array(weight)).to(device)
    return layer


def sequences(X: NDArray[Any], layer: Any, see: Callable[[Any, Any], object], device: str) -> None:
    """Send every sequence through a layer, each of shape (1, tokens, in); X of two dimensions goes as it is.

    `see` is called with the input and the output. The tensors share memory with X, so that who changes them is seen.
    """
    for tokens in _each(X):
        inputs = tokens.to(device)
        see(inputs, layer(inputs))


def _each(X: NDArray[Any]) -> Iterator[Any]:
    import torch

    yield from (torch.from_numpy(part) for part in ([X] if X.ndim == 2 else np.split(X, len(X))))
