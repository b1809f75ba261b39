"""Distance of a pruned model from the dense one on held-out windows: losses and KL divergences, token by token."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.instance.validate import Array
from attnprune_verify.pretrained.likelihood import divergences, log_probabilities, token_losses
from attnprune_verify.pretrained.network import PretrainedModel

_LARGEST = 2**24  # logits at a time


class Judge:
    """The dense model and the windows to judge on, with the dense model's last hidden states.

    Parameters
    ----------
    dense : PretrainedModel
    windows : sequence of (k, length) arrays of int
        Token ids, one array for each length.
    """

    def __init__(self, dense: PretrainedModel, windows: Sequence[NDArray[np.int64]]) -> None:
        self._parts = [part for ids in windows for part in _parts(ids, dense.family.vocabulary)]
        self._dense = dense
        self._outputs = [dense.output(ids) for ids in self._parts]
        losses = [
            token_losses(dense.family.logits(out), ids) for out, ids in zip(self._outputs, self._parts, strict=True)
        ]
        self.tokens = sum(part.size for part in losses)
        self.nll = _mean(losses)

    def __call__(self, pruned: PretrainedModel) -> dict[str, float]:
        """``nll`` in nats per token, ``perplexity = exp(nll)``, ``kl`` = mean over tokens of KL(dense || pruned)."""
        losses, distances = [], []
        for ids, out in zip(self._parts, self._outputs, strict=True):
            log_p = log_probabilities(self._dense.family.logits(out[:, :-1]))
            log_q = log_probabilities(pruned.family.logits(pruned.output(ids)[:, :-1]))
            losses.append(-np.take_along_axis(log_q, ids[:, 1:, np.newaxis], axis=-1)[..., 0])
            distances.append(divergences(log_p, log_q))
        nll = _mean(losses)
        return {"perplexity": math.exp(nll), "nll": nll, "kl": _mean(distances)}


def _parts(ids: NDArray[np.int64], vocabulary: int) -> list[NDArray[np.int64]]:
    step = max(1, _LARGEST // (ids.shape[1] * vocabulary))
    return [ids[start : start + step] for start in range(0, len(ids), step)]


def _mean(parts: list[Array]) -> float:
    return math.fsum(float(part.sum(dtype=np.float64)) for part in parts) / sum(part.size for part in parts)
