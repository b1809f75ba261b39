"""A model brought to rest for its passes, and put back as it was, whatever happens in between."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from attnprune_verify.errors import InvalidInstance

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_EAGER = {"attn_implementation": ("eager", "sdpa"), "experts_implementation": ("eager", None)}
"""Implementations that compute by functions `Products` sees; the first one takes the place of any other."""


def plain_model(model: Any) -> Any:
    """The model itself, if its weights are plain numbers on one device.

    Raises
    ------
    InvalidInstance
        If it is no decoder of transformers, or its weights are quantised, elsewhere or adapted; it says which.
    """
    model = getattr(model, "_orig_mod", model)  # torch.compile's cover
    config: Any = getattr(model, "config", None)
    predicts = hasattr(model, "get_output_embeddings") and model.get_output_embeddings() is not None
    if not hasattr(config, "to_dict") or not predicts:
        raise InvalidInstance(
            f"model must be a transformers model with a language-model head; got {type(model).__name__}"
        )
    kind = f"{config.model_type!r:.60} ({type(model).__name__})"
    if getattr(config, "is_encoder_decoder", False):
        raise InvalidInstance(f"model must be a decoder alone; got {kind}, which has an encoder")
    if hasattr(model, "peft_config"):
        raise InvalidInstance(f"model must have no adapters (merge_and_unload them first); got {kind} with adapters")
    if getattr(config, "quantization_config", None) is not None:
        raise InvalidInstance(f"model must not be quantised; {kind} has a quantization_config")
    devices: dict[str, str] = {}
    for name, parameter in model.named_parameters():
        devices.setdefault(str(parameter.device), name)
        if type(parameter.data) is not torch.Tensor or parameter.dtype not in FLOATS:
            kind_of = f"{type(parameter.data).__name__} of {parameter.dtype}"
            raise InvalidInstance(f"weights must be plain tensors of floating numbers; {name!r} is a {kind_of}")
        if parameter.is_inference():
            raise InvalidInstance(f"weights must not be made in torch.inference_mode(); {name!r} was")
    if "meta" in devices:
        raise InvalidInstance(f"weights must be loaded; {devices['meta']!r} is on the meta device")
    if len(devices) != 1:
        places = ", ".join(f"{name!r} on {device}" for device, name in devices.items())
        raise InvalidInstance(f"weights must be on one device; got {places or 'none'}")
    for name, module in model.named_modules():
        if hasattr(module, "_packed_params"):
            raise InvalidInstance(f"model must not be quantised; {name!r} is a {type(module).__name__}")
    return model


@contextmanager
def at_rest(model: Any) -> Iterator[None]:
    """Set evaluation mode, no compilation, no gradients of weights; attention and experts by plain functions."""
    modules = list(model.modules())
    before = [(module, module.training, module.__dict__.get("_compiled_call_impl")) for module in modules]
    wanted = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    implementations = _implementations(model)
    try:
        model.eval().requires_grad_(False)
        for module, _, compiled in before:
            if compiled is not None:
                module._compiled_call_impl = None
        for what, used in implementations.items():
            if used not in _EAGER[what]:
                getattr(model, f"set_{what}")(_EAGER[what][0])
        yield
    finally:
        for what, used in implementations.items():
            if used not in _EAGER[what]:
                getattr(model, f"set_{what}")(used)
        for module, training, compiled in before:
            module.training = training
            if compiled is not None:
                module._compiled_call_impl = compiled
        for parameter, want in wanted:
            parameter.requires_grad_(want)


@contextmanager
def moved(model: Any, device: str | None) -> Iterator[None]:
    """Move the model to another device, and back at the end; None does not move it."""
    before = next(model.parameters()).device
    try:
        there = before if device is None else torch.device(device)
        missing = there.type == "meta" or (there.type == "cuda" and not torch.cuda.is_available())
    except (RuntimeError, TypeError) as error:
        raise InvalidInstance(f"device must be one of torch's; got {device!r:.60}") from error
    if missing:
        raise InvalidInstance(f"device must be one that computes on this machine; got {device!r:.60}")
    try:
        model.to(there)
        yield
    finally:
        model.to(before)


def _implementations(model: Any) -> dict[str, Any]:
    """Names of the functions that compute attention and experts, as far as transformers lets them be chosen."""
    return {
        what: getattr(model.config, f"_{what}", None)
        for what in _EAGER
        if hasattr(model, f"set_{what}") and getattr(model.config, f"_{what}", None) is not None
    }


@contextmanager
def widened(block: Any) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Open a block: its parameters in float32, each in memory of its own, and as they are stored and will be again."""
    parameters = dict(block.named_parameters())
    stored = {name: parameter.data for name, parameter in parameters.items()}
    buffers = [
        (module, name, buffer)
        for module in block.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None and buffer.is_floating_point()
    ]
    try:
        for parameter in parameters.values():
            parameter.data = parameter.data.to(torch.float32, copy=True)
        for module, name, buffer in buffers:
            module._buffers[name] = buffer.float()
        yield parameters, stored
    finally:
        for name, parameter in parameters.items():
            parameter.data = stored[name]
        for module, name, buffer in buffers:
            module._buffers[name] = buffer
