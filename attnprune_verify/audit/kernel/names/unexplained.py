"""The error of a kernel's results, and the share of it that a wrong formula leaves unexplained."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.kernel.names.candidates import Candidate, KernelObservation
from attnprune_verify.audit.kernel.problem.sample import Array, KernelSample, parts_of
from attnprune_verify.audit.kernel.process.facts import Reply
from attnprune_verify.audit.kernel.truth.bounds import attention_errors
from attnprune_verify.audit.kernel.truth.judge import allowed_norms, judge_parts
from attnprune_verify.audit.kernel.truth.truth import truth

_EXPLAINED = 0.25  # of the error a formula may leave at most
_CLOSE = 1e-3  # of the error that a formula may leave although rounding does not explain it
_ROOM = 8.0  # a wrong formula's rounding, in units of the right one's
_ALONG = 0.05  # chosen: of an error along the output, what rounding adds in other directions


def observation(function: str, sample: KernelSample, reply: Reply) -> KernelObservation:
    """A reply with the arrays of it that are wrong."""
    verdicts = judge_parts(function, sample, reply.parts)
    wrong = tuple(index for index, verdict in enumerate(verdicts) if verdict.status == "failed")
    return KernelObservation(sample, reply.parts, wrong)


def row_factor(one: KernelObservation) -> float:
    """The largest factor, less 1, by which whole rows of the output are off; 0 where they are off in another way."""
    right, off = truth(one.sample)["o"].value, one.parts[0] - truth(one.sample)["o"].value
    factors = (off * right).sum(axis=-1) / np.maximum((right**2).sum(axis=-1), 1e-300)
    left = np.linalg.norm(off - factors[..., None] * right)
    return float(np.abs(factors).max()) if left <= _ALONG * np.linalg.norm(off) and right.shape[-1] > 1 else 0.0


def share_off(function: str, wrong: list[KernelObservation]) -> float:
    """Return the share of entries, in the wrong arrays, that rounding does not explain."""
    off = count = 0
    for one in wrong:
        errors = attention_errors(one.sample).worst
        for index in one.wrong:
            name = parts_of(function, one.sample)[index]
            off += int((np.abs(one.parts[index] - truth(one.sample)[name].value) > errors[name]).sum())
            count += one.parts[index].size
    return off / max(count, 1)


def relative_error(function: str, one: KernelObservation) -> float:
    """The largest error of an array by norms, relative to the truth."""
    found = 0.0
    for index, name in enumerate(parts_of(function, one.sample)):
        size = float(np.linalg.norm(truth(one.sample)[name].value))
        found = max(found, _off(one, name, index) / size if size > 0 else 0.0)
    return found


def _off(one: KernelObservation, name: str, index: int) -> float:
    with np.errstate(invalid="ignore", over="ignore"):
        gap = float(np.linalg.norm(one.parts[index] - truth(one.sample)[name].value))
    return np.inf if np.isnan(gap) else gap


def _allowed(sample: KernelSample, name: str) -> float:
    return float(np.linalg.norm(allowed_norms(name, sample)))


def unexplained(
    function: str, observed: list[KernelObservation], indices: list[int], candidate: Candidate
) -> float | None:
    """The largest share of an error that the formula leaves unexplained; None if it leaves too much anywhere."""
    worst = None
    for one in observed:
        formula = candidate.parts(one.sample)
        for index in indices:
            name = parts_of(function, one.sample)[index]
            rows = np.asarray(np.isfinite(formula[index]).all(axis=-1, keepdims=True))
            share = _share(one, name, index, formula[index], rows)
            if share is None:
                return None
            if share >= 0:
                worst = share if worst is None else max(worst, share)
    return worst


def _share(one: KernelObservation, name: str, index: int, formula: Array, rows: NDArray[np.bool_]) -> float | None:
    """Return the rest of one array's error: -1 where there is none, None where the formula contradicts it."""
    true, part = truth(one.sample)[name].value, one.parts[index]
    allowed = _allowed(one.sample, name)
    with np.errstate(invalid="ignore", over="ignore"):
        off = float(np.linalg.norm(np.where(rows, part - true, 0.0)))
        left = float(np.linalg.norm(np.where(rows, part - formula, 0.0)))
    if not np.isfinite(off):
        return None
    if off <= allowed:
        # A right array: the formula must not say otherwise.
        return -1.0 if left <= _ROOM * allowed + 1e-12 * float(np.linalg.norm(true)) else None
    room = max(_ROOM * allowed / off, _CLOSE)
    return left / off if left <= min(room, _EXPLAINED) * off else None
