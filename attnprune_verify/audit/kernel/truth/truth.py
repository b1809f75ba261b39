r"""Softmax attention and its gradients on a sample, with a certain radius: balls, or float64 with its bound.

Per query head, with the positions a query may attend to:

    s = scale Q K^T,  P = softmax(s),  O = P V,
    dV = P^T dO,  dP = dO V^T,  dS = P * (dP - (P * dP) 1),  dQ = scale dS K,  dK = scale dS^T Q,

dK and dV summed over the query heads of a group; with a softcap s becomes c tanh(s / c), whose derivative multiplies
dS; ALiBi adds -slope |i - j|; a bias is added, and its gradient is dS summed over what it was broadcast along; a sink
is one more key with a given logit and the value 0; dropout multiplies P in O and dV, and dP. log sum exp of a row
adds its cotangent to (dP - mean). A row that may see nothing has O = 0, log sum exp -inf and gradients 0.

Balls (python-flint) are used for everything small; of a large sample float64 with its own worst-case bound is as good,
or wider floats where the subject is as precise as float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_mat

from attnprune_verify.audit.kernel.problem.integers import PagedSample
from attnprune_verify.audit.kernel.problem.sample import Array, KernelSample, parts_of
from attnprune_verify.audit.kernel.truth.bounds import in_balls, in_floats, results_of
from attnprune_verify.audit.kernel.truth.steps import spread_over
from attnprune_verify.oracle.enclosure import as_ball, as_balls, working_precision

__all__ = ["Value", "by_balls", "by_floats", "parts_of", "truth"]

_BITS = 128  # chosen: far below what float64 shows, at hardly more cost
_OUTWARD = 1 + 2.0**-50  # for the rounding of the radius itself to float64, and of the sum


@dataclass(frozen=True)
class Value:
    """A float64 array and how far the exact value may be from it, entry by entry."""

    value: Array
    radius: Array


def truth(sample: KernelSample) -> Mapping[str, Value]:
    """o, lse, dq, dk and dv, dbias and dsinks where there are such; computed once per sample."""
    sample = sample.ordinary if isinstance(sample, PagedSample) else sample
    if "truth" not in sample.memo:
        sample.memo["truth"] = by_balls(sample) if in_balls(sample) else _InFloats(sample)
    found: Mapping[str, Value] = sample.memo["truth"]
    return found


class _InFloats(Mapping[str, Value]):
    """The results in floats; those of a backward pass are computed on first use."""

    def __init__(self, sample: KernelSample) -> None:
        self.sample = sample

    def __getitem__(self, name: str) -> Value:
        return by_floats(self.sample, name not in ("o", "lse"))[name]

    def __iter__(self) -> Iterator[str]:
        return iter(results_of(self.sample))

    def __len__(self) -> int:
        return len(results_of(self.sample))


def by_floats(sample: KernelSample, backward: bool = True) -> dict[str, Value]:
    """NumPy in float64 or, of float64, in wider floats; and the worst that rounding there can do, to float64 too."""
    values, errors = in_floats(sample, backward)
    unit = np.finfo(float).eps / 2 if sample.precision.name == "float64" else 0.0
    return {
        name: Value(
            value.astype(float), errors[name] + unit * np.abs(np.where(np.isinf(value), 0.0, value)).astype(float)
        )
        for name, value in values.items()
    }


def by_balls(sample: KernelSample) -> dict[str, Value]:
    """Ball arithmetic, head by head."""
    batch, heads, kv_heads, n, length, *_ = sample.shape
    with working_precision(_BITS):
        found = [[_head(sample, item, head) for head in range(heads)] for item in range(batch)]
        arrays: dict[str, Any] = {
            name: np.array([[one[name] for one in row] for row in found], dtype=object)
            for name in ("o", "lse", "dq", "dk", "dv", "ds")
        }
        balls = {name: arrays[name] for name in ("o", "lse", "dq")}
        balls |= {name: sample.per_key_head(arrays[name])[:, :, :length] for name in ("dk", "dv")}
        if sample.bias is not None:
            balls["dbias"] = spread_over(sample, arrays["ds"][..., :length])
        if sample.sinks is not None:
            balls["dsinks"] = arrays["ds"][..., length].sum(axis=(0, 2))
        return {name: _value(some) for name, some in balls.items()}


def _value(balls: Any) -> Value:
    """Midpoints as the nearest float64, with what that rounds away in the radius."""
    flat = balls.ravel().tolist()
    middle = np.array([float(ball.mid()) for ball in flat]).reshape(balls.shape)
    radius = np.array([float(ball.rad()) for ball in flat]).reshape(balls.shape)
    with np.errstate(invalid="ignore"):
        found = _OUTWARD * radius + np.finfo(float).eps * np.abs(middle) + np.finfo(float).smallest_subnormal
    nothing = np.isneginf(middle)  # log(0), of a row that may see nothing
    return Value(middle, np.where(nothing, 0.0, np.where(np.isnan(found), np.inf, found)))


def _head(sample: KernelSample, item: int, head: int) -> dict[str, Any]:
    """o, log sum exp, dq, this head's part of dk and dv, and the gradient by bias and sink."""
    key = int(sample.key_heads[head])
    n, length = sample.q.shape[2], sample.k.shape[2]
    q, do = as_balls(sample.q[item, head]), as_balls(sample.do[item, head])
    k, v = as_balls(sample.k[item, key]), as_balls(sample.v[item, key])
    scale = 1 / arb(sample.q.shape[3]).sqrt() if sample.scale is None else as_ball(sample.scale)
    allowed = _at(sample.allowed, sample, item, head)
    scores = _TrueScores(sample, (item, head), scale, allowed)
    logits, slopes, by_bias = scores.of((q * k.transpose()).entries())
    kept = _kept(sample, item, head)
    dp = (do * v.transpose()).entries()
    dp = dp if kept is None else [a * b for a, b in zip(dp, kept, strict=True)]
    used, through, ds, lse = [], [], [], []
    unit = arb(2).log() if sample.conventions.lse_base == "2" else arb(1)
    sink = None if sample.sinks is None else as_ball(sample.sinks[head])
    for i in range(n):
        row = slice(i * length, (i + 1) * length)
        weights, last, log = _softmax(logits[row], scores.allowed[i], sink)
        mean = sum((a * b for a, b in zip(weights, dp[row], strict=True)), arb(0))
        inner = -mean if sample.dlse is None else as_ball(sample.dlse[item, head, i]) / unit - mean
        gradient = [a * (b + inner) for a, b in zip(weights, dp[row], strict=True)]
        used += weights
        through += [a * b for a, b in zip(gradient, slopes[row], strict=True)]
        ds.append([*(a * b for a, b in zip(gradient, by_bias[row], strict=True)), last * inner])
        lse.append(log / unit)
    used = used if kept is None else [a * b for a, b in zip(used, kept, strict=True)]
    p, dl = arb_mat(n, length, used), arb_mat(n, length, through)
    found = {"o": p * v, "dq": dl * k * scale, "dk": dl.transpose() * q * scale, "dv": p.transpose() * do}
    return {"lse": lse, "ds": ds, **{name: _rows(matrix) for name, matrix in found.items()}}


