"""Prune a transformers model in memory: forward and backward passes by torch on its device, the rest by this package.

Needs the extra `torch` and transformers. What is computed is that of `prune_model`: inputs' moments of every block
behind the pruned ones before it, output metrics from random probes (drawn otherwise, so results agree in law, not to
the bit), one matrix after the other in float64.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.algorithms.layer.prune import prune_layer
from attnprune_verify.algorithms.matrix.damping import Moments, MomentSum
from attnprune_verify.algorithms.matrix.methods import MATRIX_METHODS, prune_matrix
from attnprune_verify.algorithms.matrix.metrics import output_blocks
from attnprune_verify.algorithms.matrix.output_obs import PrunedMatrix
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.extras import need
from attnprune_verify.instance.validate import Array
from attnprune_verify.pretrained.block import INPUT_OF, Block
from attnprune_verify.pretrained.config import Config
from attnprune_verify.pretrained.load import FAMILIES
from attnprune_verify.pretrained.network import Family, PretrainedModel
from attnprune_verify.pretrained.tensors import Place, Tensors
from attnprune_verify.whole_model.blockwise import budget_of, refitted
from attnprune_verify.whole_model.budgets import Zeros, zeros_by_map
from attnprune_verify.whole_model.fingerprint import fingerprint, versions
from attnprune_verify.whole_model.loss import LOSS_WINDOWS
from attnprune_verify.whole_model.plan import Plan

need("attnprune_verify.torch", "torch")
import torch  # noqa: E402  # after what is said where it is missing

__all__ = ["prune_"]


def prune_(
    model: Any,
    batches: Iterable[Any],
    rho: float | None = None,
    *,
    pattern: str | None = None,
    attention: str = "auto",
    rest: str = "auto",
    seed: int = 0,
    budget: str = "matrix",
    hold: Sequence[int] = (),
) -> dict[str, Any]:
    """Prune a Llama-, Qwen2- or Mistral-type model of transformers in place, block by block, in float32 on its device.

    Parameters
    ----------
    model : transformers model with a language-model head
        Its weights change; dtypes, device, mode and which parameters want gradients do not.
    batches : iterable of (k, n) integer tensors
        Calibration windows, without padding.
    rho, pattern, attention, rest, seed, budget, hold
        As in `prune_model`. Budgets between matrices are found on the host, in NumPy: the windows must have one length.

    Returns
    -------
    dict
        As `prune_model`: fingerprint, method, and for every pruned tensor its zeros.

    Raises
    ------
    InvalidInstance
        If the model has a feature that is not computed here (it is named), or an argument is not usable.

    Examples
    --------
    With a model and a tokenizer of transformers::

        ids = tokenizer(text, return_tensors="pt").input_ids[:, : 8 * 2048].reshape(8, 2048)
        report = prune_(model, [ids], 0.5)
    """
    # Plan refuses a budget that is none
    plan = Plan(attention, rest, rho, pattern, budget, hold=tuple(hold), seed=seed)  # type: ignore[arg-type]
    family = _family(model)
    plan.refuse_blocks_beyond(family.depth)
    windows = [window[np.newaxis] for batch in batches for window in _checked(batch, family)]
    if not windows:
        raise InvalidInstance("batches must hold at least one window; they hold none")
    zeros = _zeros(family, windows, plan)
    fields = {
        "model": _digest(model),
        "windows": [hashlib.sha256(window.tobytes()).hexdigest() for window in windows],
        "plan": plan.settings(),
        "dtype": "float32",
        "versions": versions() | {"torch": torch.__version__},
    }
    rows = []
    with _at_rest(model):
        ids = [torch.from_numpy(window).to(model.device) for window in windows]
        outputs = _loss_moments(model, family, plan, ids[:LOSS_WINDOWS])
        calls, hidden = _calls(model, ids)
        for index, module in enumerate(model.model.layers):
            budgets = None if zeros is None else zeros[index]
            hidden, found = _prune_block(module, family, plan, index, hidden, calls[index], outputs, budgets)
            rows += found
    return {
        "schema": "attnprune-verify/pruning/1",
        "fingerprint": fingerprint(fields),
        "method": {"attention": plan.attention, "rest": plan.rest},
        "zeros": sum(row["zeros"] for row in rows),
        "size": sum(row["size"] for row in rows),
        "tensors": rows,
    }


class _ModuleTensors(Tensors):
    """The tensors of a model in memory, as those of a folder."""

    def __init__(self, model: Any) -> None:
        self._state = model.state_dict()
        self._places = {name: Place(name, Path(), "F32", tuple(t.shape), 0) for name, t in self._state.items()}

    def __call__(self, name: str) -> Array:
        return _numpy(self._state[self.place(name).name])

    def rows(self, name: str, ids: NDArray[np.int64]) -> Array:
        return self(name)[ids]

    def equal(self, name: str, other: str) -> bool:
        return bool(torch.equal(*(self._state[self.place(each).name] for each in (name, other))))


class _Seen(NamedTuple):
    """What went into and came out of the maps of one block."""

    inputs: dict[str, Any]
    outputs: dict[str, Any]


def _family(model: Any) -> Family:
    """How the model computes; everything that is not computed here is refused."""
    config: Any = getattr(model, "config", None)
    if not hasattr(config, "to_dict") or not hasattr(model, "lm_head"):
        raise InvalidInstance(
            f"model must be a transformers model with a language-model head; got {type(model).__name__}"
        )
    content = Config(config.to_dict())
    kinds = [name for name, kind in FAMILIES.items() if kind.predicts]
    if content.family not in kinds:
        raise InvalidInstance(f"model_type must be one of {', '.join(kinds)}; got {content.family!r:.60}")
    return FAMILIES[content.family](content, _ModuleTensors(model))


def _zeros(family: Family, windows: Sequence[NDArray[np.int64]], plan: Plan) -> Zeros | None:
    """For every block the zeros of each map, where budgets differ from map to map."""
    if plan.budget == "matrix":
        return None
    if len({window.shape for window in windows}) > 1:
        raise InvalidInstance(f"windows must have one length with {plan.budget} budgets; they have several")
    return zeros_by_map(PretrainedModel(family), np.concatenate(windows), plan)


def _checked(batch: Any, family: Family) -> NDArray[np.int64]:
    ids = np.asarray(batch.cpu() if isinstance(batch, torch.Tensor) else batch)
    if ids.ndim != 2 or ids.size == 0 or ids.dtype.kind not in "iu":
        raise InvalidInstance(f"a batch must be a non-empty (k, n) integer tensor; got {ids.dtype} {ids.shape}")
    if ids.min() < 0 or ids.max() >= family.vocabulary or ids.shape[1] > family.longest:
        raise InvalidInstance(
            f"ids must be in 0..{family.vocabulary - 1}, at most {family.longest} of them; "
            f"got {ids.min()} to {ids.max()}, {ids.shape[1]} of them"
        )
    return ids.astype(np.int64)


@contextmanager
def _at_rest(model: Any) -> Iterator[None]:
    """In evaluation mode and without gradients of weights; afterwards as before."""
    training, wanted = model.training, [p.requires_grad for p in model.parameters()]
    model.eval().requires_grad_(False)
    try:
        yield
    finally:
        model.train(training)
        for parameter, want in zip(model.parameters(), wanted, strict=True):
            parameter.requires_grad_(want)


@contextmanager
def _watched(family: Family, module: Any, index: int, roles: Iterable[str]) -> Iterator[_Seen]:
    """Note the inputs and outputs of the maps while the block runs."""
    seen = _Seen({}, {})
    with ExitStack() as stack:
        for role in roles:

            def note(_: Any, inputs: Any, output: Any, role: str = role) -> None:
                seen.inputs[role], seen.outputs[role] = inputs[0], output

            stack.callback(_map(family, module, index, role).register_forward_hook(note).remove)
        yield seen


def _map(family: Family, module: Any, index: int, role: str) -> Any:
    """The linear module of a role: its place in the block is what its name has behind the block's."""
    name = family.weight_place(index, role).name.removesuffix(".weight")
    return module.get_submodule(name.partition(f"layers.{index}.")[2])


