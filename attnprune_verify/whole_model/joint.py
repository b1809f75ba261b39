"""W_Q and W_K refitted together: what both keep moves towards the dense attention output, their masks stay.

Each matrix was pruned as if the other stayed dense. With A(W_Q, W_K) the attention output of the calibration windows,

::

    f = sum over windows ||A(W_Q, W_K) - A(dense)||^2

has a gradient in closed form (`attention_backward`). A step solves H D G = -gradient on what is kept, for both matrices
in the metrics they were pruned in, and goes as far as a parabola through f, its slope and one trial says; f never
rises.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.algorithms.matrix.backward import attention_backward
from attnprune_verify.algorithms.matrix.damping import Moments
from attnprune_verify.algorithms.matrix.output_obs import (
    OutputOBS,
    PrunedMatrix,
    from_blocks,
    in_blocks,
    used_metrics,
)
from attnprune_verify.algorithms.matrix.two_sided import solve
from attnprune_verify.instance.validate import Array
from attnprune_verify.pretrained.block import Block, attend

JOINT_WINDOWS = 16
"""Windows that f is measured on; chosen as `plan.LOSS_WINDOWS` is."""
_FARTHEST = 4.0  # chosen: a parabola through two points is trusted up to four times the step tried
_SIDES = ("Q", "K")
Weights: TypeAlias = Mapping[str, Array]


class GoalValue(NamedTuple):
    """f, and its gradients by side where they are requested."""

    f: float
    gradients: Weights


class Goal(Protocol):
    """f and its gradients at given weights of the sides; `tokens` is how many it is summed over."""

    tokens: int

    def __call__(self, weights: Weights, *, slopes: bool = True) -> GoalValue: ...


def refit_attention(
    block: Block,
    hidden: Sequence[Array] | Array,
    pruned: Mapping[str, PrunedMatrix],
    metrics: Mapping[str, tuple[Moments, Moments | None]],
    options: OutputOBS,
) -> dict[str, PrunedMatrix]:
    """The maps `pruned` with other values of what W_Q and W_K keep.

    Parameters
    ----------
    block : Block
        As it was before pruning.
    hidden : k arrays (n, d)
        Hidden states before it; the first 16 are looked at, one at a time.
    pruned : mapping of role to PrunedMatrix
        Q and K among them.
    metrics : mapping of "Q" and "K" to (inputs, outputs)
        The moments they were pruned by.
    options : OutputOBS
        Its `joint_steps` and dampings.
    """
    goal = _SummedGoal(block, [np.asarray(window) for window in hidden[:JOINT_WINDOWS]])
    return {**pruned, **refit_together(goal, {side: pruned[side] for side in _SIDES}, metrics, options)}


def refit_together(
    goal: Goal,
    pruned: Mapping[str, PrunedMatrix],
    metrics: Mapping[str, tuple[Moments, Moments | None]],
    options: OutputOBS,
) -> dict[str, PrunedMatrix]:
    """Move what all sides keep towards the least of `goal`, each in its own metric; masks stay, f never rises."""
    kept = {side: matrix.kept for side, matrix in pruned.items()}
    sides = {side: _PrunedSide(kept[side], *metrics[side], goal.tokens, options) for side in kept}
    weights: Weights = {side: matrix.weight for side, matrix in pruned.items()}
    reach, now, best = 1.0, goal(weights), weights
    for number in range(options.joint_steps):
        step = {side: sides[side].step(gradient) for side, gradient in now.gradients.items()}
        slope = sum(float(np.vdot(now.gradients[side], step[side])) for side in sides)
        if not slope < 0:
            break
        reach = _reach(reach, now.f, slope, goal(_moved(weights, step, reach), slopes=False).f)
        weights = _moved(weights, step, reach)
        after = goal(weights, slopes=number + 1 < options.joint_steps)
        if not after.f < now.f:
            break
        now, best = after, weights
    return {side: PrunedMatrix(best[side], kept[side]) for side in sides}


def _moved(weights: Weights, step: Weights, reach: float) -> Weights:
    return {side: (weights[side] + reach * step[side]).astype(weights[side].dtype) for side in weights}


def _reach(tried: float, f: float, slope: float, there: float) -> float:
    """Return the least point of the parabola with value f and this slope at 0 that goes through `there`."""
    bend = (there - f - slope * tried) / tried**2
    least = -slope / (2 * bend) if bend > 0 else np.inf
    return float(min(least, _FARTHEST * tried))


class _PrunedSide:
    """One matrix: what it keeps, and its metrics, which times `scale` are about the second derivative of f."""

    def __init__(
        self, kept: NDArray[np.bool_], inputs: Moments, outputs: Moments | None, tokens: int, options: OutputOBS
    ) -> None:
        self._H, G = used_metrics(inputs, outputs, options)
        assert G is not None and outputs is not None
        self._G, self._shape, self._steps = G, kept.shape, options.refit_steps
        self._kept = np.asarray(in_blocks(kept, len(G)))
        size = float(np.einsum("bcc->", outputs.H)) / len(kept)
        self._scale = 2 * tokens * size / float(np.trace(inputs.H)) or 1.0

    def step(self, gradient: Array) -> Array:
        """The D with H D G = -gradient / scale on what is kept."""
        towards = in_blocks(gradient / -self._scale, len(self._G))
        return np.asarray(from_blocks(solve(self._kept, towards, self._H, self._G, self._steps), self._shape))


class _SummedGoal:
    """f and its gradients, window by window."""

    def __init__(self, block: Block, hidden: Sequence[Array]) -> None:
        self._layer, self._out = block.layer, block.weight("O")
        self.tokens = sum(map(len, hidden))
        before = block.norms[0]
        self._x = [before(window[np.newaxis]) if block.norm_first else window[np.newaxis] for window in hidden]
        self._values = [block.maps["V"](x) for x in self._x]
        self._dense = [attend(self._layer, x, v)[0] for x, v in zip(self._x, self._values, strict=True)]

    def __call__(self, weights: Weights, *, slopes: bool = True) -> GoalValue:
        layer, f = self._layer.with_weights(weights["Q"].T, weights["K"].T), 0.0
        gradients: dict[str, Array] = {side: np.zeros(weights[side].shape) for side in _SIDES} if slopes else {}
        for x, values, dense in zip(self._x, self._values, self._dense, strict=True):
            change = (attend(layer, x, values)[0] - dense) @ self._out.T
            f += float(np.einsum("nd,nd->", change, change, dtype=np.float64))
            if slopes:
                found = attention_backward(layer, x[0], values[0], 2 * change @ self._out)
                gradients["Q"] += found.queries.T @ x[0]
                gradients["K"] += found.keys.T @ x[0]
        return GoalValue(f, gradients)
