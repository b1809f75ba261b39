"""Shapes and types of a kernel's results."""

from __future__ import annotations

from attnprune_verify.audit.kernel.problem.sample import KernelSample, parts_of
from attnprune_verify.audit.kernel.process.facts import Reply


def shapes(sample: KernelSample) -> dict[str, tuple[int, ...]]:
    """Expected shapes of o, lse and the gradients."""
    found: dict[str, tuple[int, ...]] = {"o": sample.do.shape, "lse": sample.do.shape[:3]}
    found |= {"dq": sample.q.shape, "dk": sample.k.shape, "dv": sample.v.shape}
    more = {"dbias": sample.bias, "dsinks": sample.sinks}
    return found | {name: part.shape for name, part in more.items() if part is not None}


def misshapen(function: str, sample: KernelSample, reply: Reply) -> str | None:
    """Name the first array whose shape is not the contract's, or None."""
    for name, part in zip(parts_of(function, sample), reply.parts, strict=True):
        if part.shape != shapes(sample)[name]:
            return f"{name} has the shape {part.shape} where the contract says {shapes(sample)[name]}"
    return None


def mistyped(function: str, sample: KernelSample, reply: Reply) -> str | None:
    """Name the first array whose type is not that of the inputs, or None."""
    for name, kind in zip(parts_of(function, sample), reply.types, strict=True):
        if name in ("o", "dq", "dk", "dv") and kind != sample.precision.name:
            return f"{name} is {kind} where the inputs are {sample.precision.name}"
    return None
