"""The linear layers on which pruning baselines are judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.covering import covering
from attnprune_verify.audit.functions.truth.precision import FLOAT32, FLOAT64, Precision
from attnprune_verify.audit.naming.shrink import SMALLEST, doubtless, fewer, shorter
from attnprune_verify.audit.record import Call

_FEW = 8  # chosen: tokens, of which each is left out in turn
TABLE: dict[str, Sequence[Any]] = {
    "kind": ("2:4", "a ratio", "1:4", "4:8"),
    "inputs": (12, 20, 4, 132),
    "outputs": (8, 5),
    "tokens": ("many", "few", "one"),
    "sequences": (1, 3, 0),
    "dead": (False, True),
    "ties": (False, True),
    "zeros": (False, True),
    "scale": (0, -40, 40),
    "rho": (0.5, 0.27, 0.77),
}
"""What changes a pruning program's way: every pair of levels stands in a layer. 132 inputs end inside a second block of
128; with few tokens the Hessian has no inverse without damping; 0 sequences is X of two dimensions; a power of two
multiplies X."""


@dataclass(frozen=True, eq=False)
class LinearLayer:
    """A linear layer, its inputs, and how it is to be pruned."""

    name: str
    weight: NDArray[Any]
    X: NDArray[Any]
    rho: float
    n: int = 0
    m: int = 0
    levels: Mapping[str, object] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The pattern, or the words for a ratio."""
        return f"{self.n}:{self.m}" if self.m else "a ratio"

    @property
    def few(self) -> bool:
        """The layer has fewer tokens than inputs."""
        return bool(self.X.size < self.X.shape[-1] ** 2)

    @property
    def keywords(self) -> dict[str, int]:
        return {"prune_n": self.n, "prune_m": self.m} if self.m else {}

    def describe(self) -> str:
        kind = f"{self.n}:{self.m}" if self.m else f"rho = {self.rho:g}"
        return f"{self.name} (weight {self.weight.shape}, X {self.X.shape}, {kind}, {self.weight.dtype})"

    @property
    def arguments(self) -> dict[str, Any]:
        return {"weight": self.weight, "X": self.X, "rho": self.rho}

    def call(self, function: str, expected: tuple[Any, ...] | None = None) -> Call:
        return Call(function, self.arguments, dict(self.keywords), expected)

    def cuts(self) -> Iterator[LinearLayer]:
        """Fewer outputs, sequences, tokens and inputs (whole groups of them), rounder numbers, a plainer ratio.

        Layers with ties keep their numbers and their name: on others nobody decides a tie.
        """
        tied = self.name in ("ties", "all equal")
        rows, columns = self.weight.shape
        tokens = self.X.shape[-2]
        every = (
            *(replace(self, weight=self.weight[:new]) for new in fewer(rows)),
            *(replace(self, X=self.X[:new]) for new in (fewer(len(self.X)) if self.X.ndim == 3 else ())),
            *(replace(self, X=self.X[..., :new, :]) for new in fewer(tokens)),
            *(replace(self, X=np.delete(self.X, gone, axis=-2)) for gone in range(tokens) if 1 < tokens <= _FEW),
            *(self._inputs(np.arange(new)) for new in fewer(columns) if new % max(self.m, 1) == 0),
            *(self._inputs(np.delete(np.arange(columns), gone)) for gone in (range(columns) if not self.m else ())),
            *(replace(self, rho=rho) for rho in (0.5, 0.25) if self.rho not in (0.0, 0.25, 0.5, 1.0)),
            *(() if tied else (replace(self, **one) for one in shorter({"weight": self.weight, "X": self.X}))),
        )
        for one in every:
            if one.m or doubtless(one.rho, one.weight.shape[1]) and doubtless(one.rho, one.weight.size):
                yield one if tied else replace(one, name=SMALLEST)

    def _inputs(self, kept: NDArray[Any]) -> LinearLayer:
        weight, X = (np.ascontiguousarray(part[..., kept]) for part in (self.weight, self.X))
        return replace(self, weight=weight, X=X)


def _smaller(layer: LinearLayer) -> LinearLayer:
    """Inputs so small that the 1 of the dead ones decides the damping."""
    return replace(layer, X=layer.X * layer.X.dtype.type(2.0**-5))


