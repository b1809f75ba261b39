"""A failure as a few lines in the kernel's own framework that anyone can run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.kernel.problem.integers import PagedSample
from attnprune_verify.audit.kernel.problem.sample import BACKWARD, FORWARD, KernelSample, parts_of
from attnprune_verify.audit.kernel.process.bridge import as_sequences
from attnprune_verify.audit.kernel.process.context import KernelContext, poisoned
from attnprune_verify.audit.kernel.process.parameters import Parameters
from attnprune_verify.audit.kernel.truth.bounds import attention_errors
from attnprune_verify.audit.kernel.truth.judge import judge_part
from attnprune_verify.audit.kernel.truth.truth import truth
from attnprune_verify.audit.kernel.typing import Plain
from attnprune_verify.audit.naming.importing import import_lines
from attnprune_verify.audit.subject.answers import NoAnswer

_AXES = {"bnhm": ("x.swapaxes(1, 2)", "x.swapaxes(1, 2)"), "hnm": ("x[0]", "x[None]"),
         "nhm": ("x[0].swapaxes(0, 1)", "x.swapaxes(0, 1)[None]"), "nm": ("x[0, 0]", "x[None, None]")}  # fmt: skip
"""Code that turns the contract's axes into those of a layout, and back."""
_AS_CONTRACT = Parameters({})
_LARGEST = 64  # numbers of an array that are written down; a larger one is given by its formula
_MOST_SHOWN = 8  # numbers returned and expected beside each other


