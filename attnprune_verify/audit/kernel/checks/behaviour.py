"""Checks of a kernel as a program: shapes, types, untouched inputs, memory layouts, equal and refilled inputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnprune_verify.audit.kernel.problem.sample import BACKWARD, KernelSample, parts_of
from attnprune_verify.audit.kernel.problem.sample_factory import filled
from attnprune_verify.audit.kernel.process.bridge import LAYOUTS
from attnprune_verify.audit.kernel.process.context import KernelContext
from attnprune_verify.audit.kernel.process.facts import Refused, Reply
from attnprune_verify.audit.kernel.process.shapes import misshapen, mistyped
from attnprune_verify.audit.kernel.truth.bounds import attention_errors
from attnprune_verify.audit.kernel.truth.judge import judge
from attnprune_verify.audit.record import Finding
from attnprune_verify.audit.subject.answers import NoAnswer

_EQUAL_CALLS = 60  # chosen: a race of one call in twelve stays unseen in 1 of 200 runs
_PROMOTES = (
    "; return q.dtype; if nothing in the code says float64, a scalar does: NumPy 2 takes np.sqrt(m) for float64, and "
    "m ** 0.5 for the array's type"
)
_PERMUTED = ("plain", "causal", "grouped heads")


def _samples(context: KernelContext, function: str) -> list[KernelSample]:
    """A plain sample, and one for each feature the kernel takes."""
    found = []
    for name in ("plain", "causal", "mask", "scale", "grouped heads", "more keys", "value size"):
        sample = context.regimes()[name].samples[0]
        try:
            context.answer(function, sample)
        except Refused:
            continue
        found.append(sample)
    return found


def _shape(context: KernelContext, function: str) -> Finding:
    for sample in _samples(context, function):
        problem = misshapen(function, sample, context.answer(function, sample))
        if problem is not None:
            return _failed(f"{problem}, on {sample.describe()}", "wrong-shape", sample)
    return Finding("passed", "as the contract says")


def _type(context: KernelContext, function: str) -> Finding:
    for sample in _samples(context, function):
        problem = mistyped(function, sample, context.answer(function, sample))
        if problem is not None:
            plain = context.declared.framework == "numpy" and not sample.features
            hint = _PROMOTES if plain and " is float64 " in problem else ""
            return _failed(f"{problem}, on {sample.describe()}{hint}", "wrong-dtype", filled(sample))
    return Finding("passed", "that of the inputs")


def _untouched(context: KernelContext, function: str) -> Finding:
    for sample in _samples(context, function):
        changed = context.answer(function, sample).changed
        if changed:
            context.functions[function].writes = True
            return _failed(f"changes its input {', '.join(changed)}, on {sample.describe()}", "mutates-input", sample)
    return Finding("passed", "every input is bit for bit as it was")


def _repeated(context: KernelContext, function: str) -> Finding:
    """Equal inputs again, with other calls in between; at least 24 calls share the process."""
    samples = _samples(context, function)
    for turn in range(3):
        for sample in samples:
            first = context.answer(function, sample)
            for again in (context.ask(function, sample) for _ in range(1 + (turn == 0))):  # twice in a row, too
                gap = _gap(function, sample, first, again)
                if gap is not None:
                    said = f"two equal calls differ by {gap}, on {sample.describe()}"
                    return _failed(said, "cached" if _steady(context, function, sample) else "nondeterministic", sample)
        if turn and context.functions[function].calls >= 24:
            break
    return Finding("passed", f"equal calls, {context.functions[function].calls} in one process, gave equal results")


def _steady(context: KernelContext, function: str, sample: KernelSample) -> bool:
    """Report whether calls are equal in a process that sees no other: then other calls make them differ."""
    if context.reopened is None:
        return False
    with context.reopened() as fresh:
        try:
            return (
                not KernelContext(fresh, context.seed, context.precision).repeat(function, sample, _EQUAL_CALLS).other
            )
        except NoAnswer:
            return False


def _kept(context: KernelContext, function: str) -> Finding:
    """Judge an answer that is read after another call: a buffer that is returned holds what that call computed."""
    for sample in _samples(context, function):
        first, again = context.answer(function, sample), context.ask(function, sample, then=True)
        gap = _gap(function, sample, first, again)
        if gap is not None and _gap(function, sample, first, context.ask(function, sample)) is None:
            said = f"an answer has changed by {gap} after the next call, on {sample.describe()}"
            return _failed(said, "stale-output", sample)
    return Finding("passed", "answers are as they were after the next call")


def _gap(function: str, sample: KernelSample, one: Reply, two: Reply) -> str | None:
    """Describe the gap between two answers to equal inputs, if it is more than twice what rounding explains."""
    errors = attention_errors(sample).worst
    for name, first, second in zip(parts_of(function, sample), one.parts, two.parts, strict=True):
        if first.shape != second.shape:
            return "their shapes"
        if first.shape != errors[name].shape:  # which another check says
            continue
        with np.errstate(invalid="ignore"):
            off = np.abs(first - second)
        equal = (first == second) | (np.isnan(first) & np.isnan(second))
        if not (equal | (off <= 2 * errors[name])).all():
            return f"{np.nanmax(np.where(equal, 0.0, off)):.3g} in {name}"
    return None


def _refilled(context: KernelContext, function: str) -> Finding:
    """Refill the same arrays with other numbers, so that anything cached for them is stale."""
    first = context.regimes()["plain"].samples[1]
    other = first.changed(q=first.k.copy(), k=first.q.copy(), v=first.v[:, ::-1].copy(), name=f"{first.name}, refilled")
    before = context.ask(function, first, slot="kept")
    after = context.ask(function, other, slot="kept")
    stale = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(before.parts, after.parts, strict=True))
    fresh = context.ask(function, other)
    if stale and judge(function, other, after.parts).status == "failed" and not _constant(context, function):
        return _failed(
            f"gives the earlier result for arrays that were filled anew, on {other.describe()}", "cached", other
        )
    misread = judge(function, other, after.parts)
    if misread.status == "failed" and judge(function, other, fresh.parts).status != "failed":
        return _failed(f"{misread.reason}, for arrays that were filled anew, on {other.describe()}", "cached", other)
    if misread.status == "failed" and judge(function, first, before.parts).status != "failed":
        for stale_ones in (("q",), ("k",), ("v",), ("q", "k"), ("q", "v"), ("k", "v")):
            mixed = other.changed(**{name: getattr(first, name) for name in stale_ones})
            if judge(function, mixed, after.parts).status != "failed":
                said = f"reads {' and '.join(stale_ones)} of an earlier call with the same shapes"
                return _failed(f"{said}, on {other.describe()}", "cached", other)
    return Finding("passed", "arrays that were filled anew are read anew")


def _constant(context: KernelContext, function: str) -> bool:
    """Return True where every call returns the same numbers anyway."""
    first = context.answer(function, context.regimes()["plain"].samples[0])
    return all(np.ptp(part) == 0 for part in first.parts)


def _layouts(context: KernelContext, function: str) -> Finding:
    if context.declared.framework == "jax":
        return Finding("not_applicable", "jax arrays have no strides")
    sample = context.regimes()["plain"].samples[1]
    flat = sample.changed(do=np.ones_like(sample.do), generic=False, name=f"{sample.name}, do = 1")
    refused: list[str] = []
    for layout in LAYOUTS[1:]:
        one = flat if layout == "expanded" else sample
        if layout == "expanded" and function != BACKWARD:
            continue
        try:
            reply = context.ask(function, one, layout=layout)
        except NoAnswer as none:
            if not none.raised:
                raise
            refused.append(layout)
            continue
        flat_reply = context.answer(function, one)
        problem = misshapen(function, one, reply)
        said = problem or _reason(function, one, reply)
        if said is None or (problem is None and _reason(function, one, flat_reply) is not None):
            continue  # right, or wrong anyway: not a matter of strides
        other = problem is not None or _far(flat_reply, reply)  # else only the rounding is another
        where = f"when the inputs are {layout} in memory, on {one.describe()}"
        return _failed(f"{said}, {where}", "strides-ignored" if other else "", one)
    if len(refused) >= len(LAYOUTS) - 2:
        return Finding("not_applicable", "refuses inputs that are not contiguous")
    said = f"; refuses inputs that are {', '.join(refused)} in memory" if refused else ""
    return Finding("passed", f"inputs with any strides give the same{said}")


def _reason(function: str, sample: KernelSample, reply: Reply) -> str | None:
    """Return the reason that an answer in the right shape is wrong, or None."""
    verdict = judge(function, sample, reply.parts)
    return verdict.reason if verdict.status == "failed" else None


def _far(one: Reply, two: Reply) -> bool:
    """Return True where two answers differ by more than low precision explains."""
    pairs = zip(one.parts, two.parts, strict=True)
    return any(not np.linalg.norm(a - b) <= 0.1 * np.linalg.norm(a) for a, b in pairs)


def _permuted(context: KernelContext, function: str) -> Finding:
    """Batches and heads in another order give the same results in that order."""
    for name in _PERMUTED:
        sample = context.regimes()[name].samples[1]
        try:
            first, again = context.answer(function, sample), context.ask(function, _turned_over(sample))
        except Refused:
            continue
        for part, one, two in zip(parts_of(function, sample), first.parts, again.parts, strict=True):
            allowed = 2 * attention_errors(sample).worst[part]
            if one.shape != two.shape or one.shape != allowed.shape:
                continue
            with np.errstate(invalid="ignore"):
                if not (np.abs(one - two[::-1, ::-1]) <= allowed).all() and np.isfinite(one).all():
                    return _failed(
                        f"{part} depends on the order of batches and heads, on {sample.describe()}", "", sample
                    )
    return Finding("passed", "batches and heads do not know of each other")


def _turned_over(sample: KernelSample) -> KernelSample:
    """Batches and heads in reverse order: groups of heads stay together."""
    arrays = {name: np.ascontiguousarray(getattr(sample, name)[::-1, ::-1]) for name in ("q", "k", "v", "do")}
    return sample.changed(**arrays, name=f"{sample.name}, turned over")


def _failed(reason: str, id: str, sample: KernelSample) -> Finding:
    return Finding("failed", reason, ids=(id,) if id else (), samples=(sample,))


BEHAVIOUR: dict[str, tuple[str, Callable[[KernelContext, str], Finding]]] = {
    "shape": ("the results have the contract's shapes", _shape),
    "dtype": ("the results have the inputs' dtype", _type),
    "inputs-untouched": ("no input array is changed", _untouched),
    "repeated": ("equal inputs give equal results, call after call", _repeated),
    "kept": ("an answer stays as it is when the next call is made", _kept),
    "refilled": ("the same arrays filled anew are read anew", _refilled),
    "strides": ("inputs may have any strides", _layouts),
    "permuted": ("batches and heads in another order give the same", _permuted),
}
