"""Building parts of blocks: linear maps in the layout of files, norms, pointwise functions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array


@dataclass(frozen=True)
class Linear:
    """``x W^T + b`` with W (out, in), as files store it."""

    weight: Array
    bias: Array | None = None

    def __call__(self, rows: Array) -> Array:
        product: Array = rows @ self.weight.T
        if self.bias is not None:
            product += self.bias
        return product


class Norm(Protocol):
    """Interface of the norm before or after each half of a block."""

    def __call__(self, rows: Array) -> Array:
        """Normalise every row by itself; (..., d) -> (..., d)."""

    def pull_back(self, rows: Array, upstream: Array) -> Array:
        """The transposed derivative at `rows`: gradient at the output -> gradient at the input."""


@dataclass(frozen=True)
class RMSNorm:
    """``w x / sqrt(mean(x^2) + eps)``."""

    weight: Array
    eps: float

    def __call__(self, rows: Array) -> Array:
        normed: Array = rows / self._size(rows) * self.weight
        return normed

    def pull_back(self, rows: Array, upstream: Array) -> Array:
        size = self._size(rows)
        return _along_the_norm(rows / size, upstream * self.weight) / size

    def _size(self, rows: Array) -> Array:
        size: Array = np.sqrt(np.square(rows).mean(axis=-1, keepdims=True) + rows.dtype.type(self.eps))
        return size


@dataclass(frozen=True)
class LayerNorm:
    """``w (x - mean) / sqrt(mean((x - mean)^2) + eps) + b``."""

    weight: Array
    bias: Array
    eps: float

    def __call__(self, rows: Array) -> Array:
        centred, spread = self._parts(rows)
        normed: Array = centred / spread * self.weight + self.bias
        return normed

    def pull_back(self, rows: Array, upstream: Array) -> Array:
        centred, spread = self._parts(rows)
        inner = _along_the_norm(centred / spread, upstream * self.weight) / spread
        pulled: Array = inner - inner.mean(axis=-1, keepdims=True)
        return pulled

    def _parts(self, rows: Array) -> tuple[Array, Array]:
        centred = rows - rows.mean(axis=-1, keepdims=True)
        spread = np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + rows.dtype.type(self.eps))
        return centred, spread


def _along_the_norm(unit: Array, scaled: Array) -> Array:
    """Return the part of a gradient at x / size(x) that is orthogonal to x, up to eps; the norm removes the rest."""
    remains: Array = scaled - unit * (unit * scaled).mean(axis=-1, keepdims=True)
    return remains


@dataclass(frozen=True)
class Activation:
    """A pointwise function and its derivative."""

    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]

    def __call__(self, rows: Array) -> Array:
        return self.value(rows)


def _erf(x: Array) -> Array:
    from scipy.special import erf  # a quarter of what the program takes to start

    return np.asarray(erf(x))


def _sigmoid(x: Array) -> Array:
    from scipy.special import expit

    return np.asarray(expit(x))


def activation(name: str) -> Activation:
    """The pointwise function `hidden_act` of a config file names."""
    if name not in _ACTIVATIONS:
        raise InvalidInstance(f"hidden_act must be one of {', '.join(_ACTIVATIONS)}; got {name!r:.60}")
    return _ACTIVATIONS[name]


def _gelu(x: Array) -> Array:
    return np.asarray(x * (_erf(x / np.sqrt(2.0).astype(x.dtype)) + 1) / 2)


def _gelu_slope(x: Array) -> Array:
    density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi).astype(x.dtype)
    return np.asarray((_erf(x / np.sqrt(2.0).astype(x.dtype)) + 1) / 2 + x * density)


_CUBE = 0.044715  # of GELU's tanh form, Hendrycks and Gimpel 2016


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(x * (1 + _tanh_of(x)) / 2)


def _gelu_tanh_slope(x: Array) -> Array:
    tanh, turn = _tanh_of(x), np.sqrt(2 / np.pi).astype(x.dtype) * (1 + x.dtype.type(3 * _CUBE) * x * x)
    return np.asarray((1 + tanh) / 2 + x * (1 - tanh * tanh) * turn / 2)


def _tanh_of(x: Array) -> Array:
    return np.asarray(np.tanh(np.sqrt(2 / np.pi).astype(x.dtype) * (x + x.dtype.type(_CUBE) * x**3)))


_ACTIVATIONS: dict[str, Activation] = {
    "gelu": Activation(_gelu, _gelu_slope),
    "gelu_new": Activation(_gelu_tanh, _gelu_tanh_slope),
    "gelu_pytorch_tanh": Activation(_gelu_tanh, _gelu_tanh_slope),
    "relu": Activation(lambda x: np.maximum(x, 0), lambda x: (x > 0).astype(x.dtype)),
    "silu": Activation(lambda x: x * _sigmoid(x), lambda x: _sigmoid(x) * (1 + x * _sigmoid(-x))),
}
