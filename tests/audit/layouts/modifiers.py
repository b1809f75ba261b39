"""Modifiers in llm-compressor's layout: what its pipeline calls, in the order it does, around the other two layouts."""

from .sparsegpt import SparseGPT
from .wanda import WrappedGPT, prune


class _Modifier:
    kind = None

    def __init__(self, *, sparsity, mask_structure, targets, **settings):
        self.sparsity, self.targets, self.settings = sparsity, targets, settings
        self.prune_n, self.prune_m = map(int, mask_structure.split(":"))
        self.around, self.handles = {}, []

    def on_initialize(self, state, **_):
        self.layers = [one for one in state.model.modules() if type(one).__name__ in self.targets]

    def on_calibration_start(self, state, event, **_):
        for layer in self.layers:
            self.around[layer] = self.kind(layer)
            self.handles.append(layer.register_forward_hook(self._see))

    def _see(self, layer, args, out):
        self.around[layer].add_batch(args[0], out)

    def on_sequential_epoch_end(self, state, event, **_):
        for layer, one in self.around.items():
            self._prune(layer, one)

    def on_calibration_end(self, state, event, **_):
        for handle in self.handles:
            handle.remove()

    def on_finalize(self, state, **_):
        return True


class SparseGPTModifier(_Modifier):
    kind = SparseGPT

    def _prune(self, layer, one):
        block, damping = self.settings["block_size"], self.settings["dampening_frac"]
        one.fasterprune(self.sparsity, self.prune_n, self.prune_m, block, damping)


class WandaPruningModifier(_Modifier):
    kind = WrappedGPT

    def _prune(self, layer, one):
        prune(layer, one, self.sparsity, self.prune_n, self.prune_m)
