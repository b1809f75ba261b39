"""Drawing of instance number `index` of a seed, alone or with the others of its group.

Instances that stand together in one NumPy pass must have equal shapes, so they are drawn in groups: 32 groups take
turns, index by index, and fill up side by side. A group's sizes and attention mask come from (seed, group). Its
instances come from one counter-based stream, the Philox generator with the key (seed, group), of which instance
`lane` owns the words from lane times `stride` on. Nothing depends on the statement, on N, or on what was drawn before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.values import as_count

GROUPS = 32  # chosen: 2^15 instances in a chunk
LANES_A_GROUP = 1024  # chosen: a vector of float64 of 8 KiB stays in the first cache
_CHUNK = GROUPS * LANES_A_GROUP
_SCALARS = 8  # words that an instance takes beside its arrays
_PURPOSE = {"shape": 1, "extra": 2}
"""The last word of the counter: streams that must not meet."""


class Sizes(NamedTuple):
    """Ranges of the numbers of tokens and features."""

    n: tuple[int, int]
    d: tuple[int, int]

    def as_dict(self) -> dict[str, list[int]]:
        """Return the ranges for JSON."""
        return {"n": list(self.n), "d": list(self.d)}


class Quota(NamedTuple):
    """A group, and the number of its instances that a campaign needs."""

    number: int
    lanes: int


def groups(instances: int) -> Iterator[Quota]:
    """The groups that hold the instances 0, ..., instances - 1.

    Examples
    --------
    >>> [group.lanes for group in groups(34)][:3], sum(group.lanes for group in groups(100_000))
    ([2, 2, 1], 100000)
    """
    for chunk in range(-(-instances // _CHUNK)):
        left = min(instances - chunk * _CHUNK, _CHUNK)
        for slot in range(min(GROUPS, left)):
            yield Quota(chunk * GROUPS + slot, -(-(left - slot) // GROUPS))


def locate(index: int) -> tuple[int, int]:
    """(group, lane) of an instance.

    Examples
    --------
    >>> locate(33), index_of(*locate(1_000_000))
    ((1, 1), 1000000)
    """
    chunk, within = divmod(as_count("index", index), _CHUNK)
    return chunk * GROUPS + within % GROUPS, within // GROUPS


def index_of(group: int, lane: int) -> int:
    """The inverse of `locate`."""
    chunk, slot = divmod(group, GROUPS)
    return chunk * _CHUNK + lane * GROUPS + slot


@dataclass(frozen=True)
class Draw:
    """Instances of one group side by side: arrays whose first axis runs over them.

    Attributes
    ----------
    seed, group : int
    lanes : (b,) array of int
        Places of these instances in their group.
    values : dict of arrays
        X (b, n, d), W, M, N, V (b, d, d), lam (b,): N is a second mask near M or far from it, V a direction.
    mask : None, "causal" or (n, n) array of bool
        The same for all.
    boxed : bool
        True if every M lies in [0, 1]^(d x d).
    """

    seed: int
    group: int
    lanes: NDArray[np.int64]
    values: dict[str, Any]
    mask: Any
    random_mask: NDArray[np.bool_]
    boxed: bool

    @property
    def n(self) -> int:
        """Tokens."""
        return int(self.values["X"].shape[1])

    @property
    def d(self) -> int:
        """Features."""
        return int(self.values["X"].shape[2])

    @classmethod
    def of(cls, seed: int, sizes: Sizes, group: int, first: int, count: int) -> Draw:
        """Instances `first`, ..., `first + count - 1` of a group."""
        shape = np.random.Generator(_stream(seed, group, "shape"))
        choices = list(product(range(sizes.n[0], sizes.n[1] + 1), range(sizes.d[0], sizes.d[1] + 1)))
        n, d = choices[int(shape.integers(len(choices)))]
        boxed = bool(shape.integers(4))
        kind = int(shape.integers(3))
        random_mask = (shape.uniform(size=(n, n)) < 0.6) | np.eye(n, dtype=bool)
        values = _instances(_words(seed, group, first, count, _SCALARS + 2 * (n * d + 4 * d * d + 1)), n, d, boxed)
        mask = (None, "causal", random_mask)[kind]
        return cls(seed, group, np.arange(first, first + count), values, mask, random_mask, boxed)


def own_generator(seed: int, group: int, lane: int) -> np.random.Generator:
    """Return the generator of an instance's additional values; it is the same for every statement."""
    return np.random.Generator(_stream(seed, group, "extra", lane))


def _stream(seed: int, group: int, purpose: str, lane: int = 0) -> np.random.Philox:
    return np.random.Philox(key=np.array([seed, group], dtype=np.uint64), counter=[0, 0, lane, _PURPOSE[purpose]])


def _words(seed: int, group: int, first: int, count: int, needed: int) -> NDArray[np.uint64]:
    """`needed` random words for each instance; one step of the counter makes four of them."""
    steps = -(-needed // 4)
    stream = np.random.Philox(key=np.array([seed, group], dtype=np.uint64))
    stream.advance(first * steps)
    words: NDArray[np.uint64] = stream.random_raw(count * steps * 4).reshape(count, steps * 4)
    return words


def _instances(words: NDArray[np.uint64], n: int, d: int, boxed: bool) -> dict[str, Any]:
    """Benign and hard instances mixed: Gaussian or nearly orthonormal tokens, weights Gaussian or of constant size."""
    scalars, rest = words[:, :_SCALARS], words[:, _SCALARS:]
    place = 0

    def normals(*shape: int) -> NDArray[np.float64]:
        nonlocal place
        size = int(np.prod(shape))
        pairs = -(-size // 2)
        radius = np.sqrt(-2.0 * np.log(_unit(rest[:, place : place + pairs])))
        angle = 2.0 * np.pi * _unit(rest[:, place + pairs : place + 2 * pairs])
        place += 2 * pairs
        both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        return both[:, :size].reshape(-1, *shape)

    def uniform(*shape: int) -> NDArray[np.float64]:
        nonlocal place
        size = int(np.prod(shape))
        place += size
        return _unit(rest[:, place - size : place]).reshape(-1, *shape)

    def pick(word: int, *choices: float) -> NDArray[np.float64]:
        return np.array(choices)[(scalars[:, word] >> np.uint64(33)).astype(np.int64) % len(choices)]

    X = normals(n, d) * pick(0, 0.3, 1.0, 1.0, 2.0)[:, None, None]
    near = np.eye(n, d) + X * pick(1, 0.0, 0.01, 0.1)[:, None, None]
    X = np.where((pick(2, 0, 0, 1) == 1)[:, None, None], near, X)
    gauss = normals(d, d)
    W = np.where((pick(3, 0, 0, 1) == 1)[:, None, None], np.copysign(1.0, gauss), gauss)
    W = W * pick(4, 0.01, 0.1, 0.5, 1.0, 3.0)[:, None, None]
    unit = uniform(d, d)
    if boxed:
        style = pick(5, 0, 0, 1, 2, 3)[:, None, None]
        M = np.select([style == 1, style == 2, style == 3], [1 - 0.01 * unit, 0.01 * unit, np.round(unit)], unit)
    else:
        M = 4.0 * unit - 1.5
    N = M + normals(d, d) * pick(6, 1e-3, 0.1, 1.0, 3.0)[:, None, None]
    return {"X": X, "W": W, "M": M, "N": N, "V": normals(d, d), "lam": pick(7, 0.0, 1e-6, 0.04, 1.0)}


def _unit(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Uniform in (0, 1]."""
    return ((words >> np.uint64(11)) + np.uint64(1)).astype(np.float64) * np.float64(2.0**-53)
