"""Does a wrong formula reproduce what a function returned, up to factors of its two terms?

A result is compared with ``a * attention part + b * regulariser``. For matrices a and b are fitted entry by entry; for
a single number they come from a list of factors people use, or are constants fitted over many instances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.functions.truth.formulas import Array, Steps, attention_part, through_entry
from attnprune_verify.audit.functions.truth.reference import Component, reference, spread
from attnprune_verify.audit.functions.truth.samples import Sample

_NUMBERS = ("loss", "factored_loss", "relative_error", "layer_loss")
_UNREGULARIZED = ("attention", "relative_error", "layer_attention", "layer_relative_error")
LISTED = 25  # about so many factors are tried of a number
_MOST_UNSEEN = 1e3  # a factor of what cannot be seen
_APART = 3.0  # tolerances from what is right; nearer, any formula with a factor is a fit
_CHANCE = -3.0  # decimal logarithm of how often noise may be given a name
_OWN = 4.0  # units of rounding of what was returned: an order of summation more or less
_ROOM = 100.0  # in units of the rounding error of the right formula; a wrong one may cancel more

Factors = tuple[float, float]
Kept = TypeVar("Kept")


@dataclass(frozen=True, eq=False)
class Observation:
    """A sample and the parts that a function returned on it."""

    sample: Sample
    parts: tuple[NDArray[Any] | None, ...]  # None: not to be looked at


@dataclass(frozen=True)
class Fit:
    """The names of the regulariser's form, and the factors (a, b) per observation and part; nan: not determined."""

    regularizer: str
    factors: tuple[tuple[Factors, ...], ...]


def compared(function: str, observations: list[Observation]) -> Iterator[tuple[Array, Component]]:
    """Yield each returned part under comparison, with the right one."""
    for one in observations:
        for part, truth in zip(one.parts, reference(function, one.sample), strict=True):
            if part is not None:
                yield part, truth


def tolerances(function: str, sample: Sample) -> tuple[float, ...]:
    """Largest distance, in norm, at which a formula counts as equal up to rounding; one for each part."""

    def computed() -> tuple[float, ...]:
        sizes = (float(np.linalg.norm(part.value)) + 1e-300 for part in reference(function, sample))
        both = zip(spread(function, sample), sizes, strict=True)
        return tuple(_ROOM * (off + sample.unit_roundoff * size) for off, size in both)

    return _once(sample, ("tolerances", function), computed)


def _once(sample: Sample, key: object, compute: Callable[[], Kept]) -> Kept:
    """Compute a value of a sample on its first use, and keep it."""
    if key not in sample.memo:
        sample.memo[key] = compute()
    found: Kept = sample.memo[key]
    return found


def telling(function: str, observations: list[Observation], candidates: int, free: int = 0) -> bool:
    """Return True where no chance explains a fit of one of `candidates` formulas with `free` factors an observation.

    A random number of the size of the returned one falls within the tolerance with probability about 2 tolerance /
    size, an array with that to the power of its entries, less those that the free factors use up. A factor of a number
    is one of a list, which multiplies the candidates instead.
    """
    chance, apart = float(np.log10(candidates)), False
    for observation in observations:
        truth = reference(function, observation.sample)
        for part, true, tolerance in zip(
            observation.parts, truth, tolerances(function, observation.sample), strict=True
        ):
            if part is None or tolerance == 0.0:
                continue
            tolerance = max(tolerance, _own(observation.sample, part))
            finite = part[np.isfinite(part)]  # what overflowed tells nothing by its size
            size = max(float(np.linalg.norm(finite)), float(np.linalg.norm(true.value)))
            if size == 0.0:
                continue
            with np.errstate(invalid="ignore", over="ignore"):
                apart |= not float(np.linalg.norm(part - true.value)) <= _APART * tolerance
            hit = min(0.0, float(np.log10(2 * tolerance / size)))
            listed = free * np.log10(LISTED) if part.size == 1 else 0.0
            # One more entry for the tolerance, which grows with a factor.
            told = max(part.size - free - (free > 0), 1) if part.size > 1 else 1
            chance += min(0.0, hit * told + listed)
    return apart and chance < _CHANCE


def matches(function: str, observations: list[Observation], steps: Steps, name: object) -> bool:
    """Return True where these steps, with the right regulariser, give every observed result."""
    for observation in observations:
        attention = _attention(function, observation.sample, steps, name)
        regular = _regular("right", function, observation.sample, steps)
        allowed = tolerances(function, observation.sample)
        for part, candidate, term, tolerance in zip(observation.parts, attention, regular, allowed, strict=True):
            if part is not None and not _close(part, candidate + term, max(tolerance, _own(observation.sample, part))):
                return False
    return True


