"""One instance of the attention-weight-pruning problem, validated once."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array, Mask, MaskLike, as_lam, as_mask, as_reals, check_shapes

__all__ = ["Instance"]


class Instance:
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
    mask : None, "causal" or (n, n) array of 0 and 1
        The attention mask; None allows every position, "causal" allows i >= j (def:mask).
    lam : float
        Regularisation strength, >= 0.

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
    mask: Mask
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
        for name in ("X", "W", "W_Q", "W_K", "M"):
            self._set(name, _frozen(arrays[name]) if name in arrays else None)
        checked = as_mask(mask, sizes["n"])
        self._set("mask", _frozen(checked) if isinstance(checked, np.ndarray) else checked)
        self._set("lam", as_lam(lam))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"an Instance does not change after its validation; make a new one to set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"an Instance does not change after its validation; it keeps {name!r}")

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Copies and pickles carry arrays that can be written to: they become read-only again."""
        for name, value in state.items():
            self._set(name, _frozen(value) if isinstance(value, np.ndarray) else value)

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
    def samples(self) -> Array:
        """X as a batch (k, n, d), also when it is a single sample."""
        return self.X if self.X.ndim == 3 else self.X[np.newaxis]

    @property
    def allowed(self) -> NDArray[np.bool_]:
        """The attention mask as an (n, n) boolean array."""
        if self.mask is None:
            return np.ones((self.n, self.n), dtype=np.bool_)
        if isinstance(self.mask, str):
            return np.tri(self.n, dtype=np.bool_)
        return self.mask

    @property
    def mask_kind(self) -> Literal["causal", "given"] | None:
        """How the attention mask was stated: None, "causal" or "given"."""
        if self.mask is None:
            return None
        return "causal" if isinstance(self.mask, str) else "given"

    @property
    def M_or_ones(self) -> Array:
        """The pruning mask, or all ones (nothing pruned) when the instance has none."""
        return np.ones_like(self.W) if self.M is None else self.M

    def with_M(self, M: ArrayLike) -> Instance:
        """The same problem at another pruning mask."""
        if self.W_Q is not None:
            return Instance(self.X, W_Q=self.W_Q, W_K=self.W_K, M=M, mask=self.mask, lam=self.lam)
        return Instance(self.X, self.W, M=M, mask=self.mask, lam=self.lam)

    def __repr__(self) -> str:
        return (
            f"Instance(n={self.n}, d={self.d}, k={self.k}, mask={self.mask_kind!r}, lam={self.lam}, "
            f"dtype={self.X.dtype})"
        )


_T = TypeVar("_T", bound=np.generic)

_FORMS = {"X": ("n", "d"), "W": ("d", "d"), "W_Q": ("d", "m"), "W_K": ("d", "m"), "M": ("d", "d")}


def _frozen(array: NDArray[_T]) -> NDArray[_T]:
    copy = array.copy()
    copy.flags.writeable = False
    return copy
