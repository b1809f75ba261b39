"""`prune_`: a transformers model in memory, pruned in place block by block."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from attnprune_verify.state.keeper import Keeper
from attnprune_verify.torch.blocks import TOKENS, Decoder, find_blocks, limits
from attnprune_verify.torch.model_state import at_rest, moved, plain_model
from attnprune_verify.torch.pruning_run import Progress, PruningRun
from attnprune_verify.torch.sinks import sink_lost
from attnprune_verify.torch.windows import windows_of
from attnprune_verify.whole_model.fingerprint import fingerprint, versions
from attnprune_verify.whole_model.plan import Plan
from attnprune_verify.whole_model.request import counted, effort, trusted
from attnprune_verify.whole_model.workplace import Workplace

_BLOCKS = "blocks.json"


def prune_(
    model: Any,
    batches: Any,
    rho: float | None = None,
    *,
    device: str | None = None,
    progress: Progress | None = None,
    resume: str | os.PathLike[str] | None = None,
    **choices: Any,
) -> dict[str, Any]:
    """Prune the linear maps of any decoder of transformers in place, block by block, on its device.

    Blocks are the modules of one ModuleList that run one after the other; maps are the products with weights that they
    compute, in whatever modules. Embeddings, the head, norms, routers of experts and convolutions stay as they are.

    Parameters
    ----------
    model : transformers model with a language-model head
        The weights of its blocks change, in place. Types, device, mode, hooks and which parameters want gradients do
        not, nor after an exception; then the blocks that were done are pruned.
    batches : (k, n) integer tensor, mapping with input_ids and perhaps attention_mask, or an iterable of such
        Calibration windows, as a tokenizer or a DataLoader gives them; padding is cut off.
    rho : float, optional
        As in `prune_model`.
    device : str, optional
        Where it is computed: the model is moved there and back; by default where it is.
    progress : callable, optional
        Called with (steps done, steps, what is being done); first with no step done.
    resume : path, optional
        A folder for what is done; the same call goes on from there, on the model as it was or as it was left.
    **choices
        As in `prune_model`. Methods of a layer as a whole and the budgets "measured" and "owl" need a network in NumPy:
        they work for the model types Llama, Qwen2 and Mistral.

    Returns
    -------
    dict
        As `prune_model`: fingerprint, method, and for every pruned parameter its zeros; `dense`: weights of blocks with
        more than one dimension that are no linear map, or are none to be pruned; `zeros_before`: zeros that the pruned
        ones had, all kept unless `keep_zeros` is False.

    Raises
    ------
    InvalidInstance
        If the model cannot be pruned so (what cannot is named), or an argument is not usable; before anything changes.

    Examples
    --------
    With a model and a tokenizer of transformers::

        batches = tokenizer(texts, return_tensors="pt", padding=True, truncation=True, max_length=2048)
        report = prune_(model, batches, 0.5)
    """
    plan = Plan.by_default(rho=rho, **choices)
    model = plain_model(model)
    with at_rest(model), moved(model, device):
        ids, work = _looked_at(model, batches, plan)
        with _place(resume) as place, _Digests(place).claimed() as known:
            fields = {
                "model": known.of(work.decoder),
                "windows": [hashlib.sha256(window.numpy().tobytes()).hexdigest() for window in ids],
                "plan": plan.settings(),
                "dtype": "float32",
                **effort(plan, len(ids)),
                "versions": versions() | {"torch": torch.__version__},
            }
            workplace = Workplace(place / "prune.partial", fields)

            def keep(index: int, new: Mapping[str, Any]) -> None:
                known.keep(index, new)
                parameters = dict(work.decoder.blocks[index].named_parameters())
                for name, tensor in new.items():
                    parameters[name].data.copy_(tensor)

            with workplace.entered():
                tell = progress or (lambda *_: None)
                tell(0, work.steps, work.summary(ids))
                lost = [] if known.pruned else sink_lost(work.decoder, ids)
                rows = work.run(ids, workplace, keep, tell, known.pruned)
                damping = trusted(workplace.noted("damping") or {})
            workplace.remove()
            known.remove()
    return {
        "schema": "attnprune-verify/pruning/1",
        "fingerprint": fingerprint(fields),
        "method": {"attention": plan.attention, "rest": plan.rest},
        **counted(rows),
        "dense": work.dense(),
        "zeros_before": work.zeros_before,
        "warnings": lost,
        "damping": damping,
    }


def _looked_at(model: Any, batches: Any, plan: Plan) -> tuple[list[Any], PruningRun]:
    """The windows, and the work to be done; everything that must be refused is refused here."""
    vocabulary, longest = limits(model)
    ids = windows_of(batches, vocabulary, longest)
    window = max(ids, key=lambda one: one.shape[1])[:, :TOKENS].to(next(model.parameters()).device)
    return ids, PruningRun(find_blocks(model, window), plan, window)


@contextmanager
def _place(resume: str | os.PathLike[str] | None) -> Iterator[Path]:
    """The folder that was given, made if missing, or one that goes afterwards."""
    if resume is None:
        with tempfile.TemporaryDirectory() as name:
            yield Path(name)
    else:
        yield Path(resume)


class _Digests:
    """Digests of a model, block by block; a block that was pruned here counts as what it was before."""

    def __init__(self, place: Path) -> None:
        self._kept = Keeper(place / "blocks.partial", {"schema": "attnprune-verify/blocks/1"}, own=re.escape(_BLOCKS))
        self._now: list[str] = []
        self.pruned: frozenset[int] = frozenset()
        self._blocks: list[dict[str, Any]] = []
        self._dense: dict[str, Any] = {}

    @contextmanager
    def claimed(self) -> Iterator[_Digests]:
        """Read the record of the pruned blocks, in a folder of its own that is locked."""
        with self._kept.claimed():
            self._dense = self._kept.kept(_BLOCKS) or {}
            yield self

    def of(self, decoder: Decoder) -> str:
        """The digest of the dense model."""
        inside = {id(p) for block in decoder.blocks for p in block.parameters()}
        around = {name: p for name, p in decoder.model.named_parameters() if id(p) not in inside}
        self._blocks = [dict(block.named_parameters()) for block in decoder.blocks]
        found = [_digest(block) for block in self._blocks]
        self._now = [self._dense.get(one, one) for one in found]
        self.pruned = frozenset(index for index, one in enumerate(found) if one in self._dense)
        return hashlib.sha256("".join([_digest(around), *self._now]).encode()).hexdigest()

    def keep(self, index: int, new: Mapping[str, Any]) -> None:
        """Note what block `index` becomes, before it does."""
        self._dense[_digest({**self._blocks[index], **new})] = self._now[index]
        self._kept.keep(_BLOCKS, self._dense)

    def remove(self) -> None:
        """Delete the record: nothing is left to resume."""
        self._kept.clear()


def _digest(tensors: Mapping[str, Any]) -> str:
    digest = hashlib.sha256()
    for name, tensor in tensors.items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