def _calls(model: Any, ids: Sequence[Any]) -> tuple[list[list[dict[str, Any]]], list[Any]]:
    """The keyword arguments of every block for every window, in float32, and the hidden states before the first."""
    layers = model.model.layers
    calls: list[list[dict[str, Any]]] = [[] for _ in layers]
    hidden = []
    with ExitStack() as stack, torch.no_grad():
        for kept, layer in zip(calls, layers, strict=True):

            def note(_: Any, args: Any, kwargs: Any, kept: list[dict[str, Any]] = kept) -> None:
                kept.append({name: _wide(value) for name, value in kwargs.items()})

            stack.callback(layer.register_forward_pre_hook(note, with_kwargs=True).remove)
        first = layers[0].register_forward_pre_hook(lambda _, args: hidden.append(args[0].float()))
        stack.callback(first.remove)
        for window in ids:
            model(window, use_cache=False)
    return calls, hidden


def _wide(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_wide, value))
    return value.float() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _prune_block(
    module: Any,
    family: Family,
    plan: Plan,
    index: int,
    hidden: list[Any],
    calls: list[dict[str, Any]],
    outputs: Mapping[tuple[int, str], Moments],
    zeros: Mapping[str, int] | None,
) -> tuple[list[Any], list[dict[str, Any]]]:
    """Prune one block in float32 and give the hidden states after it, and what became of its tensors."""
    dtype = next(module.parameters()).dtype
    module.float()
    block = family.block(index)
    pruned = _pruned_maps(module, family, block, plan, index, hidden, calls, outputs, zeros)
    rows = []
    for role, matrix in pruned.items():
        parameter = _map(family, module, index, role).weight
        _store(parameter, matrix, dtype)
        name, method = family.weight_place(index, role).name, plan.method_of(index, role)
        pruned_here = int((parameter == 0).sum())
        rows.append({"name": name, "method": method, "zeros": pruned_here, "size": parameter.numel()})
    with torch.no_grad():
        after = [_run(module, states, call) for states, call in zip(hidden, calls, strict=True)]
    module.to(dtype)
    return after, rows


