"""One instance of the problem, validated once: a fused weight (`Instance`) or a layer (`LayerInstance`)."""

from __future__ import annotations

from copy import copy
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance import awaited
from attnprune_verify.instance.frozen import Frozen
from attnprune_verify.instance.layer import AttentionLayer, as_layer
from attnprune_verify.instance.mask import Mask, MaskLike, as_mask
from attnprune_verify.instance.validate import Array, as_real, as_reals, check_shapes
from attnprune_verify.values import as_lam


class _OnTokens(Frozen):
    """Sizes of a problem on tokens X, (n, d) or (k, n, d)."""

    X: Array

    @property
    def n(self) -> int:
        """Number of tokens."""
        return int(self.X.shape[-2])

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.X.shape[-1])

    @property
    def k(self) -> int | None:
        """Number of samples in the batch; None for a single X."""
        return int(self.X.shape[0]) if self.X.ndim == 3 else None

    @property
    def sizes(self) -> dict[str, Any]:
        """Numbers of tokens, features and samples by letter; a layer's of heads and their features too."""
        return {"n": self.n, "d": self.d, "k": self.k or 1}

    @property
    def samples(self) -> Array:
        """X as a batch (k, n, d), also when it is a single sample."""
        return self.X if self.X.ndim == 3 else self.X[np.newaxis]


