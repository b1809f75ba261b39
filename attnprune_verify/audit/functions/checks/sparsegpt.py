"""Is this SparseGPT's output for these weights and inputs? Certificates from input and output alone, no second run.

With H the damped Hessian, U upper triangular, U^T U = H^-1, and Delta the change of the weights (dead columns zeroed
first), the sweep leaves ``Delta = -E U`` with E zero on kept entries. So E is recovered from the output; it must vanish
where weights are kept, the pruned weights must be 0, and the weights each block started from are known, hence the
scores ``w^2 / U_jj^2`` by which it had to choose. (U_jj^2 is the diagonal of the inverse Hessian of the remaining
inputs: U is a Cholesky factor, so the square belongs there.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.functions.checks.inputs import keeping_checks
from attnprune_verify.audit.functions.checks.pruning import (
    as_convention,
    asked_layers,
    deterministic,
    miscounted,
    over_layers,
)
from attnprune_verify.audit.functions.checks.smaller import check, shrunk
from attnprune_verify.audit.functions.checks.sparsegpt_mistakes import named, right_output
from attnprune_verify.audit.functions.checks.structure import precision_check
from attnprune_verify.audit.functions.context import Context
from attnprune_verify.audit.functions.truth.conventions import MaskConventions, smallest_first, units
from attnprune_verify.audit.functions.truth.layers import LinearLayer
from attnprune_verify.audit.record import Check, Finding
from attnprune_verify.audit.subject.answers import Answer, NoAnswer

Matrix = NDArray[np.float64]
Flags = NDArray[np.bool_]

_SAYS = {
    "values": "mask and updated weights, unstructured",
    "counts": "per block int(size rho) + 1 entries go, as in the original",
    "edges": "rho = 0 changes nothing or prunes one entry a block, rho = 1 prunes everything, as in the original",
    "ties": "all scores up to the threshold go",
    "groups": "of every M inputs the N smallest scores are pruned, after the updates so far",
    "dead-inputs": "dead inputs: H_jj = 1, weight 0, before the damping; N counts sequences",
    "two-dimensional": "X of two dimensions is one sequence",
    "float32": "right in float32",
    "larger": "blocks of 128 columns, the last one shorter",
    "options": "blocksize and percdamp are used",
    "together": "right where patterns, sizes, few tokens, dead inputs, ties, zeros and scales stand together",
}


@dataclass(frozen=True, eq=False)
class Hessian:
    """The damped Hessian of a layer and its factor."""

    matrix: Matrix
    factor: Matrix
    dead: Flags
    damping: float
    condition: float


@dataclass(frozen=True)
class _Certificate:
    """The fault of an output, if it has one; the residual on kept entries with its bound; what is unusual.

    `part` names the part that is wrong where no program gives this output: the update, or else the choice.
    """

    problem: str = ""
    ids: tuple[str, ...] = ()
    part: tuple[str, ...] = ()
    residual: float = 0.0
    allowed: float = 0.0
    said: str = ""


def hessian(X: NDArray[Any], percdamp: float = 0.01) -> Hessian:
    """H = (2 / sequences) X^T X, dead inputs set to 1, then percdamp times its mean diagonal added."""
    inputs = X.astype(float) if X.ndim == 3 else X.astype(float)[None]
    tokens = inputs.reshape(-1, inputs.shape[-1])
    matrix = 2.0 / len(inputs) * tokens.T @ tokens
    dead = np.diag(matrix) == 0
    matrix[dead, dead] = 1.0
    damping = percdamp * float(np.mean(np.diag(matrix)))
    matrix = matrix + damping * np.eye(len(matrix))
    factor = np.linalg.cholesky(np.linalg.inv(matrix)).T
    return Hessian(matrix, factor, dead, damping, float(np.linalg.cond(matrix)))


def sparsegpt_checks(function: str) -> Iterator[Check]:
    """The checks of sparsegpt, and of sparsegpt_report on top."""
    for name, says in _SAYS.items():
        yield check(function, name, says, partial(_outputs, name=name), required=name == "values")
    yield precision_check(function)
    yield check(function, "deterministic", "equal calls agree, to rounding", _deterministic)
    yield from keeping_checks(function)
    if function == "sparsegpt_report":
        yield check(function, "figures", "error = 1/2 tr(Delta H Delta^T), damping and condition", _figures)


def _layers(context: Context, function: str, name: str) -> tuple[tuple[LinearLayer, dict[str, Any]], ...]:
    if name == "options":
        chosen = (*asked_layers(context, function, "values"), *asked_layers(context, function, "groups")[:1])
        return tuple((layer, {"blocksize": 4, "percdamp": 0.1}) for layer in chosen)
    return tuple((layer, {}) for layer in asked_layers(context, function, name))


def _ask(context: Context, function: str, layer: LinearLayer, options: dict[str, Any]) -> Answer:
    return context.call(function, layer.arguments, {**layer.keywords, **options}, where=layer.name)


def _outputs(context: Context, function: str, name: str) -> Finding:
    seen: list[_Certificate] = []
    said: dict[str, None] = {}
    asked = _layers(context, function, name)
    options = asked[0][1] if asked else {}

    def judged(layer: LinearLayer) -> Finding | None:
        try:
            found, failure = _judged(context, function, layer, options)
        except NoAnswer as refusal:
            if layer.rho == 1 and not layer.m and "IndexError" in str(refusal):
                said["cannot prune everything, as the original cannot (IndexError at rho = 1)"] = None
                return None
            raise
        seen.append(found)
        said.update({found.said: None} if found.said else {})
        return failure

    def right(count: int) -> Finding:
        error, bound = (max((getattr(found, name) for found in seen), default=0.0) for name in ("residual", "allowed"))
        words = "; ".join([f"choice and update of {count} layers certified from the output", *said])
        return Finding("passed", words, error=error, bound=bound, power=bound)

    found = over_layers(context, function, [layer for layer, _ in asked], judged, right)
    return as_convention(context, function, found, partial(_fits, context, function))


def _fits(context: Context, function: str, conventions: MaskConventions) -> bool:
    """Return True where every output by a ratio is right under these conventions."""
    if conventions.ties != "pruned-first":
        return False  # the scores of a sweep have no ties
    unit = context.precision(function).unit_roundoff
    names = ("values", "counts", "together")
    for layer in (layer for name in names for layer in asked_layers(context, function, name) if not layer.m):
        answer = context.remembered(function, layer.arguments, dict(layer.keywords), where=layer.name)
        if _certify(layer, {}, answer.parts[0], _pruned(answer, layer), unit, conventions).problem:
            return False
    return True


def _judged(
    context: Context, function: str, layer: LinearLayer, options: dict[str, Any]
) -> tuple[_Certificate, Finding | None]:
    """The certificate of one layer's output, and the failure if it shows one."""
    answer = _ask(context, function, layer, options)
    weight, pruned = answer.parts[0], _pruned(answer, layer)
    rules = context.conventions(function)
    found = _certify(layer, options, weight, pruned, context.precision(function).unit_roundoff, rules)
    if not found.problem:
        context.judged_matrix(function, layer.weight.shape)
        return found, None
    ids, expected = found.ids, right_output(layer, options, np.asarray(pruned == 1), rules)
    if not ids and weight.shape == layer.weight.shape:
        ids = (*named(layer, options, np.asarray(weight, dtype=float), pruned == 1, rules), *found.part)
        ids = tuple(id for id in ids if id != "unknown")
        filled = (expected[0] == 0) & (weight != 0) & ((layer.weight == 0) | (pruned == 1))
        ids += ("zeros-filled",) if filled.any() else ()
    call = layer.call(function, expected)
    call.keywords.update(options)
    said = f"{found.problem}, on {layer.describe()}"
    smaller = partial(shrunk, layer, LinearLayer.cuts, lambda one: _judged(context, function, one, options)[1], said)
    return found, Finding("failed", said, ids=ids, call=call, shrink=smaller)


