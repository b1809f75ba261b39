"""Check the gradient of any function by Taylor's remainder, multiprecision and automatic differentiation."""

import importlib
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.errors import InvalidInstance

_ROOM = 30.0  # chosen: as the audit's room over the spread of trusted programs
_HALVINGS = 12  # chosen: from steps of the size of x down to 2^-12 of it, where rounding has overtaken the remainder
_DIGITS = 50  # chosen: a central difference with step 1e-16 is then right to 1e-30
_EPS = {"float64": 2.0**-52, "float32": 2.0**-23}
Array = NDArray[np.float64]
Args = tuple[object, ...]
Function = Callable[..., Any]


@dataclass(frozen=True)
class GradientWay:
    """A comparison of the gradient along every direction.

    Attributes
    ----------
    name : str
        "taylor-slope", "multiprecision" or the framework that differentiated.
    error : float
        The largest deviation, relative to the largest slope of a direction.
    seen : float
        The smallest relative error of the gradient that would have been noticed.
    slope : float or None
        Of the remainder |f(x + h v) - f(x - h v) - 2 h <g, v>| against h, in logarithms: 3 where the gradient is right,
        1 where it is wrong; None where rounding hides it.
    """

    name: str
    error: float
    seen: float
    slope: float | None = None

    @property
    def status(self) -> str:
        return "failed" if not self.error <= self.seen else "passed" if self.seen < 1 else "inconclusive"


@dataclass(frozen=True, repr=False)
class GradientCheck:
    """The result of `check_gradient`.

    Attributes
    ----------
    ways : tuple of GradientWay
        The comparisons that could be made.
    skipped : dict of str to str
        The others, and why.
    """

    ways: tuple[GradientWay, ...]
    skipped: dict[str, str]

    @property
    def status(self) -> str:
        found = {way.status for way in self.ways}
        return next((status for status in ("failed", "passed") if status in found), "inconclusive")

    @property
    def seen(self) -> float:
        """The smallest relative error that would have been noticed."""
        return min(way.seen for way in self.ways)

    def assert_passed(self) -> None:
        """Raise what a test raises, unless the gradient passed.

        Raises
        ------
        AssertionError
            With every comparison.
        """
        if self.status != "passed":
            raise AssertionError(repr(self))

    def __repr__(self) -> str:
        said = [f"{way.name} {way.status}: off by {way.error:.2g}, sees {way.seen:.2g}" for way in self.ways]
        said += [f"{name} skipped: {why}" for name, why in self.skipped.items()]
        return f"<gradient {self.status}; {'; '.join(said)}>"


