"""Experiments on a failure that no formula explains: an ordered list, each with the program that made it necessary.

Each entry is (what is excluded where the experiment is silent, the experiment). `tests/audit/test_mechanisms.py` has a
program for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnprune_verify.audit.functions.context import Context
from attnprune_verify.audit.functions.truth.formulas import Array
from attnprune_verify.audit.functions.truth.reference import MAPS, reference
from attnprune_verify.audit.functions.truth.samples import Sample
from attnprune_verify.audit.functions.truth.tolerance import judge
from attnprune_verify.audit.mistakes import explained
from attnprune_verify.audit.naming.searching import searching
from attnprune_verify.audit.record import Diagnosis
from attnprune_verify.audit.subject.answers import NoAnswer
from attnprune_verify.audit.subject.process import Subject

_TIMES = 5
"""Equal calls: a race that shows in half of them escapes with chance 2^-5."""
_CLEAR = 30.0
"""Times the bound of a failure: another instance of the same size has a bound a few times as large or small."""
_APART = 1e-3
"""Between equal calls: far above what another order of summation makes in any precision that is asked."""
_EDGES = (8, 16, 32, 64, 128, 256)
"""Sizes of blocks that kernels have."""
_LEAST_WEIGHT = 1e-4
"""Of a position whose weight counts as missing: far above what exp loses to underflow on benign logits."""
_FITTED = 1e3
"""Units of rounding within which a fit of weights holds: sums of a few samples lose a few, other formulas millions."""
_BARE = 1e-3
"""Of the attention term, which may be left beside the regulariser where the term is left out."""
_DIRECTIONS, _STEP, _SLOPE = 3, 1e-4, 1e-5
"""Of central differences: their truncation is of the order of the step's square, 1e-8, a wrong term of 1."""
_LOSS_OF = {
    "gradient": "loss",
    "factored_gradient": "factored_loss",
    "layer_gradient": "layer_loss",
    "hessian_vector_product": "gradient",
}
"""What each function is a derivative of."""


@dataclass(frozen=True)
class FailingCase:
    """A function and an instance on which it is wrong.

    Attributes
    ----------
    reopened : Callable[[], Subject] or None
        Starts the target in a process of its own; None where it cannot.
    """

    context: Context
    function: str
    sample: Sample
    reopened: Callable[[], Subject] | None = None

    def parts(self, sample: Sample | None = None, context: Context | None = None) -> tuple[Array, ...] | None:
        """Results of one more call; None without an answer of the right shape."""
        sample, context = sample or self.sample, context or self.context
        try:
            answer = context.ask(self.function, sample)
        except NoAnswer:
            return None
        return answer.parts if context.misshapen(self.function, sample, answer) is None else None

    def verdict(self, sample: Sample | None = None, context: Context | None = None) -> str:
        """The verdict on the function's result, or "none"."""
        parts = self.parts(sample, context)
        return "none" if parts is None else judge(self.function, sample or self.sample, parts).verdict

    def clearly(self) -> bool:
        """Return True where the failure is far beyond its bound; a close one might pass at another size."""
        parts = self.parts()
        found = None if parts is None else judge(self.function, self.sample, parts)
        return found is None or not found.error <= _CLEAR * found.bound

    def fails(self, sample: Sample | None = None) -> bool:
        return self.verdict(sample) in ("failed", "suspect")

    def passes(self, sample: Sample | None) -> bool:
        return sample is not None and self.verdict(sample) == "passed"


Rule = Callable[[FailingCase], "Diagnosis | None"]


def needed(sample: Sample, fails: Callable[[Sample], bool]) -> tuple[frozenset[str], Sample]:
    """The features without any of which the failure is gone, and an instance with these alone."""
    for extra in sorted(sample.extras):
        bare = sample.without(extra)
        if fails(bare):
            sample = bare
    return sample.extras, sample


def by_experiment(case: FailingCase, first: str = "", alone: bool = False) -> tuple[Diagnosis, str]:
    """The mistake named by the first conclusive experiment, and that experiment; `first` runs before the others.

    `alone`: only this one.
    """
    excluded = []
    for excludes, rule in sorted(_RULES, key=lambda entry: entry[0] != first):
        if alone and excludes != first:
            break
        with searching():
            found = rule(case)
            if found is not None:
                return found, excludes if found.named else ""
            excluded.append(excludes)
    return Diagnosis(("unknown",), f"excluded: {', '.join(excluded)}"), ""


