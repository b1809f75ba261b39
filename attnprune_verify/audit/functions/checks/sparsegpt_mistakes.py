"""Wrong SparseGPTs, to put a name to a wrong output: one sweep with switches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.algorithms.baselines.sparsegpt import sparsegpt_report
from attnprune_verify.audit.functions.truth.conventions import CHOICES, MaskConventions, smallest_first
from attnprune_verify.audit.functions.truth.layers import LinearLayer
from attnprune_verify.audit.naming.searching import search_for_names

Matrix = NDArray[np.float64]
Flags = NDArray[np.bool_]
Switches = dict[str, Any]
Output = tuple[Matrix, Flags]
Like = tuple[Flags, float]
"""The entries that a program prunes, and how near two scores are whose order its roundings may exchange."""

_SINGLE, _DOUBLE = 1e-4, 1e-9  # what float32 and float64 may cost relative to the largest weight, or to a score


@search_for_names
def named(
    layer: LinearLayer, options: Switches, weight: Matrix, gone: Flags, rules: MaskConventions
) -> tuple[str, ...]:
    """The known mistakes that give this output; several if they agree on the layer."""
    size = max(1.0, float(np.abs(weight).max()))
    room = (_float32_room(layer, options) if layer.weight.dtype == np.float32 else 1e-7) * size
    like = (gone, _SINGLE if layer.weight.dtype == np.float32 else _DOUBLE)
    right, chosen = right_output(layer, options, gone, rules, like)
    off = float(np.abs(right - weight).max())
    if off <= room and (gone != chosen).any():
        return ("keeps-instead-of-prunes",) if (gone != chosen).all() else ()
    found: dict[str, None] = {}
    for id, run in _candidates(layer, options, rules, like):
        try:
            other, flags = run()
        except np.linalg.LinAlgError:
            continue
        if other.shape != weight.shape:
            continue
        if np.abs(other - right).max() <= room and (flags == chosen).all():
            continue  # on this layer it makes no difference
        if np.abs(other - weight).max() <= room and ((flags == gone).all() or ((other == 0) == (weight == 0)).all()):
            found[id] = None
    zeroed = not weight[gone].any()
    stored = zeroed and np.array_equal(
        weight, weight.astype(np.float32)
    )  # what was computed in float32 is a number of it
    if not found and stored and off <= _SINGLE * size and (gone == chosen).all():
        return ("low-precision",)
    return tuple(found)


def _float32_room(layer: LinearLayer, options: Switches) -> float:
    """Return the error of programs in float32 on this layer, relative to the largest weight.

    An output sums the updates of its columns, each with the rounding of a row of the factor, of either sign.
    """
    report = sparsegpt_report(layer.weight, layer.X, layer.rho, prune_n=layer.n, prune_m=layer.m, **options)
    return min(max(report.float32_stray, 1e-6) * math.sqrt(layer.weight.shape[1]), 1e-3)


def right_output(
    layer: LinearLayer, options: Switches, gone: Flags, rules: MaskConventions, like: Like | None = None
) -> Output:
    """The new weight and the pruned entries, by the original's sweep in float64; at rho = 0 if anything is pruned."""
    if not layer.m and layer.rho == 0 and not gone.any():
        return layer.weight.astype(float), np.zeros(layer.weight.shape, dtype=np.bool_)
    return _sweep(layer, **_settings(options, rules, like))


def _settings(options: Switches, rules: MaskConventions, like: Like | None) -> Switches:
    damp, width = options.get("percdamp", 0.01), options.get("blocksize", 128)
    return {"damp": damp, "width": width, "rules": rules, "like": like}


def _candidates(
    layer: LinearLayer, options: Switches, rules: MaskConventions, like: Like
) -> Iterator[tuple[str, Callable[[], Output]]]:
    settings = _settings(options, rules, like)
    damp, turned = settings["damp"], {**settings, "like": (like[0].T, like[1])}
    nothing, all_ = (np.full(layer.weight.shape, gone, dtype=np.bool_) for gone in (False, True))

    def sweeps(switches: Mapping[str, Iterable[Switches]]) -> Iterator[tuple[str, Callable[[], Output]]]:
        for id, every in switches.items():
            yield from ((id, partial(_sweep, layer, **{**settings, **one})) for one in every)

    yield from sweeps(_SWITCHES)
    sequences = len(layer.X) if layer.X.ndim == 3 else 1
    of_layer: dict[str, list[Switches]] = {
        "baseline-damping": [{"damp": one} for one in (10 * damp, 0.1 * damp, 0.01, 0.01 * damp)],
        "baseline-dead-inputs": [{"hessian_factor": 2.0 * sequences}],
        "keeps-instead-of-prunes": [{"ratio": 1 - layer.rho}],
        "baseline-global-threshold": [{"rules": replace(rules, threshold=unit)} for unit in CHOICES["threshold"]],
    }
    yield from sweeps(of_layer)
    yield "prunes-nothing", lambda: (layer.weight.astype(float), nothing)
    yield "prunes-everything", lambda: (np.zeros(layer.weight.shape), all_)
    if layer.weight.shape[0] == layer.weight.shape[1]:
        yield "baseline-axis", lambda: _transposed(layer, turned)
        yield "baseline-axis", lambda: _turned(layer, turned)
    yield "baseline-update", lambda: _in_order(layer, settings)
    if layer.m:
        groups: list[Switches] = [{"stale": True}, {"unstructured": True}, {"group": 2, "every": 4}]
        groups += [{"group": count} for count in (layer.m - layer.n, int(layer.m * layer.rho))]
        yield from sweeps({"group-convention": groups, "keeps-instead-of-prunes": [{"largest": True}]})
    if layer.m and layer.rho == 0:
        yield "group-convention", lambda: (layer.weight.astype(float), nothing)


