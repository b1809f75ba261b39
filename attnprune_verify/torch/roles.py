"""The linear maps of a block: which weights they apply, which get one input, which make queries, keys and values.

A row of a map makes queries if the queries that attention is given change with it, and the values do not. That is read
off gradients at random directions, row by row, so fused maps (one for queries, keys and values, in whatever order) come
apart by themselves. Maps that choose among experts are no part of it: their outputs are compared, not passed on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.torch.blocks import BlockCall, as_float32
from attnprune_verify.torch.model_state import widened
from attnprune_verify.torch.products import Attention, Factor, Product, Products

Role = Literal["Q", "K", "V", "rest"]
_LARGEST_BLOCK = 512
"""Outputs between which the metric keeps products; as in `algorithms.matrix.metrics`."""


class Part(NamedTuple):
    """Rows of a map that have one role; the metric keeps no products between `blocks` equal blocks of them."""

    role: Role
    rows: NDArray[np.int64]
    blocks: int

    def only(self, chosen: NDArray[np.bool_]) -> Part:
        """Some of its rows, in as many blocks as before of each row's kind."""
        if chosen.all():
            return self
        rows, size = self.rows[chosen], len(self.rows) // self.blocks
        whole = self.role != "rest" and len(rows) % size == 0
        return Part(self.role, rows, len(rows) // size if whole else _by_size(len(rows)))


@dataclass(frozen=True)
class LinearMap:
    """One linear map of a block.

    Attributes
    ----------
    factor : which rows of which parameter it applies
    source : maps of the same number get the same input
    parts : its rows by role
    """

    factor: Factor
    source: int
    parts: tuple[Part, ...]

    @property
    def name(self) -> str:
        """The parameter's name in the block, with the rows if they are not all of it."""
        return self.factor.name


@dataclass(frozen=True)
class Structure:
    """The linear maps of one block.

    Attributes
    ----------
    maps : by factor
    output : the map through which attention leaves, if there is attention
    dense : names of the weights that are no such map: routers, gates of one output, convolutions
    """

    maps: Mapping[Factor, LinearMap]
    output: Factor | None
    dense: tuple[str, ...]


def structure_of(block: Any, name: str, call: BlockCall, states: Any) -> Structure:
    """Find what the linear maps of a block are, from one window.

    Parameters
    ----------
    block : module
    name : str
        How the model calls it, for messages.
    call : BlockCall
    states : (1, n, d) tensor
        Before the block.

    Raises
    ------
    InvalidInstance
        If a weight of a linear module is applied in a way that is not seen here (it is named).
    """
    with widened(block) as (parameters, _), torch.enable_grad():
        with Products(parameters, states.shape[1]) as seen:
            as_float32(call)(block, states.detach().float().requires_grad_())
        first: dict[Factor, Product] = {}
        for product in seen.products:
            first.setdefault(product.factor, product)
        factors = _with_unseen(list(first), parameters)
        routers = _routers(seen.products, parameters)
        gates = {factor for factor, product in first.items() if product.outputs.shape[-1] == 1}
        kept = [factor for factor in factors if factor not in routers | gates]
        _refuse_unseen(block, name, factors, parameters)
        sources = _sources(first, kept)
        attentions = [_Reach(at, attention, seen.products) for at, attention in seen.attentions]
        maps = {
            factor: LinearMap(factor, sources[factor], _parts(factor, first.get(factor), attentions, parameters))
            for factor in kept
        }
        output = next((found for reach in attentions if (found := reach.leaves()) in maps), None)
        if output is not None and _experts_beside(output, parameters) > 1:
            output = None  # attention leaves through several maps
    named = {factor.name for factor in maps}
    dense = tuple(inner for inner, p in parameters.items() if p.dim() > 1 and inner not in named)
    return Structure(maps, output, dense)


def _with_unseen(factors: Sequence[Factor], parameters: Mapping[str, Any]) -> list[Factor]:
    """The factors, with those of experts that no token of this window went to: all slices, and all numbered alike."""
    found = dict.fromkeys(factors)
    for factor in factors:
        p = parameters[factor.name]
        rows = p.numel() // p.shape[-1]
        if factor.rows < rows and not rows % factor.rows and not factor.first % factor.rows:
            found |= dict.fromkeys(factor._replace(first=start) for start in range(0, rows, factor.rows))
        pattern = re.sub(r"\\\.\d+\\\.", r"\\.\\d+\\.", re.escape(factor.name))
        for other, q in parameters.items():
            if other != factor.name and q.shape == p.shape and re.fullmatch(pattern, other):
                found.setdefault(factor._replace(name=other))
    return list(found)


def _routers(products: Sequence[Product], parameters: Mapping[str, Any]) -> set[Factor]:
    """The map with as many outputs as there are experts that was the last one before the experts."""
    routers: set[Factor] = set()
    for at, product in enumerate(products):
        count = _experts_beside(product.factor, parameters)
        earlier = [p.factor for p in products[:at] if count > 1 and p.outputs.shape[-1] == count and p.place is None]
        if earlier and not any(_experts_beside(f, parameters) == count for f in routers):
            routers.add(earlier[-1])
    return routers


def _experts_beside(factor: Factor, parameters: Mapping[str, Any]) -> int:
    """Count the experts that a factor is one of: slices of its parameter, or weights numbered alike."""
    p = parameters[factor.name]
    if p.dim() == 3:
        return int(p.shape[0])
    if factor.rows < p.shape[0]:
        return int(p.shape[0]) // factor.rows
    pattern = re.sub(r"\\\.\d+\\\.", r"\\.\\d+\\.", re.escape(factor.name))
    return sum(re.fullmatch(pattern, other) is not None for other in parameters)


def _refuse_unseen(block: Any, name: str, factors: Sequence[Factor], parameters: Mapping[str, Any]) -> None:
    seen = {factor.name for factor in factors}
    kinds = {_kind(block, name) for name in seen} | {(torch.nn.Linear, "weight")}
    for inner, parameter in parameters.items():
        owner = block.get_submodule(inner.rpartition(".")[0])
        if parameter.dim() == 2 and inner not in seen and _kind(block, inner) in kinds:
            raise InvalidInstance(
                f"a linear map must apply its weight as it is stored; {name}.{inner} ({type(owner).__name__}) does not"
            )


def _kind(block: Any, name: str) -> tuple[type, str]:
    """The type of the module that a parameter belongs to, and how the parameter is called in it."""
    owner, _, leaf = name.rpartition(".")
    return type(block.get_submodule(owner)), leaf


def _sources(first: Mapping[Factor, Product], kept: Sequence[Factor]) -> dict[Factor, int]:
    """Numbers of the inputs: one for maps that were given the same numbers in the same memory."""
    known: dict[Any, int] = {}
    sources = {}
    for factor in kept:
        product = first.get(factor)
        key: Any = factor
        if product is not None and product.place is None:
            x = product.inputs
            key = (x.data_ptr(), x.numel(), x.shape[-1], x._version)
        sources[factor] = known.setdefault(key, len(known))
    return sources


class _Reach:
    """Find what an attention was made of, and where its result goes."""

    def __init__(self, at: int, attention: Attention, products: Sequence[Product]) -> None:
        self._at, self._attention, self._products = at, attention, products

    def heads(self, side: str) -> tuple[int, int]:
        """(heads, features of a head) of "query", "key" or "value"."""
        tensor = getattr(self._attention, side)
        return int(tensor.shape[-3]) if tensor.dim() > 3 else int(tensor.shape[0]), int(tensor.shape[-1])

    def rows(self, product: Product, side: str, head: int | None = None) -> NDArray[np.bool_] | None:
        """Find the outputs of a map that "query", "key" or "value" changes with; None if it cannot."""
        tensor = getattr(self._attention, side)
        if not tensor.requires_grad:
            return None
        direction = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(0)).to(tensor.device)
        if head is not None:
            chosen = torch.zeros_like(direction)
            index = (slice(None), head) if tensor.dim() > 3 else (head,)
            chosen[index] = direction[index]
            direction = chosen
        found = torch.autograd.grad(tensor, product.outputs, direction, retain_graph=True, allow_unused=True)[0]
        if found is None:
            return None
        changes: NDArray[np.bool_] = (product.rows(found) != 0).any(dim=0).cpu().numpy()
        return changes if changes.any() else None

    def leaves(self) -> Factor | None:
        """The first map after it whose input changes with its result."""
        result = self._attention.result
        for product in self._products[self._at :]:
            x = product.inputs
            if result.requires_grad and x.requires_grad:
                found = torch.autograd.grad(x.sum(), result, retain_graph=True, allow_unused=True)[0]
                if found is not None:
                    return product.factor
        return None


