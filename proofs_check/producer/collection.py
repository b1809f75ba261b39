"""Every certificate, in the order of the paper."""

from collections.abc import Iterator

from proofs_check.producer import (
    best_mask,
    convergence,
    mask_gap,
    pl_inequality,
    prose,
    repaired,
    returned_mask,
    sharp_bounds,
    smaller,
    spurious_minimum,
    stationary_point,
)
from proofs_check.producer.document import Document

PARTS = (
    pl_inequality,
    convergence,
    spurious_minimum,
    smaller,
    repaired,
    returned_mask,
    sharp_bounds,
    prose,
    best_mask,
    mask_gap,
    stationary_point,
)


def all_documents() -> Iterator[tuple[str, Document]]:
    for part in PARTS:
        yield from part.documents()
