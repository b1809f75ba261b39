"""`run_kernel_audit`: every check on one attention kernel, and the verdict on the whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from attnprune_verify.audit.kernel.eight_auditor import auditor_of
from attnprune_verify.audit.kernel.options import CPU, Options, declarations
from attnprune_verify.audit.kernel.typing import Foreign
from attnprune_verify.audit.result import AuditResult, run_checks
from attnprune_verify.audit.subject.process import SECONDS_PER_CALL
from attnprune_verify.audit.subject.terms import Terms, drawn
from attnprune_verify.audit.waivers import load_waivers
from attnprune_verify.errors import InvalidInstance


def run_kernel_audit(
    target: object,
    dtype: str = "float32",
    seed: int | str = 0,
    *,
    deviations: str | Path | None = None,
    limit: float | None = None,
    call_limit: float = SECONDS_PER_CALL,
    confine: str = "available",
    path: str | tuple[str, ...] = (),
    quick: bool = False,
    only: str | tuple[str, ...] | None = None,
    names: str = "all",
    modes: str | tuple[str, ...] = (),
    device: str = CPU,
    sizes: Mapping[str, Foreign] | None = None,
    capabilities: Iterable[str] | None = None,
    layout: str | None = None,
    scale: str | None = None,
    ignored: Iterable[str] | None = None,
    conventions: Mapping[str, Foreign] | None = None,
    recipe: Mapping[str, Foreign] | None = None,
    progress: Callable[[str, int, int], object] | None = None,
) -> AuditResult:
    """Audit someone's softmax-attention kernel, forward and backward.

    Parameters
    ----------
    target : str or object
        ``package.module``, ``package.module:object`` or ``path/to/file.py``; or a module, object, function or dict of
        functions. It has ``attention(q, k, v, *, causal=False, scale=None, mask=None)`` and, if it has one of its own,
        ``attention_backward(q, k, v, do, *, ...)``; ``FRAMEWORK`` says whose arrays go in. Beside them or alone:
        ``merge``, ``merge_many`` and ``merge_backward``, as `attnprune_verify.check_merge` has them.
    dtype : "float64", "float32", "bfloat16", "float16", "float8_e4m3fn" or "float8_e5m2"
        The precision of the inputs, and what the kernel promises; of eight bits it has to declare a recipe.
    seed : int or "random"
        Of the instances; the same seed asks the same questions. A drawn one stands in the result.
    deviations : path, optional
        A TOML file of known deviations, see `attnprune_verify.audit.waivers`.
    limit, call_limit, confine, path
        As of `attnprune_verify.run_audit`.
    quick : bool
        Run features together in pairs and small sizes only, not in triples.
    only : str or tuple of str, optional
        These functions or checks alone; ``*`` and ``?`` allowed.
    names : "never", "first" or "all"
        Whether the mistake is looked for behind no failure of values, the first one of each function, or all.
    modes : str or tuple of str
        Further questions, of "bitwise", "batch-invariant", "poisoned", "replay" and "many"; docs/kernels.md has them.
    device : str
        Where the kernel's arrays are, as torch or jax calls it. The truth stays on the CPU. Beside another device than
        the CPU the target is not confined: what its driver needs is not listed here.
    sizes, capabilities, layout, scale, ignored, conventions : optional
        As SIZES, CAPABILITIES, LAYOUT, SCALE, IGNORED and CONVENTIONS of a module, in whose place they stand:
        ``{"n": {"multiple_of": 128}, "m": (64, 128), "mv": "m"}``, ``("causal_only",)``, ``"bnhm"``, ``"required"``.
    recipe : mapping, optional
        As RECIPE of a module: what a kernel of eight bits stores in which format; docs/kernels.md has it.
    progress : callable, optional
        Called as ``progress(check id, done, total)`` before every check.

    Returns
    -------
    AuditResult

    Raises
    ------
    InvalidInstance
        If the target cannot be imported or has none of the functions, its framework cannot make this dtype or has no
        such device, a choice is none of those listed, or an entry of `deviations` or `only` matches nothing.

    Examples
    --------
    >>> import numpy as np
    >>> def attention(q, k, v):
    ...     s = q @ np.swapaxes(k, -1, -2)
    ...     p = np.exp(s - s.max(-1, keepdims=True))
    ...     return p / p.sum(-1, keepdims=True) @ v
    >>> run_kernel_audit(attention).diagnosis
    {'attention': ('missing-scale',)}
    """
    options = Options.of(quick=quick, only=only, names=names, modes=modes, device=device)
    if device != CPU and confine == "required":
        raise InvalidInstance(f'confine must be "available" or "off" beside a device; got "required" and {device!r}')
    folders = (path,) if isinstance(path, str) else tuple(path)
    terms = Terms(limit, call_limit, confine if device == CPU else "off", folders)
    waivers = load_waivers(deviations) if deviations is not None else ()
    declared = declarations(sizes, capabilities, layout, scale, ignored, conventions, recipe)
    auditor = auditor_of(target, dtype, drawn(seed), waivers, options, declared)
    auditor.rule(terms.rule)
    with auditor:
        return run_checks(auditor, progress)
