"""`run_audit`: the audit of an implementation of the paper's functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from attnprune_verify.audit import adapters
from attnprune_verify.audit.functions.auditor import NAMES, Auditor
from attnprune_verify.audit.result import AuditResult, run_checks
from attnprune_verify.audit.subject.process import SECONDS_PER_CALL
from attnprune_verify.audit.subject.terms import Terms, drawn
from attnprune_verify.audit.waivers import load_waivers
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.values import nearest


def run_audit(
    target: object,
    seed: int | str = 0,
    *,
    dtype: str | None = None,
    adapter: str | None = None,
    deviations: str | Path | None = None,
    only: str | tuple[str, ...] = (),
    limit: float | None = None,
    call_limit: float = SECONDS_PER_CALL,
    confine: str = "available",
    path: str | tuple[str, ...] = (),
    names: str = "all",
    quick: bool = False,
    progress: Callable[[str, int, int], object] | None = None,
) -> AuditResult:
    """Audit someone's implementation of the contract's functions.

    Parameters
    ----------
    target : str, or a module, object, function or mapping of functions
        A text is ``package.module``, ``package.module:object`` or ``path/to/file.py``. What is alive already runs in a
        forked process; in this one where the platform has no fork, or where it says (``FRAMEWORK``) that it computes
        with torch or jax.
    seed : int or "random"
        Of the instances; the same seed asks the same questions. A drawn one stands in the result.
    dtype : str, optional
        The precision the target promises: ``"float64"``, ``"float32"``, ``"bfloat16"`` or ``"float16"``.
    adapter : str, optional
        The name of a published adapter, one of `attnprune_verify.audit.adapters`, to be put around the target in the
        target's own process. Around something alive it is put by calling it.
    deviations : path, optional
        A TOML file of known deviations, see `attnprune_verify.audit.waivers`.
    only : str or tuple of str
        These functions or checks alone; ``*`` and ``?`` allowed.
    limit : float, optional
        Seconds that the whole audit may take; what is left then could not run.
    call_limit : float
        Seconds of processor time that a call may take, and ten times that in all.
    confine : "available", "required" or "off"
        Whether the target's process is confined: as far as the platform can, at least by Landlock, or not at all.
    path : str or tuple of str
        Folders that are open to the target for reading, and come first on its import path.
    progress : callable, optional
        Called as ``progress(check id, done, total)`` before every check of a function that the target has.
    names : "all", "first" or "never"
        The failures of a function whose mistake is looked for, and shown on a small instance.
    quick : bool
        Leave out what takes long: large sizes, features together, random instances, hundreds of steps.

    Returns
    -------
    AuditResult

    Raises
    ------
    InvalidInstance
        If seed, limit, call_limit, confine or names is no such value, there is no such adapter, the target cannot be
        imported or has none of the contract's functions, or an entry of `deviations` matches nothing.

    Examples
    --------
    >>> result = run_audit("attnprune_verify", only=("causal_mask", "binary_mask"))
    >>> result.outcome, result.diagnosis
    ('passed', {})
    """
    terms = Terms(limit, call_limit, confine, (path,) if isinstance(path, str) else tuple(path))
    if adapter is not None:
        _must_be_adaptable(adapter, target)
    waivers = load_waivers(deviations) if deviations is not None else ()
    patterns = (only,) if isinstance(only, str) else tuple(only)
    if names not in NAMES:
        raise InvalidInstance(f"names must be one of {', '.join(NAMES)}; got {names!r}")
    auditor = Auditor(target, drawn(seed), waivers, patterns, dtype, adapter or "", names=names, quick=quick)
    auditor.rule(terms.rule)
    with auditor:
        return run_checks(auditor, progress)


def _must_be_adaptable(adapter: str, target: object) -> None:
    if adapter not in adapters.__all__:
        hint = nearest(adapter, adapters.__all__)
        raise InvalidInstance(f"adapter must be one of {', '.join(adapters.__all__)}; got {adapter!r}{hint}")
    if not isinstance(target, str | Path):
        raise InvalidInstance(
            f"adapter goes with a TARGET that is a text; put it around a live object by adapters.{adapter}(object)"
        )
