"""Does an instance show every term of the formula? A dropped term below the resolution would pass unseen."""

from __future__ import annotations

import numpy as np

from attnprune_verify.audit.cases import Case
from attnprune_verify.audit.formulas import RIGHT, Array, attention_part
from attnprune_verify.audit.reference import reference, spread
from attnprune_verify.audit.tolerance import RESOLUTION_FACTOR

__all__ = ["hidden_terms"]

_ROOM = 10.0


def hidden_terms(function: str, decided: list[Case]) -> str | None:
    """The name of a term that no decided instance shows well above its resolution, or None."""
    names = set().union(*(_terms(function, case) for case in decided)) if decided else set()
    for name in sorted(names):
        if not any(_shows(function, case, name) for case in decided):
            return name
    return None


def _shows(function: str, case: Case, name: str) -> bool:
    parts = _terms(function, case).get(name, ())
    truth, noise = reference(function, case), spread(function, case)
    return all(
        np.linalg.norm(part)
        > _ROOM * RESOLUTION_FACTOR * (noise[index] + case.unit_roundoff * float(np.linalg.norm(truth[index].value)))
        for index, part in enumerate(parts)
    )


def _terms(function: str, case: Case) -> dict[str, tuple[Array, ...]]:
    key = ("terms", function)
    if key not in case.memo:
        whole = tuple(part.value for part in reference(function, case))
        attention = attention_part(function, case, RIGHT)
        terms = {"the attention part": attention}
        if case.lam > 0 and function not in ("attention", "relative_error"):
            terms["the regulariser"] = tuple(a - b for a, b in zip(whole, attention, strict=True))
        if "gradient" in function or "hessian" in function:
            uncorrected = attention_part(function, case, {**RIGHT, "p": lambda c, F, dense: c * F})
            terms["the softmax correction"] = tuple(a - b for a, b in zip(attention, uncorrected, strict=True))
        if function == "loss_and_gradient":
            terms["the softmax correction"] = (attention[0], terms["the softmax correction"][1])
        case.memo[key] = terms
    found: dict[str, tuple[Array, ...]] = case.memo[key]
    return found
