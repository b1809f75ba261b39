"""The prose of Section 6.1 about Figure 2, sentence by sentence, against measured curves.

The figure has no numbers in the text, so its sentences are all that can be compared. Words such as "comparable" are
given a criterion here, which every verdict carries.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any

from attnprune_verify.experiments.paired import (
    RULE,
    UNTESTED,
    Doubts,
    all_of,
    any_of,
    is_below,
    negated,
    verdicts,
)
from attnprune_verify.experiments.synthetic.curves import Curve, curve, pairs
from attnprune_verify.experiments.synthetic.plan import SyntheticPlan
from attnprune_verify.experiments.synthetic.run import Results

_COMPARABLE = 0.1  # chosen: within a tenth is comparable
_CLOSE = 0.2
"""Bounds of "comparable" and of "closely"; "significant" means more than the first, "large" more than the second."""
_OURS = "a bound of ours, set after measuring"


@dataclass(frozen=True)
class FigureFinding:
    """One sentence under one reading.

    Attributes
    ----------
    id : str
        Claim id.
    says : str
        The paper's sentence.
    criterion : str
        The condition under which the measurement counts as agreeing.
    verdict : "agrees", "disagrees" or "undecided"
        By `RULE`, over all readings of the sentence together.
    numbers : str
        The means that the verdict rests on.
    p : float
        Probability of seeds as clear as these, for or against, if the opposite is true; before Holm's correction.
    weights, k, reading, lam, measure, seeds
        The reading. `reading` is "" if the sentence is about Wanda and SparseGPT only; `lam` is None in that case and
        if lam is swept; `measure` is "in-sample" or "held-out".
    """

    id: str
    says: str
    criterion: str
    verdict: str
    numbers: str
    p: float
    weights: str
    k: int
    reading: str
    lam: float | None
    measure: str
    seeds: int


@dataclass(frozen=True)
class _MeasuredCurves:
    """Our method and the two rivals the paper names, over one axis."""

    ours: Curve
    wanda: Curve
    sparsegpt: Curve

    def text(self, of_method: bool, only: float | None) -> str:
        named = {"method": self.ours} if of_method else {}
        named |= {"Wanda": self.wanda, "SparseGPT": self.sparsegpt}
        return "; ".join(f"{name} {one.text(only)}" for name, one in named.items())


_Judge = Callable[[_MeasuredCurves, float], Doubts]


@dataclass(frozen=True)
class FigureSentence:
    """A sentence, the axis it is about, and when it holds."""

    id: str
    axis: str
    says: str
    criterion: str
    judge: _Judge
    of_method: bool = True
    """Whether it is about the paper's method, not only about its rivals."""
    at_fixed_point: bool = False
    """Whether it is about the fixed point of the axis only."""


def _u_shape(curves: _MeasuredCurves, _: float) -> Doubts:
    first, *inner, last = curves.ours.values
    return any_of(all_of([is_below(one, first, 1 - _CLOSE), is_below(one, last)]) for one in inner)


def _optimum(curves: _MeasuredCurves, _: float) -> Doubts:
    near = [lam for lam in curves.ours.axis if abs(math.log2(lam) + 4) <= 1]
    far = [lam for lam in curves.ours.axis if lam not in near]
    if not near or not far:
        return UNTESTED
    return any_of(all_of(is_below(curves.ours.at(one), curves.ours.at(other)) for other in far) for one in near)


def _outperforms(curves: _MeasuredCurves, _: float) -> Doubts:
    return all_of([pairs(curves.ours, curves.wanda, is_below), pairs(curves.ours, curves.sparsegpt, is_below)])


def _significantly(curves: _MeasuredCurves, _: float) -> Doubts:
    clear = partial(is_below, factor=1 - _COMPARABLE)
    return all_of([pairs(curves.ours, curves.wanda, clear), pairs(curves.ours, curves.sparsegpt, clear)])


