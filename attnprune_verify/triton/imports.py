"""The import of a Triton kernel with the interpreter on."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from attnprune_verify.errors import InvalidInput
from attnprune_verify.extras import MissingExtra
from attnprune_verify.triton.gpu import emulate_gpu
from attnprune_verify.triton.language import refuse_bfloat16, restore_what_was_removed

if TYPE_CHECKING:
    from collections.abc import Iterator


def interpreted(path_or_name: str | os.PathLike[str]) -> ModuleType:
    """Import a Triton kernel with the interpreter on, so that it runs on a CPU.

    Autotuned kernels keep their first configuration. Where no GPU is found, code that asks for the driver, for the
    GPU's properties or, in the kernel's own modules, whether a tensor is on a GPU is told of one with capability 8.0.
    Of a package whose own code does not import, only the kernel's module is taken. Block pointers and the transposes of
    ``tl.dot`` work where Triton has removed them. This holds for the whole process, which cannot run compiled kernels
    afterwards.

    Parameters
    ----------
    path_or_name : str or path
        A file that ends in ``.py``, from the working folder or one of the import path; or the name of a module.

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
    if wanted.endswith(".py"):
        found = [place for folder in ("", *sys.path) if (place := Path(folder, wanted)).is_file()]
        if not found:
            raise InvalidInput(
                f"a name that ends in .py is a file's, and {wanted!r} is no file that can be read here: check the "
                "path; an audit closes folders other than the target's, and --path FOLDER opens one"
            )
        wanted = str(found[0])
    triton = _triton()
    emulate_gpu(triton, importlib.import_module("torch"), Path(wanted).stem if wanted.endswith(".py") else wanted)
    refuse_bfloat16()
    restore_what_was_removed(triton.language)
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
        words = path_or_name.split(".")
        for end in range(1, len(words)):
            _entered(".".join(words[:end]))
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


def _entered(package: str) -> None:
    """Import a package around the kernel; of one whose own code fails, what stands before the failing line is kept."""
    if package in sys.modules:
        return
    spec = importlib.util.find_spec(package)
    if spec is None or spec.loader is None or spec.submodule_search_locations is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules[package] = module
    with suppress(Exception):
        spec.loader.exec_module(module)


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
