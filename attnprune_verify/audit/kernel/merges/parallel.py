"""`check_parallel`: steps of parallel attention on ranks that one process simulates, against the undivided truth."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from attnprune_verify.audit.contract import Signature
from attnprune_verify.audit.kernel.merges.check import check_merge
from attnprune_verify.audit.kernel.problem.conventions import Conventions
from attnprune_verify.audit.kernel.problem.precision import precision_named
from attnprune_verify.audit.kernel.problem.sample import Array, KernelSample
from attnprune_verify.audit.kernel.process.detect_framework import implied
from attnprune_verify.audit.kernel.process.frameworks import Framework, framework_named
from attnprune_verify.audit.kernel.tensors.arrays import read
from attnprune_verify.audit.kernel.truth.judge import allowed_entries
from attnprune_verify.audit.kernel.truth.steps import evaluate
from attnprune_verify.audit.kernel.truth.truth import truth
from attnprune_verify.audit.kernel.typing import Call, Foreign
from attnprune_verify.audit.mistakes import SENTENCES
from attnprune_verify.audit.record import Record
from attnprune_verify.audit.result import AuditResult
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.values import as_choice, as_count

_SHARDS = ("contiguous", "zigzag", "packed")
_TOKENS, _FEATURES = 48, 8  # chosen: divisible by twice the ranks asked by default, with documents of unlike lengths
_DOCUMENTS = (16, 48)  # chosen: ends of the packed documents
_FUNCTIONS = {
    "step": Signature("step", ("q", "k", "v"), "attends to a shard of the keys", "o, lse", parts=2),
    "backward_step": Signature(
        "backward_step", ("q", "k", "v", "do", "o", "lse"), "gradients of a shard", "dq, dk, dv", parts=3
    ),
}
Pair = tuple["np.ndarray[tuple[int], np.dtype[np.int64]]", "np.ndarray[tuple[int], np.dtype[np.int64]]", bool]
"""Positions of queries and of keys, and whether the step is causal."""


def check_parallel(
    step: Call, *, merge: Call | None = None, backward_step: Call | None = None, ranks: tuple[int, ...] = (1, 2, 4),
    shards: tuple[str, ...] = _SHARDS, dtype: str = "float32", framework: str | None = None,
    conventions: Mapping[str, Foreign] | None = None, seed: int = 0,
) -> AuditResult:  # fmt: skip
    """Judge the steps of ring or context-parallel attention, with ranks that one process simulates.

    Each rank holds a shard of the tokens; its queries meet the shard of every rank by a step of their own, and the
    partial results are merged. Contiguous and packed: a step on its own shard is causal, one on an earlier shard is
    not, later ones are left out. Zigzag: rank r holds chunks r and 2 ranks - 1 - r; on an earlier rank's shard the
    first half of the keys counts, on a later one's the second half of the queries. Packed: document by document.

    Parameters
    ----------
    step : callable
        ``step(q_i, k_j, v_j, *, causal)`` returns (o, lse); where it has the keywords ``q_positions`` and
        ``k_positions`` it is called for all pairs of whole shards, and masks keys after the query by itself (rows that
        see nothing have o = 0, lse = -inf).
    merge : callable, optional
        As of `attnprune_verify.check_merge`, which judges it first; default an honest merge.
    backward_step : callable, optional
        ``backward_step(q_i, k_j, v_j, do_i, o_i, lse_i, *, causal)`` returns the step's parts of dq_i, dk_j and dv_j;
        o_i and lse_i are those of the whole row.
    ranks : tuple[int, ...]
        Divisors of 8, the number of chunks of a document is twice that.
    shards : tuple[str, ...]
        Of "contiguous", "zigzag" and "packed".
    dtype, framework, conventions, seed
        As of `attnprune_verify.check_merge`; of conventions ``lse_base``.

    Returns
    -------
    AuditResult
        ``outcome``, ``checks``, ``diagnosis`` (`shard-mask`, `shard-gradient`, or those of the merge).

    Raises
    ------
    InvalidInstance
        If an argument is none of those listed.

    Examples
    --------
    >>> def mine(q, k, v, *, causal):
    ...     s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    ...     s = np.where(np.tri(*s.shape[-2:], dtype=bool) | (not causal), s, -np.inf)
    ...     top = s.max(-1, keepdims=True)
    ...     e = np.exp(s - top)
    ...     return e @ v / e.sum(-1, keepdims=True), (top + np.log(e.sum(-1, keepdims=True)))[..., 0]
    >>> check_parallel(mine).outcome
    'passed'
    >>> check_parallel(lambda q, k, v, *, causal: mine(q, k, v, causal=False)).diagnosis
    {'step': ('shard-mask',)}
    """
    for name, fn in (("step", step), ("merge", merge), ("backward_step", backward_step)):
        if fn is not None and not callable(fn):
            raise InvalidInstance(f"{name} must be callable; got {type(fn).__name__}")
    shards = tuple(as_choice("a shard", shard, _SHARDS) for shard in shards)
    ranks = tuple(as_count("a number of ranks", rank, least=1) for rank in ranks)
    if any(_TOKENS // 6 % rank for rank in ranks):
        raise InvalidInstance(f"a number of ranks must divide {_TOKENS // 6}; got {ranks}")
    declared, precision = Conventions.declared(conventions or {}), precision_named(dtype)
    try:
        arrays = framework_named(framework or implied(step), dtype)
    except ValueError as error:
        raise InvalidInstance(str(error)) from None
    records: list[Record] = []
    if merge is not None:
        records += check_merge(merge, dtype=dtype, framework=framework, conventions=conventions, seed=seed).checks
        if any(record.status == "failed" for record in records):
            return AuditResult(_named(step), None, None, seed, len(records), tuple(records), functions=_FUNCTIONS)
    rng = np.random.default_rng(seed)
    q, k, v, do = (precision.exact(rng.standard_normal((1, heads, _TOKENS, _FEATURES))) for heads in (2, 2, 2, 2))
    for causal in (False, True):
        for layout in shards:
            ends = (_DOCUMENTS, _DOCUMENTS) if layout == "packed" else None
            sample = KernelSample("step", precision, q, k, v, do, causal, ends=ends, lse=True, conventions=declared)
            for count in ranks:
                ring = _Ring(arrays, sample, layout, count)
                records += ring.records("step", partial(ring.forward, step, merge))
                if backward_step is not None:
                    records += ring.records("backward_step", partial(ring.backward, backward_step))
    functions = {name: _FUNCTIONS[name] for name in ("step", "backward_step")[: 1 + (backward_step is not None)]}
    return AuditResult(_named(step), None, None, seed, len(records), tuple(records), functions=functions, dtype=dtype)


def _named(fn: Call) -> str:
    return getattr(fn, "__qualname__", type(fn).__name__)


@dataclass(frozen=True)
class _Ring:
    """A sample whose tokens lie on a number of ranks."""

    arrays: Framework
    sample: KernelSample
    layout: str
    ranks: int

    def pairs(self, whole: bool) -> Iterator[Pair]:
        """The steps: positions of the queries and the keys, and whether the step is causal.

        `whole`: all pairs of whole shards, whatever is masked.
        """
        starts = (0, *_DOCUMENTS) if self.layout == "packed" else (0, _TOKENS)
        for start, stop in zip(starts[:-1], starts[1:], strict=True):
            parts = np.split(np.arange(start, stop), self.ranks * (2 if self.layout == "zigzag" else 1))
            own = [
                np.concatenate([parts[rank], parts[-1 - rank]]) if self.layout == "zigzag" else parts[rank]
                for rank in range(self.ranks)
            ]
            for i, queries in enumerate(own):
                for j, keys in enumerate(own):
                    half = len(keys) // 2
                    if whole or not self.sample.causal or i == j:
                        yield queries, keys, self.sample.causal
                    elif self.layout == "zigzag":
                        yield (queries, keys[:half], False) if j < i else (queries[half:], keys, False)
                    elif j < i:
                        yield queries, keys, False

    def steps(self, step: Call) -> Iterator[Pair]:
        """The steps of a ring, or all pairs of shards for a step that takes positions."""
        return self.pairs(whole={"q_positions", "k_positions"} <= set(inspect.signature(step).parameters))

    def call(self, step: Call, pair: Pair, *more: Foreign) -> list[Array]:
        queries, keys, causal = pair
        sample, keywords = self.sample, {"causal": causal}
        if {"q_positions", "k_positions"} <= set(inspect.signature(step).parameters):
            places = (("q_positions", queries), ("k_positions", keys))
            keywords |= {name: self.arrays.side_input(place.astype(np.int32)) for name, place in places}
        given = [self._made(x[:, :, at]) for x, at in ((sample.q, queries), (sample.k, keys), (sample.v, keys))]
        with np.errstate(all="ignore"):
            return [read("a result", array)[0] for array in step(*given, *more, **keywords)]

    def forward(self, step: Call, merge: Call | None) -> dict[str, Array]:
        """Output and log sum exp of all queries, step after step."""
        shape = self.sample.q.shape
        o, lse = np.zeros(shape), np.full(shape[:3], -np.inf)
        join = self._merged if merge is None else lambda *parts: self._by(merge, *parts)
        for pair in self.steps(step):
            at = pair[0]
            part, own = self.call(step, pair)
            o[:, :, at], lse[:, :, at] = join(o[:, :, at], lse[:, :, at], part, own)
        return {"o": o, "lse": lse}

    def backward(self, backward_step: Call) -> dict[str, Array]:
        """Gradients, added up over steps."""
        sample, true = self.sample, truth(self.sample)
        dq, dk, dv = (np.zeros(x.shape) for x in (sample.q, sample.k, sample.v))
        for pair in self.steps(backward_step):
            queries, keys, _ = pair
            rows = [self._made(sample.precision.exact(x[:, :, queries])) for x in (sample.do, true["o"].value)]
            lse = self.arrays.side_input(true["lse"].value[:, :, queries].astype(self._sums))
            found = self.call(backward_step, pair, *rows, lse)
            dq[:, :, queries] += found[0]
            dk[:, :, keys] += found[1]
            dv[:, :, keys] += found[2]
        return {"dq": dq, "dk": dk, "dv": dv}

    def records(self, function: str, run: Callable[[], dict[str, Array]]) -> list[Record]:
        """One record of all steps of a function."""
        says = f"{self.layout}, {self.ranks} ranks, {'causal' if self.sample.causal else 'not causal'}"
        id = f"{function}:values:{says.replace(', ', '-').replace(' ', '-')}"
        try:
            results = run()
        except Exception as error:  # of the subject
            reason: str | None = f"raised {type(error).__name__}: {error}"
        else:
            reason = self._reason(results)
        if reason is None:
            return [Record(id, function, None, says, True, "passed", "inside the bound")]
        name = {"step": "shard-mask" if self.sample.causal else "unknown", "backward_step": "shard-gradient"}[function]
        return [Record(id, function, None, says, True, "failed", reason, (name,), SENTENCES[name], instance=says)]

    def _reason(self, results: dict[str, Array]) -> str | None:
        """Describe the first wrong result, or return None; partial ones may be rounded, each on its own."""
        steps, unit = evaluate(self.sample), self.sample.precision.unit
        ds, scale = np.abs(steps.ds), self.sample.factor
        sizes = {
            "o": steps.p @ np.abs(steps.v), "lse": np.abs(steps.lse), "dq": scale * ds @ np.abs(steps.k),
            "dk": scale * np.swapaxes(ds, -1, -2) @ np.abs(self.sample.q),
            "dv": np.swapaxes(steps.p, -1, -2) @ np.abs(self.sample.do),
        }  # fmt: skip
        for name, got in results.items():
            true = truth(self.sample)[name]
            allowed = true.radius + allowed_entries(name, self.sample) + 2 * (self.ranks + 1) * unit * sizes[name]
            off = np.abs(got - true.value)
            if not (off <= allowed).all():
                place = tuple(
                    int(i)
                    for i in np.unravel_index(int(np.argmax(np.nan_to_num(off / allowed, nan=np.inf))), off.shape)
                )
                said = f"{name}{list(place)} is off by {off[place]:.3g}, where rounding explains {allowed[place]:.3g}"
                return f"{said}; {int((~(off <= allowed)).sum())} of {off.size} entries are wrong"
        return None

    def _merged(self, o1: Array, lse1: Array, o2: Array, lse2: Array) -> tuple[Array, Array]:
        """An honest merge in float64."""
        unit = self.sample.conventions.unit
        lse1, lse2 = unit * lse1, unit * lse2
        top = np.maximum(lse1, lse2)
        top = np.where(np.isneginf(top), 0.0, top)
        w1, w2 = np.exp(lse1 - top), np.exp(lse2 - top)
        total = np.where(w1 + w2 > 0, w1 + w2, 1.0)[..., None]
        with np.errstate(divide="ignore"):
            return (w1[..., None] * o1 + w2[..., None] * o2) / total, (top + np.log(w1 + w2)) / unit

    def _by(self, merge: Call, o1: Array, lse1: Array, o2: Array, lse2: Array) -> tuple[Array, Array]:
        """The kernel's own merge, on arrays of its type."""
        given = []
        for o, lse in ((o1, lse1), (o2, lse2)):
            given += [self._made(self.sample.precision.exact(o)), self.arrays.side_input(lse.astype(self._sums))]
        with np.errstate(all="ignore"):
            o, lse = merge(*given)
        return read("o", o)[0], read("lse", lse)[0]

    def _made(self, values: Array) -> Foreign:
        return self.arrays.made(self.sample.precision.laid_down(values.copy()), "plain")

    @property
    def _sums(self) -> Foreign:
        return np.float64 if self.sample.precision.name == "float64" else np.float32