def _rows(matrix: arb_mat) -> list[list[arb]]:
    entries, columns = matrix.entries(), matrix.ncols()
    return [entries[start : start + columns] for start in range(0, len(entries), columns)]


def _at(array: Any, sample: KernelSample, item: int, head: int) -> Any:
    """The part for one head of an array that is broadcast to (batch, heads, n, l)."""
    batch, heads, _, n, length, *_ = sample.shape
    return np.broadcast_to(array, (batch, heads, n, length))[item, head]


def _kept(sample: KernelSample, item: int, head: int) -> list[arb] | None:
    """The factors of a head's weights by dropout."""
    if sample.dropout is None:
        return None
    share = 1 / as_ball(sample.keep)
    return [share if stays else arb(0) for stays in sample.dropout[item, head].ravel()]


class _TrueScores:
    """The logits of one head in the declared order, with their derivatives by the scaled products and by the bias."""

    def __init__(self, sample: KernelSample, place: tuple[int, int], scale: arb, allowed: Any) -> None:
        self.sample, self.place, self.scale = sample, place, scale
        self.first = sample.softcap is not None and sample.conventions.mask_first
        self.forbidden = ~allowed.ravel() if self.first else None
        self.allowed = np.ones_like(allowed) if self.first else allowed

    def of(self, entries: list[arb]) -> tuple[list[arb], list[arb], list[arb]]:
        """Enclose the results row by row, from the products of queries and keys."""
        count, sample, length = len(entries), self.sample, self.sample.k.shape[2]
        slopes, by_bias = [arb(1)] * count, [arb(1)] * count
        for step in sample.conventions.order:
            if step == "scale":
                entries, by_bias = [x * self.scale for x in entries], [x * self.scale for x in by_bias]
            elif step == "softcap" and sample.softcap is not None:
                cap = as_ball(sample.softcap)
                tanh = [(x / cap).tanh() for x in entries]
                for place in np.flatnonzero(self.forbidden) if self.forbidden is not None else ():
                    tanh[place] = arb(-1)
                entries, slopes = [cap * t for t in tanh], [x * (1 - t * t) for x, t in zip(slopes, tanh, strict=True)]
                by_bias = [x * (1 - t * t) for x, t in zip(by_bias, tanh, strict=True)]
            elif step == "bias" and sample.bias is not None:
                bias = as_balls(_at(sample.bias, sample, *self.place)).entries()
                entries, by_bias = [x + b for x, b in zip(entries, bias, strict=True)], [arb(1)] * count
            elif step == "alibi" and sample.alibi is not None:
                slope, far = as_ball(sample.alibi[self.place[1]]), np.abs(sample.distance)
                entries = [x - slope * int(far[divmod(t, length)]) for t, x in enumerate(entries)]
        return entries, slopes, by_bias


def _softmax(logits: list[arb], allowed: Any, sink: arb | None) -> tuple[list[arb], arb, arb]:
    """The weights of a row over its allowed positions, the sink's weight, and log sum exp; shifted by the largest."""
    weights = [arb(0)] * len(logits)
    places = [int(place) for place in np.flatnonzero(allowed)]
    some = [logits[place] for place in places] + ([] if sink is None else [sink])
    if not some:
        return weights, arb(0), arb("-inf")
    shift = arb(max(float(one.mid()) for one in some))
    exponentials = [(one - shift).exp() for one in some]
    total = sum(exponentials, arb(0))
    for place, exponential in zip(places, exponentials, strict=False):
        weights[place] = exponential / total
    return weights, arb(0) if sink is None else exponentials[-1] / total, shift + total.log()