def _pruned(answer: Answer, layer: LinearLayer) -> NDArray[Any]:
    """The mask, or where only the weight is returned, its zeros."""
    return answer.parts[1] if len(answer.parts) > 1 else np.asarray(answer.parts[0] == 0)


def _certify(
    layer: LinearLayer,
    options: dict[str, Any],
    weight: NDArray[Any],
    pruned: NDArray[Any],
    unit_roundoff: float,
    conventions: MaskConventions,
) -> _Certificate:
    shape = layer.weight.shape
    if weight.shape != shape or pruned.shape != shape or weight.dtype.kind != "f" or not np.isin(pruned, (0, 1)).all():
        turned = weight.shape == pruned.shape == shape[::-1] != shape
        ids = ("baseline-axis",) if turned else ("wrong-shape",)
        return _Certificate(f"returns shapes {weight.shape} and {pruned.shape} instead of {shape}", ids)
    gone = pruned == 1
    if not np.isfinite(weight).all():
        return _Certificate("returns weights that are not finite")
    said = ""
    if not (layer.n > 0 if layer.m else layer.rho > 0):
        if np.array_equal(weight, layer.weight) and not (gone & (weight != 0)).any():
            return _Certificate()
        said = "at rho = 0 it prunes what the original does, the smallest score of every block"
    if weight[gone].any():
        mixed = bool((weight[~gone] == 0).all()) and gone.any() and not gone.all()
        return _Certificate("pruned weights are not 0", ("keeps-instead-of-prunes",) if mixed else ())
    h = hessian(layer.X, options.get("percdamp", 0.01))
    unit = max(unit_roundoff, float(np.finfo(layer.weight.dtype).eps) / 2)
    single = unit > 2.0**-40
    start = layer.weight.astype(float)
    start[:, h.dead] = 0.0
    delta = np.asarray(weight, dtype=float) - start
    residual = -np.linalg.solve(h.factor.T, delta.T).T
    scale = max(float(np.abs(residual).max()), 1e-300)
    # a program that inverts H errs by u cond(H) an entry, one that factors it by the root of that
    root = h.condition**0.5
    allowed = (32 * unit * root if single else 1e-14 * root + 2 * unit * h.condition) * max(shape)
    tolerance = max(1e-4 if single else 1e-9, 16 * unit * h.condition)
    chosen, loose = _choice(layer, options, h, start, residual, tolerance, conventions)
    loose |= h.dead & (weight == 0)  # whether a zero was pruned cannot be told from the weight
    off = float(np.abs(residual[~gone & ~h.dead]).max(initial=0.0)) / scale
    wrong = (gone != chosen) & ~loose
    if wrong.any():
        none = ("threshold-off-by-one",) if said else ()
        as_many = int(gone.sum()) == int(chosen.sum())
        part = ("baseline-update",) if not off <= allowed else ("baseline-score",) * as_many
        part = (*_not_updated(weight, layer, gone), *part, *miscounted(gone, chosen, layer.m or gone.size, loose))
        return _Certificate(
            f"{int(wrong.sum())} of {wrong.size} entries are chosen otherwise than by the scores "
            f"({int(gone.sum())} pruned, {int(chosen.sum())} expected)",
            none,
            part,
        )
    if not off <= allowed:
        return _Certificate(
            f"kept weights are not those of the update: the residual on kept entries is {off:.2g} of the largest, "
            f"allowed {allowed:.2g}",
            part=(*_not_updated(weight, layer, gone), "baseline-update"),
        )
    return _Certificate(residual=off, allowed=allowed, said=said)


