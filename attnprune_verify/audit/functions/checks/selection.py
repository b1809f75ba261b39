"""Masks: the causal one, and those that keep the largest entries. Counts are exact and ties have an order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.contract import FUNCTIONS
from attnprune_verify.audit.functions.checks.factors import selected_by
from attnprune_verify.audit.functions.checks.inputs import keeping_checks
from attnprune_verify.audit.functions.checks.pruning import as_convention, explained
from attnprune_verify.audit.functions.checks.smaller import check, shrunk
from attnprune_verify.audit.functions.checks.structure import TIMES, precision_check
from attnprune_verify.audit.functions.context import Context
from attnprune_verify.audit.functions.truth.conventions import CHOICES, MaskConventions, smallest_first, units
from attnprune_verify.audit.functions.truth.precision import Precision
from attnprune_verify.audit.naming.searching import search_for_names
from attnprune_verify.audit.naming.shrink import SMALLEST, doubtless, fewer
from attnprune_verify.audit.record import Call, Check, Finding

Flags = NDArray[np.bool_]
_DEFAULT = MaskConventions()


@dataclass(frozen=True, eq=False)
class Selection:
    """A matrix to round, and the ratio of entries to set to 0."""

    name: str
    matrix: NDArray[Any]
    rho: float

    @property
    def count(self) -> int:
        """floor(rho * size). The ratios used here leave no doubt about it: decimal and float agree."""
        return int(self.rho * self.matrix.size)

    def cuts(self) -> Iterator[Selection]:
        """Fewer rows and columns, the entries' ranks in the place of the entries, a plainer ratio."""
        matrix, rho = self.matrix, self.rho
        rows, columns = matrix.shape
        cut = (
            *(matrix[:new] for new in fewer(rows)),
            *(matrix[:, :new] for new in fewer(columns)),
            *(np.delete(matrix, gone, axis=0) for gone in (range(rows) if 1 < rows < 10 else ())),
            *(np.delete(matrix, gone, axis=1) for gone in (range(columns) if 1 < columns < 10 else ())),
        )
        ratios = (Selection(SMALLEST, matrix, one) for one in (0.5, 0.25) if rho not in (0.0, 0.25, 0.5, 1.0))
        for one in (*(Selection(SMALLEST, part.copy(), rho) for part in cut), *ratios):
            if doubtless(one.rho, one.matrix.size):
                yield one
        levels, places = np.unique(matrix, return_inverse=True)
        ranks = (places.reshape(matrix.shape) - int(np.count_nonzero(levels < 0))).astype(matrix.dtype)
        if levels.size and not np.array_equal(ranks, matrix):
            yield Selection(SMALLEST, ranks, rho)


def _selections(seed: int, precision: Precision) -> dict[str, tuple[Selection, ...]]:
    rng = np.random.default_rng([seed, 77])
    plain, small = precision.exact(rng.uniform(0.05, 1.0, (7, 7))), precision.exact(rng.uniform(0.05, 1.0, (4, 4)))
    signed = precision.exact(rng.standard_normal((6, 6)))
    few = precision.exact(rng.integers(0, 3, (6, 6)))
    ulps = (7 * np.arange(16) + 3).reshape(4, 4) % 16  # equal in a coarser format, where others stay
    far = 1e-200 if precision.name == "float64" else 1e-30
    made = {
        "values": (
            Selection("distinct", plain, 0.5),
            Selection("distinct", small, 0.25),
            Selection("distinct", plain, 0.3),
        ),
        "signs": (
            Selection("signed", signed, 0.5),
            Selection("signed", signed, 0.2),
            Selection("signed", -np.abs(signed), 0.4),
        ),
        "counts": tuple(
            Selection(f"rho={rho}", plain, rho)
            for rho in (0.01, 0.02, 0.03, 0.1, 0.35, 0.45, 0.6, 0.77, 0.9, 0.97, 0.99)
        ),
        "edges": (
            Selection("nothing", plain, 0.0),
            Selection("everything", plain, 1.0),
            Selection("one entry, rho=0.5", np.array([[0.25]], plain.dtype), 0.5),
            Selection("one entry, rho=1", np.array([[0.25]], plain.dtype), 1.0),
            Selection("everything, ties", np.ones((3, 3), plain.dtype), 1.0),
            Selection("nothing, ties", np.ones((3, 3), plain.dtype), 0.0),
        ),
        "ties": (
            Selection("all equal", np.ones((5, 5), plain.dtype), 0.5),
            Selection("all equal", np.ones((4, 4), plain.dtype), 0.25),
            Selection("all zero", np.zeros((4, 4), plain.dtype), 0.5),
            Selection("few values", few, 0.5),
            Selection("few values", few, 0.2),
            Selection("few values", few[::-1].copy(), 0.7),
            Selection("zeros of both signs", np.where(few == 0, np.copysign(0.0, signed), few), 0.2),
            Selection("large, all equal", np.full((20, 20), 0.5, plain.dtype), 0.5),
            Selection("large, few values", np.tile(few, (4, 4)), 0.4),
        ),
        "float32": (
            Selection("float32", plain.astype(np.float32), 0.5),
            Selection("float32 ties", few.astype(np.float32), 0.4),
            Selection("close in float32", (1 + ulps * 2.0**-22).astype(np.float32), 0.5),
        ),
        "close-values": (
            Selection(f"close in {precision.name}", precision.exact(1 + ulps * 8 * precision.unit_roundoff), 0.5),
            *(
                ()
                if precision.short
                else (
                    Selection("tiny", precision.exact(plain * far), 0.4),
                    Selection("huge", precision.exact(signed / far), 0.4),
                )
            ),
        ),
        "layouts": (
            Selection("Fortran order", np.asfortranarray(plain), 0.4),
            Selection("strides", np.repeat(plain, 2, axis=1)[:, ::2], 0.4),
            Selection("not square", plain[:, :4].copy(), 0.4),
        ),
        "larger": (
            Selection("40 x 40", precision.exact(rng.standard_normal((40, 40))), 0.371),
            Selection("300 x 5", precision.exact(rng.standard_normal((300, 5))), 0.6),
        ),
    }
    return made if not precision.declared and not precision.short else {**made, "float32": ()}