def _said(id: str, words: str = "", *more: str) -> Diagnosis:
    return Diagnosis((id, *more), explained(id, words))


def _nan(case: FailingCase) -> Diagnosis | None:
    """A mask added as (mask - 1) * inf; an online softmax that subtracts -inf from -inf."""
    parts = case.parts()
    if parts is None or all(np.isfinite(part).all() for part in parts):
        return None
    bare = case.parts(case.sample.without("mask")) if case.sample.mask is not None else None
    masked = bare is not None and all(np.isfinite(part).all() for part in bare)
    return _said("masked-block-nan" if masked else "nan-output")


def _race(case: FailingCase) -> Diagnosis | None:
    """A result that is right now and then, or wrong in a way that changes: parts of a sum that overwrite each other."""
    each = [case.parts() for _ in range(_TIMES)]
    wrong = sum(one is None or judge(case.function, case.sample, one).verdict in ("failed", "suspect") for one in each)
    if wrong not in (0, _TIMES):
        return _said("nondeterministic", f"of {_TIMES} equal calls {wrong} are wrong")
    there = [one for one in each if one is not None]
    apart = any(
        not np.allclose(a, b, rtol=_APART, atol=_APART) for one in there for a, b in zip(one, there[0], strict=True)
    )
    return _said("nondeterministic", "equal calls are wrong in different ways") if apart else None


def _fresh(case: FailingCase) -> Diagnosis | None:
    """A dense target kept by shape and weight alone: right in a process that has run nothing else."""
    if case.reopened is None:
        return None
    if _anew(case, case.sample) == ["passed"]:
        return _said("cached", "right in a process that has run no other call")
    if case.sample.X.ndim < 3 or len(case.sample.X) < 2:
        return None
    one, other = (case.sample.changed(X=tokens) for tokens in case.sample.X[:2])
    if _anew(case, one, other) == ["passed", "failed"] and _anew(case, other) == ["passed"]:
        return _said("cached", "a sample is right alone in a new process, and wrong after another one")
    return None


def _anew(case: FailingCase, *some: Sample) -> list[str]:
    """The verdicts on instances, called one after the other in a process that has run nothing else."""
    assert case.reopened is not None
    with case.reopened() as subject:
        fresh = Context(subject, case.context.seed, case.context.declared)
        here, there = case.context.of(case.function), fresh.of(case.function)
        there.coarser, there.order, there.boolean_masks = here.coarser, here.order, here.boolean_masks
        return [case.verdict(one, fresh) for one in some]


def _derived(case: FailingCase) -> Diagnosis | None:
    """A derivative that a framework makes of a loss that is wrong itself."""
    loss, G = _LOSS_OF.get(case.function, ""), case.parts()
    if loss not in case.context.subject.functions or G is None or case.sample.precision.short:
        return None
    if not FailingCase(case.context, loss, case.sample).fails():
        return None
    names = ("M",) if len(G) == 1 else ("M_Q", "M_K")
    rng = np.random.default_rng(0)
    single = case.sample.unit_roundoff > 2.0**-40
    step, allowed = (_STEP, _SLOPE) if not single else (0.05, 0.05)  # of float32 two digits of a slope are left
    for _ in range(_DIRECTIONS):
        towards = [rng.standard_normal(part.shape) for part in G]
        if case.function == "hessian_vector_product":
            towards = [case.sample.V.astype(float)]
        moved = [_moved(case, loss, names, towards, sign * step) for sign in (1, -1)]
        if moved[0] is None or moved[1] is None:
            return None
        slope = (moved[0] - moved[1]) / (2 * step)
        own = G[0] if case.function == "hessian_vector_product" else _inner(G, towards)
        if not np.linalg.norm(slope - own) <= allowed * np.linalg.norm(slope):
            return None
    return _said("follows-from-forward", f"it is the derivative of this target's {loss}")


def _inner(G: tuple[Array, ...], towards: list[Array]) -> Array:
    return np.asarray(sum((a * b).sum() for a, b in zip(G, towards, strict=True)))


