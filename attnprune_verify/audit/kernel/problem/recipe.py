"""A recipe: what an attention kernel of eight bits stores in which format, with which scales, rounded where.

A recipe is declared, as RECIPE of a module or `recipe` of a call, and never guessed: its every line is an error that
the kernel may make.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from attnprune_verify.audit.kernel.problem.eight_bits import EIGHT_BITS
from attnprune_verify.audit.kernel.typing import Foreign, Plain
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.values import nearest

Block: TypeAlias = str | int
WIDE_UNITS = {"float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11}
"""Unit roundoff of the formats of more than eight bits."""
STORED = ("q", "k", "v")
_FORMATS = (*EIGHT_BITS, *WIDE_UNITS)
_BLOCKS = ("tensor", "head", "kv_head", "row")
_ROUNDED = ("before", "after", "divided")
_REQUIRED = (*STORED, "p", "o", "scale_block")
_KEYS = (*_REQUIRED, "inputs", "decoded")
TO_PASTE = (
    'RECIPE = {"q": "float8_e4m3fn", "k": "float8_e4m3fn", "v": "float8_e4m3fn", '
    '"p": {"format": "float8_e4m3fn", "rounded": "after", "factor": 256}, "o": "bfloat16", "scale_block": "head"}'
)
"""A recipe as FlashAttention 3 has it but for its scale of q; the line that a refusal shows."""


@dataclass(frozen=True)
class Storage:
    """Knowledge of a sample's numbers, beside a recipe.

    Attributes
    ----------
    peaks : tuple of float
        The largest magnitudes of q, k and v, which a kernel rounds; 0: it stores them exactly.
    exact_within : float or None
        A relative distance within which the format of p holds all weights of the sample, in any order of blocks.
    """

    peaks: tuple[float, float, float] = (0.0, 0.0, 0.0)
    exact_within: float | None = None


@dataclass(frozen=True)
class Recipe:
    """The formats in which a kernel stores its numbers.

    Attributes
    ----------
    q, k, v, p, o : str
        Formats of what the products are made of, of the weights and of the output.
    rounded : "before", "after" or "divided"
        Whether weights are rounded before the row sum adds them up, after it has seen them unrounded, or after they
        are divided by it.
    factor : float
        What weights of at most 1 are multiplied by before they are rounded.
    blocks : tuple of str or int
        What shares a scale, of q, k and v: "tensor", "head", "kv_head", "row" or a number of tokens.
    inputs : str
        "stored": the kernel gets the formats' numbers, and the scales; a wider format: it stores them itself.
    decoded : str
        The type in which decoded numbers are multiplied.
    """

    q: str
    k: str
    v: str
    p: str
    o: str
    rounded: str = "before"
    factor: float = 1.0
    blocks: tuple[Block, Block, Block] = ("tensor",) * 3
    inputs: str = "stored"
    decoded: str = "float32"

    @classmethod
    def declared(cls, given: Foreign) -> Recipe:
        """The recipe of a declaration.

        Raises
        ------
        InvalidInstance
            If a line is missing, or is none of what it may be.

        Examples
        --------
        >>> formats = dict.fromkeys(("q", "k", "v", "p"), "float8_e5m2")
        >>> Recipe.declared({**formats, "o": "float32", "scale_block": {"q": "row", "k": 64, "v": 64}}).blocks
        ('row', 64, 64)
        """
        if not isinstance(given, Mapping):
            raise InvalidInstance(f"RECIPE must be a mapping of {', '.join(_KEYS)}; got {given!r:.80}; {_paste()}")
        for name in given:
            if name not in _KEYS:
                raise InvalidInstance(f"RECIPE must name {', '.join(_KEYS)}; got {name!r}{nearest(str(name), _KEYS)}")
        missing = [name for name in _REQUIRED if name not in given]
        if missing:
            raise InvalidInstance(f"RECIPE must name {', '.join(_REQUIRED)}; {', '.join(missing)} missing; {_paste()}")
        weights = given["p"] if isinstance(given["p"], Mapping) else {"format": given["p"]}
        if not {"format"} <= set(weights) <= {"format", "rounded", "factor"}:
            raise InvalidInstance(f"in RECIPE p must be a format, or name format, rounded, factor; got {given['p']!r}")
        formats = {name: given[name] for name in (*STORED, "o")} | {"p": weights["format"]}
        for name, value in formats.items():
            _chosen(name, value, _FORMATS)
        if not any(formats[name] in EIGHT_BITS for name in (*STORED, "p")):
            raise InvalidInstance(f"in RECIPE q, k, v or p must be of {', '.join(EIGHT_BITS)}; got {formats!r}")
        return cls(
            **formats, rounded=_chosen("rounded", weights.get("rounded", "before"), _ROUNDED),
            factor=_factor(weights.get("factor", 1), weights["format"]), blocks=_blocks(given["scale_block"]),
            inputs=_chosen("inputs", given.get("inputs", "stored"), ("stored", *WIDE_UNITS)),
            decoded=_chosen("decoded", given.get("decoded", "float32"), tuple(WIDE_UNITS)),
        )  # fmt: skip

    @property
    def by_twos(self) -> bool:
        """True where the factor of the weights is a power of two, so that it changes no fraction."""
        return math.frexp(self.factor)[0] == 0.5

    @property
    def encodes(self) -> bool:
        """True where the kernel stores its inputs in eight bits itself."""
        return self.inputs != "stored"

    def format_of(self, name: str) -> str:
        """The format of q, k, v, p or o."""
        found: str = getattr(self, name)
        return found

    def given_as(self, name: str) -> str:
        """The type of an input array, q, k or v."""
        return self.inputs if self.encodes else self.format_of(name)

    def as_declared(self) -> Plain:
        """The recipe as RECIPE has it."""
        found: Plain = {name: self.format_of(name) for name in STORED}
        found["p"] = {"format": self.p, "rounded": self.rounded, "factor": self.factor}
        found["o"] = self.o
        found["scale_block"] = dict(zip(STORED, self.blocks, strict=True))
        return found | {"inputs": self.inputs, "decoded": self.decoded}


def _paste() -> str:
    return f"paste this line and change what differs: {TO_PASTE}"


def _chosen(name: str, value: Foreign, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise InvalidInstance(f"in RECIPE {name} must be one of {', '.join(choices)}; got {value!r}")
    return str(value)


def _factor(value: Foreign, kind: str) -> float:
    form = EIGHT_BITS.get(kind, EIGHT_BITS["float8_e5m2"])
    number = isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= form.largest
    if not number or form.exact(np.array(value)) != value:
        said = f"in RECIPE factor of p must be a number that {kind} holds, in 1..{form.largest:g}"
        raise InvalidInstance(f"{said}; got {value!r}")
    return float(value)


def _blocks(given: Foreign) -> tuple[Block, Block, Block]:
    mapping: Plain = dict(given) if isinstance(given, Mapping) else dict.fromkeys(STORED, given)
    found = [mapping.get(name) for name in STORED]
    for name, block in zip(STORED, found, strict=True):
        tokens = isinstance(block, int) and not isinstance(block, bool) and block >= 1
        if not tokens and block not in _BLOCKS or (block == "kv_head" and name != "q"):
            said = (
                "scale_block must be tensor, head, row, a number of tokens or, of q, kv_head, or a mapping of q, k, v"
            )
            raise InvalidInstance(f"in RECIPE {said}; got {given!r}")
    return mapping["q"], mapping["k"], mapping["v"]
