"""The parameters of a kernel: what the contract's keywords are called there, and which no keyword of it fills.

Imported in the subject's process.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

from attnprune_verify.audit.kernel.problem.features import FEATURES
from attnprune_verify.audit.kernel.typing import Call, Foreign, Plain
from attnprune_verify.errors import InvalidInstance

_ALIASES = {
    "is_causal": "causal", "causal_mask": "causal", "attn_mask": "mask", "attention_mask": "mask", "sm_scale": "scale",
    "softmax_scale": "scale", "window_size": "window", "logits_soft_cap": "softcap", "alibi_slopes": "alibi",
    "sink": "sinks", "s_aux": "sinks", "topk_indices": "indices", "page_table": "block_table",
    "cache_seqlens": "lengths", "seq_lens": "lengths", "logit_bias": "bias", "return_logsumexp": "return_lse",
    "scaling": "scale", "sliding_window": "window", "logit_cap": "softcap", "attn_bias": "bias",
}  # fmt: skip
"""What published kernels call the contract's keywords."""
_TOGETHER = (
    "causal",
    "scale",
    "mask",
    "dropout_keep",
    "cu_seqlens_k",
    "lengths",
    "page_size",
)  # passed beside a keyword, or always tried
KEYWORDS = (*dict.fromkeys(feature.parameter for feature in FEATURES if feature.parameter), *_TOGETHER)
_OF_PAGES = ("lengths", "page_size")
SCALES = ("optional", "required", "none")
_UNKNOWN = "parameters that no signature shows"
_INPUTS = ("q", "k", "v", "do")
_Parameter = inspect.Parameter
_VARIADIC = (_Parameter.VAR_POSITIONAL, _Parameter.VAR_KEYWORD)


@dataclass(frozen=True)
class Parameters:
    """The parameters of a function beyond its arrays.

    Attributes
    ----------
    own : dict[str, str]
        What the contract's keywords are called.
    foreign : tuple[str, ...]
        Parameters that are none of the contract's.
    always : tuple[str, ...]
        Keywords of the contract that are passed in every call: no default, or another one than the contract's.
    pair : tuple
        The default of a window that is given as (left, right).
    open : bool
        Whether it takes any keyword.
    """

    own: dict[str, str]
    foreign: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    pair: tuple[int | None, ...] = ()
    open: bool = False

    @classmethod
    def of(cls, rest: list[inspect.Parameter], scale: str = "optional", open: bool = False) -> Parameters:
        """The parameters of a signature, beyond its arrays.

        Raises
        ------
        InvalidInstance
            If a parameter without a default is none of the contract's.
        """
        named = {one.name: one for one in rest}
        meant = {name: name for name in KEYWORDS if name in named}
        for alias, name in _ALIASES.items():
            if alias in named and (alias != "causal_mask" or isinstance(named[alias].default, bool)):
                meant.setdefault(name, alias)
        if "block_table" not in meant:
            meant = {name: own for name, own in meant.items() if name not in _OF_PAGES}
        elif "lengths" not in meant and not open:
            raise InvalidInstance("beside block_table there must be lengths (batch,); got none: add the parameter")
        required = [
            name
            for name in ("indices", "block_table")
            if name in meant and named[meant[name]].default is _Parameter.empty
        ]
        if len(required) > 1:
            raise InvalidInstance("indices and block_table must not both lack a default: give one of them a default")
        unpassed = meant.pop("scale", None) if scale == "none" else None
        foreign = tuple(name for name in named if name not in (*meant.values(), unpassed))
        unfilled = [name for name in foreign if named[name].default is _Parameter.empty]
        if unfilled:
            raise InvalidInstance(
                "every parameter beyond the arrays must have a default, or be a keyword of the contract as "
                f"causal is; got {', '.join(unfilled)}: wrap the kernel, def attention(q, k, v, *, causal=False): ..."
            )
        defaults = {name: named[own].default for name, own in meant.items()}
        always = [name for name, value in defaults.items() if value is _Parameter.empty]
        always += ["causal"] if defaults.get("causal") is True else []
        always += ["scale"] if scale == "required" and "scale" in meant and "scale" not in always else []
        pair = defaults.get("window")
        return cls(meant, foreign, tuple(always), tuple(pair) if isinstance(pair, (tuple, list)) else (), open)

    @classmethod
    def read(cls, given: Plain) -> Parameters:
        """The parameters of `as_dict`."""
        found: Plain = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
        return cls(**found)

    def as_dict(self) -> Plain:
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @property
    def plain(self) -> bool:
        """True where the contract's keywords can be passed as they are."""
        same = all(name == own for name, own in self.own.items())
        return same and not self.always and not self.pair

    def given(self, keywords: Mapping[str, Foreign], features: int) -> Plain:
        """The contract's keywords as the function takes them, for heads of this number of features.

        Raises
        ------
        TypeError
            If it has no parameter for one of them.

        Examples
        --------
        >>> Parameters({"causal": "is_causal", "scale": "sm_scale"}, always=("scale",)).given({"causal": True}, 16)
        {'is_causal': True, 'sm_scale': 0.25}
        """
        left, standing = dict(keywords), {"causal": False, "scale": features**-0.5}
        left |= {name: standing.get(name) for name in self.always if name not in left}
        if self.pair and left.get("window") is not None:
            left["window"] = self.as_pair(left["window"], bool(keywords.get("causal")))
        unknown = [name for name in left if name not in self.own]
        if unknown and not self.open:
            raise TypeError(f"unexpected keyword {', '.join(unknown)}")
        return {self.own.get(name, name): value for name, value in left.items()}

    def as_pair(self, window: int, causal: bool) -> tuple[int | None, int | None]:
        """The window as (left, right): beside causal 0 on the right, or, of every second width, no limit.

        Examples
        --------
        >>> windowed = Parameters({"window": "window_size"}, pair=(-1, -1))
        >>> windowed.as_pair(4, False), windowed.as_pair(5, True), windowed.as_pair(4, True)
        ((3, 3), (4, 0), (3, -1))
        """
        reach, no_limit = window - 1, self.pair[-1]
        if not causal:
            return reach, reach
        return reach, no_limit if reach % 2 and (no_limit is None or no_limit < 0) else 0


