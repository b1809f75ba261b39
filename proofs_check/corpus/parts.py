"""Every trap of the corpus, made anew from the valid certificates (a sixth of a second)."""

import functools
from types import MappingProxyType

from proofs_check.corpus import (
    in_the_fields,
    in_the_text,
    of_empty_instances,
    of_every_form,
    of_mask_gaps,
    of_masks_and_points,
    of_single_questions,
    of_the_lemma,
    of_the_rest,
    of_the_theorem,
)
from proofs_check.corpus.trap import Trap

_PARTS = {
    "In the text": in_the_text,
    "In common fields and in the notation of numbers": in_the_fields,
    "lem:PL_ineq": of_the_lemma,
    "The main theorem, spurious minima, leaving the box": of_the_theorem,
    "Remarks, thresholds, repaired bounds, prose, misprints": of_the_rest,
    "The best mask, stationary points, the mask of descent": of_masks_and_points,
    "The bound of every mask's divergence": of_mask_gaps,
    "Instances that say nothing": of_empty_instances,
    "Single questions": of_single_questions,
    "What every form has": of_every_form,
}


def parts() -> dict[str, list[Trap]]:
    """Return the traps by the part of the corpus they belong to."""
    return {title: list(part.traps()) for title, part in _PARTS.items()}


@functools.cache
def invalid() -> MappingProxyType[str, bytes]:
    """Return the content of every invalid certificate by its file name, sorted."""
    traps = [trap for part in parts().values() for trap in part]
    found = {f"{trap.name}.json": trap.content for trap in traps}
    if len(found) < len(traps):
        raise ValueError("two traps have the same name")
    return MappingProxyType(dict(sorted(found.items())))
