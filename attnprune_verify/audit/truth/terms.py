"""Does an instance show every term of the formula? A dropped term below the resolution would pass unseen."""

from __future__ import annotations

import numpy as np

from attnprune_verify.audit.truth.formulas import RIGHT, Array
from attnprune_verify.audit.truth.parts import attention_part
from attnprune_verify.audit.truth.reference import reference, spread
from attnprune_verify.audit.truth.samples import Sample
from attnprune_verify.audit.truth.tolerance import resolution_factor

__all__ = ["hidden_terms"]

_ROOM = 10.0


def hidden_terms(function: str, decided: list[Sample]) -> str | None:
    """The name of a term that no decided instance shows well above its resolution, or None."""
    names = set().union(*(_terms(function, sample) for sample in decided)) if decided else set()
    for name in sorted(names):
        if not any(_shows(function, sample, name) for sample in decided):
            return name
    return None


def _shows(function: str, sample: Sample, name: str) -> bool:
    parts = _terms(function, sample).get(name, ())
    truth, noise = reference(function, sample), spread(function, sample)
    room = (1.0 if sample.precision.short else _ROOM) * resolution_factor(sample.unit_roundoff)
    return all(
        np.linalg.norm(part) > room * (noise[index] + sample.unit_roundoff * float(np.linalg.norm(truth[index].value)))
        for index, part in enumerate(parts)
    )


def _terms(function: str, sample: Sample) -> dict[str, tuple[Array, ...]]:
    key = ("terms", function)
    if key not in sample.memo:
        whole = tuple(part.value for part in reference(function, sample))
        attention = attention_part(function, sample, RIGHT)
        terms = {"the attention part": attention}
        if sample.lam > 0 and not function.endswith(("attention", "relative_error")):
            terms["the regulariser"] = tuple(a - b for a, b in zip(whole, attention, strict=True))
        if "gradient" in function or "hessian" in function:
            uncorrected = attention_part(function, sample, {**RIGHT, "p": lambda c, F, dense: c * F})
            terms["the softmax correction"] = tuple(a - b for a, b in zip(attention, uncorrected, strict=True))
        if function == "loss_and_gradient":
            terms["the softmax correction"] = (attention[0], terms["the softmax correction"][1])
        sample.memo[key] = terms
    found: dict[str, tuple[Array, ...]] = sample.memo[key]
    return found
