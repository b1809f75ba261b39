"""A model folder opened by transformers: weights stay in their files and are read where they are needed, if they can.

Where the files' names and shapes are those of the model's parameters (they are for all but fused experts), every
parameter is mapped from its file: the system reads what is computed with and forgets it when memory is wanted.
Otherwise transformers reads the model, all of it in the type of the files. Nothing is fetched, and no code of a folder
is run.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.extras import need
from attnprune_verify.pretrained.folder import ModelFolder, named_values
from attnprune_verify.pretrained.tensors import Place, Tensors
from attnprune_verify.state.child import in_child
from attnprune_verify.torch.files import as_filed
from attnprune_verify.values import as_choice

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_MEMORY = (
    4  # bytes for each of the weights' files; chosen: two copies of every BF16 parameter as float32, never touched
)
_TENSORS = 100  # tensors a second; 20 are made in a millisecond


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


def open_folder(folder: ModelFolder, device: str = "cpu") -> Opened:
    """Open the model of a folder, on a device; first without its weights, in a process of its own.

    Raises
    ------
    InvalidInstance
        If transformers cannot, if the model needs code of its own or is quantised, or if the tensors of the files are
        not those of the network that config.json describes.
    """
    transformers = need("pruning a model of this type", "torch", "transformers")
    for name, value in named_values(folder.config):
        if name in ("auto_map", "quantization_config") and value is not None:
            raise InvalidInstance(f"config.json must have no {name}; it has one")
        if name.endswith("attn_implementation") and "/" in str(value):
            raise InvalidInstance(f"config.json must name no code from elsewhere; {name} is {value!r:.60}")
    rule, tensors = f"transformers must open the model in {str(folder.path)!r}", folder.tensors(np.float32)
    size = sum(file.stat().st_size for file in folder.weights)
    with _silent(transformers):

        def without_weights() -> bytes:
            torch.set_num_threads(1)  # threads of the parent are not in a forked process
            with suppress(Exception):  # is raised again below
                _skeleton(transformers, folder)
            return b""

        in_child(rule, without_weights, memory=_MEMORY * size, seconds=len(tensors) // _TENSORS)
        try:
            config, model = _skeleton(transformers, folder)
            mapped = _mapped(model, tensors)
            if not mapped:
                model = _read(transformers, folder, config, tensors)
        except InvalidInstance:
            raise
        except Exception as error:  # the library raises whatever its parts do
            message = " ".join(str(error).split())[:200] or type(error).__name__
            raise InvalidInstance(f"{rule}; {message}") from error
    if device != "cpu":
        model = model.to(device)
    return Opened(model.eval().requires_grad_(False), tensors, mapped and device == "cpu")


@contextmanager
def _silent(transformers: ModuleType) -> Iterator[None]:
    """Keep the library's warnings and progress from the terminal; one error states what is wrong."""
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity(logging.CRITICAL)
    transformers.logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        transformers.logging.set_verbosity(level)


def _skeleton(transformers: ModuleType, folder: ModelFolder) -> tuple[Any, Any]:
    """Make the configuration and the model, whose parameters take no memory."""
    config = transformers.AutoConfig.from_pretrained(folder.path, local_files_only=True)
    kinds = ("default", *transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS)
    for name, value in named_values(config.to_dict()):
        if name == "rope_type":
            as_choice("rope_type in config.json", value, kinds)
    with _without_memory():
        return config, transformers.AutoModelForCausalLM.from_config(config)


def _mapped(model: Any, tensors: Tensors) -> bool:
    """Map every tensor of the model from its file; False where names or shapes are not the files'.

    Raises
    ------
    InvalidInstance
        If a parameter would be read from integers, or a tensor is tied to one with other numbers.
    """
    state = model.state_dict(keep_vars=True)
    if _unexpected(model, [place.name for place in tensors.places() if place.name not in state]):
        return False
    parameters: dict[int, str] = {}
    for name, tensor in list(state.items()):
        if name not in tensors and tensor.is_meta:
            continue  # tied to another one, or missing
        place = tensors.place(name) if name in tensors else None
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        if place is None or place.shape != tuple(tensor.shape):
            return False
        if place.dtype not in DTYPES:
            if is_parameter:
                raise InvalidInstance(f"tensor {name!r} must be one of {', '.join(DTYPES)}; got {place.dtype}")
            return False
        owner, _, leaf = name.rpartition(".")
        module = model.get_submodule(owner)
        if is_parameter:
            module._parameters[leaf] = torch.nn.Parameter(_tensor(place), requires_grad=False)
            parameters[id(module._parameters[leaf])] = name
        else:
            module._buffers[leaf] = _tensor(place).to(tensor.dtype)
    model.tie_weights()
    for name, parameter in model.named_parameters(remove_duplicate=False):
        source = parameters.get(id(parameter), name)
        if source != name and name in tensors and not tensors.equal(name, source):
            raise InvalidInstance(f"tie_word_embeddings is true, but {name!r} differs from {source!r}")
    return not any(parameter.is_meta for parameter in model.parameters())


def _unexpected(model: Any, names: list[str]) -> set[str]:
    """Pick the names of tensors that no part of the model reads or ignores."""
    found = SimpleNamespace(missing_keys=set(), unexpected_keys=set(names))
    if names and hasattr(model, "_adjust_missing_and_unexpected_keys"):
        model._adjust_missing_and_unexpected_keys(found)
    return set(found.unexpected_keys)


def _read(transformers: ModuleType, folder: ModelFolder, config: Any, tensors: Tensors) -> Any:
    """Let transformers read the model, all of it, from names and shapes that it converts.

    Raises
    ------
    InvalidInstance
        If it misses a tensor, is left with one, or finds one of another shape.
    """
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder.path, config=config, dtype=_commonest(tensors), local_files_only=True, output_loading_info=True,
        ignore_mismatched_sizes=True,
    )  # fmt: skip
    for name, found, wanted in sorted(info.get("mismatched_keys") or ()):
        raise InvalidInstance(f"tensor {name!r} must have shape {tuple(wanted)} by config.json; got {tuple(found)}")
    for name in sorted(info.get("missing_keys") or ()):
        raise InvalidInstance(f"the model must hold a tensor {name!r}; it is missing")
    for name in sorted(info.get("unexpected_keys") or ()):
        raise InvalidInstance(f"the model holds a tensor {name!r}, which config.json has no place for")
    return model


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
