"""A callable as a kernel: a function, a module, a custom operator of torch, a class of torch.autograd.Function.

The result is a mapping as an audit takes it: the two functions by the contract's names, their framework, and what they
declare. Nothing of the callable is called here, and no framework is imported.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from attnprune_verify.audit.kernel.process.bridge import BACKWARD, FORWARD, FRAMEWORKS, framework_of
from attnprune_verify.audit.kernel.process.detect_framework import implied
from attnprune_verify.audit.kernel.typing import Call, Foreign, Plain
from attnprune_verify.errors import InvalidInstance

__all__ = ["Kernel", "kernel_of", "plainly_called", "subject_of"]

_SPELLINGS = {
    "causal": ("causal", "is_causal"),
    "scale": ("scale", "sm_scale", "softmax_scale"),
    "mask": ("mask", "attn_mask"),
    "window": ("window",),
    "softcap": ("softcap",),
    "alibi": ("alibi",),
}
"""What parameters are called: the contract's name, and those that published kernels use for the same thing."""
_INPUTS = ("q", "k", "v", "do")
_Parameter = inspect.Parameter


class Kernel(Plain):
    """A mapping that reports call by the callable's name."""

    _attnprune_title: str


def kernel_of(
    fn: Call,
    backward: Call | None = None,
    framework: str | None = None,
    conventions: Mapping[str, Foreign] | None = None,
) -> Kernel:
    """Put callables into the mapping that an audit takes.

    Parameters
    ----------
    fn, backward : callable
        Called as the contract's ``attention`` and ``attention_backward``.
    framework : "numpy", "torch" or "jax", optional
        Whose arrays go in. Without it: what FRAMEWORK of the callable's module declares, else the framework that the
        callable is an object of or whose module its code names, else NumPy.
    conventions : mapping, optional
        As CONVENTIONS of a module.

    Raises
    ------
    InvalidInstance
        If fn or backward cannot be called, the framework is none of the three, or a parameter beyond the contract's
        has no default.

    Examples
    --------
    >>> def mine(q, k, v, *, is_causal=False): ...
    >>> kernel = kernel_of(mine)
    >>> kernel["FRAMEWORK"], list(inspect.signature(kernel["attention"]).parameters)
    ('numpy', ['q', 'k', 'v', 'causal'])
    """
    for name, one in (("fn", fn), ("backward", backward)):
        if not (callable(one) or (name == "backward" and one is None)):
            raise InvalidInstance(f"{name} must be callable; got {type(one).__name__}")
    named = framework or framework_meant(fn)
    if named not in FRAMEWORKS:
        raise InvalidInstance(f"framework must be one of {', '.join(FRAMEWORKS)}; got {named!r}")
    found = Kernel({FORWARD: plainly_called(fn), "FRAMEWORK": named})
    if backward is not None:
        found[BACKWARD] = plainly_called(backward, len(_INPUTS))
    declared = conventions if conventions is not None else getattr(fn, "CONVENTIONS", None)
    if declared is not None:
        found["CONVENTIONS"] = dict(declared)
    found._attnprune_title = _title(fn)
    return found


def subject_of(
    fn: object,
    backward: Call | None = None,
    framework: str | None = None,
    conventions: Mapping[str, Foreign] | None = None,
) -> object:
    """The target of an audit: `kernel_of` a callable; anything else as it is.

    Raises
    ------
    InvalidInstance
        If something is declared of a target that is no callable.
    """
    if callable(fn) and not (isinstance(fn, type) and _function_of_torch(fn) is None):
        return kernel_of(fn, backward, framework, conventions)
    if any(one is not None for one in (backward, framework, conventions)):
        raise InvalidInstance(f"backward, framework and conventions go with a callable; got {type(fn).__name__}")
    return fn


def _title(fn: Foreign) -> str:
    schema = _schema(fn)
    if schema is not None:
        return str(schema.name)
    name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
    return f"{getattr(fn, '__module__', None) or type(fn).__module__}.{name}"