def _largely_at(curves: _MeasuredCurves, position: float) -> Doubts:
    ours = curves.ours.at(position)
    return all_of(is_below(ours, rival.at(position), 1 - _CLOSE) for rival in (curves.wanda, curves.sparsegpt))


def _rises(one: Curve) -> Doubts:
    return all_of(is_below(one.values[i], one.values[i + 1]) for i in range(len(one.axis) - 1))


def _all_rise(curves: _MeasuredCurves, _: float) -> Doubts:
    return all_of(_rises(one) for one in (curves.ours, curves.wanda, curves.sparsegpt))


def _slower(curves: _MeasuredCurves, _: float) -> Doubts:
    """An error that starts where the rivals' end rises no further: it must end below theirs, too."""
    ours, *others = (one.values[-1] - one.values[0] for one in (curves.ours, curves.wanda, curves.sparsegpt))
    below = [is_below(curves.ours.values[-1], rival.values[-1]) for rival in (curves.wanda, curves.sparsegpt)]
    return all_of([*(is_below(ours, other) for other in others), *below])


def _wanda_better(curves: _MeasuredCurves, _: float) -> Doubts:
    return all_of(is_below(curves.wanda.values[i], curves.sparsegpt.values[i]) for i in (-1, -2))


def _within(curves: _MeasuredCurves, fraction: float, indices: range) -> Doubts:
    """|Wanda - SparseGPT| <= fraction of the larger, at the indexed points: neither is further below the other."""
    both = [(curves.wanda.values[i], curves.sparsegpt.values[i]) for i in indices]
    pairs_ = [pair for one, other in both for pair in ((one, other), (other, one))]
    return all_of(negated(is_below(lower, higher, 1 - fraction)) for lower, higher in pairs_)


SENTENCES = (
    FigureSentence(
        "exp:lambda-u-shape", "lam",
        "As lambda grows, the method's error first falls sharply, reaches a minimum and rises again: a U.",
        f"some lambda inside the grid has an error below both ends', more than {_CLOSE:.0%} below the first ({_OURS})",
        _u_shape,
    ),
    FigureSentence(
        "exp:lambda-optimum", "lam",
        "The method does best around lambda = 2^-4.",
        "some lambda within a factor of two of 2^-4 has an error below that of every lambda further away",
        _optimum,
    ),
    FigureSentence(
        "exp:large-margin", "rho",
        "The method outperforms Wanda and SparseGPT with a large margin.",
        f"more than {_CLOSE:.0%} below both at rho = 0.5, n = 128, or the plan's own fixed point ({_OURS})",
        _largely_at,
        at_fixed_point=True,
    ),
    FigureSentence(
        "exp:n-errors-grow", "n",
        "As n grows, the error of all three methods grows.",
        "every step up in n raises all three",
        _all_rise,
    ),
    FigureSentence(
        "exp:n-slower-increase", "n",
        "The method's error grows more slowly with n than the rivals'.",
        "from the smallest to the largest n it rises less than each rival's, and ends below them",
        _slower,
    ),
    FigureSentence(
        "exp:n-margin", "n",
        "The method keeps a significant margin over both rivals at every n, particularly large ones.",
        f"more than {_COMPARABLE:.0%} below both at every n ({_OURS})",
        _significantly,
    ),
    FigureSentence(
        "exp:n-wanda-better-for-larger-n", "n",
        "Wanda does better than SparseGPT for larger n.",
        "Wanda below SparseGPT at the two largest n",
        _wanda_better,
        of_method=False,
    ),
    FigureSentence(
        "exp:n-comparable-for-smaller-n", "n",
        "Wanda becomes comparable to SparseGPT for small n.",
        f"at the smallest n they differ by at most {_COMPARABLE:.0%} of the larger ({_OURS})",
        lambda curves, _: _within(curves, _COMPARABLE, range(1)),
        of_method=False,
    ),
    FigureSentence(
        "exp:rho-errors-rise", "rho",
        "As rho grows, the error of all three methods rises.",
        "every step up in rho raises all three",
        _all_rise,
    ),
    FigureSentence(
        "exp:rho-consistently-outperforms", "rho",
        "The method consistently outperforms Wanda and SparseGPT across the range of rho.",
        "lower than both at every rho",
        _outperforms,
    ),
    FigureSentence(
        "exp:rho-rivals-track-each-other", "rho",
        "Wanda and SparseGPT closely track each other over rho.",
        f"at every rho they differ by at most {_CLOSE:.0%} of the larger ({_OURS})",
        lambda curves, _: _within(curves, _CLOSE, range(len(curves.wanda.axis))),
        of_method=False,
    ),
)  # fmt: skip

