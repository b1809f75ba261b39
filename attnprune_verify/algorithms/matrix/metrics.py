"""Output metrics by name, computed for each map of a block from a probe of the block.

A source turns a block, its trace of some windows and random numbers into rows r and weights t for every role; the
metric is the sum of t_i r_i r_i^T over all tokens, block by block of outputs (`MomentSum`).

==============  ==================================================================================================
``attention``   ours: random signs on the attention output for Q, K, V, on the block's output for the other maps
``loss``        gradients of the loss (labels drawn from the model's own prediction), tokens weighted by |x_i|^2
``kfac``        the same gradients, unweighted: the output factor of K-FAC (LLM Surgeon, arXiv 2312.17244)
``boa``         K^T K for queries and Q^T Q for keys, the softmax's Jacobian dropped (BoA, arXiv 2406.13474)
``output-only`` signs on the attention output, unweighted: the cache's own metric (WUSH-KV), for Q, K, V
==============  ==================================================================================================
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from attnprune_verify.algorithms.matrix.backward import random_signs
from attnprune_verify.algorithms.matrix.block_backward import attention_gradients, block_backward
from attnprune_verify.algorithms.matrix.damping import MomentSum
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.maps import Heads
from attnprune_verify.pretrained.block import Block, BlockTrace
from attnprune_verify.values import as_choice

_LARGEST_BLOCK = 512  # outputs; chosen: the metric's products cost tokens times outputs times this


class OutputRows(NamedTuple):
    """r (k, n, out) and the tokens' weights t (k, n), or None for 1."""

    rows: Array
    weights: Array | None


def probe(
    metric: str,
    block: Block,
    trace: BlockTrace,
    rng: np.random.Generator,
    upstream: Array | None = None,
    roles: Iterable[str] = "QKVO",
) -> dict[str, OutputRows]:
    """Rows of the metric of that name by role; if only some roles are requested, others may be missing.

    Parameters
    ----------
    metric : str
        A key of `OUTPUT_METRICS`.
    block : Block
    trace : BlockTrace
        Of windows (k, n, d).
    rng : numpy Generator
    upstream : (k, n, d) array, optional
        The loss's gradient at the block's output; needed for ``loss`` and ``kfac``.
    roles : iterable of str
        The maps that are wanted.
    """
    as_choice("metric", metric, OUTPUT_METRICS)
    if upstream is None and metric in LOSS_METRICS:
        raise InvalidInstance(f"upstream must be given for the metric {metric}; got None")
    if metric == "attention" and set(roles) <= set("QKV"):
        return _attention_alone(block, trace, rng, upstream)
    return OUTPUT_METRICS[metric](block, trace, rng, upstream)


class OutputSums:
    """The output metrics of a block's maps, summed window by window.

    Parameters
    ----------
    block : Block
    roles : iterable of str
    sequences : int
        How many windows will be added.
    """

    def __init__(self, block: Block, roles: Iterable[str], sequences: int) -> None:
        self.sums = {role: MomentSum(len(block.weight(role)), sequences, output_blocks(block, role)) for role in roles}

    def add(self, probed: Mapping[str, OutputRows]) -> None:
        """Take the result of `probe`; roles that are not requested are left out."""
        for role in self.sums.keys() & probed.keys():
            rows, weights = probed[role]
            for index, window in enumerate(rows):
                self.sums[role].add(window, None if weights is None else weights[index])


def output_blocks(block: Block, role: str) -> int:
    """Blocks of outputs between which the metric keeps no products: heads for Q, K, V; else as few as speed allows."""
    if role in ("Q", "K", "V"):
        return block.layer.heads if role == "Q" else block.layer.kv_heads
    out = len(block.weight(role))
    return next(count for count in range(-(-out // _LARGEST_BLOCK), out + 1) if out % count == 0)


def _attention(block: Block, trace: BlockTrace, rng: np.random.Generator, _: Array | None) -> dict[str, OutputRows]:
    outer = block_backward(block, trace, random_signs(rng, trace.output.shape, trace.output.dtype)).maps
    return {**weighted(trace, outer), **_attention_alone(block, trace, rng, None)}


def _attention_alone(
    block: Block, trace: BlockTrace, rng: np.random.Generator, _: Array | None
) -> dict[str, OutputRows]:
    """Metrics of Q, K, V only: half the passes."""
    inner = attention_gradients(block, trace, random_signs(rng, trace.middle.shape, trace.middle.dtype))
    return weighted(trace, {role: inner[role] for role in "QKV"})


def _loss(block: Block, trace: BlockTrace, _: np.random.Generator, upstream: Array | None) -> dict[str, OutputRows]:
    assert upstream is not None
    return weighted(trace, block_backward(block, trace, upstream).maps)


def _kfac(block: Block, trace: BlockTrace, _: np.random.Generator, upstream: Array | None) -> dict[str, OutputRows]:
    assert upstream is not None
    return unweighted(trace, block_backward(block, trace, upstream).maps)


def _output_only(block: Block, trace: BlockTrace, rng: np.random.Generator, _: Array | None) -> dict[str, OutputRows]:
    inner = attention_gradients(block, trace, random_signs(rng, trace.middle.shape, trace.middle.dtype))
    return {role: OutputRows(inner[role], None) for role in "QKV"}


def _boa(block: Block, trace: BlockTrace, _: np.random.Generator, __: Array | None) -> dict[str, OutputRows]:
    """The keys a query meets and the queries a key meets, turned by position; tokens of one window, all pairs."""
    layer, (k, n, _d) = block.layer, trace.x.shape
    maps = Heads(layer, trace.x)
    queries, keys = (side.reshape(k, layer.heads, n, -1) for side in maps.sides([layer.W_Q, layer.W_K]))
    per_group = queries.reshape(k, layer.kv_heads, layer.group, n, -1)
    summed = per_group.swapaxes(2, 3).reshape(k, layer.kv_heads, n * layer.group, -1)
    return {"Q": OutputRows(_merge(keys), None), "K": OutputRows(_merge(summed), None)}


def weighted(trace: BlockTrace, gradients: Mapping[str, Array]) -> dict[str, OutputRows]:
    """Tokens count by the squared length of the map's input."""
    sizes: dict[int, Array] = {}
    for role in gradients:
        rows = trace.input_of(role)
        if id(rows) not in sizes:
            sizes[id(rows)] = np.einsum("kna,kna->kn", rows, rows, dtype=np.float64)
    return {role: OutputRows(rows, sizes[id(trace.input_of(role))]) for role, rows in gradients.items()}


def unweighted(_: BlockTrace, gradients: Mapping[str, Array]) -> dict[str, OutputRows]:
    """All tokens count the same."""
    return {role: OutputRows(rows, None) for role, rows in gradients.items()}


LOSS_METRICS: Mapping[str, Callable[[BlockTrace, Mapping[str, Array]], dict[str, OutputRows]]] = {
    "loss": weighted,
    "kfac": unweighted,
}
"""Metrics made of the loss's gradients, which only a pass through the whole model gives."""


def _merge(of_heads: Array) -> Array:
    """(k, heads, n, m) -> (k, n, heads*m)."""
    k, heads, n, m = of_heads.shape
    return of_heads.swapaxes(1, 2).reshape(k, n, heads * m)


_Source = Callable[[Block, BlockTrace, np.random.Generator, Array | None], dict[str, OutputRows]]

OUTPUT_METRICS: Mapping[str, _Source] = {
    "attention": _attention,
    "loss": _loss,
    "kfac": _kfac,
    "boa": _boa,
    "output-only": _output_only,
}
