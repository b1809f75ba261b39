"""What a function must return on a case, and the error a correct program may have; never computed by the subject."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import attnprune_verify.model as model
from attnprune_verify.audit.accumulation import loop_error
from attnprune_verify.audit.cases import Case
from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.oracle import ball, running_error

__all__ = ["Component", "VALUED", "parameters", "reference", "spread", "trusted"]

Matrix = NDArray[np.float64]

# The functions whose values ball arithmetic encloses.
VALUED = (
    "attention",
    "loss",
    "gradient",
    "loss_and_gradient",
    "hessian_vector_product",
    "relative_error",
    "factored_loss",
    "factored_gradient",
)


@dataclass(frozen=True)
class Component:
    """One returned array or number: the true value to within `radius`, and the running-error bound around it."""

    value: Matrix
    radius: Matrix
    bound: Matrix


def parameters(function: str, case: Case) -> list[Any]:
    """The positional arguments of a call on this case; the mask is of the arrays' dtype, as tensors would need it."""
    given = case.arguments(FUNCTIONS[function].arguments)
    return [value.astype(case.X.dtype) if value is case.mask and value is not None else value for value in given]


def reference(function: str, case: Case, unit_roundoff: float | None = None) -> tuple[Component, ...]:
    """The enclosed values with running-error bounds for `unit_roundoff`; default: that of the contract's precision."""
    u = case.unit_roundoff if unit_roundoff is None else unit_roundoff
    key = ("reference", function, u)
    if key not in case.memo:
        enclosures = _enclosed(function, case)
        bounds, loops = _BOUNDS[function](case, u), loop_error(function, case, u)
        case.memo[key] = tuple(
            Component(enclosure.midpoint, enclosure.radius, np.asarray(bound + more, dtype=float))
            for enclosure, bound, more in zip(enclosures, bounds, loops, strict=True)
        )
    found: tuple[Component, ...] = case.memo[key]
    return found


def _enclosed(function: str, case: Case) -> tuple[ball.Enclosure, ...]:
    key = ("enclosure", function)
    if key not in case.memo:
        case.memo[key] = _ENCLOSURES[function](case)
    found: tuple[ball.Enclosure, ...] = case.memo[key]
    return found


def _plain(function: str) -> Callable[[Case], tuple[ball.Enclosure, ...]]:
    def enclosed(case: Case) -> tuple[ball.Enclosure, ...]:
        value = getattr(ball, function)(*parameters(function, case))
        return value if isinstance(value, tuple) else (value,)

    return enclosed


def _relative_error(case: Case) -> tuple[ball.Enclosure, ...]:
    """||F(M) - F(1)||^2 is twice the loss without regulariser; ||F(1)||^2 has no cancellation."""
    lower = upper = 0.0
    samples = case.X if case.X.ndim == 3 else case.X[None]
    for tokens in samples:
        misfit = ball.loss(case.M, tokens, case.W, 0.0, case.mask)
        dense = ball.attention(tokens, case.W, case.mask)
        few = 1 + (tokens.shape[0] ** 2 + 4) * 2.0**-52  # rounding of the sum of squares
        least = float((np.maximum(dense.lower, 0.0) ** 2).sum()) / few
        most = float((dense.upper**2).sum()) * few
        lower += 2 * max(float(misfit.lower), 0.0) / most / len(samples)
        upper += 2 * float(misfit.upper) / least / len(samples)
    slack = 1 + 2.0**-50
    return (ball.Enclosure(np.asarray(lower / slack), np.asarray(upper * slack)),)


_ENCLOSURES: dict[str, Callable[[Case], tuple[ball.Enclosure, ...]]] = {
    **{name: _plain(name) for name in VALUED},
    "loss_and_gradient": lambda case: (*_enclosed("loss", case), *_enclosed("gradient", case)),
    "relative_error": _relative_error,
}


def _pair(case: Case) -> tuple[Any, Any, Any, Any, Any]:
    return case.M_Q, case.M_K, case.X, case.W_Q, case.W_K


