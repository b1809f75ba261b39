"""NumPy, torch and jax behind one face: arrays in a dtype and a layout, filled, read and differentiated.

Imported in the subject's process; torch and jax only if the subject asks for them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from attnprune_verify.audit.kernel.problem.eight_bits import EIGHT_BITS
from attnprune_verify.audit.kernel.process import devices
from attnprune_verify.audit.kernel.typing import Deferred, Foreign, Plain
from attnprune_verify.extras import need


class Framework(Protocol):
    """The part of an array library that the bridge uses."""

    name: str
    differentiates: bool

    def made(self, values: Any, layout: str) -> Any:
        """An array of the kernel's dtype, laid out in memory: `values` themselves where they lie there so already.

        Bits of bfloat16 come as uint16.
        """

    def side_input(self, values: Any) -> Any:
        """A mask, or slopes in the precision of the sums."""

    def fill(self, arrays: list[Any], values: tuple[Any, ...]) -> None:
        """Put other numbers into arrays that were passed before."""

    def bits(self, array: Any) -> bytes:
        """Return an array's bytes, which show whether it was changed."""

    def read(self, value: Any) -> tuple[Any, str]:
        """A result as float64, and its dtype's name."""

    def poison(self, sizes: list[int]) -> None:
        """Fill memory of these sizes with NaN and free it, so that entries never written show up."""

    def captured(self, call: Deferred) -> Deferred:
        """A call recorded once, to be repeated on what its arrays hold then.

        Raises
        ------
        NotImplementedError
            Where nothing can be recorded.
        """

    def differentiated(
        self, function: Callable[..., Any], inputs: list[Any], keywords: dict[str, Foreign], also: list[str],
        dlse: Foreign = None,
    ) -> list[Any]:  # fmt: skip
        """The gradients by q, k, v, and some keywords, of the inner product with do; zero for what is not used.

        With `dlse` the function returns log sum exp, too, whose inner product with it is added.
        """


def framework_named(name: str, dtype: str, device: str = "cpu") -> Framework:
    """The adapter of a framework.

    Raises
    ------
    ValueError
        If the framework cannot make this dtype, or has no such device.
    """
    if name == "torch":
        return _Torch(dtype, device)
    if name == "jax":
        return _Jax(dtype, device)
    if device != "cpu":
        raise ValueError(f"device must be cpu for a NumPy kernel; got {device!r}")
    return _NumPy(dtype)


