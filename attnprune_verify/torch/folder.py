"""`prune_folder`: what `whole_model.prune_model` does, for any decoder that transformers opens."""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attnprune_verify.algorithms.arrays import AnyArray
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.extras import need
from attnprune_verify.instance.validate import Array
from attnprune_verify.pretrained.folder import ModelFolder
from attnprune_verify.pretrained.texts import calibration_windows
from attnprune_verify.torch.blocks import TOKENS, find_blocks, limits
from attnprune_verify.torch.model_state import at_rest, plain_model
from attnprune_verify.torch.opened import Opened, open_folder
from attnprune_verify.torch.pieces import from_bytes, to_numpy
from attnprune_verify.torch.pruning_run import Progress, PruningRun
from attnprune_verify.torch.sinks import sink_lost
from attnprune_verify.torch.windows import windows_of
from attnprune_verify.whole_model.estimate import WindowSetting, settings_within
from attnprune_verify.whole_model.request import Job, Request
from attnprune_verify.whole_model.source import Patches, Source
from attnprune_verify.whole_model.workplace import Workplace


def prune_folder(job: Job, device: str = "cpu", progress: Progress | None = None) -> dict[str, Any]:
    """Prune the linear maps of the model in a folder by a plan and write the result to another.

    Parameters
    ----------
    job : Job
    device : str
        Where blocks are computed.
    progress : callable, optional
        Called with (steps done, steps, what is being done); first with no step done.

    Returns
    -------
    dict
        The content of ``pruning.json``; its rows are the files' tensors.

    Raises
    ------
    InvalidInstance
        If the model, a text or an option is not usable, or `out` is something else.
    """
    plan, folder, target = job.plan, job.folder, job.target()
    source, opened = Source(folder), open_folder(folder, device)
    model = plain_model(opened.model)
    vocabulary, longest = limits(model)
    length, texts = job.length(longest), job.texts
    environment = {
        "device": {"kind": device, "torch": torch.__version__},
        "transformers": need("pruning", "torch", "transformers").__version__,
    }
    tell = progress or (lambda *_: None)

    def windows(k: int, length: int) -> list[AnyArray]:
        drawn = calibration_windows(texts, folder.tokenizer, k, length, plan.seed, framed=False)
        return windows_of(drawn, vocabulary, longest)

    def request_of(setting: WindowSetting) -> Request:
        return Request(source, target, setting.of(plan), texts, setting.k, setting.n, **environment)

    setting = WindowSetting(job.k, length, True)
    if job.minutes is not None:  # what the same command has begun, or the most that fits
        settings = settings_within(job.k, length)
        with at_rest(model):
            window = windows(1, min(TOKENS, length))[0].to(device)
            fits = PruningRun(find_blocks(model, window), plan, window).fits
            begun = (found for found in settings if request_of(found).begun())
            fitting = (found for found in settings if fits(found, 60 * job.minutes))
            setting = next(begun, None) or next(fitting, settings[-1])
    request, plan = request_of(setting), setting.of(plan)
    if (report := request.finished()) is not None:
        return report
    ids = windows(setting.k, setting.n)
    with at_rest(model):
        work = PruningRun(find_blocks(model, ids[0].to(device)), plan, ids[0][:, :TOKENS].to(device))
        files = _Files(opened, work, request.workplace)
        with request.workplace.entered():
            tell(0, work.steps, work.summary(ids))
            lost = sink_lost(work.decoder, ids)
            rows = work.run(ids, request.workplace, lambda *_: source.refuse_changes(), tell)
            methods = {row["name"]: row["method"] for row in rows}
            further = {"dense": work.dense(), "mapped": opened.mapped, "warnings": lost}
            further["zeros_before"] = work.zeros_before
            damping = request.workplace.noted("damping") or {}
            report = request.deliver(files.rows(methods), files.patches(), further, damping)
    request.workplace.remove()
    return report


def logits_of(folder: ModelFolder, device: str = "cpu") -> tuple[Callable[[NDArray[np.int64]], Array], int | None]:
    """The logits (1, n, vocabulary) of ids (1, n) by the model in a folder, in NumPy, and its longest window."""
    model = open_folder(folder, device).model
    vocabulary, longest = limits(model)

    def logits(ids: NDArray[np.int64]) -> Array:
        (window,) = windows_of(ids, vocabulary, longest)
        with at_rest(model), torch.no_grad():
            return to_numpy(model(input_ids=window.to(device)).logits)

    return logits, longest


class _Files:
    """The files' tensors of what a workplace holds of every block."""

    def __init__(self, opened: Opened, work: PruningRun, workplace: Workplace) -> None:
        self._opened, self._work, self._workplace = opened, work, workplace
        self._block = lru_cache(maxsize=1)(self._filed)  # tensors of a block mostly follow each other in a file
        for index, pieces in enumerate(work.pieces):  # refused before any work
            parameters = dict(work.decoder.blocks[index].named_parameters())
            for inner in dict.fromkeys(piece.factor.name for piece in pieces):
                opened.filed(f"{work.decoder.names[index]}.{inner}", parameters[inner].data)

    def rows(self, methods: Mapping[str, str]) -> list[dict[str, Any]]:
        """Name, method, zeros and size of every tensor of the files."""
        return [
            {"name": name, "method": methods[parameter], "zeros": int((tensor == 0).sum()), "size": tensor.numel()}
            for index in range(self._work.decoder.depth)
            for name, (parameter, tensor) in self._block(index).items()
        ]

    def patches(self) -> dict[str, Patches]:
        """Return the replaced tensors by file."""
        found: dict[str, dict[int, tuple[int, Callable[[], bytes]]]] = {}
        for index in range(self._work.decoder.depth):
            for name, (_, tensor) in self._block(index).items():
                place = self._opened.place(name)
                patch = (tensor.numel() * tensor.element_size(), partial(self._content, index, name))
                found.setdefault(place.file.name, {})[place.offset] = patch
        return dict(found)

    def _content(self, index: int, name: str) -> bytes:
        tensor = self._block(index)[name][1]
        content: bytes = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        return content

    def _filed(self, index: int) -> dict[str, tuple[str, Any]]:
        """(parameter, tensor) by the tensor's name in the files."""
        kept = self._workplace.block(index)
        if kept is None:
            raise InvalidInstance(f"what is kept must read back as it was written; block {index} does not")
        parameters = dict(self._work.decoder.blocks[index].named_parameters())
        found: dict[str, tuple[str, Any]] = {}
        for inner, raw in kept.items():
            name = f"{self._work.decoder.names[index]}.{inner}"
            like = parameters[inner].data
            tensor = from_bytes(raw, like).cpu()
            found |= {one: (name, part) for one, part in self._opened.filed(name, tensor).items()}
        return found
