"""The smallest instance that still fails: tokens, features and heads are dropped, numbers rounded, extras removed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.layer.sample import LayerSample
from attnprune_verify.audit.naming.written import FEW, by_formula, formula_of
from attnprune_verify.audit.truth.layers import LinearLayer
from attnprune_verify.audit.truth.samples import ARRAYS, Sample

__all__ = [
    "SMALLEST",
    "corner",
    "cut_tokens",
    "doubtless",
    "fewer",
    "linear_cuts",
    "rounded",
    "sample_cuts",
    "smallest",
]

SMALLEST = "smallest found"
_CALLS = 80
_SECONDS = 3.0
_DIGITS = (0, 1, 2)
_FEW = 8  # tokens, of which each is left out in turn
_EXTRAS: dict[str, Any] = {
    "b_Q": None, "b_K": None, "scale": None, "rope": None, "window": None, "softcap": None, "alibi": None,
    "causal": False,
}  # fmt: skip

Case = TypeVar("Case")


def smallest(
    start: Case,
    cuts: Callable[[Case], Iterator[Case]],
    fails: Callable[[Case], bool],
    *,
    calls: int = _CALLS,
    seconds: float = _SECONDS,
) -> Case:
    """From the first smaller one that still fails on, until none does or the budget of calls and seconds is spent.

    Examples
    --------
    >>> smallest(40, lambda n: iter((n // 2, n - 1)), lambda n: n > 6)
    7
    """
    best, end = start, time.monotonic() + seconds
    shrinking = True
    while shrinking:
        shrinking = False
        for smaller in cuts(best):
            if calls <= 0 or time.monotonic() > end:
                return best
            calls -= 1
            if fails(smaller):
                best, shrinking = smaller, True
                break
    return best


def fewer(size: int) -> Iterator[int]:
    """Sizes to try in the place of one, the boldest first."""
    yield from (new for new in dict.fromkeys((1, 2, size // 2, size - 1)) if 0 < new < size)


def rounded(array: NDArray[Any], digits: int) -> NDArray[Any]:
    """To so many digits, without the sign of zero."""
    return np.asarray(np.round(array, digits) + array.dtype.type(0))


def doubtless(rho: float, size: int) -> bool:
    """Return whether the product of the floats, of their exact values and of the decimals have one floor."""
    from fractions import Fraction

    products = {int(rho * size), int(Fraction(rho) * size), int(Fraction(str(rho)) * size)}
    return len(products) == 1


def sample_cuts(sample: Sample, names: tuple[str, ...]) -> Iterator[Sample]:
    """Smaller and rounder instances of the pruning problem, as far as the arguments `names` tell them apart."""
    yield from filter(_telling, _layer_sample_cuts(sample) if isinstance(sample, LayerSample) else _cuts(sample, names))


def _cuts(sample: Sample, names: tuple[str, ...]) -> Iterator[Sample]:
    if sample.X.ndim == 3:
        yield from (_named(sample, X=sample.X[:k]) for k in fewer(len(sample.X)))
    for n in fewer(sample.n):
        yield _named(sample, X=sample.X[..., :n, :], mask=_mask(sample.mask, n))
    inner = sample.W_Q.shape[1]
    for d in fewer(sample.d):
        square = {name: getattr(sample, name)[:d, :d] for name in ("W", "M", "V")}
        pair = {name: getattr(sample, name)[:d] for name in ("W_Q", "W_K", "M_Q", "M_K")}
        yield _named(sample, X=sample.X[..., :d], **square, **pair)
    for m in fewer(inner) if "W_Q" in names else ():
        yield _named(sample, **{name: getattr(sample, name)[:, :m] for name in ("W_Q", "W_K", "M_Q", "M_K")})
    yield from _simpler(sample, tuple(name for name in names if isinstance(getattr(sample, name), np.ndarray)))


def _layer_sample_cuts(sample: LayerSample) -> Iterator[Sample]:
    if sample.X.ndim == 3:
        yield from (_named(sample, X=sample.X[:k]) for k in fewer(len(sample.X)))
    for name, nothing in _EXTRAS.items():
        if getattr(sample, name) is not nothing:
            yield _named(sample, **{name: nothing})
    group = sample.heads // sample.kv_heads
    if group > 1:
        yield from _with_heads(sample, sample.kv_heads, sample.kv_heads)
    for kv_heads in fewer(sample.kv_heads):
        yield from _with_heads(sample, kv_heads * group, kv_heads)
    for n in fewer(sample.n):
        yield _named(sample, X=sample.X[..., :n, :], mask=_mask(sample.mask, n))
    for d in fewer(sample.d):
        zeros = {name: getattr(sample, name)[:d, :d] for name in ("W", "M", "V")}
        pair = {name: getattr(sample, name)[:d] for name in ("W_Q", "W_K", "M_Q", "M_K")}
        yield _named(sample, X=sample.X[..., :d], **zeros, **pair)
    for m in fewer(sample.m):
        yield from _with_heads(sample, sample.heads, sample.kv_heads, m)
    yield from _simpler(sample, ("X", "W_Q", "W_K", "M_Q", "M_K"))


def _with_heads(sample: LayerSample, heads: int, kv_heads: int, m: int | None = None) -> Iterator[Sample]:
    """The first heads, and of each the first m features; with rotations m stays even."""
    m = sample.m if m is None else m
    if sample.rope is not None and m % 2:
        return

    def cut(array: Any, count: int) -> Any:
        if array is None:
            return None
        parts = array.reshape(*array.shape[:-1], -1, sample.m)[..., :count, :m]
        return parts.reshape(*array.shape[:-1], count * m)

    counts = {"Q": heads, "K": kv_heads}
    arrays = {
        f"{kind}_{side}": cut(getattr(sample, f"{kind}_{side}"), n) for side, n in counts.items() for kind in "WMb"
    }
    slopes = None if sample.alibi is None else sample.alibi[:heads]
    yield _named(sample, heads=heads, kv_heads=kv_heads, alibi=slopes, **arrays)


def _simpler(sample: Sample, names: tuple[str, ...]) -> Iterator[Sample]:
    """No mask, a plain factor of the regulariser, fewer digits."""
    if sample.mask is not None:
        yield _named(sample, mask=None)
    yield from (_named(sample, lam=lam) for lam in (0.0, 1.0) if sample.lam not in (0.0, lam))
    names = tuple(name for name in names if name != "mask" and not _by_formula(getattr(sample, name)))
    large = {name: getattr(sample, name) for name in names if getattr(sample, name).size > FEW}
    if large:
        yield _named(
            sample,
            **{name: by_formula(one.shape, ARRAYS.index(name), name.startswith("M")) for name, one in large.items()},
        )
    for digits in _DIGITS:
        short = {name: rounded(getattr(sample, name), digits) for name in names}
        if _said(short) < _said({name: getattr(sample, name) for name in names}):
            yield _named(sample, **short)
    for name in names:
        for digits in _DIGITS[:2]:
            one = rounded(getattr(sample, name), digits)
            if _said({name: one}) < _said({name: getattr(sample, name)}):
                yield _named(sample, **{name: one})


def _by_formula(array: NDArray[Any]) -> bool:
    return formula_of(array.astype(np.float64)) is not None


def _telling(sample: Sample) -> bool:
    """Return whether the samples of a batch are not zero, and not equal."""
    X = sample.X
    return X.ndim < 3 or bool(X.any(axis=(1, 2)).all()) and len(np.unique(X, axis=0)) == len(X)


def _said(arrays: dict[str, Any]) -> int:
    """Return how many characters it takes to write numbers down."""
    return sum(len(f"{number:.17g}") for array in arrays.values() for number in np.ravel(array))


def _named(sample: Sample, **changes: Any) -> Sample:
    return sample.changed(name=SMALLEST, **changes).exact()


def corner(sample: Sample) -> Sample:
    """Three tokens of two features, in few digits: enough where any instance shows the failure."""
    if isinstance(sample, LayerSample):
        return sample
    square = {name: getattr(sample, name)[:2, :2] for name in ("W", "M", "V")}
    pair = {name: getattr(sample, name)[:2, :2] for name in ("W_Q", "W_K", "M_Q", "M_K")}
    cut = {"X": sample.X[..., :3, :2], **square, **pair}
    return _named(sample, mask=_mask(sample.mask, 3), **{name: rounded(one, 2) for name, one in cut.items()})


def cut_tokens(sample: Sample, n: int) -> Sample:
    """The first n tokens."""
    return sample.changed(X=sample.X[..., :n, :], mask=_mask(sample.mask, n))


def _mask(mask: Any, n: int) -> Any:
    if mask is None:
        return None
    cut = mask[:n, :n].copy()
    cut[cut.sum(axis=1) == 0, 0] = 1.0
    return cut


def linear_cuts(layer: LinearLayer) -> Iterator[LinearLayer]:
    """Fewer outputs, sequences, tokens and inputs (whole groups of them), rounder numbers, a plainer ratio.

    Layers with ties keep their numbers and their name: on others nobody decides a tie.
    """
    tied = layer.name in ("ties", "all equal")
    rows, columns = layer.weight.shape
    tokens = layer.X.shape[-2]
    every = (
        *(replace(layer, weight=layer.weight[:new]) for new in fewer(rows)),
        *(replace(layer, X=layer.X[:new]) for new in (fewer(len(layer.X)) if layer.X.ndim == 3 else ())),
        *(replace(layer, X=layer.X[..., :new, :]) for new in fewer(tokens)),
        *(replace(layer, X=np.delete(layer.X, gone, axis=-2)) for gone in range(tokens) if 1 < tokens <= _FEW),
        *(_inputs(layer, np.arange(new)) for new in fewer(columns) if new % max(layer.m, 1) == 0),
        *(_inputs(layer, np.delete(np.arange(columns), gone)) for gone in (range(columns) if not layer.m else ())),
        *(replace(layer, rho=rho) for rho in (0.5, 0.25) if layer.rho not in (0.0, 0.25, 0.5, 1.0)),
        *(() if tied else _rounder(layer)),
    )
    for one in every:
        if one.m or doubtless(one.rho, one.weight.shape[1]) and doubtless(one.rho, one.weight.size):
            yield one if tied else replace(one, name=SMALLEST)


def _inputs(layer: LinearLayer, kept: NDArray[Any]) -> LinearLayer:
    weight, X = (np.ascontiguousarray(part[..., kept]) for part in (layer.weight, layer.X))
    return replace(layer, weight=weight, X=X)


def _rounder(layer: LinearLayer) -> Iterator[LinearLayer]:
    for digits in _DIGITS:
        both = {"weight": rounded(layer.weight, digits), "X": rounded(layer.X, digits)}
        choices: tuple[dict[str, Any], ...] = (both, {"weight": both["weight"]}, {"X": both["X"]})
        for changed in choices:
            if _said(changed) < _said({name: getattr(layer, name) for name in changed}):
                yield replace(layer, **changed)