_ROLES: tuple[Role, ...] = ("Q", "K", "V", "rest")
_SIDES: tuple[tuple[Role, str], ...] = (("V", "value"), ("Q", "query"), ("K", "key"))
"""In this order: what values depend on is no map of queries or keys alone."""


def _parts(
    factor: Factor, product: Product | None, attentions: Sequence[_Reach], parameters: Mapping[str, Any]
) -> tuple[Part, ...]:
    """The rows of a map by role."""
    out = factor.of(parameters[factor.name]).shape[0]
    role = np.full(out, "rest", dtype=object)
    blocks: dict[str, int] = {}
    for reach in attentions if product is not None and product.place is None else ():
        assert product is not None
        for name, side in _SIDES:
            changed = reach.rows(product, side)
            new = np.zeros(out, dtype=bool) if changed is None else changed & (role == "rest")
            role[new] = name
            if new.any():
                blocks[name] = _by_head(reach, product, side, int((role == name).sum()))
    return tuple(
        Part(name, rows, blocks.get(name) or _by_size(len(rows)))
        for name in _ROLES
        if len(rows := np.flatnonzero(role == name))
    )


def _by_head(reach: _Reach, product: Any, side: str, rows: int) -> int:
    """Blocks of outputs: the heads, where the first head is made of no more outputs than it has features; or 0."""
    _, features = reach.heads(side)
    of_first = reach.rows(product, side, head=0)
    if rows % features or of_first is None or int(of_first.sum()) > features:
        return 0
    return rows // features


def _by_size(out: int) -> int:
    return next(count for count in range(-(-out // _LARGEST_BLOCK), out + 1) if out % count == 0)
