"""llm-compressor's pruning modifiers, and others in its layout; a target by itself, too.

``attnprune-verify audit attnprune_verify.audit.adapters.llm_compressor --dtype float32`` audits the modifiers that are
installed; the report's version is llm-compressor's.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from numpy.typing import NDArray

from attnprune_verify.audit.adapters.subjects import linear, made, sequences, swept, titled

Modifier = Callable[..., Any]


def llm_compressor_sparsegpt(modifier: Modifier | None = None, **settings: Any) -> Callable[..., Any]:
    """A SparseGPT modifier as llm-compressor runs it on one `torch.nn.Linear`.

    Made with ``sparsity``, ``mask_structure="N:M"``, ``block_size``, ``dampening_frac`` and ``targets=["Linear"]``,
    then taken through its life: on_initialize, on_calibration_start, one forward pass a sequence,
    on_sequential_epoch_end, on_calibration_end, on_finalize. The new weight is read from the layer.

    Parameters
    ----------
    modifier : class, optional
        Default: llm-compressor's ``SparseGPTModifier``.
    **settings
        Passed to the modifier as they are.

    Returns
    -------
    callable
        ``sparsegpt(weight, X, rho, *, prune_n=0, prune_m=0, blocksize=128, percdamp=0.01)`` -> the new weight.
    """

    def call(weight: NDArray[Any], X: NDArray[Any], rho: float, **options: Any) -> Any:
        others = {"block_size": options.pop("blocksize", 128), "dampening_frac": options.pop("percdamp", 0.01)}
        return _pruned(modifier or _of_library("SparseGPTModifier"), weight, X, rho, **options, **others, **settings)

    options: dict[str, Any] = {"prune_n": 0, "prune_m": 0, "blocksize": 128, "percdamp": 0.01}
    title = titled("llm_compressor_sparsegpt", modifier) if modifier else "llm_compressor_sparsegpt()"
    return made("sparsegpt", "torch", call, swept(options), title)


def llm_compressor_wanda(modifier: Modifier | None = None, **settings: Any) -> Callable[..., Any]:
    """A Wanda modifier as llm-compressor runs it; parameters as of `llm_compressor_sparsegpt`.

    Returns
    -------
    callable
        ``wanda(weight, X, rho, *, prune_n=0, prune_m=0)`` -> the new weight.
    """

    def call(weight: NDArray[Any], X: NDArray[Any], rho: float, **options: Any) -> Any:
        return _pruned(modifier or _of_library("WandaPruningModifier"), weight, X, rho, **options, **settings)

    title = titled("llm_compressor_wanda", modifier) if modifier else "llm_compressor_wanda()"
    return made("wanda", "torch", call, swept({"prune_n": 0, "prune_m": 0}), title)


def _of_library(name: str) -> Modifier:
    from importlib import import_module

    found: Modifier = getattr(import_module("llmcompressor.modifiers.pruning"), name)
    return found


def _pruned(
    modifier: Modifier,
    weight: NDArray[Any],
    X: NDArray[Any],
    rho: float,
    *,
    prune_n: int = 0,
    prune_m: int = 0,
    **settings: Any,
) -> Any:
    import torch
    from llmcompressor.core import State

    with torch.no_grad(), _silent():
        layer = linear(weight, "cpu")
        model = torch.nn.Sequential(layer)
        state = State(model=model)
        one = modifier(sparsity=rho, mask_structure=f"{prune_n}:{prune_m}", targets=["Linear"], **settings)
        one.on_initialize(state, sequential_targets=["Linear"])
        one.on_calibration_start(state, None)
        sequences(X, model, lambda *_: None, "cpu")
        one.on_sequential_epoch_end(state, None)
        one.on_calibration_end(state, None)
        one.on_finalize(state)
        return layer.weight.data


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Silence the library's log, which lists every layer."""
    from loguru import logger

    logger.disable("llmcompressor")
    try:
        yield
    finally:
        logger.enable("llmcompressor")


sparsegpt = llm_compressor_sparsegpt()
wanda = llm_compressor_wanda()


def __getattr__(name: str) -> str:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        with contextlib.suppress(PackageNotFoundError):
            return f"llmcompressor {version('llmcompressor')}"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
