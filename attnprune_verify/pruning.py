"""`prune_model`: a folder pruned by torch where it can be, else by the networks of this package in NumPy."""

import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.algorithms.methods import MATRIX_METHODS
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.extras import has, need
from attnprune_verify.instance.validate import Array
from attnprune_verify.pretrained.folder import ModelFolder
from attnprune_verify.pretrained.likelihood import divergences, log_probabilities, token_losses
from attnprune_verify.pretrained.load import opened_network
from attnprune_verify.pretrained.texts import cut_windows
from attnprune_verify.values import as_choice
from attnprune_verify.whole_model import folder as in_numpy
from attnprune_verify.whole_model.plan import DENSE, Plan
from attnprune_verify.whole_model.request import Job, Paths

Logits: TypeAlias = Callable[[NDArray[np.int64]], Array]
DEVICES = ("auto", "numpy", "cpu", "cuda")
_TORCH_METRICS = (None, "attention", "output-only", "loss", "kfac")
"""Metrics that need gradients alone; the others need a network whose attention is known."""


def prune_model(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str],
    rho: float | None = None,
    *,
    calibration: Paths,
    k: int = 128,
    n: int | None = None,
    minutes: float | None = None,
    device: str = "auto",
    progress: Callable[[int, int, str], object] | None = None,
    **choices: Any,
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
    calibration : path or paths
        UTF-8 texts.
    k, n : int
        Windows, and tokens of a window (default: the model's context, at most 2048).
    minutes : float, optional
        Choose k, n and steps so that the estimate is at most so many minutes; those that are given are the most.
    device : "auto", "numpy", "cpu" or "cuda"
        "cpu" and "cuda" are torch's; "auto" is the first of "cuda", "cpu" and "numpy" that is there and can do it.
    progress : callable, optional
        Called with (steps done, steps, what is being done).
    **choices
        Attributes of `Plan`: pattern, attention, rest, budget, only, hold, reconstruct, loss_windows, dense_inputs,
        keep_zeros, seed. By default budgets are "auto" and `reconstruct` is None.

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
    plan = Plan.by_default(rho=rho, **choices)
    model = ModelFolder(folder)
    job = Job(model, out, plan, calibration, k, n, minutes)
    chosen = _device(device, model, plan)
    if chosen != "numpy":
        from attnprune_verify.torch.folder import prune_folder

        return prune_folder(job, chosen, progress)
    if minutes is not None:
        raise InvalidInstance("minutes needs the estimate of pruning by torch; this model or plan is pruned in NumPy")

    def tell(done: int, steps: int) -> None:
        if progress is not None:
            progress(done, steps, "pruning blocks")

    return in_numpy.prune_folder(job, tell)


def evaluated(
    folder: str | os.PathLike[str],
    text: str,
    pruned: str | os.PathLike[str] | None = None,
    *,
    n: int = 2048,
    windows: int | None = None,
    device: str = "auto",
) -> dict[str, float]:
    """Perplexity of the model in `folder` on a text cut into windows side by side; with `pruned` its own, and the KL.

    Parameters
    ----------
    folder, pruned : path
    text : str
        Its content.
    n : int
        Most tokens of a window.
    windows : int, optional
        How many are taken, spread over the text; all by default.
    device : str
        As in `prune_model`.

    Returns
    -------
    dict
        ``perplexity``, and with `pruned` also ``pruned`` (its perplexity) and ``kl``: the mean over tokens of the KL
        divergence of the pruned model's prediction from the dense one's, in nats.

    Raises
    ------
    InvalidInstance
        If the text has fewer than 2 tokens.
    """
    opened = [ModelFolder(path) for path in (folder, pruned) if path is not None]
    models, longest = _opened(opened, _device(device, opened[0], None))
    cut = [ids[None] for group in cut_windows([text], opened[0].tokenizer, min(n, longest or n)) for ids in group]
    if not cut:
        raise InvalidInstance("a text must have at least 2 tokens to predict one; it has fewer")
    step = max(len(cut) / (windows or len(cut)), 1.0)
    losses, divergence, tokens = [0.0] * len(models), 0.0, 0
    for ids in (cut[int(place * step)] for place in range(int(len(cut) / step))):
        logits = [model(ids) for model in models]
        for place, of_model in enumerate(logits):
            losses[place] += float(token_losses(of_model, ids).sum(dtype=np.float64))
        divergence += float(divergences(*(log_probabilities(logits[place][:, :-1]) for place in (0, -1))).sum())
        tokens += ids.shape[1] - 1
    found = dict(zip(("perplexity", "pruned"), np.exp(np.array(losses) / tokens).tolist(), strict=False))
    return found if pruned is None else {**found, "kl": divergence / tokens}


def _opened(
    folders: Sequence[ModelFolder], device: str
) -> tuple[list[Callable[[NDArray[np.int64]], Array]], int | None]:
    """The logits (1, n, vocabulary) of ids (1, n) by the model of each folder, and the longest window."""
    if device != "numpy":
        from attnprune_verify.torch.folder import logits_of

        by_torch = [logits_of(folder, device) for folder in folders]
        return [logits for logits, _ in by_torch], by_torch[0][1]
    models = [opened_network(folder, np.float32) for folder in folders]
    return [model.logits for model in models], models[0].longest


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
    """Return True where something of the plan needs a network in NumPy."""
    methods = {plan.attention: "Q", plan.rest: "V"}
    known = {name: MATRIX_METHODS.get(name) for name in methods if name != DENSE}
    metrics = [None if method is None else method.metric(methods[name]) for name, method in known.items()]
    return plan.budget not in ("matrix", "auto") or None in known.values() or not set(metrics) <= set(_TORCH_METRICS)
