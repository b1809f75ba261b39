"""Products of activations with weights, seen while a block computes: a linear map is what such a product applies.

Every call of a torch function passes by `Products`. A product whose one factor lies in the memory of a parameter is
one of a linear map, whatever module it stands in: Linear, Conv1D (addmm), one expert's slice of a fused tensor.
A product of two activations that has a row and a column for every token is one of queries and keys.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode


class Factor(NamedTuple):
    """The rows of a parameter, seen as (-1, its last dimension), that are one factor of a product."""

    name: str
    first: int
    rows: int
    transposed: bool
    """Whether the rows are inputs, as in Conv1D, and not outputs."""

    def of(self, parameter: Any) -> Any:
        """The weight (out, in): a view of the parameter's memory."""
        rows = parameter.detach().reshape(-1, parameter.shape[-1])[self.first : self.first + self.rows]
        return rows.T if self.transposed else rows


class Product(NamedTuple):
    """y = x W^T (+ bias) of one map: `inputs` and `outputs` as they went in and came out.

    `place` is the map's number in a batched product, of which inputs and outputs then hold one matrix for each map.
    `turned`: both have a column for each token, as in W x.
    """

    factor: Factor
    inputs: Any
    outputs: Any
    place: int | None
    turned: bool

    @property
    def x(self) -> Any:
        """Inputs (tokens, in)."""
        return self._rows(self.inputs)

    def rows(self, of_outputs: Any) -> Any:
        """Return an array of the outputs' shape as (tokens, out)."""
        return self._rows(of_outputs)

    def _rows(self, tensor: Any) -> Any:
        here = tensor if self.place is None else tensor[self.place]
        here = here.transpose(-1, -2) if self.turned else here
        return here.reshape(-1, here.shape[-1])


class Attention(NamedTuple):
    """Queries, keys, values (..., heads, tokens, features) and what attention makes of them."""

    query: Any
    key: Any
    value: Any
    result: Any


_LINEAR = {torch.nn.functional.linear}
_PRODUCTS: Mapping[Callable[..., Any], int] = {
    torch.matmul: 0, torch.mm: 0, torch.bmm: 0, torch.addmm: 1, torch.baddbmm: 1, torch.Tensor.matmul: 0,
    torch.Tensor.__matmul__: 0, torch.Tensor.mm: 0, torch.Tensor.bmm: 0, torch.Tensor.addmm: 1, torch.Tensor.baddbmm: 1,
}  # fmt: skip
"""Functions that multiply matrices, and the place of their first factor."""
_FACTORS = ("input", "mat1", "batch1"), ("other", "mat2", "batch2", "tensor2")
_ATTENTION = torch.nn.functional.scaled_dot_product_attention


class Products(TorchFunctionMode):
    """Notes the products of a block while it runs; ``with Products(parameters) as seen: block(...)``.

    Parameters
    ----------
    parameters : mapping of name to parameter
        Those whose products are noted.
    tokens : int, optional
        The window's length: products of activations with that many rows and columns are taken for attention's.

    Attributes
    ----------
    products : list of Product
        In the order in which they were computed.
    attentions : list of (int, Attention)
        How many products came before, and what attention was given.
    """

    def __init__(self, parameters: Mapping[str, Any], tokens: int | None = None) -> None:
        super().__init__()
        self._tokens = tokens
        self._memory = {p.untyped_storage().data_ptr(): (name, p) for name, p in parameters.items() if p.dim() > 1}
        self.products: list[Product] = []
        self.attentions: list[tuple[int, Attention]] = []
        self._scores: tuple[Any, Any] | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, and note what it was."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func in _LINEAR:
            left, right = _given(args, kwargs, 0, ("input",)), _given(args, kwargs, 1, ("weight",))
            self._note(left, right, result, transposed=False)
        elif func in _PRODUCTS:
            place = _PRODUCTS[func]
            left, right = (_given(args, kwargs, place + i, names) for i, names in enumerate(_FACTORS))
            known = self._note(left, right, result, transposed=True) or self._note(
                right, left, result, transposed=False, turned=True
            )
            if not known and self._tokens is not None:
                self._attend(left, right, result)
        elif func is _ATTENTION and self._tokens is not None:
            query, key, value = (_given(args, kwargs, i, (n,)) for i, n in enumerate(("query", "key", "value")))
            self.attentions.append((len(self.products), Attention(query, key, value, result)))
        return result

    def _note(self, x: Any, weight: Any, y: Any, *, transposed: bool, turned: bool = False) -> bool:
        """Note a product with a parameter: x @ w where `transposed`, w @ x where `turned`, else x @ w.T."""
        if not isinstance(weight, torch.Tensor) or weight.device.type == "meta":
            return False
        known = self._memory.get(weight.untyped_storage().data_ptr())
        if known is None or weight.dim() not in (2, 3) or x.dim() < 2:
            return False
        places = range(len(weight)) if weight.dim() == 3 else [None]
        for place in places:
            factor = _factor(*known, weight if place is None else weight[place], transposed)
            if factor is None:
                return False
            self.products.append(Product(factor, x, y, place, turned))
        return True

    def _attend(self, left: Any, right: Any, result: Any) -> None:
        """Scores are a product with a row and a column for every token; the next product with such a factor ends it."""
        square = (self._tokens, self._tokens)
        if self._scores is not None and left.shape[-2:] == square:
            (query, key), self._scores = self._scores, None
            self.attentions.append((len(self.products), Attention(query, key, right, result)))
        elif result.shape[-2:] == square:
            self._scores = (left, right.transpose(-1, -2))


def _given(args: Any, kwargs: Mapping[str, Any], place: int, names: tuple[str, ...]) -> Any:
    if place < len(args):
        return args[place]
    return next((kwargs[name] for name in names if name in kwargs), None)


def _factor(name: str, parameter: Any, weight: Any, transposed: bool) -> Factor | None:
    """Find the rows of the parameter that a factor is; None if it is not whole rows, perhaps transposed."""
    width = parameter.shape[-1]
    if not parameter.is_contiguous() or weight.shape[0] * weight.shape[1] == 0:
        return None
    start, beside = divmod(weight.storage_offset() - parameter.storage_offset(), width)
    turned = weight.shape[0] == width and weight.stride() == (1, width)
    straight = weight.shape[1] == width and weight.stride() == (width, 1)
    if beside or not (turned or straight):
        return None
    # F.linear's factor is (out, in), a product's is (in, out): stored rows are outputs in the first case, unless turned
    return Factor(name, start, weight.shape[0 if straight else 1], transposed == straight)
