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
from attnprune_verify.audit.kernel.problem.sample import Array, KernelSample, Mask
from attnprune_verify.audit.kernel.problem.sample_factory import Maker
from attnprune_verify.audit.kernel.problem.scope import ANYTHING, KernelScope

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
    "heads": ("equal", "grouped", "one key head", "large groups"),
    "batch": (1, 2),
    "m": (8, 5, "large"),
    "mv": ("equal", "smaller", "larger"),
    "scale": (None, 0.3),
    "level": (0.0, 100.0, -100.0),
    "layout": ("plain", "heads last or spaced", "broadcast"),
    "bias": ("none", "full", "one row for all"),
    "sinks": (False, True),
    "dropout": (False, True),
    "lse": (False, True),
    "rank": ("2", "per head", "per batch"),
    "empty": (False, True),
    "padding": (False, True),
}
_SMALL = 64  # keys
_HEAD_SIZES = (80, 64, 128)  # in turn: the sizes that kernels have code of their own for, and one between
_GROUPS = (32, 16, 128, 8)  # in turn: query heads of a key head in released models; the last where work is more
_MOST_WORK = 2_000_000  # multiplications of a forward pass, chosen: such a sample is judged in a tenth of a second
LEVELS = {feature.name: (feature.factor, FACTORS[feature.factor][1:]) for feature in FEATURES if feature.factor}
LEVELS["strides"] = ("layout", (*FACTORS["layout"][1:], "heads last", "spaced"))
"""The levels that a refusal of a feature takes out of the table."""
_WEAK = ("size", "rank", "empty", "padding")  # in pairs only: of masks alone
# Besides all triples of the other factors: a size with two of those that decide which tiles are visited.
_TILED = (("size", "causal", "lengths"), ("size", "causal", "window"))
_PADDED = (("padding", "causal", "window"), ("padding", "causal", "lengths"), ("padding", "window", "lengths"))
# Pairs with sizes of real kernels, which triples of all would make too dear: tiles, splits, and heads; in haste with
# each second size of the first two.
_TILES: Table = {
    **FACTORS, "size": (96, 127, 192, 129, 128), "mask": ("none", "scattered", "documents", "band"),
    "heads": ("equal", "grouped"), "batch": (1,), "m": (8,), "scale": (None,),
}  # fmt: skip
_VISITED = tuple(("size", "causal", factor) for factor in ("mask", "alibi", "window", "level", "lengths"))
_SPLITS: Table = {
    **FACTORS, "lengths": ("one query",), "size": (256, 512, 4096, 1024), "mask": ("none", "scattered"),
    "m": (8,), "mv": ("equal",), "scale": (None,), "rank": ("2",), "empty": (False,),
}  # fmt: skip
_HEADS: Table = {
    **FACTORS, "size": (17, 33, 65), "m": (64, 80, 96, 112, 128, 160, 192, 256, 512, 576),
    "mask": ("none", "scattered", "documents"), "alibi": (False,), "level": (0.0,), "dropout": (False,),
    "layout": ("plain", "heads last", "spaced", "broadcast"), "rank": ("2",), "empty": (False,),
}  # fmt: skip
_TABLES = ((_TILES, _VISITED), (_SPLITS, (("size", "heads", "window"),)), (_HEADS, ()))
# One row has all parts that are read at a key's place, beside a loop over keys that may begin at the window's tile.
_READ_BY_PLACE = {"causal": True, "window": 2, "mask": "scattered", "alibi": True, "bias": "full", "dropout": True}
# The weight of the only key that a query sees is 1, whatever its logit; beside a sink it is not.
_OF_LOGITS = frozenset({"window", "softcap", "alibi", "m", "scale", "level", "bias"})
_ONE_KEY = Hiding({"mask": "one key a row"}, _OF_LOGITS | {"causal"}, ("sinks", True))
_FIRST_KEY = Hiding({"causal": True, "lengths": "one query"}, _OF_LOGITS | {"mask", "rank"}, ("sinks", True))
_BAND = Hiding({"mask": "band"}, frozenset({"window"}), ("rank", "per head"))  # is as narrow as the window
_NO_KEY = Hiding({"lengths": "one query", "empty": True}, frozenset(FACTORS) - {"lengths", "empty", "lse"})
# Heads last of a single query, or of a single key head, lie as they do in the plain layout.
_SINGLE = (("lengths", "one query"), ("heads", "one key head"), ("heads", "large groups"))
_IN_PLACE = [Hiding({"layout": "heads last", name: level}, frozenset({"layout"})) for name, level in _SINGLE]