def check_gradient(
    f: Callable[..., Any],
    x: ArrayLike,
    *,
    gradient: Callable[..., Any] | ArrayLike | None = None,
    args: Args = (),
    samples: int = 4,
    seed: int = 0,
    precision: str = "float64",
    f_mp: Callable[..., Any] | None = None,
) -> GradientCheck:
    """Check the gradient of a function of an array, along random directions and along the gradient itself.

    Parameters
    ----------
    f : callable
        ``f(x, *args)``, a number.
    x : array
        Where, of any shape.
    gradient : callable or array, optional
        ``gradient(x, *args)``, or its value at x; None: by the first of autograd, torch and jax that takes f.
    args : tuple
        What f and gradient get beside x.
    samples : int
        Random directions, beside the gradient's own.
    seed : int
        Of the directions.
    precision : "float64" or "float32"
        In which f and the gradient compute.
    f_mp : callable, optional
        f for arrays of mpmath numbers, where f itself does not take them.

    Returns
    -------
    GradientCheck

    Raises
    ------
    InvalidInstance
        If x is not finite, f returns no number, the gradient has another shape, or nothing differentiates f.

    Examples
    --------
    >>> found = check_gradient(lambda x: (x**3).sum(), [1.0, 2.0], gradient=lambda x: 3 * x**2)
    >>> found.status, found.seen < 1e-12
    ('passed', True)
    >>> check_gradient(lambda x: (x**3).sum(), [1.0, 2.0], gradient=lambda x: 3.0000001 * x**2).status
    'failed'
    """
    point = np.asarray(x, dtype=np.float64)
    if precision not in _EPS or samples < 1 or not point.size or not np.isfinite(point).all():
        rule = "x must be a finite array, samples >= 1 and precision float64 or float32"
        raise InvalidInstance(f"{rule}; got x of shape {point.shape}, samples {samples}, precision {precision!r}")
    eps, rng, skipped = _EPS[precision], np.random.default_rng(seed), dict[str, str]()
    derived = dict(_differentiated(f, point, args, skipped))
    if gradient is None and not derived:
        raise InvalidInstance(f"gradient must be given where nothing differentiates f; {skipped}")
    used = next(iter(derived)) if gradient is None else ""
    given = derived.pop(used) if used else _gradient_at(gradient, point, args)
    if given.shape != point.shape:
        raise InvalidInstance(f"the gradient must have the shape of x, {point.shape}; got {given.shape}")
    size = float(np.linalg.norm(given))
    directions = [rng.standard_normal(point.shape) for _ in range(samples)] + ([given] if 0 < size < np.inf else [])
    directions = [v / np.linalg.norm(v) for v in directions]
    if not np.isfinite(given).all():
        return GradientCheck((GradientWay("finite", math.inf, 0.0),), skipped)
    own = _own_error(gradient, given, point, args, directions, eps, rng)
    ways = [_by_taylor(f, point, args, given, directions, eps, own)]
    slopes = _exact_slopes(f_mp or f, point, args, directions, skipped)
    if slopes is not None:
        ways.append(_compared("multiprecision", given, directions, slopes, own))
    for name, value in derived.items():
        ways.append(_compared(name, given, directions, [float(np.vdot(value, v)) for v in directions], own))
    return GradientCheck(tuple(ways), skipped)


def _gradient_at(gradient: Any, point: Array, args: Args) -> Array:
    return np.asarray(gradient(point.copy(), *args) if callable(gradient) else gradient, dtype=np.float64)


def _number(f: Function, point: Array, args: Args) -> float:
    found = np.asarray(f(point, *args), dtype=np.float64)
    if found.size != 1:
        raise InvalidInstance(f"f must return a number; got an array of shape {found.shape}")
    return float(found.reshape(()))


def _own_error(
    gradient: Any, given: Array, point: Array, args: Args, directions: list[Array], eps: float, rng: Any
) -> float:
    """The error of the gradient along a direction that rounding explains: that of rounding x, and the product's."""
    product = max(float(np.abs(given * v).sum()) for v in directions)
    if not callable(gradient):
        return 1e3 * eps * product  # what a given array's program makes of rounding cannot be tried
    moved = [_gradient_at(gradient, point * (1 + eps * rng.choice([-1.0, 1.0], point.shape)), args) for _ in range(4)]
    return _ROOM * (max(float(abs(np.vdot(near - given, v))) for near in moved for v in directions) + 4 * eps * product)


