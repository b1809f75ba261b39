"""sum KL(F || F~) over samples, heads and rows, as a function of the weights, with its gradient."""

import numpy as np

from attnprune_verify.algorithms.layer.calibration import Calibration
from attnprune_verify.algorithms.layer.heads import split_heads
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.softmax import score_block


class Divergence:
    """KL(F || F~) = sum_ij f_ij (log f_ij - log f~_ij) of a layer's dense and changed attention.

    Its derivative in the logits is F~ - F: no product with the softmax's Jacobian, which is why saturated rows still
    have a gradient here and have none in the squared error.
    """

    def __init__(self, data: Calibration) -> None:
        self._data = data
        self._dense = [rows.F for rows in data.attention()]
        with np.errstate(divide="ignore", invalid="ignore"):
            self._entropy = sum(float(np.where(F > 0, F * np.log(F), 0.0).sum()) for F in self._dense)

    def value_and_gradient(self, W_Q: Array, W_K: Array) -> tuple[float, Array, Array]:
        """Return the divergence at blocks (heads, d, m) and (kv_heads, d, m), and its gradients in these shapes."""
        maps, layer = self._data.maps, self._data.layer
        queries, keys = self._data.queries_of(W_Q), self._data.keys_of(W_K)
        d_queries, d_keys = np.empty_like(queries), np.zeros_like(keys)
        total = self._entropy
        for block, F in zip(maps.blocks(), self._dense, strict=True):
            logits, bend = score_block(queries, keys, block, shift=True, modifiers=layer.modifiers)
            block.fill_forbidden(logits, -np.inf)
            logits -= logits.max(axis=-1, keepdims=True)
            with np.errstate(under="ignore"):
                changed = np.exp(logits)
                sums = changed.sum(axis=-1, keepdims=True)
            block.fill_forbidden(logits, 0.0)  # f is 0 there
            total += float(np.log(sums).sum()) - float(np.vdot(F, logits))
            changed /= sums
            changed -= F
            if bend is not None:
                changed *= bend.slope
            d_queries[:, block.rows] = changed @ keys[:, block.columns]
            d_keys[:, block.columns] += changed.swapaxes(1, 2) @ queries[:, block.rows]
        of_Q = split_heads(maps.pull_back_queries(d_queries), layer.heads)
        of_K = split_heads(maps.pull_back_keys(d_keys), layer.kv_heads)
        return total, of_Q, of_K