def _pruned_maps(
    module: Any,
    family: Family,
    block: Block,
    plan: Plan,
    index: int,
    hidden: list[Any],
    calls: list[dict[str, Any]],
    outputs: Mapping[tuple[int, str], Moments],
    zeros: Mapping[str, int] | None,
) -> dict[str, PrunedMatrix]:
    methods = plan.maps_of(index, block)
    by_matrix = {role: name for role, name in methods.items() if name in MATRIX_METHODS}
    probed = [role for role, name in by_matrix.items() if MATRIX_METHODS[name].metric(role) == "attention"]
    inputs = {INPUT_OF[role]: MomentSum(block.weight(role).shape[1], len(hidden)) for role in by_matrix}
    sums = _output_sums(block, probed, len(hidden))
    draw = torch.Generator().manual_seed(plan.seed * 100003 + index)
    tokens = []
    for states, call in zip(hidden, calls, strict=True):
        with _watched(family, module, index, block.roles) as seen, torch.enable_grad():
            output = _run(module, states.detach().requires_grad_(bool(probed)), call)
        for source, total in inputs.items():
            total.add(next(_numpy(x)[0] for role, x in seen.inputs.items() if INPUT_OF[role] == source))
        if probed:
            _add_gradients(sums, seen, _probe(seen, output, probed, draw))
        tokens.append(_numpy(seen.inputs["Q"])[0])
    pruned = {}
    if len(by_matrix) < len(methods):
        options: dict[str, Any] = {"seed": plan.seed} if plan.attention == "random" else {}
        layer = prune_layer(block.layer, np.stack(tokens), plan.rho or 0.0, plan.attention, **options)
        pruned["Q"] = PrunedMatrix(layer.layer.W_Q.T, layer.mask_Q.T == 1)
        pruned["K"] = PrunedMatrix(layer.layer.W_K.T, layer.mask_K.T == 1)
    seen_outputs = {
        role: outputs.get((index, role)) or (sums[role].finish() if role in sums else None) for role in by_matrix
    }
    for role, name in by_matrix.items():
        weight = block.weight(role)
        seen_inputs = inputs[INPUT_OF[role]].finish()
        budget = budget_of(plan, weight, None if zeros is None else zeros[role])
        pruned[role] = prune_matrix(name, weight, seen_inputs, seen_outputs[role], budget)
    before = [_numpy(states)[0] for states in hidden]
    return refitted(block, before, pruned, plan, lambda role: inputs[INPUT_OF[role]].finish(), seen_outputs.__getitem__)