def _own(sample: Sample, part: Array) -> float:
    """The rounding of a result itself, which counts where what is right is 0."""
    return _OWN * sample.unit_roundoff * float(np.linalg.norm(part[np.isfinite(part)]))


def same_as_right(function: str, observations: list[Observation], steps: Steps, name: object, right: Steps) -> bool:
    """Return True where these steps agree with the right ones on the observed samples."""

    def alike(sample: Sample) -> tuple[bool, ...]:
        both = (_attention(function, sample, *one) for one in ((steps, name), (right, "right")))
        pairs = zip(*both, tolerances(function, sample), strict=True)
        return tuple(_close(ours, theirs, 2 * bound) for ours, theirs, bound in pairs)

    for sample, parts in ((one.sample, one.parts) for one in observations):
        same = _once(sample, ("same as right", function, name), partial(alike, sample))
        if not all(part is None or one for part, one in zip(parts, same, strict=True)):
            return False
    return True


def fits(function: str, observations: list[Observation], steps: Steps, name: object) -> Fit | None:
    """The factors with which these steps give every observed result, or None."""
    found = []
    for form in _forms(function):
        factors: list[tuple[Factors, ...]] = []
        for observation in observations:
            one = _fit_one(function, observation, steps, name, form)
            if one is None:
                break
            factors.append(one)
        else:
            found.append(Fit(form, tuple(factors)))
    if not found and function in _NUMBERS:
        return _joint(function, observations, steps, name)
    # A form that needs no further factor of the regulariser explains more, then one with the same factor throughout.
    return min(found, key=_strangeness, default=None)


def _strangeness(fit: Fit) -> int:
    factors = np.array([b for parts in fit.factors for _, b in parts if b == b])
    if (factors == 1).all():
        return 0
    return 1 if np.ptp(factors) <= 1e-6 * np.abs(factors).max() else 2


def _forms(function: str) -> list[str]:
    if function in _UNREGULARIZED:
        return ["right"]
    return [form for form in _REGULARIZERS if form == "right" or function in _ONLY.get(form, (function,))]


def _attention(function: str, sample: Sample, steps: Steps, name: object) -> tuple[Array, ...]:
    if name is None:
        return attention_part(function, sample, steps)
    return _once(sample, ("formula", function, name), partial(attention_part, function, sample, steps))


def _regular(form: str, function: str, sample: Sample, steps: Steps) -> tuple[Array, ...]:
    if function in _UNREGULARIZED:
        return tuple(np.zeros(part.value.shape) for part in reference(function, sample))
    compute = partial(_REGULARIZERS[form], function)
    if "enter" in steps:
        return through_entry(sample, steps, compute)
    return _once(sample, ("regularizer", function, form), partial(compute, sample))


def _close(part: Array, candidate: Array, tolerance: float) -> bool:
    if part.shape != candidate.shape:
        return False
    with np.errstate(all="ignore"):
        equal = (part == candidate) | (np.isnan(part) & np.isnan(candidate))
        gap = np.where(equal, 0.0, part - candidate)
        return bool(np.linalg.norm(gap) <= tolerance)


def _fit_one(
    function: str, observation: Observation, steps: Steps, name: object, form: str
) -> tuple[Factors, ...] | None:
    attention = _attention(function, observation.sample, steps, name)
    regular = _regular(form, function, observation.sample, steps)
    allowed = tolerances(function, observation.sample)
    found = []
    for part, candidate, term, tolerance in zip(observation.parts, attention, regular, allowed, strict=True):
        if part is None:
            found.append((np.nan, np.nan))
            continue
        if part.shape != candidate.shape or not (np.isfinite(part).all() and np.isfinite(candidate).all()):
            return None
        usable = (bool(np.linalg.norm(candidate) > 10 * tolerance), bool(np.linalg.norm(term) > 10 * tolerance))
        number = part.size < 4
        factors = (_listed if number else _fitted)(part, candidate, term, tolerance, usable, observation.sample)
        if factors is None:
            return None
        found.append(factors)
    return tuple(found)