def _transposed(layer: LinearLayer, settings: Switches) -> Output:
    turned = LinearLayer(layer.name, layer.weight.T, layer.X, layer.rho, layer.n, layer.m)
    weight, gone = _sweep(turned, **settings)
    return weight.T, gone.T


def _turned(layer: LinearLayer, settings: Switches) -> Output:
    weight, gone = _sweep(layer, **settings)
    return weight.T, gone.T


def _in_order(layer: LinearLayer, settings: Switches) -> Output:
    """The columns with the largest inputs first."""
    order = np.argsort(-(layer.X.astype(float).reshape(-1, layer.X.shape[-1]) ** 2).sum(axis=0))
    back = np.argsort(order)
    sorted_ = LinearLayer(layer.name, layer.weight[:, order], layer.X[..., order], layer.rho, layer.n, layer.m)
    gone, near = settings["like"]
    weight, gone = _sweep(sorted_, **{**settings, "like": (gone[:, order], near)})
    return weight[:, back], gone[:, back]


def _sweep(
    layer: LinearLayer,
    *,
    damp: float,
    width: int,
    rules: MaskConventions,
    like: Like | None = None,
    update: bool = True,
    across: bool = True,
    more: int = 0,
    power: float = 2.0,
    inverse_diagonal: bool = False,
    damp_first: bool = False,
    damp_by: str = "mean",
    tokens: bool = False,
    hessian_factor: float = 2.0,
    zero_dead: bool = True,
    fill_dead: bool = True,
    keep: bool = False,
    ratio: float | None = None,
    identity: bool = False,
    magnitude: bool = False,
    group: int | None = None,
    stale: bool = False,
    unstructured: bool = False,
    largest: bool = False,
    every: int | None = None,
    diagonal: bool = False,
    by_input: bool = False,
    mean_dead: bool = False,
    updating: str = "right",
    centred: bool = False,
    cut_of: int = 0,
) -> Output:
    X = layer.X.astype(float) if layer.X.ndim == 3 else layer.X.astype(float)[None]
    flat = X.reshape(-1, X.shape[-1])
    flat = flat - flat.mean(axis=0) if centred else flat
    H = hessian_factor / (len(flat) if tokens else len(X)) * flat.T @ flat
    if identity:
        H = np.eye(len(H))
    H = np.diag(np.diag(H)) if diagonal else H
    dead = np.diag(H) == 0
    fill = float(np.mean(np.diag(H))) if mean_dead else 1.0 if fill_dead else 0.0
    by = _DAMPINGS[damp_by]
    if damp_first:
        H = H + damp * by(H) * np.eye(len(H))
        H[dead, dead] = fill
    else:
        H[dead, dead] = fill
        H = H + damp * by(H) * (1.0 if damp_by == "mean, everywhere" else np.eye(len(H)))
    inverse = np.linalg.inv(H)
    U = np.linalg.cholesky(inverse).T
    W = layer.weight.astype(float)
    if zero_dead:
        W[:, dead] = 0.0
    gone = np.zeros(W.shape, dtype=np.bool_)
    scale = np.diag(inverse) ** 0.5 if inverse_diagonal else np.diag(H) ** -0.5 if by_input else np.diag(U)
    rho = layer.rho if ratio is None else ratio
    m = 0 if unstructured else every or layer.m
    original = W.copy()
    spread = np.ones(len(U)) if magnitude else scale**power
    cut, first = 0.0, W[:, :cut_of] ** 2 / spread[:cut_of]
    if cut_of:
        cut = float(first[_threshold(first, rho, more, rules)].max(initial=0.0))
    whole = rules.threshold == "matrix" and not m
    for a in range(0, W.shape[1], width):
        b = min(a + width, W.shape[1])
        if not m and not (a and whole):
            part = slice(a, W.shape[1] if whole else b)
            scores = W[:, part] ** 2 / spread[part]
            chosen = scores <= cut if cut_of else _threshold(scores, rho, more, rules)
            gone[:, part] = _as_rounded(chosen ^ keep, scores, like and (like[0][:, part], like[1]))
        for j in range(a, b):
            if m and (j - a) % m == 0:
                part = slice(j, j + m)
                base = original[:, part] if stale else W[:, part]
                scores = base**2 / spread[part]
                count = layer.n if group is None else group
                for i, row in enumerate(scores):
                    chosen = smallest_first(-row if largest else row, count) ^ keep
                    gone[i, part] = _as_rounded(chosen, row, like and (like[0][i, part], like[1]))
            kept = np.where(gone[:, j], 0.0, W[:, j])
            row, divisor = _UPDATES[updating](U, inverse, j) if updating != "right" else (U[j], U[j, j])
            error = (W[:, j] - kept) / divisor
            W[:, j] = kept
            if update:
                stop = W.shape[1] if across else b
                W[:, j + 1 : stop] -= np.outer(error, row[j + 1 : stop])
    return W, gone


