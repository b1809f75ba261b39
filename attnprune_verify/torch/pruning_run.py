"""Pruning a decoder block by block, for models in memory and for folders: all that both have in common."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch

from attnprune_verify.algorithms.arrays import AnyArray, on_host
from attnprune_verify.algorithms.matrix.damping import Moments
from attnprune_verify.algorithms.matrix.metrics import LOSS_METRICS
from attnprune_verify.algorithms.matrix.output_obs import PrunedMatrix
from attnprune_verify.algorithms.matrix.prune import prune_matrix
from attnprune_verify.algorithms.methods import MATRIX_METHODS, matrix_options
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.torch.blocks import Decoder
from attnprune_verify.torch.curves import cheap_zeros, grouped
from attnprune_verify.torch.echoes import echoes_of
from attnprune_verify.torch.files import matrices_in_files
from attnprune_verify.torch.joint import AttentionGoal
from attnprune_verify.torch.model_state import widened
from attnprune_verify.torch.moments import PROBED, InputMoments, asks_loss
from attnprune_verify.torch.numpy_network import budget_zeros, network_of, prune_attention
from attnprune_verify.torch.passes import Windows, block_moments, forward, loss_moments
from attnprune_verify.torch.pieces import (
    Piece,
    as_bytes,
    budgets,
    for_solvers,
    from_bytes,
    pieces_of,
    to_numpy,
    written,
    zeros_of,
)
from attnprune_verify.torch.products import Products
from attnprune_verify.torch.reconstruct import reconstructed_block
from attnprune_verify.torch.roles import Structure, structure_of
from attnprune_verify.torch.states import DenseStates, Goals
from attnprune_verify.whole_model import estimate
from attnprune_verify.whole_model.blockwise import prescribed, with_zeros
from attnprune_verify.whole_model.budgets import with_present
from attnprune_verify.whole_model.echoes import echo_count, steps_of
from attnprune_verify.whole_model.joint import refit_together
from attnprune_verify.whole_model.plan import Plan
from attnprune_verify.whole_model.workplace import Workplace

_DENSE = "to go on from here the model must be dense"
Progress: TypeAlias = Callable[[int, int, str], object]
"""Called with (steps done, steps, what is being done)."""


class PruningRun:
    """A decoder to be pruned by a plan; everything is checked, and refused if necessary, before the work begins.

    Parameters
    ----------
    decoder : Decoder
    plan : Plan
    window : (1, n) tensor
        Ids to look at the structure with.

    Attributes
    ----------
    structures, pieces : for every block its maps, and what is pruned of them
    zeros_before : int
        Zeros that the pieces had before, known once `run` has begun.

    Raises
    ------
    InvalidInstance
        If a map cannot be pruned as the plan says; it is named.
    """

    def __init__(self, decoder: Decoder, plan: Plan, window: Any) -> None:
        self.decoder, self.plan = decoder, plan
        plan.refuse_blocks_beyond(decoder.depth)
        self.zeros_before = 0
        self.structures = _structures(decoder, window)
        self.pieces = [self._pieces(index) for index in range(decoder.depth)]
        if not any(self.pieces) and not {plan.attention, plan.rest} <= {"dense"}:
            raise InvalidInstance("a model must have linear maps that the plan names; it has none")
        self._check()
        by_layer = plan.attention not in (*MATRIX_METHODS, "dense")
        self._network = None
        if by_layer or plan.budget not in ("matrix", "auto"):
            what = f"the method {plan.attention}" if by_layer else f"the budget {plan.budget}"
            self._network = network_of(decoder.model, what)

    @property
    def steps(self) -> int:
        """The number of steps of `run`: blocks judged, forward and back for the loss, and pruned."""
        passes = (self.plan.budget == "auto", any(map(asks_loss, self.pieces)), any(map(asks_loss, self.pieces)), True)
        return self.decoder.depth * sum(passes)

    def summary(self, ids: Sequence[Any]) -> str:
        """Describe what is about to be done."""
        tokens, steps = sum(window.shape[1] for window in ids), steps_of(len(ids), self.plan.reconstruct)
        what = f"{self.sizes.weights} weights in {len(self.sizes.maps)} maps of {self.decoder.depth} blocks"
        free, loaded = self._seconds(len(ids), tokens, steps)
        return (
            f"{what}, {len(ids)} windows with {tokens} tokens, {steps} steps; "
            f"about {free:.2g} s of a free core, {loaded:.2g} s as this machine is loaded now"
        )

    def fits(self, setting: estimate.WindowSetting, seconds: float) -> bool:
        """Return True where a setting's estimate, on this machine as loaded now, is within a number of seconds."""
        steps = steps_of(setting.k, setting.of(self.plan).reconstruct)
        return self._seconds(setting.k, setting.k * setting.n, steps)[1] <= seconds

    def _seconds(self, windows: int, tokens: int, steps: int) -> tuple[float, float]:
        """Seconds on a free core, and on this machine as it is loaded now."""
        echoes, budgets = echo_count(windows, steps), self.plan.budget == "auto"
        operations = estimate.run_operations(self.sizes, windows, tokens, steps, echoes, budgets=budgets)
        free, loaded = estimate.matmul_rates()
        return operations / free, operations / loaded

    @cached_property
    def sizes(self) -> estimate.ModelSizes:
        """The maps that are pruned, and the weights that tokens pass on their way there."""
        parameters = [dict(block.named_parameters()) for block in self.decoder.blocks]
        found = []
        for of_block, pieces in zip(parameters, self.pieces, strict=True):
            for piece in pieces:
                out, into = piece.weight(of_block).shape
                found.append(estimate.Size(out, into, piece.part.blocks))
        last = max((index for index, pieces in enumerate(self.pieces) if pieces), default=-1)
        passed = sum(
            parameter.numel()
            for of_block, pieces in zip(parameters[:last], self.pieces[:last], strict=True)
            for parameter in of_block.values()
            if not pieces and parameter.dim() > 1
        )
        head = self.decoder.model.get_output_embeddings().weight.numel()
        return estimate.ModelSizes(found, len(grouped(self.pieces)), head, passed)

    def dense(self) -> list[str]:
        """The weights of the blocks with more than one dimension that stay as they are."""
        pruned = [{piece.factor.name for piece in pieces} for pieces in self.pieces]
        return [
            f"{name}.{inner}"
            for name, block, gone in zip(self.decoder.names, self.decoder.blocks, pruned, strict=True)
            for inner, parameter in block.named_parameters()
            if parameter.dim() > 1 and inner not in gone
        ]

    def run(
        self,
        ids: Sequence[Any],
        workplace: Workplace,
        keep: Callable[[int, Mapping[str, Any]], None],
        progress: Progress,
        pruned: frozenset[int] = frozenset(),
    ) -> list[dict[str, Any]]:
        """Prune all blocks; what is there in `workplace` is not computed again.

        Parameters
        ----------
        ids : windows (1, n)
        workplace : Workplace
            What is done is written there.
        keep : callable
            Given the number of a block and its new parameters by their names in the block, as they are stored.
        progress : callable
        pruned : set of int
            Blocks of the model that are pruned already: what is kept in `workplace` is all there is of them.

        Returns
        -------
        list of dict
            For every pruned parameter its name, methods, zeros and size.
        """
        if workplace.noted("present") is None:
            workplace.note("present", zeros_of(self.pieces, self.decoder.blocks))
        present = workplace.noted("present") or []
        self.zeros_before = sum(sum(of_block.values()) for of_block in present)
        zeros: list[dict[str, int]] = [{} for _ in self.pieces]
        if self.plan.budget != "matrix":
            if workplace.noted("zeros") is None:
                if pruned:
                    raise InvalidInstance(f"{_DENSE}; block {min(pruned)} is pruned, and no budgets are kept")
                divided = self._divide(ids, progress)
                workplace.note("zeros", with_present(divided, present) if self.plan.keep_zeros else divided)
            zeros = workplace.noted("zeros")
        left = [index for index in range(self.decoder.depth) if not workplace.has("block", index)]
        if pruned.intersection(left):
            raise InvalidInstance(f"{_DENSE}; block {min(pruned.intersection(left))} is pruned and is not kept")
        touched = [index for index, pieces in enumerate(self.pieces) if pieces] or [self.decoder.depth]
        repairing = self.plan.reconstruct != 0 and not {*left}.isdisjoint(touched)
        windows = Windows.enter(self.decoder, [*ids, *(self._echoes(ids, workplace, pruned) if repairing else ())])
        done = self._measure_loss(windows.first(len(ids)), workplace, left, pruned, progress)
        rows, goals = [], None
        for index, block in enumerate(self.decoder.blocks):
            if repairing and index == touched[0]:
                goals = Goals(workplace, windows, index)
            with widened(block) as (parameters, stored):
                if goals is not None and index not in pruned and index <= touched[-1]:
                    goals.go_on(block, index, windows)
                if index in left:
                    text, pruned_here = windows.first(len(ids)), {}
                    if self.pieces[index]:
                        pruned_here = self._prune(block, parameters, text, index, zeros[index], workplace)
                    if goals is not None and pruned_here:
                        goal, plan = goals[index + 1], self.plan
                        pruned_here = reconstructed_block(block, parameters, pruned_here, windows, index, goal, plan)
                    new = written(parameters, stored, pruned_here)
                    workplace.keep_block(index, {inner: as_bytes(tensor) for inner, tensor in new.items()})
                kept = workplace.block(index)
                if kept is None:
                    raise InvalidInstance(f"what is kept must read back as it was written; block {index} does not")
                new = {inner: from_bytes(raw, stored[inner]) for inner, raw in kept.items()}
                rows += [self._row(index, inner, tensor) for inner, tensor in new.items()]
                if not self.plan.dense_inputs:
                    _set(parameters, new)
                if index < touched[-1]:
                    windows.states = forward(block, index, windows)
            keep(index, new)
            progress(done + index + 1, self.steps, "pruning blocks")
        return rows

    def _echoes(self, ids: Sequence[AnyArray], workplace: Workplace, pruned: frozenset[int]) -> list[AnyArray]:
        """Return the echoes that steps of reconstruction see besides the windows, drawn while the model is dense."""
        count = echo_count(len(ids), self.plan.reconstruct)
        if count and workplace.noted("echoes") is None:
            if pruned:
                raise InvalidInstance(f"{_DENSE}; block {min(pruned)} is pruned, and no echoes are kept")
            found = echoes_of(self.decoder, ids, count, self.plan.seed)
            workplace.forget_echoes(self.decoder.depth)
            workplace.note("echoes", [window[0].tolist() for window in found])
        return [torch.tensor(window)[None] for window in workplace.noted("echoes") or ()]

    def _divide(self, ids: Sequence[Any], progress: Progress) -> list[dict[str, int]]:
        """Zeros of each piece by its key, by block."""
        if self.plan.budget == "auto":
            tokens = estimate.judged_tokens(self.sizes, sum(window.shape[1] for window in ids))

            def tell(blocks: int) -> None:
                progress(blocks, self.steps, "judging what each map is worth")

            return cheap_zeros(self.decoder, self.structures, self.pieces, ids, self.plan, tokens, tell)
        assert self._network is not None
        found = budget_zeros(self._network, ids, self.plan)
        return [
            {piece.key: of_block[f"{name}.{piece.factor.name}"] for piece in pieces}
            for name, pieces, of_block in zip(self.decoder.names, self.pieces, found, strict=True)
        ]

    def _pieces(self, index: int) -> list[Piece]:
        structure, prefix = self.structures[index], f"{self.decoder.names[index]}."
        names = {f"{prefix}{factor.name}" for factor in structure.maps}
        parameters = {name: p for name, p in self.decoder.model.named_parameters() if name in names}
        matrices = matrices_in_files(self.decoder.model, parameters)
        by_name = {name.removeprefix(prefix): found for name, found in matrices.items()}
        return pieces_of(structure, self.plan, index, by_name)

    def _check(self) -> None:
        """Refuse metrics that are not computed here, and patterns that inputs do not divide into."""
        for index, pieces in enumerate(self.pieces):
            parameters = dict(self.decoder.blocks[index].named_parameters())
            budgets(pieces, parameters, self.plan, {})
            for piece in pieces:
                if piece.metric not in (None, *PROBED, *LOSS_METRICS):
                    raise InvalidInstance(
                        f"method must be one whose metric needs gradients alone; {piece.method} needs {piece.metric!r}"
                    )

    def _measure_loss(
        self,
        windows: Windows,
        workplace: Workplace,
        left: Sequence[int],
        pruned: frozenset[int],
        progress: Progress,
    ) -> int:
        """Keep the metrics of the loss of every block, if a piece uses one; return the steps that are done."""
        depth, asking = self.decoder.depth, [index for index, pieces in enumerate(self.pieces) if asks_loss(pieces)]
        before = depth if self.plan.budget == "auto" else 0
        if not asking:
            return before
        if not all(workplace.has("metrics", index) for index in left if index in asking):
            if pruned:
                raise InvalidInstance(f"{_DENSE}; block {min(pruned)} is pruned, and not all metrics are kept")
            first = windows.first(self.plan.loss_windows)
            dense = DenseStates(workplace, first, 0)
            for index in range(depth):
                block = self.decoder.blocks[index]
                with widened(block):
                    first.states = forward(block, index, first)
                dense.keep(index + 1, first.states)
                progress(before + index + 1, self.steps, "dense blocks forward")
            seed = self.plan.seed
            for index, found in loss_moments(self.decoder, self.pieces, first, dense, seed):
                workplace.keep_metrics(index, {key: _on_host(moments) for key, moments in found.items()})
                progress(before + 2 * depth - index, self.steps, "the loss back through the blocks")
            workplace.drop_states("dense", depth + 1)
        return before + 2 * depth

    def _prune(
        self,
        block: Any,
        parameters: Mapping[str, Any],
        windows: Windows,
        index: int,
        zeros: Mapping[str, int],
        workplace: Workplace,
    ) -> dict[Piece, PrunedMatrix]:
        structure, pieces, plan = self.structures[index], self.pieces[index], self.plan
        by_matrix = [piece for piece in pieces if piece.method in MATRIX_METHODS]
        inputs, outputs = block_moments(block, parameters, structure, by_matrix, windows, index, plan.seed)
        outputs = {**(workplace.metrics(index) or {}), **outputs}
        pruned: dict[str, PrunedMatrix] = {}
        damping: list[float] = []
        if len(by_matrix) < len(pieces):
            pruned = self._by_layer(block, parameters, windows, index)
        for piece, budget in zip(by_matrix, budgets(by_matrix, parameters, plan, zeros), strict=True):
            weight, metric = for_solvers(piece.weight(parameters)), outputs.get(piece.key)
            if metric is not None and not isinstance(metric.H, type(weight)):
                there: Any = torch.from_numpy(metric.H).to(weight)
                metric = metric._replace(H=there)
            moments, keep = inputs.finish(piece.factor), plan.keep_zeros
            damping += prescribed(piece.method, moments, metric)
            pruned[piece.key] = prune_matrix(piece.method, weight, moments, metric, budget, keep_zeros=keep)
        workplace.note_damping(index, damping)
        pruned |= self._refitted(block, parameters, windows, index, pruned, inputs, outputs)
        return {piece: pruned[piece.key] for piece in pieces}

    def _refitted(
        self,
        block: Any,
        parameters: Mapping[str, Any],
        windows: Windows,
        index: int,
        pruned: Mapping[str, PrunedMatrix],
        inputs: InputMoments,
        outputs: Mapping[str, Moments],
    ) -> dict[str, PrunedMatrix]:
        """Queries and keys moved together where a pattern leaves their zeros so little choice that it pays."""
        method, output = MATRIX_METHODS.get(self.plan.attention), self.structures[index].output
        sides = [p for p in self.pieces[index] if p.part.role in ("Q", "K") and p.key in outputs]
        wanted = self.plan.pattern is not None and method is not None and method.attention == "attention"
        if not (wanted and sides) or output is None:
            return {}
        goal = AttentionGoal(block, parameters, sides, output, windows, index)
        metrics = {p.key: (_on_host(inputs.finish(p.factor)), _on_host(outputs[p.key])) for p in sides}
        options = matrix_options(self.plan.attention, {})
        before = {p.key: PrunedMatrix(*map(on_host, pruned[p.key])) for p in sides}
        return refit_together(goal, before, metrics, options)

    def _by_layer(
        self, block: Any, parameters: Mapping[str, Any], windows: Windows, index: int
    ) -> dict[str, PrunedMatrix]:
        """Queries and keys by a method of the attention layer as a whole, in NumPy."""
        assert self._network is not None
        sides = {p.part.role: p for p in self.pieces[index] if p.part.role in ("Q", "K")}
        tokens = []
        device = next(block.parameters()).device
        for states, calls in zip(windows.states, windows.calls, strict=True):
            with Products(parameters) as seen, torch.no_grad():
                calls[index](block, states.to(device))
            tokens.append(to_numpy(next(p.x for p in seen.products if p.factor == sides["Q"].factor)))
        found = prune_attention(self._network, index, tokens, self.plan)
        weights = {role: to_numpy(piece.weight(parameters)) for role, piece in sides.items()}
        return {piece.key: with_zeros(found[role], weights[role], self.plan) for role, piece in sides.items()}

    def _row(self, index: int, inner: str, tensor: Any) -> dict[str, Any]:
        methods = [piece.method for piece in self.pieces[index] if piece.factor.name == inner]
        return {
            "name": f"{self.decoder.names[index]}.{inner}",
            "method": ", ".join(dict.fromkeys(methods)),
            "zeros": int((tensor == 0).sum()),
            "size": tensor.numel(),
        }


def _structures(decoder: Decoder, window: Any) -> list[Structure]:
    found = []
    with torch.no_grad():
        states, calls = decoder.calls(window)
        for block, name, call in zip(decoder.blocks, decoder.names, calls, strict=True):
            found.append(structure_of(block, name, call, states))
            states = call(block, states)
    return found


def _on_host(moments: Moments) -> Moments:
    return moments._replace(H=np.asarray(on_host(moments.H), dtype=np.float64))


def _set(parameters: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Put stored values into the parameters of an open block."""
    for inner, tensor in new.items():
        parameters[inner].data.copy_(tensor)
