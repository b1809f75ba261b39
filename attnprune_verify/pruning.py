"""`prune_model`: a folder pruned by torch where it can be, else by the networks of this package in NumPy."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from attnprune_verify.algorithms.methods import MATRIX_METHODS
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.extras import has, need
from attnprune_verify.pretrained.folder import ModelFolder
from attnprune_verify.values import as_choice
from attnprune_verify.whole_model import folder as in_numpy
from attnprune_verify.whole_model.plan import DENSE, LOSS_WINDOWS, Plan
from attnprune_verify.whole_model.request import Job, Paths

__all__ = ["perplexity_of", "prune_model"]

DEVICES = ("auto", "numpy", "cpu", "cuda")
_TORCH_METRICS = (None, "attention", "output-only", "loss", "kfac")
"""Metrics that need gradients alone; the others need a network whose attention is known."""


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
    reconstruct: int | None = None,
    loss_windows: int = LOSS_WINDOWS,
    keep_zeros: bool = True,
    device: str = "auto",
    progress: Callable[[int, int, str], object] | None = None,
) -> dict[str, Any]:
    """Prune every linear map of the model in `folder` and write the result to `out`, block by block.

    Where torch and transformers are installed, any decoder that transformers opens (`attnprune_verify.torch`); else,
    and for what needs them, the types BERT, Llama, Mistral and Qwen2 by the networks of this package.

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
        Methods for the maps of queries and keys and for all other maps (see `Plan`).
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
    reconstruct : int, optional
        Steps of every pruned block towards the dense one's output, a window each; zeros stay where they are. By default
        50, at most 15 for each window, for methods of the output-obs kind, and none for prior methods. Where windows
        are fewer than steps, up to two more for each are drawn from the dense model's predictions.
    loss_windows : int
        Windows, the first of the k, that the metrics of the loss are taken from.
    keep_zeros : bool
        Whether weights that are 0 in `folder` stay 0 and count among those that are pruned; a matrix with more of them
        than the ratio or pattern asks for keeps them all. `zeros_before` of the result is their number.
    device : "auto", "numpy", "cpu" or "cuda"
        "cpu" and "cuda" are torch's; "auto" is the first of "cuda", "cpu" and "numpy" that is there and can do it.
    progress : callable, optional
        Called with (steps done, steps, what is being done).

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
    further: dict[str, Any] = {"budget": budget, "hold": tuple(hold), "dense_inputs": dense_inputs}
    further |= {"reconstruct": reconstruct, "loss_windows": loss_windows, "keep_zeros": keep_zeros}
    plan = Plan(attention, rest, rho, pattern, seed=seed, **further)
    model = ModelFolder(folder)
    job = Job(model, out, plan, calibration, k, n)
    chosen = _device(device, model, plan)
    if chosen != "numpy":
        from attnprune_verify.torch.folder import prune_folder

        return prune_folder(job, chosen, progress)

    def tell(done: int, steps: int) -> None:
        if progress is not None:
            progress(done, steps, "pruning blocks")

    return in_numpy.prune_folder(job, tell)


def perplexity_of(folder: str | os.PathLike[str], texts: Sequence[str], n: int = 2048, device: str = "auto") -> float:
    """Perplexity of the model in `folder` on texts, cut into windows of at most n tokens side by side.

    Parameters
    ----------
    folder : path
    texts : sequence of str
        Their content.
    n : int
    device : str
        As in `prune_model`.
    """
    opened = ModelFolder(folder)
    chosen = _device(device, opened, None)
    if chosen != "numpy":
        from attnprune_verify.torch.folder import folder_perplexity

        return folder_perplexity(opened, texts, n, chosen)
    import numpy as np

    from attnprune_verify.pretrained.load import opened_network
    from attnprune_verify.pretrained.texts import cut_windows

    model = opened_network(opened, np.float32)
    losses = [model.token_losses(ids).ravel() for ids in cut_windows(texts, model.tokenizer, min(n, model.longest))]
    return float(np.exp(np.concatenate(losses).mean(dtype=np.float64)))


def _device(device: str, folder: ModelFolder, plan: Plan | None) -> str:
    """Return the device on which the model of a folder is pruned by a plan."""
    as_choice("device", device, DEVICES)
    if device != "auto":
        if device != "numpy":
            torch = need(f"--device {device}", "torch")
            if device == "cuda" and not torch.cuda.is_available():
                raise InvalidInstance("device must be one of this machine; torch finds no CUDA device here")
        return device
    if not (has("torch") and has("real") and find_spec("transformers")) or (plan is not None and _in_numpy(plan)):
        return "numpy"
    if folder.config.get("model_type") == "bert":
        return "numpy"
    return "cuda" if need("pruning", "torch").cuda.is_available() else "cpu"


def _in_numpy(plan: Plan) -> bool:
    """Return whether something of the plan needs a network in NumPy."""
    methods = {plan.attention: "Q", plan.rest: "V"}
    known = {name: MATRIX_METHODS.get(name) for name in methods if name != DENSE}
    metrics = [None if method is None else method.metric(methods[name]) for name, method in known.items()]
    return plan.budget not in ("matrix", "auto") or None in known.values() or not set(metrics) <= set(_TORCH_METRICS)
