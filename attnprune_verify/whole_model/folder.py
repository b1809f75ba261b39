"""`prune_model`: a folder in Hugging Face's layout in, the same folder with pruned weights out."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.algorithms.matrix.budget import as_pattern
from attnprune_verify.pretrained.folder import ModelFolder
from attnprune_verify.pretrained.load import opened_network
from attnprune_verify.pretrained.network import PretrainedModel
from attnprune_verify.pretrained.tensors import decoded
from attnprune_verify.pretrained.texts import calibration_windows
from attnprune_verify.whole_model.plan import DENSE, Plan
from attnprune_verify.whole_model.request import Job, Paths, Request
from attnprune_verify.whole_model.sinks import first_share, sink_lost
from attnprune_verify.whole_model.source import Source
from attnprune_verify.whole_model.steps import Steps


def prune_model(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str],
    rho: float | None = None,
    *,
    calibration: Paths,
    k: int = 128,
    n: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **choices: Any,
) -> dict[str, Any]:
    """Prune a model by this package's networks: `attnprune_verify.prune_model` with its device "numpy".

    Parameters
    ----------
    folder, out, rho, calibration, k, n, **choices
        As in `attnprune_verify.prune_model`.
    progress : callable, optional
        Called with (blocks done, blocks).

    Examples
    --------
    >>> prune_model("no-such-folder", "pruned", 0.5, calibration="text.txt")
    Traceback (most recent call last):
        ...
    attnprune_verify.errors.InvalidInstance: a model must be a folder; got 'no-such-folder'
    """
    plan = Plan.by_default(rho=rho, **choices)
    return prune_folder(Job(ModelFolder(folder), out, plan, calibration, k, n), progress)


def prune_folder(job: Job, progress: Callable[[int, int], None] | None = None) -> dict[str, Any]:
    """Prune the linear maps of the model in a folder by a plan and write the result to another, block by block.

    Each block is calibrated on what the pruned blocks before it make of k windows of n tokens, and only one block and
    one window are in memory. The result is again such a folder: the same files, tensor names, dtypes and shards, pruned
    weights exactly 0, all other tensors byte for byte as before, and a ``pruning.json``. It appears whole or not at
    all; what is done so far lies in ``out + ".partial"``, and the same call goes on from there.

    Parameters
    ----------
    job : Job
    progress : callable, optional
        Called with (blocks done, blocks).

    Returns
    -------
    dict
        The content of ``pruning.json``.

    Raises
    ------
    InvalidInstance
        If the model, a text or an option is not usable, or `out` is something else.
    """
    plan, target, source = job.plan, job.target(), Source(job.folder)
    model = opened_network(job.folder, np.float32)
    check_pattern(model, plan)
    plan.refuse_blocks_beyond(model.depth)
    length, texts = job.length(model.longest), job.texts
    request = Request(source, target, plan, texts, job.k, length, predicts=model.family.predicts)
    if (report := request.finished()) is not None:
        return report
    with request.workplace.entered():
        framed = not model.family.predicts
        ids = model.checked_ids(calibration_windows(texts, model.tokenizer, job.k, length, plan.seed, framed=framed))
        token = job.folder.config.get("bos_token_id") if model.family.predicts else None
        lost = sink_lost(token, list(ids), model.family.vocabulary, partial(_first_share, model))
        steps = Steps(model, ids, plan, request.workplace, source)
        tell = progress or (lambda *_: None)
        tell(0, model.depth)
        for index in range(model.depth):
            steps.prune(index)
            tell(index + 1, model.depth)
        report = request.deliver(
            _tensors(model, plan, steps),
            steps.patches(),
            {"zeros_before": sum(sum(of.values()) for of in steps.present), "warnings": lost},
            request.workplace.noted("damping") or {},
        )
    request.workplace.remove()
    return report


def _first_share(model: PretrainedModel, ids: NDArray[np.int64]) -> float:
    """The first token's share of the energy of the states of one window."""
    states = [model.family.embed(ids[np.newaxis])[0]]
    for index in range(model.depth):
        states.append(model.block(index)(states[-1][np.newaxis]).output[0])
    return first_share(states[1:])


def check_pattern(model: PretrainedModel, plan: Plan) -> None:
    """Refuse a pattern that some map's inputs do not divide into, before anything is computed."""
    if plan.pattern is not None:
        for role in model.block(0).roles:
            if plan.method_of(0, role) != DENSE:
                as_pattern(plan.pattern, model.family.weight_place(0, role).shape[1])


def _tensors(model: PretrainedModel, plan: Plan, steps: Steps) -> list[dict[str, Any]]:
    """Count what became of every pruned tensor."""
    rows = []
    for index in range(model.depth):
        for role, raw in steps.block(index).items():
            place = model.family.weight_place(index, role)
            zeros = int(np.count_nonzero(decoded(raw, place.dtype) == 0))
            rows.append({"name": place.name, "method": plan.method_of(index, role), "zeros": zeros, "size": raw.size})
    return rows
