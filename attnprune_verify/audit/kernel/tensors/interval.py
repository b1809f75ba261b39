"""`attention_interval`: the two ends of what rounding explains, for every entry of attention and its gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnprune_verify.audit.kernel.problem.sample import Array
from attnprune_verify.audit.kernel.tensors.arrays import read
from attnprune_verify.audit.kernel.tensors.problem import GivenProblem, problem_of
from attnprune_verify.audit.kernel.truth.bounds import attention_errors
from attnprune_verify.audit.kernel.truth.intervals import interval
from attnprune_verify.audit.kernel.truth.judge import allowed_norms, judge_part, of_heads
from attnprune_verify.audit.kernel.truth.truth import truth
from attnprune_verify.audit.kernel.typing import Foreign
from attnprune_verify.errors import InvalidInstance


@dataclass(frozen=True, eq=False)
class ResultInterval:
    """The two ends of a result, the truth and the error of an honest kernel; float64, in the shape of the result.

    Attributes
    ----------
    lowest, highest : numpy.ndarray
        An answer outside is not explained by rounding; -inf and inf where nothing is promised.
    true : numpy.ndarray
        The exact result, rounded to float64.
    typical : numpy.ndarray
        The largest error that an honest kernel typically makes.
    """

    lowest: Array
    highest: Array
    true: Array
    typical: Array


@dataclass(frozen=True, eq=False)
class EntryVerdict:
    """The verdict on one returned array.

    Attributes
    ----------
    inside : bool
        True where every entry lies in its interval and no head's error is too large in norm.
    worst : float
        The error at `index`, in norm where only a norm is too large.
    index : tuple[int, ...]
        The entry where the quotient is largest; (batch, head) where only a norm is too large.
    quotient : float
        The error there divided by what rounding explains: above 1 outside.
    outside : numpy.ndarray
        True at entries outside their interval.
    """

    inside: bool
    worst: float
    index: tuple[int, ...]
    quotient: float
    outside: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


class AttentionInterval:
    """The intervals of all results; `o`, `lse` and, where `do` was given, the gradients, each `ResultInterval` or None.

    Gradients are computed on first use.
    """

    def __init__(self, problem: GivenProblem, backward: bool) -> None:
        self._problem, self._backward = problem, backward

    def __repr__(self) -> str:
        return f"AttentionInterval of {self._problem.sample.describe()}: {', '.join(self)}"

    def __iter__(self) -> Iterator[str]:
        """The names of the results that there are."""
        return iter(("o", "lse", *(("dq", "dk", "dv", *self._problem.sample.wanted) if self._backward else ())))

    @cached_property
    def o(self) -> ResultInterval:
        return self._ends("o")

    @cached_property
    def lse(self) -> ResultInterval:
        return self._ends("lse")

    @cached_property
    def dq(self) -> ResultInterval | None:
        return self._ends("dq") if self._backward else None

    @cached_property
    def dk(self) -> ResultInterval | None:
        return self._ends("dk") if self._backward else None

    @cached_property
    def dv(self) -> ResultInterval | None:
        return self._ends("dv") if self._backward else None

    @cached_property
    def dbias(self) -> ResultInterval | None:
        return self._ends("dbias") if "dbias" in self else None

    @cached_property
    def dsinks(self) -> ResultInterval | None:
        return self._ends("dsinks") if "dsinks" in self else None

    def _ends(self, name: str) -> ResultInterval:
        sample = self._problem.sample
        if self._backward:  # what a backward pass follows from holds o and lse, too
            _ = attention_errors(sample).worst["dq"]
        low, high = interval(name, sample)
        if (free := self._unpromised(name)) is not None:
            low, high = np.where(free, -np.inf, low), np.where(free, np.inf, high)
        arrays = (low, high, truth(sample)[name].value, attention_errors(sample).typical[name])
        return ResultInterval(*(self._problem.outward(name, array) for array in arrays))

    def _unpromised(self, name: str) -> Array | None:
        """Rows with nothing allowed, where the conventions leave them undefined."""
        sample = self._problem.sample
        if sample.conventions.empty_rows == "zero" or sample.sinks is not None or name not in ("o", "lse", "dq"):
            return None
        empty = ~sample.seen[1]
        return np.asarray(empty if name == "lse" else empty[..., None])

    def judge(self, **answers: Foreign) -> Mapping[str, EntryVerdict]:
        """Judge answers by name: ``judge(o=..., dq=...)``.

        Raises
        ------
        InvalidInstance
            If there is no such result, or it has another shape.
        """
        found = {}
        for name, answer in answers.items():
            if name not in self:
                raise InvalidInstance(f"a result must be one of {', '.join(self)}; got {name!r}")
            found[name] = self._verdict(name, self._problem.inward(name, read(name, answer)[0]))
        return found

    def _verdict(self, name: str, got: Array) -> EntryVerdict:
        sample, true = self._problem.sample, truth(self._problem.sample)[name]
        low, high = interval(name, sample)
        if (free := self._unpromised(name)) is not None:
            got = np.where(free, true.value, got)
        outside = ~((got >= low) & (got <= high))
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            off = np.where(got == true.value, 0.0, np.maximum(np.abs(got - true.value) - true.radius, 0.0))
            allowed = (high - low) / 2 - true.radius
            quotient = np.where(off > 0, off / allowed, 0.0)
        quotient = np.where(np.isnan(quotient), np.inf, quotient)
        index = tuple(int(i) for i in np.unravel_index(int(np.argmax(quotient)), quotient.shape))
        inside = judge_part(name, got, sample).status != "failed"
        if inside or outside.any():
            where = self._problem.place(name, index)
            return EntryVerdict(
                inside, float(off[index]), where, float(quotient[index]), self._problem.outward(name, outside)
            )
        total, norms = of_heads(off), allowed_norms(name, sample)
        head = tuple(int(i) for i in np.unravel_index(int(np.argmax(total / norms)), norms.shape))
        return EntryVerdict(
            False, float(total[head]), head, float(total[head] / norms[head]), self._problem.outward(name, outside)
        )


def attention_interval(
    q: Foreign, k: Foreign, v: Foreign, do: Foreign = None, *, dlse: Foreign = None, causal: bool = False,
    scale: float | None = None, mask: Foreign = None, window: int | None = None, softcap: float | None = None,
    alibi: Foreign = None, bias: Foreign = None, sinks: Foreign = None, dropout_mask: Foreign = None,
    dropout_keep: float | None = None, cu_seqlens_q: Foreign = None, cu_seqlens_k: Foreign = None,
    indices: Foreign = None, block_table: Foreign = None, lengths: Foreign = None,
    dtype: str | None = None, conventions: Mapping[str, Foreign] | None = None,
) -> AttentionInterval:  # fmt: skip
    r"""Return the two ends of every entry of :math:`o = P v` with :math:`P = \mathrm{softmax}(scale\, q k^T)`.

    An answer outside is not explained by rounding in `dtype`, however sums are ordered and keys cut into blocks; one
    inside may still be wrong. The rule is that of `attnprune_verify.run_kernel_audit`: the worst case, and for inputs
    whose roundings are independent (no equal rows, no frequent number) six times the typical error.

    Parameters
    ----------
    q : array
        The shape is (batch, heads, n, m); first axes may be left out. Arrays are those of NumPy, torch, jax or anything
        with ``__dlpack__``, on any device.
    k, v : array
        The shapes are (batch, kv_heads, l, m) and (batch, kv_heads, l, mv); head h reads h // (heads / kv_heads).
    do : array, optional
        The cotangent of o, of shape (batch, heads, n, mv); with it there are intervals of the gradients.
    dlse : array, optional
        The cotangent of log sum exp, (batch, heads, n).
    causal : bool
        Query i sees keys j <= i.
    scale : float, optional
        Default 1/sqrt(m).
    mask : array, optional
        Bool, True = may attend, or 0 and -inf; broadcast to (batch, heads, n, l).
    window, softcap : int or float, optional
        i - j < window if causal, \|i - j\| < window if not; c tanh(s/c).
    alibi, sinks : array, optional
        Slopes and one more logit of every row, (heads,).
    bias : array, optional
        Added to the logits: (batch or 1, heads or 1, n, l).
    dropout_mask, dropout_keep : array and float, optional
        P * mask / keep.
    cu_seqlens_q, cu_seqlens_k : array, optional
        Starts of packed sequences; q, k, v and do are (total, heads, m) then.
    indices : array of integers, optional
        Keys of each query, (batch, heads or kv_heads or 1, n, topk), -1 = none; a key that is named twice counts twice.
    block_table, lengths : array of integers, optional
        Pages (batch, pages) and number of keys (batch,) of each sample; k and v are (pages, page_size, kv_heads, m)
        then, and there are no gradients. Nothing is read from pages, or behind lengths, that no sample has.
    dtype : "float64", "float32", "bfloat16" or "float16", optional
        What the kernel promises; default the type of `q`. Inputs must be numbers of it.
    conventions : mapping, optional
        As CONVENTIONS of a target of `audit-kernel`, for instance ``{"causal_alignment": "bottom-right"}``.

    Returns
    -------
    AttentionInterval
        ``.o``, ``.lse``, ``.dq``, ``.dk``, ``.dv``, ``.dbias`` and ``.dsinks`` with ``.lowest``, ``.highest``,
        ``.true`` and ``.typical``; ``.judge(o=...)``.

    Raises
    ------
    InvalidInstance
        If shapes do not fit together, inputs are no numbers of `dtype`, or what is read is not finite.

    Notes
    -----
    docs/kernels.md has the bounds and what of them is proved.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> q, k, v = rng.standard_normal((3, 1, 2, 33, 16)).astype(np.float32)
    >>> s = q @ np.swapaxes(k, -1, -2) / 4
    >>> p = np.exp(s - s.max(-1, keepdims=True))
    >>> found = attention_interval(q, k, v)
    >>> found.judge(o=p / p.sum(-1, keepdims=True) @ v)["o"].inside
    True
    >>> found.judge(o=1.001 * found.o.true)["o"].inside
    False
    """
    problem = problem_of(
        q, k, v, do, dlse=dlse, causal=causal, scale=scale, mask=mask, window=window, softcap=softcap, alibi=alibi,
        bias=bias, sinks=sinks, dropout_mask=dropout_mask, dropout_keep=dropout_keep, cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k, indices=indices, block_table=block_table, lengths=lengths, dtype=dtype,
        conventions=conventions,
    )  # fmt: skip
    return AttentionInterval(problem, do is not None)
