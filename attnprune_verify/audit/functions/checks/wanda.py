"""Is this the Wanda mask of these weights and inputs? Exact counts per row or group; scores recomputed in float64.

Entries that float32 arithmetic could decide otherwise are left to the subject: the score's gap to the cut is compared
with the rounding of the original's float32 computation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.algorithms.baselines.wanda import wanda_report
from attnprune_verify.audit.functions.checks.factors import by_columns
from attnprune_verify.audit.functions.checks.inputs import keeping_checks
from attnprune_verify.audit.functions.checks.pruning import (
    as_convention,
    asked_layers,
    deterministic,
    miscounted,
    over_layers,
)
from attnprune_verify.audit.functions.checks.smaller import check, shrunk
from attnprune_verify.audit.functions.checks.structure import precision_check
from attnprune_verify.audit.functions.context import Context
from attnprune_verify.audit.functions.truth.conventions import CHOICES, MaskConventions, smallest_first
from attnprune_verify.audit.functions.truth.layers import LinearLayer, layers
from attnprune_verify.audit.naming.searching import search_for_names
from attnprune_verify.audit.record import Check, Finding
from attnprune_verify.audit.subject.answers import Answer

Flags = NDArray[np.bool_]
Scores = NDArray[np.float64]


_SAYS = {
    "values": "per row the smallest |weight| ||X_j|| go",
    "counts": "exactly int(in rho) entries of every row go",
    "edges": "rho = 0 prunes nothing, rho = 1 everything",
    "ties": "of equal scores the lower index goes first",
    "groups": "of every M inputs the N smallest are pruned, whatever rho says",
    "dead-inputs": "inputs that are always zero go first",
    "two-dimensional": "X of two dimensions is one sequence",
    "sequences": "norms are over all tokens of all sequences, whatever their sizes",
    "close-values": "scores that differ in the fifth digit are told apart",
    "float32": "right in float32 where float32 can decide",
    "larger": "right for 24 x 150",
    "together": "right where patterns, sizes, few tokens, dead inputs, ties, zeros and scales stand together",
}


def wanda_checks(function: str) -> Iterator[Check]:
    """The checks of wanda_mask, and of wanda, which returns the new weight alone or with the mask."""
    for name, says in _SAYS.items():
        yield check(function, name, says, partial(_wanda, name=name), required=name == "values")
    if function == "wanda":  # which returns weights; a mask has no precision
        yield precision_check(function)
    yield check(function, "deterministic", "equal calls agree", partial(deterministic, differ=_differ))
    yield from keeping_checks(function)


def coarser_wanda(context: Context, function: str) -> bool:
    """Return True where the weights it keeps are those of the layer rounded to float32, and not those of the layer."""
    layer = layers(context.seed, context.precision(function))["values"][0]
    weight = context.call(function, layer.arguments, dict(layer.keywords), where=layer.name).parts[0]
    rounded = layer.weight.astype(np.float32)
    kept = weight != 0
    return weight.shape == layer.weight.shape and bool(
        np.array_equal(weight[kept], rounded[kept]) and (weight[kept] != layer.weight[kept]).any()
    )


def _wanda(context: Context, function: str, name: str) -> Finding:
    loose = [0]

    def judged(layer: LinearLayer) -> Finding | None:
        found, undecided = _judged(context, function, layer)
        loose[0] += undecided
        return found

    def right(count: int) -> Finding:
        return Finding("passed", f"{count} layers, entry by entry; {loose[0]} entries undecided", power=0.0)

    found = over_layers(context, function, asked_layers(context, function, name), judged, right)
    return as_convention(context, function, found, partial(_fits, context, function))


def _fits(context: Context, function: str, conventions: MaskConventions) -> bool:
    """Return True where every mask by a ratio is right under these conventions."""
    names = ("values", "counts", "ties", "together")
    asked = (layer for name in names for layer in asked_layers(context, function, name) if not layer.m)
    return all(_under(context, function, layer, conventions) for layer in asked)


def _under(context: Context, function: str, layer: LinearLayer, conventions: MaskConventions) -> bool:
    answer = context.remembered(function, layer.arguments, dict(layer.keywords), where=layer.name)
    got = answer.parts[-1]
    gone = got == 0 if function == "wanda" and len(answer.parts) == 1 else got == 1
    scores, tied = _scores(layer), layer.name in ("ties", "all equal")
    if gone.shape != scores.shape:
        return False
    if (
        function == "wanda" and len(answer.parts) == 1 and (layer.weight == 0).any()
    ):  # nobody can tell whether they went
        return True
    return conventions.fits(gone, scores, layer.rho, tied=tied)


def _scores(layer: LinearLayer) -> Scores:
    norms = np.linalg.norm(layer.X.astype(float).reshape(-1, layer.X.shape[-1]), axis=0)
    return np.asarray(np.abs(layer.weight.astype(float)) * norms)


def _judged(context: Context, function: str, layer: LinearLayer) -> tuple[Finding | None, int]:
    """A failure on one layer, and how many entries nobody can decide."""
    answer = context.call(function, layer.arguments, dict(layer.keywords), where=layer.name)
    report = wanda_report(layer.weight, layer.X, layer.rho, prune_n=layer.n, prune_m=layer.m)
    tied = not layer.m and layer.name in ("ties", "all equal")
    loose = np.zeros_like(report.undecided) if tied else report.undecided
    problem, pruned = None, answer.parts[-1]
    if function == "wanda":
        problem = _changed_weight(answer.parts, layer)
        if len(answer.parts) == 1 and problem is None:
            zeros = layer.weight == 0  # nobody can tell whether these were pruned
            pruned, loose = np.where(zeros, report.pruned, pruned == 0), loose | zeros
    rules, right = context.conventions(function), report.pruned
    if not layer.m and rules != MaskConventions.declared(function, {}):
        if problem is None and _under(context, function, layer, rules):
            return None, 0
        right, loose = rules.gone(_scores(layer), layer.rho), np.zeros_like(loose)
    problem = problem or _problem(pruned, layer, right, loose, rules)
    count = int(loose.sum())
    if problem is None:
        context.judged_matrix(function, layer.weight.shape)
        return None, count
    reason, ids = problem
    weight = np.where(right, 0.0, layer.weight)
    call = layer.call(function, (weight, right) if function == "wanda" else (right,))
    said = f"{reason}, on {layer.describe()}"
    smaller = partial(shrunk, layer, LinearLayer.cuts, lambda one: _judged(context, function, one)[0], said)
    return Finding("failed", said, ids=ids, call=call, shrink=smaller), count


def _changed_weight(parts: tuple[NDArray[Any], ...], layer: LinearLayer) -> tuple[str, tuple[str, ...]] | None:
    """Name the mistake of a new weight in which a kept entry has changed or a pruned one is not 0."""
    weight = parts[0]
    if weight.shape != layer.weight.shape or weight.dtype.kind != "f" or len(parts) > 2:
        return f"returns {weight.dtype} of shape {weight.shape} instead of {layer.weight.shape}", ("wrong-shape",)
    if not ((weight == layer.weight) | (weight == 0)).all():
        coarse = (layer.weight.astype(dtype) for dtype in (np.float32, np.float16))
        rounded = any(((weight == each) | (weight == 0)).all() for each in coarse)
        return "changes weights that it keeps", ("low-precision" if rounded else "kept-weights-changed",)
    if len(parts) == 2 and parts[1].shape == weight.shape and ((parts[1] == 1) & (weight != 0)).any():
        return "pruned weights are not 0", ("keeps-instead-of-prunes",)
    return None


def _problem(
    got: NDArray[Any], layer: LinearLayer, right: Flags, loose: Flags, rules: MaskConventions
) -> tuple[str, tuple[str, ...]] | None:
    if got.shape != right.shape or got.dtype.kind not in "biuf":
        ids = ("baseline-axis",) if got.shape == right.T.shape and right.shape != right.T.shape else ("wrong-shape",)
        return f"returns {got.dtype} of shape {got.shape} instead of {right.shape}", ids
    if not np.isin(got, (0, 1)).all():
        return "returns something else than 0 and 1", ("wrong-shape",)
    gone = got == 1
    wrong = (gone != right) & ~loose
    width = layer.m or (right.shape[1] if rules.threshold == "row" else right.size)
    counts = gone.reshape(-1, width).sum(axis=1), right.reshape(-1, width).sum(axis=1)
    if not wrong.any() and np.array_equal(*counts):
        return None
    where = "group" if layer.m else rules.threshold
    reason = (
        f"{int(wrong.sum())} decided entries are wrong; per {where} it prunes {counts[0].min()} to {counts[0].max()} "
        f"where {counts[1].max()} is right"
    )
    return reason, _named(layer, gone, right, loose, np.abs(counts[0].astype(int) - counts[1]), rules)


@search_for_names
def _named(
    layer: LinearLayer, gone: Flags, right: Flags, loose: Flags, off: NDArray[Any], rules: MaskConventions
) -> tuple[str, ...]:
    """The known mistakes that prune these entries, `off` in each row or group more or fewer than is right."""
    known = ["prunes-everything"] * bool(gone.all()) + ["prunes-nothing"] * (not gone.any())
    known += [id for id, choose in _wrong_choices(layer, rules) if not ((gone != choose()) & ~loose).any()]
    if off.max() == off.min() == 1:
        known.append("threshold-off-by-one")
    if not off.any():
        known += by_columns(_scores(layer), gone, layer.m or gone.shape[1])
    if not known:
        two = _two_mistakes(layer, rules)
        known += [id for ids, choose in two if not ((gone != choose()) & ~loose).any() for id in ids]
    return tuple(dict.fromkeys((*known, *miscounted(gone, right, gone.size // len(off)))))


def _two_mistakes(layer: LinearLayer, rules: MaskConventions) -> Iterator[tuple[tuple[str, str], Callable[[], Flags]]]:
    """A wrong score, and another count or threshold."""
    rho, columns = layer.rho, layer.weight.shape[1]
    for id, score in _wrong_scores(layer.weight.astype(float), layer.X.astype(float)):
        if layer.m:
            yield (id, "group-convention"), partial(_groups, score, layer.m, layer.m - layer.n)
            yield (id, "pattern-dropped"), partial(_rows, score, columns * layer.n // layer.m)
            continue
        yield (id, "baseline-global-threshold"), partial(_otherwise(rules).gone, score, rho)
        yield (id, "keeps-instead-of-prunes"), partial(rules.gone, -score, rho)
        for choose in _other_counts(rules):
            yield (id, "threshold-off-by-one"), partial(choose, score, rho)


def _otherwise(rules: MaskConventions) -> MaskConventions:
    """The threshold of a row for that of the matrix, or the reverse."""
    return replace(rules, threshold="matrix" if rules.threshold == "row" else "row")


def _other_counts(rules: MaskConventions) -> Iterator[Callable[[Scores, float], Flags]]:
    yield from (partial(rules.gone, more=more) for more in (1, -1))
    yield from (replace(rules, count=count).gone for count in CHOICES["count"])


def _wrong_choices(layer: LinearLayer, rules: MaskConventions) -> Iterator[tuple[str, Callable[[], Flags]]]:
    weight, scores = np.abs(layer.weight.astype(float)), _scores(layer)
    other_scores = _wrong_scores(layer.weight.astype(float), layer.X.astype(float))
    norms = np.linalg.norm(layer.X.astype(float).reshape(-1, layer.X.shape[-1]), axis=0)
    if layer.m:
        yield from _wrong_groups(layer, scores, norms, other_scores)
        return
    rho, (rows, columns) = layer.rho, weight.shape
    right = partial(rules.gone, rho=rho)
    for id, wrong in other_scores:
        yield id, partial(right, wrong)
    yield "keeps-instead-of-prunes", lambda: ~right(scores)
    yield "keeps-instead-of-prunes", lambda: right(-scores)
    yield "keeps-instead-of-prunes", lambda: replace(rules, count="ceil").gone(scores, 1 - rho)
    yield "baseline-global-threshold", lambda: _otherwise(rules).gone(scores, rho)
    yield "baseline-global-threshold", lambda: replace(_otherwise(rules), count="authors").gone(scores, rho)
    yield "baseline-axis", lambda: right(scores.T).T
    if rows == columns:
        yield "baseline-axis", lambda: right(weight.T * norms).T
        yield "baseline-axis", lambda: right(scores).T
    for choose in _other_counts(rules):
        yield "threshold-off-by-one", partial(choose, scores, rho)
    for ties in CHOICES["ties"]:
        yield "ties-dropped", partial(replace(rules, ties=ties).gone, scores, rho)


def _wrong_scores(weight: Scores, inputs: Scores) -> list[tuple[str, Scores]]:
    X = inputs.reshape(-1, inputs.shape[-1])
    each = np.linalg.norm(inputs if inputs.ndim == 3 else inputs[None], axis=1)  # a sequence each
    size, norms = np.abs(weight), np.linalg.norm(X, axis=0)
    return [
        ("low-precision", (size * norms).astype(np.float16).astype(float)),
        ("baseline-ignores-activations", size),
        ("squared-norm", size * norms**2),
        ("baseline-score", size * np.sqrt(norms)),
        ("baseline-score", size**2 * norms),
        ("baseline-score", size * each.mean(axis=0)),
        ("baseline-score", size * each.max(axis=0)),
        ("baseline-score", size * each[0]),
        ("baseline-score", size * each[-1]),
        ("baseline-score", size * np.abs(X).sum(axis=0)),
        ("baseline-score", size * np.abs(X).max(axis=0)),
        ("baseline-score", size * np.abs(X.mean(axis=0))),
        ("baseline-score", size * X.std(axis=0)),
        ("baseline-score", weight * norms),
        ("baseline-score", np.broadcast_to(norms, weight.shape)),
    ]


def _wrong_groups(
    layer: LinearLayer, scores: Scores, norms: Scores, other_scores: list[tuple[str, Scores]]
) -> Iterator[tuple[str, Callable[[], Flags]]]:
    rows, columns = scores.shape
    yield "group-convention", partial(_groups, scores, layer.m, layer.m - layer.n)
    yield "keeps-instead-of-prunes", lambda: ~_groups(scores, layer.m, layer.n)
    yield "keeps-instead-of-prunes", partial(_groups, -scores, layer.m, layer.n)
    yield "group-convention", partial(_rows, scores, int(columns * layer.rho))
    yield "group-convention", partial(_rows, scores, columns * layer.n // layer.m)
    yield "group-convention", partial(_groups, scores, layer.m, int(layer.m * layer.rho))
    yield "group-convention", partial(_groups, scores, 4, 2)
    yield "group-convention", lambda: _apart(_groups(_apart(scores, layer.m), layer.m, layer.n), columns // layer.m)
    if rows % layer.m == 0:
        yield "baseline-axis", lambda: _groups(scores.T, layer.m, layer.n).T
    if scores.size % layer.m == 0:
        flat = scores.T.reshape(1, -1)
        yield "group-convention", lambda: _groups(flat, layer.m, layer.n).reshape(columns, rows).T
    if rows == columns:
        yield "baseline-axis", lambda: _groups(np.abs(layer.weight.T.astype(float)) * norms, layer.m, layer.n).T
    for id, wrong in other_scores:
        yield id, partial(_groups, wrong, layer.m, layer.n)


def _groups(scores: Scores, width: int, count: int) -> Flags:
    parts = np.split(scores, scores.shape[1] // width, axis=1)
    return np.concatenate([_rows(part, count) for part in parts], axis=1)


def _apart(array: NDArray[Any], width: int) -> NDArray[Any]:
    """Groups of every (columns / width)-th column in the place of neighbours; with columns / width back again."""
    rows, columns = array.shape
    return array.reshape(rows, width, columns // width).transpose(0, 2, 1).reshape(rows, columns)


def _rows(scores: NDArray[Any], count: int) -> Flags:
    return np.stack([smallest_first(row, count) for row in scores])


def _differ(layer: LinearLayer, answers: list[Answer]) -> bool:
    loose = wanda_report(layer.weight, layer.X, layer.rho, prune_n=layer.n, prune_m=layer.m).undecided
    first, *others = (answer.parts[-1] for answer in answers)
    return any(
        two.shape != first.shape or (two.shape == loose.shape and ((first != two) & ~loose).any()) for two in others
    )