def framework_meant(fn: Foreign) -> str:
    """Return the framework whose arrays a callable takes: the declared one, else the one it belongs to or names."""
    declared = framework_of({FORWARD: fn}, fn)
    return implied(fn) if declared == "numpy" else declared


def plainly_called(fn: Foreign, arrays: int = 3) -> Call:
    """A callable that takes a number of arrays and the contract's keywords; the given one, if it does so already."""
    function_of_torch = _function_of_torch(fn)
    if function_of_torch is not None:
        old_style = fn.setup_context is function_of_torch.setup_context  # forward takes ctx first
        given = list(inspect.signature(fn.forward).parameters.values())[int(old_style) :]
        return _adapted(fn.apply, given, arrays, positional=True)
    schema = _schema(fn)
    if schema is not None:
        return _adapted(fn, [_of_schema(one) for one in schema.arguments], arrays)
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return fn  # type: ignore[no-any-return]  # a builtin: what it refuses is found out by calls
    names = {one.name for one in parameters}
    as_the_contract_says = all(one[0] in names or not names & set(one) for one in _SPELLINGS.values())
    if as_the_contract_says and not _lacking(parameters[arrays:]):
        return fn  # type: ignore[no-any-return]
    return _adapted(fn, parameters, arrays)


def _schema(fn: Foreign) -> Foreign:
    """The schema of an operator of torch, of its only overload where it stands for several; else None."""
    return getattr(getattr(fn, "_opoverload", getattr(fn, "default", fn)), "_schema", None)


def _function_of_torch(fn: Foreign) -> Foreign:
    """torch.autograd.Function, where it is a base of a class; else None."""
    bases = fn.__mro__ if isinstance(fn, type) else ()
    return next(
        (one for one in bases if (one.__module__, one.__name__) == ("torch.autograd.function", "Function")), None
    )


def _of_schema(argument: Foreign) -> inspect.Parameter:
    kind = _Parameter.KEYWORD_ONLY if argument.kwarg_only else _Parameter.POSITIONAL_OR_KEYWORD
    default = argument.default_value if argument.has_default_value() else _Parameter.empty
    return _Parameter(argument.name, kind, default=default, annotation=str(argument.type))


def _lacking(parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """The parameters that have no default."""
    places = (_Parameter.POSITIONAL_ONLY, _Parameter.POSITIONAL_OR_KEYWORD, _Parameter.KEYWORD_ONLY)
    return [one for one in parameters if one.kind in places and one.default is _Parameter.empty]


def _adapted(call: Call, parameters: list[inspect.Parameter], arrays: int, positional: bool = False) -> Call:
    """Translate the contract's keywords into the callable's own parameters, by name or by place."""
    rest = parameters[arrays:]
    own = {name: one for name, spelled in _SPELLINGS.items() for one in rest if one.name in spelled}
    unknown = [one.name for one in _lacking(rest) if one not in own.values()]
    if unknown:
        raise InvalidInstance(
            f"every parameter beyond the arrays must have a default or be one of {', '.join(_SPELLINGS)}; "
            f"got {', '.join(unknown)}"
        )

    def called(*inputs: Foreign, **keywords: Foreign) -> Foreign:
        given = {}
        for name, one in own.items():
            if name in keywords:
                given[one.name] = keywords.pop(name)
            elif one.default is _Parameter.empty:
                given[one.name] = _default(name, inputs)
        if keywords:
            raise TypeError(f"unexpected keyword {', '.join(keywords)}")
        if not positional:
            return call(*inputs, **given)
        return call(*inputs, *(given.get(one.name, one.default) for one in rest))

    taken = [_Parameter(name, _Parameter.POSITIONAL_ONLY) for name in _INPUTS[:arrays]]
    taken += [_Parameter(name, _Parameter.KEYWORD_ONLY, default=None) for name in own]
    called.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    return called


def _default(name: str, inputs: tuple[Foreign, ...]) -> Foreign:
    """The value for a parameter without a default for which the contract gives nothing."""
    return {"causal": False, "scale": float(inputs[0].shape[-1] ** -0.5)}.get(name)