def _not_updated(weight: NDArray[Any], layer: LinearLayer, gone: Flags) -> tuple[str, ...]:
    """The name of an output that keeps every kept weight as it was."""
    kept = ~gone & (weight != 0)
    same = np.abs(weight - layer.weight)[kept] <= 1e-6 * np.abs(layer.weight)[kept]
    return ("not-updated",) if gone.any() and kept.any() and same.all() else ()


def _choice(
    layer: LinearLayer,
    options: dict[str, Any],
    h: Hessian,
    start: Matrix,
    residual: Matrix,
    tolerance: float,
    conventions: MaskConventions,
) -> tuple[Flags, Flags]:
    """Return the entries that had to be pruned given the residuals so far, and those too close to call."""
    columns = start.shape[1]
    chosen, loose = np.zeros(start.shape, dtype=np.bool_), np.zeros(start.shape, dtype=np.bool_)
    whole = conventions.threshold == "matrix" and not layer.m  # chosen before the first update
    width = columns if whole else options.get("blocksize", 128)
    diagonal = np.diag(h.factor)
    for a in range(0, columns, width):
        b = min(a + width, columns)
        for left, right in [(j, j + layer.m) for j in range(a, b, layer.m)] if layer.m else [(a, b)]:
            before = slice(0, left if layer.m else a)
            work = start[:, left:right] - residual[:, before] @ h.factor[before, left:right]
            scores = (work / diagonal[left:right]) ** 2
            noise = tolerance * max(float(scores.max()), 1e-300) * 1e-3
            for place in units(scores.shape, "row" if layer.m else conventions.threshold, width):
                part = scores[place]
                count = layer.n if layer.m else conventions.counts(part.size, layer.rho)[0]
                if not layer.m and conventions.count == "authors" and 0 <= layer.rho < 1:
                    count = int(part.size * layer.rho) + 1
                cut = np.sort(part, axis=None)[[max(count - 1, 0), min(count, part.size - 1)]]
                near = (part >= cut[1] * (1 - tolerance) - noise) & (part <= cut[0] * (1 + tolerance) + noise)
                near &= bool(cut[1] - cut[0] <= tolerance * cut[1] + noise) and count < part.size
                chosen[:, left:right][place], loose[:, left:right][place] = smallest_first(part, count), near
    return chosen, loose