class Instance(_OnTokens):
    """The data of the problem: tokens, fused weight, pruning mask, attention mask and regularisation.

    The problem (def:attn_prun, def:attn_prun_causal)::

        L(M) = 1/2 ||softmax(X (M * W) X^T) - softmax(X W X^T)||_F^2 + (lam / 2) ||M||_F^2

    with the softmax taken row by row over the positions that `mask` allows. Over a batch of k samples the first
    term is averaged.

    Parameters
    ----------
    X : (n, d) or (k, n, d) array
        Tokens by features; one sample or a batch.
    W : (d, d) array, optional
        The fused weight. Give either `W` or both `W_Q` and `W_K`.
    W_Q, W_K : (d, m) arrays, optional
        Fused as ``W = W_Q @ W_K.T``.
    M : (d, d) array, optional
        The pruning mask; entries outside [0, 1] are legal, gradient descent goes there.
    mask : None, "causal", (n, n) array of 0 and 1, or Mask
        The attention mask; None allows every position, "causal" allows i >= j (def:mask).
    lam : float
        Regularisation strength, >= 0.

    Attributes
    ----------
    visible : Mask
        `mask` as a type; `mask` itself stays as it was stated.

    Raises
    ------
    InvalidInstance
        If shapes disagree (all disagreements are listed), anything is empty, non-finite or not real, a row of
        `mask` allows nothing, or lam < 0.

    Examples
    --------
    >>> import numpy as np
    >>> instance = Instance(np.eye(2), 0.1 * np.array([[1, -1], [-1, 1]]), mask="causal")
    >>> instance
    Instance(n=2, d=2, k=None, mask='causal', lam=0.0, dtype=float64)
    """

    X: Array
    W: Array
    W_Q: Array | None
    W_K: Array | None
    M: Array | None
    mask: Any
    visible: Mask
    lam: float

    def __init__(
        self,
        X: ArrayLike,
        W: ArrayLike | None = None,
        *,
        W_Q: ArrayLike | None = None,
        W_K: ArrayLike | None = None,
        M: ArrayLike | None = None,
        mask: MaskLike = None,
        lam: float = 0.0,
    ) -> None:
        pair = W_Q is not None and W_K is not None
        if (W is None) != pair or (not pair and (W_Q is not None or W_K is not None)):
            given = [name for name, value in (("W", W), ("W_Q", W_Q), ("W_K", W_K)) if value is not None]
            raise InvalidInstance(f"give either W, or both W_Q and W_K; got {', '.join(given) or 'none of them'}")
        named = {"X": X, "W": W, "W_Q": W_Q, "W_K": W_K, "M": M}
        named = {name: value for name, value in named.items() if name == "X" or value is not None}
        arrays = dict(zip(named, as_reals(**named), strict=True))
        sizes = check_shapes(_FORMS, arrays)
        if pair:
            with np.errstate(over="ignore", invalid="ignore"):
                arrays["W"] = arrays["W_Q"] @ arrays["W_K"].T
            if not np.isfinite(arrays["W"]).all():
                raise InvalidInstance(f"the fused weight W_Q W_K^T must be finite; it overflows {arrays['W'].dtype}")
        visible = as_mask(mask, sizes["n"])
        self._keep(**{name: arrays.get(name) for name in ("X", "W", "W_Q", "W_K", "M")})
        self._keep(visible=visible, mask=visible.stated, lam=as_lam(lam))

    @property
    def allowed(self) -> NDArray[np.bool_]:
        """The attention mask as an (n, n) boolean array."""
        return self.visible.allowed(self.n)

    @property
    def mask_kind(self) -> Literal["causal", "given"] | None:
        """Kind of the attention mask as stated: None, "causal" or "given"."""
        return self.visible.kind

    @property
    def weights(self) -> tuple[Array, ...]:
        """The weights that masks prune, (W,)."""
        return (self.W,)

    @property
    def masks(self) -> tuple[Array, ...] | None:
        """The pruning masks, (M,); None where the instance has none."""
        return None if self.M is None else (self.M,)

    @property
    def masks_or_ones(self) -> tuple[Array, ...]:
        """The pruning masks, or all ones (nothing pruned) when the instance has none."""
        return (self.M_or_ones,)

    def with_masks(self, M: ArrayLike) -> Instance:
        """Return the problem at another pruning mask, as `with_M`."""
        return self.with_M(M)

    def in_float64(self) -> Instance:
        """Return the problem in float64, at ones where it has no mask; a problem in float64 as it is."""
        return self if self.X.dtype == np.float64 else self.with_M(self.M_or_ones.astype(np.float64))

    def as_dict(self) -> dict[str, object]:
        """Return sizes, kind of mask and lam as plain data."""
        return {"n": self.n, "d": self.d, "k": self.k, "mask": self.mask_kind, "lam": self.lam}

    @property
    def M_or_ones(self) -> Array:
        """The pruning mask, or all ones (nothing pruned) when the instance has none."""
        return np.ones_like(self.W) if self.M is None else self.M

    def with_M(self, M: ArrayLike) -> Instance:
        """Return the problem at another pruning mask; only M is validated."""
        mask = as_real("M", M)
        check_shapes(_FORMS, {"W": self.W, "M": mask})
        if mask.dtype == np.float64 != self.W.dtype:  # then the whole problem is computed in float64
            pair = {"W": self.W} if self.W_Q is None else {"W_Q": self.W_Q, "W_K": self.W_K}
            return Instance(self.X, M=mask, mask=self.visible, lam=self.lam, **pair)
        return copy(self)._keep(M=mask.astype(self.W.dtype))

    def __repr__(self) -> str:
        return (
            f"Instance(n={self.n}, d={self.d}, k={self.k}, mask={self.mask_kind!r}, lam={self.lam}, "
            f"dtype={self.X.dtype})"
        )


