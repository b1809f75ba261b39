"""The mask of a baseline: True where a weight is pruned, and protected against use as a mask of kept weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.errors import InvalidInstance


class PrunedMask(np.ndarray[tuple[Any, ...], np.dtype[np.bool_]]):
    """A bool array, True = pruned, as SparseGPT and Wanda count.

    Everything else that prunes here counts the other way: 1 = kept in M, `binary_mask`, `prune_mask_gd` and
    `prune_layer`, so that ``M * W`` is the pruned weight. ``.kept`` is that array. A product of numbers with this one
    would keep the wrong half, and is refused; indexing, ``~mask``, ``np.where`` and comparisons are those of any bool
    array.

    Raises
    ------
    InvalidInstance
        If it is multiplied with anything that is not bool.

    Examples
    --------
    >>> W = np.array([[-3.0, 1.0], [0.5, -0.1]])
    >>> mask = PrunedMask.of(np.abs(W) < 0.7)
    >>> W * mask.kept
    array([[-3.,  1.],
           [ 0., -0.]])
    >>> W * mask
    Traceback (most recent call last):
        ...
    attnprune_verify.errors.InvalidInstance: this mask is True where a weight is pruned and must not multiply numbers; \
use mask.kept, which is 1 where it is kept
    """

    @classmethod
    def of(cls, mask: ArrayLike) -> PrunedMask:
        """A view of a bool array."""
        return np.asarray(mask, dtype=np.bool_).view(cls)

    @property
    def kept(self) -> NDArray[np.float64]:
        """1 where the weight is kept, 0 where it is pruned."""
        return np.where(self, 0.0, 1.0)

    def __array_ufunc__(self, ufunc: np.ufunc, method: Any, *inputs: Any, out: Any = None, **options: Any) -> Any:
        plain = [np.asarray(one) if isinstance(one, PrunedMask) else one for one in inputs]
        if ufunc is np.multiply and method == "__call__" and any(np.asarray(one).dtype != np.bool_ for one in plain):
            raise InvalidInstance(
                "this mask is True where a weight is pruned and must not multiply numbers; "
                "use mask.kept, which is 1 where it is kept"
            )
        if out is not None:
            options["out"] = tuple(np.asarray(one) if isinstance(one, PrunedMask) else one for one in out)
        return getattr(ufunc, method)(*plain, **options)