def laid_out(array: Any, layout: str) -> Any:
    """Return the numbers in another memory layout."""
    if layout == "transposed":
        return np.ascontiguousarray(np.swapaxes(array, -1, -2)).swapaxes(-1, -2)
    if layout == "heads last" and array.ndim > 2:
        return np.ascontiguousarray(np.swapaxes(array, 1, 2)).swapaxes(1, 2)
    if layout == "spaced":
        wide = np.full((*array.shape[:-1], 2 * array.shape[-1]), 7, dtype=array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    if layout == "reversed":
        return np.ascontiguousarray(array[..., ::-1])[..., ::-1]
    if layout == "broadcast" and (array == array[:, :1]).all():
        return np.broadcast_to(np.ascontiguousarray(array[:, :1]), array.shape)
    if layout == "expanded" and (array == array.flat[0]).all():
        return np.broadcast_to(array.reshape(-1)[:1].reshape((1,) * array.ndim), array.shape)
    return np.ascontiguousarray(array)


def _numpy_type(dtype: str) -> Any:
    if dtype != "bfloat16" and dtype not in EIGHT_BITS:
        return np.dtype(dtype)
    try:
        return np.dtype(getattr(importlib.import_module("ml_dtypes"), dtype))
    except ImportError:
        raise ValueError(f"{dtype} in NumPy needs the package ml_dtypes, which is not installed") from None


def _typed(values: Foreign, kind: Foreign) -> Foreign:
    """The numbers in a type; no copy of those that have it, or its 16 or 8 bits."""
    return values.view(kind) if values.dtype.kind == "u" else values.astype(kind, copy=False)


def _sums(dtype: str) -> str:
    return "float64" if dtype == "float64" else "float32"


_COMPILED_AS_WRITTEN = {
    "xla_allow_excess_precision": False,  # roundings to 16 bits that the kernel prescribes stay
    "xla_backend_optimization_level": 0,  # each shape is compiled for a call or two: half the time
}
# Where this XLA has the choice: loops in place of fusion emitters, a third of the time again (0.10 s for 0.32 s, a
# backward pass of some 16 queries, jax 0.10.2), and no fusions with YNNPACK: some are wrong (docs/kernels_real.md).
_PLAINLY = {"xla_cpu_use_fusion_emitters": False, "xla_cpu_experimental_ynn_fusion_type": ""}
_POISONED = 4  # pieces of memory of each size; chosen: a kernel has few arrays of one size


def no_tuple(result: Foreign) -> Foreign:
    """Return the result, which is o and nothing else.

    Raises
    ------
    TypeError
        If it is a tuple, as (o, weights).
    """
    if isinstance(result, tuple):
        raise TypeError(f"returns {len(result)} things where o alone is asked for: wrap it to return its first")
    return result


def _paired(result: Foreign, do: Foreign, dlse: Foreign) -> list[tuple[Foreign, Foreign]]:
    """Return each result that is pulled back with its cotangent."""
    if dlse is None:
        return [(no_tuple(result), do)]
    o, lse = result
    turned = lse.shape != dlse.shape and lse.shape == dlse.shape[::-1]  # packed, (total, heads)
    return [(o, do), (lse, dlse.T if turned else dlse.reshape(lse.shape))]


class _NumPy:
    name = "numpy"
    differentiates = False

    def __init__(self, dtype: str) -> None:
        self.type, self.wide = _numpy_type(dtype), np.dtype(_sums(dtype))

    def made(self, values: Any, layout: str) -> Any:
        return laid_out(_typed(values, self.type), layout)

    def side_input(self, values: Any) -> Any:
        return values.astype(self.wide) if values.dtype.kind == "f" else values

    def fill(self, arrays: list[Any], values: tuple[Any, ...]) -> None:
        for array, value in zip(arrays, values, strict=True):
            array[...] = _typed(value, self.type)

    def bits(self, array: Any) -> bytes:
        return bytes(array.tobytes())

    def read(self, value: Any) -> tuple[Any, str]:
        array = np.asarray(value)
        if array.dtype.kind == "O":
            array = array.astype(np.float64)
        if array.dtype.kind not in "biufV":
            raise TypeError(f"returns {array.dtype}, not real numbers")
        # A list of Python's floats has no dtype of its own: it is what the kernel's type turns it into.
        plain = isinstance(value, (list, tuple, float, int)) and array.dtype == np.float64
        return array.astype(np.float64), self.type.name if plain else array.dtype.name

    def poison(self, sizes: list[int]) -> None:
        kinds = {self.type, self.wide}
        held = [np.full(size, np.nan, kind) for size in sizes for kind in kinds for _ in range(_POISONED)]
        held.clear()

    def captured(self, call: Deferred) -> Deferred:
        raise NotImplementedError("NumPy records no calls")

    def differentiated(
        self, function: Callable[..., Any], inputs: list[Any], keywords: dict[str, Foreign], also: list[str],
        dlse: Foreign = None,
    ) -> list[Any]:  # fmt: skip
        raise TypeError("NumPy does not differentiate")


class _Torch:
    name = "torch"
    differentiates = True

    def __init__(self, dtype: str, device: str) -> None:
        self.torch: Any = need('FRAMEWORK = "torch"', "torch")
        self.type, self.wide = getattr(self.torch, dtype), getattr(self.torch, _sums(dtype))
        self.device = devices.torch_device(self.torch, device)

    def _there(self, values: Foreign, kind: Foreign) -> Foreign:
        """The numbers on the device, rounded on the CPU."""
        given = {"b": np.uint8, "u": np.uint8 if values.itemsize == 1 else np.int16}.get(values.dtype.kind)
        values = np.ascontiguousarray(values) if given is None else np.ascontiguousarray(values).view(given)
        mine = self.torch.from_dlpack(values if values.flags.writeable else values.copy())  # DLPack wants it writable
        return self.device.put(mine.to(kind) if given is None else mine.view(kind))

    def made(self, values: Any, layout: str) -> Any:
        exact = self._there(values, self.type)
        if layout == "transposed":
            return exact.transpose(-1, -2).contiguous().transpose(-1, -2)
        if layout == "heads last" and exact.dim() > 2:
            return exact.transpose(1, 2).contiguous().transpose(1, 2)
        if layout == "spaced":
            wide = self.torch.full_like(exact, 7.0).repeat_interleave(2, -1)
            wide[..., ::2] = exact
            return wide[..., ::2]
        if layout == "broadcast" and bool((exact == exact[:, :1]).all()):
            return exact[:, :1].contiguous().expand(exact.shape)
        if layout == "expanded" and bool((exact == exact.reshape(-1)[0]).all()):
            return exact.reshape(-1)[:1].reshape((1,) * exact.dim()).expand(exact.shape)
        return exact.contiguous()

    def side_input(self, values: Any) -> Any:
        kinds = {"b": self.torch.bool, "f": self.wide, "i": self.torch.int32}
        return self._there(values, kinds[values.dtype.kind])

    def fill(self, arrays: list[Any], values: tuple[Any, ...]) -> None:
        with self.torch.no_grad():
            for array, value in zip(arrays, values, strict=True):
                array.copy_(self._there(value, self.type))

    def bits(self, array: Any) -> bytes:
        whole = self.device.get(array.detach()).contiguous()
        return bytes(whole.reshape(-1).view(self.torch.uint8).numpy().tobytes())

    def read(self, value: Any) -> tuple[Any, str]:
        tensor = self.device.get(self.torch.as_tensor(value).detach())
        if tensor.is_complex():
            raise TypeError(f"returns {tensor.dtype}, not real numbers")
        return tensor.to(self.torch.float64).numpy(), str(tensor.dtype).removeprefix("torch.")

    def poison(self, sizes: list[int]) -> None:
        nan = self.device.put(self.torch.tensor(float("nan")))
        kinds = {self.type, self.wide}
        held = [nan.to(kind).repeat(size) for size in sizes for kind in kinds for _ in range(_POISONED)]
        held.clear()

    def captured(self, call: Deferred) -> Deferred:
        return self.device.captured(call)

    def differentiated(
        self, function: Callable[..., Any], inputs: list[Any], keywords: dict[str, Any], also: list[str],
        dlse: Any = None,
    ) -> list[Any]:  # fmt: skip
        *arrays, do = inputs
        leaves = [*arrays, *(keywords[name] for name in also)]
        for leaf in leaves:
            leaf.requires_grad_(True)

        def results() -> list[tuple[Any, Any]]:
            pairs = _paired(function(*arrays, **keywords), do, dlse)
            return [(one, by.to(one.dtype)) for one, by in pairs if getattr(one, "requires_grad", False)]

        try:
            found = self._pulled(results, leaves)
        finally:
            for leaf in leaves:
                leaf.requires_grad_(False)
        pairs = zip(found, leaves, strict=True)
        return [self.torch.zeros_like(leaf) if gradient is None else gradient for gradient, leaf in pairs]

    def _pulled(self, results: Callable[[], list[tuple[Any, Any]]], leaves: list[Any]) -> list[Any]:
        """The gradients of results with their cotangents, None where there is none.

        By autograd.backward where autograd.grad is refused, as a reentrant checkpoint does.
        """
        pulled = results()
        if not pulled:
            return [None] * len(leaves)
        outputs, cotangents = zip(*pulled, strict=True)
        try:
            return list(self.torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True))
        except RuntimeError as error:
            if "checkpoint" not in str(error).lower():
                raise
        try:
            self.torch.autograd.backward(*zip(*results(), strict=True))
            return [leaf.grad for leaf in leaves]
        finally:
            for leaf in leaves:
                leaf.grad = None


