"""Classes in the layout of the published SparseGPT and Wanda programs (Frantar, Alistarh 2023; Sun et al. 2024)."""

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any

from numpy.typing import NDArray

from attnprune_verify.audit.adapters.subjects import linear, made, named_parameters, sequences, swept, titled
from attnprune_verify.errors import InvalidInstance

# What the published programs call the contract's options.
_SWEEP = {
    "prune_n": ("prune_n", "prunen"),
    "prune_m": ("prune_m", "prunem"),
    "blocksize": ("blocksize",),
    "percdamp": ("percdamp",),
}
_DEFAULTS: dict[str, Any] = {"prune_n": 0, "prune_m": 0, "blocksize": 128, "percdamp": 0.01}


@contextlib.contextmanager
def _no_gpu_to_wait_for() -> Iterator[None]:
    """Let ``torch.cuda.synchronize`` do nothing on a machine without a GPU, where it raises."""
    import torch

    held = torch.cuda.synchronize
    if not torch.cuda.is_available():
        torch.cuda.synchronize = lambda device=None: None
    try:
        yield
    finally:
        torch.cuda.synchronize = held


def original_sparsegpt(kind: Any, *, device: str = "cpu") -> Callable[..., Any]:
    """SparseGPT as a class around a layer: ``kind(layer)``, ``add_batch(inp, out)``, ``fasterprune(sparsity, ...)``.

    The layer is a `torch.nn.Linear` with weight (out, in); every sequence comes as ``(1, tokens, in)``, X of two
    dimensions as it is. After ``fasterprune(sparsity, prune_n, prune_m, blocksize, percdamp)`` the new weight is read
    from the layer. ``prunen`` and ``prunem`` are read as ``prune_n`` and ``prune_m``; an option that it does not have
    is not asked for. What it prints is dropped.

    Parameters
    ----------
    kind : class
    device : str
        Where layer and inputs lie. The published program takes its time with ``torch.cuda.synchronize``; where there
        is no GPU, that call does nothing while it runs.

    Returns
    -------
    callable
        ``sparsegpt(weight, X, rho, *, prune_n=0, prune_m=0, blocksize=128, percdamp=0.01)`` -> the new weight.

    Raises
    ------
    InvalidInstance
        If the class has no `add_batch` or no `fasterprune`.

    Examples
    --------
    >>> class Nothing:
    ...     def __init__(self, layer): ...
    ...     def add_batch(self, inp, out): ...
    ...     def fasterprune(self, sparsity, prunen=0, prunem=0): ...
    >>> import inspect
    >>> print(inspect.signature(original_sparsegpt(Nothing)))
    (weight, X, rho, *, prune_n=0, prune_m=0)
    """
    if not (hasattr(kind, "fasterprune") and hasattr(kind, "add_batch")):
        raise InvalidInstance(f"a class in SparseGPT's layout must have add_batch and fasterprune; got {kind!r:.80}")
    parameters = named_parameters(kind.fasterprune)
    given = {one.name for one in parameters}
    anything = any(one.kind is one.VAR_KEYWORD for one in parameters)
    names = {
        ours: next((name for name in theirs if name in given), anything and ours) for ours, theirs in _SWEEP.items()
    }

    def call(weight: NDArray[Any], X: NDArray[Any], rho: float, **options: Any) -> Any:
        import torch

        with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()), _no_gpu_to_wait_for():
            layer = linear(weight, device)
            pruner = kind(layer)
            sequences(X, layer, pruner.add_batch, device)
            pruner.fasterprune(rho, **{str(names[name]): value for name, value in options.items()})
            return layer.weight.data

    options = {name: _DEFAULTS[name] for name in _SWEEP if names[name]}
    return made("sparsegpt", "torch", call, swept(options), titled("original_sparsegpt", kind))


def original_wanda(kind: Any, prune: Callable[..., object] | None = None, *, device: str = "cpu") -> Callable[..., Any]:
    """Wanda as a class around a layer: ``kind(layer)``, ``add_batch(inp, out)``, then ``scaler_row``.

    In the published program the class only gathers ``scaler_row`` (in,), the squared norm of every input over the
    number of sequences ``nsamples``; a loop outside of it prunes.

    Parameters
    ----------
    kind : class
    prune : callable, optional
        That loop's body, ``prune(layer, wrapped, rho, prune_n, prune_m)``, which sets weights of the layer to 0.
        Without it the smallest ``|weight| sqrt(scaler_row)`` go by a loop of ours (stable sort per output; of each
        group of prune_m the smallest prune_n), and only the class is judged.
    device : str
        Where layer and inputs lie.

    Returns
    -------
    callable
        ``wanda(weight, X, rho, *, prune_n=0, prune_m=0)`` -> the new weight.

    Raises
    ------
    InvalidInstance
        If the class has no `add_batch`.

    Examples
    --------
    >>> class Norms:
    ...     def __init__(self, layer): ...
    ...     def add_batch(self, inp, out): ...
    >>> original_wanda(Norms).__name__
    'wanda'
    """
    if not hasattr(kind, "add_batch"):
        raise InvalidInstance(f"a class in Wanda's layout must have add_batch; got {kind!r:.80}")
    select = prune or _smallest

    def call(weight: NDArray[Any], X: NDArray[Any], rho: float, prune_n: int = 0, prune_m: int = 0) -> Any:
        import torch

        with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
            layer = linear(weight, device)
            wrapped = kind(layer)
            sequences(X, layer, wrapped.add_batch, device)
            select(layer, wrapped, rho, prune_n, prune_m)
            return layer.weight.data

    return made("wanda", "torch", call, swept({"prune_n": 0, "prune_m": 0}), titled("original_wanda", kind))


def _smallest(layer: Any, wrapped: Any, rho: float, prune_n: int, prune_m: int) -> None:
    weight = layer.weight.data
    rows, columns = weight.shape
    width = prune_m or columns
    scores = (weight.abs() * wrapped.scaler_row.reshape(1, -1).sqrt()).reshape(rows, -1, width)
    count = prune_n if prune_m else int(columns * rho)
    ranks = scores.argsort(dim=-1, stable=True).argsort(dim=-1)
    weight[(ranks < count).reshape(rows, columns)] = 0
