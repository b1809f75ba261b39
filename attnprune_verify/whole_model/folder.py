"""`prune_model`: a folder in Hugging Face's layout in, the same folder with pruned weights out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attnprune_verify.algorithms.matrix.budget import as_pattern
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.pretrained.load import load_pretrained
from attnprune_verify.pretrained.network import PretrainedModel
from attnprune_verify.pretrained.tensors import decoded
from attnprune_verify.pretrained.texts import calibration_windows, read_text
from attnprune_verify.values import as_count
from attnprune_verify.whole_model.assembled import assemble, finished
from attnprune_verify.whole_model.fingerprint import fingerprint, model_fields, texts_fields, versions
from attnprune_verify.whole_model.plan import DENSE, LOSS_WINDOWS, Plan
from attnprune_verify.whole_model.source import Source
from attnprune_verify.whole_model.steps import Steps
from attnprune_verify.whole_model.workplace import Workplace

__all__ = ["Paths", "prune_model", "target_of"]

_TOKENS = 2048
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def prune_model(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str],
    rho: float | None = None,
    *,
    pattern: str | None = None,
    attention: str = "auto",
    rest: str = "auto",
    calibration: Paths,
    k: int = 128,
    n: int | None = None,
    seed: int = 0,
    budget: str = "auto",
    hold: Sequence[int] = (),
    dense_inputs: bool = False,
    reconstruct: int = 0,
    loss_windows: int = LOSS_WINDOWS,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Prune every linear map of the model in `folder` and write the result to `out`, block by block.

    Each block is calibrated on what the pruned blocks before it make of k windows of n tokens, and only one block and
    one window are in memory. `out` is again such a folder: the same files, tensor names, dtypes and shards, pruned
    weights exactly 0, all other tensors byte for byte as before, and a ``pruning.json``. It appears whole or not at
    all; what is done so far lies in ``out + ".partial"``, and the same call goes on from there.

    Parameters
    ----------
    folder : path
        ``config.json``, safetensors, ``tokenizer.json``.
    out : path
        A folder that does not exist, or the finished one of the same request, which is left as it is.
    rho : float, optional
        Pruning ratio: ``floor(rho * size)`` zeros in all, or in every matrix (`budget`), except for the methods with
        another convention (``wanda`` per output, ``sparsegpt`` one more per block of inputs, `prune_layer`'s per head).
    pattern : str, optional
        "N:M", N of every M consecutive inputs of an output are kept, in place of rho.
    attention, rest : str
        Methods for W_Q and W_K and for all other maps (see `Plan`).
    calibration : path or paths
        UTF-8 texts.
    k, n, seed : int
        Windows, tokens of a window (default: the model's context, at most 2048), and what they are drawn by.
    budget : "auto", "matrix", "measured" or "owl"
        Whether every matrix is pruned by rho, or all of them together: each as far as it does least damage, or blocks
        with more outliers less (OWL). "auto" measures damage cheaply, at one ratio, and leaves prior methods, which
        prune every matrix by rho, as they are.
    hold : sequence of int
        Blocks that are pruned by rho whatever the budgets of the others.
    dense_inputs : bool
        Calibrate on the dense blocks before instead of the pruned ones.
    reconstruct : int
        Steps of every pruned block towards the dense one's output; zeros stay where they are.
    loss_windows : int
        Windows, the first of the k, that the metrics of the loss are taken from.
    progress : callable, optional
        Called with (blocks done, blocks).

    Returns
    -------
    dict
        The content of ``pruning.json``: fingerprint, method, and for every pruned tensor its zeros.

    Raises
    ------
    InvalidInstance
        If the model, a text or an option is not usable, or `out` is something else.

    Examples
    --------
    >>> prune_model("no-such-folder", "pruned", 0.5, calibration="text.txt")
    Traceback (most recent call last):
        ...
    attnprune_verify.errors.InvalidInstance: a model must be a folder; got 'no-such-folder'
    """
    choices: dict[str, Any] = {"dense_inputs": bool(dense_inputs), "hold": tuple(hold), "reconstruct": reconstruct}
    choices["loss_windows"] = loss_windows
    plan = Plan(attention, rest, rho, pattern, budget, seed=seed, **choices)  # type: ignore[arg-type]
    target = target_of(out)
    source = Source(Path(folder))
    model = load_pretrained(folder, dtype=np.float32)
    check_pattern(model, plan)
    plan.refuse_blocks_beyond(model.depth)
    length = min(model.longest, _TOKENS) if n is None else as_count("n", n, least=2)
    if length > model.longest:
        raise InvalidInstance(f"a window may have at most {model.longest} tokens; got {length}")
    texts = [read_text(path) for path in ([calibration] if isinstance(calibration, str | os.PathLike) else calibration)]
    if not texts:
        raise InvalidInstance("calibration must name at least one text; got none")
    request = {
        "model": model_fields(source.digests),
        "calibration": {"texts": texts_fields(texts), "k": as_count("k", k, least=1), "n": length},
        "plan": plan.settings(),
        "dtype": "float32",
    }
    digest = fingerprint(request)["digest"]
    workplace = Workplace(target.with_name(target.name + ".partial"), request)
    if target.exists():
        report = finished(target, digest)
        workplace.remove()
        return report
    with workplace.entered():
        framed = not model.family.predicts
        ids = model.checked_ids(calibration_windows(texts, model.tokenizer, k, length, seed, framed=framed))
        steps = Steps(model, ids, plan, workplace, source)
        for index in range(model.depth):
            steps.prune(index)
            if progress is not None:
                progress(index + 1, model.depth)
        report = {
            "schema": "attnprune-verify/pruning/1",
            "fingerprint": fingerprint({**request, "versions": versions()}),
            "request": digest,
            "method": {"attention": plan.attention, "rest": plan.rest},
            **_tensors(model, plan, steps),
        }
        report = assemble(source, steps.patches(), report, workplace.path / "folder", target)
    workplace.remove()
    return report


def check_pattern(model: PretrainedModel, plan: Plan) -> None:
    """Refuse a pattern that some map's inputs do not divide into, before anything is computed."""
    if plan.pattern is not None:
        for role in model.block(0).roles:
            if plan.method_of(0, role) != DENSE:
                as_pattern(plan.pattern, model.family.weight_place(0, role).shape[1])


def target_of(out: str | os.PathLike[str]) -> Path:
    """Where the new folder will be."""
    target = Path(out)
    if target.name in ("", "..") or target.is_symlink():
        raise InvalidInstance(f"out must name a new folder; got {str(out)!r}")
    return target


def _tensors(model: PretrainedModel, plan: Plan, steps: Steps) -> dict[str, Any]:
    """What became of every pruned tensor."""
    rows = []
    for index in range(model.depth):
        for role, raw in steps.block(index).items():
            place = model.family.weight_place(index, role)
            zeros = int(np.count_nonzero(decoded(raw, place.dtype) == 0))
            rows.append({"name": place.name, "method": plan.method_of(index, role), "zeros": zeros, "size": raw.size})
    return {"zeros": sum(row["zeros"] for row in rows), "size": sum(row["size"] for row in rows), "tensors": rows}