def _as_rounded(chosen: Flags, scores: Matrix, like: Like | None) -> Flags:
    """The choice; among scores that roundings may exchange, that of the program, if it takes as many of them."""
    if like is None or chosen.all() or not chosen.any():
        return chosen
    gone, near = like
    low, high = sorted((float(scores[chosen].max()), float(scores[~chosen].min())))
    close = (scores >= low - near * high) & (scores <= high + near * high)
    same = high - low <= near * high and chosen[close].sum() == gone[close].sum()
    return np.where(close, gone, chosen) if same else chosen


# Wrong updates of the columns behind: the row that is subtracted, and what the error is divided by.
_UPDATES: dict[str, Callable[[Matrix, Matrix, int], tuple[Matrix, Any]]] = {
    "added": lambda U, inverse, j: (-U[j], U[j, j]),
    "divided twice": lambda U, inverse, j: (U[j], U[j, j] ** 2),
    "not divided": lambda U, inverse, j: (U[j], 1.0),
    "row of the inverse": lambda U, inverse, j: (inverse[j], U[j, j]),
    "inverse of all inputs": lambda U, inverse, j: (inverse[j], inverse[j, j]),
    "column": lambda U, inverse, j: (U[:, j], U[j, j]),
}

# What percdamp is a fraction of; the right one is the mean diagonal.
_DAMPINGS: dict[str, Callable[[Matrix], Any]] = {
    "mean": lambda H: np.diag(H).mean(),
    "max": lambda H: np.diag(H).max(),
    "one": lambda H: 1.0,
    "median": lambda H: np.median(np.diag(H)),
    "mean, everywhere": lambda H: np.diag(H).mean(),
    "mean over inputs": lambda H: np.diag(H).mean() / len(H),
    "trace": lambda H: np.trace(H),
    "all entries": lambda H: H.mean(),
    "each": lambda H: np.diag(H),
    "smallest": lambda H: np.diag(H).min(),
}


_SWITCHES: dict[str, list[Switches]] = {
    "baseline-no-update": [{"update": False}, {"update": False, "more": -1}, {"across": False}, {"diagonal": True}],
    "threshold-off-by-one": [{"more": -1}, {"more": -2}, {"more": 1}],
    "baseline-score": [
        {"power": 1.0}, {"power": 1.0, "more": -1}, {"power": 4.0}, {"power": -2.0}, {"inverse_diagonal": True},
        {"by_input": True}, {"centred": True},
    ],
    "baseline-ignores-activations": [
        {"power": 0.0}, {"identity": True}, {"magnitude": True}, {"magnitude": True, "update": False},
        {"magnitude": True, "update": False, "more": -1},
    ],
    "baseline-damping": [
        {"damp": 0.0}, {"damp_first": True}, *({"damp_by": name} for name in _DAMPINGS if name != "mean"),
    ],
    "baseline-dead-inputs": [
        {"tokens": True}, {"hessian_factor": 1.0}, {"mean_dead": True}, {"zero_dead": False}, {"fill_dead": False},
    ],
    "baseline-global-threshold": [
        *({"width": width} for width in (10**6, 1, 32, 64, 128, 256)), *({"cut_of": width} for width in (128, 10**6)),
    ],
    "keeps-instead-of-prunes": [{"keep": True}, {"keep": True, "more": -1}],
    "baseline-update": [{"updating": rule, "more": more} for more in (0, -1) for rule in _UPDATES],
}  # fmt: skip
"""The sweeps that each mistake makes, whatever the layer."""


def _threshold(scores: Matrix, rho: float, more: int, rules: MaskConventions) -> Flags:
    """The entries that go of a block; at rho = 0 the original takes one, as at any other ratio below 1."""
    least = rho == 0 and rules.count == "authors"
    return rules.gone(scores, rho, more + least, width=scores.shape[1])