def _relative_error_bound(case: Case, u: float) -> tuple[Any, ...]:
    samples = case.X if case.X.ndim == 3 else case.X[None]
    total = 0.0
    for tokens in samples:
        dense = ball.attention(tokens, case.W, case.mask).midpoint
        size = float((dense**2).sum())
        error_of_size = float((2 * dense * running_error.attention_bound(tokens, case.W, case.mask, u)).sum())
        misfit = 2 * float(ball.loss(case.M, tokens, case.W, 0.0, case.mask).upper)
        error_of_misfit = 2 * running_error.loss_bound(case.M, tokens, case.W, 0.0, case.mask, u)
        rounding = (tokens.shape[0] ** 2 + 8) * u
        total += (error_of_misfit + misfit * (error_of_size / size + rounding)) / size
    return (1.01 * total / len(samples),)


_BOUNDS: dict[str, Callable[[Case, float], tuple[Any, ...]]] = {
    "attention": lambda case, u: (running_error.attention_bound(case.X, case.W, case.mask, u),),
    "loss": lambda case, u: (running_error.loss_bound(case.M, case.X, case.W, case.lam, case.mask, u),),
    "gradient": lambda case, u: (running_error.gradient_bound(case.M, case.X, case.W, case.lam, case.mask, u),),
    "loss_and_gradient": lambda case, u: (
        running_error.loss_bound(case.M, case.X, case.W, case.lam, case.mask, u),
        running_error.gradient_bound(case.M, case.X, case.W, case.lam, case.mask, u),
    ),
    "hessian_vector_product": lambda case, u: (
        running_error.hessian_vector_product_bound(case.M, case.V, case.X, case.W, case.lam, case.mask, u),
    ),
    "relative_error": _relative_error_bound,
    "factored_loss": lambda case, u: (running_error.factored_loss_bound(*_pair(case), case.lam, case.mask, u),),
    "factored_gradient": lambda case, u: running_error.factored_gradient_bound(*_pair(case), case.lam, case.mask, u),
}


def trusted(function: str, case: Case) -> tuple[Matrix, ...]:
    """The library's own floating-point result."""
    value = getattr(model, function)(*parameters(function, case))
    return tuple(np.asarray(part) for part in value) if isinstance(value, tuple) else (np.asarray(value),)


def spread(function: str, case: Case) -> tuple[float, ...]:
    """The largest error of the trusted implementation, in its precision, over random orders of tokens and features."""
    key = ("spread", function)
    if key not in case.memo:
        truth = [part.value for part in reference(function, case)]
        rng = np.random.default_rng(case.seed)
        largest = [0.0] * len(truth)
        for _ in range(8 if case.work < 4000 else 2):
            moved, back = permuted(case, rng)
            for index, part in enumerate(back(function, trusted(function, moved))):
                largest[index] = max(largest[index], float(np.linalg.norm(part - truth[index])))
        case.memo[key] = tuple(largest)
    found: tuple[float, ...] = case.memo[key]
    return found


def permuted(
    case: Case, rng: np.random.Generator
) -> tuple[Case, Callable[[str, tuple[Matrix, ...]], tuple[Matrix, ...]]]:
    """The case with tokens, features and inner features in another order, and how to bring results back."""
    tokens, features, inner = (rng.permutation(size) for size in (case.n, case.d, case.W_Q.shape[1]))
    square, pair = np.ix_(features, features), np.ix_(features, inner)
    moved = case.changed(
        X=case.X[..., tokens, :][..., features],
        mask=None if case.mask is None else case.mask[np.ix_(tokens, tokens)],
        **{name: getattr(case, name)[square] for name in ("W", "M", "V")},
        **{name: getattr(case, name)[pair] for name in ("W_Q", "W_K", "M_Q", "M_K")},
    )

    def back(function: str, parts: tuple[Matrix, ...]) -> tuple[Matrix, ...]:
        restored = []
        for part in parts:
            array = np.array(part)
            if array.ndim:
                target = np.empty_like(array)
                if function == "attention":
                    target[..., tokens[:, None], tokens] = array
                else:
                    target[pair if function.startswith("factored") else square] = array
                array = target
            restored.append(array)
        return tuple(restored)

    return moved, back
