"""Moments of the tokens at the linear maps of one block, gathered one window at a time."""

from collections.abc import Mapping

import numpy as np

from attnprune_verify.algorithms.matrix.damping import Moments, MomentSum
from attnprune_verify.algorithms.matrix.metrics import OutputSums, probe
from attnprune_verify.pretrained.block import INPUT_OF, Block, BlockTrace


class BlockMoments:
    """Second moments of the maps' inputs, and the requested output metrics.

    Metrics of the loss need the whole model; they come from outside.

    Parameters
    ----------
    block : Block
    metrics : mapping of role to str or None
        For every map the name of its output metric; maps with the same input share its moments.
    given : mapping of role to Moments
        Output metrics that are known already.
    windows : int
        How many will be added.
    seed : tuple of int
        Of the probes.
    """

    def __init__(
        self,
        block: Block,
        metrics: Mapping[str, str | None],
        given: Mapping[str, Moments],
        windows: int,
        seed: tuple[int, ...],
    ) -> None:
        self._block, self._given = block, given
        sizes = {INPUT_OF[role]: block.weight(role).shape[1] for role in metrics}
        self._inputs = {source: MomentSum(size, windows) for source, size in sizes.items()}
        asked = {role: metric for role, metric in metrics.items() if metric is not None and role not in given}
        self._outputs = {
            name: OutputSums(block, [role for role, metric in asked.items() if metric == name], windows)
            for name in dict.fromkeys(asked.values())
        }
        self._rng = np.random.default_rng(seed)

    def add(self, trace: BlockTrace) -> None:
        """One window."""
        for source, total in self._inputs.items():
            total.add(getattr(trace, source)[0])
        for metric, sums in self._outputs.items():
            sums.add(probe(metric, self._block, trace, self._rng, roles=sums.sums))

    def inputs(self, role: str) -> Moments:
        """``X^T X / tokens`` of a map's inputs."""
        return self._inputs[INPUT_OF[role]].finish()

    def outputs(self, role: str) -> Moments | None:
        """The metric of a map's outputs, in blocks; None for a method without one."""
        if role in self._given:
            return self._given[role]
        found = [sums.sums[role] for sums in self._outputs.values() if role in sums.sums]
        return found[0].finish() if found else None