_MEASURES = {"in-sample": "in_mean", "held-out": "out_mean"}
_WORDS = {True: "agrees", False: "disagrees", None: "undecided"}


def figure2_statements(results: Results) -> list[dict[str, Any]]:
    """Every sentence of SENTENCES under every reading that `results` holds, as dicts with the fields of `Finding`.

    A sentence whose runs are missing (fewer than two points of its axis) gives no entry.

    Examples
    --------
    >>> from attnprune_verify.experiments.stored.findings import stored_results
    >>> found = figure2_statements(stored_results())
    >>> "agrees" in {entry["verdict"] for entry in found if entry["id"] == "exp:n-wanda-better-for-larger-n"}
    False
    """
    return [asdict(finding) for finding in _findings(results)]


def _findings(results: Results) -> Iterator[FigureFinding]:
    curves = cache(partial(_curves, results))  # several sentences speak of the same ones
    for sentence in SENTENCES:
        family = [*_readings(results.plan, sentence, curves)]
        for (tested, finding), truth in zip(family, verdicts([one for one, _ in family]), strict=True):
            yield replace(finding, verdict=_WORDS[truth], p=min(tested))


def _readings(
    plan: SyntheticPlan, sentence: FigureSentence, curves_of: Callable[..., _MeasuredCurves | None]
) -> Iterator[tuple[Doubts, FigureFinding]]:
    """The sentence under every reading, not judged yet."""
    lams: tuple[float | None, ...] = (None,) if sentence.axis == "lam" else plan.fixed_lams
    readings = plan.readings + (plan.side_readings if sentence.axis == "rho" else ())
    choices = [*product(readings, lams)] if sentence.of_method else [("", None)]
    for weights, (k, seeds), choice, measure in product(plan.weights, plan.seeds, choices, _MEASURES):
        # A sentence about the rivals needs no method; any that was measured fills the place.
        curves = curves_of(sentence.axis, measure, weights, k, *(choice if choice[0] else (readings[0], lams[0])))
        if curves is None:
            continue
        numbers = curves.text(sentence.of_method, plan.fixed_rho if sentence.at_fixed_point else None)
        yield (
            sentence.judge(curves, plan.fixed_rho),
            FigureFinding(
                sentence.id, sentence.says, f"{sentence.criterion}; {RULE}", _WORDS[None], numbers, 1.0,
                weights, k, *choice, measure, seeds,
            ),
        )  # fmt: skip


def _curves(
    results: Results, axis: str, measure: str, weights: str, k: int, reading: str, lam: float | None
) -> _MeasuredCurves | None:
    plan, column = results.plan, _MEASURES[measure]
    fixed: dict[str, Any] = {"weights": weights, "k": k}
    fixed |= {"n": plan.fixed_n} if axis != "n" else {}
    fixed |= {"rho": plan.fixed_rho} if axis != "rho" else {}
    one = {} if lam is None else {"lam": lam}
    ours = curve(results.rows, axis, column, method="descent", reading=reading, **fixed, **one)
    # The rivals do not know lam: over the axis of lam they are one point.
    other = "n" if axis == "lam" else axis
    wanda, sparsegpt = (curve(results.rows, other, column, method=name, **fixed) for name in ("wanda", "sparsegpt"))
    if ours is None or wanda is None or sparsegpt is None or len(ours.axis) < 2:
        return None
    return _MeasuredCurves(ours, wanda, sparsegpt)