def layers(seed: int, precision: Precision = FLOAT64) -> dict[str, tuple[LinearLayer, ...]]:
    """Layers of every kind: `in` and `out` differ, inputs have very different sizes, some are dead or tied."""
    rng = np.random.default_rng([seed, 78])

    def layer(rows: int, columns: int, tokens: tuple[int, ...], name: str, rho: float, **options: Any) -> LinearLayer:
        exact = options.pop("precision", precision).exact
        mixing = rng.standard_normal((columns, columns)) / np.sqrt(columns) + np.eye(columns)
        X = (rng.standard_normal((*tokens, columns)) @ mixing) * np.exp(rng.standard_normal(columns))
        weight = rng.standard_normal((rows, columns)) * np.exp(0.5 * rng.standard_normal((rows, 1)))
        dead = options.pop("dead", [])
        X[..., dead] = 0.0
        return LinearLayer(name, exact(weight), exact(X), rho, **options)

    def tied(rho: float) -> LinearLayer:
        weight = rng.integers(-3, 4, (6, 10)) / 4.0
        return LinearLayer("ties", precision.exact(weight), precision.exact(rng.choice([-1.0, 1.0], (1, 16, 10))), rho)

    more = np.random.default_rng([seed, 79])

    def uneven(rows: int, columns: int, sequences: int) -> LinearLayer:
        """Sequences whose inputs have very different sizes."""
        X = more.standard_normal((sequences, 12, columns)) * np.exp(1.5 * more.standard_normal((sequences, 1, columns)))
        weight = more.standard_normal((rows, columns))
        return LinearLayer("uneven sequences", precision.exact(weight), precision.exact(X), 0.5)

    def close(columns: int) -> LinearLayer:
        """Scores that are equal to four digits, in an order of their own."""
        ranks = np.stack([more.permutation(columns) for _ in range(6)])
        weight = (1 + ranks * 2.0**-16) * more.choice([-1.0, 1.0], (6, columns))
        return LinearLayer("close scores", precision.exact(weight), precision.exact(np.ones((1, 16, columns))), 0.5)

    made = {
        "values": (
            layer(6, 10, (2, 16), "rows x columns", 0.5),
            layer(12, 8, (1, 24), "tall", 0.5),
            layer(9, 9, (2, 12), "square", 0.4),
        ),
        "counts": tuple(layer(5, 10, (1, 16), f"rho {rho}", rho) for rho in (0.15, 0.25, 0.35, 0.65, 0.95, 0.05)),
        "edges": (layer(4, 6, (1, 9), "nothing", 0.0), layer(4, 6, (1, 9), "everything", 1.0), tied(0.0), tied(1.0)),
        "ties": (
            tied(0.5),
            tied(0.3),
            LinearLayer("all equal", precision.exact(np.ones((4, 6))), precision.exact(np.ones((1, 8, 6))), 0.5),
        ),
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
            _smaller(layer(6, 10, (2, 12), "dead beside small", 0.8, dead=[1, 2, 5, 6])),
        ),
        "two-dimensional": (
            layer(5, 7, (20,), "one sequence, tokens x in", 0.3),
            layer(16, 12, (30,), "one sequence, with dead inputs", 0.4, dead=[2, 5]),
        ),
        "sequences": tuple(uneven(8, 10, sequences) for sequences in (2, 5)),
        "close-values": () if precision.short else (close(10), close(7)),
        "float32": (
            layer(6, 10, (2, 16), "float32", 0.5, precision=FLOAT32),
            layer(6, 8, (1, 16), "float32 groups", 0.5, n=1, m=4, precision=FLOAT32),
        ),
        "larger": (layer(24, 150, (2, 200), "wide", 0.35),),
    }
    made["groups"] = tuple(
        sorted(made["groups"], key=lambda layer: layer.kind != "2:4")
    )  # what people ship comes first
    return made if not precision.declared else {**made, "float32": ()}


@lru_cache(maxsize=8)
def together(seed: int, precision: Precision, patterns: tuple[str, ...] | None = None) -> tuple[LinearLayer, ...]:
    """Layers in which every two levels of `TABLE` stand together, with the patterns that a program takes."""
    table = TABLE if patterns is None else {**TABLE, "kind": ("a ratio", *patterns)}
    rng = np.random.default_rng([seed, 80])
    return tuple(_of_levels(row, precision, rng) for row in covering(table, seed=seed))


def _of_levels(row: Mapping[str, Any], precision: Precision, rng: np.random.Generator) -> LinearLayer:
    n, m = map(int, row["kind"].split(":")) if ":" in row["kind"] else (0, 0)
    outputs, inputs = row["outputs"], -(-row["inputs"] // max(m, 1)) * max(m, 1)
    sequences = max(row["sequences"], 1)
    tokens = {"many": 2 * inputs, "few": max(inputs // 2 // sequences, 1), "one": 1}[row["tokens"]]
    if row["ties"]:
        weight, X = rng.integers(-3, 4, (outputs, inputs)) / 4.0, rng.choice([-1.0, 1.0], (sequences, tokens, inputs))
    else:
        mixing = rng.standard_normal((inputs, inputs)) / np.sqrt(inputs) + np.eye(inputs)
        X = (rng.standard_normal((sequences, tokens, inputs)) @ mixing) * np.exp(rng.standard_normal(inputs))
        weight = rng.standard_normal((outputs, inputs)) * np.exp(0.5 * rng.standard_normal((outputs, 1)))
    if row["zeros"]:
        weight[rng.random(weight.shape) < 0.2] = 0.0
    if row["dead"]:
        X[..., rng.permutation(inputs)[: 1 + inputs // 5]] = 0.0
    X *= 2.0 ** (row["scale"] / (8 if precision.short else 1))
    said = ", ".join(
        f"{name} {level}" for name, level in row.items() if name not in ("kind", "inputs", "outputs", "rho")
    )
    X = X if row["sequences"] else X[0]
    return LinearLayer(said, precision.exact(weight), precision.exact(X), row["rho"], n, m, row)
