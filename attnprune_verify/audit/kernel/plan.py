"""The plan of an audit: every check of a kernel, and why it applies or not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from attnprune_verify.audit.kernel.auditor import KernelAuditor
from attnprune_verify.audit.kernel.checks import slug
from attnprune_verify.audit.kernel.eight_auditor import EightAuditor, auditor_of
from attnprune_verify.audit.kernel.options import NOTHING_CHOSEN, Options
from attnprune_verify.audit.kernel.problem.features import FEATURES
from attnprune_verify.audit.kernel.problem.integer_cases import integers_of
from attnprune_verify.audit.kernel.process.bridged_merge import MERGES
from attnprune_verify.audit.kernel.process.context import KernelContext
from attnprune_verify.audit.record import Check
from attnprune_verify.audit.subject.terms import Terms

_NO_LIMIT = Terms()
_ASKED = ("causal", "scale", "mask")
"""Keywords of the contract that are tried; a function without them raises."""


@dataclass(frozen=True)
class PlannedCheck:
    """A check of the plan, and why it runs or does not."""

    check: str
    says: str
    applies: bool
    why: str


@dataclass(frozen=True)
class AuditPlan:
    """The checks of a kernel in the order in which they run; printed, a line for each, or for a missing function."""

    title: str
    checks: tuple[PlannedCheck, ...]

    def __str__(self) -> str:
        count, width = sum(check.applies for check in self.checks), max(len(check.check) for check in self.checks)
        lines = [f"{self.title}: {count} of {len(self.checks)} checks apply"]
        for function in dict.fromkeys(check.check.partition(":")[0] for check in self.checks):
            of_function = [check for check in self.checks if check.check.startswith(f"{function}:")]
            reasons = {check.why for check in of_function if not check.applies}
            if len(reasons) == 1 and not any(check.applies for check in of_function):
                lines.append(f"  - {function}: none of {len(of_function)} checks: {reasons.pop()}")
                continue
            for check in of_function:
                lines.append(f"  {'+' if check.applies else '-'} {check.check:{width}}  {check.says}: {check.why}")
        return "\n".join(lines)


def plan(
    target: object, dtype: str = "float32", seed: int = 0, options: Options = NOTHING_CHOSEN, terms: Terms = _NO_LIMIT
) -> AuditPlan:
    """List the checks that `run_kernel_audit` would run on a kernel.

    The kernel is imported; it is called only where small instances have to show what it takes.

    Returns
    -------
    AuditPlan
        In the order of the audit.

    Raises
    ------
    InvalidInstance
        If the target cannot be imported or has none of the functions.

    Examples
    --------
    >>> def attention(q, k, v, *, window=None):
    ...     raise NotImplementedError
    >>> checks = {check.check: check for check in plan(attention).checks}
    >>> checks["attention:values:window"].applies, checks["attention:values:softcap"].why
    (True, 'attention has no parameter softcap')
    """
    auditor = auditor_of(target, dtype, seed, (), options)
    auditor.rule(terms.rule)
    with auditor:
        title = f"{auditor.target.title}, {auditor.context.declared.framework}, {dtype}"
        return AuditPlan(title, tuple(_planned(auditor, check) for check in auditor.checks))


def _planned(auditor: KernelAuditor, check: Check) -> PlannedCheck:
    """Derive why a check applies from the functions, their parameters and what the kernel declares."""
    function, (kind, _, name) = check.function, check.name.partition(":")
    applies, why = True, "asked for by --mode" if kind == "mode" else "of every kernel"
    if function in auditor.subject.broken:
        applies, why = False, f"{function} cannot be had: {auditor.subject.broken[function]}"
    elif not auditor.present(function):
        applies, why = False, auditor.absent(function)
    elif isinstance(auditor, EightAuditor):
        why = "of every kernel of eight bits"
    elif function in MERGES:
        why = "of every merge"
    elif check.name == "rounding" and not auditor.precision.stored:
        applies, why = False, f"{auditor.precision.name} is not rounded to a shorter type"
    elif check.name == "strides" and auditor.context.declared.framework == "jax":
        applies, why = False, "jax arrays have no strides"
    elif check.name == "values:together":
        why = f"combines {', '.join(_combined(auditor.context, function))}"
    elif name.startswith("shape-"):
        why = "shapes of released models that it takes"
    elif integers_of(check):
        why = f"of every kernel with {integers_of(check)}"
    elif kind == "values":
        applies, why = _regime(auditor.context, function, name)
    return PlannedCheck(check.id, check.says, applies, why)


def _combined(context: KernelContext, function: str) -> list[str]:
    """Features that are drawn together: those that the signature does not rule out."""
    lacking = set(_untaken(context, function, _ASKED))
    return [
        feature.name
        for feature in FEATURES
        if feature.factor
        and feature.name not in lacking
        and (not feature.parameter or context.has(function, feature.parameter))
    ]


def _untaken(context: KernelContext, function: str, keywords: Iterable[str]) -> list[str]:
    """Keywords of the contract for which a function shows neither a parameter nor ``**keywords``."""
    parameters = context.subject.functions[function]
    if parameters is None or any(parameter.kind == "VAR_KEYWORD" for parameter in parameters):
        return []
    return [name for name in keywords if name in _ASKED and not context.has(function, name)]


def _regime(context: KernelContext, function: str, name: str) -> tuple[bool, str]:
    """Report whether the kernel takes at least one sample of a regime, and why not the rest."""
    samples = next(regime.samples for title, regime in context.regimes().items() if slug(title) == name)
    lacking: list[set[str]] = []
    reasons: list[str] = []
    for sample in samples:
        lacks = {*context.lacks(function, sample), *_untaken(context, function, sample.keywords(function))}
        reason = None if lacks else context.skip_reason(context, function, sample)
        lacking += [lacks] if lacks else []
        reasons += [reason] if reason else []
    taken = len(samples) - len(lacking) - len(reasons)
    if lacking:
        names = set.intersection(*lacking) or set.union(*lacking)
        reasons.insert(0, f"{function} has no parameter {', '.join(sorted(names))}")
    why = "; ".join(dict.fromkeys(reasons))
    return taken > 0, f"{taken} of {len(samples)} instances{f'; {why}' if why else ''}" if taken else why
