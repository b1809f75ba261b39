"""The known mistakes as formulas of one function, those with a constant to be fitted included."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import combinations, product

import autograd.numpy as anp
import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.kernel.names.forward_mistakes import forward_mistakes
from attnprune_verify.audit.kernel.names.wrong_backward import WrongGradient, backward_mistakes, gradients
from attnprune_verify.audit.kernel.names.wrong_forward import WrongForward, both, differentiated, output
from attnprune_verify.audit.kernel.problem.sample import BACKWARD, FORWARD, Array, KernelSample, parts_of
from attnprune_verify.audit.kernel.truth.steps import evaluate
from attnprune_verify.audit.naming.words import format_factor

Parts = tuple[Array, ...]
_FEW = 12  # chosen: of fewer numbers something is always the factor
_FITTED = 3  # chosen: samples, small ones first, that a constant of changed logits is fitted to
_MOST_ZEROS = 1_000  # chosen: keys that may fill up a tile
_WHOLE = 1e-3  # chosen: how far a number of keys is from a whole one by rounding
_EXPLAINED = 0.1  # chosen: of an error's square, more than a formula may leave that is accepted
_END = 1.1  # chosen: how close to the ends of the factors one is no fit
_FACTORS = np.geomspace(1 / 64, 64, 49)


@dataclass(frozen=True, eq=False)
class KernelObservation:
    """Result of a function on a sample, with the arrays that are wrong."""

    sample: KernelSample
    parts: tuple[NDArray[np.float64], ...]
    wrong: tuple[int, ...]

    @property
    def failed(self) -> bool:
        return bool(self.wrong)


@dataclass(frozen=True)
class Candidate:
    """A mistake or two, and what they make of a sample; as a wrong formula, where they are of the forward pass."""

    ids: tuple[str, ...]
    words: str
    parts: Callable[[KernelSample], Parts]
    wrong: WrongForward | None = None


def candidates(function: str, observed: list[KernelObservation], indices: list[int]) -> Iterator[Candidate]:
    """Fixed formulas first, then those with a constant that the observations determine."""
    yield from _fixed(function)
    wrong = [one for one in observed if one.failed and all(np.isfinite(one.parts[i]).all() for i in indices)]
    if wrong:
        if function == FORWARD:
            yield from _epsilons(wrong)  # before a factor: in rows with one key both are one
        yield from _factors(function, wrong, indices)
        if function == BACKWARD:
            yield from _filled(wrong)
            yield from _known_epsilons(function)
            yield from _varying(wrong, indices)
        yield from _scales(function, wrong, indices)
        yield from _constants(function, wrong, indices)


@lru_cache(maxsize=2)
def _fixed(function: str) -> tuple[Candidate, ...]:
    own = () if function == FORWARD else tuple(_of_gradient(wrong) for wrong in backward_mistakes())
    return (*own, *(_of_wrong(function, wrong) for wrong in forward_mistakes()))


def _of_wrong(function: str, wrong: WrongForward) -> Candidate:
    def parts(sample: KernelSample) -> Parts:
        key = ("wrong", function, wrong.id, wrong.words)
        if key not in sample.memo:
            sample.memo[key] = (output(sample, wrong),) if function == FORWARD else differentiated(sample, wrong)
        found: Parts = sample.memo[key]
        return found

    return Candidate((wrong.id,), wrong.words, parts, wrong)


def as_gradients(found: Iterable[Candidate]) -> list[Candidate]:
    """The gradients of these wrong forward passes."""
    return [_of_wrong(BACKWARD, candidate.wrong) for candidate in found if candidate.wrong]


def beyond(function: str, found: Sequence[Candidate], few: bool) -> Iterator[Candidate]:
    """Two of these mistakes of a forward pass at once; and of few tokens any that is known, alone and beside these."""
    of_forward = [candidate for candidate in found if candidate.wrong]
    yield from _pairs(function, combinations(of_forward, 2))
    if few:
        yield from _fixed(function)
        yield from _pairs(function, product(of_forward[:2], _fixed(function)))


def _pairs(function: str, candidates: Iterable[tuple[Candidate, Candidate]]) -> Iterator[Candidate]:
    for first, second in candidates:
        if first.wrong and second.wrong and first.words != second.words:
            yield replace(_of_wrong(function, both(first.wrong, second.wrong)), ids=first.ids + second.ids)


def _of_gradient(wrong: WrongGradient) -> Candidate:
    def parts(sample: KernelSample) -> Parts:
        key = ("wrong gradient", wrong.id, wrong.words)
        if key not in sample.memo:
            sample.memo[key] = gradients(sample, wrong)
        found: Parts = sample.memo[key]
        return found

    return Candidate((wrong.id,), wrong.words, parts)


def _right(function: str, sample: KernelSample) -> Parts:
    steps = evaluate(sample)
    return tuple(getattr(steps, name) for name in parts_of(function, sample))


def _factors(function: str, wrong: list[KernelObservation], indices: list[int]) -> Iterator[Candidate]:
    """One constant factor for all samples."""
    ratios = []
    for one in wrong:
        right = _right(function, one.sample)
        ratios += [float((one.parts[i] * right[i]).sum() / max((right[i] ** 2).sum(), 1e-300)) for i in indices]
    factor = float(np.median(ratios))
    if factor == 0:  # zeros are no factor
        return
    id = "output-scale" if function == FORWARD else "gradient-sign" if abs(factor + 1) < 0.02 else "gradient-scale"
    yield Candidate(
        (id,), f"the result is {format_factor(factor)} times what it should be",
        lambda sample: tuple(factor * part for part in _right(function, sample)),
    )  # fmt: skip


def _filled(wrong: list[KernelObservation]) -> Iterator[Candidate]:
    """One constant in dS at all forbidden positions, such as the mask writes into logits: fitted to dq of a sample."""

    def parts(sample: KernelSample, constant: float) -> Parts:
        def filled(p: Array, dp: Array) -> Array:
            ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
            ds[..., : sample.k.shape[2]] += constant * ~sample.allowed
            return np.asarray(ds)

        return gradients(sample, WrongGradient("mask-finite", "", ds=filled))

    for seen in wrong:
        right, more = parts(seen.sample, 0.0)[0], parts(seen.sample, 1.0)[0]
        if (more != right).any():
            fit = ((seen.parts[0] - right) * (more - right)).sum() / ((more - right) ** 2).sum()
            words = f"dS is about {fit:.3g} where positions are forbidden"
            yield Candidate(("mask-finite",), words, partial(parts, constant=float(fit)))
            return


def _varying(wrong: list[KernelObservation], indices: list[int]) -> Iterator[Candidate]:
    """One factor for dq and dk a sample, such as 1/m or another scale than the given one."""
    factors: dict[int, float] = {}
    for one in wrong:
        if sum(one.parts[i].size for i in indices) < _FEW:
            continue  # of few numbers something is always the factor
        right = _right(BACKWARD, one.sample)
        products = sum(float((one.parts[i] * right[i]).sum()) for i in indices)
        factors[id(one.sample)] = products / max(sum(float((right[i] ** 2).sum()) for i in indices), 1e-300)
    if any(factors.values()) and 2 not in indices:
        yield Candidate(
            ("gradient-scale",), "the result has a factor that depends on the sizes or the scale",
            lambda sample: tuple(
                part * (factors.get(id(sample), 1.0) if index < 2 else 1.0)
                for index, part in enumerate(_right(BACKWARD, sample))
            ),
        )  # fmt: skip


def _epsilons(wrong: list[KernelObservation]) -> Iterator[Candidate]:
    """O = A / (S + epsilon) for the row sum S of exponentials, shifted or not: epsilon from the smallest rows."""
    for shifted in (True, False):
        found = []
        for one in wrong:
            steps = evaluate(one.sample)
            with np.errstate(all="ignore"):
                s = np.where(steps.allowed, steps.s - (steps.top if shifted else 0.0), -np.inf)
                total = np.exp(s).sum(axis=-1)
                ratio = (one.parts[0] * steps.o).sum(axis=-1) / (steps.o**2).sum(axis=-1)
                found += [float(e) for e in (total * (1 / ratio - 1)).ravel() if np.isfinite(e)]
        epsilon = float(np.median(found)) if found else 0.0
        zeros = round(min(epsilon, _MOST_ZEROS))
        if not shifted and zeros > 0 and abs(epsilon / zeros - 1) < _WHOLE:  # exp(0) for each
            words = (
                f"{zeros} keys with logit 0 and value 0 count" if zeros > 1 else "1 key with logit 0 and value 0 counts"
            )
            yield _of_wrong(FORWARD, WrongForward("padding-counted", words, epsilon=float(zeros), shifted=False))
        elif epsilon > 0:
            what = "the row sum" if shifted else "the row sum of unshifted exponentials"
            yield _of_wrong(FORWARD, WrongForward("denominator-epsilon", f"about {epsilon:.2g} is added to {what}",
                                           epsilon=epsilon, shifted=shifted))  # fmt: skip


def _known_epsilons(function: str) -> Iterator[Candidate]:
    for power in range(-12, 1):
        words = f"about 1e{power} is added to the row sum"
        yield _of_wrong(function, WrongForward("denominator-epsilon", words, epsilon=10.0**power))


def _scales(function: str, wrong: list[KernelObservation], indices: list[int]) -> Iterator[Candidate]:
    """Logits with another factor, fitted for each wrong sample: many numbers explained by one."""
    fitted: dict[int, float] = {}
    for one in wrong:
        if min(one.sample.shape[4], one.parts[indices[0]].size) < 2:
            continue
        factor = _best_factor(function, [one], indices, _scaled)
        right = _right(function, one.sample)
        off = sum(float(np.linalg.norm(one.parts[i] - right[i]) ** 2) for i in indices)
        if {*indices} & {*one.wrong} and not _gap(function, [one], indices, _scaled(factor)) <= _EXPLAINED * off:
            return  # no name any more, so that other samples need no factor
        fitted[id(one.sample)] = factor
    if not fitted:
        return
    factors = sorted(set(fitted.values()))
    if not _FACTORS[0] < factors[0] / _END <= factors[-1] * _END < _FACTORS[-1]:
        return  # at an end of what was tried any factor does as well
    said = format_factor(factors[0]) if factors[-1] - factors[0] < 1e-3 * factors[-1] else "varying factors"
    words = f"the logits are multiplied by {said} beyond the scale"

    def scale(sample: KernelSample) -> float:
        return sample.factor * fitted.get(id(sample), 1.0)

    wrong_scale = WrongForward("logit-scale", words, scale=scale)
    if function == FORWARD:
        yield Candidate(("logit-scale",), words, lambda sample: (output(sample, wrong_scale),))
    else:
        yield Candidate(("logit-scale",), words, lambda sample: differentiated(sample, wrong_scale))


def _constants(function: str, wrong: list[KernelObservation], indices: list[int]) -> Iterator[Candidate]:
    """The cap or the slopes times one constant for all samples, such as log(2) where exponentials have base 2."""
    for feature, made in (("softcap", _capped), ("alibi", _sloped)):
        if any(getattr(one.sample, feature) is None for one in wrong):
            continue
        factor = _best_factor(function, wrong[:_FITTED], indices, made)
        yield _of_wrong(function, replace(made(factor), words=f"{feature} is multiplied by {format_factor(factor)}"))


def _scaled(factor: float) -> WrongForward:
    return WrongForward("logit-scale", "", scale=lambda sample: factor * sample.factor)


def _capped(factor: float) -> WrongForward:
    return WrongForward("softcap-wrong", "", capped=lambda s, c: factor * c * anp.tanh(s / (factor * c)))


def _sloped(factor: float) -> WrongForward:
    return WrongForward("alibi-wrong", "", slopes=lambda alibi, heads, kv_heads: factor * alibi)


def _best_factor(
    function: str, some: list[KernelObservation], indices: list[int], made: Callable[[float], WrongForward]
) -> float:
    """The factor with which a wrong formula comes closest to the results."""

    def left(log_factor: float) -> float:
        return _gap(function, some, indices, made(float(np.exp(log_factor))))

    grid = np.log(_FACTORS)
    best = int(np.argmin([left(x) for x in grid]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    from scipy.optimize import minimize_scalar  # a third of what importing the audit of kernels would take

    return float(np.exp(minimize_scalar(left, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).x))


def _gap(function: str, some: list[KernelObservation], indices: list[int], wrong: WrongForward) -> float:
    """Sum up the squares of the errors that a wrong formula leaves."""
    gap = 0.0
    for seen in some:
        parts = (output(seen.sample, wrong),) if function == FORWARD else differentiated(seen.sample, wrong)
        gap += sum(float(np.linalg.norm(seen.parts[i] - parts[i]) ** 2) for i in indices)
    return gap if np.isfinite(gap) else 1e300