def _by_taylor(
    f: Function,
    point: Array,
    args: Args,
    given: Array,
    directions: list[Array],
    eps: float,
    own: float,
) -> GradientWay:
    """Central differences with halved steps, extrapolated; the uncertainty is that of the best of them."""
    scale = max(float(np.linalg.norm(point)), 1e-3)
    errors, bounds, slopes = [], [], []
    for v in directions:
        steps = [scale * 2.0**-k for k in range(1, _HALVINGS)]
        pairs = [(_number(f, point + h * v, args), _number(f, point - h * v, args)) for h in steps]
        table, best = [[(a - b) / (2 * h) for (a, b), h in zip(pairs, steps, strict=True)]], (math.inf, math.nan)
        noise = [4 * eps * max(abs(a), abs(b)) / h for (a, b), h in zip(pairs, steps, strict=True)]
        for order in range(1, 6):
            above, factor = table[-1], 4.0**order
            table.append([(factor * b - a) / (factor - 1) for a, b in zip(above, above[1:], strict=False)])
            for k, value in enumerate(table[-1]):
                unsure = abs(value - above[k + 1]) + noise[k + order]
                best = min(best, (unsure, value)) if math.isfinite(unsure) else best
        claimed = float(np.vdot(given, v))
        errors.append(abs(best[1] - claimed) if math.isfinite(best[0]) else 0.0)
        bounds.append(_ROOM * best[0] + own)
        rest = [abs(d - claimed) * h for d, h in zip(table[0], steps, strict=True)]
        clear = [(h, r) for h, r, n in zip(steps, rest, noise, strict=True) if 0 < 30 * n * h < r < math.inf]
        if len(clear) > 1:
            slopes.append(math.log(clear[-2][1] / clear[-1][1]) / math.log(clear[-2][0] / clear[-1][0]))
    worst = max(range(len(errors)), key=lambda k: errors[k] / (bounds[k] or 1e-300))
    whole = max(float(np.linalg.norm(given)), bounds[worst], 1e-300)
    if not math.isfinite(whole):  # f is not finite beside x
        return GradientWay("taylor-slope", 0.0, math.inf)
    return GradientWay("taylor-slope", errors[worst] / whole, bounds[worst] / whole, min(slopes, default=None))


def _compared(name: str, given: Array, directions: list[Array], slopes: list[float], own: float) -> GradientWay:
    error = max(abs(float(np.vdot(given, v)) - slope) for v, slope in zip(directions, slopes, strict=True))
    whole = max(float(np.linalg.norm(given)), own, 1e-300)
    return GradientWay(name, error / whole, own / whole)


def _exact_slopes(
    f: Function, point: Array, args: Args, directions: list[Array], skipped: dict[str, str]
) -> list[float] | None:
    """Slopes to thirty digits, where f takes arrays of mpmath numbers."""
    import mpmath

    exact = np.vectorize(mpmath.mpf, otypes=[object])
    try:
        with mpmath.workdps(_DIGITS):
            step, found = mpmath.mpf(10) ** -16, []
            for v in directions:
                move = exact(v) * step
                ends = [f(exact(point) + sign * move, *args) for sign in (1, -1)]
                if not all(isinstance(end, mpmath.mpf) for end in ends):
                    raise TypeError("f returns no mpmath number")
                found.append(float((ends[0] - ends[1]) / (2 * step)))
            return found
    except Exception as error:  # whatever code that is not made for these numbers raises
        skipped["multiprecision"] = f"f does not run on mpmath numbers ({type(error).__name__}); give f_mp"
        return None


def _differentiated(f: Function, point: Array, args: Args, skipped: dict[str, str]) -> Iterator[tuple[str, Array]]:
    """Gradients by the frameworks that take f: autograd, and of torch and jax those that the caller has imported."""
    for name, way in (("autograd", _by_autograd), ("torch", _by_torch), ("jax", _by_jax)):
        if name != "autograd" and name not in sys.modules:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # autograd warns where the output seems independent of the input
                found = np.asarray(way(importlib.import_module(name), f, point, args), dtype=np.float64)
            if found.shape == point.shape:
                yield name, found
        except Exception as error:
            skipped[name] = f"does not differentiate f ({type(error).__name__})"


def _by_autograd(autograd: Any, f: Function, point: Array, args: Args) -> Any:
    return autograd.grad(f)(point, *args)


def _by_torch(torch: Any, f: Function, point: Array, args: Args) -> Any:
    given = torch.tensor(point, requires_grad=True)
    (found,) = torch.autograd.grad(f(given, *args), given)
    return found.numpy()


def _by_jax(jax: Any, f: Function, point: Array, args: Args) -> Any:
    if not jax.config.jax_enable_x64:
        raise TypeError("jax computes in float32 unless jax_enable_x64 is set")
    return jax.grad(f)(jax.numpy.asarray(point), *args)