def plainly_called(fn: Foreign, arrays: int, scale: str) -> tuple[Call, Parameters | None]:
    """Return a callable that takes a number of arrays and the contract's keywords, and the parameters of the given one.

    The callable is the given one, if it takes them so already. Those of a builtin are read from its docstring; where
    none shows them, every keyword is tried, and what more it takes is not known.
    """
    base, positional = torch_function(fn), False
    called: Foreign = fn
    if base is not None:
        old_style = fn.setup_context is base.setup_context  # forward takes ctx first
        parameters = list(inspect.signature(fn.forward).parameters.values())[int(old_style) :]
        fn, positional = fn.apply, True
    elif (schema := schema_of(fn)) is not None:
        parameters = [_of_schema(one) for one in schema.arguments]
    elif isinstance(fn, type):
        raise InvalidInstance(f"a kernel must be called with arrays; got the class {fn.__name__}: make an object")
    else:
        called = fn if inspect.isroutine(fn) else getattr(fn, "forward", fn)  # the call of a module takes anything
        try:
            parameters = list(inspect.signature(called).parameters.values())
        except (TypeError, ValueError):
            parameters = documented(called)
            if not parameters:
                return fn, Parameters({name: name for name in KEYWORDS}, (_UNKNOWN,), open=True)
    named = [parameter for parameter in parameters if parameter.kind not in _VARIADIC]
    lacking = _INPUTS[len(named) : arrays]
    if lacking and all(parameter.kind is not _Parameter.VAR_POSITIONAL for parameter in parameters):
        names = ", ".join(parameter.name for parameter in named)
        raise InvalidInstance(
            f"a kernel must take {', '.join(_INPUTS[:arrays])}; got ({names}): name the function inside that takes "
            "them, or wrap it, def attention(q, k, v, *, causal=False): ..."
        )
    rest = named[arrays:]
    is_open = any(one.kind is _Parameter.VAR_KEYWORD for one in parameters)
    found = Parameters.of(rest, scale, is_open)
    if found.plain and scale != "none" and base is None and called is fn:
        return fn, found
    return _adapted(fn, found, {one.name: one.default for one in rest} if positional else {}, arrays), found


def _adapted(fn: Call, mine: Parameters, defaults: Plain, arrays: int) -> Call:
    """Translate the contract's keywords into the callable's own parameters, by name, or by place in `defaults`."""

    def called(*inputs: Foreign, **keywords: Foreign) -> Foreign:
        given = mine.given(keywords, inputs[0].shape[-1])
        if not defaults:
            return fn(*inputs, **given)
        return fn(*inputs, *(given.get(name, default) for name, default in defaults.items()))

    taken = [_Parameter(name, _Parameter.POSITIONAL_ONLY) for name in _INPUTS[:arrays]]
    taken += [_Parameter(name, _Parameter.KEYWORD_ONLY, default=None) for name in mine.own]
    taken += [_Parameter("more", _Parameter.VAR_KEYWORD)] if mine.open else []
    called.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    called.__wrapped__ = fn  # type: ignore[attr-defined]
    return called


def schema_of(fn: Foreign) -> Foreign:
    """The schema of an operator of torch, of its only overload where it stands for several; else None."""
    return getattr(getattr(fn, "_opoverload", getattr(fn, "default", fn)), "_schema", None)


def torch_function(fn: Foreign) -> Foreign:
    """torch.autograd.Function, where it is a base of a class; else None."""
    bases = fn.__mro__ if isinstance(fn, type) else ()
    return next(
        (one for one in bases if (one.__module__, one.__name__) == ("torch.autograd.function", "Function")), None
    )


def documented(fn: Foreign) -> list[inspect.Parameter]:
    """The parameters in the call that the docstring of a builtin begins with, as torch and pybind11 write it.

    Examples
    --------
    >>> def fused(*_): "fused(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor"
    >>> [str(parameter) for parameter in documented(fused)]
    ['q', 'k', 'v', 'is_causal=False']
    """
    text = (getattr(fn, "__doc__", None) or "").lstrip().removeprefix("def ")
    for end in re.finditer(r"\)", text):
        try:
            call = ast.parse(f"def {text[: end.end()]}: 0")
        except SyntaxError:  # the bracket is that of a default
            continue
        given = next(part for part in ast.walk(call) if isinstance(part, ast.arguments))
        names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
        defaults = [_value(default) for default in (*given.defaults, *given.kw_defaults)]
        defaults = [*[_Parameter.empty] * (len(names) - len(defaults)), *defaults]
        kind = _Parameter.POSITIONAL_OR_KEYWORD
        return [_Parameter(name, kind, default=default) for name, default in zip(names, defaults, strict=True)]
    return []


def _value(default: ast.expr | None) -> Foreign:
    """A literal, or its source where it is none."""
    if default is None:
        return _Parameter.empty
    try:
        return ast.literal_eval(default)
    except ValueError:
        return ast.unparse(default)


def _of_schema(argument: Foreign) -> inspect.Parameter:
    kind = _Parameter.KEYWORD_ONLY if argument.kwarg_only else _Parameter.POSITIONAL_OR_KEYWORD
    default = argument.default_value if argument.has_default_value() else _Parameter.empty
    return _Parameter(argument.name, kind, default=default, annotation=str(argument.type))