def _deterministic(context: Context, function: str) -> Finding:
    """Accept sums in another order: only differences beyond the certificate's bounds count."""
    unit, rules = context.precision(function).unit_roundoff, context.conventions(function)

    def differ(layer: LinearLayer, answers: list[Answer]) -> bool:
        if len({tuple(part.tobytes() for part in answer.parts) for answer in answers}) == 1:
            return False
        found = (_certify(layer, {}, answer.parts[0], _pruned(answer, layer), unit, rules) for answer in answers)
        return any(output.problem for output in found)

    return deterministic(context, function, differ)


def coarser_sparsegpt(context: Context, function: str) -> bool:
    """Return True where the output is certified with the tolerances of float32, but not with those of float64."""
    verdicts = set()
    for layer, options in _layers(context, function, "values"):
        answer = _ask(context, function, layer, options)
        fine, coarse = (
            bool(
                _certify(
                    layer, options, answer.parts[0], _pruned(answer, layer), unit, context.conventions(function)
                ).problem
            )
            for unit in (2.0**-53, 2.0**-24)
        )
        verdicts.add((fine, coarse))
    return verdicts <= {(True, False), (False, False)} and (True, False) in verdicts


def _figures(context: Context, function: str) -> Finding:
    for layer, options in (*_layers(context, function, "values"), *_layers(context, function, "dead-inputs")):
        parts = _ask(context, function, layer, options).parts
        h = hessian(layer.X)
        start = layer.weight.astype(float)
        start[:, h.dead] = 0.0
        delta = np.asarray(parts[0], dtype=float) - start
        expected = {
            "error": 0.5 * float(np.trace(delta @ h.matrix @ delta.T)),
            "damping": h.damping,
            "condition": h.condition,
        }
        for (name, value), got in zip(expected.items(), parts[2:5], strict=True):
            if got.shape != () or not abs(float(got) - value) <= 1e-6 * value:
                reason = f"{name} is {got} where the output says {value:.9g}, on {layer.describe()}"
                error, call = abs(float(got.reshape(-1)[0]) - value), layer.call(function)
                return Finding("failed", reason, error, 1e-6 * value, ids=("unknown",), call=call)
        if parts[5].shape != layer.weight.shape or not np.isin(parts[5], (0, 1)).all():
            reason = "undecided is no boolean array of the weight's shape"
            return Finding("failed", reason, ids=("wrong-shape",), call=layer.call(function))
    return Finding("passed", "error, damping and condition number", power=1e-6)
