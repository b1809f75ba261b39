"""`assert_attention`: an AssertionError with the entry that is off most, its interval, and the places of all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attnprune_verify.audit.kernel.tensors.arrays import read
from attnprune_verify.audit.kernel.tensors.interval import AttentionInterval, EntryVerdict, attention_interval
from attnprune_verify.audit.kernel.typing import Foreign
from attnprune_verify.errors import InvalidInstance

_TILES = (128, 64, 32, 16)  # chosen: the sizes that kernels have
_SHOWN = 6  # chosen: so many ranges fit into a line


def assert_attention(
    q: Foreign, k: Foreign, v: Foreign, *, o: Foreign = None, lse: Foreign = None, do: Foreign = None,
    dq: Foreign = None, dk: Foreign = None, dv: Foreign = None, dbias: Foreign = None, dsinks: Foreign = None,
    **given: Foreign,
) -> None:  # fmt: skip
    """Raise an AssertionError unless rounding explains every result that is given.

    Parameters
    ----------
    q, k, v, do : array
        As of `attnprune_verify.attention_interval`.
    o, lse, dq, dk, dv, dbias, dsinks : array, optional
        What a kernel returned.
    **given
        Further parts of the problem, such as ``causal=True``, and ``dtype``: keywords of `attention_interval`.

    Raises
    ------
    AssertionError
        Names the result, the entry, its value, the two ends, the quotient of error and what rounding explains, the
        number of entries outside, and the rows and tiles in which they lie.
    InvalidInstance
        If no result is given, or a gradient without `do`; and as `attention_interval` does.

    Examples
    --------
    >>> import numpy as np
    >>> q, k, v = np.random.default_rng(0).standard_normal((3, 1, 1, 4, 8)).astype(np.float32)
    >>> assert_attention(q, k, v, o=attention_interval(q, k, v).o.true)
    """
    results = {"o": o, "lse": lse, "dq": dq, "dk": dk, "dv": dv, "dbias": dbias, "dsinks": dsinks}
    answers = {name: value for name, value in results.items() if value is not None}
    if not answers:
        raise InvalidInstance(
            "assert_attention must be given a result; got none: pass o=..., lse=..., dq=... or others"
        )
    found = attention_interval(q, k, v, do, **given)
    failed = {name: verdict for name, verdict in found.judge(**answers).items() if not verdict.inside}
    if failed:
        said = [line for name, verdict in failed.items() for line in _lines(name, verdict, found, answers[name])]
        raise AssertionError("\n".join(["", "attention is off by more than rounding explains", *said]))


def _lines(name: str, verdict: EntryVerdict, found: AttentionInterval, answer: Foreign) -> Iterator[str]:
    count = int(verdict.outside.sum())
    yield ""
    if not count:
        yield f"{name}: every entry is inside its interval, but not every head in norm"
        yield f" Worst at {list(verdict.index)}: {verdict.quotient:.3g} times what rounding explains"
        return
    values, ends = read(name, answer)[0], getattr(found, name)
    yield f"{name}: {count} / {verdict.outside.size} entries outside ({100 * count / verdict.outside.size:.3g}%)"
    yield f" Worst at {list(verdict.index)}: {verdict.quotient:.3g} times what rounding explains"
    yield f"  value:   {values.reshape(ends.true.shape)[verdict.index]!s}"
    yield f"  lowest:  {ends.lowest[verdict.index]!s}"
    yield f"  highest: {ends.highest[verdict.index]!s}"
    yield from _places(name, verdict.outside)


def _places(name: str, outside: Foreign) -> Iterator[str]:
    """List the places of entries outside, along each axis that has more than one, and in tiles of rows."""
    axes = {"lse": ("sample", "head", "query"), "dsinks": ("head",), "dbias": ("sample", "head", "query", "key")}.get(
        name, ("sample", "head", "key" if name in ("dk", "dv") else "query", "feature")
    )
    own = axes[-outside.ndim :] if outside.ndim < len(axes) or name != "lse" else axes
    for axis, word in enumerate(own):
        along = outside.any(axis=tuple(set(range(outside.ndim)) - {axis}))
        if len(along) == 1:
            continue
        places = np.flatnonzero(along)
        said = (
            f" {word} {_ranges(places)}: {len(places)} of {len(along)}"
            if len(places) < len(along)
            else f" every {word}"
        )
        yield said + (_tiles(along) if word in ("query", "key") else "")


def _ranges(places: Foreign) -> str:
    """Places as ranges: 0-3, 7."""
    runs = np.split(places, np.flatnonzero(np.diff(places) != 1) + 1)
    said = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return ", ".join(said[:_SHOWN]) + (", ..." if len(said) > _SHOWN else "")


def _tiles(along: Foreign) -> str:
    """The tiles of the largest size that are hit in part: by their number."""
    for size in _TILES:
        hit = np.unique(np.flatnonzero(along) // size)
        count = -(-len(along) // size)
        if count > 1 and len(hit) < count:
            last = ", the last, incomplete one" if hit.tolist() == [count - 1] and len(along) % size else ""
            return f"; tiles of {size}: {_ranges(hit)} of {count}{last}"
    return ""
