"""One instance of softmax attention: what goes into a kernel, and what the judge has computed about it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.kernel.problem.conventions import Conventions
from attnprune_verify.audit.kernel.problem.features import features_of
from attnprune_verify.audit.kernel.problem.precision import KernelPrecision
from attnprune_verify.audit.kernel.problem.scope import work_of

__all__ = [
    "BACKWARD",
    "FORWARD",
    "Array",
    "Mask",
    "KernelSample",
    "Regime",
    "along",
    "parts_of",
]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
FORWARD, BACKWARD = "attention", "attention_backward"
_DEFAULT = Conventions()


@dataclass(frozen=True, eq=False)
class KernelSample:
    """Inputs exact in `precision`, held as float64.

    Attributes
    ----------
    q, k, v, do : (batch, heads, n, m), (batch, kv_heads, l, m), (batch, kv_heads, l, mv), (batch, heads, n, mv)
    mask : Mask or None
        Bool, True = may attend, (n, l) or of rank 3 or 4 and broadcast to (batch, heads, n, l); or None.
    additive : bool
        Whether the mask is given as 0 and -inf.
    scale : None means 1/sqrt(m)
    window, softcap, alibi : int or None, float or None, Array or None
        Modifiers of the scores, None when absent.
    bias : Array or None
        Added to the logits, broadcast to (batch, heads, n, l).
    sinks : Array or None
        (heads,), one more logit of each row, without a value.
    dropout, keep : Mask or None, float
        Which weights stay, (batch, heads, n, l), and with what probability: P * dropout / keep.
    lse : bool
        Whether log sum exp is asked for, too.
    dlse : Array or None
        Its cotangent, (batch, heads, n); a packed kernel gets (heads, total).
    ends : tuple[tuple[int, ...], tuple[int, ...]] or None
        Where the packed sequences of queries and of keys end; there is one batch entry then.
    rows : tuple[int, int] or None
        A block of another sample holds its queries from the first number on, of the second number.
    poison : float or None
        What k and v hold at keys that no query may see, and q and do at queries that may see none.
    wanted : tuple[str, ...]
        Further gradients that are asked for, of "dbias" and "dsinks".
    layout : str
        How the inputs lie in memory.
    conventions : Conventions
        What the kernel declares.
    fill_factor : float
        The factor of the formula that fills the arrays, where they are filled by one (0: they are not).
    generic : bool
        Random enough that roundings are independent, so that a typical error says something.
    memo : dict
        What was computed for this sample.
    """

    name: str
    precision: KernelPrecision
    q: Array
    k: Array
    v: Array
    do: Array
    causal: bool = False
    scale: float | None = None
    mask: Mask | None = None
    additive: bool = False
    window: int | None = None
    softcap: float | None = None
    alibi: Array | None = None
    bias: Array | None = None
    sinks: Array | None = None
    dropout: Mask | None = None
    keep: float = 1.0
    lse: bool = False
    dlse: Array | None = None
    ends: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    rows: tuple[int, int] | None = None
    poison: float | None = None
    wanted: tuple[str, ...] = ()
    layout: str = "plain"
    conventions: Conventions = _DEFAULT
    fill_factor: float = 0.0
    generic: bool = True
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def shape(self) -> tuple[int, int, int, int, int, int, int]:
        """batch, heads, kv_heads, n, l, m, mv."""
        batch, heads, n, m = self.q.shape
        return batch, heads, self.k.shape[1], n, self.k.shape[2], m, self.v.shape[3]

    @property
    def group(self) -> int:
        return int(self.q.shape[1] // self.k.shape[1])

    @property
    def queries(self) -> int:
        """Number of queries, of the whole sample where this is a block of it."""
        return int(self.q.shape[2]) if self.rows is None else self.rows[1]

    @property
    def factor(self) -> float:
        """The scale of the logits."""
        kind: Any = self.q.dtype.type  # longdouble, where the truth is computed in it
        scale: float = kind(self.q.shape[3]) ** kind(-0.5) if self.scale is None else kind(self.scale)
        return scale

    @property
    def unit(self) -> float:
        """One unit of log sum exp, in natural logarithms."""
        kind: Any = self.q.dtype.type
        unit: float = np.log(kind(2)) if self.conventions.lse_base == "2" else kind(1)
        return unit

    @property
    def distance(self) -> NDArray[np.int64]:
        """i - j, (n, l); in packed sequences from the starts of both."""
        (of_queries, _), (of_keys, _) = self._places
        return of_queries[:, None] - of_keys

    @property
    def _places(self) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]:
        """For queries and for keys: position within the packed sequence, and index of the sequence."""
        found = []
        first, queries = (0, self.queries) if self.rows is None else self.rows
        of_queries = np.arange(first, first + self.q.shape[2])
        for side, (total, own) in enumerate(((queries, of_queries), (self.k.shape[2], np.arange(self.k.shape[2])))):
            ends = np.array((total,) if self.ends is None else self.ends[side])
            which = np.searchsorted(ends, own, side="right")
            starts = np.concatenate([[0], ends[:-1]])
            found.append((own - starts[which], which))
        return tuple(found)

    @property
    def ahead(self) -> NDArray[np.int64] | int:
        """Number of positions beyond its own up to which a causal query sees."""
        if not (self.causal and self.conventions.bottom_right):
            return 0
        if self.ends is None:
            return int(self.k.shape[2] - self.queries)
        lengths = [np.diff(side, prepend=0) for side in self.ends]
        shifts: NDArray[np.int64] = (lengths[1] - lengths[0])[self._places[0][1]][:, None]
        return shifts

    @property
    def allowed(self) -> Mask:
        """Positions that a query may attend to: (n, l), or (batch, heads, n, l) under a mask of higher rank."""
        batch, heads, _, n, length, *_ = self.shape
        distance = self.distance + self.ahead
        found = np.ones((n, length), dtype=bool)
        if self.causal:
            found &= distance >= 0
        if self.window is not None:
            reach = self.window + self.conventions.window_inclusive
            found &= (distance if self.causal else np.abs(distance)) < reach
        if self.ends is not None:
            found &= self._places[0][1][:, None] == self._places[1][1]
        if self.mask is None or self.mask.ndim == 2:
            return found if self.mask is None else found & self.mask
        return np.broadcast_to(found & self.mask, (batch, heads, n, length))

    @property
    def seen(self) -> tuple[Mask, Mask]:
        """Keys that any query may see, (batch, kv_heads, l), and queries that see any key, (batch, heads, n)."""
        batch, heads, _, n, length, *_ = self.shape
        allowed = np.broadcast_to(self.allowed, (batch, heads, n, length))
        return self.per_key_head(allowed.any(axis=2).astype(float)) > 0, np.asarray(allowed.any(axis=3))

    @property
    def empty(self) -> bool:
        """True where some query may see nothing, but for a sink."""
        return not bool(self.allowed.any(axis=-1).all())

    @property
    def kept(self) -> Array | float:
        """The factor of each weight by dropout."""
        return 1.0 if self.dropout is None else self.dropout / self.q.dtype.type(self.keep)

    @property
    def work(self) -> float:
        """Multiplications of a forward pass."""
        return work_of(self.shape)

    @property
    def longest(self) -> int:
        return max(self.shape[3:])

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features beyond the plain case; a subject may refuse any of them."""
        return tuple(feature.named_on(self) for feature in features_of(self))

    @property
    def bottom_heavy(self) -> bool:
        """True where a causal limit or a window can leave rows empty without a mask."""
        return self.q.shape[2] > self.k.shape[2] and (self.conventions.bottom_right or self.window is not None)

    @property
    def pull(self) -> Array | None:
        """The cotangent of the natural logarithm; d lse' / d lse = 1 / log(base) for the returned logarithm."""
        return None if self.dlse is None else self.dlse / self.unit

    @property
    def extended(self) -> bool:
        """True for features that the known wrong formulas do not cover."""
        parts = (self.bias, self.sinks, self.dropout, self.dlse, self.ends, self.poison)
        high = self.mask is not None and self.mask.ndim > 2
        return high or self.lse or self.additive or any(part is not None for part in parts) or self.empty

    def keywords(self, function: str) -> dict[str, Any]:
        """The keyword arguments that are not at their default."""
        mask: Any = self.mask
        if self.additive and self.mask is not None:
            mask = np.where(self.mask, 0.0, -np.inf)
        given: dict[str, Any] = {
            "causal": self.causal or None,
            "scale": self.scale,
            "mask": mask,
            "window": self.window,
        }
        given |= {"softcap": self.softcap, "alibi": self.alibi, "bias": self.bias, "sinks": self.sinks}
        if self.dropout is not None:
            given |= {"dropout_mask": self.dropout, "dropout_keep": self.keep}
        if self.ends is not None:
            starts = [np.array([0, *side], dtype=np.int32) for side in self.ends]
            given |= {"cu_seqlens_q": starts[0], "cu_seqlens_k": starts[1]}
        if function == FORWARD:
            given["return_lse"] = self.lse or None
        else:
            dlse = self.dlse if self.dlse is None or self.ends is None else self.dlse[0]  # packed: (heads, total)
            given |= {"dlse": dlse, "wanted": self.wanted or None}
        return {name: value for name, value in given.items() if value is not None}

    def grouped(self, array: Array) -> Array:
        """Keys or values of every query head."""
        return array[:, self.key_heads]

    @property
    def key_heads(self) -> NDArray[np.int64]:
        """The key head of each query head: h // group, or h % kv_heads where groups are interleaved."""
        heads = np.arange(self.q.shape[1])
        return heads % self.k.shape[1] if self.conventions.interleaved else heads // self.group

    def per_key_head(self, array: Array) -> Array:
        """The sum over the query heads of each group, (batch, kv_heads, ...)."""
        batch, heads, *rest = array.shape
        if self.conventions.interleaved:
            return np.asarray(array.reshape(batch, self.group, heads // self.group, *rest).sum(axis=1))
        return np.asarray(array.reshape(batch, heads // self.group, self.group, *rest).sum(axis=2))

    def changed(self, **changes: Any) -> KernelSample:
        """A sample like this one; what was computed for this one is not kept."""
        filled = {"fill_factor": 0.0} if {"q", "k", "v", "do"} & set(changes) else {}
        return replace(self, **{"memo": {}, **filled, **changes})

    def first_of_groups(self) -> KernelSample:
        """The sample with the first query head of each group alone."""
        heads = slice(self.k.shape[1]) if self.conventions.interleaved else slice(None, None, self.group)
        parts = {name: getattr(self, name) for name in ("alibi", "sinks")}
        changes: dict[str, Any] = {name: None if part is None else part[heads] for name, part in parts.items()}
        changes |= {name: along(getattr(self, name), 1, heads) for name in ("mask", "bias", "dropout", "dlse")}
        return self.changed(q=self.q[:, heads], do=self.do[:, heads], **changes)

    def without_new_empty_rows(self, allowed: bool) -> KernelSample | None:
        """The sample, with a position in every row that its mask leaves empty; None if the row is empty without it.

        Where empty rows are `allowed`, they stay.
        """
        empty = ~self.allowed.any(axis=-1)
        if allowed or not empty.any() or self.sinks is not None:
            return self
        if empty.ndim > 1 or self.ends is not None:
            return None
        bare = self.changed(mask=None).allowed
        if self.mask is None or not bare.any(axis=1).all():
            return None
        mask = self.mask.copy()
        mask[empty, bare[empty].argmax(axis=1)] = True
        return self.changed(mask=mask)

    def cut(self, **sizes: int) -> KernelSample | None:
        """The first entries, in a given number, along batch, kv_heads, n, l, m or mv."""
        names = ("batch", "heads", "kv_heads", "n", "l", "m", "mv")
        own = dict(zip(names, self.shape, strict=True)) | sizes
        own["heads"] = own["kv_heads"] * self.group
        if self.ends is not None and {"n", "l"} & set(sizes):
            return self._shorter(sizes)

        def part(array: Any, *along: str) -> Any:
            return np.ascontiguousarray(array[tuple(slice(own[name]) for name in along)])

        def of(array: Any) -> Any:
            """Some of what is broadcast to (batch, heads, n, l)."""
            if array is None:
                return None
            axes = ("batch", "heads", "n", "l")[4 - array.ndim :]
            return array[
                tuple(
                    slice(own[name]) if size > 1 else slice(None) for name, size in zip(axes, array.shape, strict=True)
                )
            ]

        return self.changed(
            q=part(self.q, "batch", "heads", "n", "m"),
            k=part(self.k, "batch", "kv_heads", "l", "m"),
            v=part(self.v, "batch", "kv_heads", "l", "mv"),
            do=part(self.do, "batch", "heads", "n", "mv"),
            mask=of(self.mask),
            bias=of(self.bias),
            dropout=of(self.dropout),
            dlse=None if self.dlse is None else part(self.dlse, "batch", "heads", "n"),
            alibi=None if self.alibi is None else self.alibi[: own["heads"]],
            sinks=None if self.sinks is None else self.sinks[: own["heads"]],
        ).without_new_empty_rows(self.empty)

    def _shorter(self, sizes: dict[str, int]) -> KernelSample | None:
        """Packed sequences without the last ones, as far as they fit into the sizes; None where none does."""
        assert self.ends is not None
        limits = [sizes.get(name, size) for name, size in zip(("n", "l"), self.shape[3:5], strict=True)]
        fitting = [pair for pair in zip(*self.ends, strict=True) if pair[0] <= limits[0] and pair[1] <= limits[1]]
        if not fitting or fitting[-1][0] < 1 or fitting[-1][1] < 1 or len(fitting) == len(self.ends[0]):
            return None
        n, length = fitting[-1]
        arrays = {
            name: getattr(self, name)[:, :, : n if name in ("q", "do") else length] for name in ("q", "k", "v", "do")
        }
        ends = tuple(tuple(pair[side] for pair in fitting) for side in (0, 1))
        return self.changed(ends=ends, **arrays)

    def describe(self) -> str:
        batch, heads, kv_heads, n, length, m, mv = self.shape
        shape = f"batch={batch}, heads={heads}, kv_heads={kv_heads}, n={n}, l={length}, m={m}, mv={mv}"
        names = ("causal", "mask", "mask of rank 3", "mask of rank 4", "float mask", "bias", "sinks", "dropout", "lse")
        options = "".join(f", {name}" for name in (*names, "dlse", "empty rows") if name in self.features)
        given = {name: getattr(self, name) for name in ("scale", "window", "softcap")}
        values = "".join(f", {name}={value:g}" for name, value in given.items() if value is not None)
        told = (
            (", alibi", self.alibi is not None),
            (f", {self.layout} in memory", self.layout != "plain"),
            (", causal up to the last key", self.causal and self.conventions.bottom_right),
            (f", packed up to {self.ends}", self.ends is not None),
            (f", {self.poison} where nothing is read", self.poison is not None),
        )
        others = "".join(said for said, is_so in told if is_so)
        return f"{self.name} ({shape}{options}{values}{others}, {self.precision.name})"


@dataclass(frozen=True)
class Regime:
    """Samples with one purpose.

    Attributes
    ----------
    required : bool
        Has to be decided before anything can pass.
    """

    name: str
    says: str
    samples: tuple[KernelSample, ...]
    required: bool = False


def parts_of(function: str, sample: KernelSample) -> tuple[str, ...]:
    """The arrays that a function returns for a sample."""
    if function == FORWARD:
        return ("o", "lse") if sample.lse else ("o",)
    return ("dq", "dk", "dv", *sample.wanted)


def along(array: Any, axis: int, part: slice) -> Any:
    """Some of what is given for each sample (axis 0) or head (axis 1); what is broadcast along the axis stays."""
    if array is None or array.ndim < 3:
        return array
    place = axis + array.ndim - 4 if array.dtype == bool else axis  # masks may leave leading axes out
    if place < 0 or array.shape[place] == 1:
        return array
    return array[(slice(None),) * place + (part,)]
