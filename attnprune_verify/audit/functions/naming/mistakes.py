"""Known mistakes: one id, and the steps of the right formula that it replaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import starmap

import numpy as np

from attnprune_verify.audit.functions.layer.mistakes import layer_mistakes
from attnprune_verify.audit.functions.naming.structural_mistakes import (
    ERRORS,
    FORWARD,
    HVP,
    LOSSES,
    Mistake,
    other_mistakes,
    product_mistakes,
    right_product,
    weight_mistakes,
)
from attnprune_verify.audit.functions.truth.formulas import Array, Step, masked_softmax
from attnprune_verify.audit.functions.truth.sample import Sample

__all__ = ["MISTAKES", "Mistake"]


_SLOPES = ("gradient", "loss_and_gradient", "hessian_vector_product", "factored_gradient", "layer_gradient")
_FUSED_SLOPES = ("gradient", "loss_and_gradient", "hessian_vector_product")
_PAIR_SLOPES = ("factored_gradient", "layer_gradient")
_OF_PAIRS = ("factored_loss", "layer_loss", *_PAIR_SLOPES)
_OF_FUSED = ("attention", "loss", "relative_error", "factored_loss", "factored_gradient", *_FUSED_SLOPES)
_FIRST_SLOPES = ("gradient", "loss_and_gradient", "factored_gradient", "layer_gradient")
_SEEN_CUT = (*FORWARD, *_FIRST_SLOPES)  # a second derivative just vanishes
_REGULARIZED = (*LOSSES, *_SLOPES)


def _everywhere(id: str, softmax: Callable[..., Array], detail: str = "") -> Iterator[Mistake]:
    """One wrong softmax in both attentions, in the pruned one, or in the dense one."""
    yield Mistake(id, {"softmax": softmax, "dense_softmax": softmax}, detail)
    yield Mistake(id, {"softmax": softmax}, f"{detail}, in F(M) only".lstrip(", "))
    yield Mistake(id, {"dense_softmax": softmax}, f"{detail}, in F(1) only".lstrip(", "))


def _softmaxes() -> Iterator[Mistake]:
    def over(change: Callable[[Array], Array], always: bool = False) -> Callable[..., Array]:
        return lambda A, allowed, given: masked_softmax(A, change(allowed) if given or always else allowed)

    yield from _everywhere("mask-ignored", over(lambda allowed: np.ones_like(allowed)))
    yield from _everywhere(
        "mask-after-softmax", lambda A, allowed, given: masked_softmax(A, np.ones_like(allowed)) * allowed
    )
    for fill in (0.0, 1e-9):
        yield from _everywhere("mask-multiplies-logits", partial(_filled, fill=fill))
    for fill in (-1.0, -5.0, -10.0, -20.0, -30.0, -50.0, -100.0, -1000.0, -10000.0):
        for added in (True, False):
            yield Mistake(
                "mask-leaks",
                _both(
                    lambda A, allowed, given, fill=fill, added=added: masked_softmax(
                        np.where(allowed, A, fill + (A if added else 0.0)), np.ones_like(allowed)
                    )
                ),
                f"fill {fill:g}",
            )
    below = {"no diagonal": lambda allowed: allowed & ~np.eye(len(allowed), dtype=bool)}
    below["i > j"] = lambda allowed: allowed & np.tri(len(allowed), k=-1, dtype=bool)
    below["given mask shifted"] = lambda allowed: np.tri(len(allowed), k=-1, dtype=bool)
    for detail, change in below.items():
        for empty in (0.0, np.nan, "uniform", "all"):
            yield Mistake("mask-strict", _both(_with_empty_rows(change, empty)), detail)
    yield from _everywhere("mask-always-causal", over(lambda a: np.tri(len(a), dtype=bool), always=True))
    yield from _everywhere("mask-always-causal", over(lambda a: np.tri(len(a), dtype=bool)), "when a mask is given")
    yield Mistake("mask-always-causal", _both(_with_empty_rows(lambda a: a & np.tri(len(a), dtype=bool), 0.0, True)))
    yield Mistake(
        "mask-always-causal", _both(_with_empty_rows(lambda a: a & np.tri(len(a), dtype=bool), "uniform", True))
    )
    for empty in (0.0, np.nan, "uniform"):
        yield Mistake("mask-transposed", _both(_with_empty_rows(np.transpose, empty)))
        yield Mistake("mask-inverted", _both(_with_empty_rows(np.logical_not, empty)))
    yield from _everywhere(
        "wrong-softmax-axis", lambda A, allowed, given: masked_softmax(A.T, allowed.T).T, "over columns"
    )
    yield from _everywhere("wrong-softmax-axis", lambda A, allowed, given: _whole(A, allowed), "over the whole matrix")
    for most in _CLIPS:
        yield Mistake("logits-clipped", _both(partial(_clipped_logits, most=most)), f"at {most:g}", only=_SEEN_CUT)
    for most in (10.0, 20.0, 30.0, 50.0, 60.0, 80.0, 88.0, 100.0, 500.0, 700.0):
        cut = _both(partial(_clipped, most=most))
        yield Mistake("unstable-exp", cut, f"exponents are cut off at {most:g}", only=_SEEN_CUT)
    for detail, highest in (("", np.inf), (", in float32", 88.7228)):
        zeroed = _both(partial(_zeroed, highest=highest))
        yield Mistake("unstable-exp", zeroed, f"what is not finite becomes 0{detail}", only=_SEEN_CUT)
    for power in range(0, -13, -1):
        for shifted in (True, False):
            yield Mistake(
                "denominator-epsilon",
                _both(
                    lambda A, allowed, given, eps=10.0**power, shifted=shifted: masked_softmax(A, allowed, eps, shifted)
                ),
                f"1e{power}",
            )


_CLIPS = (65504.0, 3e4, 1e4, 5e3, 1e3)  # chosen: the largest float16, round numbers, above what keeps exp finite


def _clipped_logits(A: Array, allowed: Array, given: bool, *, most: float) -> Array:
    return masked_softmax(np.clip(A.real, -most, most), allowed)


def _clipped(A: Array, allowed: Array, given: bool, *, most: float) -> Array:
    """Exponents cut off instead of shifted."""
    weights = np.where(allowed, np.exp(np.clip(A.real, -most, most)), 0.0)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _zeroed(A: Array, allowed: Array, given: bool, *, highest: float) -> Array:
    """Softmax without a shift, with 0 in place of NaN."""
    with np.errstate(all="ignore"):
        grown = np.where(A.real > highest, np.inf, np.exp(A.real))
        weights = np.where(allowed, np.where(A.real < -highest - 15.3, 0.0, grown), 0.0)
        F = weights / weights.sum(axis=1, keepdims=True)
    return np.asarray(np.where(np.isfinite(F), F, 0.0))


def _filled(A: Array, allowed: Array, given: bool, *, fill: float) -> Array:
    return masked_softmax(np.where(allowed, A, fill), np.ones_like(allowed))


def _both(softmax: Callable[..., Array]) -> dict[str, Callable[..., Array]]:
    return {"softmax": softmax, "dense_softmax": softmax}


def _whole(A: Array, allowed: Array) -> Array:
    weights = np.where(allowed, np.exp(A - A.real.max()), 0.0)
    return np.asarray(weights / weights.sum())


def _with_empty_rows(
    change: Callable[[Array], Array], empty: float | str, always: bool = False
) -> Callable[..., Array]:
    """The softmax over a changed mask; rows that then allow nothing become `empty`."""

    def softmax(A: Array, allowed: Array, given: bool) -> Array:
        changed = change(allowed) if given or always else allowed
        F = masked_softmax(A, changed)
        rows = ~changed.any(axis=1)
        if empty == "uniform":
            F[rows] = 1.0 / len(A)
        elif empty == "all":
            F[rows] = masked_softmax(A, np.ones_like(allowed))[rows]
        else:
            F[rows] = empty
        return F

    return softmax


_FACTORS: dict[str, Callable[[Sample], float]] = {
    "": lambda sample: 1.0,
    "1/sqrt(m) whatever was given": lambda sample: sample.m**-0.5,
    "1/sqrt(d)": lambda sample: sample.d**-0.5,
    "1/d": lambda sample: 1.0 / sample.d,
    "1/sqrt(n)": lambda sample: sample.n**-0.5,
    "1/n": lambda sample: 1.0 / sample.n,
    "sqrt(d)": lambda sample: sample.d**0.5,
    "1/sqrt(heads*m)": lambda sample: (sample.heads * sample.m) ** -0.5,
    "1/m": lambda sample: 1 / sample.m,
    "sqrt(m)": lambda sample: sample.m**0.5,
    "twice": lambda sample: sample.factor**2,
    "times 1/2": lambda sample: 0.5 * sample.factor,
    "times 2": lambda sample: 2.0 * sample.factor,
    "negative": lambda sample: -sample.factor,
    "times 1/sqrt(2)": lambda sample: 0.5**0.5 * sample.factor,
    "times 1/8": lambda sample: 0.125 * sample.factor,
    "times 1/10": lambda sample: 0.1 * sample.factor,
    "times ln 2, as of 2^x for exp(x)": lambda sample: float(np.log(2)) * sample.factor,
    "times 1/ln 2": lambda sample: sample.factor / float(np.log(2)),
}
"""Factor of the logits: a fused weight has the scale 1."""


def _turned_logits(X: Array, A: Array) -> Array:
    return np.asarray(X @ A.T @ X.T)


def _logits() -> Iterator[Mistake]:
    for detail, factor in _FACTORS.items():
        id = "logit-scale" if detail else "missing-scale"
        yield Mistake(id, {"scale": factor, "dense_scale": factor}, detail)
        yield Mistake(id, {"scale": factor}, f"{detail} in F(M) only", _OF_FUSED)
        yield Mistake(id, {"dense_scale": factor}, f"{detail} in F(1) only", _OF_FUSED)
    yield Mistake("weight-transposed", {"logits": _turned_logits, "dense_logits": _turned_logits})
    yield Mistake("weight-transposed", {"logits": _turned_logits}, "in F(M) only")
    yield Mistake("weight-transposed", {"dense_logits": _turned_logits}, "in F(1) only")
    prunings: dict[str, Callable[[Array], Array]] = {
        "clipped to [0, 1]": lambda M: np.where(M.real < 0, 0.0, np.where(M.real > 1, 1.0, M)),
        "negative entries set to 0": lambda M: np.where(M.real < 0, 0.0, M),
        "entries above 1 set to 1": lambda M: np.where(M.real > 1, 1.0, M),
        "rounded": lambda M: np.round(M.real),
        "rounded to one digit": lambda M: np.round(M.real, 1),
        "rounded to two digits": lambda M: np.round(M.real, 2),
        "rounded to three digits": lambda M: np.round(M.real, 3),
        "thresholded at 1/2": lambda M: (M.real > 0.5) * 1.0,
        "thresholded at 1/2 inclusive": lambda M: (M.real >= 0.5) * 1.0,
        "nonzero counts as 1": lambda M: (M.real != 0) * 1.0,
        "positive counts as 1": lambda M: (M.real > 0) * 1.0,
        "absolute values": lambda M: np.where(M.real < 0, -M, M),
        "squared": lambda M: M * M,
        "through a sigmoid": lambda M: 1 / (1 + np.exp(-M)),
        "through tanh": np.tanh,
        "truncated to integers": lambda M: np.trunc(M.real),
        "everything counts as 1": lambda M: np.ones_like(M.real),
        "clipped to [-1, 1]": lambda M: np.where(M.real < -1, -1.0, np.where(M.real > 1, 1.0, M)),
    }
    for detail, prune in prunings.items():
        yield Mistake("clips-or-rounds-M", {"prune": prune}, detail)
    for detail, prune in prunings.items():
        yield Mistake("clips-or-rounds-M", {"enter": prune}, f"{detail}, in the regulariser too", _REGULARIZED)
    yield Mistake("keeps-instead-of-prunes", {"prune": lambda M: 1 - M}, "1 - M")
    yield Mistake(
        "M-transposed", {"prune": lambda M: M.T}, only=("loss", "gradient", "hessian_vector_product", "relative_error")
    )
    yield Mistake("matmul-for-hadamard", {"weigh": lambda M, W: M @ W}, "M W")
    yield Mistake("matmul-for-hadamard", {"weigh": lambda M, W: W @ M}, "W M")
    yield Mistake("missing-hadamard-W", {"weigh": lambda M, W: M}, "in the logits")
    yield Mistake("dense-target-uses-M", {"target": lambda F, pruned: F}, "F(1) = F(M)")
    yield Mistake("dense-target-uses-M", {"target": lambda F, pruned: pruned, "weigh": lambda M, W: M * M * W}, "twice")
    yield Mistake("missing-dense-target", {"residual": lambda F, dense, allowed: F})


def _gradients() -> Iterator[Mistake]:
    def rows(product: Array) -> Array:
        return np.asarray(product.sum(axis=1, keepdims=True))

    yield Mistake("missing-softmax-correction", {"p": lambda c, F, dense: c * F})
    yield Mistake(
        "missing-softmax-correction",
        {"p": lambda c, F, dense: c * F - (c * F).mean(axis=1, keepdims=True) * F},
        "the mean of a row for its sum",
    )
    dense_instead: dict[str, Callable[..., Array]] = {
        "everywhere": lambda c, F, dense: c * dense - rows(c * dense) * dense,
        "in the correction": lambda c, F, dense: c * F - rows(c * dense) * dense,
        "in the row sum": lambda c, F, dense: c * F - rows(c * dense) * F,
        "behind the row sum": lambda c, F, dense: c * F - rows(c * F) * dense,
        "in the first term": lambda c, F, dense: c * dense - rows(c * F) * F,
        "in the first term and the row sum": lambda c, F, dense: c * dense - rows(c * dense) * F,
        "in the first term and behind": lambda c, F, dense: c * dense - rows(c * F) * dense,
    }
    for detail, p in dense_instead.items():
        yield Mistake("correction-uses-dense-softmax", {"p": p}, detail)
    yield Mistake("correction-sign", {"p": lambda c, F, dense: c * F + rows(c * F) * F})
    yield Mistake("correction-wrong-axis", {"p": lambda c, F, dense: c * F - (c * F).sum(axis=0, keepdims=True) * F})
    yield Mistake(
        "correction-wrong-axis", {"p": lambda c, F, dense: c * F - rows(c * F).T * F}, "broadcast along columns"
    )
    yield Mistake("correction-wrong-axis", {"p": lambda c, F, dense: c * F - (c * F).sum() * F}, "total sum")
    yield Mistake("missing-softmax-correction", {"p": lambda c, F, dense: c}, "and the factor F")
    yield Mistake(
        "missing-softmax-correction", {"p": lambda c, F, dense: c * F * (1 - F)}, "diagonal of the Jacobian only"
    )
    yield Mistake("transposed-p", {"turn_p": lambda p: p}, "in the keys' gradient", _PAIR_SLOPES)
    yield Mistake("transposed-p", {"side": np.transpose})
    yield Mistake("missing-hadamard-W", {"pull": lambda Y, W, M: Y})
    yield Mistake("missing-hadamard-W", {"pull": lambda Y, W, M: M * Y}, "M stands there: the derivative in the weight")
    yield Mistake("hadamard-uses-masked-W", {"pull": lambda Y, W, M: M * W * Y})
    fronts: dict[tuple[str, str], Step] = {
        ("weight-transposed", "in front"): lambda Y, W, M: W.T * Y,
        ("matmul-for-hadamard", "in front"): lambda Y, W, M: W @ Y,
        ("gradient-transposed", ""): lambda Y, W, M: (W * Y).T,
        ("gradient-symmetrised", ""): lambda Y, W, M: (W * Y + (W * Y).T) / 2,
    }
    for (id, detail), pull in fronts.items():
        yield Mistake(id, {"pull": pull}, detail, _FUSED_SLOPES)
    yield Mistake("gradient-symmetrised", {"side": lambda p: (p + p.T) / 2}, "X^T p X is")
    yield Mistake("batch-not-averaged", {"pool": lambda sample: True}, "as a ratio of sums", ("relative_error",))
    yield Mistake("batch-not-averaged", {"pool": lambda sample: False}, "a mean of ratios", ("layer_relative_error",))
    yield Mistake("unmasked-partner", {"partner": lambda pruned, dense: dense}, only=_PAIR_SLOPES)
    bare: dict[str, Step] = {
        "M_K": lambda pruned, dense: (pruned[0], dense[1]),
        "M_Q": lambda pruned, dense: (dense[0], pruned[1]),
    }
    for name, sides in bare.items():
        yield Mistake("unmasked-partner", {"sides": sides}, f"{name} is not used", _OF_PAIRS)
    for detail, factor in _FACTORS.items():
        if not detail.startswith(("times", "negative")):  # these are constant factors of the gradient
            id, where = "logit-scale" if detail else "scale-missing-in-gradient", f"{detail}, in the derivative only"
            yield Mistake(id, {"slope_scale": factor}, where.lstrip(", "), ("layer_gradient",))
    yield Mistake("loss-not-squared", {"misfit": lambda c: np.sqrt((c * c).sum())}, only=LOSSES)
    yield Mistake("loss-not-squared", {"misfit": lambda c: np.abs(c).sum()}, "sum of absolute values", only=LOSSES)
    ratios: dict[str, tuple[str, Callable[..., Array]]] = {
        "square root": ("loss-not-squared", lambda c, F, dense: np.sqrt((c * c).sum() / (dense * dense).sum())),
        "divided by F(M)": ("dense-target-uses-M", lambda c, F, dense: (c * c).sum() / (F * F).sum()),
        "not divided": ("loss-scale", lambda c, F, dense: (c * c).sum()),
        "divided by n": ("loss-scale", lambda c, F, dense: (c * c).sum() / len(c)),
        "mean": ("loss-scale", lambda c, F, dense: (c * c).mean()),
        "row by row": (
            "wrong-softmax-axis",
            lambda c, F, dense: ((c * c).sum(axis=1) / (dense * dense).sum(axis=1)).mean(),
        ),
        "norm of the square": ("loss-scale", lambda c, F, dense: (c * c).sum() / np.sqrt((dense * dense).sum())),
    }
    for detail, (id, ratio) in ratios.items():
        yield Mistake(id, {"ratio": ratio}, detail, only=ERRORS)
    for power in range(-3, -13, -1):
        guarded = partial(_guarded_ratio, epsilon=10.0**power)
        yield Mistake(
            "denominator-epsilon", {"ratio": guarded}, f"1e{power}, below ||F(1)||^2", only=("relative_error",)
        )
        norms = partial(_guarded_norms, epsilon=10.0**power)
        yield Mistake("denominator-epsilon", {"ratio": norms}, f"1e{power}, below ||F(1)||", only=("relative_error",))


def _guarded_ratio(c: Array, F: Array, dense: Array, *, epsilon: float) -> Array:
    return np.asarray((c * c).sum() / ((dense * dense).sum() + epsilon))


def _guarded_norms(c: Array, F: Array, dense: Array, *, epsilon: float) -> Array:
    return np.asarray((c * c).sum() / (np.sqrt((dense * dense).sum()) + epsilon) ** 2)


def _derivatives() -> Iterator[Mistake]:
    """Automatic derivatives of wrong losses, where the closed form with the same mistake is another."""
    detail = "differentiated as it stands"
    for id, fills in (("mask-multiplies-logits", (0.0, 1e-9)), ("mask-leaks", (-1.0, -5.0, -10.0, -20.0))):
        for fill in fills:
            steps = _both(partial(_filled, fill=fill))
            yield Mistake(id, {**steps, "through": lambda p, allowed: p * allowed}, f"fill {fill:g}, {detail}", _SLOPES)
    everywhere = _both(lambda A, allowed, given: masked_softmax(A, np.ones_like(allowed)))
    late: dict[str, Callable[..., Array]] = {"residual": lambda F, dense, allowed: (F - dense) * allowed}
    yield Mistake("mask-after-softmax", {**everywhere, **late}, detail, _SLOPES)
    prunings: dict[str, tuple[Callable[[Array], Array], Callable[[Array, Array], Array]]] = {
        "clipped to [0, 1]": (
            lambda M: np.where(M.real < 0, 0.0, np.where(M.real > 1, 1.0, M)),
            lambda G, M: G * ((M.real >= 0) & (M.real <= 1)),
        ),
        "negative entries set to 0": (lambda M: np.where(M.real < 0, 0.0, M), lambda G, M: G * (M.real > 0)),
        "entries above 1 set to 1": (lambda M: np.where(M.real > 1, 1.0, M), lambda G, M: G * (M.real <= 1)),
        "absolute values": (lambda M: np.where(M.real < 0, -M, M), lambda G, M: G * np.sign(M.real)),
        "squared": (lambda M: M * M, lambda G, M: G * 2 * M),
        "through tanh": (np.tanh, lambda G, M: G / np.cosh(M) ** 2),
        "through a sigmoid": (lambda M: 1 / (1 + np.exp(-M)), lambda G, M: G * np.exp(-M) / (1 + np.exp(-M)) ** 2),
    }
    for name, (prune, back) in prunings.items():
        yield Mistake("clips-or-rounds-M", {"prune": prune, "back": back}, f"{name}, {detail}", _SLOPES)
        whole: dict[str, Callable[..., Array]] = {"enter": prune, "leave": back}
        yield Mistake("clips-or-rounds-M", whole, f"{name}, in the regulariser too, {detail}", _FIRST_SLOPES)
    products: dict[str, tuple[Callable[..., Array], Callable[..., Array]]] = {
        "M W": (lambda M, W: M @ W, lambda Y, W, M: Y @ W.T),
        "W M": (lambda M, W: W @ M, lambda Y, W, M: W.T @ Y),
    }
    for name, (weigh, pull) in products.items():
        yield Mistake("matmul-for-hadamard", {"weigh": weigh, "pull": pull}, f"{name}, {detail}", _FUSED_SLOPES)
    for name, factor in _FACTORS.items():
        id, pruned = "logit-scale" if name else "missing-scale", {"scale": factor, "slope_scale": factor}
        yield Mistake(id, {**pruned, "dense_scale": factor}, f"{name}, {detail}".lstrip(", "), _SLOPES)
        yield Mistake(id, pruned, f"{name} in F(M) only, {detail}", (*_FUSED_SLOPES, "factored_gradient"))
    turned = {"logits": _turned_logits, "dense_logits": _turned_logits}
    backwards: dict[str, Callable[..., Array]] = {**turned, "side": np.transpose}
    yield Mistake("weight-transposed", backwards, detail, _SLOPES)
    yield Mistake("M-transposed", {"prune": lambda M: M.T, "back": lambda G, M: G.T}, detail, _FUSED_SLOPES)

    def columns(A: Array, allowed: Array, given: object) -> Array:
        return masked_softmax(A.T, allowed.T).T

    totals: dict[str, tuple[Callable[..., Array], Callable[..., Array]]] = {
        "over columns": (columns, lambda c, F, dense: c * F - (c * F).sum(axis=0) * F),
        "over the whole matrix": (
            lambda A, allowed, given: _whole(A, allowed),
            lambda c, F, dense: c * F - (c * F).sum() * F,
        ),
    }
    for name, (softmax, p) in totals.items():
        yield Mistake("wrong-softmax-axis", {**_both(softmax), "p": p}, f"{name}, {detail}", _SLOPES)


def _products() -> Iterator[Mistake]:
    yield from product_mistakes()
    for mistake in (
        *_softmaxes(),
        *weight_mistakes(),
    ):  # the right product of a wrong softmax, which is not the derivative of anything
        if "softmax" in mistake.steps:
            yield Mistake(mistake.id, {**mistake.steps, "product": right_product}, mistake.detail, only=HVP)


MISTAKES: tuple[Mistake, ...] = (
    *_softmaxes(),
    *_logits(),
    *_gradients(),
    *weight_mistakes(),
    *_derivatives(),
    *_products(),
    *starmap(Mistake, layer_mistakes()),
    *other_mistakes(),
)
