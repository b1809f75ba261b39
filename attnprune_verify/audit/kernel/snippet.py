"""A failure as a few lines in the kernel's own framework that anyone can run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.kernel.bridge import BACKWARD, FORWARD
from attnprune_verify.audit.kernel.context import KernelContext
from attnprune_verify.audit.kernel.sample import Sample
from attnprune_verify.audit.kernel.truth import parts_of, truth
from attnprune_verify.audit.naming.importing import import_lines

__all__ = ["as_code"]

_LARGEST = 600


def as_code(function: str, sample: Sample, context: KernelContext) -> str | None:
    """Imports, inputs, the call, and the truth beside the result; None where the instance is too large to print."""
    arrays = {"q": sample.q, "k": sample.k, "v": sample.v} | ({"do": sample.do} if function == BACKWARD else {})
    if max(array.size for array in arrays.values()) > _LARGEST:
        return None
    own = function == FORWARD or context.own_backward
    lines = [*_imports(context), *import_lines(context.subject, function if own else FORWARD), ""]
    for name, array in arrays.items():
        lines.append(f"{name} = {_made(context, array, sample.precision.name)}")
    keywords = [f"{name}={_keyword(context, value, sample)}" for name, value in sample.keywords.items()]
    lines += _call(function, own, context.framework, keywords)
    true = truth(sample)
    for name in parts_of(function):
        lines.append(f"print({name!r}, {name}, 'but it is', np.array({_numbers(true[name].value)}), sep='\\n')")
    return "\n".join(lines) + "\n"


def _imports(context: KernelContext) -> list[str]:
    lines = ["import numpy as np"]
    if context.framework == "torch":
        lines.append("import torch")
    elif context.framework == "jax":
        lines.append("import jax")
        if context.precision.name == "float64":
            lines.append('jax.config.update("jax_enable_x64", True)')
        lines.append("import jax.numpy as jnp")
    elif context.precision.name == "bfloat16":
        lines.append("import ml_dtypes")
    return lines


def _made(context: KernelContext, array: NDArray[np.float64], dtype: str) -> str:
    numbers = _numbers(array)
    if context.framework == "torch":
        return f"torch.tensor({numbers}, dtype=torch.{dtype})"
    if context.framework == "jax":
        return f"jnp.array({numbers}, dtype=jnp.{dtype})"
    kind = "ml_dtypes.bfloat16" if dtype == "bfloat16" else f"np.{dtype}"
    return f"np.array({numbers}, dtype={kind})"


def _numbers(array: NDArray[np.float64]) -> str:
    text = np.array2string(array, separator=", ", threshold=array.size + 1, floatmode="unique", max_line_width=110)
    return text.replace("\n", "\n    ").replace("nan", "np.nan").replace("inf", "np.inf")


def _keyword(context: KernelContext, value: object, sample: Sample) -> str:
    if not isinstance(value, np.ndarray):
        return repr(value)
    if value.dtype == bool:
        module = {"numpy": "np.array", "torch": "torch.tensor", "jax": "jnp.array"}[context.framework]
        return f"{module}({value.astype(int).tolist()}, dtype={'bool' if module[0] != 't' else 'torch.bool'})"
    return _made(context, value, "float64" if sample.precision.name == "float64" else "float32")


def _call(function: str, own: bool, framework: str, keywords: list[str]) -> list[str]:
    given = "".join(f", {keyword}" for keyword in keywords)
    if function == FORWARD:
        return [f"o = attention(q, k, v{given})"]
    if own:
        return [f"dq, dk, dv = attention_backward(q, k, v, do{given})"]
    if framework == "torch":
        return [
            "for leaf in (q, k, v):",
            "    leaf.requires_grad_(True)",
            f"o = attention(q, k, v{given})",
            "dq, dk, dv = torch.autograd.grad(o, (q, k, v), do, allow_unused=True)",
        ]
    return [f"o, pull = jax.vjp(lambda q, k, v: attention(q, k, v{given}), q, k, v)", "dq, dk, dv = pull(do)"]