def _moved(case: FailingCase, loss: str, names: tuple[str, ...], towards: list[Array], step: float) -> Array | None:
    changed = {
        name: (getattr(case.sample, name).astype(float) + step * one).astype(getattr(case.sample, name).dtype)
        for name, one in zip(names, towards, strict=True)
    }
    parts = FailingCase(case.context, loss, case.sample.changed(**changed)).parts()
    return None if parts is None else np.asarray(parts[-1], dtype=float)


def _samples_of_batch(case: FailingCase) -> Diagnosis | None:
    """Samples that count differently, as the first and the last alone; or that depend on each other."""
    X = case.sample.X
    if X.ndim < 3 or len(X) < 2:
        return None
    alone = [case.sample.changed(X=one) for one in X]
    if not all(case.passes(one) for one in alone):
        return None
    if case.function in MAPS or case.function == "layer_relative_error":
        return _said("batch-mixed", "each sample alone is right")
    weights = _weights_of(case, [_flat(reference(case.function, one)) for one in alone])
    if weights is None:
        return _said("batch-mixed", "each sample alone is right, and no weighted sum gives the result")
    listed = ", ".join(f"{round(weight, 9) + 0.0:.3g}" for weight in weights)
    if np.allclose(weights, 1 / len(weights), rtol=1e-6):
        return None
    same = np.ptp(weights) <= 1e-6 * np.abs(weights).max()
    return _said("batch-not-averaged" if same else "batch-weights", f"the weights are {listed}")


def _weights_of(case: FailingCase, each: list[Array]) -> Array | None:
    """The weights w with result = regulariser + sum_i w_i term_i in every cyclic order of the samples."""
    X, count = case.sample.X, len(each)
    whole = _flat(reference(case.function, case.sample))
    bare = [_flat(reference(case.function, case.sample.changed(X=one, lam=0.0))) for one in X]
    regular = whole - sum(bare) / count
    rows, results = [], []
    for shift in range(count):
        parts = case.parts(case.sample.changed(X=np.roll(X, shift, axis=0)))
        if parts is None:
            return None
        results.append(np.concatenate([np.ravel(part) for part in parts]) - regular)
        rows.append(np.stack([bare[(place - shift) % count] for place in range(count)], axis=1))
    matrix, result = np.concatenate(rows), np.concatenate(results)
    weights, _, rank, _ = np.linalg.lstsq(matrix, result, rcond=None)
    allowed = _FITTED * case.sample.unit_roundoff * max(float(np.linalg.norm(result)), float(np.linalg.norm(whole)))
    return weights if rank == count and np.linalg.norm(matrix @ weights - result) <= allowed else None


def _flat(components: Any) -> Array:
    return np.concatenate([np.ravel(part.value) for part in components])


def _positions(case: FailingCase) -> Diagnosis | None:
    """Weight at a forbidden position, none where it is due, rows that do not sum to 1."""
    parts = case.parts() if case.function in MAPS else None
    if parts is None or not np.isfinite(parts[0]).all():
        return None
    F, right = parts[0], reference(case.function, case.sample)[0]
    error = right.bound + case.sample.unit_roundoff
    forbidden = np.broadcast_to(right.value == 0, F.shape) & ~np.broadcast_to(case.sample.allowed, F.shape)
    leaks = (np.abs(F) > error) & forbidden
    if leaks.any():
        *_, i, j = (int(x) for x in np.argwhere(leaks)[0])
        return _said("mask-leaks", f"row {i} gives {F[leaks][0]:.2g} to position {j}, which it may not see")
    lost = (F == 0) & (right.value > _LEAST_WEIGHT)
    keys = np.flatnonzero(lost.reshape(-1, F.shape[-1]).any(axis=0))
    rows = np.flatnonzero(~F.reshape(-1, *F.shape[-2:]).any(axis=(0, 2)))
    if len(rows) and not np.delete(lost, rows, axis=-2).any():  # a row is 0, too, where all it sees is lost
        return _said("rows-dropped", f"rows {rows[0]} to {rows[-1]} are 0", *_sizes(case))
    if len(keys):
        last = keys[-1] == F.shape[-1] - 1 and len(keys) == keys[-1] - keys[0] + 1 and not F[..., keys].any()
        id = "last-block-dropped" if last else "keys-dropped"
        return _said(id, f"positions {keys[0]} to {keys[-1]} get no weight", *_sizes(case))
    off = np.abs(F.sum(axis=-1) - 1)
    if (off > error.sum(axis=-1) + 1e-6).any():
        return _said("not-normalised", f"a row sums to {F.sum(axis=-1).flat[int(off.argmax())]:.4g}", *_sizes(case))
    return None


