"""`check_merge`: a merge of partial results, and its gradient, judged against the merge of what was given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from attnprune_verify.audit.kernel.merges.problem import ORDINARY_WIDTH, MergeProblem, merge_problems
from attnprune_verify.audit.kernel.problem.conventions import Conventions
from attnprune_verify.audit.kernel.problem.precision import PRECISIONS, KernelPrecision, precision_named
from attnprune_verify.audit.kernel.problem.sample import Array
from attnprune_verify.audit.kernel.process.bridged_merge import MERGES, BridgedMerge
from attnprune_verify.audit.kernel.process.detect_framework import implied
from attnprune_verify.audit.kernel.process.frameworks import framework_named
from attnprune_verify.audit.kernel.truth.bounds import attention_errors
from attnprune_verify.audit.kernel.truth.truth import truth
from attnprune_verify.audit.kernel.typing import Call, Foreign, Plain
from attnprune_verify.audit.mistakes import SENTENCES
from attnprune_verify.audit.record import Record
from attnprune_verify.audit.result import AuditResult
from attnprune_verify.audit.subject.answers import NoAnswer, OurError
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.values import as_choice

EMPTY = {"-inf": -np.inf, "+inf": np.inf, "finite": -1e30}
_OF_DIFFERENCES = (
    6.0  # roundings of o1 - w (o1 - o2): the difference, the weight's sum and quotient, product, sum; 1 spare
)
MANY = 3  # parts of a merge of many


@dataclass(frozen=True)
class WrongMerge:
    """A result that is wrong; `mutated` if the call changed its inputs, or returned one of them."""

    problem: MergeProblem
    part: str
    reason: str
    got: dict[str, Array]
    mutated: bool = False
    error: float = np.inf
    bound: float = 0.0


def check_merge(
    fn: Call, *, backward: Call | None = None, dtype: str = "float32", framework: str | None = None,
    conventions: Mapping[str, Foreign] | None = None, seed: int = 0,
) -> AuditResult:  # fmt: skip
    r"""Judge a merge of partial results: :math:`o = \sum_i w_i o_i` with :math:`w = \mathrm{softmax}(lse)`.

    A merge is attention over parts, whose logits are their log sum exp (theorem `joined_exact`), so that its truth and
    its bound are those of attention; a difference o1 - o2 that is rounded first (theorem `merge_error`) comes on top.

    Parameters
    ----------
    fn : callable
        ``merge(o1, lse1, o2, lse2)`` returns (o, lse); or, with two arguments, ``merge_many(o, lse)`` with a first axis
        of parts. o is (batch, heads, n, m), lse (batch, heads, n) in float32, in float64 of float64.
    backward : callable, optional
        ``merge_backward(o1, lse1, o2, lse2, do, dlse)`` returns the gradients by o1, lse1, o2 and lse2.
    dtype : "float64", "float32", "bfloat16" or "float16"
        The type of o.
    framework : "numpy", "torch" or "jax", optional
        The owner of the arrays; without it the framework that the function's code names.
    conventions : mapping, optional
        ``lse_base`` "e" or "2"; ``empty_lse`` "-inf", "+inf" or "finite" (-1e30), of rows without keys.
    seed : int

    Returns
    -------
    AuditResult
        ``outcome``, ``checks``, ``diagnosis`` (ids ``merge-...``) and ``assert_passed()``.

    Raises
    ------
    InvalidInstance
        If `fn` cannot be called, or an argument is none of those listed.

    Examples
    --------
    >>> def mine(o1, lse1, o2, lse2):
    ...     lse = np.logaddexp(lse1, lse2)
    ...     with np.errstate(invalid="ignore"):
    ...         w1, w2 = (np.where(np.isneginf(x), 0, np.exp(x - lse))[..., None] for x in (lse1, lse2))
    ...     return w1 * o1 + w2 * o2, lse
    >>> check_merge(mine).outcome
    'passed'
    >>> check_merge(lambda a, x, b, y: ((a + b) / 2, np.logaddexp(x, y))).diagnosis
    {'merge': ('merge-weights',)}
    """
    if not callable(fn):
        raise InvalidInstance(f"fn must be callable; got {type(fn).__name__}")
    given = dict(conventions or {})
    empty = as_choice("the convention empty_lse", given.pop("empty_lse", "-inf"), EMPTY)
    precision = precision_named(dtype)
    try:
        arrays = framework_named(framework or implied(fn), dtype)
    except ValueError as error:
        raise InvalidInstance(str(error)) from None
    many = len(inspect.signature(fn).parameters) == 2
    bridged = {"merge": BridgedMerge("merge", fn, arrays)}
    if backward is not None:
        bridged["merge_backward"] = BridgedMerge("merge_backward", backward, arrays)

    def ask(function: str, inputs: list[Array], layouts: list[str]) -> Plain:
        try:
            return bridged[function](*inputs, layouts=layouts)
        except OurError:
            raise
        except Exception as error:  # of the subject
            raise NoAnswer(f"raised {type(error).__name__}: {error}", raised=True) from error

    judge = MergeJudge(ask, precision, Conventions.declared(given), EMPTY[empty], many)
    records = [judge.record(function, problem) for function in bridged for problem in judge.problems(function, seed)]
    named = [record for record, _ in records]
    for function in bridged:
        failures = [failure for record, failure in records if failure is not None and record.function == function]
        if failures:
            id = judge.name(function, failures)
            named = [
                replace(record, diagnosis=(id,), words=SENTENCES[id])
                if record.function == function and record.status == "failed" else record
                for record in named
            ]  # fmt: skip
    functions = {name: MERGES[name] for name in bridged}
    target = getattr(fn, "__qualname__", type(fn).__name__)
    return AuditResult(target, None, None, seed, len(named), tuple(named), functions=functions, dtype=dtype)


@dataclass(frozen=True)
class MergeJudge:
    """Judges merges, which `ask` calls: function, arrays, layouts in; as `BridgedMerge` returns out."""

    ask: Callable[[str, list[Array], list[str]], Plain]
    precision: KernelPrecision
    conventions: Conventions
    empty: float
    many: bool

    def problems(self, function: str, seed: int) -> tuple[MergeProblem, ...]:
        """The problems of a function; those of a gradient have no rows that see nothing."""
        found = merge_problems(self.precision, MANY if self.many else 2, seed)
        return tuple(problem for problem in found if function != "merge_backward" or not problem.empty)

    def record(self, function: str, problem: MergeProblem) -> tuple[Record, WrongMerge | None]:
        """Judge a function on a problem."""
        failure = self.failure(function, problem)
        status: Foreign = "passed" if failure is None else "failed"
        reason = "inside the bound" if failure is None else failure.reason
        error, bound = (None, None) if failure is None else (failure.error, failure.bound)
        id, says = f"{function}:values:{problem.slug}", problem.says
        return Record(id, function, None, says, True, status, reason, error=error, bound=bound, instance=says), failure

    def failure(self, function: str, problem: MergeProblem) -> WrongMerge | None:
        """Return the first wrong result of a call, or None.

        Raises
        ------
        NoAnswer
            If the call did not end.
        """
        inputs = self._inputs(function, problem)
        try:
            found = self.ask(function, *inputs)
        except NoAnswer as none:
            if not none.raised:
                raise
            return WrongMerge(problem, "", str(none), {})
        changed, shared = found["changed"]
        names = ("dv0", "dk0", "dv1", "dk1") if function == "merge_backward" else ("o", "lse")
        answers = [found[f"result{place}"] for place in range(len(names))]
        got = dict(zip(names, answers, strict=True))
        if changed or shared:
            return WrongMerge(problem, "", "a result is an input" if shared else "an input was changed", got, True)
        for name, true, allowed in self.expected(function, problem):
            if got[name].shape != true.shape:
                return WrongMerge(problem, name, f"{name} has the shape {got[name].shape} for {true.shape}", {})
            free = np.isneginf(true)
            right = self._of_nothing(got[name]) if free.any() else free
            with np.errstate(invalid="ignore"):
                off = np.where(free, np.where(right, 0.0, np.inf), np.abs(got[name] - true))
            if not (off <= allowed).all():
                with np.errstate(invalid="ignore", divide="ignore"):
                    excess = np.nan_to_num(off / allowed, nan=np.inf, posinf=np.inf) * ~(off <= allowed)
                place = tuple(int(i) for i in np.unravel_index(int(np.nanargmax(excess)), off.shape))
                reason = (
                    f"{name}{list(place)} is {got[name][place]:.6g} for {true[place]:.6g}, where rounding explains "
                )
                reason += f"{allowed[place]:.3g}; {int((~(off <= allowed)).sum())} of {off.size} entries are wrong"
                return WrongMerge(problem, name, reason, got, False, float(off[place]), float(allowed[place]))
        return None

    def expected(self, function: str, problem: MergeProblem) -> Iterator[tuple[str, Array, Array]]:
        """Name, truth and allowed error of each result, in the caller's shape."""
        sample = problem.sample(self.precision, self.conventions)
        sums = PRECISIONS["float64" if self.precision.name == "float64" else "float32"]
        rows, parts = problem.lse.shape[1:], len(problem.lse)
        if function != "merge_backward":
            moved = _OF_DIFFERENCES * (parts - 1) * self.precision.sums * np.abs(sample.v).sum(axis=2, keepdims=True)
            allowed = truth(sample)["o"].radius + attention_errors(sample).worst["o"] + moved
            yield "o", truth(sample)["o"].value.reshape(*rows, -1), allowed.reshape(*rows, -1)
            allowed = truth(sample)["lse"].radius + attention_errors(sample, sums).worst["lse"]
            yield "lse", truth(sample)["lse"].value.reshape(rows), np.nan_to_num(allowed).reshape(rows)
            return
        for name, precision in (("dv", self.precision), ("dk", self.precision)):
            width = truth(sample)[name].radius + attention_errors(sample, precision).worst[name]
            for part in range(parts):
                shape = (*rows, problem.o.shape[-1]) if name == "dv" else rows
                yield (
                    f"{name}{part}",
                    truth(sample)[name].value[0, :, part].reshape(shape),
                    width[0, :, part].reshape(shape),
                )

    def name(self, function: str, failures: list[WrongMerge]) -> str:
        """Return the id of the mistake behind failures, by what is common to them and by experiments."""
        if not any(failure.got for failure in failures):  # it raised, or returned other shapes
            return "unknown"
        if any(failure.mutated for failure in failures):
            return "merge-aliases"
        in_memory = [failure for failure in failures if failure.problem.layout != "plain"]
        if len(in_memory) == len(failures):
            plain = [replace(failure.problem, layout="plain") for failure in in_memory]
            if all(self.failure(function, problem) is None for problem in plain):
                return "merge-strides"
        if all(failure.problem.empty for failure in failures):
            return "merge-empty"
        if all(failure.problem.levels or failure.problem.name == "far apart" for failure in failures):
            return "merge-unstable"
        ordinary = [x for x in failures if not x.problem.levels and not x.problem.empty and x.got]
        if not ordinary:
            return "merge-unstable"
        if all(failure.problem.o.shape[-1] != ORDINARY_WIDTH for failure in failures):
            return "merge-strides"
        if function != "merge_backward" and any(map(self._in_base, ordinary)):
            return "merge-base"
        return "merge-lse" if all(x.part.startswith(("lse", "dk")) for x in ordinary) else "merge-weights"

    def _in_base(self, failure: WrongMerge) -> bool:
        """True where log sum exp, read or returned in the other base, gives what was returned."""
        swapped = replace(self.conventions, lse_base="e" if self.conventions.lse_base == "2" else "2")
        fits = dict.fromkeys(("o", "lse"), False)
        for read_in, returned_in in product((self.conventions, swapped), repeat=2):
            units = read_in.unit / returned_in.unit
            for name, true, allowed in replace(self, conventions=read_in).expected("merge", failure.problem):
                meant = true * (units if name == "lse" else 1)
                fits[name] |= bool((np.abs(failure.got[name] - meant) <= 4 * allowed.max()).all())
        return all(fits.values())

    def _of_nothing(self, lse: Array) -> Array:
        """True where log sum exp is what the convention declares for rows without keys."""
        return np.asarray(lse < self.empty / 2 if np.isfinite(self.empty) else lse == self.empty)

    def _inputs(self, function: str, problem: MergeProblem) -> tuple[list[Array], list[str]]:
        """The arrays of a call, o as it lies in the kernel's memory, and their layouts."""
        lse = np.where(np.isneginf(problem.lse), self.empty, problem.lse)
        pairs = list(zip(problem.o, lse, strict=True))
        layouts = ["plain", "plain", problem.layout, "plain"]
        if function == "merge_backward":
            pairs, layouts = [*pairs, (problem.do, problem.dlse)], [*layouts, "plain", "plain"]
        elif self.many:
            pairs, layouts = [(problem.o, lse)], ["plain", "plain"]
        return [array for o, own in pairs for array in (self.precision.laid_down(o.copy()), own)], layouts
