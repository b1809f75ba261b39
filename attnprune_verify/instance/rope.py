"""Rotary position embedding: token i's queries and keys are turned by R_i before their dot product.

In a pair of features with frequency w, R_i turns by the angle i w. Since R_i^T R_j = R_{j-i}, a logit depends on the
positions only through their difference: q_i R_{j-i} k_j^T in the row convention of this package.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.frozen import Frozen
from attnprune_verify.instance.validate import Array
from attnprune_verify.values import as_choice, as_number

Layout: TypeAlias = Literal["half", "interleaved"]

_LLAMA3 = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
_SCALINGS = {"default": (), "linear": ("factor",), "llama3": _LLAMA3}


class RoPE(Frozen):
    """Rotary position embedding: the rotation of queries and keys by position.

    ::

        w_a = theta^(-2a/m),  a = 0 .. m/2 - 1,     token i turns pair a by the angle i w_a

    Parameters
    ----------
    theta : float
        The base, > 1 (``rope_theta`` of a config file).
    layout : "half" or "interleaved"
        Which features form pair a: (a, a + m/2) as in Hugging Face's Llama files, or (2a, 2a + 1) as in Meta's. The two
        are the same map after a permutation of the weight's columns.
    scaling : mapping, optional
        As ``rope_scaling`` of a config file. ``rope_type`` "linear" divides every frequency by `factor`. "llama3" (with
        `factor`, `low_freq_factor`, `high_freq_factor`, `original_max_position_embeddings`) does so where fewer than
        `low_freq_factor` full turns fit into the original context, nothing above `high_freq_factor` turns, and
        interpolates between.

    Raises
    ------
    InvalidInstance
        If a value is missing, unknown or out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> RoPE(100.0).frequencies(4)
    array([1. , 0.1])
    >>> RoPE(100.0).rotate(np.array([[1.0, 0.0], [1.0, 0.0]])).round(4)  # angles 0 and 1
    array([[1.    , 0.    ],
           [0.5403, 0.8415]])
    """

    theta: float
    layout: Layout
    scaling: Mapping[str, Any] | None

    def __init__(
        self, theta: float = 10000.0, layout: Layout = "half", scaling: Mapping[str, Any] | None = None
    ) -> None:
        self._checked(theta, layout, scaling, ("theta", "layout", "scaling"))

    @classmethod
    def of_file(
        cls, theta: float, layout: str = "half", scaling: Any = None, *, scaling_name: str = "rope_scaling"
    ) -> RoPE:
        """Return the rotation given by the fields of an instance or config file; errors use the file's names.

        Examples
        --------
        >>> RoPE.of_file(0.5)
        Traceback (most recent call last):
            ...
        attnprune_verify.errors.InvalidInstance: rope_theta must be finite and > 1; got 0.5
        """
        return cls.__new__(cls)._checked(theta, layout, scaling, ("rope_theta", "rope_layout", scaling_name))

    def _checked(self, theta: float, layout: str, scaling: Any, names: tuple[str, str, str]) -> Self:
        as_choice(names[1], layout, get_args(Layout))
        checked = _checked_scaling(names[2], scaling)
        return self._keep(theta=_above(names[0], theta, 1.0), layout=layout, scaling=checked)

    def __reduce__(self) -> tuple[type[RoPE], tuple[Any, ...]]:
        """Copies and pickles are made anew: a read-only mapping has no other way into them."""
        return RoPE, (self.theta, self.layout, None if self.scaling is None else dict(self.scaling))

    def __repr__(self) -> str:
        scaling = "" if self.scaling is None else f", scaling={dict(self.scaling)}"
        return f"RoPE({self.theta}, {self.layout!r}{scaling})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RoPE):
            return NotImplemented
        return (self.theta, self.layout, self.scaling) == (other.theta, other.layout, other.scaling)

    def __hash__(self) -> int:
        return hash((self.theta, self.layout))

    def frequencies(self, m: int) -> NDArray[np.float64]:
        """The angle by which one position turns each pair of m features; (m/2,), radians."""
        if m < 2 or m % 2:
            raise InvalidInstance(f"with RoPE the head size m must be even and >= 2; got {m}")
        w = self.theta ** (-np.arange(0, m, 2) / m)
        if self.scaling is None:
            return w
        factor = float(self.scaling["factor"])
        if self.scaling["rope_type"] == "linear":
            return w / factor
        low, high, original = (float(self.scaling[key]) for key in _LLAMA3[1:])
        turns = original * w / (2 * math.pi)  # full turns within the context the model was first trained on
        kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
        return np.asarray(kept * w + (1 - kept) * w / factor)

    def pairs(self, m: int) -> tuple[slice, slice]:
        """The columns that hold the first and the second features of the pairs."""
        if self.layout == "half":
            return slice(0, m // 2), slice(m // 2, m)
        return slice(0, m, 2), slice(1, m, 2)

    def rotate(self, rows: Array, *, back: bool = False, start: int = 0) -> Array:
        """Turn row i of each (n, m) matrix by R_i (``rows_i R_i^T``), or back by R_i^T (``rows_i R_i``).

        The first row is token `start`.
        """
        return self.turn(rows, np.arange(start, start + rows.shape[-2]), back=back)

    def turn(self, rows: Array, positions: NDArray[np.integer[Any]], *, back: bool = False) -> Array:
        """Rotate rows that belong to the tokens at these positions."""
        m = rows.shape[-1]
        angles = positions[:, np.newaxis] * self.frequencies(m)
        cos, sin = np.cos(angles).astype(rows.dtype), np.sin(angles).astype(rows.dtype)
        if back:
            sin = -sin
        first, second = self.pairs(m)
        turned = np.empty_like(rows)
        turned[..., first] = rows[..., first] * cos - rows[..., second] * sin
        turned[..., second] = rows[..., first] * sin + rows[..., second] * cos
        return turned


def _checked_scaling(name: str, scaling: Any) -> Mapping[str, Any] | None:
    if scaling is None:
        return None
    if not isinstance(scaling, Mapping):
        raise InvalidInstance(f"{name} must be None or a mapping as in a config file; got {scaling!r:.80}")
    kind = scaling.get("rope_type", scaling.get("type"))
    if not isinstance(kind, str) or kind not in _SCALINGS:
        raise InvalidInstance(f"rope_type of {name} must be one of {', '.join(_SCALINGS)}; got {kind!r:.60}")
    missing = [key for key in _SCALINGS[kind] if key not in scaling]
    if missing:
        raise InvalidInstance(f"{name} of type {kind} needs {', '.join(_SCALINGS[kind])}; missing {', '.join(missing)}")
    if kind == "default":
        return None
    checked: dict[str, Any] = {"rope_type": kind}
    checked |= {key: _above(key, scaling[key], 0.0) for key in _SCALINGS[kind]}
    if kind == "llama3" and not checked["low_freq_factor"] < checked["high_freq_factor"]:
        low, high = checked["low_freq_factor"], checked["high_freq_factor"]
        raise InvalidInstance(f"low_freq_factor must be below high_freq_factor; got {low} and {high}")
    return MappingProxyType(checked)


def _above(name: str, value: object, least: float) -> float:
    return as_number(name, value, f"> {least:g}", lambda number: least < number < math.inf)