def _fitted(
    part: Array, candidate: Array, term: Array, tolerance: float, usable: tuple[bool, bool], sample: Sample
) -> Factors | None:
    if not any(usable):
        return (np.nan, np.nan) if np.linalg.norm(part) <= tolerance else None
    # A term too small to tell its factor still leaves its trace in the result.
    there = tuple(use or np.linalg.norm(c) > 0.1 * tolerance for c, use in zip((candidate, term), usable, strict=True))
    columns = [column for column, use in zip((candidate, term), there, strict=True) if use]
    # Columns of very different size would drown the smaller in the solver's relative cut-off.
    scales = [float(np.linalg.norm(column)) for column in columns]
    matrix = np.stack([column.ravel() / scale for column, scale in zip(columns, scales, strict=True)], axis=1)
    solution, _, rank, _ = np.linalg.lstsq(matrix, part.ravel().astype(float), rcond=1e-12)
    # A factor magnifies the noise of the attention part; the regulariser has none, only the result's own rounding.
    magnified = tolerance * max(1.0, abs(float(solution[0]) / scales[0])) if usable[0] else tolerance
    if there[0] and not usable[0] and abs(float(solution[0]) / scales[0]) > _MOST_UNSEEN:
        return None
    allowed = magnified + _ROOM * sample.unit_roundoff * float(np.linalg.norm(part))
    if rank < len(columns) or np.linalg.norm(matrix @ solution - part.ravel()) > allowed:
        return None
    values = iter(float(value / scale) for value, scale in zip(solution, scales, strict=True))
    sizes = iter(scales)
    found = [_snapped(next(values), tolerance / next(sizes)) if kept else np.nan for kept in there]
    a, b = (factor if use else np.nan for factor, use in zip(found, usable, strict=True))
    return a, b


def _snapped(factor: float, uncertainty: float) -> float:
    """A factor that is 1, 0 or -1 to within rounding, exactly so."""
    return next((whole for whole in (1.0, 0.0, -1.0) if abs(factor - whole) <= 4 * uncertainty), factor)


def _listed(
    part: Array, candidate: Array, term: Array, tolerance: float, usable: tuple[bool, bool], sample: Sample
) -> Factors | None:
    if part.size != 1:
        return None
    a = np.array(_factors(sample) if usable[0] else [np.nan])
    b = np.array(_factors(sample) if usable[1] else [np.nan])
    one, other = np.nan_to_num(a)[:, np.newaxis], np.nan_to_num(b)
    gaps = np.abs(float(part.reshape(())) - one * float(candidate.reshape(())) - other * float(term.reshape(())))
    good = np.argwhere(gaps <= tolerance * np.maximum(1.0, np.maximum(np.abs(one), np.abs(other))))
    if not good.size:
        return None
    first, second = min(good, key=lambda pair: int(pair[0] > 0) + int(pair[1] > 0))  # the fewest wrong factors
    return float(a[first]), float(b[second])


def _factors(sample: Sample) -> list[float]:
    """Factors people put in front of a term, the right one first."""
    n, d = sample.n, sample.d
    k = sample.X.shape[0] if sample.X.ndim == 3 else 1
    sizes = [2.0, 0.5, 0.0, -1.0, 4.0, 0.25, 1 / n, 2 / n, 1 / n**2, 2 / n**2]
    sizes += [1 / d, 1 / d**2, 2 / d**2, 2 / d, n, d, n * n, d * d, k, 1 / k]
    # Without a regulariser, what people add where nothing was asked for.
    inverse = [1 / sample.lam, sample.lam**-0.5] if sample.lam > 0 else [0.1, 0.01, 1e-3]
    return list(dict.fromkeys([1.0, *sizes, sample.lam, 2 * sample.lam, *inverse]))


def _joint(function: str, observations: list[Observation], steps: Steps, name: object) -> Fit | None:
    """Factors of a number that are the same on all observations, or too round for chance."""
    rows = []
    for observation in observations:
        part, tolerance = observation.parts[0], tolerances(function, observation.sample)[0]
        attention = float(_attention(function, observation.sample, steps, name)[0])
        regular = float(_regular("right", function, observation.sample, steps)[0])
        if part is None or not np.isfinite([float(part), attention, regular]).all():
            return None
        rows.append((float(part), attention, regular, tolerance, observation.sample.lam))
    values, attention_, regular_, allowed, lams = np.array(rows).T
    a = _common((values - regular_), attention_, allowed)
    if a is not None:
        return Fit("right", tuple(((a, 1.0 if term else np.nan),) for term in regular_))
    both = _common(values, attention_ + regular_, allowed)
    if both is not None:
        return Fit("right", tuple(((both, both if term else np.nan),) for term in regular_))
    b = _common(values - attention_, regular_, allowed)
    if b is not None:
        return Fit("right", tuple(((1.0, b),) for _ in observations))
    capped = _common(
        values - attention_, regular_ / np.where(lams > 0, lams, 1.0), allowed
    )  # another lam, always the same
    if capped is not None and (lams > 0).all():
        return Fit("right", tuple(((1.0, capped / lam),) for lam in lams))
    return _two_factors(values, attention_, regular_, allowed)