def selection_checks(function: str) -> Iterator[Check]:
    """Checks of causal_mask, binary_mask and magnitude_mask."""
    if function == "causal_mask":
        yield check(function, "values", "1 where i >= j, else 0, for n from 1 to 17", _causal, required=True)
        return
    says = {
        "values": "the smallest entries go",
        "signs": "negative entries are smaller than positive ones"
        if function == "binary_mask"
        else "magnitudes are compared, whatever the sign",
        "counts": "exactly floor(rho size) entries go",
        "edges": "rho = 0 takes nothing, rho = 1 everything",
        "ties": "of equal entries the lower flat index goes first",
        "float32": "right in float32",
        "close-values": "differences of a few units in the last place count",
        "layouts": "right in Fortran order, with strides, and for a matrix that is not square",
        "larger": "right for 40 x 40 and 300 x 5",
    }
    for name, sentence in says.items():
        yield check(function, name, sentence, partial(_rounding, name=name), required=name == "values")
    yield precision_check(function)
    yield check(function, "deterministic", "equal calls agree", _deterministic)
    yield from keeping_checks(function)


def _causal(context: Context, function: str) -> Finding:
    for n in (1, 2, 3, 5, 17):
        answer = context.call("causal_mask", {"n": n})
        got, expected = answer.parts[0], np.tri(n)
        if got.shape == expected.shape and np.array_equal(got, expected):
            continue
        call = Call("causal_mask", {"n": n}, expected=(expected,))
        if got.shape != expected.shape:
            return Finding("failed", f"returns the shape {got.shape} for n = {n}", ids=("wrong-shape",), call=call)
        known = {
            "mask-strict": np.tri(n, k=-1),
            "mask-transposed": np.tri(n).T,
            "mask-ignored": np.ones((n, n)),
            "mask-inverted": 1 - np.tri(n),
        }
        ids = tuple(id for id, wrong in known.items() if np.array_equal(got, wrong)) if n > 1 else ()
        if not ids and n == 1:
            big = context.call("causal_mask", {"n": 5}).parts[0]
            ids = ("mask-strict",) if np.array_equal(big, np.tri(5, k=-1)) else ("mask-inverted",)
        return Finding("failed", f"is wrong for n = {n}", ids=ids[:1] or ("unknown",), call=call)
    return Finding("passed", "n = 1, 2, 3, 5, 17", power=0.0)


def _rounding(context: Context, function: str, name: str) -> Finding:
    selections = _selections(context.seed, context.precision(function))[name]
    if not selections:
        return Finding("not_applicable", f"not asked in {context.precision(function).name}")
    found = (_judged(context, function, selection) for selection in selections)
    wrong = [one for one in found if one is not None]
    if not wrong:
        return Finding("passed", f"{len(selections)} instances, entry by entry", power=0.0)
    return as_convention(context, function, explained(wrong), partial(_fits, context, function))


