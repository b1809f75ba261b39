"""Output metrics of the whole network's loss: one backward pass through all blocks, one block in memory at a time."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from attnprune_verify.algorithms.matrix.backward import random_signs
from attnprune_verify.algorithms.matrix.block_backward import block_backward
from attnprune_verify.algorithms.matrix.damping import Moments
from attnprune_verify.algorithms.matrix.metrics import LOSS_METRICS, OutputSums
from attnprune_verify.instance.validate import Array
from attnprune_verify.pretrained.network import Family, PretrainedModel


def loss_metrics(
    model: PretrainedModel, states: Sequence[Sequence[Array]], metrics: Mapping[str, str], seed: int = 0
) -> Iterator[tuple[int, dict[str, Moments]]]:
    """Yield the metrics ``loss`` or ``kfac`` of a block's maps, from `loss_gradient` carried back from the end.

    With labels drawn from the network's own prediction, the gradients' second moments are the Fisher information of its
    next-token distribution: the Hessian of KL(dense || pruned).

    Parameters
    ----------
    model : PretrainedModel
    states : depth + 1 sequences of k arrays (n, d)
        Hidden states of the k windows before every block and after the last one; one at a time is looked at.
    metrics : mapping of role to str
        The maps that are wanted, each with its metric; those a block does not have are left out.
    seed : int

    Yields
    ------
    tuple of int and dict of role to Moments
        Blocks from the last one to the first; the metrics of one block are in memory.
    """
    windows = len(states[-1])
    upstream = [
        loss_gradient(model.family, np.asarray(hidden), np.random.default_rng((seed, window)))
        for window, hidden in enumerate(states[-1])
    ]
    for index in reversed(range(model.depth)):
        block = model.block(index)
        sums = OutputSums(block, [role for role in block.roles if role in metrics], windows)
        for window, hidden in enumerate(states[index]):
            trace = block(np.asarray(hidden)[np.newaxis])
            gradients = block_backward(block, trace, upstream[window][np.newaxis])
            for metric in set(metrics.values()):
                asked = {role: rows for role, rows in gradients.maps.items() if metrics.get(role) == metric}
                sums.add(LOSS_METRICS[metric](trace, asked))
            upstream[window] = gradients.hidden[0]
        yield index, {role: total.finish() for role, total in sums.sums.items()}


def loss_gradient(family: Family, hidden: Array, rng: np.random.Generator) -> Array:
    """Gradient at the last hidden states (n, d) of the loss of labels drawn from the network's own prediction.

    ``(softmax(logits) - one-hot(label)) W_head``, through the last norm. A network that predicts nothing gets random
    signs on its output: the metric is then the squared change of that.
    """
    finished = family.finish(hidden)
    if not family.predicts:
        return family.pull_back(hidden, random_signs(rng, finished.shape, finished.dtype))
    head = family.head()
    logits = head(finished)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    sums = weights.cumsum(axis=-1, dtype=np.float64)
    labels = (sums < rng.random((len(hidden), 1)) * sums[:, -1:]).sum(axis=-1)
    surprise = (weights / sums[:, -1:]).astype(hidden.dtype)
    surprise[np.arange(len(hidden)), labels] -= 1
    return family.pull_back(hidden, surprise @ head.weight)
