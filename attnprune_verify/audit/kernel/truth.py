r"""What softmax attention and its gradients are on a sample, with a certain radius: balls, or float64 with its bound.

Per query head, with the positions a query may attend to:

    s = scale Q K^T,  P = softmax(s),  O = P V,
    dV = P^T dO,  dP = dO V^T,  dS = P * (dP - (P * dP) 1),  dQ = scale dS K,  dK = scale dS^T Q,

dK and dV summed over the query heads of a group; with a softcap s becomes c tanh(s / c), whose derivative multiplies
dS; ALiBi adds -slope |i - j|. Balls (python-flint) are used for float64 and for everything small; where the subject
is less precise than float64 and the sample large, float64 with its own worst-case bound is as good.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import arb, arb_mat

from attnprune_verify.audit.kernel.bounds import worst_errors
from attnprune_verify.audit.kernel.precision import PRECISIONS
from attnprune_verify.audit.kernel.sample import Array, Sample
from attnprune_verify.audit.kernel.steps import evaluate
from attnprune_verify.oracle.enclosure import as_ball, as_balls, enclose, working_precision

__all__ = ["BACKWARD", "FORWARD", "Value", "by_balls", "by_float64", "parts_of", "truth"]

FORWARD, BACKWARD = ("o",), ("dq", "dk", "dv")
_SMALL = 1_000  # positions up to which balls cost as little as float64 with its bound: some 5 ms
_BITS = 128


@dataclass(frozen=True)
class Value:
    """A float64 array and how far the exact value may be from it, entry by entry."""

    value: Array
    radius: Array


def parts_of(function: str) -> tuple[str, ...]:
    """The arrays a function returns."""
    return FORWARD if function == "attention" else BACKWARD


def truth(sample: Sample) -> dict[str, Value]:
    """o, dq, dk and dv, computed once per sample."""
    if "truth" not in sample.memo:
        batch, heads, _, n, length, _, _ = sample.shape
        large = batch * heads * n * length > _SMALL
        exact = by_float64 if large and sample.precision.name != "float64" else by_balls
        sample.memo["truth"] = exact(sample)
    found: dict[str, Value] = sample.memo["truth"]
    return found


def by_float64(sample: Sample) -> dict[str, Value]:
    """NumPy in float64, and the worst that rounding there can do."""
    steps, errors = evaluate(sample), worst_errors(sample, PRECISIONS["float64"])
    return {name: Value(getattr(steps, name), errors[name]) for name in (*FORWARD, *BACKWARD)}


def by_balls(sample: Sample) -> dict[str, Value]:
    """Ball arithmetic, head by head."""
    batch, heads, kv_heads, *_ = sample.shape
    with working_precision(_BITS):
        heads_of = [[_head(sample, item, head) for head in range(heads)] for item in range(batch)]
        summed = {
            "o": [[one["o"] for one in row] for row in heads_of],
            "dq": [[one["dq"] for one in row] for row in heads_of],
            "dk": [[_total(row, "dk", group, sample.group) for group in range(kv_heads)] for row in heads_of],
            "dv": [[_total(row, "dv", group, sample.group) for group in range(kv_heads)] for row in heads_of],
        }
        return {name: _value(matrices) for name, matrices in summed.items()}


def _total(row: list[dict[str, arb_mat]], name: str, group: int, size: int) -> arb_mat:
    first, *rest = row[group * size : (group + 1) * size]
    total = first[name]
    for one in rest:
        total = total + one[name]
    return total


def _value(matrices: list[list[arb_mat]]) -> Value:
    rows, columns = matrices[0][0].nrows(), matrices[0][0].ncols()
    balls = [entry for row in matrices for matrix in row for entry in matrix.entries()]
    found = enclose(balls, (len(matrices), len(matrices[0]), rows, columns))
    return Value(found.midpoint, found.radius)


def _head(sample: Sample, item: int, head: int) -> dict[str, arb_mat]:
    """o, dq, and this head's part of dk and dv."""
    key = head // sample.group
    q, do = as_balls(sample.q[item, head]), as_balls(sample.do[item, head])
    k, v = as_balls(sample.k[item, key]), as_balls(sample.v[item, key])
    scale = 1 / arb(sample.q.shape[3]).sqrt() if sample.scale is None else as_ball(sample.scale)
    logits, slopes = _logits(sample, head, (q * k.transpose() * scale).entries())
    weights = _softmax(sample, logits)
    n, length = sample.allowed.shape
    p = arb_mat(n, length, weights)
    dp = (do * v.transpose()).entries()
    ds = arb_mat(n, length, _logit_gradient(weights, dp, slopes, length))
    return {"o": p * v, "dq": ds * k * scale, "dk": ds.transpose() * q * scale, "dv": p.transpose() * do}


def _logits(sample: Sample, head: int, entries: list[arb]) -> tuple[list[arb], list[arb] | None]:
    """The modified logits, and their derivatives by the unmodified ones (None: all 1)."""
    slopes = None
    if sample.softcap is not None:
        cap = as_ball(sample.softcap)
        tanh = [(entry / cap).tanh() for entry in entries]
        entries, slopes = [cap * t for t in tanh], [1 - t * t for t in tanh]
    if sample.alibi is not None:
        slope, length = as_ball(sample.alibi[head]), sample.k.shape[2]
        entries = [entry - slope * abs(t // length - t % length) for t, entry in enumerate(entries)]
    return entries, slopes


def _softmax(sample: Sample, logits: list[arb]) -> list[arb]:
    """Row by row over the allowed positions, shifted by about the largest."""
    n, length = sample.allowed.shape
    weights = [arb(0)] * (n * length)
    for i, row in enumerate(sample.allowed):
        places = [i * length + int(j) for j in np.flatnonzero(row)]
        shift = arb(max(float(logits[place].mid()) for place in places))
        exponentials = [(logits[place] - shift).exp() for place in places]
        total = sum(exponentials, arb(0))
        for place, exponential in zip(places, exponentials, strict=True):
            weights[place] = exponential / total
    return weights


def _logit_gradient(p: list[arb], dp: list[arb], slopes: list[arb] | None, length: int) -> list[arb]:
    """P * (dP - (P * dP) 1), times the derivative of a softcap."""
    found: list[arb] = []
    for start in range(0, len(p), length):
        row = slice(start, start + length)
        products = [a * b for a, b in zip(p[row], dp[row], strict=True)]
        mean = sum(products, arb(0))
        found += [product - a * mean for product, a in zip(products, p[row], strict=True)]
    return found if slopes is None else [a * b for a, b in zip(found, slopes, strict=True)]