def _fits(context: Context, function: str, conventions: MaskConventions) -> bool:
    """Return True where every mask of the plain instances is right under these conventions."""
    every = _selections(context.seed, context.precision(function))
    return all(
        _under(context, function, selection, conventions)
        for name in ("values", "signs", "counts", "ties", "layouts")
        for selection in every[name]
    )


def _under(context: Context, function: str, selection: Selection, conventions: MaskConventions) -> bool:
    arguments = dict(zip(FUNCTIONS[function].arguments, (selection.matrix, selection.rho), strict=True))
    got = context.remembered(function, arguments, where=selection.name).parts[0]
    sizes = np.abs(selection.matrix) if function == "magnitude_mask" else selection.matrix
    gone = got == (1 if function == "magnitude_mask" else 0)
    return got.shape == sizes.shape and conventions.fits(gone, sizes.astype(float), selection.rho, tied=True)


def _judged(context: Context, function: str, selection: Selection) -> Finding | None:
    """A failure on one matrix, with a search for a smaller matrix that fails."""
    arguments = dict(zip(FUNCTIONS[function].arguments, (selection.matrix, selection.rho), strict=True))
    answer = context.call(function, arguments, where=selection.name)
    conventions = context.conventions(function)
    sizes, flags_are_gone = selection.matrix, function == "magnitude_mask"
    sizes = np.abs(sizes) if flags_are_gone else sizes
    gone = conventions.gone(sizes, selection.rho)
    expected = gone if flags_are_gone else np.where(gone, 0.0, 1.0)
    unlike = conventions != MaskConventions()
    problem = None
    if not (unlike and _under(context, function, selection, conventions)):
        problem = judge_zeros(answer.parts[0], selection, sizes, flags_are_gone=flags_are_gone, rules=conventions)
    if problem is None:
        context.judged_matrix(function, selection.matrix.shape)
        return None
    reason, ids = problem
    said = f"{reason}, on {selection.name} {selection.matrix.shape}, rho = {selection.rho:g}"
    call = Call(function, arguments, expected=(expected,))
    smaller = partial(shrunk, selection, Selection.cuts, partial(_judged, context, function), said)
    return Finding("failed", said, ids=ids, call=call, shrink=smaller)


def judge_zeros(
    got: NDArray[Any],
    selection: Selection,
    sizes: NDArray[Any],
    *,
    flags_are_gone: bool,
    rules: MaskConventions = _DEFAULT,
) -> tuple[str, tuple[str, ...]] | None:
    """Return the fault of a mask, if any, and the mistakes that give it: several where the matrix shows no more."""
    if got.shape != sizes.shape or got.dtype.kind not in "biuf":
        return f"returns {got.dtype} of shape {got.shape} instead of {sizes.shape}", ("wrong-shape",)
    if not np.isin(got, (0, 1)).all():
        return f"returns {got[~np.isin(got, (0, 1))].flat[0]} where only 0 and 1 are allowed", ("wrong-shape",)
    gone = (got == 1) if flags_are_gone else (got == 0)
    right = rules.gone(sizes, selection.rho)
    count, size = int(right.sum()), sizes.size
    if np.array_equal(gone, right):
        return None
    rule = "floor(rho size)" if rules == _DEFAULT else f"by {rules.beside(_DEFAULT)} the number"
    reason = f"{int(gone.sum())} of {size} entries go where {rule} = {count}"
    known = [id for id in _named(selection, sizes, gone, rules) if id != "unknown"]
    smallest = all(
        np.array_equal(np.sort(sizes[place][gone[place]]), np.sort(sizes[place], axis=None)[: gone[place].sum()])
        for place in units(sizes.shape, rules.threshold)
    )
    if gone.sum() != count:
        one_off = smallest and not known and abs(int(gone.sum()) - count) == 1
        known += ["threshold-off-by-one"] * one_off + ["wrong-count"] * smallest
        known += ["too-few"] * bool((gone <= right).all()) + ["too-many"] * bool((gone >= right).all() and not smallest)
        return reason, tuple(dict.fromkeys(known or ["unknown"]))
    if known:
        return "other entries go than the smallest", tuple(dict.fromkeys(known))
    if smallest:
        return "ties are broken by another rule than the lower flat index first", ("ties-dropped",)
    by_factors = selected_by(sizes, gone) if flags_are_gone else ()  # what an M has is judged by its own rules
    return "other entries go than the smallest", by_factors or ("unknown",)


