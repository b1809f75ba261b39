"""A model folder opened by transformers: weights stay in their files and are read where they are needed, if they can.

Where the files' names and shapes are those of the model's parameters (they are for all but fused experts), every
parameter is mapped from its file: the system reads what is computed with and forgets it when memory is wanted.
Otherwise transformers reads the model, all of it in the type of the files. Nothing is fetched, and no code of a folder
is run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.extras import need
from attnprune_verify.pretrained.tensors import Place, Tensors, model_folder, read_json
from attnprune_verify.torch.files import as_filed

__all__ = ["DTYPES", "Opened", "open_folder"]

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


class Opened(NamedTuple):
    """A model, where its tensors lie, and whether its parameters are mapped from there."""

    model: Any
    tensors: Tensors
    mapped: bool

    def filed(self, name: str, parameter: Any) -> dict[str, Any]:
        """A parameter as its file's tensors, in their types.

        Raises
        ------
        InvalidInstance
            If it is not in the files as it is in the model.
        """
        found = as_filed(self.model, {name: parameter})
        for one, tensor in found.items():
            place = self._place(one)
            if place is None or place.shape != tuple(tensor.shape) or DTYPES.get(place.dtype) != tensor.dtype:
                kept = "nothing of that name" if place is None else f"{place.dtype} {place.shape}"
                raise InvalidInstance(
                    f"a pruned parameter must be in the files as transformers writes it; {name!r} would be {one!r}, "
                    f"{tensor.dtype} {tuple(tensor.shape)}; the files hold {kept}"
                )
        return found

    def place(self, name: str) -> Place:
        """The place of a tensor in the files."""
        return self.tensors.place(name)

    def _place(self, name: str) -> Place | None:
        return self.tensors.place(name) if name in self.tensors else None


def open_folder(folder: Path, device: str = "cpu") -> Opened:
    """Open the model of a folder in Hugging Face's layout, on a device.

    Raises
    ------
    InvalidInstance
        If transformers cannot, or the model needs code of its own, or is quantised.
    """
    transformers = need("pruning a model of this type", "torch", "transformers")
    content, tensors = read_json(model_folder(folder) / "config.json"), Tensors(folder, np.float32)
    for key in ("auto_map", "quantization_config"):
        if content.get(key) is not None:
            raise InvalidInstance(f"config.json must have no {key}; it has one")
    transformers.logging.disable_progress_bar()
    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
        model = _mapped(transformers, config, tensors)
        mapped = model is not None
        if model is None:
            model = transformers.AutoModelForCausalLM.from_pretrained(
                folder, config=config, dtype=_commonest(tensors), local_files_only=True
            )
    except InvalidInstance:
        raise
    except Exception as error:  # the library raises whatever its parts do
        first = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise InvalidInstance(f"transformers must open the model in {str(folder)!r}; {first}") from error
    if device != "cpu":
        model = model.to(device)
    return Opened(model.eval().requires_grad_(False), tensors, mapped and device == "cpu")


def _mapped(transformers: Any, config: Any, tensors: Tensors) -> Any:
    """The model with every tensor mapped from its file; None where names or shapes are not the files'."""
    with _without_memory():
        model = transformers.AutoModelForCausalLM.from_config(config)
    tied = {name for name, p in model.named_parameters(remove_duplicate=False) if name not in tensors and p.is_meta}
    for name, tensor in list(model.state_dict(keep_vars=True).items()):
        if name in tied:
            continue
        place = tensors.place(name) if name in tensors else None
        if place is None or place.shape != tuple(tensor.shape) or place.dtype not in DTYPES:
            return None
        owner, _, leaf = name.rpartition(".")
        module = model.get_submodule(owner)
        if isinstance(tensor, torch.nn.Parameter):
            module._parameters[leaf] = torch.nn.Parameter(_tensor(place), requires_grad=False)
        else:
            module._buffers[leaf] = _tensor(place).to(tensor.dtype)
    model.tie_weights()
    return None if any(parameter.is_meta for parameter in model.parameters()) else model


@contextmanager
def _without_memory() -> Iterator[None]:
    """Parameters of modules that are made here take no memory; what is computed for buffers is there."""
    kind: Any = torch.nn.Module
    register = kind.register_parameter

    def empty(module: Any, name: str, parameter: Any) -> None:
        if parameter is not None:
            parameter = torch.nn.Parameter(parameter.to("meta"), requires_grad=False)
        register(module, name, parameter)

    kind.register_parameter = empty
    try:
        yield
    finally:
        kind.register_parameter = register


def _tensor(place: Place) -> Any:
    """A tensor mapped from its file; writes to it stay in memory."""
    raw = np.memmap(
        place.file, np.uint8, "c", place.offset, (int(np.prod(place.shape)) * DTYPES[place.dtype].itemsize,)
    )
    return torch.from_numpy(raw).view(DTYPES[place.dtype]).reshape(place.shape)


def _commonest(tensors: Tensors) -> Any:
    """The type of most numbers in the files."""
    sizes: dict[str, int] = {}
    for place in tensors.places():
        sizes[place.dtype] = sizes.get(place.dtype, 0) + int(np.prod(place.shape))
    dtype = max(sizes, key=lambda name: sizes[name])
    if dtype not in DTYPES:
        raise InvalidInstance(f"tensors must be one of {', '.join(DTYPES)}; most numbers are {dtype}")
    return DTYPES[dtype]
