"""Every certificate, in the order of the paper."""

from collections.abc import Iterator
from typing import Any

from proofs_check.producer import convergence, pl_inequality, prose, repaired, sharp_bounds, smaller, spurious_minimum

PARTS = (pl_inequality, convergence, spurious_minimum, smaller, repaired, sharp_bounds, prose)


def all_documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for part in PARTS:
        yield from part.documents()
