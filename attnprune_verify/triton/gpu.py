"""Answers to code that requires a GPU where there is none: properties of a GPU with capability 8.0."""

import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

_CAPABILITY = (8, 0)  # chosen: of the oldest GPU that has bfloat16
_KERNELS: set[str] = set()
"""First names of the modules that were imported with the interpreter on."""


def emulate_gpu(triton: ModuleType, torch: ModuleType, kernel: str) -> None:
    """Answer requests for a GPU's properties, and `is_cuda` in the kernel's own code, where there is no GPU.

    Parameters
    ----------
    triton, torch : module
        The modules whose answers change.
    kernel : str
        Name of the kernel's module.
    """
    _KERNELS.add(kernel.partition(".")[0])
    if torch.cuda.is_available():
        return
    major, minor = _CAPABILITY
    properties = SimpleNamespace(
        name="Triton's interpreter", major=major, minor=minor, multi_processor_count=1, warp_size=32,
        shared_memory_per_block=49152, shared_memory_per_block_optin=101376,
    )  # fmt: skip
    cuda = torch.cuda
    cuda.get_device_capability = lambda device=None: _CAPABILITY
    cuda.get_device_properties = lambda device=None: properties
    cuda.get_device_name = lambda device=None: properties.name
    cuda.current_device = lambda: 0
    cuda.device = lambda device=None: nullcontext()
    target = SimpleNamespace(backend="cuda", arch=10 * major + minor, warp_size=32)
    triton.runtime.driver.set_active(
        SimpleNamespace(
            get_current_target=lambda: target,
            get_current_device=lambda: 0,
            get_active_torch_device=lambda: torch.device("cpu"),
        )
    )
    tensor = torch.Tensor
    if not isinstance(tensor.is_cuda, property):
        tensor.is_cuda = property(_asked_by_a_kernel)


def _asked_by_a_kernel(tensor: Any) -> bool:
    asker = sys._getframe(1).f_globals.get("__name__") or ""
    return tensor.device.type == "cuda" or asker.partition(".")[0] in _KERNELS
