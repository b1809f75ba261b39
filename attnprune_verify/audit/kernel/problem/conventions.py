"""Conventions: the declared meaning of what kernels mean in more than one way, and every other one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import permutations

from attnprune_verify.audit.kernel.typing import Foreign, Plain
from attnprune_verify.errors import InvalidInstance

ORDER = ("scale", "softcap", "bias", "alibi", "mask")
_CHOICES: dict[str, tuple[Foreign, ...]] = {
    "causal_alignment": ("top-left", "bottom-right"),
    "window_inclusive": (False, True),
    "lse_base": ("e", "2"),
    "empty_rows": ("zero", "undefined"),
    "padding": ("any", "poisoned"),
    "groups": ("consecutive", "interleaved"),
    "empty_lse": ("-inf", "+inf", "finite"),
    "order": tuple(permutations(ORDER)),
}
_FORMER = {("padding", "clean"): "poisoned"}  # words that read as their opposite
# What CAPABILITIES may name beside the keywords of optional parts, because no signature shows it.
CAPABILITIES = ("mask_rank_3", "mask_rank_4", "mask_per_sample", "mask_per_head", "float_mask")


@dataclass(frozen=True)
class Conventions:
    """The meaning of what the contract leaves open; the defaults are the contract's.

    Attributes
    ----------
    causal_alignment : query i sees keys j <= i ("top-left"), or j <= i + l - n ("bottom-right")
    window_inclusive : i - j < window, or i - j <= window
    lse_base : str
        Of the logarithm that comes with `return_lse`.
    empty_rows : str
        O = 0, lse = -inf and gradients 0 where nothing is allowed ("zero"), or anything.
    padding : str
        "poisoned" where k and v may hold anything at keys that no query may see.
    groups : str
        Head h reads key head h // group ("consecutive"), or h % kv_heads ("interleaved").
    empty_lse : str
        Log sum exp where nothing is allowed: "-inf", "+inf", or any "finite" number.
    order : tuple[str, ...]
        In which the logits are changed.
    """

    causal_alignment: str = "top-left"
    window_inclusive: bool = False
    lse_base: str = "e"
    empty_rows: str = "zero"
    padding: str = "any"
    groups: str = "consecutive"
    empty_lse: str = "-inf"
    order: tuple[str, ...] = ORDER

    @classmethod
    def declared(cls, given: Mapping[str, Foreign]) -> Conventions:
        """The conventions of a declaration.

        Raises
        ------
        InvalidInstance
            If there is no such convention, or no such choice.

        Examples
        --------
        >>> Conventions.declared({"lse_base": "2"}).unit
        0.6931471805599453
        """
        chosen: Plain = {}
        for name, value in given.items():
            if name not in _CHOICES:
                raise InvalidInstance(f"a convention must be one of {', '.join(_CHOICES)}; got {name!r}")
            value = tuple(value) if name == "order" and isinstance(value, (list, tuple)) else value
            value = _FORMER.get((name, value), value) if isinstance(value, str) else value
            if not any(value == choice and type(value) is type(choice) for choice in _CHOICES[name]):
                said = f"a permutation of {ORDER}" if name == "order" else " or ".join(map(repr, _CHOICES[name]))
                raise InvalidInstance(f"the convention {name} must be {said}; got {value!r}")
            chosen[name] = value
        return cls(**chosen)

    @property
    def bottom_right(self) -> bool:
        return self.causal_alignment == "bottom-right"

    @property
    def interleaved(self) -> bool:
        return self.groups == "interleaved"

    @property
    def empty_logarithm(self) -> float:
        """A log sum exp of a row with nothing allowed that is as declared."""
        return {"-inf": -math.inf, "+inf": math.inf, "finite": 0.0}[self.empty_lse]

    @property
    def unit(self) -> float:
        """One unit of a log-sum-exp, in natural logarithms."""
        return math.log(2) if self.lse_base == "2" else 1.0

    @property
    def mask_first(self) -> bool:
        """True where forbidden logits are capped, too."""
        return self.order.index("mask") < self.order.index("softcap")

    def others(self) -> Iterator[tuple[str, Foreign, Conventions]]:
        """Every declaration that differs in one name and shows in answers: name, value, conventions.

        Of the orders, those with one part moved.
        """
        for name in ("causal_alignment", "window_inclusive", "lse_base", "groups", "empty_lse"):
            for value in _CHOICES[name]:
                if value != getattr(self, name):
                    yield name, value, replace(self, **{name: value})
        for order in dict.fromkeys(_moved(self.order)):
            yield "order", order, replace(self, order=order)

    def as_dict(self) -> Plain:
        """The conventions as plain data."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


def _moved(order: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """All orders in which one part stands elsewhere."""
    for part in order:
        rest = [one for one in order if one != part]
        for place in range(len(order)):
            found = (*rest[:place], part, *rest[place:])
            if found != order:
                yield found
