"""Functions and losses written for torch tensors or jax arrays, with what automatic differentiation makes of a loss."""

import contextlib
import importlib
import inspect
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np

from attnprune_verify.audit.adapters.subjects import functions_of, made, named_parameters, titled, together
from attnprune_verify.errors import InvalidInstance

Function = Callable[..., Any]
Arguments = dict[str, Any]


class _Autodiff(Protocol):
    """The operations that an adapter needs of an array library."""

    @property
    def name(self) -> str: ...

    def tensor(self, array: Any) -> Any:
        """The array as it enters a function; anything else as it is."""

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Return the context in which every call runs."""

    def loss_and_gradient(self, loss: Callable[[Any], Any], at: Any) -> tuple[Any, Any]:
        """The loss and its gradient there."""

    def product(self, loss: Callable[[Any], Any], at: Any, direction: Any) -> Any:
        """The Hessian times a direction."""


def torch_functions(target: object) -> SimpleNamespace:
    """Functions of the contract that take torch tensors.

    Arrays arrive as tensors of the same dtype that share their memory, a parameter called `mask` as a bool tensor or
    None, numbers as they are. What comes out may require a gradient.

    Parameters
    ----------
    target : object
        Module, object, mapping of functions, or a function with a name of the contract.

    Returns
    -------
    namespace
        The same functions, to be audited.

    Raises
    ------
    InvalidInstance
        If it has none of the contract's functions.
    """
    return _functions(target, _TorchAutodiff())


def torch_loss(loss: Function, wrt: str = "M", *, second_order: bool = False) -> SimpleNamespace:
    """A torch function of the pruning mask, the tokens and the weight, and its gradient by `torch.autograd`.

    Parameters
    ----------
    loss : callable
        ``loss(M, X, W, lam=0.0, mask=None)`` of tensors, in any order where the names are these; `lam` and `mask` may
        be missing. It returns a tensor of one number.
    wrt : str
        What the pruning mask is called.
    second_order : bool
        Whether ``hessian_vector_product`` is audited as well: the loss has to be differentiable twice, and its
        parameters to have the contract's names.

    Returns
    -------
    namespace
        ``loss``, ``gradient``, ``loss_and_gradient``, to be audited. A mask on which the loss does not depend has the
        gradient 0.

    Raises
    ------
    InvalidInstance
        If the loss has no parameter `wrt`, or `second_order` is asked of one with other names.

    Examples
    --------
    >>> target = torch_loss(lambda X, W, M: ((X @ (M * W)) ** 2).sum())
    >>> sorted(name for name in vars(target) if name[0].isalpha() and name.islower())
    ['gradient', 'loss', 'loss_and_gradient']
    """
    return _differentiated(loss, wrt, second_order, _TorchAutodiff())


def jax_functions(target: object, *, x64: bool | None = None) -> SimpleNamespace:
    """Functions of the contract that take jax arrays; as `torch_functions`.

    Parameters
    ----------
    x64 : bool, optional
        ``jax_enable_x64`` during the calls; None leaves it as it is.
    """
    return _functions(target, _JaxAutodiff(x64))


def jax_loss(loss: Function, wrt: str = "M", *, x64: bool | None = None, second_order: bool = False) -> SimpleNamespace:
    """A jax function of the pruning mask, the tokens and the weight, and its gradient by ``jax.value_and_grad``.

    Nothing is compiled here: hand in ``jax.jit(loss)`` to have that. Parameters as of `torch_loss` and `jax_functions`.
    """
    return _differentiated(loss, wrt, second_order, _JaxAutodiff(x64))


def _functions(target: object, framework: _Autodiff) -> SimpleNamespace:
    found = functions_of(target)
    adapted = {name: _converting(name, function, framework) for name, function in found.items()}
    return together(adapted, framework.name, titled(f"{framework.name}_functions", target))


def _converting(name: str, function: Function, framework: _Autodiff) -> Function:
    parameters = named_parameters(function)
    signature = inspect.Signature(parameters)

    def call(*arguments: Any, **keywords: Any) -> Any:
        with framework.scope():
            given = _tensors(signature.bind(*arguments, **keywords), framework)
            return function(*given.args, **given.kwargs)

    return made(name, framework.name, call, parameters)


def _tensors(given: inspect.BoundArguments, framework: _Autodiff, **others: Any) -> inspect.BoundArguments:
    """The arguments as tensors, `others` in place of some; masks of positions are bool there."""
    values = {name: _converted(name, value, framework) for name, value in given.arguments.items()}
    return inspect.BoundArguments(given.signature, OrderedDict({**values, **others}))


def _converted(name: str, value: Any, framework: _Autodiff) -> Any:
    if isinstance(value, tuple):  # of *arguments
        return tuple(framework.tensor(one) for one in value)
    if isinstance(value, dict):  # of **keywords
        return {key: _converted(key, one, framework) for key, one in value.items()}
    return framework.tensor(value != 0 if name == "mask" and value is not None else value)


def _differentiated(loss: Function, wrt: str, second_order: bool, framework: _Autodiff) -> SimpleNamespace:
    parameters = named_parameters(loss)
    names = [one.name for one in parameters]
    if wrt not in names:
        raise InvalidInstance(
            f"wrt must name the parameter of the loss that is the pruning mask; got {wrt!r} of {names}"
        )
    if second_order and not {"M", "X", "W"} <= set(names):
        raise InvalidInstance(f"second_order needs a loss with parameters M, X and W; got {names}")
    signature = inspect.Signature(parameters)

    def bound(arguments: tuple[Any, ...], keywords: Arguments) -> tuple[Any, Callable[[Any], Any]]:
        """The mask, and the loss as a function of it alone."""
        given = _tensors(signature.bind(*arguments, **keywords), framework)

        def of_mask(mask: Any) -> Any:
            here = inspect.BoundArguments(signature, OrderedDict({**given.arguments, wrt: mask}))
            return loss(*here.args, **here.kwargs)

        return given.arguments[wrt], of_mask

    def value(*arguments: Any, **keywords: Any) -> Any:
        with framework.scope():
            mask, of_mask = bound(arguments, keywords)
            return of_mask(mask)

    def both(*arguments: Any, **keywords: Any) -> Any:
        with framework.scope():
            mask, of_mask = bound(arguments, keywords)
            return framework.loss_and_gradient(of_mask, mask)

    def product(*arguments: Any, V: Any, **keywords: Any) -> Any:
        with framework.scope():
            mask, of_mask = bound(arguments, keywords)
            return framework.product(of_mask, mask, framework.tensor(V))

    made_of: dict[str, Function] = {
        "loss": made("loss", framework.name, value, parameters),
        "gradient": made("gradient", framework.name, lambda *a, **k: both(*a, **k)[1], parameters),
        "loss_and_gradient": made("loss_and_gradient", framework.name, both, parameters),
    }
    if second_order:
        direction = inspect.Parameter("V", inspect.Parameter.KEYWORD_ONLY)
        made_of["hessian_vector_product"] = made(
            "hessian_vector_product", framework.name, product, [*parameters, direction]
        )
    return together(made_of, framework.name, titled(f"{framework.name}_loss", loss))


@dataclass(frozen=True)
class _TorchAutodiff:
    name: str = "torch"

    def tensor(self, array: Any) -> Any:
        import torch

        return torch.from_numpy(array) if isinstance(array, np.ndarray) else array

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def loss_and_gradient(self, loss: Callable[[Any], Any], at: Any) -> tuple[Any, Any]:
        import torch

        at.requires_grad_()
        value = loss(at)
        if not value.requires_grad:
            return value, torch.zeros_like(at)
        (slope,) = torch.autograd.grad(value, at, allow_unused=True)
        return value, torch.zeros_like(at) if slope is None else slope

    def product(self, loss: Callable[[Any], Any], at: Any, direction: Any) -> Any:
        import torch

        at.requires_grad_()
        value = loss(at)
        if not value.requires_grad:
            return torch.zeros_like(at)
        (slope,) = torch.autograd.grad(value, at, create_graph=True, allow_unused=True)
        if slope is None or not slope.requires_grad:
            return torch.zeros_like(at)
        (turned,) = torch.autograd.grad((slope * direction).sum(), at, allow_unused=True)
        return torch.zeros_like(at) if turned is None else turned


@dataclass(frozen=True)
class _JaxAutodiff:
    x64: bool | None = None
    name: str = "jax"

    def tensor(self, array: Any) -> Any:
        import jax.numpy as jnp

        return jnp.asarray(array) if isinstance(array, np.ndarray) else array

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        if self.x64 is None:
            return contextlib.nullcontext()
        import jax

        holder = jax if hasattr(jax, "enable_x64") else importlib.import_module("jax.experimental")
        switched: contextlib.AbstractContextManager[Any] = holder.enable_x64(self.x64)
        return switched

    def loss_and_gradient(self, loss: Callable[[Any], Any], at: Any) -> tuple[Any, Any]:
        import jax

        value, slope = jax.value_and_grad(loss)(at)
        return value, slope

    def product(self, loss: Callable[[Any], Any], at: Any, direction: Any) -> Any:
        import jax

        return jax.jvp(jax.grad(loss), (at,), (direction,))[1]
