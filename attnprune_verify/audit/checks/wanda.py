"""Is this the Wanda mask of these weights and inputs? Exact counts per row or group; scores recomputed in float64.

Entries that float32 arithmetic could decide otherwise are left to the subject: the score's gap to the cut is compared
with the rounding of the original's float32 computation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.algorithms.baselines.wanda import wanda_report
from attnprune_verify.audit.checks.rounding import explained, smallest_first
from attnprune_verify.audit.context import Context
from attnprune_verify.audit.record import Call, Check, Finding

__all__ = ["Layer", "layers", "wanda_checks"]

Flags = NDArray[np.bool_]
Scores = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Layer:
    """A linear layer, its inputs, and how it is to be pruned."""

    name: str
    weight: NDArray[Any]
    X: NDArray[Any]
    rho: float
    n: int = 0
    m: int = 0

    @property
    def keywords(self) -> dict[str, int]:
        return {"prune_n": self.n, "prune_m": self.m} if self.m else {}

    def describe(self) -> str:
        kind = f"{self.n}:{self.m}" if self.m else f"rho = {self.rho:g}"
        return f"{self.name} (weight {self.weight.shape}, X {self.X.shape}, {kind}, {self.weight.dtype})"

    def call(self, function: str, expected: tuple[Any, ...] | None = None) -> Call:
        return Call(function, {"weight": self.weight, "X": self.X, "rho": self.rho}, dict(self.keywords), expected)


def layers(seed: int) -> dict[str, tuple[Layer, ...]]:
    """Layers of every kind: `in` and `out` differ, inputs have very different sizes, some are dead or tied."""
    rng = np.random.default_rng([seed, 78])

    def layer(rows: int, columns: int, tokens: tuple[int, ...], name: str, rho: float, **options: Any) -> Layer:
        dtype = options.pop("dtype", np.float64)
        mixing = rng.standard_normal((columns, columns)) / np.sqrt(columns) + np.eye(columns)
        X = (rng.standard_normal((*tokens, columns)) @ mixing) * np.exp(rng.standard_normal(columns))
        weight = rng.standard_normal((rows, columns)) * np.exp(0.5 * rng.standard_normal((rows, 1)))
        dead = options.pop("dead", [])
        X[..., dead] = 0.0
        return Layer(name, weight.astype(dtype), X.astype(dtype), rho, **options)

    def tied(rho: float) -> Layer:
        weight = rng.integers(-3, 4, (6, 10)) / 4.0
        return Layer("ties", weight, rng.choice([-1.0, 1.0], (1, 16, 10)), rho)

    return {
        "values": (
            layer(6, 10, (2, 16), "rows x columns", 0.5),
            layer(12, 8, (1, 24), "tall", 0.5),
            layer(9, 9, (2, 12), "square", 0.4),
        ),
        "counts": tuple(layer(5, 10, (1, 16), f"rho {rho}", rho) for rho in (0.15, 0.25, 0.35, 0.65, 0.95, 0.05)),
        "edges": (layer(4, 6, (1, 9), "nothing", 0.0), layer(4, 6, (1, 9), "everything", 1.0), tied(0.0), tied(1.0)),
        "ties": (tied(0.5), tied(0.3), Layer("all equal", np.ones((4, 6)), np.ones((1, 8, 6)), 0.5)),
        "groups": (
            layer(5, 8, (1, 16), "1:4", 0.5, n=1, m=4),
            layer(5, 8, (1, 16), "3:4", 0.5, n=3, m=4),
            layer(5, 8, (1, 16), "2:4", 0.9, n=2, m=4),
            layer(5, 16, (2, 16), "2:8", 0.5, n=2, m=8),
            layer(5, 16, (2, 16), "4:8", 0.0, n=4, m=8),
            layer(8, 8, (1, 16), "square 1:4", 0.5, n=1, m=4),
        ),
        "dead-inputs": (
            layer(6, 10, (1, 24), "dead", 0.5, dead=[1, 4, 7]),
            layer(6, 10, (3, 12), "dead", 0.3, dead=[0]),
        ),
        "two-dimensional": (
            layer(5, 7, (20,), "one sequence, tokens x in", 0.3),
            layer(16, 12, (30,), "one sequence, with dead inputs", 0.4, dead=[2, 5]),
        ),
        "float32": (
            layer(6, 10, (2, 16), "float32", 0.5, dtype=np.float32),
            layer(6, 8, (1, 16), "float32 groups", 0.5, n=1, m=4, dtype=np.float32),
        ),
        "larger": (layer(24, 150, (2, 200), "wide", 0.35),),
    }


_SAYS = {
    "values": "per row the smallest |weight| ||X_j|| go",
    "counts": "exactly int(in rho) entries of every row go",
    "edges": "rho = 0 prunes nothing, rho = 1 everything",
    "ties": "of equal scores the lower index goes first",
    "groups": "of every M inputs the N smallest are pruned, whatever rho says",
    "dead-inputs": "inputs that are always zero go first",
    "two-dimensional": "X of two dimensions is one sequence",
    "float32": "right in float32 where float32 can decide",
    "larger": "right for 24 x 150",
}


def wanda_checks() -> Iterator[Check]:
    """The checks of wanda_mask."""
    for name, says in _SAYS.items():
        yield Check(
            "wanda_mask",
            name,
            says,
            None,
            partial(_wanda, name=name),
            required=name == "values",
        )
    yield Check("wanda_mask", "inputs-untouched", "the inputs are not changed", None, _pure)


def _wanda(context: Context, name: str) -> Finding:
    wrong: list[Finding] = []
    undecided = 0
    for layer in layers(context.seed)[name]:
        answer = context.call("wanda_mask", [layer.weight, layer.X, layer.rho], dict(layer.keywords))
        report = wanda_report(layer.weight, layer.X, layer.rho, prune_n=layer.n, prune_m=layer.m)
        loose = (
            report.undecided
            if (layer.m or layer.name not in ("ties", "all equal"))
            else np.zeros_like(report.undecided)
        )
        undecided += int(loose.sum())
        problem = _problem(answer.parts[0], layer, report.pruned, loose)
        if problem is not None:
            reason, ids = problem
            call = layer.call("wanda_mask", (report.pruned,))
            wrong.append(Finding("failed", f"{reason}, on {layer.describe()}", ids=ids, call=call))
    if wrong:
        return explained(wrong)
    return Finding("passed", f"entry by entry; {undecided} entries undecided in float32", power=0.0)


def _problem(got: NDArray[Any], layer: Layer, right: Flags, loose: Flags) -> tuple[str, tuple[str, ...]] | None:
    if got.shape != right.shape or got.dtype.kind not in "biuf":
        ids = ("baseline-axis",) if got.shape == right.T.shape and right.shape != right.T.shape else ("wrong-shape",)
        return f"returns {got.dtype} of shape {got.shape} instead of {right.shape}", ids
    if not np.isin(got, (0, 1)).all():
        return "returns something else than 0 and 1", ("wrong-shape",)
    gone = got == 1
    wrong = (gone != right) & ~loose
    width = layer.m or right.shape[1]
    counts = gone.reshape(-1, width).sum(axis=1), right.reshape(-1, width).sum(axis=1)
    if not wrong.any() and np.array_equal(*counts):
        return None
    where = "group" if layer.m else "row"
    reason = (
        f"{int(wrong.sum())} decided entries are wrong; per {where} it prunes {counts[0].min()} to {counts[0].max()} "
        f"where {counts[1].max()} is right"
    )
    known = [id for id, choose in _wrong_choices(layer) if not ((gone != choose()) & ~loose).any()]
    off = np.abs(counts[0].astype(int) - counts[1])
    if off.max() == off.min() == 1:
        known.append("threshold-off-by-one")
    return reason, tuple(dict.fromkeys(known))


def _wrong_choices(layer: Layer) -> Iterator[tuple[str, Callable[[], Flags]]]:
    weight, X = np.abs(layer.weight.astype(float)), layer.X.astype(float).reshape(-1, layer.X.shape[-1])
    norms = np.linalg.norm(X, axis=0)
    scores, other_scores = weight * norms, _wrong_scores(layer.weight.astype(float), X)
    if layer.m:
        yield from _wrong_groups(layer, scores, norms, other_scores)
        return
    rho, (rows, columns) = layer.rho, weight.shape
    count = int(columns * rho)
    ranked = np.sort(scores, axis=1)
    for id, wrong in other_scores:
        yield id, partial(_rows, wrong, count)
    yield "keeps-instead-of-prunes", lambda: ~_rows(scores, count)
    yield "keeps-instead-of-prunes", lambda: _rows(-scores, count)
    yield "keeps-instead-of-prunes", lambda: _rows(scores, columns - count)
    yield "baseline-global-threshold", lambda: smallest_first(scores, int(scores.size * rho))
    yield "baseline-global-threshold", lambda: scores <= _ranked(scores, int(scores.size * rho))
    yield "baseline-axis", lambda: _rows(scores.T, int(rows * rho)).T
    if rows == columns:
        yield "baseline-axis", lambda: _rows(weight.T * norms, count).T
    yield "threshold-off-by-one", lambda: _rows(scores, min(count + 1, columns))
    yield "threshold-off-by-one", lambda: _rows(scores, max(count - 1, 0))
    yield "threshold-off-by-one", lambda: _rows(scores, int(np.ceil(columns * rho)))
    yield "threshold-off-by-one", lambda: _rows(scores, round(columns * rho))
    yield "ties-dropped", lambda: scores <= ranked[:, [max(count - 1, 0)]]
    yield "ties-dropped", lambda: scores < ranked[:, [min(count, columns - 1)]]
    yield "ties-dropped", lambda: scores <= ranked[:, [min(count, columns - 1)]]
    yield "ties-dropped", lambda: ~_rows(-scores, columns - count)


def _wrong_scores(weight: Scores, X: Scores) -> list[tuple[str, Scores]]:
    size, norms = np.abs(weight), np.linalg.norm(X, axis=0)
    return [
        ("baseline-ignores-activations", size),
        ("baseline-score", size * norms**2),
        ("baseline-score", size * np.sqrt(norms)),
        ("baseline-score", size * np.abs(X).sum(axis=0)),
        ("baseline-score", size * np.abs(X).max(axis=0)),
        ("baseline-score", size * np.abs(X.mean(axis=0))),
        ("baseline-score", size * X.std(axis=0)),
        ("baseline-score", weight * norms),
        ("baseline-score", np.broadcast_to(norms, weight.shape)),
    ]


def _wrong_groups(
    layer: Layer, scores: Scores, norms: Scores, other_scores: list[tuple[str, Scores]]
) -> Iterator[tuple[str, Callable[[], Flags]]]:
    rows, columns = scores.shape
    yield "group-convention", partial(_groups, scores, layer.m, layer.m - layer.n)
    yield "keeps-instead-of-prunes", lambda: ~_groups(scores, layer.m, layer.n)
    yield "keeps-instead-of-prunes", partial(_groups, -scores, layer.m, layer.n)
    yield "group-convention", partial(_rows, scores, int(columns * layer.rho))
    yield "group-convention", partial(_rows, scores, columns * layer.n // layer.m)
    if rows % layer.m == 0:
        yield "baseline-axis", lambda: _groups(scores.T, layer.m, layer.n).T
    if rows == columns:
        yield "baseline-axis", lambda: _groups(np.abs(layer.weight.T.astype(float)) * norms, layer.m, layer.n).T
    for id, wrong in other_scores:
        yield id, partial(_groups, wrong, layer.m, layer.n)


def _groups(scores: Scores, width: int, count: int) -> Flags:
    parts = np.split(scores, scores.shape[1] // width, axis=1)
    return np.concatenate([_rows(part, count) for part in parts], axis=1)


def _ranked(scores: Scores, index: int) -> float:
    return float(np.sort(scores, axis=None)[min(index, scores.size - 1)])


def _rows(scores: NDArray[Any], count: int) -> Flags:
    return np.stack([smallest_first(row, count) for row in scores])


def _pure(context: Context) -> Finding:
    for layer in layers(context.seed)["values"]:
        first, second = (
            context.call("wanda_mask", [layer.weight, layer.X, layer.rho], dict(layer.keywords)) for _ in range(2)
        )
        if first.changed:
            return Finding("failed", "changes its input", ids=("mutates-input",), call=layer.call("wanda_mask"))
        if not np.array_equal(first.parts[0], second.parts[0]):
            return Finding("failed", "two equal calls differ", ids=("nondeterministic",), call=layer.call("wanda_mask"))
    return Finding("passed", "untouched, and equal calls agree")
