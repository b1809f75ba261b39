"""Search for the known mistake that gives exactly what a kernel returned.

First what needs no formula (zeros, constants), then the known wrong formulas, each compared with everything that was
observed on ordinary instances: it has to give the wrong results and must not contradict the right ones. Then factors
and lower precision. What is wrong with extreme logits alone is named by which of them fail.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.kernel.names.candidates import (
    Candidate,
    KernelObservation,
    as_gradients,
    beyond,
    candidates,
)
from attnprune_verify.audit.kernel.names.mechanisms import by_mechanism
from attnprune_verify.audit.kernel.names.shrink import failure
from attnprune_verify.audit.kernel.names.unexplained import (
    observation,
    relative_error,
    row_factor,
    share_off,
    unexplained,
)
from attnprune_verify.audit.kernel.problem.precision import LOWER
from attnprune_verify.audit.kernel.problem.regimes import BENIGN, EXTREME
from attnprune_verify.audit.kernel.problem.sample import BACKWARD, FORWARD, KernelSample, parts_of
from attnprune_verify.audit.kernel.problem.sample_factory import Maker
from attnprune_verify.audit.kernel.process.context import KernelContext
from attnprune_verify.audit.kernel.process.shapes import misshapen
from attnprune_verify.audit.kernel.truth.judge import judge
from attnprune_verify.audit.kernel.truth.steps import evaluate
from attnprune_verify.audit.kernel.truth.truth import truth
from attnprune_verify.audit.mistakes import SENTENCES
from attnprune_verify.audit.naming.words import follows_curve, format_factor
from attnprune_verify.audit.record import Diagnosis
from attnprune_verify.audit.subject.answers import NoAnswer

_MOST_WRONG, _MOST_RIGHT = 10, 8  # chosen: samples that a formula is compared with; each costs an evaluation
_LONGEST = 140  # chosen: queries or keys, above the block sizes of 64 and 128
_LONGER = 260  # chosen: of kernels that are wrong from two blocks of 128 on, or take no less
_MOST_HERE, _FEW_HERE = 8, 3  # failing samples that one formula has to explain, and if there is none, the plainest
_MOST_FOUND = 4  # chosen: formulas found before of which pairs are tried
_SMALL_ERROR = 0.2
_SPREAD = 0.2  # chosen: the least share of entries off that rounding may be the name of
_SHOWN, _NEAR = 24, 5.0  # queries whose weights are looked at, and how far below the largest logit
_AHEAD = 3.0  # chosen: twice the spread of the logits
_STRAIGHT = 0.2  # of a curve that a straight line may leave
_ONE_SUM = 2.0**-5  # chosen: of a row's sum, what additions in 8 bits may lose
_VAGUE = 0.5  # an instance on which a lower precision may do anything says nothing about it


class KernelNamer:
    """Names the mistakes of one kernel, from results of calls made before."""

    def __init__(self, context: KernelContext) -> None:
        self.context = context
        self._seen: dict[str, dict[str, list[KernelObservation]]] = {}
        self._general: dict[str, Diagnosis | None] = {}
        self._plain: dict[str, Diagnosis | None] = {}
        self._found: dict[str, dict[str, Candidate]] = {FORWARD: {}, BACKWARD: {}}

    def name(self, function: str, here: tuple[KernelSample, ...]) -> Diagnosis:
        """The name for a failure on these samples: of the function as a whole, of these alone, or by an experiment."""
        general = self.everywhere(function)
        if general is not None:
            return general
        special = self._of_these(function, here) if self._plainly(function) else None
        if special is not None:
            return special
        inherited = self._inherited(function, here)
        if inherited is not None or not here:
            return inherited or Diagnosis(("unknown",), SENTENCES["unknown"])
        plain, rich = min(here, key=_plainest), max(here, key=lambda sample: (sample.longest <= _LONGEST, sample.work))
        found = by_mechanism(self.context, function, plain)
        if found.ids == ("unknown",) and rich is not plain and rich.longest <= _LONGEST:
            # Of few numbers something always fits, or nothing is said
            again = by_mechanism(self.context, function, rich)
            found = again if again.ids != ("unknown",) else found
        return (self._curve() if function == FORWARD and found.ids == ("unknown",) else None) or found

    def everywhere(self, function: str) -> Diagnosis | None:
        """The mistake that explains every failure of the regimes, if one does."""
        if function not in self._general:
            self._general[function] = self._whole(function)
        return self._general[function]

    def again(self, function: str, here: tuple[KernelSample, ...]) -> Diagnosis | None:
        """The mistake that explained other instances, or two of those, if it explains these.

        Of any length, and with parts that the other formulas are not tried on: for two mistakes of a kernel are rarely
        the same in all of them.
        """
        found = list(self._found[function].values())
        found = [*as_gradients(self._found[FORWARD].values()), *found] if function == BACKWARD else found
        found = found[:_MOST_FOUND]
        if not found or not self._plainly(function):
            return None
        covered = [
            x for x in here if type(x) is KernelSample and x.poison is None and (function == FORWARD or x.dlse is None)
        ]
        few = sorted(covered, key=lambda sample: sample.work)[:_FEW_HERE]
        longest = max((sample.longest for sample in few), default=0)
        observed = self._failing(function, few, longest)
        asked = range(1 if function == FORWARD else 3)
        wrong = [index for index in asked if any(index in seen.wrong for seen in observed)]
        if not wrong:
            return None
        best = self._best(function, observed, wrong, found)
        short = [seen for seen in observed if seen.sample.longest <= _LONGEST]  # on which all formulas are tried
        return best or self._best(function, short or observed, wrong, beyond(function, found, bool(short)))

    def roughly(self, function: str, here: tuple[KernelSample, ...]) -> Diagnosis | None:
        """The name for outputs of optional parts that are right, but in a lower precision."""
        observed = self._failing(function, (one for one in here if one.extended))
        small = observed and all(0 in one.wrong for one in observed) and function == FORWARD
        return self._low_precision(function, observed) if small else None

    def of_numbers(self, here: tuple[KernelSample, ...]) -> Diagnosis | None:
        """The formula for failures of masks that are given as 0 and -inf: they mean what those of flags mean."""
        observed = self._failing(FORWARD, (sample for sample in here if sample.additive))
        bare = [replace(seen, sample=seen.sample.changed(additive=False)) for seen in observed]
        return self._fitted(FORWARD, bare) if bare and not any(seen.sample.extended for seen in bare) else None

    def _failing(self, function: str, some: Iterable[KernelSample], longest: int = 0) -> list[KernelObservation]:
        """Wrong results on the smaller of these samples, in the right shape."""
        observed, given = [], tuple(some)
        longest = longest or _longest(given)
        for sample in sorted((one for one in given if one.longest <= longest), key=lambda one: one.work)[:_MOST_HERE]:
            try:
                reply = self.context.answer(function, sample)
            except NoAnswer:
                continue
            if misshapen(function, sample, reply) is None:
                observed.append(observation(function, sample, reply))
        return [one for one in observed if one.failed]

    def _of_these(self, function: str, here: tuple[KernelSample, ...]) -> Diagnosis | None:
        """A formula for some failing samples; for the plainest of them alone where all have no one formula."""
        observed = self._failing(function, (one for one in here if not one.extended))
        if not observed:
            return None
        found = self._fitted(function, observed)
        if found is None and len(observed) > _FEW_HERE:
            found = self._fitted(function, sorted(observed, key=lambda one: _plainest(one.sample))[:_FEW_HERE])
        return found

    def _plainly(self, function: str) -> bool:
        """Return True where plain instances are right or wrong in a known way: else names for others fit by chance."""
        if function not in self._plain:
            plain = self.seen(function).get("plain", [])
            wrong = any(one.failed for one in plain)
            self._plain[function] = self._fitted(function, plain) if wrong else _named("unknown")
        return self._plain[function] is not None

    def _inherited(self, function: str, here: tuple[KernelSample, ...]) -> Diagnosis | None:
        """A backward pass without a mistake of its own has that of the forward pass, where that is wrong here, too."""
        if function != BACKWARD or FORWARD not in self.context.subject.functions:
            return None
        few = sorted(here, key=_plainest)[:_FEW_HERE]
        if few and not any(failure(self.context, FORWARD, sample.changed(wanted=(), dlse=None)) for sample in few):
            return None
        self.name(FORWARD, ())
        forward = self._general[FORWARD]
        return forward and Diagnosis(forward.ids, f"as in attention: {forward.words}")

    def seen(self, function: str) -> dict[str, list[KernelObservation]]:
        """The results of the right shape by regime; the kernel is called where a regime has none yet."""
        if function not in self._seen:
            found: dict[str, list[KernelObservation]] = {}
            for name, regime in self.context.regimes().items():
                for sample in regime.samples:
                    if sample.extended:
                        continue
                    try:
                        reply = self.context.answer(function, sample)
                    except NoAnswer:
                        continue
                    if misshapen(function, sample, reply) is None:
                        found.setdefault(name, []).append(observation(function, sample, reply))
            self._seen[function] = found
        return self._seen[function]

    def _whole(self, function: str) -> Diagnosis | None:
        seen = self.seen(function)
        failing = {name for name, group in seen.items() if any(one.failed for one in group)}
        ordinary = [one for name, group in seen.items() if name not in EXTREME for one in group]
        if not any(one.failed for one in ordinary):
            if failing and failing <= {"forbidden giants", "forbidden future"}:
                nan = _never_finite(result for name in failing for result in seen[name])
                return _named("nan-output" if nan else "mask-finite")
            return _named("unstable-exp") if failing or self._raised(function) else None
        fixed = _without_formula(function, [one for one in ordinary if one.failed])
        if fixed is not None:
            return fixed
        chosen = _chosen(seen)
        found = self._fitted(function, chosen)
        if found is None and failing <= {"mask", "causal and mask", "all at once", "more keys, mask", "larger, mask",
                                         "causal", "larger, causal", "window", *EXTREME}:  # fmt: skip
            if _never_finite(chosen):
                return _named("masked-block-nan")
        return found

    def _raised(self, function: str) -> bool:
        """Return True where large logits made the kernel raise that answers on others."""
        asked = [sample for name in EXTREME for sample in self.context.regimes()[name].samples]
        return any(self.context.overflowed(function, sample) for sample in asked)

    def _fitted(self, function: str, observed: list[KernelObservation]) -> Diagnosis | None:
        wrong = sorted({index for one in observed for index in one.wrong})
        together = self._one(function, observed, wrong)
        if together is not None:
            return together
        each = [self._one(function, observed, [index]) for index in wrong] if len(wrong) > 1 else []
        named = [one for one in each if one is not None]
        if each and len(named) == len(each):
            ids = tuple(dict.fromkeys(id for one in named for id in one.ids))
            return Diagnosis(ids, "; ".join(dict.fromkeys(one.words for one in named)))
        failed = tuple(one.sample for one in observed if one.failed)
        wrong_forward = self._inherited(function, failed)  # before rounding, which it would be blamed on
        if wrong_forward is not None and wrong_forward.ids != ("low-precision",):
            return wrong_forward
        return self._low_precision(function, observed)

    def _one(self, function: str, observed: list[KernelObservation], indices: list[int]) -> Diagnosis | None:
        """The formula that leaves least unexplained, if it explains these arrays everywhere."""
        return self._best(function, observed, indices, candidates(function, observed, indices))

    def _best(
        self, function: str, observed: list[KernelObservation], indices: list[int], tried: Iterable[Candidate]
    ) -> Diagnosis | None:
        """Name the candidate that leaves least unexplained, and keep it to be tried first on other instances."""
        best: tuple[float, Candidate] | None = None
        every = list(range(1 if function == FORWARD else 3))
        for candidate in tried:
            # Zeros are what many mistakes give: they name one only if the other arrays are its, too.
            some = any(candidate.parts(one.sample)[i].any() for one in observed if one.failed for i in indices)
            left = unexplained(function, observed, indices if some else every, candidate)
            if left is not None and (best is None or left < 0.3 * best[0]):
                best = left, candidate
        if best is None:
            return None
        found = best[1]
        if len(found.ids) == 1:
            self._found[function].setdefault(found.words, found)
        return Diagnosis(found.ids, found.words)

    def _low_precision(self, function: str, observed: list[KernelObservation]) -> Diagnosis | None:
        wrong = [one for one in observed if one.failed]
        if not wrong or max(relative_error(function, one) for one in wrong) > _SMALL_ERROR * (
            4 if self.context.precision.stored else 1
        ):
            return None
        if not self.context.precision.stored and share_off(function, wrong) < _SPREAD:
            return None  # rounding does not spare most entries
        if function == FORWARD and max(map(row_factor, wrong)) > _ONE_SUM:
            return None  # it is row sums that are wrong
        if function == BACKWARD and self._forward_wrong(wrong):
            return None
        curve = self._curve() if function == FORWARD else None
        if curve is not None:
            return curve
        for lower in LOWER[self.context.precision.name]:
            verdicts = [judge(function, one.sample, one.parts, lower) for one in wrong]
            if all(one.status != "failed" for one in verdicts) and min(one.power for one in verdicts) < _VAGUE:
                return Diagnosis(("low-precision",), f"right up to the precision of {lower.name}")
        return None

    def _forward_wrong(self, wrong: list[KernelObservation]) -> bool:
        """Report whether the output is wrong on the same samples, and not by its precision."""
        replies = [(one.sample, self.context.known(FORWARD, one.sample)) for one in wrong]
        seen = [observation(FORWARD, sample, reply) for sample, reply in replies
                if reply is not None and misshapen(FORWARD, sample, reply) is None]  # fmt: skip
        failed = [one for one in seen if one.failed]
        if not failed:
            return False
        found = self._fitted(FORWARD, failed)
        return found is None or found.ids != ("low-precision",)

    def _curve(self) -> Diagnosis | None:
        """Name an error that depends only on the distance to a row's largest logit; v = 1 shows the weights.

        Rounding leaves no curve: equal distances come from logits, and belong to row sums, that are rounded otherwise.
        """
        maker = Maker(self.context.seed, self.context.precision)
        ahead = _AHEAD * (np.arange(_SHOWN) == 0)  # the first key wins most rows, so that no block brings a new maximum
        sample = maker.position_wise(maker.make("weights", _SHOWN, _SHOWN, batch=2), ahead, 1.0)
        sample = sample.changed(v=np.broadcast_to(np.eye(_SHOWN), sample.v.shape).copy())
        try:
            reply = self.context.ask(FORWARD, sample)
        except NoAnswer:
            return None
        if misshapen(FORWARD, sample, reply) is not None or not (reply.parts[0] >= 0).all():
            return None
        steps, weights = evaluate(sample), reply.parts[0]
        z = steps.s - steps.top
        largest = z.argmax(axis=-1)[..., np.newaxis]
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.log(weights / np.take_along_axis(weights, largest, axis=-1)) - z
        seen = (z < 0) & (z > -_NEAR) & np.isfinite(error) & (largest == 0)
        z, error = z[seen], error[seen]
        if not follows_curve(z, error):
            return None
        factor = float(z @ error / (z @ z))
        if np.linalg.norm(error - factor * z) <= _STRAIGHT * np.linalg.norm(error):
            words = f"the logits are multiplied by {format_factor(1 + factor)} beyond the scale"
            return Diagnosis(("logit-scale",), words)
        return _named("approximate-exp")


def _plainest(sample: KernelSample) -> tuple[int, float]:
    return len(sample.features), sample.work


def _named(id: str) -> Diagnosis:
    return Diagnosis((id,), SENTENCES[id])


def _longest(samples: tuple[KernelSample, ...]) -> int:
    """Return the number of queries or keys up to which formulas are evaluated: more where no sample has so few."""
    least = min((sample.longest for sample in samples), default=0)
    return max(_LONGEST, least) if least <= _LONGER else _LONGEST


def _chosen(seen: dict[str, list[KernelObservation]]) -> list[KernelObservation]:
    """Failures of every ordinary regime, small ones first, and what is right about the benign ones."""
    wrong: list[KernelObservation] = []
    failing = [[result for result in group if result.failed] for name, group in seen.items() if name not in EXTREME]
    longest = _longest(tuple(result.sample for group in failing for result in group))
    groups = [
        sorted((result for result in group if result.sample.longest <= longest), key=lambda result: result.sample.work)
        for group in failing
    ]
    for turn in range(3):
        wrong += [group[turn] for group in groups if len(group) > turn]
    right = [one for name in BENIGN for one in seen.get(name, []) if not one.failed and one.sample.longest <= 40]
    return wrong[:_MOST_WRONG] + right[:_MOST_RIGHT]


def _without_formula(function: str, wrong: list[KernelObservation]) -> Diagnosis | None:
    """All zeros, or the same numbers whatever goes in."""
    for index, name in enumerate(parts_of(function, wrong[0].sample)):
        parts = [one.parts[index] for one in wrong if np.any(truth(one.sample)[name].value)]
        if parts and all(not part.any() for part in parts):
            return Diagnosis(("zero-output",), f"{name} is all zeros")
        many = [part for part in parts if part.size > 1 and np.isfinite(part).all()]
        if len(many) > 1 and all(np.ptp(part) == 0 for part in many):
            return Diagnosis(("constant-output",), f"all entries of {name} are equal")
        by_shape: dict[tuple[int, ...], list[NDArray[np.float64]]] = {}
        for part in many:
            by_shape.setdefault(part.shape, []).append(part)
        same = [group for group in by_shape.values() if len(group) > 2]
        if same and all(np.array_equal(group[0], other) for group in same for other in group[1:]):
            return Diagnosis(("constant-output",), f"{name} is the same for different inputs")
    return None


def _never_finite(results: Iterable[KernelObservation]) -> bool:
    return all(not all(np.isfinite(part).all() for part in result.parts) for result in results if result.failed)
