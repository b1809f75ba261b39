"""One judgement from all oracles: is this array the gradient of the loss at M?

`attnprune_verify.oracle.comparison` defines `value`, `tolerance` and the statuses passed, failed and inconclusive. A
new oracle is one more file with `cost` and `judge`, and a line in `ORACLES`.

`cost` is a model, not a clock: the nominal seconds of the smallest useful comparison, proportional to the allowed
logits and the multiplications. Each coefficient was measured once, on one core, and rounded up; only their proportions
matter. The cost and the effort alone decide whether an oracle compares every entry, some random directions or nothing,
so a verdict is the same on every machine and under every load.
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.instance.problem import Instance, LayerInstance
from attnprune_verify.oracle import autodiff, ball, multiprecision, taylor
from attnprune_verify.oracle.comparison import (
    SIGMAS,
    GradientClaim,
    OracleVerdict,
    Resolution,
    Status,
    against,
    declined,
    length,
    unaffordable,
)
from attnprune_verify.oracle.inputs import OracleInput, posed
from attnprune_verify.oracle.resolution import resolution
from attnprune_verify.oracle.running_error import gradient_error
from attnprune_verify.oracle.score_errors import chained
from attnprune_verify.oracle.score_formulas import SCORES

__all__ = ["ORACLES", "Oracle", "OracleVerdict", "Status", "against", "judge_gradient"]

_BITS = 192  # of the balls, to begin with
_FINE = 1e-4  # a bound this fine needs no measured resolution
_QUICK = 1e9  # multiplications above which two trials measure it instead of eight


class Oracle(NamedTuple):
    """An independent judge of a gradient."""

    name: str
    cost: Callable[[OracleInput], float]
    judge: Callable[[GradientClaim], OracleVerdict]
    scores: Mapping[type, object] = MappingProxyType({})

    def unknown(self, at: OracleInput) -> list[str]:
        """Names of the layer's scores that the oracle has no formula of."""
        if chained(at):
            return [f"the chain of {type(at.scores[-1]).__name__} to what is before it"]
        return [type(score).__name__ for score in at.scores if type(score) not in self.scores]


ORACLES = (
    Oracle("autodiff", autodiff.cost, autodiff.judge, SCORES),
    Oracle("taylor-slope", taylor.cost, taylor.judge),
    Oracle("multiprecision", multiprecision.cost, multiprecision.judge),
    Oracle("ball", ball.cost, ball.judge),
)


def judge_gradient(
    instance: Instance | LayerInstance,
    gradient: Any,
    *,
    rng: np.random.Generator,
    effort: float = 30.0,
    progress: Callable[[str], None] | None = None,
) -> tuple[OracleVerdict, ...]:
    """Let every oracle of `ORACLES`, in this order, judge a gradient.

    Parameters
    ----------
    instance : Instance or LayerInstance
        The problem and the point, its M (all ones if it has none). The tolerances assume that the gradient was computed
        in the instance's dtype.
    gradient : (d, d) array, or a pair of arrays for a layer
        The claimed gradient of the loss there.
    rng : numpy.random.Generator
        For random directions.
    effort : float
        Nominal seconds on one core that an expensive oracle may take.
    progress : callable, optional
        Called with the name of each oracle before it starts.

    Returns
    -------
    tuple of OracleVerdict

    Raises
    ------
    InvalidInstance
        If `gradient` does not have the shape of the masks.

    Examples
    --------
    >>> import numpy as np
    >>> M = np.array([[0.5, 1.0], [0.25, 0.0]])
    >>> instance = Instance(np.eye(2), np.array([[1.0, -1.0], [-1.0, 1.0]]), M=M, lam=0.1)
    >>> from attnprune_verify.oracle.loops import gradient
    >>> right = gradient(posed(instance))[0]
    >>> [v.status for v in judge_gradient(instance, right, rng=np.random.default_rng(0))]
    ['passed', 'passed', 'passed', 'passed']
    >>> [v.status for v in judge_gradient(instance, -right, rng=np.random.default_rng(0))]
    ['failed', 'failed', 'failed', 'failed']
    """
    at, dtype = posed(instance, scores=True), instance.X.dtype
    given = at.flat(gradient if len(at.masks) > 1 or isinstance(gradient, tuple) else [gradient])
    if not np.isfinite(given).all():
        return tuple(OracleVerdict(o.name, "failed", math.inf, 0.0, "an entry is not finite") for o in ORACLES)
    tell = progress or (lambda name: None)
    unknown = {oracle.name: oracle.unknown(at) for oracle in ORACLES}
    if all(unknown.values()):
        return tuple(declined(name, what) for name, what in unknown.items())
    claim = _claim(at, given, np.dtype(dtype), rng, effort)
    found = []
    for oracle in ORACLES:
        if unknown[oracle.name]:
            found.append(declined(oracle.name, unknown[oracle.name]))
            continue
        tell(oracle.name)
        cost = oracle.cost(at)
        found.append(oracle.judge(claim) if cost <= effort else unaffordable(oracle.name, cost, effort))
    return tuple(found)


def _claim(
    at: OracleInput, given: NDArray[np.float64], dtype: np.dtype[np.floating], rng: np.random.Generator, effort: float
) -> GradientClaim:
    own = gradient_error(at)
    bound = own if dtype == np.float64 else gradient_error(at, float(np.finfo(dtype).eps) / 2)
    bits, exact = _BITS, None
    if ball.cost(at) <= effort and not at.scores:
        exact = ball.enclosed_gradient(at, bits)
        if not (exact.radius <= bound).all():  # astronomically large logits
            bits *= 8
            exact = ball.enclosed_gradient(at, bits)
    reference = (
        at.flat(autodiff.gradient(at)) if exact is None else np.where(ball.contains_zero(exact), 0.0, exact.midpoint)
    )
    fine = Resolution(bound, SIGMAS * length(bound))
    if not at.scores and not length(bound) <= _FINE * length(reference) and reference.any():
        fine = resolution(at, reference, bound, rng, 8 if at.products < _QUICK else 2)
    return GradientClaim(at, given, reference, exact, bits, bound, own, fine, rng, effort)
