"""A kernel's error in units that kernel authors use: what the library's own honest kernel, and torch's, make there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np

from attnprune_verify.audit.kernel.problem.features import features_of
from attnprune_verify.audit.kernel.problem.sample import Array, KernelSample, parts_of
from attnprune_verify.audit.kernel.process.context import KernelContext
from attnprune_verify.audit.kernel.process.frameworks import framework_named
from attnprune_verify.audit.kernel.process.shapes import misshapen
from attnprune_verify.audit.kernel.truth.bounds import attention_errors
from attnprune_verify.audit.kernel.truth.reference_kernel import own_attention
from attnprune_verify.audit.kernel.truth.truth import truth

_MEASURED = ("plain", "causal", "mask", "grouped heads", "more keys", "value size", "larger")
_LONGEST = 129  # chosen: sizes up to here cost the own kernel milliseconds
Parts = dict[str, Array]


def reference_errors(context: KernelContext) -> dict[str, str]:
    """Return a sentence for each function: its error in units of an honest kernel's, and torch's own beside it.

    The unit is the error of `own_attention` on the same instances: of both, per instance, the norm of the error over
    the norm of the typical one, and the median over instances. torch is run where the kernel is one of torch, or torch
    is loaded anyway.
    """
    found = {}
    for function in context.subject.functions:
        if not context.functions[function].calls:
            continue
        seen = [(sample, parts) for sample, parts in _answered(context, function)]
        if not seen:
            continue
        names = parts_of(function, seen[0][0])
        unit = _size(names, [(sample, own_attention(sample)) for sample, _ in seen])
        mine = _size(names, seen)
        if not unit > 0:
            continue
        said = f"its error is {_times(mine / unit)} that of an honest kernel in {context.precision.name}"
        if context.declared.framework == "torch" or "torch" in sys.modules:
            theirs = [(sample, torch_attention(sample)) for sample, _ in seen]
            said += f"; torch's own {_times(_size(names, theirs) / unit)}"
        found[function] = said
    return found


def _times(ratio: float) -> str:
    return f"{ratio:.2g} times" if np.isfinite(ratio) else "not finite beside"


def _answered(context: KernelContext, function: str) -> Iterator[tuple[KernelSample, Parts]]:
    """Ordinary instances with what the kernel has answered; nothing is run anew."""
    for name in _MEASURED:
        for sample in context.regimes()[name].samples:
            reply = context.known(function, sample)
            plain = sample.group == 1 or sample.conventions.groups == "consecutive"  # as torch has them
            usable = (
                reply is not None and sample.generic and not sample.extended and sample.longest <= _LONGEST and plain
            )
            if usable and reply is not None and misshapen(function, sample, reply) is None:
                yield sample, dict(zip(parts_of(function, sample), reply.parts, strict=True))


def _size(names: tuple[str, ...], answers: list[tuple[KernelSample, Parts]]) -> float:
    """The median over the instances of the error in units of the typical one."""
    shares = []
    for sample, parts in answers:
        true, typical = truth(sample), attention_errors(sample).typical
        with np.errstate(invalid="ignore", over="ignore"):
            shares += [
                float(np.linalg.norm(parts[name] - true[name].value) / np.linalg.norm(typical[name])) for name in names
            ]
    return float(np.median(np.nan_to_num(shares, nan=np.inf)))


def torch_attention(sample: KernelSample) -> Parts:
    """o, dq, dk and dv of torch's scaled_dot_product_attention on a sample.

    Raises
    ------
    NotImplementedError
        For a window, a softcap or slopes, which it has not.
    """
    if any(feature.of_logits for feature in features_of(sample)):
        raise NotImplementedError("torch's kernel has no such modifier")
    torch = framework_named("torch", sample.precision.name)
    allowed = torch.side_input(sample.allowed)
    inputs = [torch.made(getattr(sample, name), "plain") for name in ("q", "k", "v", "do")]
    function: Callable[..., object] = sys.modules["torch"].nn.functional.scaled_dot_product_attention
    keywords = {"attn_mask": allowed, "scale": sample.factor, "enable_gqa": sample.group > 1}
    o = torch.read(function(*inputs[:3], **keywords))[0]
    gradients = [torch.read(one)[0] for one in torch.differentiated(function, inputs, keywords, [])]
    return dict(zip(("o", "dq", "dk", "dv"), (o, *gradients), strict=True))
