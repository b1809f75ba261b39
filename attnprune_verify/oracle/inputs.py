"""Arguments of the oracles: shapes checked, batches and attention masks brought to one form. No mathematics here.

Every oracle takes an `OracleInput`: a point, and all that the loss there depends on, in the numbers given. The
fused weight is a layer of one head whose keys are the tokens themselves. How heads, groups and rotations make logits
of it, each oracle works out for itself; they share only `frequency`, which says what a layer's numbers mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.mask import Mask, MaskLike, as_mask
from attnprune_verify.instance.problem import Instance, LayerInstance
from attnprune_verify.instance.validate import check_shapes

_Matrix = NDArray[Any]
_ONE = ("d", "d")
_QUERY, _KEY = ("d", "heads*m"), ("d", "kv_heads*m")
_FORMS = {
    "X": ("n", "d"),
    **dict.fromkeys(("W", "M", "V"), _ONE),
    **dict.fromkeys(("W_Q", "M_Q", "V_Q"), _QUERY),
    **dict.fromkeys(("W_K", "M_K", "V_K"), _KEY),
}


class LayerLike(Protocol):
    """Attributes that the oracles read of a layer; the layer's methods are never used."""

    W_Q: Any
    W_K: Any
    b_Q: Any
    b_K: Any
    heads: int
    kv_heads: int
    scale: float
    rope: Any
    mask: Any
    window: int | None
    softcap: float | None
    alibi: Any


class OracleInput(NamedTuple):
    """A point and the loss around it: `masks` and `weights` are (M,) and (W,), or (M_Q, M_K) and (W_Q, W_K)."""

    masks: tuple[_Matrix, ...]
    weights: tuple[_Matrix, ...]
    samples: _Matrix  # (k, n, d)
    allowed: NDArray[np.bool_]  # (n, n)
    lam: Any = 0.0
    heads: int = 1
    kv_heads: int = 1
    scale: float = 1.0
    biases: tuple[Any, ...] = (None, None)
    rope: Any = None
    softcap: float | None = None
    alibi: Any = None
    scores: tuple[object, ...] = ()

    @property
    def moves_keys(self) -> bool:
        """True where the keys have weights; without them the keys are the tokens."""
        return len(self.weights) == 2

    @property
    def m(self) -> int:
        """Features of one head's queries and keys."""
        return int(self.weights[0].shape[1]) // self.heads

    @property
    def logits(self) -> int:
        """Number of allowed logits over all samples and heads."""
        return len(self.samples) * self.heads * int(self.allowed.sum())

    @property
    def products(self) -> int:
        """Multiplications of one evaluation, with its derivative's."""
        k, n, d = self.samples.shape
        return int(k * n * (d * sum(W.shape[1] for W in self.weights) + self.heads * n * self.m))

    @property
    def size(self) -> int:
        """Number of entries of the gradient."""
        return sum(M.size for M in self.masks)

    def floats(self) -> OracleInput:
        """Return the problem with all arrays in float64, which holds float32 exactly."""
        floats = [tuple(np.asarray(part, dtype=np.float64) for part in parts) for parts in (self.masks, self.weights)]
        biases = tuple(None if b is None else np.asarray(b, dtype=np.float64) for b in self.biases)
        return self._replace(masks=floats[0], weights=floats[1], samples=self.samples.astype(np.float64), biases=biases)

    def directions(self, *given: ArrayLike) -> tuple[_Matrix, ...]:
        """Arrays of the masks' shapes.

        Raises
        ------
        InvalidInstance
            If there are more or fewer of them, or a shape differs.
        """
        arrays = tuple(np.asarray(part) for part in given)
        if [part.shape for part in arrays] != [M.shape for M in self.masks]:
            wanted, got = (", ".join(str(part.shape) for part in parts) for parts in (self.masks, arrays))
            raise InvalidInstance(f"directions and gradients must have the shape of the masks, {wanted}; got {got}")
        return arrays

    def flat(self, parts: Sequence[ArrayLike]) -> NDArray[np.float64]:
        """Arrays of the masks' shapes, one after another."""
        return np.concatenate([np.asarray(part, dtype=np.float64).ravel() for part in self.directions(*parts)])

    def parted(self, vector: NDArray[Any]) -> list[NDArray[Any]]:
        """The inverse of `flat`."""
        ends = np.cumsum([M.size for M in self.masks])
        return [part.reshape(M.shape) for part, M in zip(np.split(vector, ends[:-1]), self.masks, strict=True)]


def fused(M: ArrayLike, X: ArrayLike, W: ArrayLike, lam: Any = 0.0, mask: MaskLike = None) -> OracleInput:
    """The paper's problem, logits X (M * W) X^T; no number is converted.

    Raises
    ------
    InvalidInstance
        If shapes disagree or a row of `mask` allows nothing.
    """
    return _problem({"M": M, "X": X, "W": W}, mask, lam=lam)


