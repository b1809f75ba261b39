"""Each rule about one value, once: a number in a range, a count, a choice. Messages state the rule, then the value."""

import math
import operator
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, TypeVar

import numpy as np

from attnprune_verify.errors import InvalidInstance

_T = TypeVar("_T")
_KINDS = {dict: "an object", list: "a list", str: "text"}


def as_number(name: str, value: object, bound: str = "", holds: Callable[[float], bool] = math.isfinite) -> float:
    """`value` as a float that obeys the bound; text, complex and masked values are refused even if float() takes them.

    Examples
    --------
    >>> as_number("beta", "0.5")
    Traceback (most recent call last):
        ...
    attnprune_verify.errors.InvalidInstance: beta must be a finite real number; got '0.5'
    """
    is_complex = isinstance(value, np.generic | np.ndarray) and value.dtype.kind == "c"
    try:
        if is_complex or isinstance(value, str | bytes | bytearray) or np.ma.isMaskedArray(value):
            raise TypeError
        number = float(value)  # type: ignore[arg-type]  # anything that knows how to be a float
    except (TypeError, ValueError, OverflowError):
        rule = f"a real number {bound}" if bound else "a finite real number"
        raise InvalidInstance(f"{name} must be {rule}; got {value!r:.60}") from None
    if not holds(number):
        rule = bound if bound.startswith("in") else f"finite and {bound}" if bound else "a finite real number"
        raise InvalidInstance(f"{name} must be {rule}; got {number}")
    return number


def as_positive(name: str, value: object) -> float:
    """`value` as a finite float > 0."""
    return as_number(name, value, "> 0", lambda number: 0 < number < math.inf)


def as_nonnegative(name: str, value: object) -> float:
    """`value` as a finite float >= 0."""
    return as_number(name, value, ">= 0", lambda number: 0 <= number < math.inf)


def as_lam(lam: object) -> float:
    """The regularisation strength as a finite float >= 0."""
    return as_nonnegative("lam", lam)


def as_ratio(rho: object, name: str = "rho") -> float:
    """The pruning ratio (or another share) as a float in [0, 1]."""
    number = as_number(name, rho, "in [0, 1]", lambda number: 0 <= number <= 100)
    if number > 1:
        raise InvalidInstance(f"{name} must be in [0, 1]; got {number}; did you mean {number / 100:g}?")
    return number


def as_momentum(momentum: object) -> float:
    """The share of the last move that is kept, as a float in [0, 1)."""
    return as_number("momentum", momentum, "in [0, 1)", lambda number: 0 <= number < 1)


def as_count(name: str, value: object, *, least: int = 0) -> int:
    """`value` as an integer >= `least`.

    Examples
    --------
    >>> as_count("heads", 2.0, least=1)
    Traceback (most recent call last):
        ...
    attnprune_verify.errors.InvalidInstance: heads must be an integer >= 1; got 2.0
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # anything that knows how to be an index
    except TypeError:
        raise InvalidInstance(f"{name} must be an integer >= {least}; got {value!r:.60}") from None
    if number < least:
        raise InvalidInstance(f"{name} must be an integer >= {least}; got {number}")
    return number


def as_shaped(name: str, value: Any, shape: Any) -> Any:
    """Return `value`, which JSON held, if it has the shape.

    Parameters
    ----------
    name : str
        How messages call the value.
    value : object
    shape : type, list or dict
        A type; [shape of every item]; or a dict with the shapes of fields that must be there, or {str: shape of every
        field}.

    Raises
    ------
    InvalidInstance
        If it has another; the part that differs is named.

    Examples
    --------
    >>> as_shaped("index", {"vectors": [{"name": "n4"}, {"name": 4}]}, {"vectors": [{"name": str}]})
    Traceback (most recent call last):
        ...
    attnprune_verify.errors.InvalidInstance: index.vectors[1].name must be text; got 4
    """
    kind: Any = shape if isinstance(shape, type) else type(shape)
    if not isinstance(value, kind):
        raise InvalidInstance(f"{name} must be {_KINDS[kind]}; got {value!r:.60}")
    if isinstance(shape, list):
        for place, item in enumerate(value):
            as_shaped(f"{name}[{place}]", item, shape[0])
    elif isinstance(shape, dict):
        for key, inner in shape.items():
            if key is not str and key not in value:
                raise InvalidInstance(f"{name} must hold {key!r}; it holds {', '.join(value)!r:.60}")
            for field in value if key is str else (key,):
                as_shaped(f"{name}.{field}"[:120], value[field], inner)
    return value


def as_choice(name: str, value: object, choices: Iterable[_T]) -> _T:
    """The one of `choices` that `value` is.

    Examples
    --------
    >>> as_choice("layout", "halves", ("half", "interleaved"))
    Traceback (most recent call last):
        ...
    attnprune_verify.errors.InvalidInstance: layout must be half or interleaved; got 'halves'; did you mean half?
    """
    known = tuple(choices)
    for choice in known:
        if type(value) is type(choice) and value == choice:
            return choice
    words = [str(choice) for choice in known]
    rule = " or ".join(words) if len(words) == 2 else f"one of {', '.join(words)}"
    hint = nearest(value, words) if isinstance(value, str) else ""
    raise InvalidInstance(f"{name} must be {rule}; got {value!r:.60}{hint}")


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the end of a message about a name that does not exist: the nearest ones, or nothing.

    Examples
    --------
    >>> nearest("gradinet", ["gradient", "loss"])
    '; did you mean gradient?'
    >>> nearest("x", ["gradient", "loss"])
    ''
    >>> nearest("fp16", ["bfloat16", "float16"])
    '; did you mean float16?'
    """
    names = list(dict.fromkeys(known))
    usual = {"gpu": "cuda"}.get(word, re.sub("^(b?)f(p|loat)?(?=[0-9])", r"\1float", word))
    named = [usual] if usual in names else [name for name in names if name.lower() == word.lower()]
    near = named or get_close_matches(word, names, 3, 0.6)
    return f"; did you mean {' or '.join(near)}?" if near else ""
