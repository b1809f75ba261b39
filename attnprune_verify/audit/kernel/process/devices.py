"""Devices that hold a kernel's arrays: tensors go there, answers come back, a call is captured and replayed.

Imported in the subject's process. Inputs are made on the CPU, handed over by DLPack, and laid out on the device.
"""

from __future__ import annotations

from typing import Protocol

from attnprune_verify.audit.kernel.typing import Deferred, Foreign

_WARM = 3  # calls before a capture; chosen: as many as torch's own page on CUDA graphs makes


class Device(Protocol):
    """The operations of a device that an adapter of torch uses."""

    def put(self, tensor: Foreign) -> Foreign:
        """The tensor there; one that is there already is not copied."""

    def get(self, tensor: Foreign) -> Foreign:
        """The tensor on the CPU, once all work on it is done."""

    def captured(self, call: Deferred) -> Deferred:
        """A call recorded once: calling the result repeats what it did on the device, on what the same memory holds.

        Raises
        ------
        NotImplementedError
            Where nothing can be recorded.
        """


class _TorchDevice:
    """A device that torch has itself."""

    def __init__(self, torch: Foreign, name: str) -> None:
        try:
            torch.empty(1, device=name)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            said = str(error).splitlines()[0][:120]
            raise ValueError(f"device must be one that torch has here; got {name!r}: {said}") from None
        self.torch, self.name = torch, name

    def put(self, tensor: Foreign) -> Foreign:
        return tensor.to(self.name)

    def get(self, tensor: Foreign) -> Foreign:
        return tensor.cpu()

    def captured(self, call: Deferred) -> Deferred:
        if not self.name.startswith("cuda"):
            raise NotImplementedError(f"{self.name} has no graphs to replay")
        cuda = self.torch.cuda
        beside = cuda.Stream()
        beside.wait_stream(cuda.current_stream())
        with cuda.stream(beside):
            for _ in range(_WARM):
                call()
        cuda.current_stream().wait_stream(beside)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            result = call()

        def replayed() -> Foreign:
            graph.replay()
            cuda.synchronize()
            return result

        return replayed


def torch_device(torch: Foreign, name: str) -> Device:
    """The device of torch with this name.

    Raises
    ------
    ValueError
        If torch has none.
    """
    return _TorchDevice(torch, name)


def jax_device(jax: Foreign, name: str) -> Foreign:
    """The first device of jax of this platform.

    Raises
    ------
    ValueError
        If there is none.
    """
    try:
        return jax.devices(name)[0]
    except RuntimeError as error:
        said = str(error).splitlines()[0][:120]
        raise ValueError(f"device must be one that jax has here; got {name!r}: {said}") from None