def _common(values: Array, terms: Array, allowed: Array) -> float | None:
    """The factor f with ``values = f terms`` throughout: seen twice, or a number of few digits."""
    if not (np.abs(terms) > 1e4 * allowed).any():
        return None
    best = int(np.argmax(np.abs(terms) / allowed))
    factor = float(values[best] / terms[best])
    if not (np.abs(values - factor * terms) <= allowed * max(1.0, abs(factor))).all():
        return None
    decided = int((np.abs(terms) > 1e4 * allowed).sum())
    # Of numbers known to five digits only, as in float32, one in ten has four.
    known, short = 4 * float(allowed[best] / abs(terms[best])), float(f"{factor:.4g}")
    return factor if decided >= 2 or (abs(factor - short) <= known < 1e-6 * abs(factor)) else None


def _two_factors(values: Array, attention: Array, regular: Array, allowed: Array) -> Fit | None:
    matrix = np.stack([attention / allowed, regular / allowed], axis=1)
    if len(values) < 5 or not np.isfinite(matrix).all():
        return None
    solution, _, rank, _ = np.linalg.lstsq(matrix, values / allowed, rcond=None)
    if rank < 2 or np.abs(matrix @ solution - values / allowed).max() > max(1.0, np.abs(solution).max()):
        return None
    factors: Factors = (float(solution[0]), float(solution[1]))
    return Fit("right", tuple((factors,) for _ in values))


Form = Callable[[str, Sample], tuple[Array, ...]]
_PAIRS = ("factored_loss", "factored_gradient", "layer_loss", "layer_gradient")


def _regularizer(
    of_loss: Callable[[Array], Any],
    of_gradient: Callable[[Array], Array],
    of_product: str = "V",
    pair: str = "QK",
    weighed: bool = False,
    unasked: bool = False,
) -> Form:
    def terms(function: str, sample: Sample) -> tuple[Array, ...]:
        W = sample.W.astype(float) if weighed else np.ones(sample.W.shape)
        M = sample.M.astype(float)
        M_Q, M_K = (getattr(sample, f"M_{side}").astype(float) * (side in pair) for side in "QK")
        values: dict[str, Callable[[], tuple[Any, ...]]] = {
            "loss": lambda: (of_loss(M * W),),
            "gradient": lambda: (W * of_gradient(M * W),),
            "loss_and_gradient": lambda: (of_loss(M * W), W * of_gradient(M * W)),
            "hessian_vector_product": lambda: (of_gradient(getattr(sample, of_product).astype(float)),),
            "factored_loss": lambda: (of_loss(M_Q) + of_loss(M_K),),
            "factored_gradient": lambda: (of_gradient(M_Q), of_gradient(M_K)),
            "layer_loss": lambda: (of_loss(M_Q) + of_loss(M_K),),
            "layer_gradient": lambda: (of_gradient(M_Q), of_gradient(M_K)),
        }
        lam = sample.lam or float(unasked)
        return tuple(np.asarray(lam * value) for value in values[function]())

    return terms


def _squares(M: Array) -> Any:
    return 0.5 * (M * M).sum()


def _normed(M: Array) -> Array:
    return M / max(float(np.sqrt((M * M).sum())), 1e-300)


_REGULARIZERS: dict[str, Form] = {
    "right": _regularizer(_squares, lambda M: M),
    "not squared": _regularizer(lambda M: 0.5 * np.sqrt((M * M).sum()), _normed),
    "the sum of absolute values": _regularizer(lambda M: 0.5 * np.abs(M).sum(), np.sign),
    "that of M - 1": _regularizer(lambda M: _squares(M - 1), lambda M: M - 1),
    "the sum of entries": _regularizer(lambda M: 0.5 * M.sum(), np.ones_like),
    "that of M*W": _regularizer(_squares, lambda M: M, weighed=True),
    "transposed": _regularizer(_squares, np.transpose),
    "symmetrised": _regularizer(_squares, lambda M: (M + M.T) / 2),
    "lam M instead of lam V": _regularizer(_squares, lambda M: M, of_product="M"),
    "there though lam = 0": _regularizer(_squares, lambda M: M, unasked=True),
    "that of M_Q alone": _regularizer(_squares, lambda M: M, pair="Q"),
    "that of M_K alone": _regularizer(_squares, lambda M: M, pair="K"),
}
_FIRST_ORDER = ("loss", "gradient", "loss_and_gradient")
_MATRICES = ("gradient", "hessian_vector_product", "loss_and_gradient")
_ONLY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("not squared", "the sum of absolute values", "that of M - 1", "the sum of entries"), (*_FIRST_ORDER, *_PAIRS)
    ),
    "that of M*W": _FIRST_ORDER,
    **dict.fromkeys(("transposed", "symmetrised"), _MATRICES),
    "lam M instead of lam V": ("hessian_vector_product",),
    **dict.fromkeys(("that of M_Q alone", "that of M_K alone"), _PAIRS),
}
"""The functions in which each form can stand, where that is not all of them."""
