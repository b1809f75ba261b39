"""L(M + hD) - L(M) without cancellation, for many small h at once.

With dz the change of a row of logits and e = expm1(dz), F(M + hD) - F(M) = F*(e - (F*e)1) / (1 + (F*e)1), which follows
from the definition of the softmax alone. dz = h X(D*W)X^T for a fused weight; in a layer queries and keys both move,
and dz = h A + h^2 B; under a cap, tanh(a + x) - tanh a = tanh x / cosh^2 a / (1 + tanh a tanh x) with a = s / cap.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.oracle.inputs import OracleInput, frequency

_Array: TypeAlias = NDArray[np.floating[Any]]
_BLOCK = 2**18  # logits per row block


class _ExpandedHead(NamedTuple):
    """Queries and keys of one head on one sample; each at the point, without pruning, and along every direction."""

    number: int
    queries: list[_Array]
    keys: list[_Array]


def differences(
    at: OracleInput, directions: Sequence[_Array], halvings: NDArray[np.int_], kind: type[np.floating[Any]]
) -> list[tuple[_Array, _Array, _Array]]:
    """For each direction D: D, the step sizes h and L(M + hD) - L(M); steps are 2**-halvings times the first."""
    lines = [direction.astype(kind) for direction in directions]
    masks = [M.astype(kind) for M in at.masks]
    point = np.concatenate([M.ravel() for M in masks])
    firsts = _first_steps(at, lines, max(1.0, float(np.abs(point).max())), kind)
    steps = [np.asarray(first * np.exp2(-halvings.astype(kind))) for first in firsts]
    misfits = np.zeros((len(lines), len(halvings)), dtype=kind)
    n = len(at.allowed)
    height = max(1, _BLOCK // n)
    for head in _heads(at, lines, kind):
        for start in range(0, n, height):
            rows = slice(start, start + height)
            positions = at.allowed[rows]
            logits = head.queries[0][rows] @ head.keys[0].T
            f = _softmax(_scores(at, head.number, logits, start), positions)
            dense = head.queries[1][rows] @ head.keys[1].T
            c = f - _softmax(_scores(at, head.number, dense, start), positions)
            for misfit, query, key, hs in zip(misfits, head.queries[2:], head.keys[2:], steps, strict=True):
                first, second = query[rows] @ head.keys[0].T, np.zeros((1, 1), dtype=kind)
                if at.moves_keys:
                    first, second = first + head.queries[0][rows] @ key.T, query[rows] @ key.T
                misfit += _changes(at, logits, f, c, positions, (first, second), hs)
    found = []
    for line, hs, misfit in zip(lines, steps, misfits, strict=True):
        regular = kind(at.lam) * (hs * (point * line).sum() + hs**2 * (line * line).sum() / 2)
        found.append((line, hs, misfit / len(at.samples) + regular))
    return found


def _changes(
    at: OracleInput,
    logits: _Array,
    f: _Array,
    c: _Array,
    positions: NDArray[np.bool_],
    moves: tuple[Any, Any],
    hs: _Array,
) -> _Array:
    """1/2 ||c + dF||^2 - 1/2 ||c||^2 for every step."""
    found = []
    for h in hs:
        dz = h * moves[0] + h**2 * moves[1]
        if at.softcap is not None:
            cap = dz.dtype.type(at.softcap)
            far = np.minimum(np.abs(logits / cap), 300)  # beyond, 1 / cosh^2 is 0
            t = np.tanh(dz / cap)
            with np.errstate(divide="ignore"):
                dz = cap * t / np.cosh(far) ** 2 / (1 + np.tanh(logits / cap) * t)
        dz = np.where(positions, dz, 0)
        with np.errstate(invalid="ignore"):  # a step from one end of a cap to the other is not finite, and not used
            e = np.expm1(np.where(positions, dz - (f * dz).sum(axis=1, keepdims=True), 0))
        mean = (f * e).sum(axis=1, keepdims=True)
        change = f * (e - mean) / (1 + mean)
        found.append((change * (c + change / 2)).sum())
    return np.array(found)


def _first_steps(at: OracleInput, lines: Sequence[_Array], room: float, kind: type[np.floating[Any]]) -> list[_Array]:
    """Powers of two, where the logits move by about 1 (or the mask by its size, if they hardly move)."""
    reaches = [np.abs(line).max() / kind(room) for line in lines]
    for head in _heads(at, lines, kind):
        q, k = (np.sqrt((side[0] ** 2).sum(axis=1)).max() for side in (head.queries, head.keys))
        for index, (query, key) in enumerate(zip(head.queries[2:], head.keys[2:], strict=True)):
            dq = np.sqrt((query**2).sum(axis=1)).max()
            dk = np.sqrt((key**2).sum(axis=1)).max() if at.moves_keys else 0
            reaches[index] = max(reaches[index], dq * k + q * dk, np.sqrt(dq * dk))
    ones = np.ones((), dtype=kind)
    return [np.exp2(-np.ceil(np.log2(reach))) if 0 < reach < np.inf else ones for reach in reaches]


def _heads(at: OracleInput, lines: Sequence[_Array], kind: type[np.floating[Any]]) -> Iterator[_ExpandedHead]:
    weights = [W.astype(kind) for W in at.weights]
    matrices = [at.masks, [kind(1), kind(1)], *(at.parted(line) for line in lines)]
    m, group = at.m, at.heads // at.kv_heads
    for tokens in at.samples.astype(kind):
        for index in range(at.heads):
            sides: list[list[_Array]] = [[], []]
            for order, masks in enumerate(matrices):
                for side, place, mask, W, bias in zip(
                    sides, (index, index // group), masks, weights, at.biases, strict=False
                ):
                    own = slice(place * m, (place + 1) * m)
                    rows = tokens @ (mask * W)[:, own]
                    side.append(_turned(at, rows if bias is None or order > 1 else rows + bias[own]))
            queries, keys = sides
            yield _ExpandedHead(index, [kind(at.scale) * q for q in queries], keys or [tokens] * len(matrices))


def _turned(at: OracleInput, rows: _Array) -> _Array:
    """Pairs of features as complex numbers, times exp(i angle)."""
    if at.rope is None:
        return rows
    kind, (n, m) = rows.dtype.type, rows.shape
    waves = np.array([frequency(at.rope, pair, m, kind, np.arccos(-kind(1))) for pair in range(m // 2)])
    split = (slice(0, m // 2), slice(m // 2, m)) if at.rope.layout == "half" else (slice(0, m, 2), slice(1, m, 2))
    numbers = (rows[:, split[0]] + 1j * rows[:, split[1]]) * np.exp(1j * np.outer(np.arange(n).astype(kind), waves))
    turned = np.empty_like(rows)
    turned[:, split[0]], turned[:, split[1]] = numbers.real, numbers.imag
    return turned


def _scores(at: OracleInput, head: int, logits: _Array, start: int) -> _Array:
    """Capped, then lowered with the distance."""
    if at.softcap is not None:
        logits = at.softcap * np.tanh(logits / at.softcap)
    if at.alibi is not None:
        rows, columns = logits.shape
        logits = logits - at.alibi[head] * np.abs(np.arange(start, start + rows)[:, np.newaxis] - np.arange(columns))
    return logits


def _softmax(logits: _Array, positions: NDArray[np.bool_]) -> _Array:
    shift = np.max(np.where(positions, logits, -np.inf), axis=1, keepdims=True)
    weights = np.exp(np.where(positions, logits - shift, -np.inf))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
