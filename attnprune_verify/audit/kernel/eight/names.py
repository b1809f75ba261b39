"""The mistake behind the failures of a kernel of eight bits: by the relation that breaks, then by experiments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from attnprune_verify.audit.kernel.eight.checks import WrongEight
from attnprune_verify.audit.kernel.problem.eight_bits import EIGHT_BITS
from attnprune_verify.audit.kernel.problem.recipe import Recipe
from attnprune_verify.audit.kernel.problem.sample import FORWARD, Array, KernelSample
from attnprune_verify.audit.kernel.truth.judge import judge
from attnprune_verify.audit.kernel.truth.steps import evaluate
from attnprune_verify.audit.kernel.truth.truth import truth
from attnprune_verify.audit.mistakes import SENTENCES, explained
from attnprune_verify.audit.record import Diagnosis

_EXPLAINED = 0.25  # of an error: what may be left of it where weights rounded to one side are the mistake; chosen
_USES = {0: "is not used", 2: "is used twice"}


def named(wrong: list[WrongEight]) -> Diagnosis:
    """Return the id of the mistake behind all failures, and what is known in words."""
    if any(failure.kind == "future" for failure in wrong):
        return _of(next((id for failure in wrong for id in _masks(failure)), "scale-leak"))
    if any(not np.isfinite(failure.o).all() for failure in wrong):
        return _of("nan-output", "o")
    if all(not failure.o.any() for failure in wrong):
        return _of("zero-output")
    if any(map(_one_sided, wrong)):
        return _of("biased-rounding")
    kinds = {failure.kind for failure in wrong}
    first = next((failure for failure in wrong if failure.kind == "values" and failure.problem.sample.generic), None)
    if first is not None:
        factor = _factor(first)
        if factor is not None:
            return _of("output-scale", f"factor {factor:.3g}")
        said = next((said for said, sample in _readings(first) if _fits(sample, first.o)), None)
        if said is not None:
            return _of("recipe", said)
    line = next((line for line in _recipes(wrong[0].problem.recipe) if _all_fit(wrong, line)), None)
    said = "" if line is None else _line_of(line)
    if "ones" in kinds and "decoded" not in kinds:
        sums = np.concatenate([failure.o.ravel() for failure in wrong if failure.kind == "ones"])
        sum_of_row = sums[int(np.abs(sums - 1).argmax())]
        return _of("weights-not-normalised", f"v = 1 gives {sum_of_row:.3g}{'; ' if said else ''}{said}")
    if line is not None or first is None:  # right on random numbers: a format has other numbers, or none so small
        return _of("recipe", said)
    return _of("unknown")


def _of(id: str, detail: str = "") -> Diagnosis:
    return Diagnosis((id,), explained(id, detail) if detail else SENTENCES[id])


def _one_sided(failure: WrongEight) -> bool:
    """Return True where weights that were rounded down, or up, explain nearly all of an error."""
    sample, recipe = failure.problem.sample, failure.problem.recipe
    if sample.precision.storage.exact_within is None or recipe.p not in EIGHT_BITS:
        return False
    steps, form = evaluate(sample), EIGHT_BITS[recipe.p]
    weights = steps.p if recipe.rounded == "divided" else steps.p / steps.p.max(axis=-1, keepdims=True)
    weights = recipe.factor * weights
    nearest = form.encoded(weights)
    below = form.decoded(np.where(form.exact(weights) > weights, nearest - 1, nearest))
    above = form.decoded(np.where(form.exact(weights) < weights, nearest + 1, nearest))
    error = np.linalg.norm(failure.o - steps.o)
    for stored in (below, above):
        total = {"before": stored, "after": weights, "divided": recipe.factor * steps.p}[recipe.rounded]
        o = stored @ steps.v / total.sum(axis=-1, keepdims=True)
        if np.linalg.norm(failure.o - o) < _EXPLAINED * error:
            return True
    return False


def _masks(failure: WrongEight) -> Iterator[str]:
    """Yield the id of a wrong causal mask with which the output is right."""
    sample = failure.problem.sample
    if not sample.causal or failure.kind != "values":
        return
    later = np.tri(*sample.shape[3:5], k=1, dtype=bool)
    for id, mask in (("causal-off-by-one", later), ("mask-ignored", None)):
        if _fits(sample.changed(causal=False, mask=mask), failure.o):
            yield id


def _readings(failure: WrongEight) -> Iterator[tuple[str, KernelSample]]:
    """Other readings of the stored numbers: scales left out or used twice, bytes of another format."""
    names = sorted(failure.problem.scales)
    for powers in product((1, 0, 2), repeat=len(names)):
        power = {name: uses for name, uses in zip(names, powers, strict=True) if uses != 1}
        if power:
            said = ", ".join(f"the scale of {name} {_USES[uses]}" for name, uses in power.items())
            yield said, failure.problem.with_scales(power)
    for name in names:
        if failure.problem.scales[name].size > 1:
            yield f"the first scale of {name} is used for all of it", failure.problem.with_first_scale(name)
    for kind in EIGHT_BITS:
        said = "numbers are stored" if failure.problem.recipe.encodes else "bytes are read"
        yield f"{said} as {kind}", failure.problem.read_as(kind)


def _recipes(recipe: Recipe) -> Iterator[Recipe]:
    """Recipes that differ in how weights are stored."""
    for kind, rounded, factor in product((recipe.p, *EIGHT_BITS), ("before", "after", "divided"), (recipe.factor, 1.0)):
        changed = replace(recipe, p=kind, rounded=rounded, factor=factor)
        if changed != recipe:
            yield changed


def _line_of(recipe: Recipe) -> str:
    return f'the results agree with "p": {recipe.as_declared()["p"]!r}'.replace("'", '"')


def _all_fit(wrong: list[WrongEight], recipe: Recipe) -> bool:
    return all(
        _fits(_under(failure.problem.sample, recipe), failure.o)
        for failure in wrong
        if failure.kind in ("ones", "values")
    )


def _under(sample: KernelSample, recipe: Recipe) -> KernelSample:
    """The sample with another recipe, whose weights need not hold what those of its own hold."""
    own = sample.precision.recipe
    storage = sample.precision.storage
    if own is not None and own.p != recipe.p:
        storage = replace(storage, exact_within=None)
    return sample.changed(precision=replace(sample.precision, recipe=recipe, storage=storage))


def _fits(sample: KernelSample, o: Array) -> bool:
    with np.errstate(all="ignore"):
        return judge(FORWARD, sample, (o,)).status != "failed"


def _factor(failure: WrongEight) -> float | None:
    """The constant factor of the output, where without it the output is right."""
    true = truth(failure.problem.sample)["o"].value
    size = float((true * true).sum())
    factor = float((failure.o * true).sum()) / size if size else 0.0
    return factor if factor and _fits(failure.problem.sample, failure.o / factor) else None
