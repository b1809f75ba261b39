"""The checks of the audit on a target's merges: each problem of `check_merge`, in the subject's process."""

from __future__ import annotations

from functools import partial

from attnprune_verify.audit.kernel.merges.check import EMPTY, MANY, MergeJudge, WrongMerge
from attnprune_verify.audit.kernel.merges.problem import merge_problems
from attnprune_verify.audit.kernel.problem.conventions import Conventions
from attnprune_verify.audit.kernel.problem.precision import PRECISIONS
from attnprune_verify.audit.kernel.problem.sample import Array
from attnprune_verify.audit.kernel.process.bridged_merge import MERGES
from attnprune_verify.audit.kernel.process.context import KernelContext
from attnprune_verify.audit.kernel.typing import Plain
from attnprune_verify.audit.record import Check, Finding
from attnprune_verify.audit.subject.answers import NoAnswer, SubjectLost


def merge_checks() -> tuple[Check, ...]:
    """Every check of a merge, of a merge of many and of a gradient."""
    return tuple(
        Check(function, f"values:{problem.slug}", problem.says, None, partial(_judged, function, place), True)
        for function in MERGES
        for place, problem in enumerate(merge_problems(PRECISIONS["float32"], _parts(function), 0))
        if function != "merge_backward" or not problem.empty
    )


def merge_named(context: KernelContext, function: str, failures: list[WrongMerge]) -> str:
    """Return the id of the mistake behind all failures of a merge, "unknown" where it does not answer any more."""
    try:
        return _judge(function, context).name(function, failures)
    except NoAnswer:
        return "unknown"


def _parts(function: str) -> int:
    return MANY if function == "merge_many" else 2


def _judged(function: str, place: int, context: KernelContext) -> Finding:
    judge = _judge(function, context)
    problem = merge_problems(judge.precision, _parts(function), context.seed)[place]
    failure = judge.failure(function, problem)
    if failure is None:
        return Finding("passed", "inside the bound")
    return Finding("failed", failure.reason, failure.error, failure.bound, samples=(failure,))


def _judge(function: str, context: KernelContext) -> MergeJudge:
    facts, declared = context.functions[function], context.declared.conventions

    def ask(name: str, inputs: list[Array], layouts: list[str]) -> Plain:
        if facts.given_up:
            raise NoAnswer(f"is not called any more: an earlier call {facts.given_up}")
        names = [f"result{place}" for place in range(MERGES[name].parts)]
        try:
            answer = context.subject.call(name, list(inputs), {"layouts": layouts}, attributes=(*names, "changed"))
        except SubjectLost as lost:
            facts.given_up = str(lost)
            raise
        *results, (changed, shared) = answer.parts
        return {**dict(zip(names, results, strict=True)), "changed": (changed or bool(answer.changed), shared)}

    base = Conventions.declared({"lse_base": declared.lse_base})
    return MergeJudge(ask, context.precision, base, EMPTY[declared.empty_lse], function == "merge_many")
