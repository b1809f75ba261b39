"""Parts of adapters: functions with signatures of their own, called the contract's way; torch layers and inputs."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.errors import InvalidInstance

_KINDS = inspect.Parameter


def made(
    name: str, framework: str, call: Callable[..., Any], parameters: Iterable[inspect.Parameter], title: str = ""
) -> Callable[..., Any]:
    """`call` under the contract's name, with these parameters, the framework of its arrays, and its title.

    A live target whose attribute ``FRAMEWORK`` is "torch" or "jax" is not forked: their threads do not survive it.
    """

    def subject(*arguments: Any, **keywords: Any) -> Any:
        return call(*arguments, **keywords)

    described: Any = subject
    described.__name__ = described.__qualname__ = name
    described.__signature__ = inspect.Signature(list(parameters))
    described.FRAMEWORK = framework
    described._attnprune_title = title
    return subject


def titled(adapter: str, adapted: object) -> str:
    """Return the name of an adapted object in a report.

    Examples
    --------
    >>> titled("original_sparsegpt", inspect.Signature)
    'original_sparsegpt(inspect.Signature)'
    """
    name = getattr(adapted, "__qualname__", "") or getattr(adapted, "__name__", "") or type(adapted).__qualname__
    home = getattr(adapted, "__module__", None)
    return f"{adapter}({home}.{name})" if home else f"{adapter}({name})"


def swept(options: Mapping[str, object]) -> list[inspect.Parameter]:
    """The parameters of a baseline: weight, X, rho, and by keyword the options it has, with the contract's defaults."""
    given = [_KINDS(name, _KINDS.POSITIONAL_OR_KEYWORD) for name in ("weight", "X", "rho")]
    return given + [_KINDS(name, _KINDS.KEYWORD_ONLY, default=value) for name, value in options.items()]


def named_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function; of one that hides them, none.

    Examples
    --------
    >>> [one.name for one in named_parameters(lambda M, X: 0)]
    ['M', 'X']
    """
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []


def functions_of(target: object) -> dict[str, Callable[..., Any]]:
    """The contract's functions that a module, object, mapping or function has.

    Raises
    ------
    InvalidInstance
        If there is none.
    """
    found: dict[str, Callable[..., Any]] = {}
    for name in FUNCTIONS:
        one = target.get(name) if isinstance(target, Mapping) else getattr(target, name, None)
        if callable(one):
            found[name] = one
    if not found and callable(target) and getattr(target, "__name__", "") in FUNCTIONS:
        found[str(getattr(target, "__name__", ""))] = target
    if not found:
        raise InvalidInstance(f"what is adapted must have at least one of {', '.join(FUNCTIONS)}; got {target!r:.80}")
    return found


def together(functions: Mapping[str, Callable[..., Any]], framework: str, title: str) -> SimpleNamespace:
    """Several subjects as one target."""
    return SimpleNamespace(**functions, FRAMEWORK=framework, _attnprune_title=title)


def linear(weight: NDArray[Any], device: str) -> Any:
    """A `torch.nn.Linear` without bias; its weight (out, in) is a copy, since pruning changes it."""
    import torch

    rows, columns = weight.shape
    layer = torch.nn.Linear(columns, rows, bias=False, device=device)
    layer.weight.data = torch.from_numpy(np.array(weight)).to(device)
    return layer


def sequences(X: NDArray[Any], layer: Any, see: Callable[[Any, Any], object], device: str) -> None:
    """Send every sequence through a layer, each of shape (1, tokens, in); X of two dimensions goes as it is.

    `see` is called with the input and the output. The tensors share memory with X, so that who changes them is seen.
    """
    for tokens in _each(X):
        inputs = tokens.to(device)
        see(inputs, layer(inputs))


def _each(X: NDArray[Any]) -> Iterator[Any]:
    import torch

    yield from (torch.from_numpy(part) for part in ([X] if X.ndim == 2 else np.split(X, len(X))))
