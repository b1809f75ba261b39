"""Programs judged by this library, with the inputs that it draws itself."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import attnprune_verify as apv
from attnprune_verify.audit.kernel.auditor import KernelAuditor
from attnprune_verify.audit.kernel.options import Options
from attnprune_verify.audit.kernel.tensors.problem import problem_of
from attnprune_verify.audit.result import AuditResult
from benchmarks.bank.programs import Program
from tests.audit.kernel import eights, lists


def fails(program: Program) -> bool:
    """Report whether the library fails a program."""
    if program.kind == "kernel":
        return any(_failing(program))
    with np.errstate(all="ignore"):
        return result(program).outcome != "passed"


def _failing(program: Program) -> Iterator[bool]:
    """Whether each check of the default audit, and of the mode that is asked, fails; the wrong function's first."""
    options = Options(modes=(program.mode,) if program.mode else (), names="never")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.py"
        path.write_text(program.made, encoding="utf-8")
        with KernelAuditor(str(path), program.dtype, options=options) as auditor:
            for check in sorted(auditor.checks, key=lambda check: check.function != program.function):
                record = auditor.record(check)
                assert record.status != "could_not_run", (program.id, record.id, record.reason)
                yield record.status == "failed"


def result(program: Program) -> AuditResult:
    """The audit's result; that of honest kernels, of which there are many, with features in pairs."""
    made: Any = program.made
    if program.kind == "honest":
        return apv.check_attention(
            _forward(made), backward=_backward(made), dtype=program.dtype, framework="numpy", names="never", quick=True
        )
    if program.kind == "merge":
        return apv.check_merge(made[0], backward=made[1])
    if program.kind == "lists":
        return apv.check_attention(lists.of_lists(made[0]), backward=made[1] and lists.of_gradients(made[1]))
    if program.kind == "pages":
        return apv.check_attention(lists.of_pages(made))
    if program.kind == "eight":
        dtype, recipe, how = made
        scales = ("q_scale", "k_scale", "v_scale")
        return apv.check_attention(eights.kernel(recipe, **how), dtype=dtype, recipe=recipe, ignored=scales)
    return apv.check_parallel(made[0], backward_step=made[1])


def _forward(how: Any) -> Any:
    def attention(q, k, v, *, causal=False, scale=None, window=None, softcap=None, alibi=None, bias=None, sinks=None,
                  return_lse=False):  # fmt: skip
        given = {"causal": causal, "scale": scale, "window": window, "softcap": softcap, "alibi": alibi, "bias": bias,
                 "sinks": sinks}  # fmt: skip
        found = how.all(problem_of(q, k, v, np.zeros((*q.shape[:3], v.shape[3]), q.dtype), **given).sample)
        o = found["o"].astype(q.dtype)
        return (o, found["lse"].astype(np.float32)) if return_lse else o

    return attention


def _backward(how: Any) -> Any:
    def attention_backward(q, k, v, do, *, causal=False, scale=None, window=None, softcap=None, alibi=None, bias=None,
                           sinks=None, dlse=None, wanted=()):  # fmt: skip
        given = {"causal": causal, "scale": scale, "window": window, "softcap": softcap, "alibi": alibi, "bias": bias,
                 "sinks": sinks, "dlse": dlse}  # fmt: skip
        found = how.all(problem_of(q, k, v, do, **given).sample)
        return tuple(found[name].astype(q.dtype) for name in ("dq", "dk", "dv", *wanted))

    return attention_backward
