"""The rules by which people accept an attention kernel, each as its users have it, read in what it names."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.kernel.problem.precision import precision_named
from attnprune_verify.audit.kernel.tensors.interval import AttentionInterval

Array = NDArray[np.float64]
FORWARD, GRADIENTS = ("o", "lse"), ("dq", "dk", "dv", "dbias", "dsinks")
_MERGED = ("do1", "dlse1", "do2", "dlse2")


@dataclass(frozen=True)
class Result:
    """One array that a program returned, beside what is right.

    Attributes
    ----------
    plain : Array
        What a plain program returns that computes and stores everything in the same format.
    derived : float or None
        hipDNN's tolerance, where it is defined.
    interval : AttentionInterval or None
        Ours for the same inputs, where there is one.
    capped : bool
        Whether logits are capped.
    """

    name: str
    found: Array
    true: Array
    plain: Array
    dtype: str
    derived: float | None = None
    interval: AttentionInterval | None = None
    capped: bool = False

    @property
    def error(self) -> Array:
        """Where both are the same infinity, 0."""
        return np.where(self.found == self.true, 0.0, np.abs(self.found - self.true))


def _all_close(one: Result) -> bool:
    return bool(np.allclose(one.found, one.true, rtol=1e-2, atol=1e-2))


def _kernel_bench(one: Result) -> bool:
    """Against the model in the same format, of which it has three."""
    tolerance = 1e-4 if one.dtype in ("float32", "float64") else 1e-2
    return bool(np.allclose(one.found, one.plain, rtol=tolerance, atol=tolerance))


def _twice_plain(one: Result) -> bool:
    """The allowance is what adding and taking off 0.3 does to the right result, twice."""
    exact = precision_named("bfloat16" if one.dtype.startswith("float8") else one.dtype).exact
    kept = exact(one.true)
    moved = exact(exact(kept + 0.3) - 0.3)
    plain = np.abs(one.plain - one.true).max()
    return bool(one.error.max() <= (3 if one.capped else 2) * plain + 2 * np.abs(moved - kept).max())


def _flashinfer_bench(one: Result) -> bool:
    """Every entry finite and within the absolute tolerance or the relative one; of eight bits 95 in 100 of them."""
    if not np.isfinite(one.found).all():
        return False
    beyond = (one.error > 1e-2) & (one.error > 1e-2 * (np.abs(one.true) + 1e-8))
    return bool(beyond.mean() <= (0.05 if one.dtype.startswith("float8") else 0.0))


def _derived(one: Result) -> bool:
    assert one.derived is not None
    return bool(one.error.max() <= one.derived)


def _inside(one: Result) -> bool:
    assert one.interval is not None
    return one.interval.judge(**{one.name: one.found})[one.name].inside


@dataclass(frozen=True)
class Rule:
    """A rule: what it accepts, and of which results it says anything."""

    name: str
    source: str
    accepts: Callable[[Result], bool]
    asks: Callable[[Result], bool]

    def fails(self, results: list[Result]) -> bool | None:
        """Report whether a result is refused; None where the rule says nothing of any of them."""
        asked = [one for one in results if self.asks(one)]
        with np.errstate(all="ignore"):
            return not all(map(self.accepts, asked)) if asked else None


RULES = (
    Rule("allclose, 1e-2", "numpy.allclose with atol = rtol = 1e-2, every result", _all_close, lambda one: True),
    Rule(
        "KernelBench",
        "get_tolerance_for_precision in src/kernelbench/eval.py, 1e-4 in float32 and 1e-2 in 16 bits (1e-2 for all in "
        "earlier versions); the output alone, against the model in the same format",
        _kernel_bench,
        lambda one: one.name == "o" and not one.dtype.startswith("float8"),
    ),
    Rule(
        "FlashAttention, factor 2",
        "its tests: an error at most twice that of a plain program in the same format (three times beside a cap), plus "
        "what 0.3 added and taken off does, twice; outputs and gradients",
        _twice_plain,
        lambda one: one.name in ("o", *GRADIENTS, *_MERGED),
    ),
    Rule(
        "flashinfer-bench",
        "compute_error_stats in flashinfer_bench/bench/utils.py: finite, and atol or rtol of 1e-2 kept in every entry "
        "(of eight bits in 95 of 100); forward",
        _flashinfer_bench,
        lambda one: one.name in FORWARD,
    ),
    Rule(
        "hipDNN, derived",
        "calculateSdpaFwdTolerance (rocm-libraries#7032), as in benchmarks/other_tolerance.py; the output of attention",
        _derived,
        lambda one: one.derived is not None,
    ),
    Rule(
        "our interval, the same inputs",
        "attention_interval(...).judge(...); every result of attention, lists and pages",
        _inside,
        lambda one: one.interval is not None,
    ),
)
OURS = "ours"
"""audit-kernel, check_merge and check_parallel, which draw inputs of their own."""