class _Jax:
    name = "jax"
    differentiates = True

    def __init__(self, dtype: str, device: str) -> None:
        self.jax: Foreign = need('FRAMEWORK = "jax"', "jax")
        self.device = None if device == "cpu" else devices.jax_device(self.jax, device)
        if dtype == "float64":
            self.jax.config.update("jax_enable_x64", True)
        self.numpy = importlib.import_module("jax.numpy")
        self.type, self.wide = _numpy_type(dtype), np.dtype(_sums(dtype))
        self.compiled: dict[str, Foreign] = {}  # by the program's text
        self.options: Plain = {}

    def made(self, values: Foreign, layout: str) -> Foreign:
        return self._there(_typed(values, self.type).copy())  # which jax would take as it is

    def side_input(self, values: Foreign) -> Foreign:
        return self._there(values.astype(self.wide) if values.dtype.kind == "f" else values)

    def _there(self, values: Foreign) -> Foreign:
        array = self.numpy.asarray(values)
        return array if self.device is None else self.jax.device_put(array, self.device)

    def poison(self, sizes: list[int]) -> None:
        raise NotImplementedError("jax gives no kernel memory that was not written")

    def captured(self, call: Deferred) -> Deferred:
        raise NotImplementedError("jax records no calls on memory that can be filled again")

    def fill(self, arrays: list[Foreign], values: tuple[Foreign, ...]) -> None:
        arrays[:] = [self.made(value, "plain") for value in values]  # jax arrays cannot be changed

    def bits(self, array: Foreign) -> bytes:
        return bytes(np.asarray(array).tobytes())

    def read(self, value: Foreign) -> tuple[Foreign, str]:
        array = np.asarray(value)
        if array.dtype.kind not in "biufV":
            raise TypeError(f"returns {array.dtype}, not real numbers")
        return array.astype(np.float64), array.dtype.name

    def differentiated(
        self, function: Callable[..., Foreign], inputs: list[Foreign], keywords: dict[str, Foreign], also: list[str],
        dlse: Foreign = None,
    ) -> list[Foreign]:  # fmt: skip
        *arrays, do = inputs

        def of(*leaves: Foreign) -> Foreign:
            given = dict(zip(also, leaves[len(arrays) :], strict=True))
            return function(*leaves[: len(arrays)], **{**keywords, **given})

        def pulled(cotangents: tuple[Foreign, Foreign], *leaves: Foreign) -> list[Foreign]:
            result, pull = self.jax.vjp(of, *leaves)
            given = tuple(by.astype(one.dtype) for one, by in _paired(result, *cotangents))
            return list(pull(self.jax.tree.unflatten(self.jax.tree.structure(result), given)))

        return list(self._at_once(pulled, (do, dlse), *arrays, *(keywords[name] for name in also)))

    def _understood(self) -> Plain:
        """Return the options of the compiler that this version of it has."""
        try:
            self.jax.jit(abs).lower(1.0).compile(_COMPILED_AS_WRITTEN | _PLAINLY)
        except RuntimeError:  # this version of the compiler lacks one of the options
            return _COMPILED_AS_WRITTEN
        return _COMPILED_AS_WRITTEN | _PLAINLY

    def _at_once(self, function: Callable[..., list[Foreign]], *arrays: Foreign) -> list[Foreign]:
        """Return the results of a function compiled as a whole: operation by operation costs five times the time.

        The function is traced anew by each call, so that what it keeps between calls shows; what depends on no array
        is computed while it is traced, so that a mask kept for a shape holds numbers. A function that cannot be traced,
        or that calls back into Python, runs operation by operation.
        """

        def folded(*arrays: Foreign) -> list[Foreign]:
            with self.jax.ensure_compile_time_eval():
                return function(*arrays)

        try:
            lowered = self.jax.jit(folded).lower(*arrays)
        except Exception:  # as where arrays have methods that their stand-ins lack: what the call itself raises counts
            return function(*arrays)
        text = lowered.as_text()
        if "callback" in text:  # which the text names by a number alone
            return function(*arrays)
        if text not in self.compiled:
            self.options = self.options or self._understood()
            self.compiled[text] = lowered.compile(self.options)
        results: list[Foreign] = self.compiled[text](*arrays)
        return results