def _early_exit(case: FailingCase) -> Diagnosis | None:
    """The attention term left out where M is close to 1: exactly the regulariser is returned, and not further away."""
    names = ("M",) if not case.function.startswith(("factored", "layer")) else ("M_Q", "M_K")
    gaps = [getattr(case.sample, name).astype(float) - 1 for name in names]
    size = max(float(np.abs(gap).max()) for gap in gaps)
    parts = case.parts()
    if case.function in MAPS or not 0 < size < 0.1 or parts is None:
        return None
    ones = case.sample.changed(**{name: np.ones_like(getattr(case.sample, name)) for name in names})
    terms, whole = (reference(case.function, one) for one in (case.sample.changed(lam=0.0), case.sample))
    bare = all(
        np.linalg.norm(part - (both.value - term.value)) <= _BARE * np.linalg.norm(term.value) > 0
        for part, term, both in zip(parts, terms, whole, strict=True)
    )
    far = {name: ones_M + gap * 0.3 / size for (name, ones_M), gap in zip(_arrays(ones, names), gaps, strict=True)}
    if not bare or not case.passes(case.sample.changed(**far).exact()):
        return None
    return _said("early-exit", f"here M is within {size:.1g} of 1")


def _arrays(sample: Sample, names: tuple[str, ...]) -> list[tuple[str, Array]]:
    return [(name, getattr(sample, name)) for name in names]


def _block(case: FailingCase) -> Diagnosis | None:
    """Wrong where a block is not full, or from one token beyond a block on."""
    found, n = _sizes(case), case.sample.n
    if found == ("tile-tail",):
        return _said(found[0], f"n = {n} is wrong, {n - 1} and {n + 1} are right")
    return _said(found[0], f"{_edge(case)} tokens are right, one more is wrong") if found else None


def _sizes(case: FailingCase) -> tuple[str, ...]:
    """Diagnose by the neighbouring sizes."""
    sample = case.sample
    if sample.n < 3 or sample.n == sample.d or not case.clearly():  # tokens taken for features are no rest of a tile
        return ()
    if case.passes(sample.tokens(sample.n - 1)) and case.passes(_longer(sample)):
        return ("tile-tail",)
    return ("block-edge",) if _edge(case) else ()


def _edge(case: FailingCase) -> int:
    """The size of a block up to which the function is right, and not for one token more; 0 if there is none."""
    inside = (edge for edge in _EDGES if edge < case.sample.n)
    cut = ((edge, case.sample.tokens(edge), case.sample.tokens(edge + 1)) for edge in inside)
    return next((edge for edge, whole, more in cut if case.passes(whole) and case.fails(more)), _other_edge(case))


def _other_edge(case: FailingCase) -> int:
    """The size of a block that is no power of two, by halving; 0 where a few tokens are wrong, too."""
    right, wrong = _EDGES[0], case.sample.n
    if wrong <= right or not case.passes(case.sample.tokens(right)):
        return 0
    while wrong - right > 1:
        middle = (right + wrong) // 2
        right, wrong = (right, middle) if case.fails(case.sample.tokens(middle)) else (middle, wrong)
    fails = case.fails(case.sample.tokens(min(wrong + 1, case.sample.n)))
    return right if fails and case.passes(case.sample.tokens(right - 1)) else 0


def _longer(sample: Sample) -> Sample:
    """Repeat the first token at the end."""
    X = np.concatenate([sample.X, sample.X[..., :1, :]], axis=-2)
    mask = sample.mask
    if mask is not None:
        mask = np.concatenate([np.concatenate([mask, mask[:1]]), np.concatenate([mask[:, :1], mask[:1, :1]])], axis=1)
    return sample.changed(X=X, mask=mask)


_RULES: tuple[tuple[str, Rule], ...] = (
    ("numbers that are not finite", _nan),
    ("a race", _race),
    ("earlier calls", _fresh),
    ("a failure that comes and goes", lambda case: None if case.fails() else Diagnosis(("unknown",), "")),
    ("samples of a batch", _samples_of_batch),
    ("the function it is the derivative of", _derived),
    ("forbidden and missing positions", _positions),
    ("an early exit near M = 1", _early_exit),
    ("sizes of blocks", _block),
)
