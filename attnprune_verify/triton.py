"""Triton kernels on a CPU: `interpreted` imports a file or a module with Triton's interpreter on.

The interpreter keeps bfloat16 as 16-bit integers and computes with these; here it raises instead, so that a kernel is
not charged with errors of 1e8 that it does not make.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

from attnprune_verify.errors import InvalidInput
from attnprune_verify.extras import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BFLOAT16", "interpreted"]

BFLOAT16 = "Triton's interpreter cannot compute in bfloat16; judge this kernel in float16 or float32, or on a GPU"
"""The sentence that a kernel raises where it multiplies, adds or compares bfloat16 numbers."""
_CAPABILITY = (8, 0)  # chosen: of the oldest GPU that has bfloat16; kernels are told it where there is no GPU


def interpreted(path_or_name: str | os.PathLike[str]) -> ModuleType:
    """Import a Triton kernel with the interpreter on, so that it runs on a CPU.

    Autotuned kernels keep their first configuration. Where no GPU is found, code that asks for the driver or for the
    GPU's capability is told of one with capability 8.0. This holds for the whole process, which cannot run compiled
    kernels afterwards.

    Parameters
    ----------
    path_or_name : str or path
        A file that ends in ``.py``, or the name of a module.

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    MissingExtra
        If Triton is not installed.
    InvalidInput
        If Triton was imported with the interpreter off, or the file does not exist.
    """
    wanted = os.fspath(path_or_name)
    if wanted.endswith(".py") and not Path(wanted).is_file():
        raise InvalidInput(f"a name that ends in .py is a file's, and {wanted!r} is no file: check the path")
    triton = _triton()
    _without_a_gpu(triton)
    _refuse_bfloat16()
    with _one_configuration(triton):
        return _imported(wanted)


def _triton() -> ModuleType:
    """Return Triton, imported with its interpreter on."""
    early = "triton" in sys.modules
    before = os.environ.get("TRITON_INTERPRET")
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        triton = importlib.import_module("triton")
        if early and type(triton.language.cdiv).__name__ == "JITFunction":
            raise InvalidInput(
                "the interpreter must be on before Triton is imported, and Triton is imported already with it off: "
                "set TRITON_INTERPRET=1 for the process, or call interpreted() before any import of triton"
            )
    except BaseException as error:
        if before is None:
            del os.environ["TRITON_INTERPRET"]
        else:
            os.environ["TRITON_INTERPRET"] = before
        if isinstance(error, ModuleNotFoundError) and error.name == "triton":
            raise MissingExtra(
                "the interpreter is part of Triton, which is not installed: install the package triton"
            ) from None
        raise
    return triton


def _imported(path_or_name: str) -> ModuleType:
    if not path_or_name.endswith(".py"):
        return importlib.import_module(path_or_name)
    path = Path(path_or_name)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # the interpreter finds the functions that a kernel calls by the name of its module
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise
    return module


@contextmanager
def _one_configuration(triton: ModuleType) -> Iterator[None]:
    """Let `triton.autotune` take the first configuration alone: more would be timed, which needs a GPU."""
    whole = triton.autotune

    @wraps(whole)
    def first(configs: Iterable[object], *args: object, **keywords: object) -> object:
        return whole(list(configs)[:1], *args, **keywords)

    modules = (triton, triton.runtime, triton.runtime.autotuner)
    for module in modules:
        vars(module)["autotune"] = first
    try:
        yield
    finally:
        for module in modules:
            vars(module)["autotune"] = whole


def _without_a_gpu(triton: ModuleType) -> None:
    torch = importlib.import_module("torch")
    if torch.cuda.is_available():
        return
    torch.cuda.get_device_capability = lambda device=None: _CAPABILITY
    target = SimpleNamespace(backend="cuda", arch=10 * _CAPABILITY[0] + _CAPABILITY[1], warp_size=32)
    triton.runtime.driver.set_active(
        SimpleNamespace(
            get_current_target=lambda: target,
            get_current_device=lambda: 0,
            get_active_torch_device=lambda: torch.device("cpu"),
        )
    )


def _refuse_bfloat16() -> None:
    builder = importlib.import_module("triton.runtime.interpreter").InterpreterBuilder
    for name in ("create_dot", "binary_op", "unary_op"):
        whole = getattr(builder, name)
        if not hasattr(whole, "__wrapped__"):
            setattr(builder, name, _guarded(whole))


def _guarded(whole: Callable[..., object]) -> Callable[..., object]:
    @wraps(whole)
    def guarded(self: object, *args: object, **keywords: object) -> object:
        if any(getattr(getattr(arg, "dtype", None), "scalar", None) == _bfloat16() for arg in args):
            raise NotImplementedError(BFLOAT16)
        return whole(self, *args, **keywords)

    return guarded


def _bfloat16() -> object:
    return sys.modules["triton.language"].bfloat16
