"""Bounds of |computed - true| for queries, keys and scores, for any order of the products.

With bars for absolute values, q is bounded by Q = (|X| |A_Q| + |b_Q|) turned by |R_i|, and k likewise. However an
implementation associates scale (X A_Q + b_Q) R_i^T R_j (X A_K + b_K)^T, through queries and keys, through one fused
weight A_Q A_K^T, or through the relative turn R_{j-i} (|R_{j-i}| <= |R_i|^T |R_j|), every partial sum is bounded by the
terms of Q K^T, so that N roundings on the way to a logit cost at most gamma_N Q K^T, N = 2d + m + 12 with a key weight.

A turn adds what its angle is off. With l = (2a/m) log theta, w = theta^(-2a/m) is off by (8 + 3 l) u w, divided by a
factor or not, as powers multiply the error of their exponent; interpolated frequencies by more (`_drift`). The angle
i w is off by one rounding more, and sine and cosine of what it became by 4 u: |dR| <= u ((9 + 3 l) i w + 4) in each of
their two places. Line by line: proofs_check/PROOFS.md, "The running-error bound".

A cap c tanh(s/c) passes an error e of s on with the largest slope within reach, 1/cosh^2(max(|s| - e, 0) / c), and
rounds: s/c once or twice (as an error 4 u |s| of s), tanh itself within 4 u, the product and c once. Its slope 1 - t^2
is then off by 2 |t| dt + dt^2 + 4 u, its curvature -2/c t (1 - t^2) by the product rule. Lowering by slope |i - j|
rounds twice. A modifier of `SCORES` passes an error e of s on as e in u, max|u''| e in u', and so on.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.oracle.error_propagation import FLOAT64, U64, Approx, Array, Rounding, Scores
from attnprune_verify.oracle.inputs import OracleInput, frequency
from attnprune_verify.oracle.score_formulas import SCORES, derivatives


class Turn(NamedTuple):
    """Rotations by position: cos, sin and the angles' error in units of u (n, pairs), and which columns are pairs."""

    cos: Array
    sin: Array
    off: Array
    first: NDArray[np.int_]
    second: NDArray[np.int_]

    def apply(self, rows: Array) -> Array:
        """The rotation itself."""
        turned = np.empty_like(rows)
        a, b = rows[:, self.first], rows[:, self.second]
        turned[:, self.first], turned[:, self.second] = a * self.cos - b * self.sin, a * self.sin + b * self.cos
        return turned

    def sizes(self, rows: Array) -> Array:
        """Return |R| rows, a bound of the turned terms; the transpose of |R| gives the same bound."""
        turned = np.empty_like(rows)
        a, b, cos, sin = rows[:, self.first], rows[:, self.second], np.abs(self.cos), np.abs(self.sin)
        turned[:, self.first], turned[:, self.second] = a * cos + b * sin, a * sin + b * cos
        return turned

    def angle_errors(self, rows: Array) -> Array:
        """Bound the errors that wrong angles cause in rows of this size, in units of u."""
        off = (self.off + 4) * (rows[:, self.first] + rows[:, self.second])
        errors = np.empty_like(rows)
        errors[:, self.first] = errors[:, self.second] = off
        return errors


class Side(NamedTuple):
    """Queries or keys of one head: values, a bound of their terms' absolute sum, what angles add in units of u, and
    what underflow may lose of any entry of a row, in units of the smallest normal number."""

    value: Array
    size: Array
    angle: Array
    lost: Array  # (n, 1)


class Head(NamedTuple):
    """One head on one sample: with nothing pruned, at the masks, and along a direction where there is one."""

    number: int
    dense: tuple[Side, Side]
    pruned: tuple[Side, Side]
    moved: tuple[Side, Side] | None


