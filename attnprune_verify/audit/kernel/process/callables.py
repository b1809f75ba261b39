"""A callable as a kernel: a function, a module, a custom operator of torch, a class of torch.autograd.Function.

The result is a mapping as an audit takes it: the two functions by the contract's names, their framework, and what they
declare. Nothing of the callable is called here, and no framework is imported.
"""

from __future__ import annotations

from attnprune_verify.audit.kernel.process.bridge import BACKWARD, DECLARATIONS, FORWARD, FRAMEWORKS, framework_of
from attnprune_verify.audit.kernel.process.detect_framework import implied
from attnprune_verify.audit.kernel.process.parameters import schema_of, torch_function
from attnprune_verify.audit.kernel.typing import Call, Foreign, Plain
from attnprune_verify.errors import InvalidInstance


class Kernel(Plain):
    """A mapping that reports call by the callable's name."""

    _attnprune_title: str


def kernel_of(fn: Call, backward: Call | None = None, framework: str | None = None) -> Kernel:
    """Put callables into the mapping that an audit takes.

    Parameters
    ----------
    fn, backward : callable
        Called as the contract's ``attention`` and ``attention_backward``.
    framework : "numpy", "torch" or "jax", optional
        Whose arrays go in. Without it: what FRAMEWORK of the callable's module declares, else the framework that the
        callable is an object of or whose module its code names, else NumPy.

    Raises
    ------
    InvalidInstance
        If fn or backward cannot be called, or the framework is none of the three.

    Examples
    --------
    >>> def mine(q, k, v, *, is_causal=False): ...
    >>> kernel_of(mine)["FRAMEWORK"]
    'numpy'
    """
    for name, one in (("fn", fn), ("backward", backward)):
        if not (callable(one) or (name == "backward" and one is None)):
            raise InvalidInstance(f"{name} must be callable; got {type(one).__name__}")
    named = framework or framework_meant(fn)
    if named not in FRAMEWORKS:
        raise InvalidInstance(f"framework must be one of {', '.join(FRAMEWORKS)}; got {named!r}")
    found = Kernel({FORWARD: fn, "FRAMEWORK": named})
    if backward is not None:
        found[BACKWARD] = backward
    found |= {name: getattr(fn, name) for name in DECLARATIONS if getattr(fn, name, None) is not None}
    found._attnprune_title = _title(fn)
    return found


def subject_of(fn: object, backward: Call | None = None, framework: str | None = None) -> object:
    """The target of an audit: `kernel_of` a callable; anything else as it is.

    Raises
    ------
    InvalidInstance
        If a backward pass or a framework is given beside a target that is no callable.
    """
    if callable(fn) and not (isinstance(fn, type) and torch_function(fn) is None):
        return kernel_of(fn, backward, framework)
    if backward is not None or framework is not None:
        raise InvalidInstance(f"backward and framework go with a callable; got {type(fn).__name__}")
    return fn


def _title(fn: Foreign) -> str:
    schema = schema_of(fn)
    if schema is not None:
        return str(schema.name)
    name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
    return f"{getattr(fn, '__module__', None) or type(fn).__module__}.{name}"


def framework_meant(fn: Foreign) -> str:
    """Return the framework whose arrays a callable takes: the declared one, else the one it belongs to or names."""
    declared = framework_of({FORWARD: fn}, fn)
    return implied(fn) if declared == "numpy" else declared
