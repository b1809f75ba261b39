"""The backward pass of a whole block in closed form: gradients at the outputs of all its maps, and at its input."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from attnprune_verify.algorithms.matrix.backward import attention_backward
from attnprune_verify.instance.validate import Array
from attnprune_verify.pretrained.block import Block, BlockTrace


class BlockGradients(NamedTuple):
    """Gradients at the outputs of the maps by role, and at the hidden states that came in; all (k, n, features)."""

    maps: Mapping[str, Array]
    hidden: Array


def block_backward(block: Block, trace: BlockTrace, upstream: Array) -> BlockGradients:
    """Return the gradients at a block's maps and its input from the gradient at its output (k, n, d).

    Norm first: output = middle + down(inner), so what comes back reaches `middle` directly and through the second half,
    and the input directly and through the attention half. Norm last: the same with each norm after its sum.
    """
    before, after = block.norms
    if not block.norm_first:
        upstream = after.pull_back(trace.middle + block.maps["down"](trace.inner), upstream)
    gradients: dict[str, Array] = {"down": upstream}
    d_inner = upstream @ block.weight("down")
    if trace.gate is None:
        gradients["up"] = d_inner * block.activation.slope(trace.up)
    else:
        gradients["up"] = d_inner * block.activation(trace.gate)
        gradients["gate"] = d_inner * trace.up * block.activation.slope(trace.gate)
    d_y = _to_input(block, gradients, ("gate", "up"))
    middle: Array = upstream + (after.pull_back(trace.middle, d_y) if block.norm_first else d_y)
    if not block.norm_first:
        middle = before.pull_back(trace.hidden + block.maps["O"](trace.mixed), middle)
    gradients |= attention_gradients(block, trace, middle)
    d_x = _to_input(block, gradients, ("Q", "K", "V"))
    hidden = middle + (before.pull_back(trace.hidden, d_x) if block.norm_first else d_x)
    return BlockGradients(gradients, hidden)


def attention_gradients(block: Block, trace: BlockTrace, upstream: Array) -> dict[str, Array]:
    """Gradients at Q, K, V and O from the one at the attention's output, which is O's (k, n, d)."""
    d_mixed, values = upstream @ block.weight("O"), block.maps["V"](trace.x)
    of_windows = [attention_backward(block.layer, *window) for window in zip(trace.x, values, d_mixed, strict=True)]
    queries, keys, of_values = (np.stack(parts) for parts in zip(*of_windows, strict=True))
    return {"Q": queries, "K": keys, "V": of_values, "O": upstream}


def _to_input(block: Block, gradients: Mapping[str, Array], roles: tuple[str, ...]) -> Array:
    """The gradient at the common input of some maps."""
    parts = [gradients[role] @ block.weight(role) for role in roles if role in gradients]
    return sum(parts[1:], start=parts[0])
