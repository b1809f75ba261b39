"""`check_attention`: a callable in, a verdict out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attnprune_verify.audit.kernel.options import CPU
from attnprune_verify.audit.kernel.process.callables import subject_of
from attnprune_verify.audit.kernel.run import run_kernel_audit
from attnprune_verify.audit.kernel.typing import Call, Foreign
from attnprune_verify.audit.result import AuditResult
from attnprune_verify.audit.subject.process import SECONDS_PER_CALL


def check_attention(
    fn: object,
    *,
    backward: Call | None = None,
    dtype: str = "float32",
    framework: str | None = None,
    device: str = CPU,
    sizes: Mapping[str, Foreign] | None = None,
    capabilities: Iterable[str] | None = None,
    layout: str | None = None,
    scale: str | None = None,
    ignored: Iterable[str] | None = None,
    conventions: Mapping[str, Foreign] | None = None,
    recipe: Mapping[str, Foreign] | None = None,
    only: str | tuple[str, ...] | None = None,
    names: str = "first",
    modes: str | tuple[str, ...] = (),
    seed: int | str = 0,
    limit: float | None = None,
    quick: bool = False,
    call_limit: float = SECONDS_PER_CALL,
    confine: str = "available",
) -> AuditResult:
    """Judge softmax attention, forward and backward: every check of `attnprune_verify.run_kernel_audit` on a callable.

    Parameters
    ----------
    fn : callable
        ``fn(q, k, v, *, causal=False, scale=None, mask=None)``, whatever of the keywords it has: a function, a module
        of torch, an operator of torch.library, a class of torch.autograd.Function. ``is_causal``, ``attn_mask``,
        ``sm_scale`` and the like are understood. Else a target of `attnprune_verify.run_kernel_audit`.
    backward : callable, optional
        ``backward(q, k, v, do, *, ...)`` returns dq, dk and dv. Without it torch and jax differentiate `fn`.
    dtype : "float64", "float32", "bfloat16", "float16", "float8_e4m3fn" or "float8_e5m2"
        The precision of the inputs, and what the kernel promises; of eight bits it has to declare a recipe.
    framework : "numpy", "torch" or "jax", optional
        Whose arrays go in; without it, that which the callable declares, belongs to, or names in its code.
    device : str
        Where the arrays are; answers come back to the CPU, where the truth is.
    sizes, capabilities, layout, scale, ignored, conventions, recipe : optional
        As SIZES, CAPABILITIES, LAYOUT, SCALE, IGNORED, CONVENTIONS and RECIPE of a module, for instance
        ``{"causal_alignment": "bottom-right"}``.
    only, names, modes, seed, limit, quick, call_limit, confine
        As of `attnprune_verify.run_kernel_audit`; a callable of torch or jax runs in this process, unconfined.

    Returns
    -------
    AuditResult
        ``outcome`` is "passed", "failed" or "incomplete"; ``assert_passed()`` raises in a test; ``counterexample`` is
        one small failing instance as plain data, or None.

    Raises
    ------
    InvalidInstance
        If `fn` cannot be called, or an argument is none of those listed.

    Examples
    --------
    >>> import numpy as np
    >>> def mine(q, k, v):
    ...     s = q @ np.swapaxes(k, -1, -2)
    ...     p = np.exp(s - s.max(-1, keepdims=True))
    ...     return p / p.sum(-1, keepdims=True) @ v
    >>> verdict = check_attention(mine, only="attention:values:plain")
    >>> verdict.outcome, verdict.diagnosis
    ('failed', {'attention': ('missing-scale',)})
    >>> verdict.counterexample["inputs"]["q"]["shape"]
    [1, 1, 2, 2]
    """
    target = subject_of(fn, backward, framework)
    return run_kernel_audit(
        target, dtype, seed, limit=limit, call_limit=call_limit, confine=confine, quick=quick, only=only,
        names=names, modes=modes, device=device, sizes=sizes, capabilities=capabilities, layout=layout, scale=scale,
        ignored=ignored, conventions=conventions, recipe=recipe,
    )  # fmt: skip