class LayerInstance(_OnTokens):
    """The data of the problem on a real layer: the layer, tokens, pruning masks and regularisation (eq:new_loss).

    Parameters
    ----------
    layer : AttentionLayer
    X : (n, d) or (k, n, d) array
    M_Q, M_K : (d, heads*m) and (d, kv_heads*m) arrays, optional
        Pruning masks; give both or none.
    lam : float
        Regularisation strength, >= 0.

    Raises
    ------
    InvalidInstance
        If shapes disagree with the layer or each other, anything is empty, non-finite or not real, or lam < 0.

    Examples
    --------
    >>> layer = AttentionLayer([[1.0, 0.0]], [[1.0, 0.0]], heads=2, mask="causal")
    >>> LayerInstance(layer, [[0.0], [1.0]])
    LayerInstance(n=2, d=1, k=None, lam=0.0, heads=2, kv_heads=2, m=1, mask='causal')
    """

    layer: AttentionLayer
    X: Array
    M_Q: Array | None
    M_K: Array | None
    lam: float

    def __init__(
        self,
        layer: AttentionLayer,
        X: ArrayLike,
        *,
        M_Q: ArrayLike | None = None,
        M_K: ArrayLike | None = None,
        lam: float = 0.0,
    ) -> None:
        if (M_Q is None) != (M_K is None):
            raise InvalidInstance(f"give both M_Q and M_K, or neither; got only {'M_K' if M_Q is None else 'M_Q'}")
        masks = {} if M_Q is None else {"M_Q": M_Q, "M_K": M_K}
        arrays = dict(zip(("X", *masks), as_reals(X=X, **masks), strict=True))
        sizes = check_shapes(_LAYER_FORMS, {"W_Q": as_layer(layer).W_Q, "W_K": layer.W_K, **arrays})
        layer.visible.fits(sizes["n"])
        self._keep(layer=layer, X=arrays["X"], M_Q=arrays.get("M_Q"), M_K=arrays.get("M_K"), lam=as_lam(lam))

    @property
    def mask_kind(self) -> Literal["causal", "given"] | None:
        """Kind of the layer's attention mask as stated: None, "causal" or "given"."""
        return as_mask(self.layer.mask).kind

    @property
    def sizes(self) -> dict[str, Any]:
        """Numbers of tokens, features, samples, query heads, key heads, and features of a head, by letter or name."""
        return super().sizes | {name: getattr(self.layer, name) for name in ("heads", "kv_heads", "m")}

    @property
    def weights(self) -> tuple[Array, Array]:
        """The weights that masks prune, (W_Q, W_K)."""
        return self.layer.W_Q, self.layer.W_K

    @property
    def masks(self) -> tuple[Array, Array] | None:
        """The pruning masks, (M_Q, M_K); None where the instance has none."""
        return None if self.M_Q is None or self.M_K is None else (self.M_Q, self.M_K)

    def in_float64(self) -> LayerInstance:
        """Return the problem in float64, at ones where it has no masks; a problem in float64 as it is."""
        if self.X.dtype == np.float64:
            return self
        M_Q, M_K = (M.astype(np.float64) for M in self.masks_or_ones)
        return LayerInstance(self.layer, self.X.astype(np.float64), M_Q=M_Q, M_K=M_K, lam=self.lam)

    def as_dict(self) -> dict[str, object]:
        """Return sizes, kind of mask, lam and the layer's options as plain data."""
        layer, rope = self.layer, self.layer.rope
        scaling = None if rope is None or rope.scaling is None else dict(rope.scaling)
        return {
            **{"n": self.n, "d": self.d, "k": self.k, "mask": self.mask_kind, "lam": self.lam},
            **{name: getattr(layer, name) for name in ("heads", "kv_heads", "m", "window", "softcap")},
            "alibi": None if layer.alibi is None else layer.alibi.tolist(),
            "rope": None if rope is None else {"theta": rope.theta, "layout": rope.layout, "scaling": scaling},
        } | ({"scores": list(map(repr, layer.scores))} if layer.scores else {})

    @property
    def masks_or_ones(self) -> tuple[Array, Array]:
        """The pruning masks, or all ones (nothing pruned) when the instance has none."""
        return self.masks or (np.ones_like(self.layer.W_Q), np.ones_like(self.layer.W_K))

    def with_masks(self, M_Q: ArrayLike, M_K: ArrayLike) -> LayerInstance:
        """Return the problem at other pruning masks; only the masks are validated."""
        masks = dict(zip(("M_Q", "M_K"), as_reals(M_Q=M_Q, M_K=M_K), strict=True))
        check_shapes(_LAYER_FORMS, {"W_Q": self.layer.W_Q, "W_K": self.layer.W_K, **masks})
        return copy(self)._keep(**masks)

    def __repr__(self) -> str:
        layer = self.layer
        return (
            f"LayerInstance(n={self.n}, d={self.d}, k={self.k}, lam={self.lam}, heads={layer.heads}, "
            f"kv_heads={layer.kv_heads}, m={layer.m}, mask={self.mask_kind!r})"
        )


_QUERY, _KEY = ("d", "heads*m"), ("d", "kv_heads*m")
_LAYER_FORMS = {"W_Q": _QUERY, "W_K": _KEY, "X": ("n", "d"), "M_Q": _QUERY, "M_K": _KEY}
_FORMS = {"X": ("n", "d"), "W": ("d", "d"), "W_Q": ("d", "m"), "W_K": ("d", "m"), "M": ("d", "d")}

for tell in awaited:
    tell(Instance)