@search_for_names
def _named(selection: Selection, sizes: NDArray[Any], gone: Flags, rules: MaskConventions) -> tuple[str, ...]:
    choices = _wrong_choices(selection.matrix, sizes, selection.rho, rules)
    return tuple(id for id, wrong in choices if np.array_equal(gone, wrong))


def _wrong_choices(
    matrix: NDArray[Any], sizes: NDArray[Any], rho: float, rules: MaskConventions
) -> Iterator[tuple[str, Flags]]:
    size = sizes.size
    count = int(rules.gone(sizes, rho).sum())
    right = partial(rules.gone, rho=rho)
    ranked = np.sort(sizes, axis=None)
    candidates: list[tuple[str, Callable[[], Flags]]] = [
        ("prunes-nothing", lambda: np.zeros(sizes.shape, dtype=np.bool_)),
        ("prunes-everything", lambda: np.ones(sizes.shape, dtype=np.bool_)),
        ("low-precision", lambda: right(sizes.astype(np.float32))),
        ("low-precision", lambda: right(sizes.astype(np.float16))),
        *(("low-precision", partial(right, np.round(sizes, digits))) for digits in (1, 2, 3, 4, 6)),
        ("threshold-off-by-one", lambda: right(sizes, more=1)),
        ("threshold-off-by-one", lambda: right(sizes, more=-1)),
        *(
            ("threshold-off-by-one", partial(replace(rules, count=rule).gone, sizes, rho))
            for rule in CHOICES["count"]
            if rule != "authors"
        ),
        ("keeps-instead-of-prunes", lambda: ~right(sizes)),
        ("keeps-instead-of-prunes", lambda: right(-sizes)),
        ("keeps-instead-of-prunes", lambda: replace(rules, count="ceil").gone(sizes, 1 - rho)),
        ("keeps-instead-of-prunes", lambda: rules.gone(sizes, 1 - rho)),
        ("ties-dropped", lambda: sizes < ranked[min(count, size - 1)]),
        *(("ties-dropped", partial(replace(rules, ties=rule).gone, sizes, rho)) for rule in CHOICES["ties"]),
        ("ties-dropped", lambda: sizes <= np.quantile(sizes, rho)),
        ("ties-dropped", lambda: sizes < np.quantile(sizes, rho)),
        ("threshold-off-by-one", lambda: replace(rules, count="authors").gone(sizes, rho)),
        ("absolute-values", lambda: right(np.abs(matrix))),
        ("absolute-values", lambda: right(matrix)),
        ("baseline-global-threshold", lambda: replace(rules, threshold="row").gone(sizes, rho)),
        ("baseline-global-threshold", lambda: replace(rules, threshold="row").gone(sizes.T, rho).T),
        ("clips-or-rounds-M", lambda: right(np.clip(sizes, 0.0, 1.0))),
        ("baseline-score", lambda: right(np.where(sizes == matrix, sizes, 0.0))),
        ("memory-layout", lambda: smallest_first(sizes.ravel("K"), count).reshape(sizes.shape)),
        ("ties-dropped", lambda: right(sizes.T).T),
    ]
    for id, choose in candidates:
        with np.errstate(over="ignore"):  # 1e200 is inf in float32
            chosen = choose()
        yield id, chosen


def _deterministic(context: Context, function: str) -> Finding:
    for selection in _selections(context.seed, context.precision(function))["values"]:
        arguments = dict(zip(FUNCTIONS[function].arguments, (selection.matrix, selection.rho), strict=True))
        first, *others = (context.call(function, arguments).parts[0] for _ in range(1 + TIMES))
        if not all(np.array_equal(first, other) for other in others):
            return Finding(
                "failed", "two equal calls differ", ids=("nondeterministic",), call=Call(function, arguments)
            )
    return Finding("passed", "equal calls agree")


def coarser_selection(context: Context, function: str) -> bool:
    """Return True where close values are compared as float32 compares them, no worse and no better."""
    (close, *_) = _selections(context.seed, context.declared)["close-values"]
    arguments = dict(zip(FUNCTIONS[function].arguments, (close.matrix, close.rho), strict=True))
    zeros = np.asarray(context.call(function, arguments).parts[0]) == (function == "magnitude_mask")
    right, coarse = (smallest_first(close.matrix.astype(dtype), close.count) for dtype in (np.float64, np.float32))
    return zeros.shape == right.shape and bool((zeros == coarse).all() and (zeros != right).any())
