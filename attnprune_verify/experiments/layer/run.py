"""Pruning the attention layers of a real model: in-sample and held-out error by layer and head, and end to end."""

import time
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from attnprune_verify.algorithms.layer.prune import prune_layer
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.experiments.documents import draw_sequences, read_documents
from attnprune_verify.experiments.layer.plan import LayerPlan, LayerRun, parse_method
from attnprune_verify.experiments.runs import Progress, complete
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.layer_functions import layer_relative_error
from attnprune_verify.pretrained import PretrainedModel, load_pretrained


@dataclass(frozen=True)
class LayerResults:
    """Measurements of the layer experiment.

    Attributes
    ----------
    plan : LayerPlan
    rows : list of dict
        One per method, rho, n, seed, layer and head: relative error `in_sample`, `held_out`, the layer's `seconds`.
    whole : list of dict
        One per method, rho, n and seed where all layers were pruned: `cosine_distance`, 1 - mean cosine between the
        mean-pooled outputs of the pruned and the dense model on the held-out sequences.
    """

    plan: LayerPlan
    rows: list[dict[str, Any]]
    whole: list[dict[str, Any]]

    def __repr__(self) -> str:
        return f"<layer experiment: {len(self.rows)} rows>"


def run_layers(plan: LayerPlan, folder: Path, *, processes: int = 1, progress: Progress | None = None) -> LayerResults:
    """Do every run of the plan that `folder` does not hold yet.

    Parameters
    ----------
    plan : LayerPlan
    folder : Path
        Where the journal of finished runs is kept; made if missing.
    processes : int
        Runs done at the same time.
    progress : callable, optional
        Called as ``progress(runs done, runs)``.

    Returns
    -------
    LayerResults

    Raises
    ------
    InvalidInstance
        If the model or a text cannot be used, a layer does not exist, or `folder` holds something else.

    Examples
    --------
    With a folder in Hugging Face layout, ``run_layers(LayerPlan("models/small"), Path("out"))``. A missing folder is
    refused:

    >>> run_layers(LayerPlan("no-such-folder"), Path("out"))
    Traceback (most recent call last):
        ...
    attnprune_verify.errors.InvalidInstance: a model must be a folder; got 'no-such-folder'
    """
    depth = len(_model(plan.model).layers)
    if any(layer >= depth for layer in plan.layers):
        raise InvalidInstance(f"layers must be in 0..{depth - 1}; got {', '.join(map(str, plan.layers))}")
    for n in plan.ns:
        _tokens(plan, n, 0)  # refuses unusable texts and lengths before anything is computed
    print_ = plan.fingerprint()
    runs = {f"{run.method}|{run.rho}|{run.n}|{run.seed}|{print_}": run for run in plan.runs()}
    finished = complete(
        runs, partial(measure_run, plan), folder / "layer-runs.jsonl", processes=processes, progress=progress
    )
    rows = [{**one["run"], **row} for one in finished for row in one["rows"]]
    whole = [{**one["run"], "cosine_distance": one["whole"]} for one in finished if one["whole"] is not None]
    return LayerResults(plan, rows, whole)


def measure_run(plan: LayerPlan, run: LayerRun) -> dict[str, Any]:
    """Prune all layers of the plan and measure them: {"run", "rows", "whole"}."""
    method, options = parse_method(run.method)
    if method == "random":
        options = {"seed": run.seed} | options
    model, (inside, outside) = _model(plan.model), _inputs(plan, run.n, run.seed)
    rows, pruned_layers = [], list(model.layers)
    for index in plan.layers or range(len(model.layers)):
        layer = model.layers[index]
        start = time.process_time()
        pruned = prune_layer(layer, inside[index], run.rho, method, **options)
        seconds = time.process_time() - start
        held_out = layer_relative_error(layer, pruned.layer, outside[index])
        pruned_layers[index] = pruned.layer
        rows += [
            {"layer": index, "head": head, "in_sample": a, "held_out": float(b), "seconds": seconds}
            for head, (a, b) in enumerate(zip(pruned.summary["in_sample_error"], held_out, strict=True))
        ]
    whole = None if plan.layers else _cosine_distance(model, model.with_layers(pruned_layers), plan, run)
    return {"run": asdict(run), "rows": rows, "whole": whole}


def _cosine_distance(dense: PretrainedModel, pruned: PretrainedModel, plan: LayerPlan, run: LayerRun) -> float:
    ids = _tokens(plan, run.n, run.seed)[1]
    one, other = (model.output(ids).mean(axis=1) for model in (dense, pruned))
    cosines = (one * other).sum(axis=1) / (np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1))
    return float(1 - cosines.mean())


@lru_cache(maxsize=1)
def _model(folder: str) -> PretrainedModel:
    return load_pretrained(folder)


@lru_cache(maxsize=1)
def _inputs(plan: LayerPlan, n: int, seed: int) -> tuple[list[Array], list[Array]]:
    """Return every layer's features of the calibration tokens and of the held-out tokens."""
    inside, outside = (_model(plan.model).attention_inputs(ids) for ids in _tokens(plan, n, seed))
    return inside, outside


@lru_cache(maxsize=4)
def _tokens(plan: LayerPlan, n: int, seed: int) -> tuple[Any, Any]:
    model = _model(plan.model)
    parts = (("calibration", plan.calibration, n, 0), ("held_out", plan.held_out, plan.held_out_n or n, 1))
    inside, outside = (
        model.checked_ids(
            draw_sequences(
                read_documents(paths, part), model.tokenizer, plan.k, length, np.random.default_rng([seed, stream])
            )
        )
        for part, paths, length, stream in parts
    )
    return inside, outside
