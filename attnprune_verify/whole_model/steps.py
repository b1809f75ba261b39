"""The blocks of a model pruned one after the other, each kept as soon as it is done, from wherever a run stopped."""

from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array
from attnprune_verify.pretrained.network import PretrainedModel
from attnprune_verify.pretrained.tensors import decoded
from attnprune_verify.whole_model.blockwise import forward, prune_block, reconstructed_block
from attnprune_verify.whole_model.budgets import Zeros, with_present, zeros_by_map
from attnprune_verify.whole_model.echoes import drawn_echoes, echo_count
from attnprune_verify.whole_model.loss import loss_moments, loss_roles
from attnprune_verify.whole_model.plan import Plan
from attnprune_verify.whole_model.source import Patches, Source
from attnprune_verify.whole_model.stored import stored_weight
from attnprune_verify.whole_model.workplace import Workplace

_INTACT = "what is kept must read back as it was written"


class Steps:
    """The computation for a folder; what the workplace holds intact is not computed again.

    Nothing is kept that was computed from a model which is no longer the one that was hashed.
    """

    def __init__(
        self, model: PretrainedModel, ids: NDArray[np.int64], plan: Plan, workplace: Workplace, source: Source
    ) -> None:
        self.model, self.plan = model, plan
        self._ids, self._workplace, self._source = ids, workplace, source

    @cached_property
    def _seen(self) -> NDArray[np.int64]:
        """Return all windows that states are kept of: those of the text, then their echoes."""
        ids, plan, place = self._ids, self.plan, self._workplace
        count = echo_count(len(ids), plan.reconstruct) if plan.reconstruct != 0 and self.model.family.predicts else 0
        if not count:
            return ids
        kept = place.noted("echoes")
        if kept is None:
            kept = drawn_echoes(self.model, ids, count, plan.seed).tolist()
            self._source.refuse_changes()
            place.forget_echoes(self.model.depth)
            place.note("echoes", kept)
        return np.concatenate([ids, np.array(kept, dtype=np.int64)])

    @cached_property
    def _zeros(self) -> Any:
        """Zeros of each map; None where every matrix is pruned by rho."""
        kept = self._workplace.noted("zeros")
        if kept is None and (kept := zeros_by_map(self.model, self._ids, self.plan)) is not None:
            kept = with_present(kept, self.present) if self.plan.keep_zeros else kept
            self._source.refuse_changes()
            self._workplace.note("zeros", kept)
        return kept

    @cached_property
    def present(self) -> Zeros:
        """Zeros that the maps to be pruned have already, by block."""
        found: Zeros = []
        for index in range(self.model.depth):
            block = self.model.block(index)
            roles = self.plan.maps_of(index, block)
            found.append({role: int(np.count_nonzero(block.weight(role) == 0)) for role in roles})
        return found

    def prune(self, index: int) -> None:
        """Prune block `index`, unless that is done."""
        if self._workplace.has("block", index):
            return
        zeros = self._zeros
        self._measure_loss()
        states = self._before(index)
        block, places = self.model.block(index), {}
        outputs = self._workplace.metrics(index)
        damping: list[float] = []
        text, own = states[: len(self._ids)], zeros and zeros[index]
        pruned = prune_block(block, text, self.plan, index, own, outputs, damping)
        self._workplace.note_damping(index, damping)
        if self.plan.reconstruct != 0 and pruned:
            pruned = reconstructed_block(block, pruned, states, self._goal(index), self.plan)
        for role, matrix in pruned.items():
            places[role] = stored_weight(self.model.family.weight_place(index, role), block.weight(role), matrix)
        self._source.refuse_changes()
        self._workplace.keep_block(index, places)

    def _before(self, index: int) -> Array:
        """The hidden states before block `index`, from the last block before which they are there."""
        seen, states, start = self._seen, None, index + 1  # drawn anew, echoes drop the states of others
        while states is None and start > 0:
            start -= 1
            states = self._workplace.states("hidden", start)
        if states is None:
            states = self._kept("hidden", 0, (self.model.family.embed(ids[np.newaxis])[0] for ids in seen))
        for done in range(start, index):
            block = self.model.block(done)
            if not self.plan.dense_inputs:
                places = {role: self.model.family.weight_place(done, role) for role in self.block(done)}
                new = {role: decoded(raw, places[role].dtype) for role, raw in self.block(done).items()}
                block = block.with_weights({role: weight.astype(np.float32) for role, weight in new.items()})
            states = self._kept("hidden", done + 1, forward(block, states))
        self._workplace.drop_states("hidden", index)
        return states

    def _goal(self, index: int) -> Array:
        """Return the outputs of the dense block `index`, from the last dense states that are there."""
        start, states = index + 1, self._workplace.states("target", index + 1)
        while states is None and start > 0:
            start -= 1
            states = self._workplace.states("target", start)
        if states is None:
            states = self._kept("target", 0, (self.model.family.embed(ids[np.newaxis])[0] for ids in self._seen))
        for done in range(start, index + 1):
            states = self._kept("target", done + 1, forward(self.model.block(done), states))
        self._workplace.drop_states("target", index + 1)
        return states

    def _kept(self, kind: str, index: int, windows: Iterable[Array], shape: tuple[int, ...] = ()) -> Array:
        """Write states down, and map them from the disk."""
        shape = shape or (*self._seen.shape, self.model.family.width)
        self._workplace.keep_states(kind, index, self._of_this_model(windows), shape)
        states = self._workplace.states(kind, index)
        if states is None:
            raise InvalidInstance(f"{_INTACT}; {kind} states {index} in {str(self._workplace.path)!r} are not")
        return states

    def _of_this_model(self, windows: Iterable[Array]) -> Iterator[Array]:
        yield from windows
        self._source.refuse_changes()

    def _measure_loss(self) -> None:
        """Keep the loss's metrics of every block, if a method uses them; dense hidden states lie on the disk."""
        model, place = self.model, self._workplace
        if not loss_roles(model, self.plan) or all(
            place.has("metrics", index) or place.has("block", index) for index in range(model.depth)
        ):
            return
        first = model.family.embed(self._ids[: self.plan.loss_windows])
        states: list[Any] = [self._kept("dense", 0, first, first.shape)]
        for index in range(model.depth):
            states.append(self._kept("dense", index + 1, forward(model.block(index), states[-1]), first.shape))
        for index, found in loss_moments(model, self.plan, states):
            self._source.refuse_changes()
            place.keep_metrics(index, found)
        place.drop_states("dense", model.depth + 1)

    def block(self, index: int) -> dict[str, NDArray[Any]]:
        """The new weights of block `index`, as the files will hold them.

        Raises
        ------
        InvalidInstance
            If they were damaged since they were written.
        """
        found = self._workplace.block(index)
        if found is None:
            raise InvalidInstance(f"{_INTACT}; block {index} in {str(self._workplace.path)!r} is not")
        return found

    def patches(self) -> dict[str, Patches]:
        """Return the replaced tensors by file."""
        found: dict[str, dict[int, Any]] = {}
        block = lru_cache(maxsize=1)(self.block)  # its maps mostly follow each other in a file

        def content(index: int, role: str) -> bytes:
            return block(index)[role].tobytes()

        for index in range(self.model.depth):
            for role, raw in block(index).items():
                place = self.model.family.weight_place(index, role)
                patch = (raw.nbytes, partial(content, index, role))
                found.setdefault(place.file.name, {})[place.offset] = patch
        return dict(found)
