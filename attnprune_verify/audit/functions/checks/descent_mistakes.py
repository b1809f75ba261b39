"""The right descent, and the wrong ones that people write: which of them gives this M?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from attnprune_verify.audit.functions.naming.mistakes import MISTAKES
from attnprune_verify.audit.functions.truth.conventions import smallest_first
from attnprune_verify.audit.functions.truth.formulas import RIGHT, Array, Steps, attention_part
from attnprune_verify.audit.functions.truth.samples import Sample
from attnprune_verify.audit.naming.searching import search_for_names
from attnprune_verify.model.functions import gradient

__all__ = [
    "CLOSE", "ETA", "RHO", "STEPS", "close", "descend", "first_wrong_step", "gradient_of", "kept", "named",
    "named_by_first", "named_long", "of_momentum", "rounded_other", "tolerance",
]  # fmt: skip

CLOSE = 1e-9  # chosen: far above the rounding of six steps, far below the effect of another step
ETA, STEPS, RHO = 0.4, 6, 0.45  # chosen: steps at which M leaves 1 by tenths, on the way still

Gradient = Callable[[Array], Array]
Decay = Callable[[int, int], float]  # of the step's number and of how many there are

# Steps that get smaller, or larger, although one length was asked for.
_DECAYS: tuple[Decay, ...] = (
    lambda step, steps: 1 / (1 + step),
    lambda step, steps: (1 + step) ** -0.5,
    lambda step, steps: 1.0 + step,
    lambda step, steps: 1 - step / steps,
    lambda step, steps: 1 - (step + 1) / (steps + 1),
    lambda step, steps: 0.5 * (1 + np.cos(np.pi * step / steps)),
    lambda step, steps: 0.5 * (1 + np.cos(np.pi * step / max(steps - 1, 1))),
    *(partial(lambda step, steps, by: min(1.0, (step + 1) / by), by=by) for by in (3, 5, 10, 20, 50, 100)),
    *(partial(lambda step, steps, by: by**step, by=by) for by in (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)),
    *(partial(lambda step, steps, by: by ** (step // 30), by=by) for by in (0.1, 0.5)),
)


def tolerance(sample: Sample) -> float:
    """The relative error that a few steps may have: rounding stays rounding on benign instances."""
    unit = sample.unit_roundoff
    return max(CLOSE, (24 if sample.precision.short else 300) * unit)


def close(sample: Sample, got: Array, expected: Array) -> bool:
    return got.shape == expected.shape and bool(
        np.linalg.norm(got - expected) <= tolerance(sample) * max(1.0, float(np.linalg.norm(expected)))
    )


def descend(
    of: Gradient,
    shape: tuple[int, ...],
    steps: int = STEPS,
    eta: float = ETA,
    momentum: float = 0.0,
    form: str = "heavy-ball",
    start: float = 1.0,
    project: bool = False,
    decay: Decay | None = None,
) -> Array:
    M, v = np.full(shape, start), np.zeros(shape)
    for step in range(steps):
        g = of(M - eta * momentum * v if form == "looking ahead" else M)
        v = momentum * v + (1 - momentum if form == "ema" else 1.0) * g
        length = eta if decay is None else eta * decay(step, steps)
        M = M - length * (g + momentum * v if form == "nesterov" else v)
        if project:
            M = np.clip(M, 0.0, 1.0)
    return M


def gradient_of(sample: Sample, lam: float | None = None) -> Gradient:
    X, W = sample.X.astype(float), sample.W.astype(float)
    return lambda M: gradient(M, X, W, sample.lam if lam is None else lam, sample.mask)


def kept(M: Array, rho: float = RHO) -> Array:
    """The rounded mask: 0 at the smallest entries."""
    return np.where(smallest_first(M, int(rho * M.size)), 0.0, 1.0)


@search_for_names
def named(sample: Sample, M: Array, steps: int) -> tuple[str, ...]:
    """The wrong descent that gives this M, if it is a known one."""
    for id, program in _programs(sample, steps):
        if close(sample, M, program()):
            return (id,)
    for mistake in MISTAKES:
        if mistake.applies("gradient"):
            wrong = _wrong_gradient(sample, {**RIGHT, **mistake.steps})
            if close(sample, M, descend(wrong, sample.W.shape, steps)):
                return (mistake.id,)
    return ("unknown",)


def _programs(sample: Sample, steps: int) -> Iterator[tuple[str, Callable[[], Array]]]:
    of, shape = gradient_of(sample), sample.W.shape
    k = sample.X.shape[0] if sample.X.ndim == 3 else 1

    def plain(**options: Any) -> Callable[[], Array]:
        return partial(descend, of, shape, **{"steps": steps, **options})

    def regularised(factor: float) -> Callable[[], Array]:
        return partial(descend, gradient_of(sample, factor * sample.lam), shape, steps)

    def scaled(factor: float) -> Callable[[], Array]:
        return partial(descend, lambda M: factor * (of(M) - sample.lam * M) + sample.lam * M, shape, steps)

    def rounded() -> Array:
        M = plain()()
        return np.asarray(M * kept(M))

    yield from (("hidden-momentum", plain(momentum=0.9, form=form)) for form in ("heavy-ball", "ema", "nesterov"))
    yield from (("ignores-steps", plain(steps=count)) for count in (steps + 1, max(steps - 1, 0), 100))
    yield from (("initial-mask", plain(start=start)) for start in (0.0, 0.5))
    yield "clips-or-rounds-M", plain(project=True)
    yield "clips-or-rounds-M", lambda: np.clip(plain()(), 0.0, 1.0)
    yield "clips-or-rounds-M", rounded
    yield "missing-regularizer", regularised(0.0)
    factors = (2.0, 0.5, 1 / k, float(sample.n), 1 / ETA, 1 + 1 / ETA)  # 1 / eta: the step leaves out the regulariser
    yield from (("regularizer-scale", regularised(factor)) for factor in factors)
    yield "hadamard-uses-masked-W", lambda: descend(lambda M: M * of(M), shape, steps)
    yield "weights-overwritten", partial(_overwriting, sample, steps)
    if sample.X.ndim == 3:
        alone = [gradient_of(sample.changed(X=tokens)) for tokens in sample.X]
        yield "batch-not-averaged", lambda: _in_turn(alone, shape, steps)
        yield from (("batch-not-averaged", partial(descend, one, shape, steps)) for one in (alone[0], alone[-1]))
    yield "gradient-sign", plain(eta=-ETA)
    yield "gradient-sign", scaled(-1.0)
    yield "dense-target-uses-M", scaled(0.0)
    yield from (("ignores-step", plain(eta=eta)) for eta in _etas(sample))
    if steps:
        yield from (("ignores-step", plain(decay=decay)) for decay in _DECAYS)
    yield from (("gradient-scale", scaled(factor)) for factor in (2.0, 0.5, float(k), 1 / k))


def _overwriting(sample: Sample, steps: int) -> Array:
    """Every step leaves the masked weights behind, for the target, too."""
    M, at = np.ones(sample.W.shape), sample
    for _ in range(steps):
        M = M - ETA * gradient_of(at)(M)
        at = at.changed(W=M * at.W.astype(float))
    return M


def _in_turn(alone: list[Gradient], shape: tuple[int, ...], steps: int) -> Array:
    M = np.ones(shape)
    for step in range(steps):
        M = M - ETA * alone[step % len(alone)](M)
    return M


@search_for_names
def named_by_first(sample: Sample, M: Array, steps: int, first: float) -> tuple[str, ...]:
    """The wrong descent that gives this M, if its first step, the same for all entries, was `first` times eta.

    The right one is lam. It tells the bound of what is clipped, the length of what is normalised, a factor of lam.
    """
    of, shape, size = gradient_of(sample), sample.W.shape, float(sample.W.size) ** 0.5
    if not first > 0:
        return ("unknown",)

    def by(change: Callable[[Array], Array]) -> Callable[[], Array]:
        return lambda: descend(lambda M: change(of(M)), shape, steps)

    programs: list[tuple[str, Callable[[], Array]]] = [
        ("gradient-clipped", by(lambda g: np.clip(g, -first, first))),
        ("gradient-clipped", by(lambda g: g * min(1.0, first * size / np.linalg.norm(g)))),
        ("other-optimizer", by(lambda g: first * size * g / np.linalg.norm(g))),
        ("other-optimizer", by(lambda g: first * np.sign(g))),
        *(("other-optimizer", partial(_adaptive, of, shape, steps, rule)) for rule in _ADAPTIVE),
    ]
    if sample.lam:
        programs += [
            ("regularizer-scale", partial(descend, gradient_of(sample, first), shape, steps)),
            ("ignores-step", partial(descend, of, shape, steps, ETA * first / sample.lam)),
        ]
    return next(((id,) for id, program in programs if close(sample, M, program())), ("unknown",))


# Betas, epsilon, and whether the averages are corrected: Adam as it stands in textbooks, RMSprop, Adagrad.
_ADAPTIVE = ((0.9, 0.999, 1e-8, True), (0.0, 0.99, 1e-8, False), (0.0, 0.9, 1e-8, False), (0.0, 1.0, 1e-10, False))


def _adaptive(of: Gradient, shape: tuple[int, ...], steps: int, rule: tuple[float, float, float, bool]) -> Array:
    first, second, epsilon, corrected = rule
    M, mean, square = np.ones(shape), np.zeros(shape), np.zeros(shape)
    for step in range(1, steps + 1):
        g = of(M)
        mean = first * mean + (1 - first) * g
        square = second * square + (1 - second if second < 1 else 1.0) * g * g
        by = (1 - first**step, 1 - second**step) if corrected else (1.0, 1.0)
        M = M - ETA * (mean / by[0]) / (np.sqrt(square / by[1]) + epsilon)
    return M


@search_for_names
def rounded_other(sample: Sample, M: Array, mask: Array, rho: float, steps: int) -> tuple[str, ...]:
    """Return True where the mask is that of another matrix: the iterate before, or the masked weights."""
    weights = M * sample.W.astype(float)
    others = (descend(gradient_of(sample), M.shape, max(steps - 1, 0)), weights, np.abs(weights))
    return ("mask-of-other-M",) if any(np.array_equal(mask, kept(one, rho)) for one in others) else ()


def _etas(sample: Sample) -> tuple[float, ...]:
    lam = sample.lam or 1.0
    return (ETA / 2, 2 * ETA, 0.1, 0.01, 0.001, 0.1 / lam, 0.1 / (sample.n * lam), 1.0)


def _wrong_gradient(sample: Sample, steps: Steps) -> Gradient:
    return lambda M: attention_part("gradient", sample.changed(M=M), steps)[0] + sample.lam * M


@search_for_names
def named_long(sample: Sample, M: Array, steps: int, eta: float) -> tuple[str, ...]:
    """Another number of steps, up to twice as many, or steps of changing length."""
    of = gradient_of(sample)
    at, shape = np.ones(sample.W.shape), sample.W.shape
    if close(sample, M, descend(gradient_of(sample, 0.0), shape, steps=steps, eta=eta)):
        return ("missing-regularizer",)
    for _ in range(2 * steps):
        at = at - eta * of(at)
        if close(sample, M, at):
            return ("ignores-steps",)
    if any(close(sample, M, descend(of, shape, steps=steps, eta=eta, decay=decay)) for decay in _DECAYS):
        return ("ignores-step",)
    return ("unknown",)


@search_for_names
def first_wrong_step(sample: Sample, iterate: Callable[[int], Array], steps: int, eta: float) -> tuple[str, ...]:
    """Return the mistake of the first wrong step among `steps`; `iterate` gives M after a number of steps.

    From M_{k-1}, which is right, to M_k: no step at all, one along the gradient of another length, or one that goes on
    as the step before did.
    """
    of, right, wrong = gradient_of(sample), 0, steps
    while wrong - right > 1:
        middle = (right + wrong) // 2
        expected = descend(of, sample.W.shape, middle, eta=eta)
        right, wrong = (middle, wrong) if close(sample, iterate(middle), expected) else (right, middle)
    if not right:
        return ("unknown",)
    at = iterate(right)
    step, slope, before = iterate(wrong) - at, of(at), at - iterate(right - 1)
    if np.linalg.norm(step) <= tolerance(sample):
        return ("ignores-steps",)
    if _parallel(step, slope):
        return ("ignores-step",)
    return ("hidden-momentum",) if _parallel(step + eta * slope, before) else ("unknown",)


@search_for_names
def of_momentum(sample: Sample, iterate: Callable[[int], Array], eta: float, momentum: float) -> tuple[str, ...]:
    """Name the mistake of the second step, fitted as a times the gradient there plus b times the first step.

    Heavy ball has a = eta and b = eta momentum; of a moving average both are 1 - momentum of these.
    """
    of, (M, one, two) = gradient_of(sample), (iterate(count) for count in range(3))
    slopes = np.stack([of(one).ravel(), of(M).ravel()], axis=1)
    (a, b), *_ = np.linalg.lstsq(slopes, (one - two).ravel(), rcond=None)
    if np.linalg.norm(slopes @ (a, b) - (one - two).ravel()) > _ALONG * np.linalg.norm(one - two):
        return ("unknown",)
    return ("hidden-momentum",) if abs(b / a - momentum) > _ALONG else ("ignores-step",)


_ALONG = 1e-6  # of a step that may lie outside: its digits are those of M, of which it is a hundredth


def _parallel(step: Array, along: Array) -> bool:
    left = step - (step * along).sum() / max(float((along * along).sum()), 1e-300) * along
    return bool(np.linalg.norm(left) <= _ALONG * np.linalg.norm(step))