@lru_cache(maxsize=16)
def rows(
    refused: frozenset[str],
    strength: int,
    largest: bool = True,
    bottom_right: bool = False,
    scope: KernelScope = ANYTHING,
) -> tuple[Row, ...]:
    """The rows for a kernel of a scope that refuses these features; pairs with sizes of real kernels come last.

    `strength`: 3 for triples, 2 for pairs, 1 for pairs of small sizes; `largest`: whether large sizes are asked.
    `bottom_right`: a causal query sees all keys where it is the only one; else it sees the first key.
    """
    table = within(FACTORS, scope, refused)
    dear = scope != ANYTHING and min(table["size"], default=0) > _SMALL  # costs as much as many small
    hiding = (_ONE_KEY, _BAND, _NO_KEY, *_IN_PLACE, *(() if bottom_right else (_FIRST_KEY,)))
    small: tuple[Row, ...]
    if strength < 3:
        quick = within({**FACTORS, "size": (7, 17, 55)}, scope, refused)
        quick |= {"batch": quick["batch"][:1]} if dear else {}
        small = (*covering(quick, 2, hiding=hiding), *_alone(table))
    else:
        small = tuple(covering(table, 3, (*_TILED, *_PADDED), weak=_WEAK, hiding=hiding))
    if strength < 2 or not largest or (dear and strength < 3):
        return small
    large = [within(sizes, scope, refused) for sizes, _ in _TABLES]
    if dear:  # sizes of splits and of heads have instances of their own
        large[1:] = [dict.fromkeys(sizes, ()) for sizes in large[1:]]
    if not bottom_right and False in table["causal"]:  # the first key alone would be seen
        large[1]["causal"] = (False,)
    asked = [(sizes, more) for sizes, (_, more) in zip(large, _TABLES, strict=True) if all(sizes.values())]
    by_place = {name: level for name, level in _READ_BY_PLACE.items() if level in large[0][name]}
    read = {**_plain(large[0]), **by_place, "size": max(large[0]["size"])}
    if strength < 3:
        asked = [({**sizes, "size": sizes["size"][1::2] or sizes["size"]}, ()) for sizes, _ in asked[:2]]
    return (*small, *(row for sizes, more in asked for row in covering(sizes, 2, more, hiding=hiding)), read)


def _plain(table: Table) -> Row:
    return {factor: levels[0] for factor, levels in table.items()}


def _alone(table: Table) -> Iterator[Row]:
    """Yield each mask and a window without others, for one query and for many: few keys are left where two meet."""
    plain = {**_plain(table), "size": 17}
    for row in ({"lengths": "one query"}, {"mv": "smaller", "window": 1000}):
        for factor, level in (*(("mask", kind) for kind in table["mask"][1:]), ("window", 2)):
            own: Row = {**plain, **row, factor: level}
            if all(level in table[name] for name, level in own.items() if name != "size"):
                yield own


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
    if scope == ANYTHING or not all(found.values()):
        return found
    if scope.causal is not None:
        found["causal"] = (scope.causal,)
    found["size"] = tuple(dict.fromkeys(scope.tokens(size, size)[1] for size in found["size"]))
    if min(found["size"]) > _SMALL and len(found["heads"]) > 1:
        found["heads"] = tuple(kind for kind in found["heads"] if kind != "large groups")
    plain = _plain(found)
    for factor in ("lengths", "heads", "batch", "m", "mv"):
        by_shape: dict[tuple[int, ...], Any] = {}
        for level in found[factor]:
            by_shape.setdefault(scope.fitted(*_shape({**plain, factor: level}, 0)), level)
        found[factor] = tuple(by_shape.values())
    return found


def _shape(row: Row, index: int) -> tuple[int, int, int, int, int, int, int]:
    """Return batch, heads, kv_heads, n, l, m and mv of a row."""
    n, length = _lengths(row, index)
    m = _HEAD_SIZES[index % 3] if row["m"] == "large" else row["m"]
    mv = {"equal": m, "smaller": max(m // 2 - 1, 1), "larger": m + 5}[row["mv"]]
    group = _GROUPS[index % 4]
    group = group if row["batch"] * group * n * length * (m + mv) <= _MOST_WORK else _GROUPS[-1]
    heads = {"equal": (2, 2), "grouped": (4, 2), "one key head": (2, 1), "large groups": (group, 1)}[row["heads"]]
    return row["batch"], *heads, n, length, m, mv


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
    if row["level"]:
        sample = maker.common(sample, row["level"])
    window = row["window"] and max(row["window"] + index % 2, n - length + 1)
    slopes = np.exp2(-1.0 - np.arange(heads) % 8) if row["alibi"] else None
    layout = ("heads last", "spaced")[index % 2] if row["layout"] == FACTORS["layout"][1] else row["layout"]
    if layout == "broadcast":
        sample = sample.changed(k=_shared(sample.k), v=_shared(sample.v))
    sample = sample.changed(
        causal=row["causal"] or bool(scope.causal), window=window, softcap=row["softcap"], alibi=slopes, layout=layout
    )
    conventions = conventions or Conventions()
    sample = sample.changed(conventions=conventions)
    sample = _masked(sample, row["mask"], index, row["rank"], row["empty"])
    sample = _with_parts(maker, sample, row, row["level"])
    if cotangent and sample.lse:
        sample = maker.pulled(sample)
    wanted = tuple(name for name, part in (("dbias", sample.bias), ("dsinks", sample.sinks)) if part is not None)
    padded = row["padding"] and not (row["sinks"] and sample.empty)  # a query that sees a sink alone is read
    return sample.changed(wanted=wanted if gradients else (), poison=np.nan if padded else None)


def _shared(array: Array) -> Array:
    """Return keys or values of which every head has those of the first."""
    return np.broadcast_to(array[:, :1], array.shape).copy()


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