def pair(
    M_Q: ArrayLike, M_K: ArrayLike, X: ArrayLike, W_Q: ArrayLike, W_K: ArrayLike, lam: Any = 0.0, mask: MaskLike = None
) -> OracleInput:
    """Logits X (M_Q * W_Q)(M_K * W_K)^T X^T (eq:new_loss)."""
    arrays = {"M_Q": M_Q, "M_K": M_K, "X": X, "W_Q": W_Q, "W_K": W_K}
    if np.shape(W_Q) != np.shape(W_K):
        check_shapes({**_FORMS, **dict.fromkeys(arrays, ("d", "m")), "X": ("n", "d")}, _arrays(arrays))
    return _problem(arrays, mask, lam=lam)


def layered(
    layer: LayerLike, M_Q: ArrayLike | None, M_K: ArrayLike | None, X: ArrayLike, lam: Any = 0.0
) -> OracleInput:
    """The problem of a layer (any object with its attributes); masks of None stand for all ones."""
    masks = {
        name: np.ones(np.shape(W)) if M is None else M
        for name, M, W in (("M_Q", M_Q, layer.W_Q), ("M_K", M_K, layer.W_K))
    }
    return _problem(
        {"X": X, "W_Q": layer.W_Q, "W_K": layer.W_K, **masks},
        layer.mask,
        layer.window,
        **_options(_without_scores(layer)),
        lam=lam,
    )


def posed(instance: Instance | LayerInstance, *, scores: bool = False) -> OracleInput:
    """The problem of an instance at its masks (ones where it has none); nothing is checked again.

    Raises
    ------
    InvalidInstance
        If the layer has `scores`, except for a caller that passes over the oracles without their formulas.
    """
    n, lam = instance.n, instance.lam
    if isinstance(instance, Instance):
        return OracleInput(
            (instance.M_or_ones,), (instance.W,), instance.samples, _allowed(instance.mask, None, n), lam
        )
    layer = instance.layer if scores else _without_scores(instance.layer)
    allowed = _allowed(layer.mask, layer.window, n)
    weights = layer.W_Q, layer.W_K
    return OracleInput(instance.masks_or_ones, weights, instance.samples, allowed, lam, **_options(layer))


def frequency(rope: Any, pair: int, m: int, number: Callable[[Any], Any] = float, pi: Any = math.pi) -> Any:
    """The angle by which one position turns a pair of features, in any arithmetic: `number` makes its numbers.

    theta^(-2 pair / m); scaled layers slow long waves down by `factor`: all of them, or (Llama 3) those that make
    fewer than `low_freq_factor` turns within the original context, in full, and up to `high_freq_factor`, in part.
    """
    fast = number(rope.theta) ** (-(number(2 * pair) / number(m)))
    if rope.scaling is None:
        return fast
    slow = fast / number(rope.scaling["factor"])
    if rope.scaling["rope_type"] == "linear":
        return slow
    keys = ("low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    low, high, original = (number(rope.scaling[key]) for key in keys)
    kept = (original * fast / (2 * pi) - low) / (high - low)
    if kept >= 1:
        return fast
    return slow if kept <= 0 else kept * fast + (1 - kept) * slow


def _without_scores(layer: LayerLike) -> LayerLike:
    """The layer itself, if no formula of its scores is needed."""
    if scores := getattr(layer, "scores", ()):
        raise InvalidInstance(f"a layer must have no scores here, only `judge_gradient` passes them on; got {scores}")
    return layer


def _options(layer: LayerLike) -> dict[str, Any]:
    names = ("heads", "kv_heads", "scale", "rope", "softcap", "alibi")
    more = {"biases": (layer.b_Q, layer.b_K), "scores": getattr(layer, "scores", ())}
    return {name: getattr(layer, name) for name in names} | more


def _arrays(named: dict[str, ArrayLike]) -> dict[str, _Matrix]:
    return {name: np.asarray(value) for name, value in named.items()}


def _problem(named: dict[str, Any], mask: MaskLike, window: int | None = None, **options: Any) -> OracleInput:
    arrays = _arrays(named)
    n = check_shapes(_FORMS, arrays)["n"]
    allowed = _allowed(as_mask(mask, n).stated, window, n)
    X = arrays["X"]
    masks, weights = (tuple(arrays[name] for name in arrays if name[0] == letter) for letter in "MW")
    if len(masks) == 2:
        masks, weights = ((arrays[f"{letter}_Q"], arrays[f"{letter}_K"]) for letter in "MW")
    return OracleInput(masks, weights, X if X.ndim == 3 else X[np.newaxis], allowed, **options)


def _allowed(mask: Any, window: int | None, n: int) -> NDArray[np.bool_]:
    """Return the (n, n) table of allowed positions, built from the mask as stated and not by the model's code."""
    if mask is None:
        allowed = np.ones((n, n), dtype=bool)
    elif isinstance(mask, str):
        allowed = np.tri(n, dtype=bool)
    else:
        allowed = mask.allowed(n) if isinstance(mask, Mask) else np.asarray(mask) == 1
    if window is not None:
        distance = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
        allowed = allowed & (distance < window)
    return allowed