def _probe(seen: _Seen, output: Any, probed: Sequence[str], draw: torch.Generator) -> dict[str, Any]:
    """Gradients of random signs: on the attention output for Q, K, V, on the block's output for the other maps."""
    gradients: dict[str, Any] = {}
    for roles, upon in (("QKV", seen.outputs["O"]), (("O", "gate", "up", "down"), output)):
        wanted = [role for role in probed if role in roles]
        if wanted:
            signs = (torch.randint(0, 2, upon.shape, generator=draw) * 2.0 - 1).to(upon.device)
            found = torch.autograd.grad(upon, [seen.outputs[role] for role in wanted], signs, retain_graph=True)
            gradients |= dict(zip(wanted, found, strict=True))
    return gradients


def _loss_moments(model: Any, family: Family, plan: Plan, ids: Sequence[Any]) -> dict[tuple[int, str], Moments]:
    """The loss's metrics: gradients of labels drawn from the model's own prediction, at all maps that ask for them."""
    first = family.block(0)  # all blocks have its sizes
    roles = [r for r, name in plan.maps_of(0, first).items() if name in MATRIX_METHODS]
    roles = [r for r in roles if MATRIX_METHODS[plan.method_of(0, r)].metric(r) == "loss"]
    if not roles:
        return {}
    layers, draw = list(model.model.layers), torch.Generator().manual_seed(plan.seed)
    sums = [_output_sums(first, roles, len(ids)) for _ in layers]
    start = model.get_input_embeddings().register_forward_hook(lambda _, args, out: out.requires_grad_(True))
    try:
        for window in ids:
            with ExitStack() as stack, torch.enable_grad():
                seen = [stack.enter_context(_watched(family, m, i, roles)) for i, m in enumerate(layers)]
                logits = model(window, use_cache=False).logits[0].float()
                labels = torch.multinomial(logits.detach().softmax(-1).cpu(), 1, generator=draw)[:, 0].to(logits.device)
                loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
                outs = [one.outputs[role] for one in seen for role in roles]
                found = iter(torch.autograd.grad(loss, outs))
            for totals, one in zip(sums, seen, strict=True):
                _add_gradients(totals, one, {role: next(found) for role in roles})
    finally:
        start.remove()
    return {(index, role): total.finish() for index, totals in enumerate(sums) for role, total in totals.items()}


def _output_sums(block: Block, roles: Iterable[str], windows: int) -> dict[str, MomentSum]:
    return {role: MomentSum(len(block.weight(role)), windows, output_blocks(block, role)) for role in roles}


def _add_gradients(sums: Mapping[str, MomentSum], seen: _Seen, gradients: Mapping[str, Any]) -> None:
    """Tokens count by the squared length of the map's input."""
    for role, gradient in gradients.items():
        sizes = np.square(_numpy(seen.inputs[role])[0].astype(np.float64)).sum(axis=-1)
        sums[role].add(_numpy(gradient)[0], sizes)


def _run(module: Any, states: Any, call: Mapping[str, Any]) -> Any:
    output = module(states, **call)
    return output[0] if isinstance(output, tuple) else output


def _store(parameter: Any, matrix: PrunedMatrix, dtype: Any) -> None:
    """As `dtype` will hold it; a kept weight too small for it becomes its smallest number, not one more zero."""
    new = torch.from_numpy(np.ascontiguousarray(matrix.weight)).to(dtype)
    lost = torch.from_numpy(np.ascontiguousarray(matrix.kept & (matrix.weight != 0))) & (new == 0)
    new[lost] = torch.finfo(dtype).tiny
    if not torch.isfinite(new).all():
        raise InvalidInstance(f"new weights must fit into {dtype}; the largest does not")
    parameter.data.copy_(new)


def _numpy(tensor: Any) -> Array:
    array: Array = tensor.detach().float().cpu().numpy()
    return array


def _digest(model: Any) -> str:
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
