"""Features together: from one table of factors all triples of what a kernel accepts, in few samples.

Nearly all bugs that are reported of attention kernels are right for every feature alone and wrong for two or three of
them together: causal beside decoding, a window beside grouped heads, a mask beside the last tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from attnprune_verify.audit.covering import Hiding, covered, covering
from attnprune_verify.audit.kernel.problem.conventions import Conventions
from attnprune_verify.audit.kernel.problem.features import FEATURES
from attnprune_verify.audit.kernel.problem.precision import precision_named
from attnprune_verify.audit.kernel.problem.sample import KernelSample, Mask
from attnprune_verify.audit.kernel.problem.sample_factory import Maker
from attnprune_verify.audit.kernel.problem.scope import ANYTHING, KernelScope

__all__ = ["FACTORS", "LEVELS", "Row", "asked_together", "interaction", "rows", "within"]

Row = Mapping[str, Any]
Table = dict[str, tuple[Any, ...]]

# The plain level of each factor comes first. Sizes here and below: 0, 1, half and B - 1 modulo 16, 32, 64 and 128.
FACTORS: Table = {
    "causal": (False, True),
    "mask": ("none", "scattered", "band", "one key a row", "documents", "last or first keys"),
    "lengths": ("equal", "one query", "fewer queries", "more queries"),
    "size": (7, 16, 17, 24, 31, 48, 63, 65),
    "window": (None, 2, 1000),
    "softcap": (None, 2.0),
    "alibi": (False, True),
    "heads": ("equal", "grouped", "one key head"),
    "batch": (1, 2),
    "m": (8, 5, "large"),
    "mv": ("equal", "smaller", "larger"),
    "scale": (None, 0.3),
    "level": (0.0, 100.0),
    "layout": ("plain", "heads last or spaced"),
    "bias": ("none", "full", "one row for all"),
    "sinks": (False, True),
    "dropout": (False, True),
    "lse": (False, True),
    "rank": ("2", "per head", "per batch"),
    "empty": (False, True),
}
_SMALL = 64  # keys
_HEAD_SIZES = (80, 64, 128)  # in turn: the sizes that kernels have code of their own for, and one between
LEVELS = {feature.name: (feature.factor, FACTORS[feature.factor][1:]) for feature in FEATURES if feature.factor}
"""The levels that a refusal of a feature takes out of the table."""
_WEAK = ("size", "rank", "empty")  # in pairs only: of masks alone
# Besides all triples of the other factors: a size with two of those that decide which tiles are visited.
_TILED = (("size", "causal", "lengths"), ("size", "causal", "window"))
# Pairs with the sizes of larger tiles, which triples would make too dear.
_LARGE: Table = {
    **FACTORS, "size": (96, 127, 128, 129, 192), "mask": ("none", "scattered", "documents", "band"),
    "batch": (1,), "m": (8,), "level": (0.0,), "scale": (None,),
}  # fmt: skip
# The weight of the only key that a query sees is 1, whatever its logit; beside a sink it is not.
_OF_LOGITS = frozenset({"window", "softcap", "alibi", "m", "scale", "level", "bias"})
_ONE_KEY = Hiding({"mask": "one key a row"}, _OF_LOGITS | {"causal"}, ("sinks", True))
_FIRST_KEY = Hiding({"causal": True, "lengths": "one query"}, _OF_LOGITS | {"mask", "rank"}, ("sinks", True))
_BAND = Hiding({"mask": "band"}, frozenset({"window"}), ("rank", "per head"))  # is as narrow as the window
_NO_KEY = Hiding({"lengths": "one query", "empty": True}, frozenset(FACTORS) - {"lengths", "empty", "lse"})


@lru_cache(maxsize=16)
def rows(
    refused: frozenset[str],
    strength: int,
    largest: bool = True,
    bottom_right: bool = False,
    scope: KernelScope = ANYTHING,
) -> tuple[Row, ...]:
    """The rows for a kernel of a scope that refuses these features; pairs with large sizes come last.

    `bottom_right`: a causal query sees all keys where it is the only one; else it sees the first key.
    """
    table = within(FACTORS, scope, refused)
    hiding = (_ONE_KEY, _BAND, _NO_KEY, *(() if bottom_right else (_FIRST_KEY,)))
    if strength < 3:
        quick = within({**FACTORS, "size": (7, 17, 55)}, scope, refused)
        if min(quick["size"]) > _SMALL:  # a sample costs as much as the whole table of small ones
            quick |= {"batch": quick["batch"][:1]}
        return (*covering(quick, 2, hiding=hiding), *_decoding(table))
    small = tuple(covering(table, 3, _TILED, weak=_WEAK, hiding=hiding))
    large = within(_LARGE, scope, refused)
    return small if not largest else (*small, *covering(large, 2, (("size", "causal", "mask"),), hiding=hiding))


def _decoding(table: Table) -> Iterator[Row]:
    """Yield one query with each mask and window alone: few keys are left where two of them meet."""
    plain = {**{factor: levels[0] for factor, levels in table.items()}, "lengths": "one query", "size": 17}
    alone = (("mask", "scattered"), ("mask", "band"), ("mask", "last or first keys"), ("window", 2))
    if "one query" in table["lengths"]:
        yield from ({**plain, factor: level} for factor, level in alone if level in table[factor])


def asked_together(asked: tuple[Row, ...], refused: frozenset[str], scope: KernelScope = ANYTHING) -> str:
    """Describe how many pairs and triples of accepted levels the rows hold."""
    table = within(FACTORS, scope, refused)
    (pairs, of_pairs), (triples, of_triples) = (covered(asked, table, strength) for strength in (2, 3))
    return f"{pairs} of {of_pairs} pairs and {triples} of {of_triples} triples of what is accepted"


def within(table: Table, scope: KernelScope, refused: frozenset[str] = frozenset()) -> Table:
    """Return the table without the levels of refused features, and without those that are the same in a scope."""
    found = dict(table)
    for feature in refused & set(LEVELS):
        factor, levels = LEVELS[feature]
        found[factor] = tuple(level for level in found[factor] if level not in levels)
    if scope == ANYTHING:
        return found
    if scope.causal is not None:
        found["causal"] = (scope.causal,)
    found["size"] = tuple(dict.fromkeys(scope.tokens(size, size)[1] for size in found["size"]))
    plain: Row = {factor: levels[0] for factor, levels in found.items()}
    for factor in ("lengths", "heads", "batch", "m", "mv"):
        by_shape: dict[tuple[int, ...], Any] = {}
        for level in found[factor]:
            by_shape.setdefault(scope.fitted(*_shape({**plain, factor: level}, 0)), level)
        found[factor] = tuple(by_shape.values())
    return found


def _shape(row: Row, index: int) -> tuple[int, ...]:
    """Return batch, heads, kv_heads, n, l, m and mv of a row, in a kernel that takes any."""
    n, length = _lengths(row, index)
    m = _HEAD_SIZES[index % 3] if row["m"] == "large" else row["m"]
    mv = {"equal": m, "smaller": max(m // 2 - 1, 1), "larger": m + 5}[row["mv"]]
    return (row["batch"], *{"equal": (2, 2), "grouped": (4, 2), "one key head": (2, 1)}[row["heads"]], n, length, m, mv)


def interaction(
    row: Row, seed: int, dtype: str, index: int, conventions: Conventions | None = None, gradients: bool = False,
    cotangent: bool = False, scope: KernelScope = ANYTHING,
) -> KernelSample:  # fmt: skip
    """The sample of a row; the same row gives the same numbers.

    `gradients`: of bias and sinks, too; `cotangent`: one of log sum exp beside log sum exp.
    """
    maker = Maker(seed, precision_named(dtype), scope)
    batch, heads, kv_heads, n, length, m, mv = _shape(row, index)
    sample = maker.make(
        f"together {index}", n, m, length, mv, batch=batch, heads=heads, kv_heads=kv_heads, scale=row["scale"]
    )
    _, heads, _, n, length, *_ = sample.shape
    level = row["level"] * (-1.0) ** index
    if level:
        sample = maker.common(sample, level)
    window = row["window"] and max(row["window"] + index % 2, n - length + 1)
    slopes = np.exp2(-np.arange(1.0, heads + 1)) if row["alibi"] else None
    layout = "plain" if row["layout"] == "plain" else ("heads last", "spaced")[index % 2]
    sample = sample.changed(
        causal=row["causal"] or bool(scope.causal), window=window, softcap=row["softcap"], alibi=slopes, layout=layout
    )
    conventions = conventions or Conventions()
    sample = sample.changed(conventions=conventions)
    sample = _masked(sample, row["mask"], index, row["rank"], row["empty"])
    sample = _with_parts(maker, sample, row, level)
    if cotangent and sample.lse:
        sample = maker.pulled(sample)
    wanted = tuple(name for name, part in (("dbias", sample.bias), ("dsinks", sample.sinks)) if part is not None)
    return sample.changed(wanted=wanted if gradients else ())


def _with_parts(maker: Maker, sample: KernelSample, row: Row, level: float) -> KernelSample:
    """Add bias, sinks, dropout and log sum exp where the row has them; sinks are as large as the logits, or hide."""
    if row["bias"] != "none":
        sample = maker.biased(sample, "full" if row["bias"] == "full" else "row")
    if row["sinks"]:
        cap = sample.softcap or np.inf
        sample = maker.sunk(sample, float(np.clip(level, -cap, cap)))
    if row["dropout"]:
        sample = maker.dropped(sample)
    return sample.changed(lse=row["lse"])


def _lengths(row: Row, index: int) -> tuple[int, int]:
    """Return n and l; beside a narrow window rows past the last key see some, if only a few rows are."""
    kind, size = row["lengths"], row["size"]
    other = max(1, (size // 3, size // 2 + 1)[index % 2])
    if kind == "more queries" and row["window"] == FACTORS["window"][1]:
        other = max(1, size - 2)
    return {"equal": (size, size), "one query": (1, size), "fewer queries": (other, size)}.get(kind, (size, other))


def _masked(sample: KernelSample, kind: str, index: int, rank: str, empty: bool) -> KernelSample:
    """Add a mask that leaves every row a position, or some rows none; heads or samples may have masks of their own."""
    if kind == "none":
        return sample
    allowed = sample.allowed
    n, length = allowed.shape
    rng = np.random.default_rng([sample.shape[3], length, index])
    cut = sample.causal or sample.window is not None
    late = cut and not (sample.causal and sample.conventions.bottom_right)  # keys past the last query are seen by few
    mask = np.asarray(_mask(kind, n, length, rng, index, min(n, length) if late else length))
    for i in np.flatnonzero(~(mask & allowed).any(axis=1) & allowed.any(axis=1)):
        mask[i, rng.choice(np.flatnonzero(allowed[i]))] = True
    if empty:
        mask[index % 3 :: 3] = False
    if rank == "2":
        return sample.changed(mask=mask)
    count = sample.shape[1 if rank == "per head" else 0]
    read = np.asarray(mask.any(axis=1))[:, None]
    own = np.stack([mask | (rng.random(mask.shape) < turn / 4) & read for turn in range(count)])
    return sample.changed(mask=own[None] if rank == "per head" else own[:, None])


def _mask(kind: str, n: int, length: int, rng: np.random.Generator, index: int, end: int) -> Mask:
    """Return a mask whose last query stands at key `end` - 1."""
    i, j = np.arange(n)[:, None] + max(end - n, 0), np.arange(length)
    if kind == "scattered":
        return np.asarray(rng.random((n, length)) < (0.5, 0.95)[index % 2])
    if kind == "band":
        return np.asarray(np.abs(i - j) < 2 + index % 2)
    if kind == "one key a row":
        return np.asarray(rng.integers(0, length, (n, 1)) == j)
    if kind == "documents":
        ends = np.array([end // 5 + 1, end // 2 + 1, (4 * end) // 5])
        return np.asarray(np.searchsorted(ends, i, side="right") == np.searchsorted(ends, j, side="right"))
    if index % 2:
        return np.broadcast_to(j >= end - max(1, min(16, end // 3)), (n, length)).copy()
    return np.asarray((j < 1) | (i % 2 == 1))
