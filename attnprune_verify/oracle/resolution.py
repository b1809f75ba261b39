"""Resolution: the finest error that can be judged on this instance in this precision, from the spread of trusted code.

Running-error bounds assume the worst at every step and may be coarse in float32. The spread is measured instead: plain
NumPy code, in the precision judged, runs over random orders of tokens and features and is compared with the reference.
A token keeps its original position in all rotations and distances.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.oracle.comparison import Resolution
from attnprune_verify.oracle.inputs import OracleInput, frequency

_TRIALS = 8  # chosen: the largest of eight directions counts
_MARGIN = 10.0  # calibrated on NumPy code: correct implementations stay below, by a factor of two and more


def resolution(
    at: OracleInput,
    reference: NDArray[np.float64],
    bound: NDArray[np.float64],
    rng: np.random.Generator,
    trials: int = _TRIALS,
) -> Resolution:
    """min(bound, 10 (spread + u |reference|)) for each entry, and with the norm of the errors for the norm.

    `spread` is the largest error of the trusted code over `trials` random permutations of tokens and features; the
    arrays' common dtype is the precision judged.
    """
    dtype = np.result_type(at.samples, *at.weights)
    unit = float(np.finfo(dtype).eps) / 2
    spread = norm = 0.0
    for _ in range(trials):
        tokens, features = rng.permutation(at.samples.shape[1]), rng.permutation(at.samples.shape[2])
        # The rows of a weight are features; so are the columns of the fused one, whose keys are tokens.
        rest = (slice(None),) if at.moves_keys else (features,)
        square = np.ix_(features, features) if not at.moves_keys else (features, *rest)
        moved = at._replace(
            masks=tuple(M[square].astype(dtype) for M in at.masks),
            weights=tuple(W[square].astype(dtype) for W in at.weights),
            samples=at.samples[:, tokens][:, :, features].astype(dtype),
            allowed=at.allowed[np.ix_(tokens, tokens)],
        )
        wanted = [part[square] for part in at.parted(reference)]
        errors = [part.astype(np.float64) - other for part, other in zip(_gradient(moved, tokens), wanted, strict=True)]
        error = at.flat(errors)
        spread, norm = max(spread, float(np.abs(error).max())), max(norm, math.hypot(*error))
    if not np.isfinite(norm):
        return Resolution(bound, math.hypot(*bound))
    entries = np.minimum(bound, _MARGIN * (spread + unit * np.abs(reference)))
    return Resolution(entries, _MARGIN * (norm + unit * math.hypot(*reference)))


def _gradient(at: OracleInput, places: NDArray[np.int_]) -> list[NDArray[Any]]:
    """The closed form, one head after another; token i stands at position places[i]."""
    number, m = at.samples.dtype.type, at.m
    sums = [np.zeros_like(W) for W in at.weights]
    distance = np.abs(places[:, np.newaxis] - places)
    for tokens in at.samples:
        for head in range(at.heads):
            columns = [slice(place * m, (place + 1) * m) for place in (head, head // (at.heads // at.kv_heads))]
            attentions = []
            for masks in (at.masks, [np.ones_like(W) for W in at.weights]):
                sides = [
                    _turned(at, _shifted(tokens @ (M[:, own] * W[:, own]), bias, own), places)
                    for M, W, bias, own in zip(masks, at.weights, at.biases, columns, strict=False)
                ]
                keys = sides[1] if at.moves_keys else tokens
                scores = number(at.scale) * (sides[0] @ keys.T)
                bend = number(1)
                if at.softcap is not None:
                    tanh = np.tanh(scores / number(at.softcap))
                    scores, bend = number(at.softcap) * tanh, 1 - tanh * tanh
                if at.alibi is not None:
                    scores = scores - number(at.alibi[head]) * distance.astype(scores.dtype)
                attentions.append((_softmax(scores, at.allowed), sides[0], keys, bend))
            (f, queries, keys, bend), dense = attentions[0], attentions[1][0]
            c = f - dense
            p = f * (c - (c * f).sum(axis=1, keepdims=True)) * bend * number(at.scale)
            for total, own, slope in zip(sums, columns, (p @ keys, p.T @ queries), strict=False):
                total[:, own] += tokens.T @ _turned(at, slope, places, back=True)
    share, lam = number(len(at.samples)), number(at.lam)
    return [W * (total / share) + lam * M for W, total, M in zip(at.weights, sums, at.masks, strict=True)]


def _shifted(rows: NDArray[Any], bias: Any, own: slice) -> NDArray[Any]:
    return rows if bias is None else rows + np.asarray(bias)[own].astype(rows.dtype)


def _turned(at: OracleInput, rows: NDArray[Any], places: NDArray[np.int_], *, back: bool = False) -> NDArray[Any]:
    if at.rope is None:
        return rows
    m = rows.shape[1]
    angles = np.outer(places, [frequency(at.rope, pair, m) for pair in range(m // 2)]) * (-1 if back else 1)
    cos, sin = np.cos(angles).astype(rows.dtype), np.sin(angles).astype(rows.dtype)
    half = at.rope.layout == "half"
    x, y = (rows[:, : m // 2], rows[:, m // 2 :]) if half else (rows[:, ::2], rows[:, 1::2])
    pairs = x * cos - y * sin, x * sin + y * cos
    return np.concatenate(pairs, axis=1) if half else np.stack(pairs, axis=2).reshape(rows.shape)


def _softmax(logits: NDArray[Any], allowed: NDArray[np.bool_]) -> NDArray[Any]:
    logits = np.where(allowed, logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
