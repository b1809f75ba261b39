"""Triton's language in the interpreter: what it computes wrongly raises, what newer versions removed is there again."""

import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from types import ModuleType
from typing import Any

Operand = Any
"""An argument of Triton's functions, whose types are not there where Triton is not installed."""
BFLOAT16 = "Triton's interpreter cannot compute in bfloat16; judge this kernel in float16 or float32, or on a GPU"
"""The sentence that a kernel raises where it multiplies, adds or compares bfloat16 numbers."""


def refuse_bfloat16() -> None:
    """Let operations on bfloat16 numbers raise `BFLOAT16`."""
    builder = importlib.import_module("triton.runtime.interpreter").InterpreterBuilder
    for name in ("create_dot", "binary_op", "unary_op"):
        whole = getattr(builder, name)
        if not hasattr(whole, "__wrapped__"):
            setattr(builder, name, _guarded(whole))


def _guarded(whole: Callable[..., object]) -> Callable[..., object]:
    @wraps(whole)
    def guarded(self: object, *args: object, **keywords: object) -> object:
        bfloat16 = sys.modules["triton.language"].bfloat16
        if any(getattr(getattr(arg, "dtype", None), "scalar", None) == bfloat16 for arg in args):
            raise NotImplementedError(BFLOAT16)
        return whole(self, *args, **keywords)

    return guarded


def restore_what_was_removed(language: Operand) -> None:
    """Give `triton.language` block pointers and the transposes of `dot` where its version has none.

    Parameters
    ----------
    language : module
        ``triton.language``.
    """
    if "trans_a" not in inspect.signature(language.dot).parameters:
        language.dot = _dot_that_transposes(language.dot, language.trans)
    if "boundary_check" not in inspect.signature(language.load).parameters:
        language.make_block_ptr, language.advance = _BlockPointer, _advanced
        language.load, language.store = _loading(language), _storing(language)


def _dot_that_transposes(dot: Callable[..., Operand], trans: Callable[..., Operand]) -> Callable[..., Operand]:
    @wraps(dot)
    def transposing(
        left: Operand,
        right: Operand,
        *args: Operand,
        trans_a: Operand = False,
        trans_b: Operand = False,
        **keywords: Operand,
    ) -> Operand:
        semantic = {name: value for name, value in keywords.items() if name.startswith("_")}
        left = trans(left, **semantic) if trans_a else left
        right = trans(right, **semantic) if trans_b else right
        return dot(left, right, *args, **keywords)

    # inspect.signature follows what is wrapped, and would not see the two that were added
    del transposing.__wrapped__
    return transposing


@dataclass(frozen=True)
class _BlockPointer:
    """The place of a block in a tensor, turned into pointers when it is used."""

    base: Operand
    shape: Sequence[Operand]
    strides: Sequence[Operand]
    offsets: Sequence[Operand]
    block_shape: Sequence[Operand]
    order: Sequence[int]

    def pointers(self, language: ModuleType, checked: Sequence[Operand]) -> tuple[Operand, Operand]:
        """Return a pointer for each entry of the block, and a mask of those inside the axes that are checked."""
        pointers, inside, rank = self.base, None, len(self.block_shape)
        for axis, (size, stride, first, length) in enumerate(
            zip(self.shape, self.strides, self.offsets, self.block_shape, strict=True)
        ):
            at = language.arange(0, length).to(language.int64) + first
            at = at[tuple(slice(None) if place == axis else None for place in range(rank))]
            pointers = pointers + at * stride
            if axis in map(int, checked):
                within = (at >= 0) & (at < size)
                inside = within if inside is None else inside & within
        return pointers, inside


def _advanced(base: _BlockPointer, offsets: Sequence[Operand]) -> _BlockPointer:
    return replace(base, offsets=[old + more for old, more in zip(base.offsets, offsets, strict=True)])


def _loading(language: ModuleType) -> Callable[..., Operand]:
    whole = language.load

    @wraps(whole)
    def load(
        pointer: Operand,
        *args: Operand,
        boundary_check: Sequence[Operand] = (),
        padding_option: str = "",
        **keywords: Operand,
    ) -> Operand:
        if not isinstance(pointer, _BlockPointer):
            return whole(pointer, *args, **keywords)
        pointers, inside = pointer.pointers(language, boundary_check)
        beyond = None if inside is None else float("nan") if padding_option == "nan" else 0
        return whole(pointers, inside, beyond, **keywords)

    del load.__wrapped__
    return load


def _storing(language: ModuleType) -> Callable[..., Operand]:
    whole = language.store

    @wraps(whole)
    def store(
        pointer: Operand, value: Operand, *args: Operand, boundary_check: Sequence[Operand] = (), **keywords: Operand
    ) -> Operand:
        if not isinstance(pointer, _BlockPointer):
            return whole(pointer, value, *args, **keywords)
        pointers, inside = pointer.pointers(language, boundary_check)
        return whole(pointers, value.to(pointers.dtype.element_ty), inside, **keywords)

    del store.__wrapped__
    return store