def turn_of(at: OracleInput) -> Turn | None:
    """The rotations of a problem in float64."""
    if at.rope is None:
        return None
    n, m = len(at.allowed), at.m
    pairs = np.arange(m // 2)
    first, second = (pairs, pairs + m // 2) if at.rope.layout == "half" else (2 * pairs, 2 * pairs + 1)
    angles = np.outer(np.arange(n), [frequency(at.rope, pair, m) for pair in pairs.tolist()])
    off = angles * np.array([_drift(at.rope, pair, m) for pair in pairs.tolist()])
    return Turn(np.cos(angles), np.sin(angles), off, first, second)


def _drift(rope: Any, pair: int, m: int) -> float:
    """The relative error of an angle, in units of u: an exponent's error times log theta, and that of `kept`."""
    exponent = 2 * pair / m * math.log(float(rope.theta))
    drift = 9 + 3 * exponent
    if rope.scaling is None or rope.scaling["rope_type"] == "linear":
        return drift
    low, high = (float(rope.scaling[key]) for key in ("low_freq_factor", "high_freq_factor"))
    fast = math.exp(-exponent)
    turns = float(rope.scaling["original_max_position_embeddings"]) * fast / (2 * math.pi)
    if not -0.01 < (turns - low) / (high - low) < 1.01:
        return drift
    return drift + (18 + 4 * exponent) * high / (high - low) * fast / float(frequency(rope, pair, m))


def heads(at: OracleInput, tokens: Array, turn: Turn | None, directions: tuple[Array, ...] | None = None) -> list[Head]:
    """Return all heads on one sample, with the scale in the queries."""
    dense = _sides(at, tokens, at.weights, turn)
    pruned = _sides(at, tokens, [M * W for M, W in zip(at.masks, at.weights, strict=True)], turn)
    if directions is None:
        return [Head(h, *both, None) for h, both in enumerate(zip(dense, pruned, strict=True))]
    moves = _sides(at, tokens, [V * W for V, W in zip(directions, at.weights, strict=True)], turn, bias=False)
    return [Head(h, *three) for h, three in enumerate(zip(dense, pruned, moves, strict=True))]


def _sides(
    at: OracleInput, tokens: Array, weights: Any, turn: Turn | None, *, bias: bool = True
) -> list[tuple[Side, Side]]:
    d, m, found = tokens.shape[1], at.m, []
    far = np.abs(tokens).sum(axis=1, keepdims=True) + d + 4
    for h in range(at.heads):
        sides = []
        places = (h, h // (at.heads // at.kv_heads))
        for A, b, place in zip(weights, at.biases, places, strict=False):
            own = slice(place * m, (place + 1) * m)
            constant = b[own] if bias and b is not None else np.zeros(m)
            value, size = tokens @ A[:, own] + constant, np.abs(tokens) @ np.abs(A[:, own]) + np.abs(constant)
            if turn is None:
                sides.append(Side(value, size, np.zeros_like(size), far))
            else:
                sides.append(Side(turn.apply(value), turn.sizes(size), turn.angle_errors(size), 2 * far + 4))
        queries = sides[0]
        value, size, angle = (at.scale * part for part in queries[:3])
        scaled = Side(value, size, angle, max(1.0, at.scale) * queries.lost + 1)
        still = np.zeros((len(tokens), 1))
        unmoved = Side(tokens if bias else 0 * tokens, np.abs(tokens) if bias else 0 * tokens, 0 * tokens, still)
        found.append((scaled, sides[1] if at.moves_keys else unmoved))
    return found


def logit_error(at: OracleInput, query: Side, key: Side, rows: slice, rounding: Rounding) -> Array:
    """|computed - true| of scale q k^T, for some rows."""
    d, m = at.samples.shape[2], at.m
    q, k = query.size[rows], key.size.T
    # Underflow: of queries and keys, of their products, and of the products on the way through a fused weight.
    far = query.lost[rows] * key.lost.T if at.moves_keys else 0.0
    lost = query.lost[rows] * k.sum(axis=0) + q.sum(axis=1, keepdims=True) * key.lost.T + m * (far + 1) + d * m
    if at.moves_keys:
        reach = max(1.0, at.scale) * (1 + m) * d
        lost = lost + reach * (query.lost[rows] * key.lost.T)
    else:
        lost = lost + d * query.lost[rows]  # of A X^T, before the query multiplies it
    lost = rounding.tiny * lost
    angles = rounding.u * (query.angle[rows] @ (key.size + rounding.u * key.angle).T + q @ key.angle.T)
    terms = 2 * d + m + 12 if at.moves_keys else 2 * d + 6
    return np.asarray(rounding.gamma(terms) * (q @ k + angles + lost) + angles + lost)


def scores(at: OracleInput, head: int, sides: tuple[Side, Side], rows: slice, rounding: Rounding) -> Scores:
    """Logits, capped and lowered, in the arithmetic of the sums."""
    rounding = rounding.working
    value = sides[0].value[rows] @ sides[1].value.T
    own, error = (logit_error(at, *sides, rows, kind) for kind in (FLOAT64, rounding))
    bend = curve = None
    if at.softcap is not None:
        value, own, error, bend, curve = _capped(value, own, error, at.softcap, rounding)
    if at.alibi is not None:
        i, j = np.arange(rows.start, rows.start + len(value))[:, np.newaxis], np.arange(len(at.allowed))
        fall = float(at.alibi[head]) * np.abs(i - j)
        size = np.abs(value) + 2 * np.abs(fall)
        own, error = own + 3 * FLOAT64.u * (size + own), error + 3 * rounding.u * (size + error) + 2 * rounding.tiny
        value = value - fall
    for score in at.scores:  # one, and no softcap: see `chained`
        value, own, error, bend, curve = _bent(score, value, own, error, rounding)
    return Scores(value, own, error, bend, curve)


def chained(at: OracleInput) -> bool:
    """Return True where a score follows a softcap or another score; the errors of such a chain are not derived."""
    return bool(at.scores) and len(at.scores) + (at.softcap is not None) > 1


def _bent(
    score: object, logits: Array, own: Array, error: Array, rounding: Rounding
) -> tuple[Array, Array, Array, Approx, Approx]:
    """Pass errors of s on to u, u' and u'' by the mean value theorem, and add the roundings."""
    formula, (value, *slopes) = SCORES[type(score)], derivatives(score, logits)
    count, steepest, third = formula.roundings, formula.steepest(score), formula.third(score)
    errors = [
        part + count * (kind.gamma(1) * (np.abs(value) + part) + kind.tiny)
        for part, kind in ((own, FLOAT64), (error, rounding))
    ]
    found = []
    for slope, bound, lipschitz in zip(slopes, (1.0, steepest), (steepest, third), strict=True):
        moved = lipschitz * error + count * (rounding.gamma(1) * bound + rounding.tiny)
        size = np.minimum(np.abs(slope) + lipschitz * own + count * FLOAT64.u * bound, bound)
        found.append(Approx(slope, size, moved))
    return value, errors[0], errors[1], found[0], found[1]


def _capped(
    logits: Array, own: Array, error: Array, cap: float, rounding: Rounding
) -> tuple[Array, Array, Array, Approx, Approx]:
    t = np.tanh(logits / cap)
    own_t, error_t = (_tanh_error(logits, own, moved, cap, kind) for moved, kind in ((own, FLOAT64), (error, rounding)))
    size_t = np.minimum(np.abs(t) + own_t, 1.0)
    u = rounding.u
    # 1 - t^2 is 1 / cosh^2, which stays small where t rounds to 1; for the size that is the better bound
    bend_size = np.minimum(1 - t * t + 2 * size_t * own_t + own_t**2 + 4 * FLOAT64.u, 1.0)
    bend_error = (2 * size_t + error_t) * error_t + 4 * u
    curve_size = 2 / cap * size_t * bend_size
    curve_error = 2 / cap * (error_t * (bend_size + bend_error) + size_t * bend_error)
    curve_error = curve_error + 6 * u * (curve_size + curve_error) + rounding.tiny
    bend = Approx(1 - t * t, bend_size, bend_error)
    curve = Approx(-2 / cap * t * (1 - t * t), curve_size, curve_error)
    errors = [
        cap * (part + 3 * kind.u * (size_t + part)) + 2 * kind.tiny
        for part, kind in ((own_t, FLOAT64), (error_t, rounding))
    ]
    return cap * t, errors[0], errors[1], bend, curve


def _tanh_error(logits: Array, own: Array, moved: Array, cap: float, rounding: Rounding) -> Array:
    """Bound the error of t = tanh(s / cap) against the true s, which is within `own` of `logits`."""
    reach = (moved + 4 * rounding.u * (np.abs(logits) + own + moved) + 2 * rounding.tiny * (1 + cap)) / cap
    slip = 8 * U64 * (np.abs(logits) / cap + own / cap + reach)  # of this line itself, where the terms cancel
    nearest = np.maximum(np.abs(logits) / cap - own / cap - reach - slip, 0.0)
    slope = 1 / np.cosh(np.minimum(nearest, 300.0)) ** 2
    error = np.minimum(reach * slope, 2.0) + 5 * rounding.u * np.minimum(np.abs(logits) / cap + own / cap + reach, 1.0)
    return np.asarray(np.where(np.isnan(error), 2.0, error))


def pulled(at: OracleInput, tokens: Array, turn: Turn | None, rows: Approx, rounding: Rounding) -> tuple[Array, Array]:
    """X^T R_i^T rows: a bound of its size and of its error, but for the roundings of the sums."""
    size, error = rows.size, rows.error
    if turn is not None:
        off = rounding.u * turn.angle_errors(size + error)
        size, error = turn.sizes(size), turn.sizes(error) + off
    columns = np.abs(tokens).T
    return columns @ size, columns @ error