def as_code(function: str, sample: KernelSample, context: KernelContext) -> str | None:
    """Imports, inputs, the call, and what is returned beside what is right; None where the instance is too large.

    Of a result of more than eight numbers those that are furthest off stand there.
    """
    given = zip(("q", "k", "v", "do")[: 3 + (function == BACKWARD)], poisoned(sample), strict=False)
    arrays = {name: array if sample.ends is None else array[0].swapaxes(0, 1) for name, array in given}
    sizes = [array.size for array in arrays.values()] + [0 if sample.mask is None else sample.mask.size // 4]
    others = [part for part in (sample.bias, sample.dropout, sample.dlse) if part is not None]
    if max([0, *(part.size // 4 for part in others)]) > _LARGEST or (sample.fill_factor and sample.ends is not None):
        return None
    if max(sizes) > _LARGEST and not sample.fill_factor:
        return None
    own = function == FORWARD or context.declared.own_backward
    lines = [*_imports(context), *import_lines(context.subject, function if own else FORWARD), ""]
    if sample.fill_factor:
        lines += _by_formula(context, sample, tuple(arrays))
    else:
        lines += [f"{name} = {_made(context, _numbers(a), sample.precision.name)}" for name, a in arrays.items()]
    if sample.layout != "plain" and context.declared.framework != "jax":
        lines += _laid_out(context.declared.framework, sample.layout, tuple(arrays))
    axes = _axes(context, sample)
    if axes:
        in_pages = ("k", "v") if isinstance(sample, PagedSample) else ()  # which have one order of axes
        listed = ", ".join(name for name in arrays if name not in in_pages) + "," * bool(in_pages)
        lines.append(f"{listed} = ({axes[0]} for x in ({listed}))")
    keywords, mine = [], context.declared.parameters.get(function if own else FORWARD, _AS_CONTRACT)
    passed: Plain = context.keywords(function, sample)
    if sample.ends is None and context.declared.sequences_alone:
        passed = as_sequences(passed, sample.q, sample.k)
    standing = {"scale": sample.factor, "causal": False}
    passed |= {name: standing.get(name) for name in mine.always if name not in passed}
    for name, value in passed.items():
        spelled = mine.own.get(name, name)
        if name == "window" and mine.pair:
            value = mine.as_pair(value, sample.causal)
        if name == "mask" and sample.mask is not None and sample.mask.size > 4 * _LARGEST and not sample.additive:
            lines += _mask_by_rows(context, sample)
            keywords.append(f"{spelled}=mask")
        elif name == "dlse" and not own:
            lines.append(f"dlse = {_keyword(context, value, sample)}")
            keywords.append(f"{mine.own.get('return_lse', 'return_lse')}=True")
        else:
            keywords.append(f"{spelled}={_keyword(context, value, sample)}")
    lines += _call(function, own, context.declared.framework, keywords, sample)
    if axes:
        turned = [name for name in parts_of(function, sample) if name in ("o", "dq", "dk", "dv")]
        listed = ", ".join(turned) + "," * (len(turned) == 1)
        lines.append(f"{listed} = ({axes[1]} for x in ({listed}))")
    return "\n".join([*lines, *_beside(function, sample, context)]) + "\n"


def _axes(context: KernelContext, sample: KernelSample) -> tuple[str, str] | None:
    """Code that turns the contract's axes into the kernel's, and back; None where they are the same."""
    if sample.ends is None and context.declared.sequences_alone:
        back = f"x.reshape({len(sample.q)}, -1, *x.shape[1:]).swapaxes(1, 2)"
        return "x.swapaxes(1, 2).reshape(-1, *x.shape[1::2])", back
    return _AXES.get(context.declared.layout) if sample.ends is None else None


def _by_formula(context: KernelContext, sample: KernelSample, names: tuple[str, ...]) -> list[str]:
    lines = ["rng = np.random.default_rng(0)"]
    factor = "" if sample.fill_factor == 1 else f" * {sample.fill_factor:g}"
    for name in ("q", "k", "v", "do"):
        if name in names:
            drawn = f"rng.integers(-4, 5, {getattr(sample, name).shape}) / 4{factor}"
            lines.append(f"{name} = {_made(context, drawn, sample.precision.name)}")
    return lines


def _laid_out(framework: str, layout: str, names: tuple[str, ...]) -> list[str]:
    """Code that lays out the same numbers otherwise in memory."""
    listed = ", ".join(names)
    if layout == "heads last":
        turned = "np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)"
        turned = turned if framework == "numpy" else "x.transpose(1, 2).contiguous().transpose(1, 2)"
    else:
        turned = (
            "np.repeat(x, 2, axis=-1)[..., ::2]" if framework == "numpy" else "x.repeat_interleave(2, -1)[..., ::2]"
        )
    return [f"{listed} = ({turned} for x in ({listed}{',' * (len(names) == 1)}))"]


def _mask_by_rows(context: KernelContext, sample: KernelSample) -> list[str]:
    """Code that unpacks a large mask from its bits."""
    mask = np.asarray(sample.mask)
    packed = np.packbits(mask).tobytes().hex()
    made = f"np.unpackbits(np.frombuffer(bytes.fromhex('{packed}'), np.uint8), count={mask.size})"
    made = f"{made}.reshape{mask.shape}.astype(bool)"
    return [f"mask = {'torch.from_numpy' if context.declared.framework == 'torch' else ''}({made})"]


def _beside(function: str, sample: KernelSample, context: KernelContext) -> list[str]:
    """Returned beside expected, at most eight of the numbers that are furthest off."""
    true = truth(sample)
    try:
        parts = context.ask(function, sample).parts
    except NoAnswer:
        parts = ()
    if sample.ends is not None:
        return [f"print({', '.join(parts_of(function, sample))})  # packed: see the reason for what is expected"]
    lines = []
    for name, part in zip(parts_of(function, sample), parts, strict=False):
        right = true[name].value
        if part.shape != right.shape:
            return [f"print({name!r}, {name}.shape, 'expected', {right.shape})"]
        with np.errstate(invalid="ignore"):
            off = np.nan_to_num(np.abs(part - right), nan=np.inf)
        if judge_part(name, part, sample).status != "failed":
            continue
        wrong = int((off > attention_errors(sample).worst[name]).sum()) or _MOST_SHOWN  # none is: all are a little
        worst = np.sort(np.argsort(off, axis=None, kind="stable")[::-1][: min(wrong, _MOST_SHOWN)])
        places = [tuple(int(x) for x in np.unravel_index(flat, right.shape)) for flat in worst]
        listed = ", ".join(f"({at}, {float(right[at]):.9g})" for at in places)
        lines.append(f"for at, expected in [{listed}]:")
        lines.append(f"    print('{name}', at, 'returned', float({name}[at]), 'expected', expected)")
    shown = ", ".join(f"{name}.shape, {name}.dtype" for name in parts_of(function, sample))
    return lines or [f"print({shown})"]


def _imports(context: KernelContext) -> list[str]:
    lines = ["import numpy as np"]
    if context.declared.framework == "torch":
        lines.append("import torch")
    elif context.declared.framework == "jax":
        lines.append("import jax")
        if context.precision.name == "float64":
            lines.append('jax.config.update("jax_enable_x64", True)')
        lines.append("import jax.numpy as jnp")
    elif context.precision.name == "bfloat16":
        lines.append("import ml_dtypes")
    return lines


def _made(context: KernelContext, numbers: str, dtype: str) -> str:
    if context.declared.framework == "torch":
        return f"torch.tensor({numbers}, dtype=torch.{dtype})"
    if context.declared.framework == "jax":
        return f"jnp.array({numbers}, dtype=jnp.{dtype})"
    kind = "ml_dtypes.bfloat16" if dtype == "bfloat16" else f"np.{dtype}"
    return f"np.array({numbers}, dtype={kind})"


def _numbers(array: NDArray[np.float64]) -> str:
    text = np.array2string(array, separator=", ", threshold=array.size + 1, floatmode="unique", max_line_width=110)
    return text.replace("\n", "\n    ").replace("nan", "np.nan").replace("inf", "np.inf")


def _keyword(context: KernelContext, value: object, sample: KernelSample) -> str:
    if not isinstance(value, np.ndarray):
        return repr(value.item() if isinstance(value, np.generic) else value)
    module = {"numpy": "np.array", "torch": "torch.tensor", "jax": "jnp.array"}[context.declared.framework]
    if value.dtype.kind == "i":
        return f"{module}({value.tolist()}, dtype={module.partition('.')[0]}.int32)"
    if any(value is part for part in (sample.bias, sample.sinks)) or sample.additive and value.ndim > 1:
        return _made(context, _numbers(value), sample.precision.name)
    if value.dtype == bool:
        return f"{module}({value.astype(int).tolist()}, dtype={'bool' if module[0] != 't' else 'torch.bool'})"
    return _made(context, _numbers(value), "float64" if sample.precision.name == "float64" else "float32")


def _call(function: str, own: bool, framework: str, keywords: list[str], sample: KernelSample) -> list[str]:
    given = "".join(f", {keyword}" for keyword in keywords)
    named = ", ".join(parts_of(function, sample))
    if function == FORWARD:
        return [f"{named} = attention(q, k, v{given})"]
    if own:
        return [f"{named} = attention_backward(q, k, v, do{given})"]
    if sample.wanted:
        return ["# the gradients by q, k, v and the keywords, of the inner product with do:", f"# {named}"]
    if framework == "torch":
        leaves = ["for leaf in (q, k, v):", "    leaf.requires_grad_(True)"]
        if sample.dlse is None:
            pulled = "torch.autograd.grad(o, (q, k, v), do, allow_unused=True)"
            return [*leaves, f"o = attention(q, k, v{given})", f"dq, dk, dv = {pulled}"]
        return [
            *leaves,
            f"pairs = zip(attention(q, k, v{given}), (do, dlse))",
            "outputs, cotangents = zip(*(pair for pair in pairs if pair[0].requires_grad))",
            "dq, dk, dv = torch.autograd.grad(outputs, (q, k, v), cotangents, allow_unused=True)",
        ]
    cotangent = "do" if sample.dlse is None else "(do, dlse)"
    return [f"o, pull = jax.vjp(lambda q, k, v: attention(q, k, v{given}), q, k, v)", f"dq, dk, dv = pull({cotangent})"]
