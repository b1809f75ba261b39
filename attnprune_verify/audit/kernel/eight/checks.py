"""The checks of a kernel of eight bits: values at four lengths, and what has to hold without a tolerance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from attnprune_verify.audit.kernel.eight.problems import LENGTHS, EightProblem, ProblemMaker
from attnprune_verify.audit.kernel.problem.eight_bits import EIGHT_BITS
from attnprune_verify.audit.kernel.problem.precision import PRECISIONS
from attnprune_verify.audit.kernel.problem.sample import FORWARD, Array
from attnprune_verify.audit.kernel.process.bridge import TYPES
from attnprune_verify.audit.kernel.process.context import KernelContext
from attnprune_verify.audit.kernel.process.facts import Refused
from attnprune_verify.audit.kernel.truth.judge import KernelVerdict, judge
from attnprune_verify.audit.record import Check, Finding
from attnprune_verify.audit.subject.answers import NoAnswer

_TIMES_OF_NOISE = 3  # calls that show whether equal inputs give equal bits


class EightContext(KernelContext):
    """A kernel with a recipe."""

    problems: ProblemMaker
    parameters: tuple[str, ...] = ()
    open: bool = False

    def output(self, problem: EightProblem) -> Array:
        """Return the output on a problem.

        Raises
        ------
        Refused
            If the kernel has no parameter for a keyword of the problem, or raised on it.
        """
        facts, sample = self.functions[FORWARD], problem.sample
        if facts.given_up:
            raise NoAnswer(f"is not called any more: an earlier call {facts.given_up}")
        keywords = self.keywords(FORWARD, sample)
        lacking = [name for name in keywords if not self.has(FORWARD, name) and not self.open]
        if lacking:
            raise Refused(f"attention has no parameter {' and '.join(lacking)}")
        recipe = problem.recipe
        how = {
            "keywords": keywords, "parts": ["o"], "packed": False, "slot": "", "layout": "plain",
            "formats": [recipe.given_as(name) for name in ("q", "k", "v")], "factors": problem.scales,
        }  # fmt: skip
        facts.calls += 1
        facts.passed |= set(keywords)
        try:
            answer = self.subject.call(FORWARD, problem.laid_down(), {"how": how}, attributes=("o", "types", "changed"))
        except NoAnswer as none:
            asked = [*keywords, *(["grouped heads"] if sample.group > 1 else [])]
            if none.raised and asked:
                raise Refused(f"attention refuses {', '.join(asked)}: it {none}") from None
            facts.given_up = facts.given_up or ("" if none.raised or none.unreadable else str(none))
            raise
        facts.shapes.add(sample.shape)
        facts.largest = max(facts.largest, sample.longest)
        o, types, changed = answer.parts
        if answer.changed or changed.any():
            raise _WrongAtOnce("changes an input array", "mutates-input")
        if o.shape != sample.do.shape:
            raise _WrongAtOnce(f"o has the shape {o.shape} where the contract says {sample.do.shape}", "wrong-shape")
        kind = TYPES[int(types[0])] if types[0] >= 0 else "another type"
        if kind != recipe.o:
            raise _WrongAtOnce(f"o is {kind} where RECIPE says {recipe.o}", "wrong-dtype")
        return np.asarray(o, dtype=np.float64)


class _WrongAtOnce(Exception):
    """A result that is wrong whatever its numbers are."""

    def __init__(self, reason: str, id: str) -> None:
        super().__init__(reason)
        self.id = id


@dataclass(frozen=True)
class WrongEight:
    """A failure: the relation that it breaks, and what was returned on which problem."""

    kind: str
    problem: EightProblem
    o: Array


def eight_checks() -> tuple[Check, ...]:
    """Every check; those of the four lengths have to be decided."""
    made: dict[str, tuple[str, Callable[[ProblemMaker], EightProblem]]] = {
        f"length-{length}": (f"{n} queries, {length} keys", partial(_of_length, n, length)) for n, length in LENGTHS
    }
    required = set(made)
    made |= {
        "causal": ("causal", _causal),
        "grouped-heads": ("two query heads a key head", lambda maker: maker.plain("grouped", 30, 70, 4, 2)),
        "scale": ("a given scale", lambda maker: maker.plain("scale", 17, 40, scale=0.2)),
        "mask": ("a mask of some positions", _masked),
        "far-levels": ("a key far above the others", lambda maker: maker.far_levels("far levels")),
        "equal-rows": ("uniform weights", lambda maker: maker.equal_rows("equal rows")),
        "extremes": ("values at the ends of the format", lambda maker: maker.extremes("extremes")),
        "exact-weights": ("weights that the format of p holds", _exact_weights),
    }
    found = [
        Check(FORWARD, f"values:{name}", says, None, partial(_judged, "values", make), name in required)
        for name, (says, make) in made.items()
    ]
    says = "inputs that the kernel rounds, forward at four lengths"
    found.append(Check(FORWARD, "values:rounded", says, None, _rounded))
    sums: dict[str, Callable[[ProblemMaker], EightProblem]] = {
        "random": lambda maker: maker.ones("ones", 8, 1024),
        "far-levels": lambda maker: maker.far_levels("ones, far levels", summed=True),
        "equal-rows": lambda maker: maker.equal_rows("ones, equal rows", summed=True),
        "rounded-one-way": lambda maker: maker.same_way("ones, rounded one way"),
    }
    found += [
        Check(FORWARD, f"ones:{name}", "v = 1 gives 1 within the recipe's bound", None, partial(_judged, "ones", make))
        for name, make in sums.items()
    ]
    says = "what was stored comes out of a single key, to the bit"
    found.append(Check(FORWARD, "decoded", says, None, _decoded))
    says = "later tokens, from inside a block on, move no earlier result, to the bit"
    found.append(Check(FORWARD, "future", says, None, _future))
    return tuple(found)


def _of_length(n: int, length: int, maker: ProblemMaker) -> EightProblem:
    return maker.plain(f"length {length}", n, length)


def _causal(maker: ProblemMaker) -> EightProblem:
    if maker.scope.causal is False:
        raise Refused("no call is causal: never_causal")
    found = maker.plain("causal", 48, 48, causal=True)
    if found.sample.shape[3] != found.sample.shape[4]:
        raise Refused("no call has as many queries as keys")
    return found


def _masked(maker: ProblemMaker) -> EightProblem:
    found = maker.plain("mask", 17, 40)
    rng = np.random.default_rng(maker.seed)
    mask = rng.random(found.sample.allowed.shape) < 0.55
    mask[:, 0] = True  # also of causal rows
    return EightProblem(found.sample.changed(mask=mask), found.stored, found.scales, found.recipe)


def _exact_weights(maker: ProblemMaker) -> EightProblem:
    if not maker.recipe.by_twos:
        raise Refused(f"the factor {maker.recipe.factor:g} of the weights is no power of two")
    if maker.scope.causal and maker.recipe.rounded == "divided":
        raise Refused("every row of a causal call has another sum, by which its weights are divided")
    return maker.exact_weights("exact weights")


def _judged(kind: str, make: Callable[[ProblemMaker], EightProblem], context: EightContext) -> Finding:
    try:
        problem = make(context.problems)
        o = context.output(problem)
    except Refused as none:
        return Finding("not_applicable", str(none))
    except _WrongAtOnce as wrong:
        return Finding("failed", f"{wrong}, on {problem.sample.describe()}", ids=(wrong.id,))
    return _finding(kind, [(problem, o, judge(FORWARD, problem.sample, (o,)))])


def _rounded(context: EightContext) -> Finding:
    """Inputs that the kernel itself rounds to eight bits."""
    if not context.problems.recipe.encodes:
        return Finding("not_applicable", "the kernel is given stored numbers")
    found = []
    for n, length in LENGTHS:
        problem = context.problems.rounded(f"rounded {length}", n, length)
        try:
            o = context.output(problem)
        except _WrongAtOnce as wrong:
            return Finding("failed", f"{wrong}, on {problem.sample.describe()}", ids=(wrong.id,))
        found.append((problem, o, judge(FORWARD, problem.sample, (o,))))
    return _finding("values", found)


def _finding(kind: str, found: list[tuple[EightProblem, Array, KernelVerdict]]) -> Finding:
    rank = {"passed": 0, "inconclusive": 1, "failed": 2}
    problem, o, verdict = max(found, key=lambda judged: rank[judged[2].status])
    if verdict.status == "failed":
        reason = f"{verdict.reason}, on {problem.sample.describe()}"
        wrong = (WrongEight(kind, problem, o),)
        return Finding("failed", reason, verdict.error, verdict.bound, verdict.power, samples=wrong)
    if verdict.status == "inconclusive":
        reason = f"the recipe itself may move the output by {verdict.power:.2g} of its norm"
        return Finding("inconclusive", reason, verdict.error, verdict.bound, verdict.power)
    said = f"{len(found)} of {len(found)} instances agree"
    return Finding("passed", said, verdict.error, verdict.bound, verdict.power)


def _decoded(context: EightContext) -> Finding:
    problem = context.problems.one_key("one key")
    sample, recipe = problem.sample, problem.recipe
    try:
        o = context.output(problem)
    except _WrongAtOnce as wrong:
        return Finding("failed", f"{wrong}, on {sample.describe()}", ids=(wrong.id,))
    exact = EIGHT_BITS[recipe.o].exact if recipe.o in EIGHT_BITS else PRECISIONS[recipe.o].exact
    key = np.abs(sample.k[..., 2:]).sum(-1).argmin(axis=2)
    values = np.take_along_axis(sample.v, key[:, :, None, None], axis=2)
    right = np.broadcast_to(exact(sample.grouped(values)), o.shape)
    if (o == right).all():
        return Finding("passed", "every stored number comes out as it was")
    place = tuple(int(i) for i in np.argwhere(o != right)[0])
    reason = f"o{list(place)} is {o[place]:.9g} where {right[place]:.9g} was stored; "
    reason += f"{np.count_nonzero(o != right)} of {o.size} entries differ, on {sample.describe()}"
    return Finding("failed", reason, samples=(WrongEight("decoded", problem, o),))


def _future(context: EightContext) -> Finding:
    if context.scope.causal is False:
        return Finding("not_applicable", "no call is causal: never_causal")
    first, second, cut = context.problems.future("future")
    if first.sample.shape[3] != first.sample.shape[4]:
        return Finding("not_applicable", "no call has as many queries as keys")
    try:
        before, after = context.output(first), context.output(second)
        if np.array_equal(before[:, :, :cut], after[:, :, :cut], equal_nan=True):
            return Finding("passed", f"the first {cut} of {before.shape[2]} tokens do not see what comes after them")
        again = [context.output(first) for _ in range(_TIMES_OF_NOISE)]
    except Refused as none:
        return Finding("not_applicable", str(none))
    except _WrongAtOnce as wrong:
        return Finding("failed", f"{wrong}, on {first.sample.describe()}", ids=(wrong.id,))
    if any(not np.array_equal(before, o, equal_nan=True) for o in again):
        return Finding("inconclusive", "equal calls differ in a bit, so that none of this can be seen")
    differ = ~((before == after) | (np.isnan(before) & np.isnan(after)))[:, :, :cut]
    rows = np.flatnonzero(differ.any(axis=(0, 1, 3)))
    reason = f"token {rows[0]} changes with tokens from {cut} on: a scale is made of them, or a mask lets them in"
    return Finding("failed", reason, samples=(WrongEight("future", first, before),))
